"""Where the bits of a picture go: what every sample costs under a network.

The costs are those of the encoder itself, tile by tile as in a file, so they add up to the cost
that the file's header states (FORMAT.md, "Header").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmzip.container.image_writer import scale_picture
from lmzip.container.tile_coding import choose_adaptation, cut_planes
from lmzip.container.tiles import Tile, choose_grid, cut_tiles
from lmzip.cost import COST_BITS, to_bits
from lmzip.errors import InputError
from lmzip.native.backends import find_backend
from lmzip.network.registry import Choice, Model
from lmzip.options import Options
from lmzip.order.orders import Order
from lmzip.picture import Picture
from lmzip.progress import Progress
from lmzip.stream.encoder import encode_images

Bits = npt.NDArray[np.float64]


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
    adaptive: bool = True,
    backend: str = "auto",
    progress: Progress | None = None,
) -> BitCosts:
    """Return the cost of every sample; raises InputError if no network codes the mode.

    Networks adapt to large tiles unless they are not to be `adaptive`.
    """
    if not picture.mode.groups:
        raise InputError(f"the network does not code pictures of mode {picture.mode.name}")
    costs = np.empty(picture.samples.shape, np.int64)
    done, options, choice = 0, Options(backend=backend), Choice(model, order)
    scalings = scale_picture(picture, choice, options)
    for place, plane, job in cut_planes(picture, choice, scalings, options):
        (stream,) = encode_images(
            model.network,
            order,
            job.images,
            find_backend(backend),
            precision=job.precision,
            manner=choose_adaptation(job) if adaptive else None,
        )
        costs[place] = stream.costs[0]
        done += plane.size
        if progress:
            progress(done // picture.mode.channels, picture.height * picture.width)
    grid = choose_grid(picture.height, picture.width, order)
    return BitCosts(costs, grid, model.name, order)
