"""Masks agree with a literal transcription of the paper's Algorithm 2."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmzip.order.masks import Kernel, Mask, make_mask, overlap
from lmzip.order.orders import FAMILIES, Order, Ranks, all_variants, parse_order

SIZES = [(3, 3), (5, 5), (7, 7), (3, 5)]
KERNELS = [
    Kernel(height, width, dilation, first)
    for (height, width), dilation, first in itertools.product(SIZES, (1, 2, 3), (True, False))
]


def transcribe_algorithm_2(ranks: Ranks, kernel: Kernel) -> Mask:
    """The paper's loops, line by line, for one input channel."""
    height, width = ranks.shape
    k1, k2, d = kernel.height, kernel.width, kernel.dilation
    generated: set[tuple[int, int]] = set()
    mask = np.zeros((k1 * k2, height * width), bool)
    for i in range(height * width):
        r, c = (int(index[0]) for index in np.nonzero(ranks == i))
        for down in range(-(k1 // 2), k1 // 2 + 1):
            for right in range(-(k2 // 2), k2 // 2 + 1):
                if (r + d * down, c + d * right) in generated:
                    row = k2 * (down + k1 // 2) + right + k2 // 2
                    mask[row, width * r + c] = True
        generated.add((r, c))
    if not kernel.first:
        mask[k1 * k2 // 2] = True
    return mask.reshape(k1 * k2, height, width)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_masks_equal_algorithm_2(family: str, kernel: Kernel) -> None:
    for shape in ((6, 7), (1, 5)):
        ranks = Order(family).ranks(*shape)
        assert np.array_equal(make_mask(ranks, kernel), transcribe_algorithm_2(ranks, kernel))


@pytest.mark.parametrize("order", [o for f in FAMILIES for o in all_variants(f)], ids=str)
def test_masks_of_variants_equal_algorithm_2(order: Order) -> None:
    ranks = order.ranks(5, 6)
    for kernel in (Kernel(3, 3, first=True), Kernel(5, 3, 2)):
        assert np.array_equal(make_mask(ranks, kernel), transcribe_algorithm_2(ranks, kernel))


@settings(max_examples=40)
@given(st.integers(1, 6), st.integers(1, 6), st.sampled_from(KERNELS), st.data())
def test_masks_of_custom_orders_equal_algorithm_2(
    height: int, width: int, kernel: Kernel, data: st.DataObject
) -> None:
    order = parse_order(data.draw(st.permutations(range(height * width))))
    ranks = order.ranks(height, width)
    assert np.array_equal(make_mask(ranks, kernel), transcribe_algorithm_2(ranks, kernel))


@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from(KERNELS), st.data())
def test_of_two_pixels_exactly_one_sees_the_other(
    height: int, width: int, kernel: Kernel, data: st.DataObject
) -> None:
    ranks = parse_order(data.draw(st.permutations(range(height * width)))).ranks(height, width)
    mask = make_mask(ranks, kernel)
    for tap, (down, right) in enumerate(kernel.offsets()):
        here = overlap(down, height), overlap(right, width)
        there = overlap(-down, height), overlap(-right, width)
        if (down, right) != (0, 0):
            assert (mask[tap][here] ^ mask[kernel.taps - 1 - tap][there]).all()
            assert mask[tap].sum() == mask[tap][here].sum()  # nothing outside the image


@given(st.integers(-12, 12), st.integers(1, 9))
def test_overlap_holds_the_places_whose_neighbour_exists(offset: int, size: int) -> None:
    places = list(range(size))[overlap(offset, size)]
    assert places == [p for p in range(size) if 0 <= p + offset < size]


def test_offsets_run_row_by_row_around_the_centre() -> None:
    assert Kernel(1, 3, dilation=2).offsets() == [(0, -2), (0, 0), (0, 2)]
    assert Kernel(3, 1, dilation=1).offsets() == [(-1, 0), (0, 0), (1, 0)]
    assert Kernel(3, 5).taps == 15


def test_kernels_have_a_centre() -> None:
    with pytest.raises(AssertionError, match="centre"):
        Kernel(2, 3)
