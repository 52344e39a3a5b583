"""PNG files to raw samples and back, at every depth and colour type of the specification.

Pillow reduces 16-bit colour to 8 bits and does not check the checksums of the pixel data, and the
pure Python readers need minutes for a photograph. Here zlib does the work and numpy undoes the row
filters along a wavefront, so that all rows of a band advance together.

Invariant: `read_png(write_png(image))` has the same header fields, samples and chunks; nothing is
scaled, converted or interpreted. Interlaced files are read, never written.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzip.errors import InputError
from lmzip.limits import SAMPLE_BYTE, Limits, inflate, resolve_limits
from lmzip.png_chunks import PngChunk, join_png, split_png

Bytes = npt.NDArray[np.uint8]
Samples = npt.NDArray[Any]  # (height, width, channels): uint8, or uint16 at depth 16

GREY, RGB, PALETTE, GREY_ALPHA, RGB_ALPHA = 0, 2, 3, 4, 6  # colour types
_CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGB_ALPHA: 4}
_DEPTHS = {
    GREY: (1, 2, 4, 8, 16),
    RGB: (8, 16),
    PALETTE: (1, 2, 4, 8),
    GREY_ALPHA: (8, 16),
    RGB_ALPHA: (8, 16),
}
# Bytes that a chunk may have, where its content is made use of; a palette has up to 256 colours.
_LENGTHS = {b"PLTE": range(3, 769, 3), b"acTL": (8,)}
_TRANSPARENCY_LENGTHS = {GREY: (2,), RGB: (6,), PALETTE: range(257)}
_NO_INTERLACE = ((0, 0, 1, 1),)
_ADAM7 = (  # first row, first column, row step, column step of each pass
    (0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)
)  # fmt: skip
_NONE, _SUB, _UP, _AVERAGE, _PAETH = range(5)  # row filters
_BAND_BYTES = 1 << 22  # filtered together: enough rows to be quick, few enough for the memory
_LARGEST_RATIO = 1032  # deflate cannot expand by more


@dataclass(frozen=True)
class Png:
    """A PNG file: raw samples, what they are, and every chunk but IHDR, IDAT and IEND."""

    samples: Samples
    depth: int
    colour: int
    chunks: tuple[PngChunk, ...] = ()


def read_png(data: bytes, limits: Limits | None = None) -> Png:
    """Read a PNG file; raises InputError if it breaks the specification or a checksum."""
    limits = resolve_limits(limits)
    chunks = split_png(data)
    kind, header = next(chunks, (b"IEND", b""))
    if kind != b"IHDR" or len(header) != 13:
        raise InputError("damaged PNG file (it does not start with a header)")
    width, height = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:8], "big")
    depth, colour, compression, filtering, interlace = header[8:]
    if colour not in _DEPTHS or depth not in _DEPTHS[colour]:
        raise InputError(f"damaged PNG file (colour type {colour} at {depth} bits)")
    if not width or not height or compression or filtering or interlace > 1:
        raise InputError("damaged PNG file (impossible values in its header)")
    limits.check_pixels(height, width)
    limits.check_memory(height * width * _CHANNELS[colour] * max(1, depth // 8) * SAMPLE_BYTE)
    others: list[PngChunk] = []
    packed: list[bytes] = []
    for kind, content in chunks:
        if kind == b"IDAT":
            packed.append(content)
        elif kind[0] & 0x20 or kind == b"PLTE":  # ancillary, or the one other that we know
            _check_length(kind, content, colour)
            others.append((kind, content))
        else:
            raise InputError(f"damaged PNG file (unknown critical chunk {kind!r})")
    if colour == PALETTE and not any(kind == b"PLTE" for kind, _ in others):
        raise InputError("damaged PNG file (no palette)")
    passes = _ADAM7 if interlace else _NO_INTERLACE
    samples = _decode_samples(b"".join(packed), height, width, depth, _CHANNELS[colour], passes)
    return Png(samples, depth, colour, tuple(others))


def write_png(png: Png, level: int = 6) -> bytes:
    """Write a PNG file: the chunks in the given sequence, then the pixels."""
    height, width, _ = png.samples.shape
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    header += bytes([png.depth, png.colour, 0, 0, 0])
    packed = zlib.compress(_encode_samples(png), level)
    chunks = [(b"IHDR", header), *png.chunks, (b"IDAT", packed), (b"IEND", b"")]
    return join_png(chunks)


def _check_length(kind: bytes, content: bytes, colour: int) -> None:
    lengths = _TRANSPARENCY_LENGTHS.get(colour) if kind == b"tRNS" else _LENGTHS.get(kind)
    if lengths is not None and len(content) not in lengths:
        raise InputError(f"damaged PNG file ({kind.decode()} of {len(content)} bytes)")


def _decode_samples(
    packed: bytes,
    height: int,
    width: int,
    depth: int,
    channels: int,
    passes: Iterable[tuple[int, int, int, int]],
) -> Samples:
    parts = []  # the part of the image that a pass holds, and the bytes of a row there
    for top, left, down, right in passes:
        rows, columns = -(-(height - top) // down), -(-(width - left) // right)
        if rows > 0 and columns > 0:
            part = (slice(top, None, down), slice(left, None, right))
            parts.append((part, rows, columns, (columns * depth * channels + 7) // 8))
    size = sum(rows * (1 + row_bytes) for _, rows, _, row_bytes in parts)
    data = np.frombuffer(_inflate(packed, size), np.uint8)
    samples: Samples = np.empty((height, width, channels), np.uint16 if depth == 16 else np.uint8)
    step, first = max(1, depth * channels // 8), 0
    for part, rows, columns, row_bytes in parts:
        lines = data[first : first + rows * (1 + row_bytes)].reshape(rows, 1 + row_bytes)
        first += lines.size
        if lines[:, 0].max() > _PAETH:
            raise InputError(f"damaged PNG file (row filter {lines[:, 0].max()})")
        unfiltered = _remove_filters(lines[:, 0], lines[:, 1:].reshape(rows, -1, step))
        samples[part] = _unpack(unfiltered.reshape(rows, -1), columns, depth, channels)
    return samples


def _encode_samples(png: Png) -> bytes:
    height, width, channels = png.samples.shape
    packed = _pack(png.samples, png.depth)
    if png.colour == PALETTE or png.depth < 8:  # indices have no slope to predict
        return np.insert(packed, 0, _NONE, axis=1).tobytes()
    step = max(1, png.depth * channels // 8)
    lines = packed.reshape(height, width, step)
    band = _band_rows(lines)
    return b"".join(
        _apply_filters(lines[max(0, first - 1) : first + band], first > 0)
        for first in range(0, height, band)
    )


def _band_rows(lines: Bytes) -> int:
    return max(8, min(512, _BAND_BYTES // lines[0].size))


def _inflate(packed: bytes, size: int) -> bytes:
    if size > _LARGEST_RATIO * len(packed) + _LARGEST_RATIO:  # before memory is taken for it
        raise InputError("damaged PNG file (pixels are missing)")
    try:
        # One byte more reaches the checksum, which zlib compares when it reads it. Some writers
        # leave more behind the pixels; like libpng, pay no attention to it.
        data = inflate(packed, size)
    except zlib.error as error:
        raise InputError(f"damaged PNG file ({error})") from None
    if len(data) < size:
        raise InputError("damaged PNG file (pixels are missing)")
    return data[:size]


def _unpack(rows: Bytes, width: int, depth: int, channels: int) -> Samples:
    """Split rows of bytes into samples (rows, width, channels)."""
    if depth == 16:
        return rows.view(">u2").astype(np.uint16).reshape(len(rows), width, channels)
    if depth == 8:
        return rows.reshape(len(rows), width, channels)
    shifts = np.arange(8 - depth, -1, -depth, dtype=np.uint8)
    samples = rows[:, :, None] >> shifts & (1 << depth) - 1
    return samples.reshape(len(rows), -1)[:, :width, None]


def _pack(samples: Samples, depth: int) -> Bytes:
    """Join samples (rows, width, channels) to rows of bytes."""
    rows = samples.reshape(len(samples), -1)
    if depth == 16:
        return rows.astype(">u2").view(np.uint8)
    if depth == 8:
        return rows
    per_byte = 8 // depth
    padded = np.pad(rows, ((0, 0), (0, -rows.shape[1] % per_byte)))
    shifts = np.arange(8 - depth, -1, -depth, dtype=np.uint8)
    joined = padded.reshape(len(rows), -1, per_byte) << shifts
    return np.bitwise_or.reduce(joined, axis=2).astype(np.uint8)


def _remove_filters(kinds: Bytes, lines: Bytes) -> Bytes:
    """Undo the row filters: lines (rows, pixels, bytes of a pixel)."""
    if not kinds.any():
        return np.ascontiguousarray(lines)
    result = np.empty_like(lines)
    above = np.zeros_like(lines[0])
    rows = _band_rows(lines)
    for first in range(0, len(lines), rows):
        band = slice(first, first + rows)
        result[band] = _remove_filters_of_band(kinds[band], lines[band], above)
        above = result[band][-1]
    return result


def _remove_filters_of_band(kinds: Bytes, lines: Bytes, above: Bytes) -> Bytes:
    """Undo the filters of some rows, along diagonals: at time t, row r is at its pixel t - r.

    A pixel needs those to its left, above, and above to the left: times t - 1, t - 1 and t - 2.
    Before a row's first pixel everything is zero, as the specification wants it; beyond its last
    one the values mean nothing, and nothing looks at them. Row 0 is the one above the band.
    """
    rows, pixels, step = lines.shape
    skewed = np.zeros((pixels + rows + 1, rows + 1, step), np.int16)
    by_time, by_row, by_byte = skewed.strides
    straight = np.lib.stride_tricks.as_strided(  # [row, pixel] instead of [time, row]
        skewed, (rows + 1, pixels, step), (by_time + by_row, by_time, by_byte)
    )
    straight[0], straight[1:] = above, lines
    selector = kinds[:, None].astype(np.intp)
    nothing = np.zeros((rows, step), np.int16)
    for time in range(1, pixels + rows):
        left, up = skewed[time - 1, 1:], skewed[time - 1, :-1]
        corner = skewed[time - 2, :-1] if time > 1 else nothing
        guesses = (nothing, left, up, (left + up) >> 1, _paeth(left, up, corner))
        now = skewed[time, 1:]
        now += np.choose(selector, guesses)
        now &= 0xFF
    return straight[1:].astype(np.uint8)


def _apply_filters(lines: Bytes, has_above: bool) -> bytes:
    """Filter rows, each in the way that leaves the smallest sum of absolute differences.

    The first of the lines is only the row above the others if `has_above`.
    """
    values = lines.astype(np.int16)
    if not has_above:
        values = np.concatenate([np.zeros_like(values[:1]), values])
    here, up = values[1:], values[:-1]
    left, corner = np.zeros_like(here), np.zeros_like(here)
    left[:, 1:], corner[:, 1:] = here[:, :-1], up[:, :-1]
    guesses = (np.zeros_like(here), left, up, (left + up) >> 1, _paeth(left, up, corner))
    rows = len(here)
    best = np.empty((rows, 1 + here[0].size), np.uint8)
    least = np.full(rows, np.iinfo(np.int64).max)
    for kind, guess in enumerate(guesses):
        filtered = (here - guess).astype(np.uint8).reshape(rows, -1)
        cost = np.abs(filtered.view(np.int8).astype(np.int64)).sum(1)
        better = cost < least
        best[better, 0], best[better, 1:] = kind, filtered[better]
        least[better] = cost[better]
    return best.tobytes()


def _paeth(
    left: npt.NDArray[np.int16], up: npt.NDArray[np.int16], corner: npt.NDArray[np.int16]
) -> npt.NDArray[np.int16]:
    """Return whichever is nearest to left + up - corner; of equals the first named."""
    from_left, from_up = np.abs(up - corner), np.abs(left - corner)
    from_corner = np.abs(left + up - 2 * corner)
    nearest = np.where(from_up <= from_corner, up, corner)
    return np.where((from_left <= from_up) & (from_left <= from_corner), left, nearest)
