"""The file of one image: header, one chunk per tile and group of channels, pixel checksum.

FORMAT.md, "Image files", describes every byte. This module only writes and reads the parts; what
goes into a chunk is the business of `lmzip.compression` and `lmzip.decompression`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lmzip.binary import Reader, Writer
from lmzip.errors import DamagedError, FormatError, VersionError
from lmzip.orders import CUSTOM, Order, parse_order
from lmzip.picture import MAX_SIDE, MODE_NUMBERS, Mode

MAGIC = b"\x89LMZ"
VERSION = 1
IMAGE, ARCHIVE = 1, 2
_JOINED = 1  # header flag: all channels in one classical chunk, no network
_FAMILY_NUMBERS = {"raster": 0, "s-curve": 1, "hilbert": 2, CUSTOM: 255}
_FAMILIES = {number: family for family, number in _FAMILY_NUMBERS.items()}

# The most rows and columns of a tile. Each row of a raster makes a decoder wait a few steps, so low
# tiles are faster: 2 x 250x500 take 5/8 of the steps of 500x500, for 0.05 % more bytes.
TILE = (256, 512)
MAX_TILE_PIXELS = 1 << 26  # a decoder needs memory in proportion; custom orders make large tiles
FINGERPRINT_BYTES = 8  # how much of a model's fingerprint a file carries


@dataclass(frozen=True)
class ModelReference:
    """How a file names its network."""

    name: str
    fingerprint: bytes  # the first bytes of it


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


def choose_grid(height: int, width: int) -> tuple[int, int]:
    """Return the rows and columns of tiles into which lmzip cuts an image."""
    return -(-height // TILE[0]), -(-width // TILE[1])


def tile_bounds(size: int, count: int) -> list[tuple[int, int]]:
    """Cut 0..size into `count` ranges whose lengths differ by at most one."""
    return [tile_bound(size, count, number) for number in range(count)]


def tile_bound(size: int, count: int, number: int) -> tuple[int, int]:
    """Return one of the ranges of `tile_bounds`."""
    return number * size // count, (number + 1) * size // count


def write_prelude(writer: Writer, kind: int) -> None:
    writer.raw(MAGIC)
    writer.byte(VERSION)
    writer.byte(kind)


def read_prelude(reader: Reader) -> int:
    """Return the kind of a file; raises FormatError or VersionError if it is not ours."""
    if bytes(reader.data[:4]) != MAGIC:
        raise FormatError("not an lmz file (the first bytes are wrong)")
    reader.raw(4)
    version, kind = reader.byte(), reader.byte()
    if version != VERSION:
        raise VersionError(f"format version {version}; this release reads version {VERSION}")
    if kind not in (IMAGE, ARCHIVE):
        raise FormatError(f"unknown kind of file {kind}")
    return kind


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
    return _unpack_header(header)


def read_chunks(
    reader: Reader, header: ImageHeader, is_needed: Callable[[int], bool] = lambda number: True
) -> list[Chunk]:
    """Read all chunks; check the checksums of those that are needed, of all unless told."""
    count = header.grid[0] * header.grid[1] * len(header.groups)
    chunks = []
    for number in range(count):
        start = reader.position
        method = reader.byte()
        data = bytes(reader.block())
        if is_needed(number):
            reader.checksum(start, f"chunk {number + 1} of {count}")
        else:
            reader.raw(4)
        chunks.append(Chunk(method, data))
    return chunks


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


def _unpack_header(data: memoryview) -> ImageHeader:
    reader = Reader(data)
    number = reader.byte()
    if number not in MODE_NUMBERS:
        raise FormatError(f"unknown image mode {number}")
    mode = MODE_NUMBERS[number]
    height, width, flags = reader.varint(), reader.varint(), reader.byte()
    check_size(height, width)
    if flags not in (0, _JOINED):
        raise FormatError(f"unknown flags {flags} in the header")
    grid, coding = (1, 1), None
    if not flags & _JOINED:
        if not mode.groups:
            raise FormatError(f"mode {mode.name} cannot be coded by a network")
        grid = reader.varint(), reader.varint()
        if not (0 < grid[0] <= height and 0 < grid[1] <= width):
            raise FormatError(f"a grid of {grid[0]}x{grid[1]} tiles for {height}x{width} pixels")
        if -(-height // grid[0]) * -(-width // grid[1]) > MAX_TILE_PIXELS:
            raise FormatError(
                f"tiles of {height}x{width} / {grid[0]}x{grid[1]} pixels are too large"
            )
        coding = Coding(read_model(reader), read_order(reader), reader.varint())
    return ImageHeader(mode, height, width, grid, coding, read_metadata(reader))


def check_size(height: int, width: int) -> None:
    """Raise FormatError unless an image can have such sides."""
    if not (1 <= height <= MAX_SIDE and 1 <= width <= MAX_SIDE):
        raise FormatError(f"an image of {height}x{width} pixels")


def write_model(writer: Writer, model: ModelReference) -> None:
    writer.block(model.name.encode())
    writer.raw(model.fingerprint)


def read_model(reader: Reader) -> ModelReference:
    try:
        name = str(reader.block(), "utf-8")
    except UnicodeDecodeError as error:
        raise FormatError("the model's name is not UTF-8") from error
    return ModelReference(name, bytes(reader.raw(FINGERPRINT_BYTES)))


def write_order(writer: Writer, order: Order) -> None:
    """Write an order; a custom one as its deflated permutation, 32 bits an entry."""
    writer.byte(_FAMILY_NUMBERS[order.family])
    writer.byte(order.variant)
    if order.permutation is not None:
        entries = np.diff(np.asarray(order.permutation, "<i4"), prepend=np.int32(0))
        writer.block(zlib.compress(entries.astype("<i4").tobytes(), 9))


def read_order(reader: Reader) -> Order:
    number, variant = reader.byte(), reader.byte()
    if number not in _FAMILIES or variant > 7:
        raise FormatError(f"unknown order {number}, variant {variant}")
    if _FAMILIES[number] != CUSTOM:
        return Order(_FAMILIES[number], variant)
    try:
        entries = np.frombuffer(zlib.decompress(reader.block()), "<i4")
        return parse_order(np.cumsum(entries))
    except (zlib.error, ValueError) as error:
        raise DamagedError(f"the stored order is damaged ({error})") from error


def write_metadata(writer: Writer, metadata: Mapping[str, bytes], level: int = 9) -> None:
    """Write tagged blocks, deflated all together at a level of zlib's."""
    blocks = Writer()
    for tag in sorted(metadata):
        blocks.raw(tag.encode("ascii"))
        blocks.block(metadata[tag])
    writer.block(zlib.compress(bytes(blocks.data), level) if metadata else b"")


def read_metadata(reader: Reader) -> dict[str, bytes]:
    packed = reader.block()
    if not len(packed):
        return {}
    try:
        blocks = Reader(zlib.decompress(packed))
        metadata = {}
        while blocks.position < len(blocks.data):
            tag = str(blocks.raw(4), "ascii")
            metadata[tag] = bytes(blocks.block())
    except (zlib.error, UnicodeDecodeError) as error:
        raise DamagedError(f"the metadata is damaged ({error})") from error
    return metadata
