"""Tunings as bytes: they come back whole, take about their entropy, and damage is named."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.networks import random_network

from lmzip.container.binary import Writer
from lmzip.container.tuning_block import LARGEST, Group, read_tuning, write_tuning
from lmzip.errors import LmzipError
from lmzip.network.tuning import LayerTuning, Tuning, list_layers, shape_of_change

NETWORK = random_network()
KINDS = ("output_gains", "input_gains", "bias", "weight")


def make_tuning(kinds: list[str], spread: float, step: int, seed: int) -> Tuning:
    state = np.random.default_rng(seed)

    def draw(shape: tuple[int, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return np.rint(state.laplace(0, spread, shape)).astype(np.int64) << step

    layers = [
        LayerTuning(**{kind: draw(shape_of_change(layer, kind)) for kind in kinds})
        for _, layer in list_layers(NETWORK)
    ]
    return Tuning(tuple(layers))


def assert_same(ours: Tuning, theirs: Tuning) -> None:
    for left, right in zip(ours.layers, theirs.layers, strict=True):
        for kind in KINDS:
            a, b = getattr(left, kind), getattr(right, kind)
            if a is None or b is None:  # a group of zeros is not written
                assert not np.any(a) or a is None
                assert not np.any(b) or b is None
            else:
                assert np.array_equal(a, b)


@settings(max_examples=40)
@given(
    kinds=st.lists(st.sampled_from(KINDS), unique=True),
    spread=st.sampled_from([0.01, 0.3, 2.0, 40.0]),
    step=st.integers(0, 5),
    seed=st.integers(0, 100),
)
def test_round_trip(kinds: list[str], spread: float, step: int, seed: int) -> None:
    tuning = make_tuning(kinds, spread, step, seed)
    data = write_tuning(tuning, NETWORK)
    assert_same(read_tuning(data, NETWORK), tuning)


def test_nothing_is_sixteen_bytes() -> None:
    nothing = Tuning(tuple(LayerTuning() for _ in list_layers(NETWORK)))
    assert write_tuning(nothing, NETWORK) == bytes(16)


@pytest.mark.parametrize("spread", [0.3, 2.0, 10.0])
def test_numbers_take_little_more_than_their_entropy(spread: float) -> None:
    tuning = make_tuning(["weight"], spread, 2, 1)
    bits = 0.0
    for role in ("first", "conv", "project", "out"):
        numbers = np.concatenate(
            [
                change.weight.ravel()
                for change, (name, _) in zip(tuning.layers, list_layers(NETWORK), strict=True)
                if name == role and change.weight is not None
            ]
        )
        counts = np.unique(numbers, return_counts=True)[1]
        bits += float((counts * -np.log2(counts / counts.sum())).sum())
    assert len(write_tuning(tuning, NETWORK)) < 1.03 * bits / 8 + 48


def test_every_number_of_a_group_has_an_interval() -> None:
    for group in (Group(1), Group(3, 0, 199, 255), Group(LARGEST, 0, 0, 0)):
        bounds = group.bounds()
        assert bounds[0] == 0
        assert bounds[-1] == 1 << 24
        assert (np.diff(bounds) >= 1).all()


def test_damaged_tunings_are_refused_by_name() -> None:
    data = write_tuning(make_tuning(["bias", "input_gains"], 2.0, 0, 0), NETWORK)
    original = read_tuning(data, NETWORK)
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        try:
            decoded = read_tuning(bytes(damaged), NETWORK)
        except LmzipError:
            continue
        with pytest.raises(AssertionError):
            assert_same(decoded, original)
    writer = Writer()
    writer.varint(LARGEST + 1)
    with pytest.raises(LmzipError, match="numbers up to 4097"):
        read_tuning(bytes(writer.data), NETWORK)
