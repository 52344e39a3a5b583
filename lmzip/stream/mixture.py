"""The mixture in integers: from network outputs to the frequencies of each sample's two nibbles.

Each pixel has K logistics per channel, with weights shared by the channels. Everything is integer
arithmetic on numpy integer types (FORMAT.md, "Mixture"); pixels are the innermost axis, since the
work is long rows of small operations. The tables come with the network.

A sample is coded as two symbols of 16: its high nibble, then its low nibble. The mixture's
cumulative function C(b), b = 0..256, with C(256) = 2^31, is needed at 30 places to decode a sample
and at 4 to encode it.

After each channel the weights become posterior weights, w_k p_k(x), because the likelihood is joint
over the channels: leaving that out costs 0.02 bits per dimension.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lmzip.cost import COST_BITS
from lmzip.network.parameters import COEFFICIENT_BITS, MEAN_BITS, MEAN_RANGE, Parameters
from lmzip.network.tables import CDF_BITS, SCALE_BITS, TABLE_SIZE, Tables
from lmzip.stream.frequencies import FREQUENCY_TOTAL
from lmzip.stream.gradients import Gradients

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
UInt32s = npt.NDArray[np.uint32]

LEVELS = 256
NIBBLES = 16
WEIGHT_BITS = 15  # the weights of a pixel add up to 2^15
TOTAL_BITS = WEIGHT_BITS + CDF_BITS
SHARED = FREQUENCY_TOTAL - NIBBLES  # what is left once each of 16 symbols has one unit
LONGEST_COST = 24  # bits: the coder's own resolution bounds what a sample can cost

# Where the boundary below level b lies, (b - 1/2), in units of a mean: those within the range of a
# byte that separate high nibbles, those within a high nibble that separate low ones, and both ends
# of a level. As int32 (J, 1).
_HALF = 1 << (MEAN_BITS - 1)
_HIGH_PLACES = (np.arange(NIBBLES, LEVELS, NIBBLES, dtype=np.int32)[:, None] << MEAN_BITS) - _HALF
_LOW_PLACES = (np.arange(1, NIBBLES, dtype=np.int32)[:, None] << MEAN_BITS) - _HALF
_LEVEL_PLACES = np.array([[-_HALF], [_HALF]], np.int32)
_MEANS = np.int32(MEAN_RANGE[0]), np.int32(MEAN_RANGE[1])  # numpy clips fastest by its own types


class Mixture:
    """The mixture of n pixels, channel after channel.

    For each channel, first ask for intervals, or for the frequencies of its nibbles in turn; then
    call `observe` with the samples.
    """

    def __init__(self, tables: Tables, parameters: Parameters, adapts: bool = False) -> None:
        self._tables = tables
        self._parameters = parameters
        below = parameters.logits.max(0) - parameters.logits
        self._weights = normalise(tables.weight.take(below, mode="clip"))
        self._gradients = Gradients(parameters, self._weights) if adapts else None
        self._residuals: list[Int32s] = []
        self._start_channel(0)

    def _start_channel(self, channel: int) -> None:
        means = self._parameters.means[channel]
        first = channel * (channel - 1) // 2
        for coefficient, residual in zip(
            self._parameters.coefficients[first : first + channel], self._residuals, strict=True
        ):
            shift = coefficient * residual
            shift += 1 << (COEFFICIENT_BITS - 1)
            shift >>= COEFFICIENT_BITS
            means = means + shift
        if channel:  # the first channel's means come clipped
            means.clip(*_MEANS, out=means)
        log_scales = self._parameters.log_scales[channel]
        self._inverse_scales = self._tables.inverse_scale.take(log_scales, mode="clip")
        # Folding the table's middle into the mean saves an addition at every boundary.
        means = means * self._inverse_scales
        means -= np.int32((TABLE_SIZE // 2) << SCALE_BITS)
        self._zero = means
        self._taken: Int32s | None = None  # of the sample: its high nibble

    def _component_cdfs(self, places: Int32s, zero: Int32s) -> UInt32s:
        """Return each logistic's function at `places` (J, n) or (J, 1) beyond `zero`: (J, K, n)."""
        entry = places[:, None, :] * self._inverse_scales
        entry -= zero
        entry >>= SCALE_BITS
        return self._tables.logistic.take(entry, mode="clip")

    def _cdf(self, places: Int32s, zero: Int32s) -> UInt32s:
        """Return C at boundaries strictly inside 0..256: (J, n), at most 2^31."""
        return np.einsum("jkn,kn->jn", self._component_cdfs(places, zero), self._weights)

    def frequencies(self) -> Int32s:
        """Return the frequencies, less one, of the next nibble: (16, n)."""
        if self._taken is None:
            return self.high_frequencies()
        return self.low_frequencies(self._taken)

    def take(self, nibbles: Int32s) -> Int32s:
        """Take in the nibbles (n,) that `frequencies` were for; return the sample so far."""
        self._taken = nibbles if self._taken is None else self._taken << 4 | nibbles
        return self._taken

    def high_frequencies(self) -> Int32s:
        """Return the frequencies, less one, of the high nibble: (16, n)."""
        inner = self._cdf(_HIGH_PLACES, self._zero)
        self._high = _with_ends(inner, 0, 1 << TOTAL_BITS)
        shares = _share(self._high)
        return shares[1:] - shares[:-1]

    def low_frequencies(self, high: Int32s) -> Int32s:
        """Return the frequencies, less one, of the low nibble, given the high one (n,): (16, n)."""
        index = high.size * high + np.arange(high.size)
        start, end = self._high.take(index), self._high.take(index + high.size)
        # Counting places from the high nibble's start keeps them the same for all pixels.
        zero = self._zero - (high << (4 + MEAN_BITS)) * self._inverse_scales
        cdf = _with_ends(self._cdf(_LOW_PLACES, zero), start, end)
        shares = share_within(cdf, start, end)
        return shares[1:] - shares[:-1]

    def intervals(self, samples: Int32s) -> tuple[Int32s, Int32s, Int64s]:
        """Return what the encoder needs of samples (n,), and what they cost.

        The intervals [left, right) of the high and of the low nibble within 2^24, each (2, n), and
        the code lengths (n,) under the mixture itself, in units of 2^-16 bit.
        """
        high, low = samples >> 4, samples & 15
        edges = np.stack([high << 4, (high + 1) << 4, samples, samples + 1])
        cdf = self._cdf((edges << MEAN_BITS) - _HALF, self._zero).astype(np.int64)
        cdf[edges == 0] = 0  # the edge bins are open
        cdf[edges == LEVELS] = 1 << TOTAL_BITS
        start, end = cdf[0], cdf[1]
        ones = np.array([[0], [1]], np.int32)
        high_interval = _share(cdf[:2]) + (high + ones)
        low_interval = share_within(cdf[2:], start, end, low + ones) + (low + ones)
        return (
            high_interval,
            low_interval,
            count_cost(self._tables, cdf[3] - cdf[2], TOTAL_BITS, LONGEST_COST),
        )

    def observe(self, channel: int, samples: Int32s, more: bool) -> None:
        """Take in the samples (n,) of a channel; if `more` follow, move to the next channel."""
        if not more and self._gradients is None:
            return
        below, above = self._ends(samples)
        if self._gradients is not None:
            entries = ((samples << MEAN_BITS) * self._inverse_scales - self._zero) >> SCALE_BITS
            entries = entries.clip(0, TABLE_SIZE - 1) - TABLE_SIZE // 2
            scales = self._inverse_scales
            self._gradients.add_channel(self._weights, below, above, scales, entries)
        self._weights = self._weigh(below, above)
        if more:
            self._residuals.append((samples << MEAN_BITS) - self._parameters.means[channel])
            self._start_channel(channel + 1)

    def gradients(self) -> Int64s:
        """Return how the likelihood rises with each output (outputs, n), after all channels.

        Only of a mixture that was made to adapt.
        """
        assert self._gradients is not None
        return self._gradients.finish(self._weights, self._residuals)

    def errors(self) -> Int64s:
        """Return how far off the samples were predicted, (channels, n), of such a mixture."""
        assert self._gradients is not None
        return self._gradients.errors()

    def _ends(self, samples: Int32s) -> tuple[UInt32s, UInt32s]:
        """Return each logistic's function below and above samples (n,): twice (K, n)."""
        below, above = self._component_cdfs((samples << MEAN_BITS) + _LEVEL_PLACES, self._zero)
        lowest, highest = samples == 0, samples == LEVELS - 1
        if lowest.any():  # the edge bins are open
            below[:, lowest] = 0
        if highest.any():
            above[:, highest] = 1 << CDF_BITS
        return below, above

    def _weigh(self, below: UInt32s, above: UInt32s) -> UInt32s:
        """Return the weights after a channel's samples: the posterior."""
        likelihoods = (above - below) * self._weights  # at most 2^31
        vanished = ~likelihoods.any(0)
        if vanished.any():
            likelihoods[:, vanished] = self._weights[:, vanished]
        return normalise(likelihoods)


def count_cost(tables: Tables, probabilities: Int64s, total_bits: int, longest: int) -> Int64s:
    """Return -log2 of probabilities in units of 2^-total_bits, counted in 2^-16 bit.

    None is longer than `longest` bits.
    """
    floored = np.maximum(probabilities, 1 << (total_bits - longest))
    mantissa, exponent = np.frexp(floored.astype(np.float64))  # exact: they are integers
    entry = ((mantissa - 0.5) * (2 * tables.log2.size)).astype(np.int64)
    return ((total_bits + 1 - exponent.astype(np.int64)) << COST_BITS) - tables.log2[entry]


def normalise(weights: UInt32s | Int64s) -> UInt32s:
    """Scale non-negative weights (K, n) so that each pixel's add up to 2^15 exactly."""
    ends = weights.astype(np.int64)
    for k in range(1, len(ends)):  # cumsum would go through memory pixel by pixel
        ends[k] += ends[k - 1]
    total = ends[-1].copy()
    ends <<= WEIGHT_BITS
    ends //= total
    shares = ends.astype(np.uint32)
    shares[1:] -= shares[:-1]
    return shares


def _share(cdf: Int64s) -> Int32s:
    """Scale C from 2^31 to what 16 symbols share."""
    return ((cdf * SHARED) >> TOTAL_BITS).astype(np.int32)


def share_within(cdf: Int64s, start: Int64s, end: Int64s, places: Int32s | None = None) -> Int32s:
    """Scale C from [start, end] to what 16 symbols share; evenly if the mixture is empty there."""
    empty = start == end
    if empty.any():
        if places is None:
            places = np.arange(NIBBLES + 1, dtype=np.int32)[:, None]
        cdf = np.where(empty, places, cdf - start)
        return (cdf * SHARED // np.where(empty, NIBBLES, end - start)).astype(np.int32)
    return ((cdf - start) * SHARED // (end - start)).astype(np.int32)


def _with_ends(inner: UInt32s, start: Int64s | int, end: Int64s | int) -> Int64s:
    cdf = np.empty((inner.shape[0] + 2, inner.shape[1]), np.int64)
    cdf[0], cdf[1:-1], cdf[-1] = start, inner, end
    return cdf
