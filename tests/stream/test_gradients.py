"""Gradients in integers point where the likelihood rises, as floats find it by trying."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from lmzip.models.quantise import LOG_SCALE_RANGE, LOG_SCALE_UNIT, make_tables
from lmzip.network.parameters import MEAN_BITS, Parameters
from lmzip.stream.gradients import LARGEST
from lmzip.stream.mixture import Mixture

K, C, COUNT = 3, 3, 300
TABLES = make_tables()
Floats = npt.NDArray[np.float64]
KINDS = ("logits", "means", "log_scales", "coefficients")


def draw_pixels(seed: int = 0) -> tuple[Parameters, npt.NDArray[np.int32]]:
    """Draw mixtures of logistics wider than a level, and samples near their means."""
    state = np.random.default_rng(seed)

    def draw(low: int, high: int, *shape: int) -> npt.NDArray[np.int32]:
        return state.integers(low, high, (*shape, COUNT), np.int32)

    centre = draw(40 * 64, 215 * 64, C, 1)
    parameters = Parameters(
        draw(-100, 100, K), centre + draw(-400, 400, C, K), draw(190, 330, C, K), draw(0, 900, C, K)
    )
    samples = (centre[:, 0] + state.normal(0, 500, (C, COUNT)).astype(np.int32)) >> MEAN_BITS
    return parameters, samples.clip(0, 255).astype(np.int32)


def log_likelihood(parameters: Parameters, samples: npt.NDArray[np.int32]) -> Floats:
    """Return that of each pixel by the formulas that the integers stand for."""
    logits = parameters.logits * (np.log(2) / 64)
    weights = np.exp(logits - logits.max(0))
    likelihood = weights / weights.sum(0)
    means = parameters.means / 64
    for channel in range(C):
        mean, first = means[channel].copy(), channel * (channel - 1) // 2
        for earlier in range(channel):
            residual = samples[earlier] - means[earlier]
            mean += parameters.coefficients[first + earlier] / 1024 * residual
        log_scale = parameters.log_scales[channel] / LOG_SCALE_UNIT + LOG_SCALE_RANGE[0]
        scale = 127.5 * np.exp(log_scale)

        def cdf(edge: Floats, mean: Floats = mean, scale: Floats = scale) -> Floats:
            result: Floats = 1 / (1 + np.exp(-(edge - mean) / scale))
            return result

        likelihood = likelihood * (cdf(samples[channel] + 0.5) - cdf(samples[channel] - 0.5))
    result: Floats = np.log(likelihood.sum(0))
    return result


def find_gradients(parameters: Parameters, samples: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    mixture = Mixture(TABLES, parameters, adapts=True)
    for channel in range(C):
        mixture.observe(channel, samples[channel], channel + 1 < C)
    return mixture.gradients()


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_point_uphill(kind: str) -> None:
    parameters, samples = draw_pixels()
    gradients = dict(zip(KINDS, np.split(find_gradients(parameters, samples),
                                         np.cumsum([K, C * K, C * K])), strict=True))  # fmt: skip
    values = getattr(parameters, kind).astype(np.float64)
    numeric = np.empty(values.shape)
    for place in np.ndindex(values.shape[:-1]):
        slopes = []
        for sign in (1, -1):
            moved = values.copy()
            moved[place] += sign
            changed = replace(parameters, **{kind: moved})
            slopes.append(log_likelihood(changed, samples))
        numeric[place] = (slopes[0] - slopes[1]) / 2
    found = gradients[kind].reshape(numeric.shape).astype(np.float64)
    for place in np.ndindex(numeric.shape[:-1]):
        assert np.corrcoef(found[place], numeric[place])[0, 1] > 0.85, place


def test_channels_that_are_not_coded_have_none() -> None:
    parameters, samples = draw_pixels()
    mixture = Mixture(TABLES, parameters, adapts=True)
    mixture.observe(0, samples[0], False)
    logits, means, log_scales, rest = np.split(mixture.gradients(), np.cumsum([K, C * K, C * K]))
    assert logits.any()
    assert means[:K].any()
    assert log_scales[:K].any()
    assert not means[K:].any()
    assert not log_scales[K:].any()
    assert not rest.any()


def test_gradients_are_bounded() -> None:
    state = np.random.default_rng(1)
    shapes = (K,), (C, K), (C, K), (C, K)
    wild = [state.integers(-(1 << 20), 1 << 20, (*s, COUNT), np.int32) for s in shapes]
    wild[1].clip(-4096, 20480, out=wild[1])
    wild[3].clip(-4096, 4096, out=wild[3])
    samples = state.integers(0, 256, (C, COUNT), np.int32)
    gradients = find_gradients(Parameters(*wild), samples)
    assert np.abs(gradients).max() == LARGEST
