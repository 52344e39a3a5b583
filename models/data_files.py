"""Data sets as uint8 arrays (N, C, H, W), read from the files their authors publish.

CIFAR-10 (python and binary layout, unpacked or as .tar.gz), MNIST (idx, also .gz) and binarized
MNIST (npz with packed bits). Needs only numpy, so that `lmzip bench` runs without torch. Every
problem with a file raises DataError, which says what is wrong and what to download. Pickles are
read by an unpickler that admits arrays and plain values only, so that no file can run code.
"""

from __future__ import annotations

import gzip
import io
import pickle
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzip.errors import InputError

Bytes = npt.NDArray[np.uint8]

CIFAR10_NAMES = (
    "cifar-10-batches-bin",
    "cifar-10-batches-py",
    "cifar-10-binary.tar.gz",
    "cifar-10-python.tar.gz",
)
_CIFAR10_HINT = "fetch cifar-10-binary.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html"
_MNIST_HINT = "fetch {}-ubyte.gz of MNIST (http://yann.lecun.com/exdb/mnist or a mirror of it)"
_BINARIZED_NAME = "binarized_mnist.npz"
_BINARIZED_HINT = (
    "it is an npz of bits packed along the second axis: keys train, valid, test, each (N, 98) uint8"
)
_CIFAR10_RECORD = 1 + 3 * 32 * 32  # label, then the planes


class DataError(InputError):
    """A data set is missing, incomplete or damaged."""


def find_path(roots: Sequence[str | Path], names: Sequence[str], hint: str = "") -> Path:
    """Return the first of some relative names that exists below one of the data roots."""
    for root in roots:
        for name in names:
            if (Path(root) / name).exists():
                return Path(root) / name
    where = ", ".join(str(root) for root in roots) or "no data folder"
    raise DataError(f"no {' or '.join(names)} in {where}" + (f": {hint}" if hint else ""))


def read_cifar10(roots: Sequence[str | Path], split: str = "train", path: str = "") -> Bytes:
    """Return CIFAR-10's 50,000 training or 10,000 test images: uint8 (N, 3, 32, 32)."""
    check_split(split, ("train", "test"), "CIFAR-10")
    names = [path] if path else [*CIFAR10_NAMES, *(f"cifar10/{name}" for name in CIFAR10_NAMES)]
    found = find_path(roots, names, _CIFAR10_HINT)
    stems = [f"data_batch_{i}" for i in range(1, 6)] if split == "train" else ["test_batch"]
    batches = []
    for stem, data in _read_cifar10_files(found, stems):
        try:
            planes = (_binary_batch if stem.endswith(".bin") else _python_batch)(data)
            batches.append(planes.reshape(10_000, 3, 32, 32))
        except (ValueError, KeyError, TypeError, EOFError, pickle.UnpicklingError) as error:
            raise DataError(f"{found}: {stem} is damaged ({error}): {_CIFAR10_HINT}") from None
    return np.concatenate(batches)


def _read_cifar10_files(found: Path, stems: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each batch file, which ends in .bin in the binary layout."""
    if found.is_dir():
        suffix = ".bin" if (found / f"{stems[0]}.bin").exists() else ""
        for stem in stems:
            try:
                yield stem + suffix, (found / (stem + suffix)).read_bytes()
            except OSError as error:
                raise DataError(
                    f"{found}/{stem}{suffix}: {error.strerror}: {_CIFAR10_HINT}"
                ) from None
        return
    try:
        with tarfile.open(found) as archive:
            members = {Path(member.name).name: member for member in archive}
            for stem in stems:
                name = f"{stem}.bin" if f"{stem}.bin" in members else stem
                file = archive.extractfile(members[name]) if name in members else None
                if file is None:
                    raise DataError(f"{found}: no {stem} in the archive: {_CIFAR10_HINT}")
                yield name, file.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise DataError(f"{found}: damaged archive ({error}): {_CIFAR10_HINT}") from None


def _binary_batch(data: bytes) -> Bytes:
    return np.frombuffer(data, np.uint8).reshape(10_000, _CIFAR10_RECORD)[:, 1:]


def _python_batch(data: bytes) -> Bytes:
    content = _ArrayUnpickler(io.BytesIO(data), encoding="bytes").load()
    return np.asarray(content[b"data"], np.uint8)


class _ArrayUnpickler(pickle.Unpickler):
    """Reads arrays, numbers, texts and containers; refuses to look up anything else."""

    def find_class(self, module: str, name: str) -> Any:
        core = module.replace("numpy.core.", "numpy._core.")
        if (core, name) == ("numpy._core.multiarray", "_reconstruct"):
            return np.empty(0).__reduce__()[0]  # the function itself, wherever numpy keeps it
        if (core, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return getattr(np, name)
        raise pickle.UnpicklingError(f"a data batch has no use for {module}.{name}")


def read_mnist(roots: Sequence[str | Path], split: str = "train", path: str = "") -> Bytes:
    """Return MNIST's 60,000 training or 10,000 test digits: uint8 (N, 1, 28, 28)."""
    check_split(split, ("train", "test"), "MNIST")
    stem = "train-images" if split == "train" else "t10k-images"
    names = [stem + ending for ending in ("-idx3-ubyte", ".idx3-ubyte")]
    names = [name + ending for name in names for ending in ("", ".gz")]
    folders = [path] if path else ["", "mnist", "MNIST/raw"]
    hint = _MNIST_HINT.format(stem + "-idx3")
    found = find_path(roots, [str(Path(f) / name) for f in folders for name in names], hint)
    data = found.read_bytes()
    try:
        if found.suffix == ".gz":
            data = gzip.decompress(data)
        magic, count, height, width = np.frombuffer(data[:16], ">i4").tolist()
        if magic != 0x803:
            raise ValueError(f"magic number {magic:#x} instead of 0x803")
        pixels = np.frombuffer(data, np.uint8, offset=16).reshape(count, 1, height, width)
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise DataError(f"{found}: damaged idx file ({error}): {hint}") from None
    return pixels.copy()


def read_binarized_mnist(
    roots: Sequence[str | Path], split: str = "train", path: str = ""
) -> Bytes:
    """Return the fixed binarisation of MNIST, levels 0 and 1: uint8 (N, 1, 28, 28)."""
    check_split(split, ("train", "valid", "test"), "binarized MNIST")
    names = [path] if path else [_BINARIZED_NAME, f"mnist/{_BINARIZED_NAME}"]
    found = find_path(roots, names, _BINARIZED_HINT)
    try:
        with open(found, "rb") as opened, np.load(opened, allow_pickle=False) as arrays:
            packed = arrays[split]
        return np.unpackbits(packed, axis=1).reshape(-1, 1, 28, 28)
    except (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{found}: damaged file ({error}): {_BINARIZED_HINT}") from None


_READERS: dict[str, Callable[[Sequence[str | Path], str, str], Bytes]] = {
    "cifar10": read_cifar10,
    "mnist": read_mnist,
    "binarized-mnist": read_binarized_mnist,
}
DATA_SETS = tuple(_READERS)


def read_data_set(
    name: str, roots: Sequence[str | Path], split: str = "train", path: str = ""
) -> Bytes:
    """Return the images of one of DATA_SETS, from `path` or its usual name below a data root."""
    return _READERS[name](roots, split, path)


def guess_data_set(path: Path) -> str | None:
    """Return which of DATA_SETS a folder or file holds, or None."""
    if path.name in CIFAR10_NAMES or any((path / name).exists() for name in CIFAR10_NAMES):
        return "cifar10"
    if path.name == _BINARIZED_NAME or (path / _BINARIZED_NAME).exists():
        return "binarized-mnist"
    return "mnist" if path.is_dir() and any(path.glob("*-images*idx3-ubyte*")) else None


def check_split(split: str, known: tuple[str, ...], what: str) -> None:
    """Raise DataError unless a data set has a split of this name."""
    if split not in known:
        raise DataError(f"{what} has no split {split!r}: choose from {', '.join(known)}")
