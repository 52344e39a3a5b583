"""Images for `lmzip eval` and `lmzip export`: a data set or a folder of images as a tensor.

Binary networks have two kinds of MNIST: `binarized-mnist` is the fixed set of Salakhutdinov and
Murray; `mnist` is drawn afresh, each pixel white with the probability that is its grey.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from lmzip import InputError
from lmzip.models.data_files import DATA_SETS, guess_data_set
from lmzip.models.data_tensors import load_data_set, load_folder

IMAGES = "images"
SETS = (*DATA_SETS, IMAGES)


def guess_set(folder: Path) -> str:
    """Return which data set a folder holds: a known one, or else images."""
    return guess_data_set(folder) or IMAGES


def load_set(
    folder: Path,
    kind: str | None,
    split: str,
    *,
    channels: int,
    levels: int,
    crop: int,
    size: int = 0,
    seed: int = 0,
) -> Tensor:
    """Return the images of a data set: uint8 (N, C, H, W), 0 to levels - 1.

    A folder of images gives the middle squares of those that are large enough, or with a `size` all
    of them, scaled to squares of it. The seed is that of binary images drawn from grey ones.
    """
    kind = kind or guess_set(folder)
    if kind == "binarized-mnist":
        return load_data_set(kind, [folder], split)
    if kind == "mnist" and levels == 2:
        return _draw_binary(load_data_set(kind, [folder], split), seed)
    if kind != IMAGES:
        return _reduce(load_data_set(kind, [folder], split), levels)
    path = folder.resolve()
    images = load_folder([path.parent], path.name, channels=channels, size=size)
    if size:
        return _reduce(torch.stack(images), levels)
    squares = [_cut(image, crop) for image in images if min(image.shape[1:]) >= crop]
    if not squares:
        raise InputError(f"{folder}: no image has {crop}x{crop} pixels")
    return _reduce(torch.stack(squares), levels)


def _reduce(images: Tensor, levels: int) -> Tensor:
    """Keep the high bits of 8-bit samples, for networks of fewer levels."""
    return images if levels == 256 else images // (256 // levels)


def _draw_binary(images: Tensor, seed: int) -> Tensor:
    """Draw each pixel as one with the probability that its grey is, as white is 255."""
    chances = torch.rand(images.shape, generator=torch.Generator().manual_seed(seed))
    return (chances * 255 < images).to(torch.uint8)


def _cut(image: Tensor, side: int) -> Tensor:
    top, left = (image.shape[1] - side) // 2, (image.shape[2] - side) // 2
    return image[:, top : top + side, left : left + side]
