"""Archives: many images in one file, each at hand on its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import oracle, oracle_streams
from support.networks import (
    ANY_ORDER,
    compact_network,
    custom_order,
    smooth_images,
    typical_image,
    various_images,
    write_model,
)

import lmzip
from lmzip.container.archive_file import read_index
from lmzip.order.orders import Order
from lmzip.picture import MODES, Picture


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model for any order."""
    network = compact_network(orders=ANY_ORDER, name="any")
    return write_model(network, tmp_path_factory.mktemp("model"))


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three images of 6 x 7 pixels to a batch."""
    monkeypatch.setattr("lmzip.container.archive_writer.BATCH_PIXELS", 3 * 42)


def mixed_pictures() -> list[tuple[str, Picture]]:
    """Return pictures of several shapes and modes, some too large for a batch, some not 8 bits."""
    named = []
    for index, name in enumerate(("RGB", "L", "RGBA", "RGB", "LA", "CMYK", "RGB", "L", "RGB")):
        mode = MODES[name]
        size = (6, 7) if index % 4 else (12, 13)
        metadata = {"TEXT": bytes([index])} if index % 3 == 0 else {}
        samples = smooth_images(1, *size, mode.channels, seed=index)[0]
        named.append((f"picture {index}", Picture(samples, mode, metadata)))
    for name in ("1", "P", "L16", "RGBA16"):
        mode = MODES[name]
        samples = np.random.default_rng(0).integers(0, 1 << mode.bits, (5, 6, mode.channels))
        picture = Picture(samples.astype(mode.dtype), mode, {"PLTE": b"abc"} if name == "P" else {})
        named.append((f"mode {name}", picture))
    return named


def assert_same(found: Picture, expected: Picture) -> None:
    assert found.mode == expected.mode
    assert dict(found.metadata) == dict(expected.metadata)
    assert found.samples.dtype == expected.samples.dtype
    assert np.array_equal(found.samples, expected.samples)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("order", ["raster", "hilbert:flip", "best"])
def test_mixed_pictures_come_back(order: str, model: Path) -> None:
    named = mixed_pictures()
    data = lmzip.pack_archive(named, lmzip.Options(model=str(model), order=order))
    with lmzip.open_archive(data, model=model) as archive:
        assert archive.names == [name for name, _ in named]
        for number, (_, picture) in enumerate(named):
            assert_same(archive.picture(number), picture)
        for picture, (_, expected) in zip(archive.pictures(range(len(named))), named, strict=True):
            assert_same(picture, expected)
    network = oracle_streams.read_model(model.read_bytes())
    expected_pixels = [picture.samples.astype(int).tolist() for _, picture in named]
    assert oracle.decode_archive(data, [network]) == expected_pixels


@pytest.mark.usefixtures("small_batches")
def test_access_like_a_list(model: Path) -> None:
    images = smooth_images(10, 6, 7)
    data = lmzip.compress_batch(images, model=model)
    with lmzip.open_archive(data, model=model) as archive:
        assert len(archive) == 10
        assert archive.names is None
        for number in range(-10, 10):
            assert np.array_equal(archive[number], images[number])
        for part in (slice(None), slice(2, 7), slice(8, 1, -3), slice(4, 4), slice(-3, 99)):
            found = archive[part]
            assert isinstance(found, list)
            assert len(found) == len(images[part])
            assert all(np.array_equal(a, b) for a, b in zip(found, images[part], strict=True))
        assert all(np.array_equal(a, b) for a, b in zip(archive, images, strict=True))
        for wrong in (10, -11, 1000):
            with pytest.raises(IndexError):
                archive[wrong]
            with pytest.raises(IndexError):
                archive.picture(wrong)


@pytest.mark.usefixtures("small_batches")
def test_one_image_decodes_one_batch(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = smooth_images(10, 6, 7)
    data = lmzip.compress_batch(images, model=model)
    decoded: list[int] = []
    monkeypatch.setattr(
        "lmzip.container.archive_reader.run_jobs", lambda jobs, *rest: run_counted(jobs, decoded)
    )
    with lmzip.open_archive(data, model=model) as archive:
        assert [len(chunk.images) for chunk in read_index(memoryview(data)).chunks] == [3, 3, 4]
        assert np.array_equal(archive[4], images[4])
        assert decoded == [3]
        decoded.clear()
        assert np.array_equal(archive[2:4], images[2:4])
        assert sum(decoded) == 6
        decoded.clear()
        assert np.array_equal(archive[9], images[9])
        assert decoded == [4]


def run_counted(jobs: list[Any], decoded: list[int]) -> list[Any]:
    decoded += [sum(job.groups) for job in jobs]
    return [job.run() for job in jobs]


def test_files_are_opened_and_closed(model: Path, tmp_path: Path) -> None:
    images = smooth_images(2, 5, 6)
    path = tmp_path / "images.lmz"
    path.write_bytes(lmzip.compress_batch(images, model=model))
    for source in (path, str(path)):
        archive = lmzip.open_archive(source, model=model)
        assert np.array_equal(archive[:], images)
        archive.close()
        with pytest.raises(ValueError, match="closed"):
            archive[0]
    path.write_bytes(b"")
    with pytest.raises(lmzip.DamagedError, match="empty"):
        lmzip.open_archive(path)
    path.write_bytes(lmzip.compress(images[0]))
    with pytest.raises(lmzip.FormatError, match="single image"):
        lmzip.open_archive(path)
    path.unlink()  # nothing holds it open


def test_no_images_are_an_archive(model: Path) -> None:
    data = lmzip.compress_batch([], model=model)
    with lmzip.open_archive(data) as archive:
        assert len(archive) == 0
        assert archive[:] == []
    assert oracle.decode_archive(data) == []
    info = lmzip.read_info(data)
    assert (info.count, info.is_archive) == (0, True)


@given(
    shapes=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), max_size=8),
    channels=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
@settings(max_examples=10)
def test_any_shapes(shapes: list[tuple[int, int]], channels: int, seed: int, model: Path) -> None:
    images = [smooth_images(1, *shape, channels, seed=seed)[0] for shape in shapes]
    data = lmzip.compress_batch(images, model=model)
    with lmzip.open_archive(data, model=model) as archive:
        assert len(archive) == len(images)
        assert all(np.array_equal(a, b) for a, b in zip(archive, images, strict=True))


def test_best_chooses_an_order_for_each_image(model: Path) -> None:
    """Each image under its own order is no larger than all under one, and some orders differ."""
    natural = smooth_images(4, 10, 10)
    sheared = [np.stack([np.roll(row, 3 * i) for i, row in enumerate(image)]) for image in natural]
    images = [*natural, *sheared, *[image.transpose(1, 0, 2) for image in sheared]]
    best = lmzip.compress_batch(images, model=model, order="best")
    orders = {str(c.batch.order) for c in read_index(memoryview(best)).chunks if c.batch}
    assert len(orders) > 1
    with lmzip.open_archive(best, model=model) as archive:
        assert all(np.array_equal(a, b) for a, b in zip(archive, images, strict=True))
    costs = {}
    for order in ("raster", "s-curve", "best"):
        index = read_index(memoryview(lmzip.compress_batch(images, model=model, order=order)))
        costs[order] = sum(chunk.batch.cost for chunk in index.chunks if chunk.batch)
    assert costs["best"] <= min(costs.values())


def test_a_stored_order_serves_a_batch(model: Path) -> None:
    order: Order = custom_order(6, 7)
    images = smooth_images(4, 6, 7)
    data = lmzip.compress_batch(images, model=model, order=order)
    with lmzip.open_archive(data, model=model) as archive:
        assert np.array_equal(archive[:], images)
    network = oracle_streams.read_model(model.read_bytes())
    assert oracle.decode_archive(data, [network]) == images.tolist()


def test_images_that_are_better_off_alone_are_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nothing forced, what WebP codes better than the network leaves its batch."""
    write_model(compact_network(), tmp_path)
    monkeypatch.setattr("lmzip.network.registry.WEIGHTS", tmp_path)
    contents = dict(various_images(24, 25, 3))
    images = [typical_image(24, 25), contents["constant"], typical_image(24, 25)[::-1]]
    data = lmzip.compress_batch(images)
    index = read_index(memoryview(data))
    assert {chunk.images for chunk in index.chunks if chunk.batch} == {(0, 2)}
    assert {chunk.images for chunk in index.chunks if not chunk.batch} == {(1,)}
    with lmzip.open_archive(data) as archive:
        assert all(np.array_equal(a, b) for a, b in zip(archive, images, strict=True))
    info = lmzip.read_info(data)
    assert (info.method, info.model) == ("mixed", "compact")
