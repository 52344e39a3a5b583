"""Bit maps: what every pixel of a picture costs under a network, and how that looks.

The costs are those of the encoder itself, tile by tile as in a file, so they add up to the cost
that the file's header states (FORMAT.md, "Image files"). Colours run from black (free) to white.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmzip.container.tiles import Tile, choose_grid, cut_tiles
from lmzip.cost import COST_BITS, to_bits
from lmzip.errors import InputError
from lmzip.network.backend import get_backend
from lmzip.network.registry import Model
from lmzip.order.orders import Order
from lmzip.picture import Picture
from lmzip.progress import Progress
from lmzip.stream.encoder import encode_images

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
class BitCosts:
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
        return [to_bits(int(cost)) for cost in self.costs.sum((0, 1))]

    @property
    def total(self) -> float:
        return to_bits(int(self.costs.sum()))

    @property
    def bpd(self) -> float:
        return self.total / self.costs.size

    @property
    def tiles(self) -> list[tuple[Tile, float]]:
        """Each tile with its bits, row by row."""
        height, width = self.costs.shape[:2]
        return [
            (tile, to_bits(int(self.costs[tile.slices].sum())))
            for tile in cut_tiles(height, width, self.grid)
        ]


def measure_bits(
    picture: Picture,
    model: Model,
    order: Order,
    *,
    backend: str = "numpy",
    progress: Progress | None = None,
) -> BitCosts:
    """Return the cost of every sample of a picture; raises InputError for modes not covered."""
    if not picture.mode.groups:
        raise InputError(f"the network does not code pictures of mode {picture.mode.name}")
    height, width = picture.height, picture.width
    grid = choose_grid(height, width, order)
    costs = np.empty(picture.samples.shape, np.int64)
    done = 0
    for tile in cut_tiles(height, width, grid):
        for channels in picture.mode.groups:
            plane = np.ascontiguousarray(picture.samples[tile.slices][..., channels])
            streams = encode_images(model.network, order, plane[None], get_backend(backend))
            costs[(*tile.slices, list(channels))] = streams[0].costs[0]
        done += tile.height * tile.width
        if progress:
            progress(done, height * width)
    return BitCosts(costs, grid, model.name, order)


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
