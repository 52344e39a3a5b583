"""Orders are permutations, walk where they say they walk, and their variants do what they say."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmzip.errors import OrderError
from lmzip.order.orders import (
    FAMILIES,
    VARIANTS,
    Order,
    Ranks,
    all_variants,
    expand_orders,
    observed_first,
    parse_order,
    transform_grid,
)

sides = st.integers(1, 40)
families = st.sampled_from(FAMILIES)
variants = st.integers(0, len(VARIANTS) - 1)


def steps(order: Order, height: int, width: int) -> npt.NDArray[np.int64]:
    """Return the distance (in rows plus columns) from each pixel of the order to the next."""
    rows, columns = np.divmod(order.positions(height, width), width)
    return np.abs(np.diff(rows)) + np.abs(np.diff(columns))


@given(families, variants, sides, sides)
def test_every_order_is_a_permutation(family: str, variant: int, height: int, width: int) -> None:
    ranks = Order(family, variant).ranks(height, width)
    assert ranks.dtype == np.int32
    assert ranks.shape == (height, width)
    assert np.array_equal(np.sort(ranks, axis=None), np.arange(height * width))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1)])
def test_single_rows_and_columns_run_from_end_to_end(family: str, shape: tuple[int, int]) -> None:
    for order in all_variants(family):
        line = order.ranks(*shape).ravel()
        assert line.tolist() in (list(range(line.size)), list(range(line.size))[::-1])


@pytest.mark.parametrize("family", ["s-curve", "hilbert"])
def test_walks_move_to_a_neighbour_for_every_shape(family: str) -> None:
    for height in range(1, 25):
        for width in range(1, 25):
            assert (steps(Order(family), height, width) == 1).all(), (height, width)


@given(st.sampled_from(["s-curve", "hilbert"]), variants, sides, sides)
def test_variants_of_walks_walk(family: str, variant: int, height: int, width: int) -> None:
    assert (steps(Order(family, variant), height, width) == 1).all()


def test_raster_reads_row_by_row() -> None:
    assert parse_order("raster").ranks(2, 3).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_s_curve_turns_at_the_end_of_each_row() -> None:
    assert parse_order("s-curve").ranks(3, 3).tolist() == [[0, 1, 2], [5, 4, 3], [6, 7, 8]]


@pytest.mark.parametrize("power", [1, 2, 3, 4, 5])
def test_hilbert_fills_each_quarter_of_a_square_before_the_next(power: int) -> None:
    side = 2**power
    ranks = parse_order("hilbert").ranks(side, side)
    for size in (2**p for p in range(1, power + 1)):
        blocks = ranks.reshape(side // size, size, side // size, size).swapaxes(1, 2)
        spans = blocks.max((2, 3)) - blocks.min((2, 3))
        assert (spans == size * size - 1).all()


FIRST_THREE_OF_RASTER = {
    "plain": [(0, 0), (0, 1), (0, 2)],
    "mirror": [(0, 3), (0, 2), (0, 1)],
    "flip": [(2, 0), (2, 1), (2, 2)],
    "rotate": [(2, 3), (2, 2), (2, 1)],
    "transpose": [(0, 0), (1, 0), (2, 0)],
    "transpose-mirror": [(2, 0), (1, 0), (0, 0)],
    "transpose-flip": [(0, 3), (1, 3), (2, 3)],
    "transpose-rotate": [(2, 3), (1, 3), (0, 3)],
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_raster_variants_start_where_their_names_say(variant: str) -> None:
    positions = parse_order(f"raster:{variant}").positions(3, 4)
    assert [divmod(int(p), 4) for p in positions[:3]] == FIRST_THREE_OF_RASTER[variant]


@given(families, sides, sides)
def test_variants_are_reflections_of_the_plain_order(family: str, height: int, width: int) -> None:
    def ranks(variant: str, *shape: int) -> Ranks:
        return parse_order(f"{family}:{variant}").ranks(*shape)

    plain, turned = ranks("plain", height, width), ranks("plain", width, height)
    assert np.array_equal(ranks("mirror", height, width), plain[:, ::-1])
    assert np.array_equal(ranks("flip", height, width), plain[::-1])
    assert np.array_equal(ranks("rotate", height, width), plain[::-1, ::-1])
    assert np.array_equal(ranks("transpose", height, width), turned.T)
    assert np.array_equal(ranks("transpose-mirror", height, width), turned[:, ::-1].T)
    assert np.array_equal(ranks("transpose-flip", height, width), turned[::-1].T)
    assert np.array_equal(ranks("transpose-rotate", height, width), turned[::-1, ::-1].T)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("side", [4, 5])
def test_the_eight_variants_differ_on_a_square(family: str, side: int) -> None:
    seen = {order.ranks(side, side).tobytes() for order in all_variants(family)}
    assert len(seen) == 8


@pytest.mark.parametrize("variant", range(8))
def test_transform_grid_works_on_the_last_two_axes(variant: int) -> None:
    stack = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    single = [transform_grid(grid, variant) for grid in stack]
    assert np.array_equal(transform_grid(stack, variant), np.stack(single))


@given(families, variants)
def test_names_are_read_back(family: str, variant: int) -> None:
    order = Order(family, variant)
    assert parse_order(str(order)) == order
    assert parse_order(order) is order


def test_a_star_stands_for_all_variants() -> None:
    expanded = expand_orders(["s-curve:*", "raster:flip"])
    assert expanded == (*all_variants("s-curve"), parse_order("raster:flip"))
    with pytest.raises(OrderError, match="'spiral'"):
        expand_orders(["spiral:*"])


@given(families, variants, sides, sides)
def test_positions_invert_ranks(family: str, variant: int, height: int, width: int) -> None:
    order = Order(family, variant)
    ranks = order.ranks(height, width).ravel()
    assert np.array_equal(ranks[order.positions(height, width)], np.arange(height * width))


def test_ranks_of_a_family_are_shared_and_cannot_be_changed() -> None:
    ranks = parse_order("hilbert").ranks(6, 5)
    with pytest.raises(ValueError, match="read-only"):
        ranks[0, 0] = 3


@given(st.integers(1, 6), st.integers(1, 6), st.data())
def test_a_custom_order_visits_the_pixels_as_listed(
    height: int, width: int, data: st.DataObject
) -> None:
    permutation = data.draw(st.permutations(range(height * width)))
    order = parse_order(permutation)
    assert order.positions(height, width).tolist() == permutation
    assert order.ranks(height, width).ravel()[permutation[0]] == 0
    assert parse_order(np.array(permutation, np.uint16).reshape(height, width)) == order


def test_a_custom_order_fits_one_number_of_pixels() -> None:
    with pytest.raises(OrderError, match="6 entries, a 2x4 image has 8"):
        parse_order([5, 4, 3, 2, 1, 0]).ranks(2, 4)


@pytest.mark.parametrize(
    ("order", "named"),
    [
        ("spiral", "'spiral'"),
        ("custom", "'custom'"),
        ("", "''"),
        ("raster:upside-down", "'raster:upside-down'"),
        ("Raster", "'Raster'"),
        ([0.0, 1.0], "float64"),
        ([True, False], "bool"),
        (None, "object"),
        ([0, 1, 1], "1 occurs 2 times"),
        ([0, 1, 3], "3 is not in 0..2"),
        ([-1, 0, 1], "-1 is not in 0..2"),
        (np.array([0, 2**64 - 1], np.uint64), "18446744073709551615 is not in 0..1"),
        ([[0, 1], [2]], "rows of different lengths"),
        (np.array([], int), "no entries"),
    ],
)
def test_bad_orders_are_refused_by_name(order: object, named: str) -> None:
    with pytest.raises(OrderError) as refusal:
        parse_order(order)  # type: ignore[arg-type]
    assert named in str(refusal.value)
    assert "\n" not in str(refusal.value)


@given(families, variants, st.integers(1, 12), st.integers(1, 12), st.data())
def test_observed_first_keeps_the_sequence_of_both_groups(
    family: str, variant: int, height: int, width: int, data: st.DataObject
) -> None:
    order = Order(family, variant)
    ranks = order.ranks(height, width)
    count = height * width
    flags = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    hidden = np.array(flags).reshape(height, width)
    moved = observed_first(ranks, hidden)

    assert moved.dtype == np.int32
    sequence = np.argsort(moved, axis=None)
    assert sorted(sequence.tolist()) == list(range(count))
    before = [p for p in order.positions(height, width) if not hidden.flat[p]]
    after = [p for p in order.positions(height, width) if hidden.flat[p]]
    assert sequence.tolist() == before + after


def test_observed_first_needs_a_region_of_the_same_shape() -> None:
    with pytest.raises(OrderError, match=r"\(2, 2\).*\(2, 3\)"):
        observed_first(parse_order("raster").ranks(2, 3), np.zeros((2, 2), bool))
