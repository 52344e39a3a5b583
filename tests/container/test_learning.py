"""Effort "max": the network learns from what it is to code, and nothing gets larger by it."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.networks import compact_network, smooth_images, write_model

import lmzip
from lmzip.models.adaptation_trails import Trails
from lmzip.models.tuned_layers import Plan


class Bar:
    """A progress that takes notes."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []
        self.notes: list[str] = []

    def __call__(self, done: int, total: int) -> None:
        self.steps.append((done, total))

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture(autouse=True)
def quick_learning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a small network in the place of the released ones, and let it learn fast."""
    write_model(compact_network(name="small"), tmp_path)
    monkeypatch.setattr("lmzip.network.registry.WEIGHTS", tmp_path)
    monkeypatch.setattr("lmzip.models.tune.PASSES", 64)
    plan = Plan(rate=1e-2, weight_rate=0.03)
    monkeypatch.setattr("lmzip.models.tune.Plan", lambda: plan)


def unusual_image(seed: int = 0) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return a picture that the network has not seen the like of: blue comes first, inverted."""
    return np.ascontiguousarray(255 - smooth_images(1, 96, 80, noise=1.0, seed=seed)[0][..., ::-1])


def test_a_picture_that_is_learnt_from_is_smaller() -> None:
    image = unusual_image()
    bar = Bar()
    plain = lmzip.compress(image, model="small")
    options = lmzip.Options(model="small", effort="max", minutes=20)
    picture = lmzip.Picture(image, lmzip.MODES["RGB"])
    data = lmzip.compress_picture(picture, options, bar)
    assert len(data) < 0.98 * len(plain)
    assert np.array_equal(lmzip.decompress(data), image)
    info = lmzip.read_info(data)
    assert 0 < (info.tuning or 0) < len(data)
    assert info.plain_size == len(lmzip.compress(image, model="small", effort="best"))
    assert bar.steps[-1][0] == bar.steps[-1][1]
    assert re.fullmatch(r"learning -\d+\.\d\d %", bar.notes[-1])


def test_deep_pictures_are_learnt_from_as_deep_as_they_are() -> None:
    low = np.random.default_rng(0).integers(3, size=(96, 80, 1), dtype=np.uint16)
    image = (unusual_image()[..., :1].astype(np.uint16) << 4) + low  # 12 bits, the last ones noise
    options = lmzip.Options(model="small", effort="max", minutes=20)
    data = lmzip.compress_picture(lmzip.Picture(image, lmzip.MODES["L16"]), options)
    assert len(data) < 0.98 * len(lmzip.compress(image, model="small"))
    assert lmzip.read_info(data).tuning
    assert np.array_equal(lmzip.decompress(data), image)


def test_pictures_of_an_archive_learn_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmzip.models.tune.PASSES", 24)
    images = [unusual_image(seed) for seed in range(3)]
    plain = lmzip.compress_batch(images, model="small")
    pictures = [(None, lmzip.Picture(image, lmzip.MODES["RGB"])) for image in images]
    options = lmzip.Options(model="small", effort="max", minutes=20)
    data = lmzip.pack_archive(pictures, options)
    assert len(data) < 0.98 * len(plain)
    assert lmzip.read_info(data).tuning
    with lmzip.open_archive(data) as archive:
        assert all(np.array_equal(a, b) for a, b in zip(archive, images, strict=True))


def test_adaptation_is_followed_where_it_takes_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture in a stream of its own is coded adaptively, one that shares a stream is not."""
    asked: list[tuple[int, float]] = []

    class Recorded(Trails):
        def __init__(self, order: Any, images: Any, least_pixels: float) -> None:
            super().__init__(order, images, least_pixels)
            asked.append((images[0].size // 3, least_pixels))

    monkeypatch.setattr("lmzip.models.tune.Trails", Recorded)
    monkeypatch.setattr("lmzip.models.tune.PASSES", 12)
    image = np.tile(unusual_image(), (2, 2, 1))  # 192x160
    options = lmzip.Options(model="small", effort="max", minutes=20)
    picture = lmzip.Picture(image, lmzip.MODES["RGB"])
    lmzip.compress_picture(picture, options)
    assert all(pixels >= least for pixels, least in asked if least < math.inf)
    assert any(least < math.inf for _, least in asked)
    asked.clear()
    lmzip.pack_archive([(None, picture)], options)
    assert asked
    assert all(pixels < least for pixels, least in asked)


def test_what_is_too_small_to_learn_from_is_left_alone() -> None:
    image = unusual_image()[:12, :12]
    data = lmzip.compress(image, effort="max")
    assert data == lmzip.compress(image, effort="best")
    assert lmzip.read_info(lmzip.compress_batch([], effort="max")).count == 0


def test_without_time_nothing_is_learnt() -> None:
    options = lmzip.Options(model="small", effort="max", minutes=1e-6)
    picture = lmzip.Picture(unusual_image(), lmzip.MODES["RGB"])
    assert lmzip.read_info(lmzip.compress_picture(picture, options)).tuning is None
    for minutes in (0, -1, float("inf"), float("nan")):
        with pytest.raises(lmzip.InputError, match="minutes"):
            lmzip.Options(minutes=minutes)


def test_without_torch_there_is_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "lmzip.models.tune")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(lmzip.InputError, match=r"lmzip\[train\]"):
        lmzip.compress(unusual_image(), effort="max")
