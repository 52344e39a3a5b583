"""Tunings change a network as FORMAT.md says, keep it exact, and are refused where they cannot."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from support.networks import random_network

from lmzip.errors import ModelError
from lmzip.network.integer_network import EXACT, LARGEST_WEIGHT, IntegerNetwork
from lmzip.network.tuning import LayerTuning, Tuning, apply_tuning, list_layers, shape_of_change

NETWORK = random_network()


def draw_tuning(network: IntegerNetwork, spread: float, seed: int = 0) -> Tuning:
    """Return a tuning that changes everything."""
    state = np.random.default_rng(seed)
    layers = []
    for _, layer in list_layers(network):
        changes = {
            kind: np.rint(state.laplace(0, spread, shape_of_change(layer, kind))).astype(np.int64)
            for kind in ("output_gains", "input_gains", "bias", "weight")
        }
        layers.append(LayerTuning(**changes))
    return Tuning(tuple(layers))


def no_change(network: IntegerNetwork) -> Tuning:
    return Tuning(tuple(LayerTuning() for _ in list_layers(network)))


def test_no_change_is_the_same_network() -> None:
    assert apply_tuning(NETWORK, no_change(NETWORK)).fingerprint() == NETWORK.fingerprint()
    zeros = draw_tuning(NETWORK, 1e-9)
    assert apply_tuning(NETWORK, zeros).fingerprint() == NETWORK.fingerprint()


def test_the_arithmetic_is_exact() -> None:
    """Each number as rational arithmetic has it, halved as often as its row was."""
    tuning = draw_tuning(NETWORK, 6.0)
    tuned = apply_tuning(NETWORK, tuning)
    halved = 0
    for (_, old), (_, new), change in zip(
        list_layers(NETWORK), list_layers(tuned), tuning.layers, strict=True
    ):
        assert change.output_gains is not None
        assert change.input_gains is not None
        assert change.weight is not None
        assert change.bias is not None
        for o, t, i in np.ndindex(*old.weight.shape):
            gains = (128 + int(change.output_gains[o])) * (128 + int(change.input_gains[i]))
            exact = round(Fraction(int(old.weight[o, t, i]) * gains, 1 << 14))
            exact += int(change.weight[o, t, i])
            exact = max(-LARGEST_WEIGHT, min(LARGEST_WEIGHT, exact))
            for _ in range(int(old.shift[o]) - int(new.shift[o])):
                exact = round(Fraction(exact, 2))
                halved += 1
            assert new.weight[o, t, i] == exact
        for o in range(len(old.bias)):
            bias = int(old.bias[o]) + (int(change.bias[o]) << int(old.shift[o]))
            for _ in range(int(old.shift[o]) - int(new.shift[o])):
                bias = round(Fraction(bias, 2))
            assert new.bias[o] == bias
    assert halved, "no row came close to the bound: the test does not show how rows are halved"


@pytest.mark.parametrize("seed", range(5))
def test_tuned_networks_are_proved(seed: int) -> None:
    tuned = apply_tuning(NETWORK, draw_tuning(NETWORK, 8.0, seed))
    tuned.prove_exact()
    assert all(
        layer.bounds(tuned.activation_max).max() < EXACT for _, layer in list_layers(tuned)[1:]
    )


def test_hostile_tunings_are_refused() -> None:
    fine = draw_tuning(NETWORK, 2.0)

    def with_change(**changes: object) -> Tuning:
        broken = replace(fine.layers[1], **changes)  # type: ignore[arg-type]
        return Tuning((fine.layers[0], broken, *fine.layers[2:]))

    outputs = len(NETWORK.blocks[0][0].weight)
    with pytest.raises(ModelError, match="layer 1: output_gains has the shape"):
        apply_tuning(NETWORK, with_change(output_gains=np.zeros(outputs + 1, np.int64)))
    with pytest.raises(ModelError, match="layer 1: a gain differs from 1"):
        apply_tuning(NETWORK, with_change(output_gains=np.full(outputs, 5000)))
    with pytest.raises(ModelError, match="layer 1: a bias changes by more than"):
        apply_tuning(NETWORK, with_change(bias=np.full(outputs, 1 << 30)))
    with pytest.raises(ModelError, match="layer 1: sums may reach"):
        apply_tuning(NETWORK, with_change(bias=np.full(outputs, 1 << 24)))
    with pytest.raises(ModelError, match="a tuning of 1 layers for a network of"):
        apply_tuning(NETWORK, Tuning(fine.layers[:1]))
