"""Image files to pictures: PNG, TIFF, BMP, PNM, WebP, GIF, QOI, and JPEG for what it is worth.

Invariant: the samples are those that the file holds, colours under transparent pixels included, and
so is the mode. A file whose samples would have to be changed is refused. PNG and PNM have readers
of their own (`lmzip.pictures.png`, `lmzip.pictures.pnm`), everything else is Pillow's.
"""

from __future__ import annotations

import io
import struct
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from lmzip.errors import InputError
from lmzip.picture import MODES, Picture
from lmzip.pictures import png, pnm
from lmzip.pictures.metadata import exif_block, metadata_from_chunks
from lmzip.pictures.pillow_images import picture_from_image

SUFFIXES = (
    ".png", ".tif", ".tiff", ".bmp", ".pbm", ".pgm", ".ppm", ".pnm", ".webp", ".gif", ".qoi"
)  # fmt: skip
LOSSY_SUFFIXES = (".jpg", ".jpeg")
_PILLOW_FORMATS = ("TIFF", "BMP", "WEBP", "GIF", "QOI", "JPEG")
# What Pillow raises for damaged files, depending on where it notices.
_PILLOW_ERRORS = (OSError, SyntaxError, ValueError, EOFError, KeyError, TypeError, struct.error)
_TIFF_RESOLUTION = 282
_TIFF_MAGICS = (b"II*\0", b"MM\0*")
_PNG_MODES = {
    (png.GREY, 16): "L16",
    (png.GREY_ALPHA, 8): "LA",
    (png.GREY_ALPHA, 16): "LA16",
    (png.RGB, 8): "RGB",
    (png.RGB, 16): "RGB16",
    (png.RGB_ALPHA, 8): "RGBA",
    (png.RGB_ALPHA, 16): "RGBA16",
}
# Tags of TIFF that describe the layout of the pixels, or that have a block of their own.
_EXIF_DIRECTORIES = (0x8769, 0x8825, 0xA005)  # EXIF, GPS, interoperability
_TIFF_LAYOUT = frozenset(
    {254, 255, 256, 257, 258, 259, 262, 263, 264, 265, 266, 273, 277, 278, 279, 280, 281, 282, 283}
    | {284, 288, 289, 290, 291, 292, 293, 296, 301, 317, 318, 319, 320, 321, 322, 323, 324, 325}
    | {330, 332, 334, 336, 338, 339, 340, 341, 347, 529, 530, 531, 532, 700, 34675}
)


@dataclass(frozen=True)
class Reading:
    """A picture, the format of its file, and what its user should know about it."""

    picture: Picture
    format: str
    warnings: tuple[str, ...] = ()
    frames: int = 1  # pictures in the file, of which the first is kept

    @property
    def complete(self) -> bool:
        """Whether no frame of the file was left out."""
        return self.frames == 1


def read_picture(data: bytes) -> Reading:
    """Read an image file; raises InputError if it is damaged or its samples cannot be kept."""
    reading = _read_any(data)
    if reading.complete:
        return reading
    remark = f"only the first of {reading.frames} frames is kept"
    return replace(reading, warnings=(remark, *reading.warnings))


def _read_any(data: bytes) -> Reading:
    if not data:
        raise InputError("the file is empty")
    if data[:4] in (b"\x89PNG", b"\x89png") or data[1:4] == b"PNG":
        return _read_png(data)
    if data[:2] in pnm.MAGICS and data[2:3].isspace():
        return _read_pnm(data)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        reading = _read_with_pillow(data)
    remarks = [" ".join(str(warning.message).split()) for warning in caught]
    return replace(reading, warnings=(*reading.warnings, *remarks))


def _read_png(data: bytes) -> Reading:
    file = png.read_png(data)
    metadata = metadata_from_chunks(file.chunks)
    samples = file.samples
    if file.colour == png.PALETTE:
        name = "P"
    elif file.colour == png.GREY and file.depth == 1:
        name, samples = "1", samples.astype(np.bool_)
    elif file.colour == png.GREY and file.depth <= 8:
        name, samples = "L", samples * np.uint8(255 // ((1 << file.depth) - 1))
    else:
        name = _PNG_MODES[file.colour, file.depth]
    if name in ("L", "P") and file.depth < 8:
        metadata["BITS"] = bytes([file.depth])
    if name not in ("P", "RGB", "RGB16", "RGBA", "RGBA16"):
        metadata.pop("PLTE", None)  # a grey image has no use for one
    return Reading(Picture(samples, MODES[name], metadata), "PNG", frames=_count_frames(file))


def _count_frames(file: png.Png) -> int:
    """Return the number of pictures in a PNG file: the first one, and those of its animation."""
    kinds = [kind for kind, _ in file.chunks if kind in (b"fcTL", b"fdAT")]
    # Pixels after the control chunk of a frame are that frame's; the first picture has its own.
    return 1 + [kinds[i : i + 2] == [b"fcTL", b"fdAT"] for i in range(len(kinds))].count(True)


def _read_pnm(data: bytes) -> Reading:
    samples, white = pnm.read_pnm(data)
    if samples.dtype == np.bool_:
        return Reading(Picture(samples, MODES["1"]), "PNM")
    full = int(np.iinfo(samples.dtype).max)
    name = ("L" if samples.shape[2] == 1 else "RGB") + ("16" if full > 255 else "")
    metadata = {} if white == full else {"MAXV": struct.pack("<H", white)}
    return Reading(Picture(samples, MODES[name], metadata), "PNM")


def _read_with_pillow(data: bytes) -> Reading:
    try:
        image = Image.open(io.BytesIO(data), formats=_PILLOW_FORMATS)
    except Image.DecompressionBombError as error:
        raise InputError(str(error)) from None
    except UnidentifiedImageError:
        if data[:4] in _TIFF_MAGICS:
            raise InputError("damaged TIFF file, or samples that are not supported") from None
        raise InputError(
            "not an image that lmzip reads (PNG, TIFF, BMP, PNM, WebP, GIF, QOI, JPEG)"
        ) from None
    except _PILLOW_ERRORS as error:
        raise InputError(f"damaged image file ({_reason(error)})") from None
    kind = "JPEG" if image.format == "MPO" else str(image.format)
    remarks = []
    with image:
        try:
            frames = getattr(image, "n_frames", 1)
            if frames > 1:
                image.seek(0)
            picture = _read_tiff(image, data) if kind == "TIFF" else picture_from_image(image)
        except InputError:
            raise
        except _PILLOW_ERRORS as error:
            raise InputError(f"damaged {kind} file ({_reason(error)})") from None
    if kind == "JPEG" or (kind == "WEBP" and _is_lossy_webp(data)):
        remarks.append(
            f"its exact pixels will take more bytes than this {'WebP' if kind == 'WEBP' else kind}"
        )
    return Reading(picture, kind, tuple(remarks), frames)


def _read_tiff(image: Any, data: bytes) -> Picture:
    """Read a TIFF image, 16-bit colour in two passes, and collect its EXIF tags."""
    if 1 in image.tag_v2.get(338, ()):
        raise InputError("premultiplied alpha cannot be kept exactly in other formats")
    exif = image.getexif()
    for directory in _EXIF_DIRECTORIES:
        exif.get_ifd(directory)  # now, while the file is open
    _load_unturned(image)
    planes, depths = image.tag_v2.get(284, 1), image.tag_v2.get(258, (1,))
    if max(depths) <= 8 or (len(image.getbands()) == 1 and max(depths) <= 16):
        picture = picture_from_image(image)
    elif image.mode in ("RGB", "RGBA") and len(depths) == len(image.getbands()) and planes == 1:
        picture = _read_tiff_16(image, data)
    else:
        raise InputError(f"{len(depths)} channels of {max(depths)} bits in a layout not supported")
    for tag in _TIFF_LAYOUT & set(exif):
        del exif[tag]
    metadata = dict(picture.metadata)
    metadata.pop("EXIF", None)
    if _TIFF_RESOLUTION not in image.tag_v2:
        metadata.pop("PHYS", None)  # made up by Pillow
    if len(exif):
        metadata["EXIF"] = exif_block(exif.tobytes())
    return replace(picture, metadata=metadata)


def _read_tiff_16(image: Any, data: bytes) -> Picture:
    """Read 16-bit colour, of which Pillow keeps the high bytes.

    Taking the samples for those of the other byte order makes it keep the low bytes instead.
    """
    high = picture_from_image(image)
    again: Any
    with Image.open(io.BytesIO(data), formats=("TIFF",)) as again:
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


def _is_lossy_webp(data: bytes) -> bool:
    """Whether a WebP file has a chunk of lossy pixels."""
    position = 12
    while position + 8 <= len(data):
        if data[position : position + 4] == b"VP8 ":
            return True
        size = int.from_bytes(data[position + 4 : position + 8], "little")
        position += 8 + size + size % 2
    return False


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
