"""Sets of images to measure codecs on: CIFAR-10, MNIST, a folder of images, an .npy array.

A set hands out pictures one at a time, without metadata, and can be sent to another process: a
folder or an .npy travels as its path, so that no more than one picture need be in memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lmzip import MODES, InputError, Picture, mode_of
from lmzip.formats import LOSSY_SUFFIXES, READABLE_SUFFIXES, read_picture, to_true_colour
from lmzip.models.data_files import DATA_SETS, DataError, guess_data_set, read_data_set

KINDS = (*DATA_SETS, "images", "npy")
_TITLES = {"cifar10": "CIFAR-10", "mnist": "MNIST", "binarized-mnist": "binarized MNIST"}


class DataSet(ABC):
    """Numbered pictures. `title` is what tables and pages call the set."""

    title: str
    names: tuple[str, ...]

    @abstractmethod
    def picture(self, number: int) -> Picture:
        """Return one picture without metadata; raises InputError if it cannot be read."""

    def __len__(self) -> int:
        return len(self.names)

    def pictures(self) -> Iterator[Picture]:
        """Return all pictures, first to last."""
        return (self.picture(number) for number in range(len(self)))


@dataclass(frozen=True)
class ArraySet(DataSet):
    """Images (N, H, W, C) in memory."""

    title: str
    names: tuple[str, ...]
    images: npt.NDArray[np.uint8]

    def picture(self, number: int) -> Picture:
        return _to_picture(self.images[number])


@dataclass(frozen=True)
class NpySet(DataSet):
    """Images (N, H, W, C) or (N, H, W) in an .npy file, of which only what is asked for is read."""

    title: str
    names: tuple[str, ...]
    path: Path

    def picture(self, number: int) -> Picture:
        return _to_picture(_open_npy(self.path)[number])


@dataclass(frozen=True)
class FolderSet(DataSet):
    """Image files."""

    title: str
    names: tuple[str, ...]
    paths: tuple[Path, ...]

    def picture(self, number: int) -> Picture:
        try:
            return simplify(read_picture(self.paths[number].read_bytes()).picture)
        except InputError as error:
            raise DataError(f"{self.paths[number]}: {error}") from None


def simplify(picture: Picture) -> Picture:
    """Drop metadata; turn palette and 1-bit pictures into the colours they represent.

    So every codec gets the same samples, whether or not it knows palettes.
    """
    if picture.mode.name == "P":
        picture = to_true_colour(picture)
    elif picture.mode.name == "1":
        picture = Picture(picture.samples.astype(np.uint8) * 255, MODES["L"])
    return replace(picture, metadata={})


def open_set(kind: str | None, path: Path, *, limit: int = 0, split: str = "test") -> DataSet:
    """Open a data set; without a kind, see what is there. Raises DataError or InputError.

    `limit` keeps only the first images; `split` is for the data sets, not for folders.
    """
    kind = kind or _guess_kind(path)
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if kind in DATA_SETS:
        inside = path.is_file() or any(path.glob("*_batch*"))
        roots, name = ([path.parent], path.name) if inside else ([path], "")
        planes = read_data_set(kind, roots, split, name)
        if kind == "binarized-mnist":
            planes = planes * np.uint8(255)  # as grey pictures, which every codec knows
        return _from_planes(f"{_TITLES[kind]} {split}", planes, limit)
    if kind == "npy":
        count = len(_open_npy(path))
        return NpySet(path.name, _number(min(count, limit or count)), path)
    return _open_images(path, limit)


def _guess_kind(path: Path) -> str:
    return "npy" if path.suffix == ".npy" else guess_data_set(path) or "images"


def _from_planes(title: str, planes: npt.NDArray[np.uint8], limit: int) -> ArraySet:
    """Make a set of images (N, C, H, W)."""
    images = np.ascontiguousarray(planes[: limit or None].transpose(0, 2, 3, 1))
    return ArraySet(title, _number(len(images)), images)


def _open_images(path: Path, limit: int) -> FolderSet:
    if path.is_file():
        return FolderSet(path.name, (path.name,), (path,))
    wanted = READABLE_SUFFIXES + LOSSY_SUFFIXES
    files = sorted(f for f in path.rglob("*") if f.suffix.lower() in wanted and f.is_file())
    if not files:
        raise DataError(f"{path}: no images ({', '.join(wanted)}) in this folder")
    files = files[: limit or None]
    title = path.resolve().name
    return FolderSet(title, tuple(str(f.relative_to(path)) for f in files), tuple(files))


def _open_npy(path: Path) -> npt.NDArray[np.generic]:
    try:
        images = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise DataError(f"{path}: not an array of images ({error})") from None
    if images.ndim not in (3, 4) or not len(images):
        raise DataError(f"{path}: needs N x H x W x C or N x H x W, got shape {images.shape}")
    return images


def _to_picture(image: npt.NDArray[np.generic]) -> Picture:
    samples = np.ascontiguousarray(image if image.ndim == 3 else image[..., None])
    return simplify(Picture(samples, mode_of(samples)))


def _number(count: int) -> tuple[str, ...]:
    return tuple(f"#{number}" for number in range(count))
