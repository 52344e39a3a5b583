"""Pictures to image files: PNG, TIFF, lossless WebP, PNM, BMP, QOI and GIF.

Invariant: a file holds every sample of the picture, or, in formats without palettes, grey or
transparent colours, the colours that its samples stand for. What a format cannot hold exactly is
refused by name; metadata it has no place for is left out with a warning.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image

from lmzip.errors import InputError
from lmzip.formats import gif, png, pnm, tiff_writer
from lmzip.formats.metadata import (
    DESCRIPTIONS,
    ESSENTIAL,
    check_blocks,
    chunks_from_metadata,
    dpi_from_phys,
)
from lmzip.formats.pillow_images import image_from_picture
from lmzip.picture import MODES, Picture

_BMP_V4 = 108  # bytes of the header
_METRES_PER_INCH = 0.0254
_JPEG = (".jpg", ".jpeg", ".jpe", ".jfif")
_WEBP_SIDE = 16383
_PNM_SUFFIXES = {"L": ".pgm", "L16": ".pgm", "RGB": ".ppm", "RGB16": ".ppm"}
_PNG_COLOURS = {
    "1": png.GREY,
    "L": png.GREY,
    "LA": png.GREY_ALPHA,
    "RGB": png.RGB,
    "RGBA": png.RGB_ALPHA,
    "P": png.PALETTE,
}
_OF_THE_FILE = frozenset({"TIME", "FORM", "FRMS"})  # blocks that say what the file was
_BMP_METRE = (1 << 31) - 1  # the most pixels per metre that a BMP file can state


def default_suffix(picture: Picture) -> str:
    """Return the file ending to use for a picture by default."""
    name = picture.mode.name
    if "MAXV" in picture.metadata and name in _PNM_SUFFIXES:  # no other format knows white levels
        return _PNM_SUFFIXES[name]
    original = "." + picture.metadata.get("FORM", b"").decode("ascii", "replace").lower()
    if original in _WRITERS:
        return original
    return ".tiff" if name == "CMYK" else ".png"


def with_format(picture: Picture, kind: str) -> Picture:
    """Return a picture that remembers the format of its file (a `Reading.format`).

    Nothing is added if it would be restored to that format anyway, or if lmzip cannot write it.
    """
    ending = {"PNM": _PNM_SUFFIXES.get(picture.mode.name, ".pbm")}.get(kind, f".{kind.lower()}")
    if ending not in _WRITERS or ending == default_suffix(picture):
        return picture
    return replace(picture, metadata={**picture.metadata, "FORM": ending[1:].encode()})


def check_suffix(suffix: str) -> None:
    """Raise InputError unless pictures can be written to files with this ending."""
    if suffix.lower() in _JPEG:
        raise InputError("JPEG is lossy and would change the pixels: choose png, tiff or webp")
    if suffix.lower() not in _WRITERS:
        endings = ", ".join(ending[1:] for ending in _WRITERS)
        raise InputError(f"cannot write {suffix or 'a file without an ending'}: choose {endings}")


def write_picture(picture: Picture, suffix: str) -> tuple[bytes, tuple[str, ...]]:
    """Return the content of an image file, and remarks for the user.

    The ending, such as ".png", chooses the format. Raises InputError if it cannot hold the picture.
    """
    check_suffix(suffix)
    check_blocks(picture)
    writer, kept = _WRITERS[suffix.lower()]
    data = writer(picture, suffix.lower())
    name = suffix.lower()[1:]
    lost = sorted(set(picture.metadata) - ESSENTIAL - kept - _OF_THE_FILE)
    what = ", ".join(DESCRIPTIONS.get(tag, tag) for tag in lost)
    remarks = [f"{name} has no place for {what}"] if lost else []
    if "MAXV" in picture.metadata and "MAXV" not in kept:
        white = _white_level(picture)
        remarks.append(f"{name} cannot say that white is {white}, so the image will look darker")
    return data, tuple(remarks)


def to_true_colour(picture: Picture) -> Picture:
    """Return the picture as RGB or RGBA (or their 16-bit modes), transparency as alpha."""
    samples, name, metadata = picture.samples, picture.mode.name, picture.metadata
    deep = "16" if name.endswith("16") else ""
    key = metadata.get("TRNS")
    alpha = None
    if name == "P":
        table = np.zeros((256, 4), np.uint8)
        colours = np.frombuffer(metadata.get("PLTE", b"")[:768], np.uint8).reshape(-1, 3)
        table[: len(colours), :3], table[:, 3] = colours, 255
        opacity = np.frombuffer((key or b"")[:256], np.uint8)
        table[: len(opacity), 3] = opacity
        samples, alpha = table[samples[:, :, 0], :3], table[samples[:, :, 0], 3:]
        alpha = alpha if key else None
    else:
        if name == "1":
            samples = samples.astype(np.uint8) * 255
        if name.removesuffix("16") in ("LA", "RGBA"):
            samples, alpha = samples[:, :, :-1], samples[:, :, -1:]
        elif key is not None and name.removesuffix("16") in ("1", "L", "RGB"):
            full = np.iinfo(samples.dtype).max
            # The key has the depth of the original file; the samples use the full range.
            scale = full // ((1 << _bits(picture)) - 1)
            colour = np.frombuffer(key, ">u2").astype(np.int64) * scale
            transparent = (samples == colour).all(2, keepdims=True)
            alpha = np.where(transparent, 0, full).astype(samples.dtype)
        if samples.shape[2] == 1:
            samples = np.repeat(samples, 3, axis=2)
    if alpha is not None:
        samples = np.concatenate([samples, alpha], axis=2)
    mode = MODES[("RGB" if alpha is None else "RGBA") + deep]
    kept = {tag: block for tag, block in metadata.items() if tag not in ("PLTE", "TRNS", "BITS")}
    return Picture(samples, mode, kept)


def _bits(picture: Picture) -> int:
    """Return the bits per sample of the file that the picture came from."""
    return picture.metadata.get("BITS", bytes([picture.mode.bits]))[0]


def _white_level(picture: Picture) -> int:
    """Return the sample that means white."""
    full = (1 << picture.mode.bits) - 1
    return int.from_bytes(picture.metadata.get("MAXV", full.to_bytes(2, "little")), "little")


def _write_png(picture: Picture, suffix: str) -> bytes:
    colour = _PNG_COLOURS.get(picture.mode.name.removesuffix("16"))
    if colour is None:
        raise InputError(f"png cannot hold {picture.mode.name}: choose tiff")
    depth, samples = _bits(picture), picture.samples
    if picture.mode.name == "1":
        samples = samples.astype(np.uint8)
    elif picture.mode.name == "L" and depth < 8:
        samples = samples // np.uint8(255 // ((1 << depth) - 1))
    if picture.mode.name == "P" and "PLTE" not in picture.metadata:
        picture = replace(picture, metadata={**picture.metadata, "PLTE": bytes(768)})
    chunks = tuple(chunks_from_metadata(picture.metadata))
    return png.write_png(png.Png(samples, depth, colour, chunks))


def _write_pnm(picture: Picture, suffix: str) -> bytes:
    name = picture.mode.name
    grey = name in ("1", "L", "L16") and "TRNS" not in picture.metadata
    if (suffix == ".pbm" and name != "1") or (suffix == ".pgm" and not grey):
        raise InputError(f"{suffix[1:]} cannot hold {name}: choose ppm or png")
    if not grey or suffix == ".ppm":
        picture = to_true_colour(picture)
        if picture.mode.name not in ("RGB", "RGB16"):
            raise InputError(f"{suffix[1:]} cannot hold {name} with transparency: choose png")
    elif name == "1" and suffix == ".pgm":
        picture = Picture(picture.samples.astype(np.uint8) * 255, MODES["L"])
    return pnm.write_pnm(picture.samples, _white_level(picture))


def _write_webp(picture: Picture, suffix: str) -> bytes:
    if max(picture.height, picture.width) > _WEBP_SIDE:
        raise InputError(f"webp holds at most {_WEBP_SIDE} pixels a side: choose png")
    options: dict[str, Any] = {"lossless": True, "exact": True, "method": 4, "quality": 80}
    for tag, key in (("ICCP", "icc_profile"), ("EXIF", "exif"), ("XMP_", "xmp")):
        if tag in picture.metadata:
            options[key] = picture.metadata[tag]
    return _save_with_pillow(_as_8_bit_colour(picture, "webp"), "WEBP", **options)


def _write_qoi(picture: Picture, suffix: str) -> bytes:
    Image.init()
    if "QOI" not in Image.SAVE:
        raise InputError("writing qoi needs a newer Pillow")
    return _save_with_pillow(_as_8_bit_colour(picture, "qoi"), "QOI")


def _write_gif(picture: Picture, suffix: str) -> bytes:
    return gif.write_gif(picture)


def _write_bmp(picture: Picture, suffix: str) -> bytes:
    if picture.mode.name == "RGBA":
        return _write_bmp_with_alpha(picture)
    if picture.mode.name not in ("1", "L", "P", "RGB") or "TRNS" in picture.metadata:
        raise InputError(
            f"bmp cannot hold {picture.mode.name}"
            f"{' with transparency' if 'TRNS' in picture.metadata else ''}: choose png or tiff"
        )
    options: dict[str, Any] = {}
    if any(per_metre := _pixels_per_metre(picture)):
        options["dpi"] = tuple(number * _METRES_PER_INCH for number in per_metre)
    return _save_with_pillow(picture, "BMP", **options)


def _write_bmp_with_alpha(picture: Picture) -> bytes:
    """Write 32 bits a pixel with a header of version 4, which says where alpha is."""
    height, width, _ = picture.samples.shape
    rows = np.ascontiguousarray(picture.samples[::-1, :, [2, 1, 0, 3]]).tobytes()
    across, down = _pixels_per_metre(picture)
    start = 14 + _BMP_V4
    fields = (_BMP_V4, width, height, 1, 32, 3, len(rows), across, down, 0, 0)
    masks = (0xFF0000, 0xFF00, 0xFF, 0xFF000000, 0x73524742)  # R, G, B, A; "sRGB"
    header = struct.pack("<IiiHHIIiiII", *fields) + struct.pack("<5I", *masks) + bytes(48)
    return b"BM" + struct.pack("<IHHI", start + len(rows), 0, 0, start) + header + rows


def _pixels_per_metre(picture: Picture) -> tuple[int, int]:
    """Return the resolution as BMP files state it; zeros if it is unknown or too large."""
    block = picture.metadata.get("PHYS", b"")
    if dpi_from_phys(block) is None:
        return 0, 0
    across, down = struct.unpack(">II", block[:8])
    return (across, down) if max(across, down) <= _BMP_METRE else (0, 0)


def _as_8_bit_colour(picture: Picture, name: str) -> Picture:
    if picture.mode.name == "CMYK" or picture.mode.bits == 16:
        raise InputError(f"{name} cannot hold {picture.mode.name}: choose tiff")
    return to_true_colour(picture)


def _save_with_pillow(picture: Picture, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image_from_picture(picture).save(file, kind, **options)
    return file.getvalue()


def _write_tiff(picture: Picture, suffix: str) -> bytes:
    return write_pages([picture])


def write_pages(pictures: Sequence[Picture]) -> bytes:
    """Return a TIFF file with a page for each picture; transparent colours become alpha."""
    return tiff_writer.write_tiff(
        [to_true_colour(page) if "TRNS" in page.metadata else page for page in pictures]
    )


_ALL_OF_PNG = frozenset({"ICCP", "EXIF", "XMP_", "GAMA", "CHRM", "SRGB", "PHYS", "TEXT", "PNGC"})
_WRITERS: dict[str, tuple[Callable[[Picture, str], bytes], frozenset[str]]] = {
    ".png": (_write_png, _ALL_OF_PNG),
    ".tif": (_write_tiff, frozenset({"ICCP", "EXIF", "XMP_", "PHYS"})),
    ".tiff": (_write_tiff, frozenset({"ICCP", "EXIF", "XMP_", "PHYS"})),
    ".webp": (_write_webp, frozenset({"ICCP", "EXIF", "XMP_"})),
    ".ppm": (_write_pnm, frozenset({"MAXV"})),
    ".pgm": (_write_pnm, frozenset({"MAXV"})),
    ".pbm": (_write_pnm, frozenset({"MAXV"})),
    ".pnm": (_write_pnm, frozenset({"MAXV"})),
    ".bmp": (_write_bmp, frozenset({"PHYS"})),
    ".qoi": (_write_qoi, frozenset()),
    ".gif": (_write_gif, frozenset({"TEXT"})),
}
WRITABLE_SUFFIXES = tuple(_WRITERS)
