"""Pictures to TIFF files, a page for each.

Pillow, which cannot write 16-bit colour, lays out the tags; the pixels are deflated strips.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from PIL import Image, TiffImagePlugin

from lmzip.errors import InputError
from lmzip.formats import tiff
from lmzip.formats.metadata import dpi_from_phys, phys_from_dpi
from lmzip.formats.pillow_images import PILLOW_ERRORS
from lmzip.picture import Picture

# Photometric interpretation.
_COLOURS = {"1": 1, "L": 1, "LA": 1, "RGB": 2, "RGBA": 2, "P": 3, "CMYK": 5}
_STRIP = 1 << 18  # bytes of a strip before compression, about
_DIRECTORIES = (0x8769, 0x8825)  # tags that lead to others: EXIF and GPS
_NO_UNIT, _INCH = 1, 2
_LARGEST = (1 << 32) - 1  # bytes of a file


def write_tiff(pictures: Sequence[Picture]) -> bytes:
    """Return the file of some pages; transparency must be a channel."""
    file = bytearray()
    link = 0  # the place that states where the tags of the page begin
    for picture in pictures:
        tags, strips = _lay_out(picture)
        if not file:
            file += tags._get_ifh()
            link = 4
        file += bytes(len(file) % 2)
        struct.pack_into("<I", file, link, len(file))
        link = len(file) + 2 + 12 * len(tags)
        file += tags.tobytes(len(file)) + b"".join(strips)
        if len(file) > _LARGEST:
            raise InputError("tiff holds at most 4 GiB: choose another format")
    return bytes(file)


def _lay_out(picture: Picture) -> tuple[Any, list[bytes]]:
    """Return the tags of a page and its strips, which follow right after them."""
    name = picture.mode.name.removesuffix("16")
    height, width, channels = picture.samples.shape
    if name == "1":
        rows = np.packbits(picture.samples[:, :, 0], axis=1)
    else:
        rows = picture.samples.astype(picture.samples.dtype.newbyteorder("<")).reshape(height, -1)
    strip_rows = max(1, _STRIP // rows[0].nbytes)
    strips = [
        zlib.compress(rows[first : first + strip_rows].tobytes())
        for first in range(0, height, strip_rows)
    ]
    tags = _tags_of_exif(picture.metadata.get("EXIF", b""))
    tags[TiffImagePlugin.IMAGEWIDTH], tags[TiffImagePlugin.IMAGELENGTH] = width, height
    tags[TiffImagePlugin.BITSPERSAMPLE] = (picture.mode.bits,) * channels
    tags[TiffImagePlugin.COMPRESSION] = 8  # deflate
    tags[TiffImagePlugin.PHOTOMETRIC_INTERPRETATION] = _COLOURS[name]
    tags[TiffImagePlugin.SAMPLESPERPIXEL] = channels
    tags[TiffImagePlugin.ROWSPERSTRIP] = strip_rows
    tags[TiffImagePlugin.STRIPBYTECOUNTS] = tuple(map(len, strips))
    # Relative to the end of the tags; Pillow adds where that is.
    offsets = np.cumsum([0, *map(len, strips[:-1])]).tolist()
    tags[TiffImagePlugin.STRIPOFFSETS] = tuple(offsets)
    if name in ("LA", "RGBA"):
        tags[TiffImagePlugin.EXTRASAMPLES] = 2  # alpha, not premultiplied
    if name == "P":
        palette = np.zeros((256, 3), np.uint16)
        colours = np.frombuffer(picture.metadata.get("PLTE", b"")[:768], np.uint8).reshape(-1, 3)
        palette[: len(colours)] = colours
        tags[TiffImagePlugin.COLORMAP] = tuple((palette.T * 257).ravel().tolist())
    if "ICCP" in picture.metadata:
        tags.tagtype[TiffImagePlugin.ICCPROFILE] = 7
        tags[TiffImagePlugin.ICCPROFILE] = picture.metadata["ICCP"]
    if "XMP_" in picture.metadata:
        tags.tagtype[TiffImagePlugin.XMP] = 1
        tags[TiffImagePlugin.XMP] = picture.metadata["XMP_"]
    if (resolution := _resolution(picture.metadata.get("PHYS", b""))) is not None:
        across, down, unit = resolution
        tags[TiffImagePlugin.X_RESOLUTION] = TiffImagePlugin.IFDRational(across)
        tags[TiffImagePlugin.Y_RESOLUTION] = TiffImagePlugin.IFDRational(down)
        tags[TiffImagePlugin.RESOLUTION_UNIT] = unit
    return tags, strips


def _resolution(phys: bytes) -> tuple[Fraction, Fraction, int] | None:
    """Return pixels across and down, and their unit; None if nothing is known."""
    if (dpi := dpi_from_phys(phys)) is not None:
        return _simplest(dpi[0]), _simplest(dpi[1]), _INCH
    if len(phys) != 9:
        return None
    across, down = struct.unpack(">II", phys[:8])  # only the shape of a pixel
    return Fraction(across), Fraction(down), _NO_UNIT


def _simplest(dpi: float) -> Fraction:
    """Return the simplest resolution that is stored as this one, which is rounded."""
    for digits in range(5):
        simple = Fraction(round(dpi * 10**digits), 10**digits)
        if phys_from_dpi(float(simple), 1) == phys_from_dpi(dpi, 1):
            break
    return simple


def _tags_of_exif(block: bytes) -> Any:
    """Return the tags of a TIFF file with those of EXIF data among them."""
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    if block:
        exif = Image.Exif()
        try:
            exif.load(block)
            tiff.keep_bytes(exif)
            for tag, value in exif.items():
                if tag not in _DIRECTORIES:
                    tags[tag] = value
            for pointer in _DIRECTORIES:
                if inside := dict(exif.get_ifd(pointer)):
                    tags[pointer] = inside
        except PILLOW_ERRORS:
            return TiffImagePlugin.ImageFileDirectory_v2()
    return tags
