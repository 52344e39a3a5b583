"""Images as uint8 tensors (N, C, H, W): the data sets of `data_files.py`, and folders of images.

Every problem with a file raises DataError.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from lmzip.models.data_files import DataError, find_path, read_data_set

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".ppm", ".tif", ".tiff")


def load_data_set(
    name: str, roots: Sequence[str | Path], split: str = "train", path: str = ""
) -> Tensor:
    """Return the images of a data set of `data_files.DATA_SETS`."""
    return torch.from_numpy(read_data_set(name, roots, split, path))


def load_folder(
    roots: Sequence[str | Path],
    path: str,
    *,
    channels: int = 3,
    size: int = 0,
    files: slice = slice(None),
) -> list[Tensor]:
    """Return images of a folder and its subfolders, by name: uint8 (C, H, W) each.

    `files` says which of them, in the sequence of their names. With a `size`, every image is scaled
    (bilinearly, with anti-aliasing) to a square.
    """
    found = find_path(roots, [path], "name a folder of images")
    names = sorted(f for f in found.rglob("*") if f.suffix.lower() in IMAGE_SUFFIXES)[files]
    if not names:
        raise DataError(f"{found}: no images ({', '.join(IMAGE_SUFFIXES)}) in this folder")
    images = []
    for file in names:
        try:
            with Image.open(file) as opened:
                image = opened.convert("L" if channels == 1 else "RGB")
        except (OSError, SyntaxError, ValueError, UnidentifiedImageError) as error:
            raise DataError(f"{file}: cannot be read as an image ({error})") from None
        if size and image.size != (size, size):
            image = image.resize((size, size), Image.Resampling.BILINEAR)
        pixels = np.asarray(image).reshape(image.height, image.width, channels)
        images.append(torch.from_numpy(pixels.transpose(2, 0, 1).copy()))
    return images


def to_luma(images: Tensor) -> Tensor:
    """Return the luma of images as Pillow rounds it: uint8 (..., 3, H, W) to (..., 1, H, W)."""
    red, green, blue = images.to(torch.int32).unbind(-3)
    luma = (19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16
    return luma.unsqueeze(-3).to(torch.uint8)


def average_boxes(images: Tensor, factor: int) -> Tensor:
    """Average boxes of factor x factor pixels, rounding half up: uint8 (..., H, W).

    Rows and columns that do not fill a box are dropped.
    """
    if factor == 1:
        return images
    height, width = images.shape[-2] // factor, images.shape[-1] // factor
    cut = images[..., : height * factor, : width * factor].to(torch.int32)
    boxes = cut.reshape(*images.shape[:-2], height, factor, width, factor)
    sums = boxes.sum(dim=(-3, -1))
    return ((sums + factor * factor // 2) // (factor * factor)).to(torch.uint8)
