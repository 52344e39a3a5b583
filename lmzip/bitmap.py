"""Bit maps: what every pixel of a picture costs under a network, and how that looks.

The costs are those of the encoder itself, tile by tile as in a file, so they add up to the cost
that the file's header states (FORMAT.md, "Image files"). Colours run from black (free) to white.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmzip.backend import get_backend
from lmzip.codec import encode_images
from lmzip.cost import COST_BITS
from lmzip.errors import InputError
from lmzip.image_file import choose_grid, tile_bounds
from lmzip.orders import Order
from lmzip.picture import Picture
from lmzip.registry import Model
from lmzip.workers import Progress

Bits = npt.NDArray[np.float64]
Colours = npt.NDArray[np.uint8]  # (height, width, 3)

# Rising evenly in lightness, so that equal steps look equal and grey prints keep the sequence.
_STOPS = (
    (0x00, 0x00, 0x0A),
    (0x2B, 0x0F, 0x54),
    (0x79, 0x1C, 0x6D),
    (0xC4, 0x3A, 0x4E),
    (0xF2, 0x79, 0x1E),
    (0xFA, 0xC2, 0x3C),
    (0xFF, 0xFF, 0xE0),
)


@dataclass(frozen=True)
class Tile:
    """A rectangle of a picture: rows and columns, each from a first to before an end."""

    rows: tuple[int, int]
    columns: tuple[int, int]


@dataclass(frozen=True)
class BitMap:
    """The cost of every sample of a picture, (height, width, channels) in units of 2^-16 bit."""

    costs: npt.NDArray[np.int64]
    grid: tuple[int, int]  # rows and columns of tiles
    model: str
    order: Order

    @property
    def pixels(self) -> Bits:
        """The bits of each pixel, (height, width)."""
        return self.costs.sum(2) / 2**COST_BITS

    @property
    def channels(self) -> list[float]:
        """The bits of each channel."""
        return [float(bits) / 2**COST_BITS for bits in self.costs.sum((0, 1))]

    @property
    def total(self) -> float:
        return int(self.costs.sum()) / 2**COST_BITS

    @property
    def bpd(self) -> float:
        return self.total / self.costs.size

    @property
    def tiles(self) -> list[tuple[Tile, float]]:
        """Each tile with its bits, row by row."""
        height, width = self.costs.shape[:2]
        tiles = [
            Tile(rows, columns)
            for rows in tile_bounds(height, self.grid[0])
            for columns in tile_bounds(width, self.grid[1])
        ]
        return [
            (tile, int(self.costs[slice(*tile.rows), slice(*tile.columns)].sum()) / 2**COST_BITS)
            for tile in tiles
        ]


def measure_bits(
    picture: Picture,
    model: Model,
    order: Order,
    *,
    backend: str = "numpy",
    progress: Progress | None = None,
) -> BitMap:
    """Return the cost of every sample of a picture; raises InputError for modes not covered."""
    if not picture.mode.groups:
        raise InputError(f"the network does not code pictures of mode {picture.mode.name}")
    height, width = picture.height, picture.width
    whole = order.permutation is not None  # such an order is one of all pixels
    grid = (1, 1) if whole else choose_grid(height, width)
    costs = np.empty(picture.samples.shape, np.int64)
    bit_map = BitMap(costs, grid, model.name, order)
    done = 0
    for rows in tile_bounds(height, grid[0]):
        for columns in tile_bounds(width, grid[1]):
            place = slice(*rows), slice(*columns)
            for channels in picture.mode.groups:
                plane = np.ascontiguousarray(picture.samples[place][..., channels])
                streams = encode_images(model.network, order, plane[None], get_backend(backend))
                costs[(*place, list(channels))] = streams[0].costs[0]
            done += plane.shape[0] * plane.shape[1]
            if progress:
                progress(done, height * width)
    return bit_map


def choose_top(bits: Bits) -> float:
    """Return a round number of bits that all but the costliest few pixels stay below."""
    high = max(1.0, float(np.quantile(bits, 0.995)))
    step = 10.0 ** np.floor(np.log10(high))
    return float(next(round_ for round_ in step * np.array([1, 2, 3, 4, 5, 6, 8, 10])
                      if round_ >= high))  # fmt: skip


def colour_bits(bits: Bits, top: float) -> Colours:
    """Colour bits (H, W) from 0 to `top`; what is above looks like the top."""
    place = np.clip(bits / top, 0, 1) * (len(_STOPS) - 1)
    stops = np.array(_STOPS, np.float64)
    channels = [np.interp(place, np.arange(len(stops)), stops[:, i]) for i in range(3)]
    return np.rint(np.stack(channels, axis=-1)).astype(np.uint8)
