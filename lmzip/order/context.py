"""Orders for completion: a hidden region of an image, and what its pixels get to see.

A maximum-context order visits the observed pixels first, so that each hidden pixel may see all of
them (the paper's section on completion). An adversarial order visits the hidden ones first, so that
they see none. Both are variants of a family, rearranged only as far as the region demands: if the
region is half of the image, they are variants as they stand, which networks are trained with.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from lmzip.errors import InputError
from lmzip.order.orders import Order, Ranks, all_variants, observed_first, parse_order

RegionMask = npt.NDArray[np.bool_]  # (height, width), true where a pixel is hidden

REGIONS = ("top", "left", "bottom", "right", "centre")


def make_regions(
    height: int, width: int, names: Iterable[str] = ("top", "left", "bottom")
) -> dict[str, RegionMask]:
    """Return hidden regions by name: a half of the image, or "centre", half as high and as wide.

    Raises InputError for another name, or if the image is too small to have such a part.
    """
    places = {
        "top": np.s_[: height // 2, :],
        "left": np.s_[:, : width // 2],
        "bottom": np.s_[height - height // 2 :, :],
        "right": np.s_[:, width - width // 2 :],
        "centre": np.s_[height // 4 : height - height // 4, width // 4 : width - width // 4],
    }
    regions = {}
    for name in names:
        if name not in places:
            raise InputError(f"unknown region {name!r}: choose from {', '.join(REGIONS)}")
        regions[name] = np.zeros((height, width), bool)
        regions[name][places[name]] = True
    return regions


def maximum_context(hidden: RegionMask, count: int, family: str = "s-curve") -> list[Ranks]:
    """Return `count` orders that visit the observed pixels first, the latest at the region first.

    They are variants of the family, those that come to the hidden pixels latest.
    """
    return [observed_first(ranks, hidden) for ranks in _latest_first(hidden, family)[:count]]


def adversarial_order(hidden: RegionMask, family: str = "s-curve") -> Ranks:
    """Return an order that visits the hidden pixels first, from the far side of the image."""
    return observed_first(_latest_first(~hidden, family)[0], ~hidden)


def completion_order(
    hidden: RegionMask, family: str = "s-curve", *, adversarial: bool = False
) -> Order:
    """Return the order for a region: of maximum context, or adversarial to compare it with.

    It is a variant of the family if one will do, as for halves, or else an order of its own.
    """
    best = maximum_context(hidden, 1, family)[0]
    ranks = adversarial_order(hidden, family) if adversarial else best
    for order in all_variants(parse_order(family).family):
        if np.array_equal(order.ranks(*ranks.shape), ranks):
            return order
    return parse_order(np.argsort(ranks, axis=None))


def _latest_first(hidden: RegionMask, family: str) -> list[Ranks]:
    """Return the variants of a family, those that come to the hidden pixels latest first."""
    variants = [order.ranks(*hidden.shape) for order in all_variants(parse_order(family).family)]
    return sorted(variants, key=lambda ranks: -int(ranks[hidden].sum(dtype=np.int64)))
