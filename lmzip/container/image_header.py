"""What an image file says of its image, whichever version of the format says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lmzip.container.binary import Reader
from lmzip.container.model_reference import ModelReference
from lmzip.container.scaling import Scaling
from lmzip.container.shared_fields import VERSION
from lmzip.container.tiles import MAX_TILE_PIXELS
from lmzip.errors import FormatError
from lmzip.order.orders import Order
from lmzip.picture import MODE_NUMBERS, Mode


@dataclass(frozen=True)
class Coding:
    """What all network chunks of a file have in common; cost is in units of 2^-16 bit.

    scalings: one for each group of channels, if samples are deep
    """

    model: ModelReference
    order: Order
    cost: int
    scalings: tuple[Scaling, ...] = ()


@dataclass(frozen=True)
class ImageHeader:
    """The description of an image. Without `coding`, one classical chunk holds all channels."""

    mode: Mode
    height: int
    width: int
    grid: tuple[int, int]
    coding: Coding | None
    metadata: Mapping[str, bytes]
    version: int = VERSION

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The channels of each chunk of a tile."""
        return self.mode.groups if self.coding else (tuple(range(self.mode.channels)),)

    @property
    def chunks(self) -> int:
        """How many chunks the file has."""
        return self.grid[0] * self.grid[1] * len(self.groups)

    @property
    def sealed(self) -> bool:
        """Whether one checksum covers everything: where there is one chunk."""
        return self.version > 1 and self.chunks == 1

    @property
    def samples(self) -> int:
        """How many samples the image has: the dimensions of `bpd`."""
        return self.height * self.width * self.mode.channels


def read_mode(reader: Reader) -> Mode:
    number = reader.byte()
    if number not in MODE_NUMBERS:
        raise FormatError(f"unknown image mode {number}")
    return MODE_NUMBERS[number]


def check_tiles(mode: Mode, height: int, width: int, grid: tuple[int, int]) -> int:
    """Return the pixels of the largest tile; raises FormatError if a network cannot code them."""
    if not mode.groups:
        raise FormatError(f"mode {mode.name} cannot be coded by a network")
    if not (0 < grid[0] <= height and 0 < grid[1] <= width):
        raise FormatError(
            f"impossible grid of {grid[1]}x{grid[0]} tiles for {width}x{height} pixels"
        )
    pixels = -(-height // grid[0]) * -(-width // grid[1])
    if pixels > MAX_TILE_PIXELS:
        raise FormatError(f"tiles of {height}x{width} / {grid[0]}x{grid[1]} pixels are too large")
    return pixels


def check_order(order: Order, grid: tuple[int, int]) -> None:
    """Raise FormatError for a custom order of several tiles."""
    if order.permutation is not None and grid != (1, 1):
        raise FormatError(f"a custom order for {grid[0]}x{grid[1]} tiles")
