"""The framing of PNG files: a signature, then chunks with a length, a type and a checksum.

Shared by the reader and writer of PNG files (`lmzip.formats.png`) and by the classical method that
keeps nothing but the pixel data of one (`lmzip.classical`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from lmzip.errors import InputError

PngChunk = tuple[bytes, bytes]  # type, content

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def join_png(chunks: Iterable[PngChunk]) -> bytes:
    """Return the file that consists of these chunks; the last one should be IEND."""
    return SIGNATURE + b"".join(_frame_chunk(kind, content) for kind, content in chunks)


def split_png(data: bytes) -> Iterator[PngChunk]:
    """Yield the chunks of a PNG file up to IEND; raises InputError if one is damaged."""
    if not data.startswith(SIGNATURE):
        raise InputError("damaged PNG file (wrong signature)")
    position = len(SIGNATURE)
    while True:
        length = int.from_bytes(data[position : position + 4], "big")
        kind = data[position + 4 : position + 8]
        end = position + 12 + length
        if end > len(data):
            raise InputError("damaged PNG file (its end is missing)")
        if not (kind.isascii() and kind.isalpha()):
            raise InputError(f"damaged PNG file (no chunk is called {kind!r})")
        if zlib.crc32(data[position + 4 : end - 4]) != int.from_bytes(data[end - 4 : end], "big"):
            raise InputError(f"damaged PNG file (checksum of {kind.decode()} does not match)")
        if kind == b"IEND":
            return
        yield kind, data[position + 8 : end - 4]
        position = end


def find_end(data: bytes) -> int:
    """Return where a PNG file ends that `split_png` finds whole; anything may follow."""
    position, kind = len(SIGNATURE), b""
    while kind != b"IEND":
        length = int.from_bytes(data[position : position + 4], "big")
        kind = data[position + 4 : position + 8]
        position += 12 + length
    return position


def _frame_chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return len(content).to_bytes(4, "big") + kind + content + checksum.to_bytes(4, "big")
