"""GIF files taken apart and put together: pictures of palette indices, and all that is around them.

A file is a sequence of blocks: the screen with its palette, extensions (timing, comments, loops),
images with their place on the screen, and an end. Its *skeleton* is the file without the coded
pixels of its images, and not interlaced. Pillow reads and writes the pixels; what is between them
is never interpreted, so it comes back as it was.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageFile

from lmzip.errors import InputError
from lmzip.formats.frame_files import FrameFile, FrameSupply
from lmzip.formats.metadata import split_chunks
from lmzip.picture import Picture

MAGICS = (b"GIF87a", b"GIF89a")
_SCREEN = 13  # bytes of magic, size, flags, background and aspect
_DESCRIPTOR = 10  # bytes of an image before its palette, the last of which are flags
_EXTENSION, _IMAGE, _END, _NOTHING = 0x21, 0x2C, 0x3B, 0x00
_CONTROL, _COMMENT, _APPLICATION = 0xF9, 0xFE, 0xFF  # labels of extensions
_ADDED = (bytes([_EXTENSION, _COMMENT]), bytes([_EXTENSION, _APPLICATION]))
_LOOPS = (b"NETSCAPE2.0", b"ANIMEXTS1.0")  # applications that say how often to play
_HAS_PALETTE, _INTERLACED, _TRANSPARENT = 0x80, 0x40, 1  # flags
_SIDE = 0xFFFF
_RAMP = bytes(level for level in range(256) for _ in range(3))


@dataclass(frozen=True)
class _Frame:
    """An image of a file: its size, how it is coded, and what its indices mean."""

    height: int
    width: int
    flags: int
    palette: bytes
    transparent: int | None
    pixels: bytes  # the size of the codes, and blocks of them


def split_gif(data: bytes) -> tuple[bytes, list[FrameFile]]:
    """Return the skeleton of a file and its frames; raises InputError if it is damaged."""
    skeleton, files = bytearray(), []
    for block, frame in _walk(data, has_pixels=True):
        skeleton += block
        if frame is not None:
            flags = len(skeleton) - len(block) + _DESCRIPTOR - 1
            skeleton[flags] &= ~_INTERLACED
            files.append(FrameFile(frame.height, frame.width, _file_of(frame)))
    return bytes(skeleton), files


def join_gif(skeleton: bytes, frames: FrameSupply) -> bytes:
    """Return the file of a skeleton and its frames; raises InputError if they do not fit."""
    whole = bytearray()
    for block, place in _walk(skeleton, has_pixels=False):
        whole += block
        if place is not None:
            single = frames.take(place.height, place.width)
            found = (frame for _, frame in _walk(single, has_pixels=True) if frame is not None)
            whole += next(found).pixels
    return bytes(whole)


def strip_gif(skeleton: bytes) -> bytes:
    """Return a skeleton without comments and what programs have added for themselves."""
    kept = bytearray()
    for block, _ in _walk(skeleton, has_pixels=False):
        if block[:1] == bytes([_END]):
            kept.append(_END)
        elif block[:2] not in _ADDED or block[3:14] in _LOOPS:
            kept += block
    return bytes(kept)


def fills_screen(skeleton: bytes) -> bool:
    """Whether a skeleton has one image, and that covers the screen."""
    blocks = _walk(skeleton, has_pixels=False)
    places = [block[1:9] for block, frame in blocks if frame is not None]
    return places == [bytes(4) + skeleton[6:10]]


def write_gif(picture: Picture) -> bytes:
    """Write one picture of palette indices or grey; raises InputError if it is anything else."""
    name, metadata = picture.mode.name, picture.metadata
    if name not in ("1", "L", "P"):
        raise InputError(f"gif cannot hold {name}: choose png")
    if max(picture.height, picture.width) > _SIDE:
        raise InputError(f"gif holds at most {_SIDE} pixels a side: choose png")
    samples, palette = picture.samples[:, :, 0], _RAMP
    if name == "1":
        samples, palette = samples.astype(np.uint8), bytes(3) + b"\xff" * 3
    elif name == "P":
        palette = metadata.get("PLTE", b"").ljust(3 * int(samples.max()) + 3, b"\0")
    pixels = _encode_pixels(samples, len(palette) // 3)
    transparent = _transparent_index(picture)
    data = _file_of(_Frame(picture.height, picture.width, 0, palette, transparent, pixels))
    comments = b"".join(
        bytes([_EXTENSION, _COMMENT]) + _to_blocks(content.partition(b"\0")[2])
        for kind, content in split_chunks(metadata.get("TEXT", b""))
        if kind == b"tEXt" and content.startswith(b"Comment\0")
    )
    return data[:-1] + comments + data[-1:]


def _file_of(frame: _Frame) -> bytes:
    """Return a file with one image and nothing else."""
    bits = max(1, (len(frame.palette) // 3 - 1).bit_length())
    size = struct.pack("<HH", frame.width, frame.height)
    screen = b"GIF89a" + size + bytes([_HAS_PALETTE | bits - 1, 0, 0])
    control = b""
    if frame.transparent is not None:
        control = bytes([_EXTENSION, _CONTROL, 4, _TRANSPARENT, 0, 0, frame.transparent, 0])
    image = bytes([_IMAGE, 0, 0, 0, 0]) + size + bytes([frame.flags & _INTERLACED])
    palette = frame.palette.ljust(3 << bits, b"\0")
    return screen + palette + control + image + frame.pixels + bytes([_END])


def _transparent_index(picture: Picture) -> int | None:
    """Return the index that is transparent, if there is one; all others must be opaque."""
    block = picture.metadata.get("TRNS")
    if block is None:
        return None
    if picture.mode.name == "P":
        clear = [index for index, alpha in enumerate(block) if alpha != 255]
    else:
        full = (1 << picture.metadata.get("BITS", bytes([picture.mode.bits]))[0]) - 1
        scale = 255 // full if picture.mode.name == "L" else 1
        clear = [index * scale for index in struct.unpack(">H", block) if index <= full]
    if len(clear) > 1 or (picture.mode.name == "P" and any(block[index] for index in clear)):
        raise InputError("gif can hide one colour and no more: choose png")
    return clear[0] if clear else None


def _encode_pixels(samples: np.ndarray, colours: int) -> bytes:
    """Return the pixels (height, width) of an image, coded: the size of codes, and their blocks."""
    bits = max(2, (colours - 1).bit_length())
    height, width = samples.shape
    image = Image.frombytes("P", (width, height), np.ascontiguousarray(samples).tobytes())
    image.encoderconfig = (bits, False)  # not interlaced
    file = io.BytesIO()
    ImageFile._save(image, file, [ImageFile._Tile("gif", (0, 0, width, height), 0, "P")])
    return bytes([bits]) + file.getvalue() + b"\0"


def _to_blocks(content: bytes) -> bytes:
    parts = [content[first : first + 255] for first in range(0, len(content), 255)]
    return b"".join(bytes([len(part)]) + part for part in parts) + b"\0"


def _walk(data: bytes, has_pixels: bool) -> Iterator[tuple[bytes, _Frame | None]]:
    """Yield the blocks of a file or of a skeleton, without pixels; with images, what they are.

    What follows the end of the file is a part of the block that ends it.
    """
    if data[:6] not in MAGICS:
        raise InputError("damaged GIF file (wrong signature)")
    position = _palette_end(data, 10, _SCREEN)
    yield data[:position], None
    shared = data[_SCREEN:position]
    transparent: int | None = None
    while position < len(data):
        start, kind = position, data[position]
        if kind == _EXTENSION:
            position = _skip_blocks(data, start + 2)
            if data[start + 1] == _CONTROL and data[start + 2] >= 4:
                transparent = data[start + 6] if data[start + 3] & _TRANSPARENT else None
            yield data[start:position], None
        elif kind == _IMAGE:
            end = _palette_end(data, start + _DESCRIPTOR - 1, start + _DESCRIPTOR)
            position = _skip_blocks(data, end + 1) if has_pixels else end
            width, height = struct.unpack_from("<HH", data, start + 5)
            palette = data[start + _DESCRIPTOR : end] or shared
            if not height or not width or not palette:
                raise InputError("damaged GIF file (an image without pixels or colours)")
            flags, pixels = data[start + _DESCRIPTOR - 1], data[end:position]
            frame = _Frame(height, width, flags, palette, transparent, pixels)
            yield data[start:end], frame
            transparent = None  # what an extension says of an image ends with it
        elif kind == _NOTHING:  # some writers leave such bytes between blocks
            position += 1
            yield data[start:position], None
        elif kind == _END:
            yield data[start:], None
            return
        else:
            raise InputError(f"damaged GIF file (a block of the unknown kind {kind})")


def _palette_end(data: bytes, flags: int, start: int) -> int:
    """Return where the palette ends that the flags at one place announce for another."""
    announced = data[flags : flags + 1] or b"\0"
    end = start + (6 << (announced[0] & 7) if announced[0] & _HAS_PALETTE else 0)
    if end > len(data):
        raise InputError("damaged GIF file (its end is missing)")
    return end


def _skip_blocks(data: bytes, position: int) -> int:
    """Return where a sequence of blocks ends, the last of which is empty."""
    while position < len(data):
        if not data[position]:
            return position + 1
        position += 1 + data[position]
    raise InputError("damaged GIF file (its end is missing)")
