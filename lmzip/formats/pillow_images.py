"""Pictures as Pillow images and back, without a change to any sample.

Shared by the readers and writers of files and by the Pillow plugin. Metadata goes to and comes from
`Image.info`, under the keys that Pillow's own formats use.
"""

from __future__ import annotations

import io
import struct
import threading
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image

from lmzip.errors import InputError
from lmzip.formats.metadata import (
    check_blocks,
    dpi_from_phys,
    exif_block,
    phys_from_dpi,
    text_block,
)
from lmzip.picture import MODES, Mode, Picture

# What Pillow raises for damaged files, depending on where it notices.
PILLOW_ERRORS = (
    OSError, SyntaxError, ValueError, EOFError, LookupError, TypeError, AttributeError,
    ArithmeticError, RuntimeError, AssertionError, struct.error, zlib.error,
)  # fmt: skip
_SAME_MODES = ("1", "L", "LA", "RGB", "RGBA", "P", "CMYK")  # the same name in Pillow
_GREY16 = ("I;16", "I;16L", "I;16B", "I;16N")


_open_lock = threading.Lock()


def open_image(data: bytes, formats: tuple[str, ...]) -> Image.Image:
    """Open an image file without Pillow's own limit of pixels: ours are checked instead."""
    with _open_lock:
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            return Image.open(io.BytesIO(data), formats=formats)
        finally:
            Image.MAX_IMAGE_PIXELS = limit


def picture_from_image(image: Image.Image, info: Mapping[Any, Any] | None = None) -> Picture:
    """Return the picture of a Pillow image, with the metadata of `info` or else of its own.

    Raises InputError for modes whose samples a picture cannot hold.
    """
    info = image.info if info is None else info
    if image.mode == "PA":
        image = image.convert("RGBA")  # a palette with an alpha channel: no sample changes
    metadata = _metadata_from_info(info)
    if image.mode in _SAME_MODES:
        samples = np.asarray(image)
        if image.mode == "1":
            samples = samples.view(np.uint8) != 0  # Pillow's true is 255, numpy's is 1
        elif image.mode == "P":
            metadata.update(_palette_metadata(image, info.get("transparency")))
        elif image.mode in ("L", "RGB") and "transparency" in info:
            key = np.atleast_1d(info["transparency"])
            metadata["TRNS"] = key.astype(">u2").tobytes()
        mode = MODES[image.mode]
    elif image.mode in _GREY16 or image.mode == "I":
        samples = np.asarray(image)
        if samples.min() < 0 or samples.max() >= 1 << 16:
            raise InputError(
                f"samples from {samples.min()} to {samples.max()} do not fit into 16 bits"
            )
        mode = MODES["L16"]
    else:
        raise InputError(f"images of Pillow's mode {image.mode} are not supported")
    shaped = samples.reshape(image.height, image.width, mode.channels)
    return Picture(np.ascontiguousarray(shaped, mode.dtype), mode, metadata)


def image_from_picture(picture: Picture) -> Image.Image:
    """Return a Pillow image; like Pillow's own readers, keep 8 bits of 16-bit colour."""
    check_blocks(picture)
    samples, name = picture.samples, picture.mode.name
    if name in ("LA16", "RGB16", "RGBA16"):
        samples, name = (samples >> 8).astype(np.uint8), name.removesuffix("16")
    flat = samples[:, :, 0] if samples.shape[2] == 1 else samples
    if name == "L16":
        return Image.fromarray(flat)
    if name == "1":
        return Image.fromarray(flat.astype(np.uint8) * 255).convert("1", dither=Image.Dither.NONE)
    size = (picture.width, picture.height)
    image = Image.frombytes(name, size, np.ascontiguousarray(flat).tobytes())
    if name == "P":
        image.putpalette(picture.metadata.get("PLTE", bytes(768)))
    return image


def info_from_metadata(mode: Mode, metadata: Mapping[str, bytes]) -> dict[str, Any]:
    """Return metadata as the entries of `Image.info` that Pillow's own formats use."""
    info: dict[str, Any] = {}
    for tag, key in (("ICCP", "icc_profile"), ("EXIF", "exif"), ("XMP_", "xmp")):
        if tag in metadata:
            info[key] = metadata[tag]
    if (dpi := dpi_from_phys(metadata.get("PHYS", b""))) is not None:
        info["dpi"] = dpi
    if "TRNS" in metadata and mode.name == "P":
        info["transparency"] = metadata["TRNS"]
    elif "TRNS" in metadata and mode.name in ("L", "RGB"):
        bits = metadata.get("BITS", b"\x08")[0]
        # The key has the depth of the original file; Pillow wants it on the scale of the samples.
        scale = 255 // ((1 << bits) - 1)
        key_colour = (np.frombuffer(metadata["TRNS"], ">u2").astype(int) * scale).tolist()
        info["transparency"] = tuple(key_colour) if len(key_colour) > 1 else key_colour[0]
    return info


def _palette_metadata(image: Image.Image, transparency: object) -> dict[str, bytes]:
    blocks = {"PLTE": bytes(image.getpalette("RGB") or [])[:768]}
    if isinstance(transparency, int):  # a single transparent entry
        blocks["TRNS"] = b"\xff" * transparency + b"\0"
    elif isinstance(transparency, bytes):
        blocks["TRNS"] = transparency
    elif image.palette is not None and image.palette.mode == "RGBA":
        blocks["TRNS"] = bytes(image.getpalette("RGBA") or [])[3::4]
    return blocks


def _metadata_from_info(info: Mapping[Any, Any]) -> dict[str, bytes]:
    metadata = {}
    for tag, key in (("ICCP", "icc_profile"), ("EXIF", "exif"), ("XMP_", "xmp")):
        block = info.get(key)
        if isinstance(block, bytes) and block:
            metadata[tag] = exif_block(block) if tag == "EXIF" else block
    comment = info.get("comment")
    if isinstance(comment, bytes) and comment and b"\0" not in comment:
        metadata["TEXT"] = text_block("Comment", comment)
    dpi = info.get("dpi")
    if isinstance(dpi, tuple) and len(dpi) == 2 and all(0 < float(d) < 1e7 for d in dpi):
        metadata["PHYS"] = phys_from_dpi(float(dpi[0]), float(dpi[1]))
    return metadata
