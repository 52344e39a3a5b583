"""The file of one image: header, one chunk per tile and group of channels, checksum.

FORMAT.md, "Image files", describes every byte. This module only writes and reads the parts; what
goes into a chunk is up to `image_writer` and `image_reader`. Most files have one chunk: such a file
is sealed by a single checksum of its bytes and its pixels, and defaults are not written.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lmzip.classical import NETWORK
from lmzip.container import version_1
from lmzip.container.binary import Reader, Writer
from lmzip.container.image_header import Coding, ImageHeader, check_order, check_tiles, read_mode
from lmzip.container.model_reference import (
    read_model,
    read_tuning_field,
    write_model,
    write_tuning_field,
)
from lmzip.container.scaling import read_scalings, write_scalings
from lmzip.container.shared_fields import (
    IMAGE,
    read_metadata,
    read_order,
    read_prelude,
    read_size,
    write_metadata,
    write_order,
    write_prelude,
)
from lmzip.container.tiles import default_grid
from lmzip.cost import from_excess, to_excess
from lmzip.errors import DamagedError, FormatError
from lmzip.order.orders import Order

MIN_CHUNK_BYTES = 6  # method, length, checksum
CHECKSUM_BYTES = 4
# Flags beside the kind of file: no network, and which fields are there. Others are not in use.
_CLASSICAL, _METADATA, _ORDER, _GRID, _TUNING = 4, 8, 16, 32, 64
_OF_NETWORKS = _ORDER | _GRID | _TUNING
_DEFAULT_ORDER = Order("raster")


@dataclass(frozen=True)
class Chunk:
    """A coding method and its bytes."""

    method: int
    data: bytes


def write_image(header: ImageHeader, chunks: Sequence[Chunk], pixel_checksum: int) -> bytes:
    """Return the bytes of an image file; chunks are tile by tile, and group by group in a tile."""
    writer, body = Writer(), Writer()
    for chunk in chunks:
        start = len(body.data)
        body.byte(chunk.method)
        if header.sealed:
            body.raw(chunk.data)
        else:
            body.block(chunk.data)
            body.checksum(start)
    # The header comes last: it states the cost relative to the bytes that follow it.
    checksums = CHECKSUM_BYTES if header.sealed else 2 * CHECKSUM_BYTES
    _write_header(writer, header, len(body.data) + checksums)
    if not header.sealed:
        writer.checksum()
    writer.raw(bytes(body.data))
    closing = close_image(header, writer.data, pixel_checksum)
    writer.raw(closing.to_bytes(CHECKSUM_BYTES, "little"))
    return bytes(writer.data)


def close_image(
    header: ImageHeader, before: bytes | bytearray | memoryview, pixel_checksum: int
) -> int:
    """Return the checksum that closes a file: of the samples, and if sealed of all bytes before.

    In this sequence: after raw samples, their own checksum would cancel what happens to them.
    """
    return zlib.crc32(before, pixel_checksum) if header.sealed else pixel_checksum


def read_image_header(reader: Reader) -> ImageHeader:
    """Read a file up to its first chunk."""
    start = reader.position
    prelude = read_prelude(reader)
    if prelude.kind != IMAGE:
        raise FormatError("this is an archive of several images, not an image")
    if prelude.version == 1:
        return version_1.read_header(reader, start)
    return _read_header(reader, start, prelude.flags)


def read_chunks(
    reader: Reader, header: ImageHeader, is_needed: Callable[[int], bool] = lambda number: True
) -> list[Chunk]:
    """Read all chunks, and check the checksums of those that are needed (by default, all)."""
    count = header.chunks
    if not header.sealed and count * MIN_CHUNK_BYTES > len(reader.data) - reader.position:
        raise DamagedError(f"{count} chunks cannot be in {len(reader.data)} bytes")
    return [
        read_chunk(reader, header, f"chunk {number + 1} of {count}", is_needed(number))
        for number in range(count)
    ]


def read_chunk(reader: Reader, header: ImageHeader, what: str, is_needed: bool = True) -> Chunk:
    """Read one chunk; compare its checksum, if it has one, if it is needed."""
    start = reader.position
    method = reader.byte()
    if header.sealed:
        return Chunk(method, bytes(reader.raw(_rest(reader))))
    data = bytes(reader.block())
    if not is_needed:
        reader.raw(CHECKSUM_BYTES)
        return Chunk(method, data)
    reader.checksum(start, what)
    if header.version == 1 and method == NETWORK:
        data = version_1.read_stream(data)
    return Chunk(method, data)


def read_closing_checksum(reader: Reader) -> int:
    """Read the checksum that closes an image file; nothing may follow."""
    checksum = int.from_bytes(reader.raw(CHECKSUM_BYTES), "little")
    if reader.position != len(reader.data):
        raise FormatError(f"{len(reader.data) - reader.position} bytes follow the end of the image")
    return checksum


def _rest(reader: Reader) -> int:
    """Return how many bytes lie before the checksum at the end."""
    rest = len(reader.data) - CHECKSUM_BYTES - reader.position
    if rest < 0:
        raise DamagedError(f"the file ends at byte {len(reader.data)}, before its checksum")
    return rest


def _write_header(writer: Writer, header: ImageHeader, following: int) -> None:
    """Write everything up to the first checksum or chunk; `following` bytes come after that."""
    coding = header.coding
    flags = _METADATA if header.metadata else 0
    if coding is None:
        flags |= _CLASSICAL
    else:
        flags |= _GRID if header.grid != default_grid(header.height, header.width) else 0
        flags |= _TUNING if coding.model.tuning else 0
        flags |= _ORDER if coding.order != _DEFAULT_ORDER else 0
    write_prelude(writer, IMAGE, flags)
    writer.byte(header.mode.number)
    writer.varint(header.height)
    writer.varint(header.width)
    if coding is not None:
        if flags & _GRID:
            writer.varint(header.grid[0])
            writer.varint(header.grid[1])
        write_model(writer, coding.model)
        if coding.model.tuning is not None:
            write_tuning_field(writer, coding.model.tuning)
        if flags & _ORDER:
            write_order(writer, coding.order)
        write_scalings(writer, coding.scalings)
    if flags & _METADATA:
        write_metadata(writer, header.metadata)
    if coding is not None:
        writer.signed(to_excess(coding.cost, following))


def _read_header(reader: Reader, start: int, flags: int) -> ImageHeader:
    """Read what follows the prelude of a file that begins at `start`."""
    unknown = flags & ~(_CLASSICAL | _METADATA | _OF_NETWORKS)
    if unknown or (flags & _CLASSICAL and flags & _OF_NETWORKS):
        raise FormatError(f"unknown flags {flags} in the header")
    mode = read_mode(reader)
    height, width = read_size(reader)
    grid, coding = (1, 1), None
    metadata: Mapping[str, bytes] = {}
    if not flags & _CLASSICAL:
        grid = default_grid(height, width)
        if flags & _GRID:
            grid = reader.varint(), reader.varint()
        tile_pixels = check_tiles(mode, height, width, grid)
        model, order = read_model(reader), _DEFAULT_ORDER
        if flags & _TUNING:
            model = replace(model, tuning=read_tuning_field(reader))
        if flags & _ORDER:
            order = read_order(reader, tile_pixels)
            check_order(order, grid)
        coding = Coding(model, order, cost=0, scalings=read_scalings(reader, mode))
    if flags & _METADATA:
        metadata = read_metadata(reader)
    if coding is not None:
        excess = reader.signed()
        cost = from_excess(excess, len(reader.data) - reader.position)
        coding = replace(coding, cost=cost)
    header = ImageHeader(mode, height, width, grid, coding, metadata)
    if not header.sealed:
        reader.checksum(start, "the header")
    return header
