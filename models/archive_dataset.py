"""An archive as a torch data set: images are decoded on access.

A worker process of a DataLoader opens the archive for itself: an open file does not survive
pickling, and after a fork it would be shared. So the archive is opened when it is first used, once
in each process.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

import lmzip
from lmzip.errors import InputError


class ArchiveDataset(Dataset[Tensor]):
    """The images of an archive as uint8 tensors (C, H, W).

    source: the archive's path, address or bytes. model: the file of a model that is not released.
    Raises InputError for an index of an image that is not of 8 bits.
    """

    def __init__(self, source: str | Path | bytes, *, model: str | Path | None = None) -> None:
        self._source, self._model = source, model
        self._archive: lmzip.Archive | None = None
        self._process = 0
        self._count = len(self._open())

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> Tensor:
        return _to_tensor(self._open()[number], number)

    def __getitems__(self, numbers: list[int]) -> list[Tensor]:
        """Return several images; each of the archive's chunks is decoded once for all of them."""
        every = range(len(self))
        pictures = self._open().pictures([every[number] for number in numbers])
        return [_to_tensor(p.samples, n) for p, n in zip(pictures, numbers, strict=True)]

    def _open(self) -> lmzip.Archive:
        """Return this process's own archive."""
        if self._archive is None or self._process != os.getpid():
            # A DataLoader runs many of these at once: each must not start workers of its own.
            self._archive = lmzip.open_archive(self._source, model=self._model, threads=1)
            self._process = os.getpid()
        return self._archive

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_archive": None}


def _to_tensor(samples: np.ndarray[Any, Any], number: int) -> Tensor:
    if samples.dtype != np.uint8:
        raise InputError(f"image {number} holds {samples.dtype}: a data set is for 8 bits")
    return torch.from_numpy(np.ascontiguousarray(samples.transpose(2, 0, 1)))
