"""PNM files (PBM, PGM, PPM; binary and plain) to raw samples and back.

Pillow scales samples to 8 bits unless white is 255 or 65535, and reduces 16-bit colour. Here the
samples are those of the file. Invariant: `read_pnm(write_pnm(samples, white))`
has the same samples and white.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzip.errors import InputError
from lmzip.formats.metadata import name_rest
from lmzip.limits import PLAIN_SAMPLE, SAMPLE_BYTE, Limits, resolve_limits

Samples = npt.NDArray[Any]  # (height, width, 1 or 3): bool, uint8 or uint16

MAGICS = (b"P1", b"P2", b"P3", b"P4", b"P5", b"P6")
_FIELD = re.compile(rb"(?:\s|#[^\r\n]*[\r\n])*(\d{1,10})(?=\s)")
_COMMENT = re.compile(rb"#[^\r\n]*")


def read_pnm(data: bytes, limits: Limits | None = None) -> tuple[Samples, int, tuple[str, ...]]:
    """Return the samples, the one that means white, and what else the file has.

    Raises InputError if it is damaged.
    """
    kind = data[1] - ord("0")
    bits, plain = kind in (1, 4), kind <= 3
    channels = 3 if kind in (3, 6) else 1
    position = 2
    fields = []
    for name in ("width", "height") if bits else ("width", "height", "white"):
        match = _FIELD.match(data, position)
        if match is None:
            raise InputError(f"damaged PNM file (no {name} in its header)")
        fields.append(int(match[1]))
        position = match.end()
    width, height, white = (*fields, 1) if bits else fields
    if not 0 < white < 1 << 16 or not width or not height:
        raise InputError(f"damaged PNM file ({height}x{width}, white is {white})")
    limits = resolve_limits(limits)
    limits.check_pixels(height, width)
    limits.check_memory(height * width * channels * (PLAIN_SAMPLE if plain else SAMPLE_BYTE))
    position += 1  # one blank ends the header
    count = height * width * channels
    dtype = np.dtype(np.uint8 if white < 256 else ">u2")
    size = (
        len(data) - position
        if plain
        else height * -(-width // 8)
        if bits
        else count * dtype.itemsize
    )
    losses = name_rest(len(data) - position - size)
    if b"#" in data[: len(data) if plain else position]:
        losses = ("comments", *losses)
    if plain:
        samples = _read_plain(data[position:], count, bits).astype(dtype)
    elif bits:
        rows = _take(data, position, size).reshape(height, -1)
        samples = np.unpackbits(rows, axis=1, count=width)
    else:
        samples = _take(data, position, size).view(dtype)
    if samples.max() > white:
        raise InputError(f"damaged PNM file (sample {samples.max()}, but white is {white})")
    shaped = samples.reshape(height, width, channels)
    if bits:
        return shaped == 0, 1, losses  # in these files, 1 is black
    return shaped.astype(dtype.newbyteorder("=")), white, losses


def write_pnm(samples: Samples, white: int) -> bytes:
    """Write a binary file: PBM for bool samples, PGM for one channel, PPM for three."""
    height, width, channels = samples.shape
    if samples.dtype == np.bool_:
        packed = np.packbits(~samples[:, :, 0], axis=1)
        return f"P4\n{width} {height}\n".encode() + packed.tobytes()
    kind = 5 if channels == 1 else 6
    data = samples.astype(np.uint8 if white < 256 else ">u2")
    return f"P{kind}\n{width} {height}\n{white}\n".encode() + data.tobytes()


def _take(data: bytes, position: int, size: int) -> npt.NDArray[np.uint8]:
    if len(data) - position < size:
        raise InputError("damaged PNM file (pixels are missing)")
    return np.frombuffer(data, np.uint8, size, position)


def _read_plain(text: bytes, count: int, bits: bool) -> npt.NDArray[np.int64]:
    if len(text) < (1 if bits else 2) * count - 1:  # before memory is taken
        raise InputError("damaged PNM file (pixels are missing)")
    text = _COMMENT.sub(b"", text)
    tokens = re.findall(rb"[01]" if bits else rb"\S+", text)[:count]
    if len(tokens) < count:
        raise InputError("damaged PNM file (pixels are missing)")
    try:
        numbers = np.array([int(token) for token in tokens], np.int64)
    except (ValueError, OverflowError):
        raise InputError("damaged PNM file (a sample is not a number)") from None
    if numbers.min() < 0 or numbers.max() >= 1 << 16:
        raise InputError(f"damaged PNM file (samples from {numbers.min()} to {numbers.max()})")
    return numbers
