"""What version 1 of the format has otherwise (FORMAT.md, "Version 1"): read for ever, not written.

Everything is said in full: grid, order and the model's name, with a checksum for the header and one
for each chunk. Streams are whole words; the readers get them as version 2 has them.
"""

from __future__ import annotations

from lmzip.container.binary import Reader
from lmzip.container.image_header import Coding, ImageHeader, check_order, check_tiles, read_mode
from lmzip.container.model_reference import read_named_model
from lmzip.container.shared_fields import read_metadata, read_order, read_size
from lmzip.errors import DamagedError, FormatError

_JOINED = 1  # header flag: all channels in one classical chunk, no network


def read_header(reader: Reader, start: int) -> ImageHeader:
    """Read the header of an image file that begins at `start`, from the end of its prelude on."""
    block = reader.block()
    reader.checksum(start, "the header")
    fields = Reader(block, limits=reader.limits)
    mode = read_mode(fields)
    (height, width), flags = read_size(fields), fields.byte()
    if flags not in (0, _JOINED):
        raise FormatError(f"unknown flags {flags} in the header")
    grid, coding = (1, 1), None
    if not flags & _JOINED:
        if mode.deep:
            raise FormatError(f"mode {mode.name} cannot be coded by a network in version 1")
        grid = fields.varint(), fields.varint()
        tile_pixels = check_tiles(mode, height, width, grid)
        model, order = read_named_model(fields), read_order(fields, tile_pixels)
        check_order(order, grid)
        coding = Coding(model, order, fields.varint())
    return ImageHeader(mode, height, width, grid, coding, read_metadata(fields), version=1)


def read_stream(words: bytes) -> bytes:
    """Return a stream without the zeros at its end; raises DamagedError if it had too many."""
    if len(words) % 4:
        raise DamagedError(f"the coded data is {len(words)} bytes, not whole 32-bit words")
    if words and not any(words[-4:]):
        raise DamagedError("the coded data ends in an empty word")
    return words.rstrip(b"\0")
