"""Pixel orders: the sequence in which the pixels of an image are coded.

An order is a permutation of the pixels. It never moves a pixel: it only decides which neighbours
each pixel may see (`masks.py`, the paper's Algorithm 2). Everything downstream works on *ranks*:
an int32 array (height, width) that holds, for each pixel, its place in the order.

Three families fit any rectangle, each in eight variants. A custom order is for a single shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from lmzip.errors import OrderError

Ranks = npt.NDArray[np.int32]  # (height, width)

CUSTOM = "custom"

# A variant's number is stored in files: bit 0 mirrors left and right, bit 1 flips up and down, and
# then bit 2 exchanges rows and columns.
VARIANTS = (
    "plain",
    "mirror",
    "flip",
    "rotate",
    "transpose",
    "transpose-mirror",
    "transpose-flip",
    "transpose-rotate",
)
_MIRROR, _FLIP, _TRANSPOSE = 1, 2, 4


@dataclass(frozen=True)
class Order:
    """An order family in one of its variants, or a custom permutation of one shape.

    `permutation` belongs to custom orders only: the flat indices of the pixels, first to last.
    """

    family: str
    variant: int = 0
    permutation: tuple[int, ...] | None = None

    def __str__(self) -> str:
        return self.family if self.variant == 0 else f"{self.family}:{VARIANTS[self.variant]}"

    def ranks(self, height: int, width: int) -> Ranks:
        """Return the place of each pixel in the order, (height, width) int32.

        Raises OrderError if a custom order does not have height * width entries.
        """
        if self.permutation is not None:
            return _ranks_of_permutation(np.asarray(self.permutation), height, width)
        return _ranks_of_family(self.family, self.variant, height, width)

    def positions(self, height: int, width: int) -> npt.NDArray[np.int64]:
        """Return the flat indices of the pixels, first to last."""
        return np.argsort(self.ranks(height, width), axis=None)


def parse_order(order: str | Order | npt.ArrayLike) -> Order:
    """Read `family`, `family:variant`, or a permutation of the flat pixel indices.

    Raises OrderError for anything else.
    """
    if isinstance(order, Order):
        return order
    if isinstance(order, str):
        family, _, variant = order.partition(":")
        if family not in FAMILIES:
            raise OrderError(f"unknown order {order!r}: choose from {', '.join(FAMILIES)}")
        if (variant or "plain") not in VARIANTS:
            raise OrderError(f"unknown variant in {order!r}: choose from {', '.join(VARIANTS)}")
        return Order(family, VARIANTS.index(variant or "plain"))
    return Order(CUSTOM, permutation=_check_permutation(order))


def all_variants(family: str) -> tuple[Order, ...]:
    """Return the eight variants of a family."""
    return tuple(Order(family, variant) for variant in range(len(VARIANTS)))


def expand_orders(names: Iterable[str]) -> tuple[Order, ...]:
    """Read order names, where "raster:*" stands for the eight variants of raster."""
    orders: list[Order] = []
    for name in names:
        family = name.removesuffix(":*")
        orders += (
            all_variants(parse_order(family).family) if family != name else [parse_order(name)]
        )
    return tuple(orders)


def observed_first(ranks: Ranks, hidden: npt.NDArray[np.bool_]) -> Ranks:
    """Move the hidden pixels behind all the others; both groups keep their sequence.

    This is how a region is completed with all of its surroundings in view (the paper's maximum
    context order). `hidden` is a bool array of the shape of `ranks`.
    """
    if hidden.shape != ranks.shape:
        raise OrderError(f"the hidden region is {hidden.shape}, the image {ranks.shape}")
    sequence = np.lexsort((ranks.ravel(), hidden.ravel()))
    return _invert(sequence).reshape(ranks.shape)


def transform_grid(grid: npt.NDArray[np.generic], variant: int) -> npt.NDArray[np.generic]:
    """Apply a variant's flips and transposition to the last two axes."""
    if variant & _MIRROR:
        grid = grid[..., :, ::-1]
    if variant & _FLIP:
        grid = grid[..., ::-1, :]
    return np.swapaxes(grid, -1, -2) if variant & _TRANSPOSE else grid


def _raster(height: int, width: int) -> Ranks:
    return np.arange(height * width, dtype=np.int32).reshape(height, width)


def _s_curve(height: int, width: int) -> Ranks:
    """Boustrophedon: even rows run right, odd rows run left."""
    ranks = _raster(height, width)
    ranks[1::2] = ranks[1::2, ::-1].copy()
    return ranks


def _hilbert(height: int, width: int) -> Ranks:
    """Hilbert's curve for any rectangle, from the top left corner along one side.

    A walk between the ends of a side exists only if that side is even or the other one odd, so the
    curve runs along the longer side unless only the shorter one allows a walk. (So the transposed
    variants are new orders on squares only.)
    """
    along_width = width >= height
    along, across = (width, height) if along_width else (height, width)
    if along % 2 == 1 and across % 2 == 0:
        along_width = not along_width
    axes = ((0, width), (height, 0)) if along_width else ((height, 0), (0, width))
    walk = np.fromiter(
        (row * width + column for row, column in _walk((0, 0), *axes)), np.int64, height * width
    )
    return _invert(walk).reshape(height, width)


def _walk(
    start: tuple[int, int], along: tuple[int, int], across: tuple[int, int]
) -> Iterator[tuple[int, int]]:
    """Visit a rectangle from `start`, ending at the far end of its side `along`.

    `along` and `across` are axis vectors (rows, columns) whose lengths are the sides.
    """
    row, column = start
    length, breadth = abs(sum(along)), abs(sum(across))
    step, side = _unit(along), _unit(across)
    if breadth == 1:
        yield from ((row + i * step[0], column + i * step[1]) for i in range(length))
        return
    if length == 1:
        yield from ((row + i * side[0], column + i * side[1]) for i in range(breadth))
        return

    half_along, half_across = _half(along), _half(across)
    if 2 * length > 3 * breadth:  # long and thin: two rectangles in a row
        if abs(sum(half_along)) % 2 and length > 2:
            half_along = _add(half_along, step)
        yield from _walk(start, half_along, across)
        yield from _walk(_add(start, half_along), _subtract(along, half_along), across)
        return

    # One step up the side, a long run along it, one step back down: Hilbert's three parts.
    if abs(sum(half_across)) % 2 and breadth > 2:
        half_across = _add(half_across, side)
    yield from _walk(start, half_across, half_along)
    yield from _walk(_add(start, half_across), along, _subtract(across, half_across))
    turn = _add(start, _add(_subtract(along, step), _subtract(half_across, side)))
    yield from _walk(turn, _negate(half_across), _negate(_subtract(along, half_along)))


def _unit(vector: tuple[int, int]) -> tuple[int, int]:
    return (vector[0] > 0) - (vector[0] < 0), (vector[1] > 0) - (vector[1] < 0)


def _half(vector: tuple[int, int]) -> tuple[int, int]:
    """Half of an axis vector, rounded down as floor division does (the turns rely on it)."""
    return vector[0] // 2, vector[1] // 2


def _add(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return a[0] + b[0], a[1] + b[1]


def _subtract(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return a[0] - b[0], a[1] - b[1]


def _negate(vector: tuple[int, int]) -> tuple[int, int]:
    return -vector[0], -vector[1]


_FAMILY_RANKS: dict[str, Callable[[int, int], Ranks]] = {
    "raster": _raster,
    "s-curve": _s_curve,
    "hilbert": _hilbert,
}
FAMILIES = tuple(_FAMILY_RANKS)


@lru_cache(maxsize=64)
def _ranks_of_family(family: str, variant: int, height: int, width: int) -> Ranks:
    shape = (width, height) if variant & _TRANSPOSE else (height, width)
    ranks = np.ascontiguousarray(transform_grid(_FAMILY_RANKS[family](*shape), variant))
    ranks.flags.writeable = False
    return ranks


def _check_permutation(order: npt.ArrayLike) -> tuple[int, ...]:
    """Return a custom order's flat indices; raise OrderError unless each pixel occurs once."""
    try:
        flat = np.asarray(order).ravel()
    except ValueError as error:
        raise OrderError("a custom order cannot have rows of different lengths") from error
    if flat.dtype.kind not in "iu":
        raise OrderError(f"a custom order must hold integers, not {flat.dtype}")
    if flat.size == 0:
        raise OrderError("the custom order has no entries")
    outside = flat[(flat < 0) | (flat >= flat.size)]
    if outside.size:
        raise OrderError(f"the custom order's entry {outside[0]} is not in 0..{flat.size - 1}")
    flat = flat.astype(np.int64)
    times = np.bincount(flat)
    if times.max() > 1:
        pixel = times.argmax()
        raise OrderError(f"in the custom order, entry {pixel} occurs {times[pixel]} times")
    return tuple(flat.tolist())


def _ranks_of_permutation(permutation: npt.NDArray[np.int64], height: int, width: int) -> Ranks:
    if permutation.size != height * width:
        raise OrderError(
            f"the order has {permutation.size} entries, a {height}x{width} image has "
            f"{height * width} pixels"
        )
    return _invert(permutation).reshape(height, width)


def _invert(permutation: npt.NDArray[np.int64]) -> Ranks:
    ranks = np.empty(permutation.size, np.int32)
    ranks[permutation] = np.arange(permutation.size, dtype=np.int32)
    return ranks
