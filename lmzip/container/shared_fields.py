"""What image files and archives have in common: prelude, sizes, orders, metadata (FORMAT.md)."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from lmzip.container.binary import Reader, Writer
from lmzip.errors import DamagedError, FormatError, OrderError, VersionError
from lmzip.order.orders import CUSTOM, Order, parse_order
from lmzip.picture import MAX_SIDE

MAGIC = b"\x89LMZ"
VERSION = 2  # what is written; all before are read
IMAGE, ARCHIVE = 1, 2
_KIND_BITS = 3  # the others are flags
MAX_BLOCKS = 256  # of metadata, for one image
_BYTES_OF_ENTRY = 120  # of memory, for each pixel of a custom order while it is read
_FAMILY_NUMBERS = {"raster": 0, "s-curve": 1, "hilbert": 2, CUSTOM: 255}
_FAMILIES = {number: family for family, number in _FAMILY_NUMBERS.items()}


class Prelude(NamedTuple):
    """How a file begins; flags are those of an image file of version 2."""

    version: int
    kind: int
    flags: int


def write_prelude(writer: Writer, kind: int, flags: int = 0) -> None:
    writer.raw(MAGIC)
    writer.byte(VERSION)
    writer.byte(kind | flags)


def read_prelude(reader: Reader) -> Prelude:
    """Read how a file begins; raises FormatError or VersionError if it is not ours."""
    if bytes(reader.data[:4]) != MAGIC:
        raise FormatError("not an lmz file (the first bytes are wrong)")
    reader.raw(4)
    version, byte = reader.byte(), reader.byte()
    if not 1 <= version <= VERSION:
        raise VersionError(f"format version {version}; this release reads versions 1 to {VERSION}")
    kind = byte if version == 1 else byte & _KIND_BITS
    if kind not in (IMAGE, ARCHIVE) or (kind == ARCHIVE and byte != ARCHIVE):
        raise FormatError(f"unknown kind of file {byte}")
    return Prelude(version, kind, byte & ~_KIND_BITS)


def read_size(reader: Reader) -> tuple[int, int]:
    """Read height and width; raises FormatError unless an image can have such sides."""
    height, width = reader.varint(), reader.varint()
    if not (1 <= height <= MAX_SIDE and 1 <= width <= MAX_SIDE):
        raise FormatError(f"impossible image size {width}x{height}")
    reader.limits.check_pixels(height, width)
    return height, width


def write_order(writer: Writer, order: Order) -> None:
    """Write an order; a custom one as its deflated permutation, 32 bits an entry."""
    writer.byte(_FAMILY_NUMBERS[order.family])
    writer.byte(order.variant)
    if order.permutation is not None:
        entries = np.diff(np.asarray(order.permutation, "<i4"), prepend=np.int32(0))
        writer.block(zlib.compress(entries.astype("<i4").tobytes(), 9))


def read_order(reader: Reader, pixels: int) -> Order:
    """Read an order for images or tiles with this many pixels."""
    number, variant = reader.byte(), reader.byte()
    if number not in _FAMILIES or variant > 7:
        raise FormatError(f"unknown order {number}, variant {variant}")
    if _FAMILIES[number] != CUSTOM:
        return Order(_FAMILIES[number], variant)
    reader.limits.check_memory(pixels * _BYTES_OF_ENTRY)
    data = reader.deflated(4 * pixels, "the stored order")
    if variant or len(data) != 4 * pixels:
        raise DamagedError(f"the stored order does not fit an image of {pixels} pixels")
    try:
        return parse_order(np.cumsum(np.frombuffer(data, "<i4")))
    except OrderError as error:
        raise DamagedError(f"the stored order is damaged ({error})") from error


def write_metadata(writer: Writer, metadata: Mapping[str, bytes], level: int = 9) -> None:
    """Write tagged blocks, deflated all together at a level of zlib's."""
    blocks = Writer()
    for tag in sorted(metadata):
        blocks.raw(tag.encode("ascii"))
        blocks.block(metadata[tag])
    writer.block(zlib.compress(bytes(blocks.data), level) if metadata else b"")


def read_metadata(reader: Reader) -> dict[str, bytes]:
    data = reader.deflated(reader.limits.metadata, "the metadata")
    reader.limits.check_metadata(len(data))
    blocks = Reader(data, limits=reader.limits)
    metadata: dict[str, bytes] = {}
    while blocks.position < len(blocks.data):
        if len(metadata) == MAX_BLOCKS:
            raise FormatError(f"more than {MAX_BLOCKS} blocks of metadata")
        try:
            tag = str(blocks.raw(4), "ascii")
        except UnicodeDecodeError as error:
            raise DamagedError(f"the metadata is damaged ({error})") from error
        metadata[tag] = bytes(blocks.block())
    return metadata
