"""Orders for completion: which regions there are, and what comes last or first."""

from __future__ import annotations

import numpy as np
import pytest

from lmzip.errors import InputError
from lmzip.order.context import (
    adversarial_order,
    completion_order,
    make_regions,
    maximum_context,
)
from lmzip.order.orders import parse_order


@pytest.mark.parametrize(
    ("region", "adversary", "best"),
    [
        ("top", "plain", ["flip", "rotate"]),
        ("left", "transpose", ["transpose-flip", "transpose-rotate"]),
        ("bottom", "flip", ["plain", "mirror"]),
        ("right", "transpose-flip", ["transpose", "transpose-mirror"]),
    ],
)
@pytest.mark.parametrize("shape", [(8, 8), (7, 6), (4, 9)])
def test_orders_for_halves_are_orders_of_the_training(
    region: str, adversary: str, best: list[str], shape: tuple[int, int]
) -> None:
    hidden = make_regions(*shape, [region])[region]
    expected = [parse_order(f"s-curve:{variant}").ranks(*shape) for variant in best]
    for actual, ranks in zip(maximum_context(hidden, 2), expected, strict=True):
        assert np.array_equal(actual, ranks)
    ranks = parse_order(f"s-curve:{adversary}").ranks(*shape)
    assert np.array_equal(adversarial_order(hidden), ranks)


@pytest.mark.parametrize("family", ["raster", "s-curve", "hilbert"])
def test_any_region_comes_last_or_first(family: str) -> None:
    hidden = np.random.default_rng(1).random((7, 6)) < 0.4
    for ranks in maximum_context(hidden, 8, family):
        assert ranks[hidden].min() > ranks[~hidden].max()
    first = adversarial_order(hidden, family)
    assert first[hidden].max() < first[~hidden].min()
    everything = np.ones((7, 6), bool)
    plain = parse_order(family).ranks(7, 6)
    assert np.array_equal(maximum_context(everything, 1, family)[0], plain)
    assert np.array_equal(adversarial_order(everything, family), plain)


def test_halves_are_halves() -> None:
    regions = make_regions(5, 4, ["top", "left", "bottom", "right"])
    assert [int(hidden.sum()) for hidden in regions.values()] == [8, 10, 8, 10]
    assert regions["top"][:2].all()
    assert regions["left"][:, :2].all()
    assert regions["bottom"][3:].all()
    assert regions["right"][:, 2:].all()
    assert list(make_regions(4, 4)) == ["top", "left", "bottom"]


def test_the_centre_is_half_as_high_and_wide() -> None:
    centre = make_regions(8, 12, ["centre"])["centre"]
    assert centre[2:6, 3:9].all()
    assert centre.sum() == 4 * 6
    assert make_regions(1, 1, ["centre"])["centre"].all()


def test_an_unknown_region_is_named() -> None:
    with pytest.raises(InputError, match="unknown region 'middle': choose from top, left"):
        make_regions(4, 4, ["middle"])


def test_halves_are_completed_along_named_orders() -> None:
    regions = make_regions(6, 6, ["top", "right", "centre"])
    assert str(completion_order(regions["top"])) == "s-curve:flip"
    assert str(completion_order(regions["top"], adversarial=True)) == "s-curve"
    assert str(completion_order(regions["right"], "raster")) == "raster:transpose"
    order = completion_order(regions["centre"], "raster")
    assert order.family == "custom"
    (ranks,) = maximum_context(regions["centre"], 1, "raster")
    assert np.array_equal(order.ranks(6, 6), ranks)
