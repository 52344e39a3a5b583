"""Tiles: the rectangles into which a picture is cut, each coded on its own.

Tiles bound memory, are decoded in parallel, contain damage, and let a region be decoded alone
(FORMAT.md, "Image files").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lmzip.order.orders import Order

# The largest height and width of a tile, unless a file says otherwise (FORMAT.md, "Header"). Each
# row of a raster costs a decoder a few steps, so low tiles are faster: two of 250x500 take 5/8 of
# the steps of 500x500, for 0.05 % more bytes.
DEFAULT_TILE = (256, 512)
TILE = DEFAULT_TILE  # what lmzip makes
MAX_TILE_PIXELS = 1 << 26  # a decoder needs memory in proportion; custom orders make large tiles


@dataclass(frozen=True)
class Tile:
    """A rectangle of a picture: its rows and columns, each as a first one and an end."""

    rows: tuple[int, int]
    columns: tuple[int, int]

    @property
    def height(self) -> int:
        return self.rows[1] - self.rows[0]

    @property
    def width(self) -> int:
        return self.columns[1] - self.columns[0]

    @property
    def slices(self) -> tuple[slice, slice]:
        """The rows and columns as indices of an array."""
        return slice(*self.rows), slice(*self.columns)


def default_grid(height: int, width: int) -> tuple[int, int]:
    """Return the rows and columns of tiles of a picture whose file does not state them."""
    return -(-height // DEFAULT_TILE[0]), -(-width // DEFAULT_TILE[1])


def choose_grid(height: int, width: int, order: Order | None = None) -> tuple[int, int]:
    """Return the rows and columns of tiles into which lmzip cuts a picture.

    A custom order covers all pixels, so such a picture is a single tile.
    """
    if order is not None and order.permutation is not None:
        return 1, 1
    return -(-height // TILE[0]), -(-width // TILE[1])


def cut_tiles(height: int, width: int, grid: tuple[int, int]) -> Iterator[Tile]:
    """Yield the tiles of a picture, row by row."""
    for number in range(grid[0] * grid[1]):
        yield find_tile(height, width, grid, number)


def find_tile(height: int, width: int, grid: tuple[int, int], number: int) -> Tile:
    """Return one of the tiles of `cut_tiles`."""
    row, column = divmod(number, grid[1])
    return Tile(cut_range(height, grid[0], row), cut_range(width, grid[1], column))


def cut_range(size: int, count: int, number: int) -> tuple[int, int]:
    """Cut 0..size into `count` ranges whose lengths differ by at most one; return one of them."""
    return number * size // count, (number + 1) * size // count
