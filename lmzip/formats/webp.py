"""Animated WebP files taken apart and put together.

A file is a sequence of chunks; each frame of an animation (chunk ANMF) is such a sequence again,
one or two of which hold its pixels. The *skeleton* is the file without those. Frames go back as
lossless pixels, whatever they were: their samples are the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from lmzip.errors import InputError
from lmzip.formats.frame_files import FrameFile, FrameSupply
from lmzip.formats.metadata import name_rest

_Chunk = tuple[bytes, bytes]  # type, content

_FRAME_HEADER = 16  # bytes: place, size, time, flags
_PIXELS = (b"ALPH", b"VP8 ", b"VP8L")
_SHOWN = (b"ANIM", b"ANMF")
_KNOWN = frozenset({b"VP8X", b"ICCP", b"EXIF", b"XMP ", b"ANIM", b"ANMF", *_PIXELS})
_HAS_ALPHA, _HAS_METADATA = 0x10, 0x2C  # flags of VP8X: a profile, EXIF and XMP are metadata


def is_webp(data: bytes) -> bool:
    """Whether a file is WebP, by its first bytes."""
    return data[:4] == b"RIFF" and data[8:12] == b"WEBP"


def is_lossy(data: bytes) -> bool:
    """Whether a file has a chunk of lossy pixels."""
    return any(kind == b"VP8 " for kind, _ in _split_leniently(data))


def name_losses(data: bytes) -> tuple[str, ...]:
    """Return what is in the file of one picture and in no block of metadata."""
    others = {kind for kind, _ in _split_leniently(data)} - _KNOWN
    names = ", ".join(sorted(kind.decode("ascii", "replace") for kind in others))
    end = 8 + int.from_bytes(data[4:8], "little")
    return (*((f"chunks {names}",) if others else ()), *name_rest(len(data) - end - end % 2))


def split_webp(data: bytes) -> tuple[bytes, list[FrameFile]]:
    """Return the skeleton of an animation and its frames; raises InputError if it is damaged."""
    chunks, files = [], []
    body, after = _open(data)
    for kind, content in _split(body):
        if kind == b"ANMF":
            header, inside = content[:_FRAME_HEADER], list(_split(content[_FRAME_HEADER:]))
            pixels = [chunk for chunk in inside if chunk[0] in _PIXELS]
            content = header + _join(chunk for chunk in inside if chunk[0] not in _PIXELS)
            files.append(_file_of(pixels, *_size(header)))
        chunks.append((kind, content))
    return _close(chunks) + after, files


def join_webp(skeleton: bytes, frames: FrameSupply) -> bytes:
    """Return the file of a skeleton and its frames; raises InputError if they do not fit."""
    chunks = []
    body, after = _open(skeleton)
    for kind, content in _split(body):
        if kind == b"ANMF":
            header, inside = content[:_FRAME_HEADER], content[_FRAME_HEADER:]
            single = _split(_open(frames.take(*_size(header)))[0])
            content = header + _join(chunk for chunk in single if chunk[0] in _PIXELS) + inside
        chunks.append((kind, content))
    return _close(chunks) + after


def strip_webp(skeleton: bytes) -> bytes:
    """Return a skeleton with nothing but what the frames need to be shown."""
    chunks = []
    for kind, content in _split(_open(skeleton)[0]):
        if kind == b"VP8X" and content:
            chunks.append((kind, bytes([content[0] & ~_HAS_METADATA]) + content[1:]))
        elif kind in _SHOWN:
            chunks.append((kind, content))
    return _close(chunks)


def _file_of(pixels: list[_Chunk], height: int, width: int) -> FrameFile:
    """Return a file of one frame; pixels of which alpha lies apart need a chunk that says so."""
    if any(kind == b"ALPH" for kind, _ in pixels):
        size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
        pixels = [(b"VP8X", bytes([_HAS_ALPHA, 0, 0, 0]) + size), *pixels]
    return FrameFile(height, width, _close(pixels))


def _size(header: bytes) -> tuple[int, int]:
    """Return the height and width that a frame states."""
    if len(header) < _FRAME_HEADER:
        raise InputError("damaged WebP file (a frame is cut short)")
    width, height = (1 + int.from_bytes(header[at : at + 3], "little") for at in (6, 9))
    return height, width


def _open(data: bytes) -> tuple[bytes, bytes]:
    """Return the chunks of a file, and what follows them."""
    end = 8 + int.from_bytes(data[4:8], "little")
    if not is_webp(data) or not 12 <= end <= len(data):
        raise InputError("damaged WebP file (its end is missing)")
    return data[12:end], data[end:]


def _close(chunks: Iterable[_Chunk]) -> bytes:
    """Return the file of some chunks."""
    body = b"WEBP" + _join(chunks)
    return b"RIFF" + len(body).to_bytes(4, "little") + body


def _split(data: bytes) -> Iterator[_Chunk]:
    position = 0
    while position < len(data):
        size = int.from_bytes(data[position + 4 : position + 8], "little")
        end = position + 8 + size
        if end > len(data):
            raise InputError("damaged WebP file (a chunk is cut short)")
        yield data[position : position + 4], data[position + 8 : end]
        position = end + size % 2


def _split_leniently(data: bytes) -> Iterator[_Chunk]:
    """Yield the chunks of a file that libwebp can read, even if the last one is cut short."""
    end = 8 + int.from_bytes(data[4:8], "little")
    with contextlib.suppress(InputError):
        yield from _split(data[12:end])


def _join(chunks: Iterable[_Chunk]) -> bytes:
    """Return chunks in sequence, each filled up to an even number of bytes."""
    return b"".join(
        kind + len(content).to_bytes(4, "little") + content + bytes(len(content) % 2)
        for kind, content in chunks
    )
