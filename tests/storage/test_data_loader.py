"""A torch data set over an archive in a store, read by several workers of a DataLoader."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.networks import compact_network, smooth_images, write_model
from torch.utils.data import DataLoader

import lmzip
from lmzip.models.archive_dataset import ArchiveDataset
from lmzip.storage import to_path, write_whole


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("store")
def test_workers_read_an_archive_in_a_store(
    workers: int, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lmzip.container.archive_writer.BATCH_PIXELS", 4 * 42)
    images = smooth_images(20, 6, 7)
    model = write_model(compact_network(), tmp_path_factory.mktemp("model"))
    write_whole(to_path("s3://bucket/all.lmz"), lmzip.compress_batch(images, model=model))
    dataset = ArchiveDataset("s3://bucket/all.lmz", model=model)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(1)).tolist()
    context = "spawn" if workers else None  # a fork would take over locks of fsspec's threads
    loader = DataLoader(
        dataset, batch_size=3, sampler=order, num_workers=workers, multiprocessing_context=context
    )
    batches = torch.cat(list(loader)).permute(0, 2, 3, 1).numpy()
    assert np.array_equal(batches, images[order])
