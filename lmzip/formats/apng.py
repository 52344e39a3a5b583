"""Animated PNG files taken apart and put together.

An animation is an ordinary PNG file whose further frames follow the first picture (chunk IDAT) in
chunks of their own (fdAT), each announced by a chunk that says its size, place and time (fcTL). The
*skeleton* is the file without its pixels: an empty chunk shows where they belong. It is not
interlaced, and a frame is one chunk.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from lmzip.errors import InputError
from lmzip.formats.frame_files import FrameFile, FrameSupply
from lmzip.png_chunks import PngChunk, find_end, join_png, split_png

_HEADER_BYTES = 13
_CONTROL_BYTES = 26  # number, width, height, left, top, delay (2), disposal, blending
_SHARED = (b"PLTE", b"tRNS")  # what all frames have in common
_SHOWN = (b"IHDR", *_SHARED, b"acTL", b"fcTL", b"IDAT", b"fdAT")
_END = (b"IEND", b"")


def split_apng(data: bytes) -> tuple[bytes, list[FrameFile]]:
    """Return the skeleton of a file and its frames; raises InputError if it is damaged."""
    chunks: list[PngChunk] = []
    pixels: list[list[bytes]] = []
    before = b""
    for kind, content in split_png(data):
        is_pixels = kind in (b"IDAT", b"fdAT")
        if is_pixels:
            if kind != before:
                pixels.append([])
            pixels[-1].append(content if kind == b"IDAT" else content[4:])
        if not is_pixels or kind != before:
            chunks.append((kind, b"" if is_pixels else content))
        before = kind
    places = list(_walk(chunks))
    skeleton = join_png([*(chunk for chunk, _ in places), _END]) + data[find_end(data) :]
    header = chunks[0][1]
    shared = [chunk for chunk in chunks if chunk[0] in _SHARED]
    sizes = [size for _, size in places if size is not None]
    files = []
    for (height, width), parts in zip(sizes, pixels, strict=True):
        own = struct.pack(">II", width, height) + header[8:]
        file = [(b"IHDR", own), *shared, (b"IDAT", b"".join(parts)), _END]
        files.append(FrameFile(height, width, join_png(file)))
    return skeleton, files


def join_apng(skeleton: bytes, frames: FrameSupply) -> bytes:
    """Return the file of a skeleton and its frames; raises InputError if they do not fit."""
    chunks, whole = list(split_png(skeleton)), []
    for (kind, content), size in _walk(chunks):
        if size is not None:
            single = split_png(frames.take(*size))
            content += b"".join(pixels for name, pixels in single if name == b"IDAT")
        whole.append((kind, content))
    return join_png([*whole, _END]) + skeleton[find_end(skeleton) :]


def strip_apng(skeleton: bytes) -> bytes:
    """Return a skeleton with nothing but what the frames need to be shown."""
    return join_png([*(chunk for chunk in split_png(skeleton) if chunk[0] in _SHOWN), _END])


def _walk(chunks: Sequence[PngChunk]) -> Iterator[tuple[PngChunk, tuple[int, int] | None]]:
    """Yield the chunks of a skeleton, numbered anew; with those of pixels, height and width."""
    if not chunks or chunks[0][0] != b"IHDR" or len(chunks[0][1]) != _HEADER_BYTES:
        raise InputError("damaged PNG file (it does not start with a header)")
    header = chunks[0][1]
    yield (b"IHDR", header[:-1] + b"\0"), None  # not interlaced
    size, number = None, 0
    for kind, content in chunks[1:]:
        if kind == b"IDAT":
            yield (kind, b""), _size(header)
        elif kind == b"fcTL":
            if len(content) != _CONTROL_BYTES:
                raise InputError(f"damaged PNG file (fcTL of {len(content)} bytes)")
            size = _size(content[4:])
            yield (kind, struct.pack(">I", number) + content[4:]), None
            number += 1
        elif kind == b"fdAT":
            if size is None:
                raise InputError("damaged PNG file (a frame without a size)")
            yield (kind, struct.pack(">I", number)), size
            number += 1
        else:
            yield (kind, content), None


def _size(content: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from(">II", content)
    return height, width
