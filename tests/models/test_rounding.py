"""Rounding by second moments: closer to the layer's outputs than rounding to the nearest."""

import numpy as np
import pytest

from lmzip.models.rounding import round_weights


def correlated_inputs(seed: int, inputs: int = 24, samples: int = 4000):
    state = np.random.default_rng(seed)
    mixing = state.normal(size=(inputs, 6)) @ state.normal(size=(6, inputs)) + np.eye(inputs)
    return mixing @ state.normal(size=(inputs, samples)) + state.normal(size=(inputs, 1))


@pytest.mark.parametrize("seed", range(4))
def test_outputs_are_closer_than_those_of_nearest_integers(seed: int) -> None:
    x = correlated_inputs(seed)
    weights = np.random.default_rng(seed + 100).normal(size=(8, len(x))) * 5
    rounded = round_weights(weights, x @ x.T / x.shape[1])
    error = np.square((weights - rounded) @ x).mean()
    nearest = np.square((weights - np.rint(weights)) @ x).mean()
    assert error < 0.5 * nearest
    assert np.abs(weights - rounded).max() < 20  # no weight runs away to mend another


def test_integers_stay_as_they_are() -> None:
    x = correlated_inputs(1)
    weights = np.random.default_rng(0).integers(-50, 50, (5, len(x))).astype(float)
    assert np.array_equal(round_weights(weights, x @ x.T), weights)


def test_inputs_that_are_never_seen_are_rounded_alone() -> None:
    x = correlated_inputs(2)
    x[3] = 0
    weights = np.random.default_rng(0).normal(size=(5, len(x))) * 5
    rounded = round_weights(weights, x @ x.T / x.shape[1])
    assert np.array_equal(rounded[:, 3], np.rint(weights[:, 3]))


def test_nothing_to_see_at_all() -> None:
    weights = np.array([[0.4, -1.6, 2.5]])
    assert np.array_equal(round_weights(weights, np.zeros((3, 3))), np.rint(weights))
