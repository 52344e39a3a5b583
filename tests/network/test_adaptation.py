"""What an output layer learns: when it moves, how far, and what it adds to the outputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from support.networks import compact_network, random_network

from lmzip.network.adaptation import MOST, ONE, RATES, WAIT, Adaptation, can_adapt
from lmzip.network.integer_network import IntegerNetwork


@pytest.fixture(scope="module")
def network() -> IntegerNetwork:
    return compact_network()


def draw_features(network: IntegerNetwork, count: int) -> npt.NDArray[np.int64]:
    width = network.out.weight.shape[2]
    return np.random.default_rng(0).integers(0, network.activation_max + 1, (count, width))


def push(adaptation: Adaptation, features: npt.NDArray[np.int64], sign: int) -> None:
    """Let the likelihood rise, or fall, with all outputs of some pixels."""
    outputs = len(adaptation.correct(features))
    adaptation.learn(np.full((outputs, len(features)), sign, np.int64))


def test_nothing_changes_before_there_are_enough_pixels(network: IntegerNetwork) -> None:
    adaptation, features = Adaptation(network), draw_features(network, WAIT - 1)
    push(adaptation, features, 1)
    assert not adaptation.correct(features).any()
    push(adaptation, features[:1], 1)
    assert adaptation.correct(features).any()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_move_goes_uphill_by_the_rates(network: IntegerNetwork, sign: int) -> None:
    adaptation, features = Adaptation(network), draw_features(network, WAIT)
    push(adaptation, features, sign)
    moved = (features.sum(1) + ONE) * sign  # every feature was seen, so every change moved
    counts = np.array([1, 3, 3, 3]) * network.mixtures
    rates = np.repeat(RATES, counts)
    expected = (rates[:, None] * moved + (1 << 16)) >> 17
    assert np.array_equal(adaptation.correct(features), expected)


def test_features_that_are_zero_teach_nothing(network: IntegerNetwork) -> None:
    adaptation, features = Adaptation(network), np.zeros_like(draw_features(network, WAIT))
    push(adaptation, features, 1)
    constant = (np.repeat(RATES, np.array([1, 3, 3, 3]) * network.mixtures) * ONE + (1 << 16)) >> 17
    assert np.array_equal(adaptation.correct(features)[:, 0], constant)


def test_changes_end_at_their_bound(network: IntegerNetwork) -> None:
    adaptation, features = Adaptation(network), draw_features(network, WAIT)
    for _ in range(MOST // min(RATES) + 2):
        push(adaptation, features, 1)
    most = (MOST * (features.sum(1) + ONE) + (1 << 16)) >> 17
    assert np.array_equal(adaptation.correct(features), np.tile(most, (30, 1)))


def test_old_pulls_are_forgotten(network: IntegerNetwork) -> None:
    """After many pulls one way, a few the other way are enough to turn round."""
    adaptation, features = Adaptation(network), draw_features(network, WAIT)
    for _ in range(40):
        push(adaptation, features, 1)
    highest = adaptation.correct(features)
    for _ in range(20):
        push(adaptation, features, -1)
    assert (adaptation.correct(features) < highest).all()


def test_which_networks_can_adapt(network: IntegerNetwork) -> None:
    assert can_adapt(network)
    assert can_adapt(random_network(width=127))
    assert not can_adapt(random_network(width=128))
    assert not can_adapt(replace(network, activation_max=ONE))
