"""What an output layer learns: when it moves, how far, and what it adds to the outputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from support.networks import compact_network, random_network

from lmzip.network.adaptation import (
    BY_ERRORS,
    BY_FEATURES,
    LARGEST_ERROR,
    MOST,
    ONE,
    WAIT,
    Adaptation,
    Manner,
    can_adapt,
    choose_manner,
)
from lmzip.network.integer_network import IntegerNetwork
from lmzip.order.orders import Order
from lmzip.order.schedule import Schedule, compile_schedule


@pytest.fixture(scope="module")
def network() -> IntegerNetwork:
    return compact_network()


def make_schedule(network: IntegerNetwork, height: int = 9, width: int = 13) -> Schedule:
    return compile_schedule(Order("raster"), height, width, network.layers)


def start(network: IntegerNetwork, manner: Manner = BY_FEATURES) -> Adaptation:
    return Adaptation(network, manner, make_schedule(network, 300, 400))


def draw_features(network: IntegerNetwork, count: int) -> npt.NDArray[np.int64]:
    width = network.out.weight.shape[2]
    return np.random.default_rng(0).integers(0, network.activation_max + 1, (count, width))


def push(adaptation: Adaptation, features: npt.NDArray[np.int64], sign: int) -> None:
    """Let the likelihood rise, or fall, with all outputs of some pixels."""
    outputs = len(adaptation.correct(features))
    errors = np.zeros((3, len(features)), np.int64)
    adaptation.learn(np.full((outputs, len(features)), sign, np.int64), errors)


def test_nothing_changes_before_there_are_enough_pixels(network: IntegerNetwork) -> None:
    adaptation, features = start(network), draw_features(network, WAIT - 1)
    push(adaptation, features, 1)
    assert not adaptation.correct(features).any()
    push(adaptation, features[:1], 1)
    assert adaptation.correct(features).any()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_move_goes_uphill_by_the_rates(network: IntegerNetwork, sign: int) -> None:
    adaptation, features = start(network), draw_features(network, WAIT)
    push(adaptation, features, sign)
    moved = (features.sum(1) + ONE) * sign  # every feature was seen, so every change moved
    counts = np.array([1, 3, 3, 3]) * network.mixtures
    rates = np.repeat(BY_FEATURES.rates, counts)
    expected = (rates[:, None] * moved + (1 << 16)) >> 17
    assert np.array_equal(adaptation.correct(features), expected)


def test_features_that_are_zero_teach_nothing(network: IntegerNetwork) -> None:
    adaptation, features = start(network), np.zeros_like(draw_features(network, WAIT))
    push(adaptation, features, 1)
    constant = (
        np.repeat(BY_FEATURES.rates, np.array([1, 3, 3, 3]) * network.mixtures) * ONE + (1 << 16)
    ) >> 17
    assert np.array_equal(adaptation.correct(features)[:, 0], constant)


def test_changes_end_at_their_bound(network: IntegerNetwork) -> None:
    adaptation, features = start(network), draw_features(network, WAIT)
    for _ in range(MOST // min(BY_FEATURES.rates) + 2):
        push(adaptation, features, 1)
    most = (MOST * (features.sum(1) + ONE) + (1 << 16)) >> 17
    assert np.array_equal(adaptation.correct(features), np.tile(most, (30, 1)))


def test_old_pulls_are_forgotten(network: IntegerNetwork) -> None:
    """After many pulls one way, a few the other way are enough to turn round."""
    adaptation, features = start(network), draw_features(network, WAIT)
    for _ in range(40):
        push(adaptation, features, 1)
    highest = adaptation.correct(features)
    for _ in range(20):
        push(adaptation, features, -1)
    assert (adaptation.correct(features) < highest).all()


def test_errors_are_seen_where_the_first_layer_looks(network: IntegerNetwork) -> None:
    """Whatever pulls at what a pixel saw of an error moves its change, and no other."""
    schedule = make_schedule(network)
    adaptation = Adaptation(network, BY_ERRORS, schedule)
    pixels, outputs = schedule.pixels, len(network.out.weight)
    errors = np.random.default_rng(0).integers(-LARGEST_ERROR, LARGEST_ERROR + 1, (3, pixels))
    grid = np.zeros((11, 17, 3), np.int64)
    row, column = np.divmod(schedule.sequence, 13)
    grid[row + 2, column + 2] = errors.T
    offsets = set(network.first.taps.offsets)
    nothing = np.zeros((1, network.out.weight.shape[2]), np.int64)
    for place in range(pixels):
        adaptation.correct(nothing)
        seen = adaptation._inputs[0, -3 * len(BY_ERRORS.around) :].reshape(-1, 3)
        for (down, right), found in zip(BY_ERRORS.around, seen, strict=True):
            expected = grid[row[place] + 2 + down, column[place] + 2 + right]
            looked_at = (down, right) in offsets
            assert np.array_equal(found, expected if looked_at else np.zeros(3)), (place, down)
        adaptation.learn(np.zeros((outputs, 1), np.int64), errors[:, place : place + 1])


def test_errors_teach(network: IntegerNetwork) -> None:
    """Where outputs should rise if the pixel before had an error, they do."""
    adaptation = start(network, BY_ERRORS)
    features = np.zeros((1, network.out.weight.shape[2]), np.int64)
    outputs, coded = len(network.out.weight), np.full((3, 1), LARGEST_ERROR)
    for _ in range(3 * WAIT):
        before = adaptation.correct(features)
        adaptation.learn(np.ones((outputs, 1), np.int64), coded)
    assert (adaptation.correct(features) > 0).all()
    assert (adaptation.correct(features) >= before).all()


def test_which_networks_can_adapt(network: IntegerNetwork) -> None:
    assert choose_manner(network) == BY_ERRORS
    assert choose_manner(random_network(width=121)) == BY_ERRORS
    assert choose_manner(random_network(width=122)) == BY_FEATURES
    assert choose_manner(random_network(width=127)) == BY_FEATURES
    assert choose_manner(random_network(width=128)) is None
    assert not can_adapt(replace(network, activation_max=ONE), BY_FEATURES)
    assert not can_adapt(replace(network, activation_max=ONE), BY_ERRORS)
