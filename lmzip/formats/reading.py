"""Image files to pictures: PNG, TIFF, BMP, PNM, WebP, GIF and QOI, and the pixels of JPEG files.

Invariant: the samples are those that the file holds, colours under transparent pixels included, and
so is the mode. A file whose samples would have to be changed is refused. PNG and PNM have readers
of their own (`lmzip.formats.png`, `lmzip.formats.pnm`), TIFF has one that watches over Pillow's
(`lmzip.formats.tiff`), everything else is Pillow's.
"""

from __future__ import annotations

import struct
import warnings
from dataclasses import dataclass, replace

import numpy as np
from PIL import UnidentifiedImageError

from lmzip.errors import InputError
from lmzip.formats import leftovers, png, pnm, tiff, webp
from lmzip.formats.metadata import metadata_from_chunks, name_rest
from lmzip.formats.pillow_images import PILLOW_ERRORS, open_image, picture_from_image
from lmzip.limits import PILLOW_PIXEL, Limits, resolve_limits
from lmzip.picture import MODES, Picture
from lmzip.png_chunks import find_end

READABLE_SUFFIXES = (
    ".png", ".apng", ".tif", ".tiff", ".bmp", ".pbm", ".pgm", ".ppm", ".pnm", ".webp", ".gif",
    ".qoi",
)  # fmt: skip
LOSSY_SUFFIXES = (".jpg", ".jpeg")
_PILLOW_FORMATS = ("TIFF", "BMP", "WEBP", "GIF", "QOI", "JPEG")
_NAME_LOSSES = {
    "BMP": leftovers.name_bmp_losses,
    "QOI": leftovers.name_qoi_losses,
    "WEBP": webp.name_losses,
}
_PNG_MODES = {
    (png.GREY, 16): "L16",
    (png.GREY_ALPHA, 8): "LA",
    (png.GREY_ALPHA, 16): "LA16",
    (png.RGB, 8): "RGB",
    (png.RGB, 16): "RGB16",
    (png.RGB_ALPHA, 8): "RGBA",
    (png.RGB_ALPHA, 16): "RGBA16",
}


@dataclass(frozen=True)
class Reading:
    """A picture, the format of its file, and warnings for the user."""

    picture: Picture
    format: str
    warnings: tuple[str, ...] = ()
    frames: int = 1  # pictures in the file, of which this is the first
    losses: tuple[str, ...] = ()  # what else is in the file and not in the picture

    @property
    def complete(self) -> bool:
        """Whether the file has no further pictures (`lmzip.formats.read_frames` reads them)."""
        return self.frames == 1


def read_picture(data: bytes, limits: Limits | None = None) -> Reading:
    """Read an image file; raises InputError if it is damaged or its samples cannot be kept.

    Raises LimitError if it is larger than the limits allow.
    """
    limits = resolve_limits(limits)
    if not data:
        raise InputError("the file is empty")
    if data[:4] in (b"\x89PNG", b"\x89png") or data[1:4] == b"PNG":
        return _read_png(data, limits)
    if data[:2] in pnm.MAGICS and data[2:3].isspace():
        return _read_pnm(data, limits)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        reading = _read_with_pillow(data, limits)
    remarks = tuple(" ".join(str(warning.message).split()) for warning in caught)
    damage = tuple(remark for remark in remarks if means_damage(remark))
    others = tuple(remark for remark in remarks if remark not in damage)
    return replace(
        reading, warnings=(*reading.warnings, *others), losses=(*reading.losses, *damage)
    )


def _read_png(data: bytes, limits: Limits) -> Reading:
    file = png.read_png(data, limits)
    limits.check_metadata(sum(len(content) for _, content in file.chunks))
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
    picture = Picture(samples, MODES[name], metadata)
    losses = name_rest(len(data) - find_end(data))
    return Reading(picture, "PNG", frames=_count_frames(file), losses=losses)


def _count_frames(file: png.Png) -> int:
    """Return the number of pictures in a PNG file: the first one, and those of its animation."""
    kinds = [kind for kind, _ in file.chunks if kind in (b"fcTL", b"fdAT")]
    # Pixels after the control chunk of a frame are that frame's; the first picture has its own.
    return 1 + [kinds[i : i + 2] == [b"fcTL", b"fdAT"] for i in range(len(kinds))].count(True)


def _read_pnm(data: bytes, limits: Limits) -> Reading:
    samples, white, losses = pnm.read_pnm(data, limits)
    if samples.dtype == np.bool_:
        return Reading(Picture(samples, MODES["1"]), "PNM", losses=losses)
    full = int(np.iinfo(samples.dtype).max)
    name = ("L" if samples.shape[2] == 1 else "RGB") + ("16" if full > 255 else "")
    metadata = {} if white == full else {"MAXV": struct.pack("<H", white)}
    return Reading(Picture(samples, MODES[name], metadata), "PNM", losses=losses)


def _read_with_pillow(data: bytes, limits: Limits) -> Reading:
    try:
        image = open_image(data, _PILLOW_FORMATS)
    except UnidentifiedImageError:
        if data[:4] in tiff.MAGICS:
            raise InputError(tiff.explain_failure(data)) from None
        raise InputError(
            "not an image that lmzip reads (PNG, TIFF, BMP, PNM, WebP, GIF, QOI, JPEG)"
        ) from None
    except PILLOW_ERRORS as error:
        raise InputError(describe_failure("image", error)) from None
    limits.check_pixels(image.height, image.width)
    limits.check_memory(image.height * image.width * PILLOW_PIXEL)
    kind = "JPEG" if image.format == "MPO" else str(image.format)
    remarks = []
    in_jpeg = False
    with image:
        try:
            frames = getattr(image, "n_frames", 1)
            if frames > 1:
                image.seek(0)
            if kind == "TIFF":
                frames += tiff.count_sub_images(image)
                in_jpeg = tiff.holds_jpeg(image)
                picture = tiff.read_tiff(image, data)
            else:
                picture = picture_from_image(image)
        except InputError:
            raise
        except PILLOW_ERRORS as error:
            raise InputError(describe_failure(kind, error)) from None
    losses = _NAME_LOSSES[kind](data) if kind in _NAME_LOSSES else ()
    if kind == "JPEG" or (kind == "WEBP" and webp.is_lossy(data)) or in_jpeg:
        name = {"WEBP": "WebP", "TIFF": "JPEG in TIFF"}.get(kind, kind)
        remarks.append(f"stored exactly, its pixels take more bytes than this {name}")
    return Reading(picture, kind, tuple(remarks), frames, losses)


def means_damage(remark: str) -> bool:
    """Whether something that Pillow says about a file means that it cannot read all of it."""
    return "corrupt" in remark.lower() or "truncated" in remark.lower()


def describe_failure(kind: str, error: Exception) -> str:
    """Return what Pillow's error means: something that it does not support, or damage."""
    reason = " ".join(str(error).split()) or type(error).__name__
    if "unsupported" in reason.lower() or "not supported" in reason.lower():
        return f"{kind} layout not supported ({reason})"
    return f"damaged {kind} file ({reason})"
