"""The public functions for arrays: numpy arrays or torch tensors, in any layout."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from lmzip.container.archive_reader import Archive
from lmzip.container.archive_writer import pack_archive
from lmzip.container.image_reader import Region, decompress_picture
from lmzip.container.image_writer import compress_picture
from lmzip.errors import InputError
from lmzip.limits import Limits
from lmzip.options import AUTO, ImageOrder, Options
from lmzip.picture import Picture, Samples, mode_of
from lmzip.progress import Progress


def compress(
    pixels: Any,
    *,
    layout: str = "HWC",
    model: str | Path = AUTO,
    order: ImageOrder = "raster",
    effort: str = "default",
    threads: int = 0,
    progress: Progress | None = None,
) -> bytes:
    """Compress one image to the bytes of an .lmz file.

    pixels: bool, uint8 or uint16, with axes as `layout` says: "HWC", "CHW" or "HW"; 1 to 4 channels
    (grey, grey and alpha, RGB, RGBA). model: the name of a released model, the path of a model
    file, or "auto". order: a name ("raster", "s-curve:mirror"), a permutation of the pixels, or
    "best". effort: "fast", "default", "best" or "max", which lets the network learn from the image
    and takes minutes (needs the extra `train`). threads: how many cores to use; 0 means all.
    progress: called with the pixels done and the total. Raises InputError.
    """
    options = Options(str(model), order, effort, threads)
    return compress_picture(_to_picture(pixels, layout), options, progress)


def decompress(
    data: bytes,
    *,
    layout: str = "HWC",
    model: str | Path | None = None,
    threads: int = 0,
    limits: Limits | None = None,
) -> Samples:
    """Restore the pixels of an .lmz file; `model` is the file of a model that is not released.

    Raises LimitError if that would take more than the limits allow: those that are given, or else
    those of the environment.
    """
    picture = decompress_picture(bytes(data), model=model, threads=threads, limits=limits)
    return _from_samples(picture.samples, layout)


def decompress_region(
    data: bytes,
    top: int,
    left: int,
    height: int,
    width: int,
    *,
    layout: str = "HWC",
    model: str | Path | None = None,
    threads: int = 0,
    limits: Limits | None = None,
) -> Samples:
    """Restore a rectangle of an .lmz file, decoding no more tiles than it touches."""
    region = Region(top, left, height, width)
    picture = decompress_picture(
        bytes(data), region=region, model=model, threads=threads, limits=limits
    )
    return _from_samples(picture.samples, layout)


def compress_batch(
    images: Any,
    *,
    layout: str = "NHWC",
    model: str | Path = AUTO,
    order: ImageOrder = "raster",
    effort: str = "default",
    threads: int = 0,
    progress: Progress | None = None,
) -> bytes:
    """Compress many images to the bytes of one archive.

    images: an array or tensor with a leading axis N, or any iterable of images. `layout` is "N"
    followed by a layout of `compress`; the other arguments are those of `compress`.
    """
    if not layout.startswith("N"):
        raise InputError(f"unknown layout {layout!r}: choose NHWC, NCHW or NHW")
    options = Options(str(model), order, effort, threads)
    pictures = ((None, _to_picture(image, layout[1:])) for image in _each(images))
    return pack_archive(pictures, options, progress)


def open_archive(
    source: str | Path | bytes,
    *,
    model: str | Path | None = None,
    threads: int = 0,
    limits: Limits | None = None,
) -> Archive:
    """Open an archive given by its path or its bytes; `len()`, indices and slices work."""
    return Archive(source, model=model, threads=threads, limits=limits)


def _each(images: Any) -> Iterable[Any]:
    return images if hasattr(images, "__iter__") else [images]


_AXES = {"HWC": (0, 1, 2), "CHW": (1, 2, 0), "HW": (0, 1)}


def _to_picture(pixels: Any, layout: str) -> Picture:
    if layout not in _AXES:
        raise InputError(f"unknown layout {layout!r}: choose {', '.join(_AXES)}")
    if hasattr(pixels, "detach"):  # a torch tensor, wherever it lives
        pixels = pixels.detach().cpu().numpy()
    array = np.asarray(pixels)
    if array.ndim != len(layout):
        raise InputError(f"layout {layout} has {len(layout)} axes, the pixels have {array.ndim}")
    if array.dtype not in (np.bool_, np.uint8, np.uint16):
        raise InputError(f"pixels must be bool, uint8 or uint16, not {array.dtype}")
    samples = array.transpose(_AXES[layout])
    samples = samples[..., None] if layout == "HW" else samples
    samples = np.ascontiguousarray(samples)
    return Picture(samples, mode_of(samples))


def _from_samples(samples: Samples, layout: str) -> Samples:
    if layout not in _AXES:
        raise InputError(f"unknown layout {layout!r}: choose {', '.join(_AXES)}")
    if layout == "HW":
        if samples.shape[2] != 1:
            raise InputError(f"layout HW is for one channel, the image has {samples.shape[2]}")
        return samples[..., 0]
    return samples if layout == "HWC" else np.ascontiguousarray(samples.transpose(2, 0, 1))
