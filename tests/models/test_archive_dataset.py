"""The data set gives the archive's images, alone, in batches, and from several processes."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from support.networks import Images, compact_network, smooth_images, write_model
from torch import Tensor
from torch.utils.data import DataLoader

import lmzip
from lmzip.container.archive_file import ArchiveChunk, read_chunk
from lmzip.models.archive_dataset import ArchiveDataset

IMAGES = smooth_images(10, 6, 7)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(compact_network(), tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def path(model: Path) -> Path:
    path = model.parent / "images.lmz"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzip.container.archive_writer.BATCH_PIXELS", 3 * 42)
        path.write_bytes(lmzip.compress_batch(IMAGES, model=model))
    return path


def to_images(tensors: list[Tensor] | Tensor) -> Images:
    stacked: Images = torch.stack(list(tensors)).permute(0, 2, 3, 1).numpy()
    return stacked


def test_items_are_tensors_of_channels_first(path: Path, model: Path) -> None:
    for source in (path, str(path), path.read_bytes()):
        dataset = ArchiveDataset(source, model=model)
        assert len(dataset) == 10
        assert dataset[3].dtype == torch.uint8
        assert dataset[3].shape == (3, 6, 7)
        assert dataset[3].is_contiguous()
        assert np.array_equal(to_images([dataset[i] for i in range(10)]), IMAGES)
        assert np.array_equal(dataset[-1].permute(1, 2, 0).numpy(), IMAGES[-1])
        with pytest.raises(IndexError):
            dataset[10]


def test_a_batch_decodes_each_chunk_once(
    path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = ArchiveDataset(path, model=model)
    read: list[int] = []

    def count_reads(data: memoryview, chunk: ArchiveChunk) -> memoryview:
        read.append(chunk.offset)
        return read_chunk(data, chunk)

    monkeypatch.setattr("lmzip.container.archive_reader.read_chunk", count_reads)
    batch = dataset.__getitems__([8, 0, 2, 7, 1])
    assert np.array_equal(to_images(batch), IMAGES[[8, 0, 2, 7, 1]])
    assert len(read) == len(set(read)) == 2


@pytest.mark.parametrize("workers", [0, 2])
def test_data_loaders_agree(workers: int, path: Path, model: Path) -> None:
    dataset = ArchiveDataset(path, model=model)
    assert dataset[0].shape == (3, 6, 7)  # opened here first, and again in each worker
    loader = DataLoader(dataset, batch_size=4, num_workers=workers)
    batches = list(loader)
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert np.array_equal(to_images(torch.cat(batches)), IMAGES)


def test_pickles_hold_no_open_file(path: Path, model: Path) -> None:
    dataset = ArchiveDataset(path, model=model)
    copy = pickle.loads(pickle.dumps(dataset))
    assert len(copy) == 10
    assert torch.equal(copy[5], dataset[5])


def test_samples_that_are_no_bytes_are_refused() -> None:
    archive = lmzip.compress_batch([np.zeros((2, 3, 1), np.uint16)])
    dataset = ArchiveDataset(archive)
    with pytest.raises(lmzip.InputError, match="image 0 holds uint16"):
        dataset[0]
