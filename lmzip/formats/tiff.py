"""TIFF files to pictures: Pillow's decoder, behind a check of what it would change or leave out.

Invariant: the samples are those of the file, or their complement where the file counts from white.
Pillow passes over some tags that say what samples mean and drops channels that it has no mode for;
such files are refused, by the name of what cannot be kept.
"""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image, TiffImagePlugin

from lmzip.errors import InputError
from lmzip.formats.metadata import exif_block, shape_of_pixels
from lmzip.formats.pillow_images import PILLOW_ERRORS, picture_from_image
from lmzip.picture import MODES, Picture

MAGICS = tuple(TiffImagePlugin.PREFIXES)
_BIG_MAGICS = (b"II+\0", b"MM\0+")

_BITS, _COMPRESSION, _PHOTOMETRIC, _SAMPLES, _RESOLUTION = 258, 259, 262, 277, 282
_PLANES, _COLOUR_MAP, _SUB_IMAGES, _EXTRA_SAMPLES, _SAMPLE_FORMAT = 284, 320, 330, 338, 339
_RESOLUTION_UNIT, _SLICES = 296, 32997
_NO_UNIT = 1
_PAGE_KINDS = frozenset({254, 255})  # the old tag and the new one
_MIN_IS_WHITE, _PALETTE, _YCBCR = 0, 3, 6  # photometric interpretations
_COLOURS = {_MIN_IS_WHITE: "grey from white", 1: "grey", 2: "RGB", _PALETTE: "palette", 5: "CMYK"}
_OTHER_COLOURS = {_YCBCR: "YCbCr", 8: "CIE LAB", 9: "ICC LAB", 10: "ITU LAB", 32803: "raw CFA"}
_FORMAT_NAMES = {2: "signed", 3: "float", 5: "complex", 6: "complex"}
_PREMULTIPLIED = 1
_JPEG = (6, 7)  # compression; libtiff turns these from YCbCr to RGB, like any reader of JPEG
_NOT_BUILT_IN = (50001,)  # WebP: Pillow's libtiff does not decode it, and says so by itself
_PLANAR = 2

# Tags that describe the layout of the pixels, or that have a block of their own.
_EXIF_DIRECTORIES = (0x8769, 0x8825, 0xA005)  # EXIF, GPS, interoperability
_LAYOUT = frozenset(
    {254, 255, 256, 257, 258, 259, 262, 263, 264, 265, 266, 273, 277, 278, 279, 280, 281, 282, 283}
    | {284, 288, 289, 290, 291, 292, 293, 296, 301, 317, 318, 319, 320, 321, 322, 323, 324, 325}
    | {330, 332, 334, 336, 338, 339, 340, 341, 347, 529, 530, 531, 532, 700, 34675}
)


def read_tiff(image: Any, data: bytes, *, is_page: bool = False) -> Picture:
    """Read a TIFF image, 16-bit colour in two passes, and collect its EXIF tags.

    With those of a page is what kind of page it is.
    """
    tags = image.tag_v2
    _check_samples(tags)
    bands = len(image.getbands())
    if (samples := _number(tags, _SAMPLES, bands)) > bands:
        raise InputError(f"{samples} samples a pixel, of which only {bands} could be kept")
    exif = image.getexif()
    for directory in _EXIF_DIRECTORIES:
        exif.get_ifd(directory)  # now, while the file is open
    _load_unturned(image)
    depths = tags.get(_BITS, (1,))
    if max(depths) <= 8 or bands == 1:
        picture = picture_from_image(image)
    elif image.mode in ("RGB", "RGBA") and len(depths) == bands:
        picture = _read_16_bit_colour(image, data)
    else:
        raise InputError(_describe_layout(tags))
    if tags.get(_PHOTOMETRIC) == _MIN_IS_WHITE and max(depths) == 16:
        picture = replace(picture, samples=~picture.samples)  # Pillow does it up to 8 bits
    metadata = dict(picture.metadata)
    if _RESOLUTION not in tags:
        metadata.pop("PHYS", None)  # made up by Pillow
    elif tags.get(_RESOLUTION_UNIT) == _NO_UNIT:
        metadata |= shape_of_pixels(*image.info.get("resolution", (0, 0)))
    metadata.pop("EXIF", None)
    for tag in (_LAYOUT - _PAGE_KINDS if is_page else _LAYOUT) & set(exif):
        del exif[tag]
    if len(exif):
        keep_bytes(exif)
        exif.bigtiff = False  # EXIF data is a classic TIFF structure, whatever it was read from
        if is_page:
            exif.endian = "<"  # as pages are written, so that they can be compared
        metadata["EXIF"] = exif_block(exif.tobytes())
    return replace(picture, metadata=metadata)


def keep_bytes(exif: Any) -> None:
    """Give the texts of EXIF data as the bytes they were: Pillow would write '?' for most letters.

    It reads each byte as a letter of Latin-1, so none is lost, whatever the encoding was.
    """
    for directory in (exif, *(exif.get_ifd(number) for number in _EXIF_DIRECTORIES)):
        for tag, value in list(directory.items()):
            if isinstance(value, str) and not value.isascii():
                directory[tag] = value.encode("latin-1", "replace")


def holds_jpeg(image: Any) -> bool:
    """Whether the pixels are stored as JPEG."""
    return _number(image.tag_v2, _COMPRESSION, 1) in _JPEG


def count_sub_images(image: Any) -> int:
    """Return the number of images that are attached to one, which Pillow does not count."""
    return len(_numbers(image.tag_v2, _SUB_IMAGES))


def explain_failure(data: bytes) -> str:
    """Return why Pillow does not open a file: what it does not support, or that it is damaged."""
    if data[:4] == b"MM\0+":
        return "big-endian BigTIFF files are not supported"
    try:
        tags = TiffImagePlugin.ImageFileDirectory_v2(data[: 16 if data[:4] in _BIG_MAGICS else 8])
        file = io.BytesIO(data)
        file.seek(tags.next)
        tags.load(file)
        _check_samples(tags)
        return _describe_layout(tags)
    except InputError as error:
        return str(error)
    except PILLOW_ERRORS:
        return "damaged TIFF file (its tags cannot be read)"


def _check_samples(tags: Any) -> None:
    """Raise InputError if the tags describe samples that a picture cannot hold."""
    bits = max(_numbers(tags, _BITS), default=1)
    photometric = _number(tags, _PHOTOMETRIC, _MIN_IS_WHITE)  # like Pillow
    compression = _number(tags, _COMPRESSION, 1)
    for number in _numbers(tags, _SAMPLE_FORMAT):
        if number in _FORMAT_NAMES:
            raise InputError(f"{_FORMAT_NAMES[number]} samples of {bits} bits are not supported")
    if bits > 16:
        raise InputError(f"samples of {bits} bits are not supported")
    if photometric not in _COLOURS and not (photometric == _YCBCR and compression in _JPEG):
        name = _OTHER_COLOURS.get(photometric, f"photometric interpretation {photometric}")
        raise InputError(f"TIFF files of {name} are not supported")
    if compression not in TiffImagePlugin.COMPRESSION_INFO or compression in _NOT_BUILT_IN:
        raise InputError(f"TIFF compression {compression} is not supported")
    if _PREMULTIPLIED in _numbers(tags, _EXTRA_SAMPLES):
        raise InputError("premultiplied alpha cannot be kept exactly in other formats")
    if (slices := _number(tags, _SLICES, 1)) > 1:
        raise InputError(f"volumes are not supported, and this one has {slices} slices")
    if tags.get(_PLANES) == _PLANAR and _number(tags, _SAMPLES, 1) > 1 and bits > 8:
        raise InputError(f"{bits}-bit samples in separate planes are not supported")
    if photometric == _PALETTE:
        _check_palette(np.array(_numbers(tags, _COLOUR_MAP), np.int64))


def _check_palette(entries: Any) -> None:
    """Raise InputError unless the 16-bit entries are 8-bit colours.

    Those are stored times 257, so that white is 65535, or times 256 by some writers.
    """
    if (entries % 257).any() and (entries % 256).any():
        wide = entries[(entries % 257) != 0][0]
        raise InputError(f"palettes of 16-bit colours are not supported (an entry is {wide})")


def _number(tags: Any, tag: int, default: int) -> int:
    """Return the value of a tag, or the default if the file has no such tag."""
    return next(iter(_numbers(tags, tag)), default)


def _numbers(tags: Any, tag: int) -> tuple[int, ...]:
    """Return the values of a tag, perhaps none; raises InputError unless they are integers."""
    value = tags.get(tag, ())
    values = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(number, int) for number in values):
        raise InputError(f"damaged TIFF file (tag {tag} is not an integer)")
    return values


def _describe_layout(tags: Any) -> str:
    """Return why to refuse a layout that `_check_samples` accepts but Pillow has no mode for."""
    number = _number(tags, _SAMPLES, 1)
    samples = f"{number} sample{'s' if number > 1 else ''} a pixel of {max(tags[_BITS])} bits"
    planes = ", in planes" if tags.get(_PLANES) == _PLANAR else ""
    return f"TIFF layout not supported: {samples}, {_COLOURS[tags[_PHOTOMETRIC]]}{planes}"


def _read_16_bit_colour(image: Any, data: bytes) -> Picture:
    """Read 16-bit colour, of which Pillow keeps the high bytes.

    Taking the samples for those of the other byte order makes it keep the low bytes instead.
    """
    high = picture_from_image(image)
    again: Any
    with Image.open(io.BytesIO(data), formats=("TIFF",)) as again:
        again.seek(image.tell())
        again.tile = [tile._replace(args=_swap_bytes(tile.args)) for tile in again.tile]
        _load_unturned(again)
        low = np.asarray(again)
    samples = high.samples.astype(np.uint16) << 8 | low.reshape(high.samples.shape)
    return Picture(samples, MODES[f"{high.mode.name}16"], high.metadata)


def _load_unturned(image: Any) -> None:
    """Decode a TIFF image without turning it as its orientation tag says, which Pillow would do.

    The tag stays in the EXIF data, and the samples where they are in the file.
    """

    def keep_size() -> None:
        image._size = image.im.size

    image.load_end = keep_size
    image.load()


def _swap_bytes(args: Any) -> Any:
    raw_mode, *rest = (args,) if isinstance(args, str) else args
    swapped = raw_mode[:-1] + ("L" if raw_mode[-1] == "B" else "B")
    return swapped if isinstance(args, str) else (swapped, *rest)
