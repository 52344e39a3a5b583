"""Files whose networks adapt: which they are, restored whole or in part, damaged, or hostile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.networks import compact_network, random_network, smooth_images, write_model

import lmzip
from lmzip.classical import ADAPTIVE, AWARE, NETWORK
from lmzip.container.binary import Reader
from lmzip.container.checksums import checksum_of_samples
from lmzip.container.image_file import read_chunks, read_image_header, write_image
from lmzip.errors import DamagedError, FormatError
from lmzip.native.backends import list_kernels
from lmzip.network.adaptation import BY_FEATURES

IMAGE = smooth_images(1, 130, 150, noise=12)[0]
PICTURE = lmzip.Picture(IMAGE, lmzip.MODES["RGB"])
RGBA = np.dstack([IMAGE, smooth_images(1, 130, 150, 1, seed=1)[0]])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(compact_network(), tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def tiled(model: Path) -> bytes:
    """A file of four adaptive tiles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzip.container.tiles.TILE", (65, 75))
        patch.setattr("lmzip.container.tile_coding.LARGE", 1000)
        return lmzip.compress(IMAGE, model=model)


def list_methods(file: bytes) -> list[int]:
    reader = Reader(file)
    return [chunk.method for chunk in read_chunks(reader, read_image_header(reader))]


def change_methods(file: bytes, method: int) -> bytes:
    """Return a file that says of its chunks that they were coded in another way."""
    reader = Reader(file)
    header = read_image_header(reader)
    chunks = [replace(chunk, method=method) for chunk in read_chunks(reader, header)]
    shape = header.height, header.width, header.mode.channels
    checksum = checksum_of_samples(np.zeros(shape, np.uint16 if header.mode.deep else np.uint8))
    return write_image(header, chunks, checksum)


def test_large_pictures_adapt_and_come_back(model: Path) -> None:
    for image in (IMAGE, IMAGE[..., :1], RGBA):
        file = lmzip.compress(image, model=model)
        assert set(list_methods(file)) == {AWARE}
        assert lmzip.read_info(file).adaptive
        assert lmzip.read_info(file).method == "network"
        np.testing.assert_array_equal(
            lmzip.decompress(file, model=model).reshape(image.shape), image
        )


def test_what_does_not_adapt(model: Path, tmp_path: Path) -> None:
    deep = (IMAGE.astype(np.uint16) * 257) ^ 3
    wide = write_model(random_network(orders=("raster",), width=128), tmp_path)
    for image, network, effort in (
        (IMAGE[:100, :100], model, "default"),  # too small to learn much
        (IMAGE, model, "fast"),
        (deep, model, "default"),
        (IMAGE, wide, "default"),
    ):
        file = lmzip.compress(image, model=network, effort=effort)
        assert list_methods(file) == [NETWORK]
        assert not lmzip.read_info(file).adaptive
        np.testing.assert_array_equal(lmzip.decompress(file, model=network), image)


def test_the_best_effort_takes_the_smaller_way(model: Path) -> None:
    sizes = {
        effort: len(lmzip.compress(IMAGE, model=model, effort=effort))
        for effort in ("fast", "default", "best")
    }
    assert sizes["best"] == min(sizes.values())
    assert sizes["fast"] != sizes["default"]


def test_threads_backends_and_kernels_write_and_read_the_same(tiled: bytes, model: Path) -> None:
    for name in ("numpy", "torch", *(kernel.name for kernel in list_kernels())):
        for threads in (1, 2):
            options = lmzip.Options(model=str(model), threads=threads, backend=name)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("lmzip.container.tiles.TILE", (65, 75))
                patch.setattr("lmzip.container.tile_coding.LARGE", 1000)
                assert lmzip.compress_picture(PICTURE, options) == tiled
            restored = lmzip.decompress_picture(tiled, model=model, threads=threads, backend=name)
            np.testing.assert_array_equal(restored.samples, IMAGE)


def test_a_region_and_what_is_left_of_a_damaged_file(tiled: bytes, model: Path) -> None:
    part = lmzip.decompress_region(tiled, 60, 70, 20, 30, model=model)
    np.testing.assert_array_equal(part, IMAGE[60:80, 70:100])
    damaged = tiled[: len(tiled) * 3 // 4] + b"\xff" + tiled[len(tiled) * 3 // 4 + 1 :]
    with pytest.raises(DamagedError):
        lmzip.decompress(damaged, model=model)
    picture, losses = lmzip.salvage_picture(damaged, model=model)
    assert losses
    np.testing.assert_array_equal(picture.samples[:65], IMAGE[:65])


def test_an_archive_holds_adaptive_images(model: Path) -> None:
    pictures = [PICTURE, lmzip.Picture(IMAGE[:20, :20], lmzip.MODES["RGB"])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzip.container.archive_writer.BATCH_PIXELS", 1000)
        archive = lmzip.pack_archive([(None, p) for p in pictures], lmzip.Options(model=str(model)))
    assert lmzip.read_info(archive).adaptive
    with lmzip.open_archive(archive, model=model) as restored:
        for found, picture in zip(restored, pictures, strict=True):
            np.testing.assert_array_equal(found, picture.samples)


def test_chunks_that_cannot_adapt_are_refused(model: Path, tmp_path: Path) -> None:
    deep = lmzip.compress((IMAGE[:20].astype(np.uint16) * 257) ^ 3, model=model)
    wide = write_model(random_network(orders=("raster",), width=128), tmp_path)
    for file, network in ((deep, model), (lmzip.compress(IMAGE[:20], model=wide), wide)):
        for method in (ADAPTIVE, AWARE):
            with pytest.raises(FormatError, match="adaptive chunk"):
                lmzip.decompress(change_methods(file, method), model=network)


def test_a_network_with_too_many_features_to_see_errors(tmp_path: Path) -> None:
    model = write_model(random_network(orders=("raster",), width=127), tmp_path)
    file = lmzip.compress(IMAGE, model=model)
    assert set(list_methods(file)) == {ADAPTIVE}
    np.testing.assert_array_equal(lmzip.decompress(file, model=model), IMAGE)
    with pytest.raises(FormatError, match="adaptive chunk"):
        lmzip.decompress(change_methods(file, AWARE), model=model)


def test_the_wrong_method_is_noticed(model: Path) -> None:
    """What adapted is not what did not: the stream is used up at another place, or its checksum."""
    small = IMAGE[:100, :100]
    for method, image in ((NETWORK, IMAGE), (ADAPTIVE, IMAGE), (ADAPTIVE, small), (AWARE, small)):
        file = lmzip.compress(image, model=model)
        assert list_methods(file) != [method]
        with pytest.raises(DamagedError):
            lmzip.decompress(change_methods(file, method), model=model)


def test_errors_nearby_help(model: Path) -> None:
    """A picture whose errors resemble each other takes less if the network gets to see them."""
    rows, columns = np.indices((160, 150))
    stripes = 40 * np.sin(0.3 * rows + 0.02 * columns**1.5)[..., None] + 128
    noise = np.random.default_rng(0).normal(0, 1, (160, 150, 3))
    image = (stripes + noise).clip(0, 255).astype(np.uint8)
    aware = lmzip.compress(image, model=model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzip.container.tile_coding.choose_manner", lambda _: BY_FEATURES)
        adaptive = lmzip.compress(image, model=model)
    assert list_methods(aware) == [AWARE]
    assert list_methods(adaptive) == [ADAPTIVE]
    assert len(aware) < 0.99 * len(adaptive)


def test_a_method_that_does_not_exist_is_refused(model: Path) -> None:
    file = lmzip.compress(IMAGE[:20], model=model)
    with pytest.raises(FormatError):
        lmzip.decompress(change_methods(file, 8), model=model)
