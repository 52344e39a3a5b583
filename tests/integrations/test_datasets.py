"""Hugging Face's datasets read and write .lmz through the Pillow plugin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.cli_runner import make_picture

import lmzip
import lmzip.pillow_plugin

pytestmark = pytest.mark.filterwarnings("ignore")  # their own


def test_images_are_decoded_from_files_and_from_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    datasets = pytest.importorskip("datasets")
    paths = []
    for number in range(3):
        paths.append(str(tmp_path / f"{number}.lmz"))
        pixels = make_picture(seed=number).samples
        Path(paths[-1]).write_bytes(lmzip.compress(pixels, effort="fast"))
    dataset = datasets.Dataset.from_dict({"image": paths, "label": [0, 1, 2]})
    dataset = dataset.cast_column("image", datasets.Image())
    for number, row in enumerate(dataset):
        assert isinstance(row["image"], Image.Image)
        assert np.array_equal(np.asarray(row["image"]), make_picture(seed=number).samples)
    table = [{"bytes": Path(path).read_bytes(), "path": None} for path in paths]
    features = datasets.Features({"image": datasets.Image()})
    stored = datasets.Dataset.from_dict({"image": table}, features=features)
    stored.to_parquet(str(tmp_path / "images.parquet"))
    again = datasets.Dataset.from_parquet(
        str(tmp_path / "images.parquet"), cache_dir=str(tmp_path / "cache")
    )
    for number, row in enumerate(again):
        assert np.array_equal(np.asarray(row["image"]), make_picture(seed=number).samples)
    raw = again.cast_column("image", datasets.Image(decode=False))
    assert raw[1]["image"]["bytes"] == Path(paths[1]).read_bytes()
