"""Orders for completion: which regions there are, and what comes last or first."""

from __future__ import annotations

import numpy as np
import pytest

from lmzip.errors import InputError
from lmzip.order.context import adversarial_order, make_regions, maximum_context, name_order
from lmzip.order.orders import all_variants, parse_order


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


@pytest.mark.parametrize("family", ["raster", "s-curve"])
def test_a_variant_gets_its_name_back(family: str) -> None:
    for order in all_variants(family):
        assert name_order(order.ranks(5, 6), family) == order
    hidden = make_regions(6, 6, ["centre"])["centre"]
    (ranks,) = maximum_context(hidden, 1, family)
    order = name_order(ranks, family)
    assert order.family == "custom"
    assert np.array_equal(order.ranks(6, 6), ranks)
