"""How the likelihood of samples rises with the outputs they were predicted by (FORMAT.md,
"Adaptation").

For logistic k with the posterior weight r, the cumulative function F from below to above a sample,
the scale s and the distance e of the sample from the mean, the likelihood rises

- with the logit by r less the prior weight;
- with the mean by r s t, where t = F(below) + F(above) - 1, and a mean that later channels start
  from takes a part of theirs;
- with the log-scale by r (e t - 1), as if the sample were much narrower than the logistic;
- with a coefficient by what the mean has, times the earlier channel's residual.

The mean of all t by the weights before the channel is where the sample lies in the mixture, from
below everything to above: the error that the pixels after it get to see.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzip.network.parameters import COEFFICIENT_BITS, Parameters
from lmzip.network.tables import CDF_BITS

Int64s = npt.NDArray[np.int64]
Integers = npt.NDArray[np.integer[Any]]

LARGEST = (1 << 11) - 1  # of a gradient
# One in the units of slopes times the entries of the table for one unit of the logistic.
UNIT = 22_369_622
# What is divided away: only directions matter, and 12 bits are as good as exact ones. Every product
# fits 32 bits, for the kernels' sake.
_LOGIT_BITS, _SLOPE_BITS, _MEAN_BITS, _DISTANCE_BITS, _LOG_SCALE_BITS = 7, 15, 16, 13, 18
_COUPLING_BITS = 6
_ERROR_BITS = 20  # an error is at most 2^10


class Gradients:
    """Gathers, channel by channel, what the gradients of n pixels are made of; all are (K, n)."""

    def __init__(self, parameters: Parameters, prior: Integers) -> None:
        self._parameters, self._prior = parameters, prior.astype(np.int64)
        self._slopes: list[Int64s] = []
        self._errors: list[Int64s] = []
        self._scales: list[Int64s] = []
        self._distances: list[Int64s] = []

    def add_channel(
        self,
        weights: Integers,
        below: Integers,
        above: Integers,
        scales: Integers,
        entries: Integers,
    ) -> None:
        """Take in the weights before a channel, the cumulative functions around its samples, the
        inverse scales, and how many entries of the logistic's table the samples lie beyond its
        middle."""
        slopes = (below.astype(np.int64) + above - (1 << CDF_BITS)) >> 1
        self._slopes.append(slopes)
        self._errors.append(_halve((weights * slopes).sum(0), _ERROR_BITS))
        self._scales.append(scales.astype(np.int64) >> 1)
        self._distances.append(entries.astype(np.int64))

    def errors(self) -> Int64s:
        """Return how far off the samples of all coded channels were predicted: (channels, n)."""
        return np.array(self._errors)

    def finish(self, posterior: Integers, residuals: Sequence[Integers]) -> Int64s:
        """Return the gradients of all outputs, (outputs, n), given the weights after all channels
        and the residuals of the channels that others start from."""
        parameters, weights = self._parameters, posterior.astype(np.int64)
        logits = _halve(weights - self._prior, _LOGIT_BITS)
        means = np.zeros(parameters.means.shape, np.int64)
        log_scales = np.zeros_like(means)
        couplings = np.zeros(parameters.coefficients.shape, np.int64)
        for channel, slope in enumerate(self._slopes):
            pull = _halve(_halve(weights * slope, _SLOPE_BITS) * self._scales[channel], _MEAN_BITS)
            means[channel] = pull
            beyond = _halve(self._distances[channel] * slope - UNIT, _DISTANCE_BITS)
            log_scales[channel] = _halve(weights * beyond, _LOG_SCALE_BITS)
            first = channel * (channel - 1) // 2
            for earlier in range(channel):
                coefficient = parameters.coefficients[first + earlier].astype(np.int64)
                means[earlier] -= _halve(coefficient * pull, COEFFICIENT_BITS)
                residual = residuals[earlier].astype(np.int64)
                couplings[first + earlier] = _halve(pull * residual, _COUPLING_BITS)
        kinds = logits[None], means, log_scales, couplings
        together = np.concatenate(kinds).reshape(-1, weights.shape[1])
        return together.clip(-LARGEST, LARGEST)


def _halve(values: Int64s, bits: int) -> Int64s:
    """Divide by 2^bits and round half up, so that small values are not all drawn downwards."""
    return (values + (1 << (bits - 1))) >> bits
