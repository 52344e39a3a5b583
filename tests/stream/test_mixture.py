"""The integer mixture: frequencies that a coder can use, and the likelihood they stand for."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import oracle_streams
from support.networks import random_network, to_oracle

from lmzip.models.quantise import make_tables
from lmzip.network.parameters import Parameters
from lmzip.stream.frequencies import FREQUENCY_TOTAL
from lmzip.stream.mixture import Mixture

K, C = 3, 3
TABLES = make_tables()
EVERY_LEVEL = np.arange(256, dtype=np.int32)


def draw_parameters(count: int, seed: int, *, extreme: bool) -> Parameters:
    """Draw what a network may say of `count` pixels, with values beyond every table if extreme."""
    state = np.random.default_rng(seed)

    def draw(low: int, high: int, *shape: int) -> npt.NDArray[np.int32]:
        return state.integers(low, high, (*shape, count), np.int32, endpoint=True)

    spread = 1 << 20 if extreme else 0
    return Parameters(
        draw(-300 - spread, 300 + spread, K),
        draw(-4096, 20480, C, K) if extreme else draw(3000, 13000, C, K),
        draw(-spread, 600 + spread, C, K) if extreme else draw(100, 450, C, K),
        draw(-4096, 4096, C, K) if extreme else draw(0, 1024, C, K),
    )


def repeat(parameters: Parameters, pixel: int, times: int) -> Parameters:
    """Return one pixel's parameters many times over."""
    names = ("logits", "means", "log_scales", "coefficients")
    parts = (getattr(parameters, name)[..., pixel : pixel + 1] for name in names)
    return Parameters(*(np.repeat(part, times, axis=-1) for part in parts))


def cumulate(less_one: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Turn frequencies less one (16, n) into cumulative ones (17, n)."""
    frequencies = less_one.astype(np.int64) + 1
    return np.concatenate([np.zeros_like(frequencies[:1]), np.cumsum(frequencies, 0)])


@given(seed=st.integers(0, 2**32 - 1), extreme=st.booleans())
@settings(max_examples=40)
def test_intervals_are_the_decoders_frequencies_for_all_values(seed: int, extreme: bool) -> None:
    """Encoder and decoder ask the mixture in different ways, and must hear the same."""
    drawn = draw_parameters(2, seed, extreme=extreme)
    state = np.random.default_rng(seed)
    for pixel in range(2):
        parameters = repeat(drawn, pixel, 256)
        encoder, decoder = Mixture(TABLES, parameters), Mixture(TABLES, parameters)
        for channel in range(C):
            high_interval, low_interval, _ = encoder.intervals(EVERY_LEVEL)
            high, low = EVERY_LEVEL >> 4, EVERY_LEVEL & 15
            place = np.arange(256)
            for cumulative, symbol, interval in (
                (cumulate(decoder.high_frequencies()), high, high_interval),
                (cumulate(decoder.low_frequencies(high)), low, low_interval),
            ):
                assert (np.diff(cumulative, axis=0) >= 1).all()
                assert (cumulative[-1] == FREQUENCY_TOTAL).all()
                assert np.array_equal(cumulative[symbol, place], interval[0])
                assert np.array_equal(cumulative[symbol + 1, place], interval[1])
            seen = np.full(256, state.integers(256), np.int32)
            encoder.observe(channel, seen, channel + 1 < C)
            decoder.observe(channel, seen, channel + 1 < C)


@given(seed=st.integers(0, 2**32 - 1), extreme=st.booleans())
@settings(max_examples=40)
def test_bounds_are_the_oracles(seed: int, extreme: bool) -> None:
    """Means, posterior weights and both nibbles, channel after channel."""
    parameters = draw_parameters(4, seed, extreme=extreme)
    mixture = Mixture(TABLES, parameters)
    network = to_oracle(random_network())
    references = []
    for pixel in range(4):
        kinds = (parameters.logits[None], parameters.means, parameters.log_scales)
        outputs = np.concatenate([*kinds, parameters.coefficients])[:, :, pixel]
        outputs[1 : 1 + C] -= 8160  # the oracle adds mid-grey itself
        references.append(oracle_streams.Mixture(network, outputs.ravel().tolist(), [0] * C))
    samples = np.random.default_rng(seed).integers(0, 256, (C, 4), np.int32)
    for channel, sample in enumerate(samples):
        high = cumulate(mixture.high_frequencies())
        low = cumulate(mixture.low_frequencies(sample >> 4))
        for pixel, reference in enumerate(references):
            reference.begin_channel()
            value = int(sample[pixel])
            assert reference.high_bounds() == high[:, pixel].tolist()
            assert reference.low_bounds(value >> 4) == low[:, pixel].tolist()
            reference.end_channel(value)
        mixture.observe(channel, sample, channel + 1 < C)


def logistic_bins(mean: float, scale: float) -> npt.NDArray[np.float64]:
    """Return the true probabilities of 256 levels under one logistic, the edge bins open."""
    edges = np.concatenate([[-np.inf], np.arange(1, 256) - 0.5, [np.inf]])
    with np.errstate(over="ignore"):
        return np.diff(1 / (1 + np.exp(-(edges - mean) / scale)))


def true_bits(parameters: Parameters, samples: npt.NDArray[np.int32]) -> float:
    """Return -log2 of the joint probability of one pixel's samples (C,), in floating point."""
    logits = parameters.logits[:, 0] / 64
    weights = 2.0 ** (logits - logits.max())
    joint = weights / weights.sum()
    means = parameters.means[..., 0] / 64
    scales = 127.5 * np.exp(parameters.log_scales[..., 0] / 64 - 7)
    pairs = [(e, c) for c in range(C) for e in range(c)]
    for channel, sample in enumerate(samples):
        for k in range(K):
            mean = means[channel, k]
            for index, (earlier, later) in enumerate(pairs):
                if later == channel:
                    coefficient = parameters.coefficients[index, k, 0] / 1024
                    mean += coefficient * (samples[earlier] - means[earlier, k])
            joint[k] *= logistic_bins(float(np.clip(mean, -64, 320)), scales[channel, k])[sample]
    return float(-np.log2(joint.sum()))


def test_cost_is_that_of_the_true_mixture() -> None:
    """The joint likelihood over the channels: so it holds for the posterior weights, too."""
    state, usual = np.random.default_rng(0), 0
    for seed in range(40):
        parameters = draw_parameters(1, seed, extreme=False)
        # Samples near a component's mean, as in images: far out, the tables' tails are coarse.
        near = parameters.means[:, state.integers(K), 0] / 64 + state.normal(0, 2, C)
        samples = np.clip(near, 0, 255).astype(np.int32)
        exact = true_bits(parameters, samples)
        mixture = Mixture(TABLES, parameters)
        cost = coded = 0.0
        for channel in range(C):
            sample = samples[channel : channel + 1]
            high, low, units = mixture.intervals(sample)
            cost += float(units[0]) / 2**16
            coded -= np.log2(float(high[1, 0] - high[0, 0]) / FREQUENCY_TOTAL)
            coded -= np.log2(float(low[1, 0] - low[0, 0]) / FREQUENCY_TOTAL)
            mixture.observe(channel, sample, channel + 1 < C)
        assert cost == pytest.approx(exact, abs=0.02 + 0.01 * exact)
        assert coded <= cost + 0.02  # every symbol has a frequency, so the rarest are cheaper
        if cost < 25:
            assert coded == pytest.approx(cost, abs=0.02)
            usual += 1
    assert usual > 10


def test_costs_of_all_values_add_up_to_one() -> None:
    for seed in range(10):
        mixture = Mixture(TABLES, repeat(draw_parameters(1, seed, extreme=False), 0, 256))
        _, _, cost = mixture.intervals(EVERY_LEVEL)
        assert np.exp2(-cost / 2**16).sum() == pytest.approx(1, abs=2e-3)


def make_parameters(**changes: Any) -> Parameters:
    """Return one pixel's parameters: three equal, narrow logistics at 64, 128 and 192."""
    means = np.array([64, 128, 192], np.int32)[:, None] * 64
    fields = {
        "logits": np.zeros((K, 1), np.int32),
        "means": np.tile(means, (C, 1, 1)),
        "log_scales": np.full((C, K, 1), 100, np.int32),
        "coefficients": np.zeros((C, K, 1), np.int32),
    }
    return Parameters(**{**fields, **changes})


def test_posterior_weights_follow_what_was_seen() -> None:
    """A first sample at one logistic's mean makes the next channel expect that logistic."""
    costs = {}
    for first, second in itertools.product((64, 128, 192), repeat=2):
        mixture = Mixture(TABLES, make_parameters())
        mixture.observe(0, np.array([first], np.int32), True)
        costs[first, second] = int(mixture.intervals(np.array([second], np.int32))[2][0])
    for (first, second), cost in costs.items():
        assert (cost < 6 << 16) == (first == second)


def test_vanished_posterior_keeps_the_prior() -> None:
    """No logistic gives a far sample any probability: then the weights stay as they were."""
    scales = np.zeros((C, K, 1), np.int32)  # the narrowest
    logits = np.array([[0], [-64], [-128]], np.int32)
    parameters = make_parameters(log_scales=scales, logits=logits)
    mixture = Mixture(TABLES, parameters)
    before = mixture.high_frequencies()
    mixture.observe(0, np.array([250], np.int32), True)
    assert np.array_equal(mixture.high_frequencies(), before)
    mixture.observe(1, np.array([192], np.int32), True)
    assert int(mixture.intervals(np.array([192], np.int32))[2][0]) < 1 << 16
    assert int(mixture.intervals(np.array([64], np.int32))[2][0]) > 23 << 16


def test_empty_part_of_the_range_is_shared_evenly() -> None:
    """Where the mixture has no mass at all, all low nibbles are alike and still decodable."""
    parameters = make_parameters(log_scales=np.zeros((C, K, 1), np.int32))
    frequencies = Mixture(TABLES, parameters)
    frequencies.high_frequencies()
    low = frequencies.low_frequencies(np.array([15], np.int32))
    assert (np.diff(low, axis=0) == 0).all()
    assert low.sum() + 16 == FREQUENCY_TOTAL
