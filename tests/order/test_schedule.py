"""Schedules against the words of FORMAT.md: steps, sequence and neighbours, for every order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import oracle_streams
from support.networks import ALL_ORDERS, compact_network, random_network

from lmzip.network.integer_network import PREDICTOR_TAPS
from lmzip.order.masks import Kernel, make_mask
from lmzip.order.orders import Order, Ranks, observed_first, parse_order
from lmzip.order.schedule import Schedule, Taps, compile_schedule


def taps_of(kernel: Kernel) -> Taps:
    return Taps(tuple(o for o in kernel.offsets() if not (kernel.first and o == (0, 0))))


LAYERS = (
    PREDICTOR_TAPS,
    taps_of(Kernel(5, 5, first=True)),
    taps_of(Kernel(3, 3)),
    taps_of(Kernel(3, 3, dilation=2)),
)
SHAPES = [(1, 1), (1, 7), (7, 1), (2, 2), (6, 9), (9, 6), (8, 8)]


def literal_steps(ranks: Ranks, layers: tuple[Taps, ...]) -> dict[tuple[int, int], int]:
    """FORMAT.md: 0 if a pixel sees no other, else 1 + the largest step of what it sees."""
    height, width = ranks.shape
    steps: dict[tuple[int, int], int] = {}
    pixels = [(r, c) for r in range(height) for c in range(width)]
    for r, c in sorted(pixels, key=lambda pixel: ranks[pixel]):
        around = {(r + i, c + j) for taps in layers for i, j in taps.offsets}
        seen = [steps[q] for q in around if q in steps]  # those before it in the order
        steps[r, c] = 1 + max(seen, default=-1)
    return steps


def check_schedule(schedule: Schedule, ranks: Ranks, layers: tuple[Taps, ...]) -> None:
    height, width = ranks.shape
    steps = literal_steps(ranks, layers)
    expected = sorted(steps, key=lambda pixel: (steps[pixel], ranks[pixel]))
    assert [divmod(index, width) for index in schedule.sequence.tolist()] == expected
    counts = np.bincount(list(steps.values()))
    assert schedule.starts.tolist() == [0, *np.cumsum(counts).tolist()]
    assert schedule.steps == len(counts)
    assert schedule.pixels == height * width

    rank = {(int(r), int(c)): int(ranks[r, c]) for r, c in expected}
    place_of = {pixel: place for place, pixel in enumerate(expected)}
    for taps in layers:
        neighbours = schedule.neighbours[taps]
        farthest = 0
        for place, (r, c) in enumerate(expected):
            around = [(r + i, c + j) for i, j in taps.offsets]
            visible = [rank.get(q, 1 << 30) < rank[r, c] or q == (r, c) for q in around]
            assert neighbours.patterns[neighbours.pattern[place]].tolist() == visible
            for column, tap in enumerate(neighbours.used):
                found = neighbours.places[place, column]
                if visible[tap]:
                    assert found == place_of[around[tap]]
                    assert found <= place
                    farthest = max(farthest, place - found)
                else:
                    assert found == schedule.pixels
        assert neighbours.reach == farthest
        assert neighbours.used == tuple(np.flatnonzero(neighbours.patterns.any(0)))
        frequent = np.bincount(neighbours.pattern)
        assert (frequent[:-1] >= frequent[1:]).all()


@pytest.mark.parametrize("order", ALL_ORDERS, ids=str)
def test_schedules_of_every_order_and_variant(order: Order) -> None:
    for height, width in SHAPES:
        schedule = compile_schedule(order, height, width, LAYERS)
        check_schedule(schedule, order.ranks(height, width), LAYERS)


@given(height=st.integers(1, 7), width=st.integers(1, 7), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_schedules_of_random_permutations(height: int, width: int, seed: int) -> None:
    order = parse_order(np.random.default_rng(seed).permutation(height * width))
    for layers in (LAYERS, LAYERS[:1], (LAYERS[0], LAYERS[3])):
        schedule = compile_schedule(order, height, width, layers)
        check_schedule(schedule, order.ranks(height, width), layers)


def test_schedule_of_an_observed_region() -> None:
    hidden = np.zeros((9, 8), bool)
    hidden[3:6, 2:7] = True
    ranks = observed_first(parse_order("s-curve").ranks(9, 8), hidden)
    order = parse_order(np.argsort(ranks, axis=None))
    check_schedule(compile_schedule(order, 9, 8, LAYERS), ranks, LAYERS)


@pytest.mark.parametrize("order", ALL_ORDERS, ids=str)
def test_steps_are_the_oracles(order: Order) -> None:
    network = random_network()
    offsets = sorted({offset for taps in network.layers for offset in taps.offsets})
    schedule = compile_schedule(order, 11, 13, network.layers)
    ranks = oracle_streams.order_ranks(
        ["raster", "s-curve", "hilbert"].index(order.family), order.variant, 11, 13
    )
    assert ranks == order.ranks(11, 13).ravel().tolist()
    expected = oracle_streams.find_steps(ranks, 11, 13, offsets)
    found = np.split(schedule.sequence, schedule.starts[1:-1])
    assert [step.tolist() for step in found] == expected


@pytest.mark.parametrize(("half_width", "height", "width"), [(1, 20, 30), (2, 17, 40), (3, 12, 12)])
def test_raster_is_a_wavefront(half_width: int, height: int, width: int) -> None:
    """The widest tap sets the slope: W + (k + 1) (H - 1) steps instead of W H."""
    taps = taps_of(Kernel(2 * half_width + 1, 2 * half_width + 1, first=True))
    schedule = compile_schedule(Order("raster"), height, width, (taps,))
    assert schedule.steps == width + (half_width + 1) * (height - 1)
    transposed = compile_schedule(Order("raster", 4), width, height, (taps,))
    assert transposed.steps == schedule.steps


def test_walks_are_sequential() -> None:
    for family in ("s-curve", "hilbert"):
        assert compile_schedule(Order(family), 8, 12, LAYERS).steps == 96


def test_patterns_of_wide_kernels_are_told_apart() -> None:
    """More than 32 taps, so that masks do not fit one key."""
    kernel = Kernel(7, 7)
    taps = taps_of(kernel)
    order = Order("hilbert")
    schedule = compile_schedule(order, 12, 12, (PREDICTOR_TAPS, taps))
    mask = make_mask(order.ranks(12, 12), kernel).reshape(49, -1).T[schedule.sequence]
    neighbours = schedule.neighbours[taps]
    assert np.array_equal(neighbours.patterns[neighbours.pattern], mask)
    assert len(np.unique(neighbours.patterns, axis=0)) == len(neighbours.patterns)


def test_compiling_the_same_twice_is_free() -> None:
    layers = compact_network().layers
    first = compile_schedule(Order("raster"), 6, 5, layers)
    assert compile_schedule(Order("raster"), 6, 5, layers) is first
