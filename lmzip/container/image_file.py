"""The file of one image: header, one chunk per tile and group of channels, pixel checksum.

FORMAT.md, "Image files", describes every byte. This module only writes and reads the parts; what
goes into a chunk is up to `image_writer` and `image_reader`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lmzip.container.binary import Reader, Writer
from lmzip.container.shared_fields import (
    IMAGE,
    ModelReference,
    read_metadata,
    read_model,
    read_order,
    read_prelude,
    read_size,
    write_metadata,
    write_model,
    write_order,
    write_prelude,
)
from lmzip.container.tiles import MAX_TILE_PIXELS
from lmzip.errors import DamagedError, FormatError
from lmzip.order.orders import Order
from lmzip.picture import MODE_NUMBERS, Mode

MIN_CHUNK_BYTES = 6  # method, length, checksum
_JOINED = 1  # header flag: all channels in one classical chunk, no network


@dataclass(frozen=True)
class Coding:
    """What all network chunks of a file have in common; cost is in units of 2^-16 bit."""

    model: ModelReference
    order: Order
    cost: int


@dataclass(frozen=True)
class ImageHeader:
    """The description of an image. Without `coding`, one classical chunk holds all channels."""

    mode: Mode
    height: int
    width: int
    grid: tuple[int, int]
    coding: Coding | None
    metadata: Mapping[str, bytes]

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The channels of each chunk of a tile."""
        return self.mode.groups if self.coding else (tuple(range(self.mode.channels)),)

    @property
    def samples(self) -> int:
        """How many samples the image has: the dimensions of `bpd`."""
        return self.height * self.width * self.mode.channels


@dataclass(frozen=True)
class Chunk:
    """A coding method and its bytes."""

    method: int
    data: bytes


def write_image(header: ImageHeader, chunks: Sequence[Chunk], pixel_checksum: int) -> bytes:
    """Return the bytes of an image file; chunks are tile by tile, and group by group in a tile."""
    writer = Writer()
    write_prelude(writer, IMAGE)
    writer.block(_pack_header(header))
    writer.checksum()
    for chunk in chunks:
        start = len(writer.data)
        writer.byte(chunk.method)
        writer.block(chunk.data)
        writer.checksum(start)
    writer.raw(pixel_checksum.to_bytes(4, "little"))
    return bytes(writer.data)


def read_image_header(reader: Reader) -> ImageHeader:
    """Read a file up to its first chunk."""
    start = reader.position
    if read_prelude(reader) != IMAGE:
        raise FormatError("this is an archive of several images, not an image")
    header = reader.block()
    reader.checksum(start, "the header")
    return _unpack_header(Reader(header, limits=reader.limits))


def read_chunks(
    reader: Reader, header: ImageHeader, is_needed: Callable[[int], bool] = lambda number: True
) -> list[Chunk]:
    """Read all chunks, and check the checksums of those that are needed (by default, all)."""
    count = header.grid[0] * header.grid[1] * len(header.groups)
    if count * MIN_CHUNK_BYTES > len(reader.data) - reader.position:
        raise DamagedError(f"{count} chunks cannot be in {len(reader.data)} bytes")
    return [
        read_chunk(reader, f"chunk {number + 1} of {count}", is_needed(number))
        for number in range(count)
    ]


def read_chunk(reader: Reader, what: str, is_needed: bool = True) -> Chunk:
    """Read one chunk; compare its checksum if it is needed."""
    start = reader.position
    method = reader.byte()
    data = bytes(reader.block())
    if is_needed:
        reader.checksum(start, what)
    else:
        reader.raw(4)
    return Chunk(method, data)


def read_pixel_checksum(reader: Reader) -> int:
    """Read the checksum that closes an image file; nothing may follow."""
    checksum = int.from_bytes(reader.raw(4), "little")
    if reader.position != len(reader.data):
        raise FormatError(f"{len(reader.data) - reader.position} bytes follow the end of the image")
    return checksum


def _pack_header(header: ImageHeader) -> bytes:
    writer = Writer()
    writer.byte(header.mode.number)
    writer.varint(header.height)
    writer.varint(header.width)
    writer.byte(0 if header.coding else _JOINED)
    if header.coding:
        writer.varint(header.grid[0])
        writer.varint(header.grid[1])
        write_model(writer, header.coding.model)
        write_order(writer, header.coding.order)
        writer.varint(header.coding.cost)
    write_metadata(writer, header.metadata)
    return bytes(writer.data)


def _unpack_header(reader: Reader) -> ImageHeader:
    number = reader.byte()
    if number not in MODE_NUMBERS:
        raise FormatError(f"unknown image mode {number}")
    mode = MODE_NUMBERS[number]
    (height, width), flags = read_size(reader), reader.byte()
    if flags not in (0, _JOINED):
        raise FormatError(f"unknown flags {flags} in the header")
    grid, coding = (1, 1), None
    if not flags & _JOINED:
        if not mode.groups:
            raise FormatError(f"mode {mode.name} cannot be coded by a network")
        grid = reader.varint(), reader.varint()
        if not (0 < grid[0] <= height and 0 < grid[1] <= width):
            raise FormatError(
                f"impossible grid of {grid[1]}x{grid[0]} tiles for {width}x{height} pixels"
            )
        tile_pixels = -(-height // grid[0]) * -(-width // grid[1])
        if tile_pixels > MAX_TILE_PIXELS:
            raise FormatError(
                f"tiles of {height}x{width} / {grid[0]}x{grid[1]} pixels are too large"
            )
        model, order = read_model(reader), read_order(reader, tile_pixels)
        if order.permutation is not None and grid != (1, 1):
            raise FormatError(f"a custom order for {grid[0]}x{grid[1]} tiles")
        coding = Coding(model, order, reader.varint())
    return ImageHeader(mode, height, width, grid, coding, read_metadata(reader))
