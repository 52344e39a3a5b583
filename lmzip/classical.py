"""Classical methods: what stores a picture when the network does not cover it or is larger.

    raw      the samples as they are (1-bit samples packed, 16-bit ones little-endian)
    deflate  samples predicted by one fixed rule, their bytes as planes or pixel by pixel, then zlib
    png      the image data stream (IDAT) of a PNG file; Pillow writes and reads it
    webp     the VP8L chunk of a lossless WebP file; Pillow writes and reads it
    jpeg2000 the packets of a JPEG 2000 codestream; Pillow writes and reads it. For pictures that
             once were JPEG 2000, with losses: a few coefficients there, a mystery elsewhere

Only the streams are stored: our own header has the size and the mode.
"""

from __future__ import annotations

import io
import struct
import threading
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzip.errors import DamagedError, FormatError
from lmzip.jpeg2000_headers import join_codestream, split_codestream
from lmzip.limits import JPEG2000_SAMPLE, SAMPLE_BYTE, WEBP_PIXEL, Limits, inflate
from lmzip.picture import Mode, Samples
from lmzip.png_chunks import join_png, split_png

RAW, NETWORK, WEBP, PNG, DEFLATE, JPEG2000, ADAPTIVE, AWARE = 0, 1, 2, 3, 4, 5, 6, 7
ADAPTING = (ADAPTIVE, AWARE)  # by features, and by errors too
BY_NETWORK = (NETWORK, *ADAPTING)
METHOD_NAMES = {
    **{RAW: "raw", NETWORK: "network", WEBP: "webp", PNG: "png", DEFLATE: "deflate"},
    **{JPEG2000: "jpeg2000", ADAPTIVE: "network", AWARE: "network"},
}

_WEBP_MAX_SIDE = 16383
# Pillow's mode for our samples, and how a PNG calls it (bit depth, colour type).
_PNG_MODES = {
    "1": ("1", 1, 0),
    "L": ("L", 8, 0),
    "P": ("L", 8, 0),
    "LA": ("LA", 8, 4),
    "RGB": ("RGB", 8, 2),
    "RGBA": ("RGBA", 8, 6),
    "L16": ("I;16", 16, 0),
}
_JPEG2000_MODES = ("L", "RGB", "L16")
_WEBP_MODES = {"1": "RGB", "L": "RGB", "P": "RGB", "RGB": "RGB", "LA": "RGBA", "RGBA": "RGBA"}


def encode_classical(samples: Samples, mode: Mode, *, thorough: bool) -> tuple[int, bytes]:
    """Return the method and the bytes of the smallest classical encoding of samples (H, W, C).

    `thorough` tries everything with the strongest settings. Otherwise, quick WebP and plain deflate
    show about how small the picture can get.
    """
    webp = mode.name in _WEBP_MODES and max(samples.shape) <= _WEBP_MAX_SIDE
    candidates = [(RAW, _encode_raw(samples, mode))]
    if webp:
        candidates += [(WEBP, data) for data in _encode_webp(samples, mode, thorough)]
    predictors = _list_predictors(mode, webp, thorough)
    level = 9 if thorough else 6
    candidates += [(DEFLATE, data) for data in _encode_deflate(samples, predictors, level)]
    if mode.name in _PNG_MODES and (thorough or not webp):
        candidates.append((PNG, _encode_png(samples, mode, thorough)))
    if mode.name in _JPEG2000_MODES and (thorough or mode.deep):
        candidates += [(JPEG2000, data) for data in _encode_jpeg2000(samples, mode)]
    return min(candidates, key=lambda candidate: len(candidate[1]))


def estimate_memory(method: int, mode: Mode, height: int, width: int) -> int:
    """Return the bytes of memory that `decode_classical` may take, its result included."""
    by_pixel = {WEBP: WEBP_PIXEL, JPEG2000: JPEG2000_SAMPLE * mode.channels}.get(method, 0)
    return height * (width * by_pixel + _row_bytes(mode, width, 8) * SAMPLE_BYTE)


def decode_classical(method: int, data: bytes, mode: Mode, height: int, width: int) -> Samples:
    """Return the samples (H, W, C); raises FormatError or DamagedError."""
    decoders = {
        **{RAW: _decode_raw, DEFLATE: _decode_deflate, PNG: _decode_png, WEBP: _decode_webp},
        JPEG2000: _decode_jpeg2000,
    }
    if method not in decoders:
        raise FormatError(f"unknown coding method {method}")
    try:
        return decoders[method](data, mode, height, width)
    except (OSError, ValueError, zlib.error, SyntaxError, EOFError) as error:
        name = METHOD_NAMES[method]
        raise DamagedError(f"the {name} data cannot be decoded ({error})") from error


def _encode_raw(samples: Samples, mode: Mode) -> bytes:
    if mode.dtype is np.bool_:
        return np.packbits(samples[..., 0], axis=1).tobytes()
    return np.ascontiguousarray(samples, np.dtype(mode.dtype).newbyteorder("<")).tobytes()


def _decode_raw(data: bytes, mode: Mode, height: int, width: int) -> Samples:
    if mode.dtype is np.bool_:
        rows = np.frombuffer(data, np.uint8).reshape(height, -(-width // 8))
        return np.unpackbits(rows, axis=1, count=width)[..., None].astype(bool)
    stored = np.frombuffer(data, np.dtype(mode.dtype).newbyteorder("<"))
    return stored.reshape(height, width, mode.channels).astype(mode.dtype)


# Predictors are differences along rows, columns, or both, modulo the sample's range; so undoing
# them is a cumulative sum. The number is stored, with 16 added if bytes lie as in raw.
_PREDICTOR_AXES: dict[int, tuple[int, ...]] = {0: (), 1: (1,), 2: (0,), 3: (0, 1)}
_INTERLEAVED = 16


def _list_predictors(mode: Mode, webp: bool, thorough: bool) -> list[int]:
    """Return the predictors to try.

    In a drawing whole pixels repeat, which deflate sees only if their bytes lie together. For 8
    bits that is left to WebP and PNG, which have no colours of 16 bits here. Quickly, the two that
    suit drawings show whether one is worth being thorough.
    """
    if webp and not thorough:
        return [0]
    interleaved = [number + _INTERLEAVED for number in (_PREDICTOR_AXES if thorough else (0, 2))]
    return list(_PREDICTOR_AXES) + (interleaved if mode.deep else [])


def _encode_deflate(samples: Samples, predictors: Sequence[int], level: int) -> Iterator[bytes]:
    values = samples.astype(np.uint8) if samples.dtype == np.bool_ else samples
    for number in predictors:
        if number and samples.dtype == np.bool_:
            continue
        residual: npt.NDArray[Any] = values
        for axis in _PREDICTOR_AXES[number % _INTERLEAVED]:
            residual = np.diff(residual, axis=axis, prepend=values.dtype.type(0))
        if number >= _INTERLEAVED:
            content = residual.astype(residual.dtype.newbyteorder("<")).tobytes()
        else:
            content = _to_planes(residual, samples.dtype)
        yield bytes([number]) + zlib.compress(content, level)


def _decode_deflate(data: bytes, mode: Mode, height: int, width: int) -> Samples:
    if not data:
        raise DamagedError("the deflated data is missing")
    number = data[0]
    known = {plain + layout for plain in _PREDICTOR_AXES for layout in (0, _INTERLEAVED)}
    if number not in known or (number and mode.dtype is np.bool_):
        raise FormatError(f"unknown predictor {number:02x}")
    expected = height * _row_bytes(mode, width)
    lay_out = _decode_raw if number >= _INTERLEAVED else _from_planes
    values = lay_out(_inflate_all(data[1:], expected), mode, height, width)
    for axis in _PREDICTOR_AXES[number % _INTERLEAVED]:
        values = np.cumsum(values, axis=axis, dtype=values.dtype)
    return values.astype(mode.dtype)


def _row_bytes(mode: Mode, width: int, least_bits: int = 1) -> int:
    return -(-width * mode.channels * max(mode.bits, least_bits) // 8)


def _inflate_all(data: bytes, expected: int) -> bytes:
    """Inflate as much as the picture needs, no more and no less."""
    inflated = inflate(data, expected)
    if len(inflated) != expected:
        more = "more than " if len(inflated) > expected else f"{len(inflated)} bytes, not "
        raise DamagedError(f"the deflated data holds {more}{expected}")
    return inflated


def _to_planes(values: Samples, dtype: npt.DTypeLike) -> bytes:
    """Lay out samples by byte plane and channel: similar bytes side by side deflate better."""
    if dtype == np.bool_:
        return np.packbits(values[..., 0], axis=1).tobytes()
    little = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<")))
    return little.view(np.uint8).transpose(2, 0, 1).tobytes()


def _from_planes(data: bytes, mode: Mode, height: int, width: int) -> Samples:
    if mode.dtype is np.bool_:
        return _decode_raw(data, mode, height, width).astype(np.uint8)
    planes = np.frombuffer(data, np.uint8).reshape(-1, height, width).transpose(1, 2, 0)
    little = np.ascontiguousarray(planes).view(np.dtype(mode.dtype).newbyteorder("<"))
    return little.astype(mode.dtype)


def _encode_png(samples: Samples, mode: Mode, thorough: bool) -> bytes:
    from PIL import Image

    pillow_mode = _PNG_MODES[mode.name][0]
    squeezed = samples[..., 0] if mode.channels == 1 else samples
    image = Image.fromarray(squeezed)
    assert image.mode == pillow_mode
    file = io.BytesIO()
    image.save(file, "PNG", optimize=thorough)
    return b"".join(data for kind, data in split_png(file.getvalue()) if kind == b"IDAT")


def _decode_png(data: bytes, mode: Mode, height: int, width: int) -> Samples:
    if mode.name not in _PNG_MODES:
        raise FormatError(f"mode {mode.name} cannot be stored as PNG")
    _inflate_all(data, height * (1 + _row_bytes(mode, width)))  # Pillow would make up missing rows
    _, depth, colour = _PNG_MODES[mode.name]
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", data), (b"IEND", b"")]
    image = _open_image(join_png(chunks), "PNG")
    if mode.dtype is np.bool_:  # Pillow's true is a byte of 255, which a checksum would see
        return np.asarray(image.convert("L"))[..., None] > 0
    return np.asarray(image).reshape(height, width, mode.channels).astype(mode.dtype)


def _encode_webp(samples: Samples, mode: Mode, thorough: bool) -> Iterator[bytes]:
    from PIL import Image

    values = samples.astype(np.uint8) * 255 if mode.dtype is np.bool_ else samples
    if mode.channels == 1:
        values = np.repeat(values, 3, axis=2)
    elif mode.channels == 2:
        values = values[..., [0, 0, 0, 1]]
    image = Image.fromarray(np.ascontiguousarray(values))
    # The first quick setting suits textures, the second what repeats over long distances.
    settings = [(80, 4), (100, 6)] if thorough else [(50, 2), (76, 0)]
    for quality, method in settings:
        file = io.BytesIO()
        image.save(file, "WEBP", lossless=True, quality=quality, method=method, exact=True)
        data = file.getvalue()
        # RIFF size WEBP, then a single VP8L chunk: nothing else needs to be kept.
        if data[12:16] == b"VP8L":
            (size,) = struct.unpack_from("<I", data, 16)
            yield data[20 : 20 + size]


def _decode_webp(data: bytes, mode: Mode, height: int, width: int) -> Samples:
    if mode.name not in _WEBP_MODES:
        raise FormatError(f"mode {mode.name} cannot be stored as WebP")
    sides = int.from_bytes(data[1:5], "little")
    size = (sides & 0x3FFF) + 1, (sides >> 14 & 0x3FFF) + 1
    if size != (width, height):
        raise DamagedError(f"the WebP data is {size}, not {(width, height)}")
    padded = data + b"\0" * (len(data) % 2)
    chunk = b"WEBPVP8L" + struct.pack("<I", len(data)) + padded
    image = _open_image(b"RIFF" + struct.pack("<I", len(chunk)) + chunk, "WEBP")
    # An alpha channel that is opaque everywhere is not stored.
    values = np.asarray(image.convert(_WEBP_MODES[mode.name]))
    channels = {1: [0], 2: [0, 3], 3: [0, 1, 2], 4: [0, 1, 2, 3]}[mode.channels]
    chosen = values[..., channels]
    return chosen > 127 if mode.dtype is np.bool_ else np.ascontiguousarray(chosen)


def _encode_jpeg2000(samples: Samples, mode: Mode) -> Iterator[bytes]:
    from PIL import Image, features

    if not features.check("jpg_2000"):
        return
    image = Image.fromarray(samples[..., 0] if mode.channels == 1 else samples)
    file = io.BytesIO()
    image.save(file, "JPEG2000", no_jp2=True, irreversible=False, mct=int(mode.channels == 3))
    height, width, channels = samples.shape
    packets = split_codestream(file.getvalue(), height, width, channels, mode.bits)
    # An OpenJPEG that writes other headers is not what we could read, and a constant picture would
    # take fewer bytes than a decoder believes.
    if packets is not None and samples.size <= Limits().count_plausible(len(packets)):
        yield packets


def _decode_jpeg2000(data: bytes, mode: Mode, height: int, width: int) -> Samples:
    from PIL import features

    if mode.name not in _JPEG2000_MODES:
        raise FormatError(f"mode {mode.name} cannot be stored as JPEG 2000")
    if not features.check("jpg_2000"):
        raise FormatError("this installation of Pillow cannot read JPEG 2000")
    stream = join_codestream(data, height, width, mode.channels, mode.bits)
    values = np.asarray(_open_image(stream, "JPEG2000"))
    return values.reshape(height, width, mode.channels).astype(mode.dtype)


_pillow_lock = threading.Lock()


def _open_image(file: bytes, kind: str) -> Any:
    """Open a file of our own making, however many pixels it has.

    Pillow refuses large pictures because headers may lie; this one has been checked.
    """
    from PIL import Image

    with _pillow_lock:
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            return Image.open(io.BytesIO(file), formats=[kind])
        finally:
            Image.MAX_IMAGE_PIXELS = limit
