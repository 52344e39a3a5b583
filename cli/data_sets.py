"""Data sets on the command line of `eval` and `export`: which one a folder holds, as a tensor."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from lmzip.errors import InputError
from lmzip.models.data_files import (
    CIFAR10_NAMES,
    load_binarized_mnist,
    load_cifar10,
    load_folder,
    load_mnist,
)

SETS = ("cifar10", "mnist", "binarized-mnist", "images")


def guess_set(folder: Path) -> str:
    """Return which data set a folder holds: a known one, or else images."""
    if any((folder / name).exists() for name in CIFAR10_NAMES):
        return "cifar10"
    if (folder / "binarized_mnist.npz").exists():
        return "binarized-mnist"
    return "mnist" if any(folder.glob("*-images*idx3-ubyte*")) else "images"


def load_set(
    folder: Path, kind: str | None, split: str, *, channels: int, levels: int, crop: int
) -> Tensor:
    """Return the images of a data set: uint8 (N, C, H, W), 0 to levels - 1.

    Of a folder of images, squares from their middles; smaller images are left out.
    """
    kind = kind or guess_set(folder)
    if kind == "cifar10":
        return _reduce(load_cifar10([folder], split), levels)
    if kind == "mnist":
        return _reduce(load_mnist([folder], split), levels)
    if kind == "binarized-mnist":
        return load_binarized_mnist([folder], split)
    path = folder.resolve()
    images = load_folder([path.parent], path.name, channels=channels)
    squares = [_cut(image, crop) for image in images if min(image.shape[1:]) >= crop]
    if not squares:
        raise InputError(f"{folder}: no image has {crop}x{crop} pixels")
    return _reduce(torch.stack(squares), levels)


def _reduce(images: Tensor, levels: int) -> Tensor:
    """Keep the high bits of 8-bit samples, for networks of fewer levels."""
    return images if levels == 256 else images // (256 // levels)


def _cut(image: Tensor, side: int) -> Tensor:
    top, left = (image.shape[1] - side) // 2, (image.shape[2] - side) // 2
    return image[:, top : top + side, left : left + side]
