"""Small animations and documents written by hand, so that no library's version matters to them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping

from support.networks import smooth_images
from support.oracle_frames import Samples, fill_gif, fill_png, fill_webp, write_riff, write_tiff

SIZES = ((12, 14), (5, 6), (7, 4))  # height, width: the first fills the screen
LEFT, TOP = 3, 2  # of the others
TIMES = (40, 50, 60)  # milliseconds


def draw(channels: int, height: int, width: int, colours: int = 256, seed: int = 0) -> Samples:
    samples = smooth_images(1, height, width, channels, seed=seed)[0]
    return [[[v * colours // 256 for v in p] for p in row] for row in samples.tolist()]


def write_gif() -> bytes:
    """A palette for all, one of its own, and a grey ramp; disposal, a loop, a comment, more."""
    shared = bytes(v * 16 // 3 for v in range(48))
    own, ramp = bytes(range(100, 112)), bytes(v // 3 for v in range(768))
    skeleton = b"GIF89a" + struct.pack("<HHBBB", 14, 12, 0x80 | 3, 2, 0) + shared
    skeleton += b"\x21\xff\x0bNETSCAPE2.0\x03\x01\x03\x00\x00" + b"\x21\xfe\x0cmade by hand\0"
    images = []
    for number, ((height, width), palette) in enumerate(zip(SIZES, (b"", own, ramp), strict=True)):
        clear = 1 if number == 1 else 0
        flags = 4 * (number + 1) | clear
        skeleton += b"\x21\xf9\x04" + struct.pack("<BHBB", flags, TIMES[number] // 10, clear, 0)
        left, top = (LEFT, TOP) if number else (0, 0)
        bits = 0x80 | (len(palette) // 3).bit_length() - 2 if palette else 0
        skeleton += b"\x2c" + struct.pack("<HHHHB", left, top, width, height, bits) + palette
        images.append(draw(1, height, width, len(palette or shared) // 3))
    return fill_gif(skeleton + b";behind", iter(images))


def write_png() -> bytes:
    """A picture that is not part of the animation, frames with half-transparent colours, a text."""
    skeleton = b"\x89PNG\r\n\x1a\n"

    def add(kind: bytes, content: bytes) -> None:
        nonlocal skeleton
        skeleton += struct.pack(">I", len(content)) + kind + content
        skeleton += struct.pack(">I", zlib.crc32(kind + content))

    add(b"IHDR", struct.pack(">IIBBBBB", 14, 12, 8, 6, 0, 0, 0))
    add(b"acTL", struct.pack(">II", 2, 3))
    add(b"tEXt", b"Title\0by hand")
    add(b"IDAT", b"")
    for number, (height, width) in enumerate(SIZES[1:]):
        place = (width, height, LEFT, TOP) if number else (14, 12, 0, 0)
        times = (TIMES[number + 1], 1000, 1, number)
        add(b"fcTL", struct.pack(">IIIIIHHBB", 2 * number, *place, *times))
        add(b"fdAT", struct.pack(">I", 2 * number + 1))
    add(b"IEND", b"")
    sizes = (SIZES[0], SIZES[0], SIZES[2])
    return fill_png(skeleton, (draw(4, *size, seed=n) for n, size in enumerate(sizes)))


def write_webp() -> bytes:
    """Frames with and without alpha at even places, and a chunk that nobody knows."""
    screen = bytes([0x12, 0, 0, 0]) + _three(13) + _three(11)
    body = b"WEBP" + write_riff(b"VP8X", screen) + write_riff(b"ANIM", bytes([9, 8, 7, 6, 3, 0]))
    for number, (height, width) in enumerate(SIZES):
        place = _three(LEFT // 2 if number else 0) + _three(TOP // 2 if number else 0)
        size = _three(width - 1) + _three(height - 1)
        body += write_riff(b"ANMF", place + size + _three(TIMES[number]) + bytes([number]))
    body += write_riff(b"what", b"odd")
    skeleton = b"RIFF" + struct.pack("<I", len(body)) + body
    return fill_webp(skeleton, (draw(4 if n == 1 else 3, *size) for n, size in enumerate(SIZES)))


def write_pages() -> bytes:
    """Pages of grey and colour, each with its kind and a description."""

    def describe(number: int) -> Mapping[str, bytes]:
        text = f"page {number}\0".encode()
        entries = struct.pack("<HHII", 254, 4, 1, 2) + struct.pack("<HHII", 270, 2, len(text), 38)
        return {"EXIF": b"II*\0" + struct.pack("<IH", 8, 2) + entries + bytes(4) + text}

    channels = (3, 1, 3)
    return write_tiff(
        [
            (draw(c, *size), describe(n))
            for n, (c, size) in enumerate(zip(channels, SIZES, strict=True))
        ]
    )


def _three(number: int) -> bytes:
    return number.to_bytes(3, "little")


FILES = {"gif": write_gif, "png": write_png, "webp": write_webp, "tiff": write_pages}
