"""The mixture of deep samples: finer and finer cells of the same function (FORMAT.md).

Like `lmzip.stream.mixture`, with these differences. Means and boundaries are in units of 2^-12 of a
level, and the logistic function is interpolated between the entries of its table, since cells may
be narrower than those are apart. A sample has as many symbols as it has nibbles, the most
significant first; each is coded by the mixture's function C within the cell that the earlier ones
leave. And where all neighbours of a pixel agree, a part of the probability goes to what they are:
no network tells a constant area from one that is nearly constant, 16 bits deep.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lmzip.network.deep import FRACTION_BITS
from lmzip.network.parameters import COEFFICIENT_BITS, MEAN_RANGE, Parameters
from lmzip.network.tables import CDF_BITS, SCALE_BITS, TABLE_SIZE, Tables
from lmzip.stream.mixture import NIBBLES, WEIGHT_BITS, count_cost, normalise, share_within
from lmzip.stream.precision import PLAIN_SHARPNESS, RANGE_BITS, Precision

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

BETWEEN_BITS = 8  # of the place between two entries of the table of the logistic function
FINE_BITS = CDF_BITS + BETWEEN_BITS  # the logistic function ends at 2^24
TOTAL_BITS = WEIGHT_BITS + FINE_BITS  # and the mixture's at 2^39
LONGEST_COST = 32  # bits
_HALF_LEVEL = 1 << (RANGE_BITS - 9)
_MEANS = tuple(bound << FRACTION_BITS for bound in MEAN_RANGE)
# (boundary - mean) * inverse scale, shifted by this, is in units of 2^-8 entry.
_ENTRY_SHIFT = FRACTION_BITS + SCALE_BITS - BETWEEN_BITS
_LAST_ENTRY = (TABLE_SIZE - 1) << BETWEEN_BITS


class DeepMixture:
    """The mixture of n pixels, channel after channel.

    agreed: what all neighbours of each pixel agree on, (channels, n), or -1 if they do not. For
    each channel, ask for the frequencies of its symbols in turn, or for its intervals, and then
    call `observe` with the samples.
    """

    def __init__(
        self, tables: Tables, parameters: Parameters, precision: Precision, agreed: Int32s
    ) -> None:
        self._tables, self._parameters, self._precision = tables, parameters, precision
        self._boundaries, self._agreed = precision.boundaries, agreed
        self._levels = 1 << precision.depth
        sharper = tables.inverse_scale.astype(np.int64) * precision.sharpness // PLAIN_SHARPNESS
        self._scales = np.maximum(sharper, 1)
        self._logistic = tables.logistic.astype(np.int64)
        self._rises = np.diff(self._logistic, append=self._logistic[-1])
        below = parameters.logits.max(0) - parameters.logits
        self._weights = normalise(tables.weight.take(below, mode="clip")).astype(np.int64)
        self._residuals: list[Int64s] = []
        self._start_channel(0)

    def _start_channel(self, channel: int) -> None:
        self._channel = channel
        means = self._parameters.means[channel].astype(np.int64)
        first = channel * (channel - 1) // 2
        for coefficient, residual in zip(
            self._parameters.coefficients[first : first + channel], self._residuals, strict=True
        ):
            means += (coefficient * residual + (1 << COEFFICIENT_BITS >> 1)) >> COEFFICIENT_BITS
        self._means = means.clip(*_MEANS)
        log_scales = self._parameters.log_scales[channel]
        self._inverse_scales = self._scales.take(log_scales, mode="clip")
        count = self._agreed.shape[1]
        self._taken = np.zeros(count, np.int64)  # of the sample: its first nibbles
        self._start, self._end = np.zeros(count, np.int64), np.full(count, 1 << TOTAL_BITS)
        self._symbol = 0

    def _component_cdfs(self, samples: Int64s) -> Int64s:
        """Return each logistic's function below samples (J, n): (J, K, n), at most 2^24."""
        ends = self._boundaries.take(samples, mode="clip").astype(np.int64) - _HALF_LEVEL
        entry = (ends[:, None, :] - self._means) * self._inverse_scales
        entry >>= _ENTRY_SHIFT
        entry += TABLE_SIZE // 2 << BETWEEN_BITS
        entry.clip(0, _LAST_ENTRY, out=entry)
        between = entry & ((1 << BETWEEN_BITS) - 1)
        entry >>= BETWEEN_BITS
        cdfs = (self._logistic[entry] << BETWEEN_BITS) + self._rises[entry] * between
        cdfs[np.broadcast_to((samples <= 0)[:, None, :], cdfs.shape)] = 0  # the ends are open
        beyond = (samples >= self._levels)[:, None, :]
        cdfs[np.broadcast_to(beyond, cdfs.shape)] = 1 << FINE_BITS
        return cdfs

    def _cdf(self, samples: Int64s) -> Int64s:
        """Return C below samples (J, n): (J, n), at most 2^39."""
        cdf = np.einsum("jkn,kn->jn", self._component_cdfs(samples), self._weights)
        flatness = self._precision.flatness
        agreed = self._agreed[self._channel]
        if flatness and (agreed >= 0).any():
            flat = (
                cdf - (cdf * flatness >> 16) + (samples > agreed) * (flatness << (TOTAL_BITS - 16))
            )
            cdf = np.where(agreed >= 0, flat, cdf)
        return cdf

    def _width_bits(self, symbol: int) -> int:
        """Return how many bits of a sample follow a symbol."""
        return 4 * (self._precision.symbols - 1 - symbol)

    def frequencies(self) -> Int32s:
        """Return the frequencies, less one, of the next symbol: (16, n)."""
        nibbles = np.arange(NIBBLES + 1)[:, None]
        samples = (self._taken * NIBBLES + nibbles) << self._width_bits(self._symbol)
        self._cells = self._cdf(samples)
        shares = share_within(self._cells, self._start, self._end)
        return shares[1:] - shares[:-1]

    def take(self, nibbles: Int32s) -> Int32s:
        """Take in the nibbles (n,) that `frequencies` were for; return the sample so far."""
        index = nibbles[None].astype(np.intp)
        self._start = np.take_along_axis(self._cells, index, 0)[0]
        self._end = np.take_along_axis(self._cells, index + 1, 0)[0]
        self._taken = self._taken * NIBBLES + nibbles
        self._symbol += 1
        return self._taken.astype(np.int32)

    def intervals(self, samples: Int32s) -> tuple[Any, ...]:
        """Return what the encoder needs of samples (n,), and what they cost.

        The intervals [left, right) of each nibble within 2^24, each (2, n), and the code lengths
        (n,) under the mixture itself, in units of 2^-16 bit.
        """
        wide = samples.astype(np.int64)
        ones = np.array([[0], [1]], np.int64)
        start, end = np.zeros_like(wide), np.full_like(wide, 1 << TOTAL_BITS)
        found = []
        for symbol in range(self._precision.symbols):
            bits = self._width_bits(symbol)
            cell, nibble = wide >> bits, (wide >> bits) % NIBBLES
            cdf = self._cdf((cell + ones) << bits)
            places = (nibble + ones).astype(np.int32)
            found.append(share_within(cdf, start, end, places) + places)
            start, end = cdf
        return *found, count_cost(self._tables, end - start, TOTAL_BITS, LONGEST_COST)

    def observe(self, channel: int, samples: Int32s, more: bool) -> None:
        """Take in the samples (n,) of a channel; if `more` follow, move to the next channel."""
        if not more:
            return
        known = np.minimum(samples, self._levels - 1).astype(np.int64)
        below, above = self._component_cdfs(np.stack([known, known + 1]))
        likelihoods = (above - below) * self._weights
        vanished = ~likelihoods.any(0)
        likelihoods[:, vanished] = self._weights[:, vanished]
        self._weights = normalise(likelihoods).astype(np.int64)
        # Where this channel is not what the neighbours agree on, neither are the next ones.
        self._agreed = np.where(self._agreed[channel] == known, self._agreed, -1)
        means = self._parameters.means[channel]
        self._residuals.append(self._precision.centres[known].astype(np.int64) - means)
        self._start_channel(channel + 1)
