"""Image files: every mode, order and tile comes back, as a whole and in regions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import oracle, oracle_streams
from support.networks import (
    ANY_ORDER,
    compact_network,
    custom_order,
    random_network,
    smooth_images,
    write_model,
)

import lmzip
from lmzip.container.binary import Reader
from lmzip.container.image_file import read_image_header
from lmzip.container.tiles import cut_range
from lmzip.errors import DamagedError
from lmzip.order.orders import Order, observed_first, parse_order
from lmzip.picture import MODES, Picture

Pixels = npt.NDArray[Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model for raster order and one for any order."""
    folder = tmp_path_factory.mktemp("weights")
    write_model(compact_network(name="raster"), folder)
    write_model(compact_network(orders=ANY_ORDER, name="any"), folder)
    write_model(random_network(name="random"), folder)
    return folder


def load_oracle(path: Path) -> oracle_streams.Network:
    return oracle_streams.read_model(path.read_bytes())


@pytest.mark.parametrize("name", [mode.name for mode in MODES.values()])
def test_every_mode_is_restored_by_both_decoders(name: str, folder: Path) -> None:
    mode, model = MODES[name], folder / "raster.safetensors"
    state = np.random.default_rng(0)
    for height, width in ((1, 1), (1, 6), (5, 1), (9, 11)):
        smooth = smooth_images(1, height, width, mode.channels)[0]
        for samples in (smooth.astype(int), state.integers(0, 1 << mode.bits, smooth.shape)):
            values = (samples % (1 << mode.bits)).astype(mode.dtype)
            picture = Picture(values, mode, {"ICCP": b"profile", "TEXT": b""})
            data = lmzip.compress_picture(picture, lmzip.Options(model=str(model)))
            restored = lmzip.decompress_picture(data, model=model)
            assert restored.mode == mode
            assert restored.metadata == picture.metadata
            assert restored.samples.dtype == values.dtype
            assert np.array_equal(restored.samples, values)
            assert oracle.decode_image(data, [load_oracle(model)]) == values.astype(int).tolist()


@pytest.mark.parametrize(
    "order",
    [Order("raster", 3), Order("s-curve"), Order("hilbert", 5), custom_order(7, 10)],
    ids=str,
)
def test_orders_are_stored(order: Order, folder: Path) -> None:
    (image,) = smooth_images(1, 7, 10)
    path = folder / "any.safetensors"
    data = lmzip.compress(image, model=path, order=order)
    assert np.array_equal(lmzip.decompress(data, model=path), image)
    header = read_image_header(Reader(data))
    assert header.coding is not None
    assert header.coding.order == order
    assert oracle.decode_image(data, [load_oracle(path)]) == image.tolist()


def test_an_observed_region_is_an_order_of_its_own(folder: Path) -> None:
    (image,) = smooth_images(1, 9, 10)
    hidden = np.zeros((9, 10), bool)
    hidden[2:6, 3:8] = True
    ranks = observed_first(parse_order("s-curve").ranks(9, 10), hidden)
    path = folder / "random.safetensors"
    data = lmzip.compress(image, model=path, order=np.argsort(ranks, axis=None))
    assert np.array_equal(lmzip.decompress(data, model=path), image)
    assert oracle.decode_image(data, [load_oracle(path)]) == image.tolist()


@given(
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    channels=st.integers(1, 4),
    tile=st.integers(5, 50),
    area=st.tuples(*[st.floats(0, 0.999)] * 4),
)
@settings(max_examples=10)
def test_regions_across_tiles(
    height: int,
    width: int,
    channels: int,
    tile: int,
    area: tuple[float, float, float, float],
    folder: Path,
) -> None:
    (image,) = smooth_images(1, height, width, channels)
    path = folder / "raster.safetensors"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzip.container.tiles.TILE", (tile, tile))
        data = lmzip.compress(image, model=path)
    assert lmzip.read_info(data).tiles == (-(-height // tile), -(-width // tile))
    assert np.array_equal(lmzip.decompress(data, model=path), image)
    top, left = int(area[0] * height), int(area[1] * width)
    tall, wide = 1 + int(area[2] * (height - top)), 1 + int(area[3] * (width - left))
    region = lmzip.decompress_region(data, top, left, tall, wide, model=path)
    assert np.array_equal(region, image[top : top + tall, left : left + wide])


@pytest.fixture
def nine_tiles(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Pixels, bytes, Path, list[list[int]]]:
    """An image of 3x3 tiles, its file and model, and what each decoding will say of its jobs.

    Each decoding adds the list of how many tiles its jobs decode in step.
    """
    monkeypatch.setattr("lmzip.container.tiles.TILE", (8, 8))
    (image,) = smooth_images(1, 24, 24)
    path = folder / "raster.safetensors"
    data = lmzip.compress(image, model=path)
    decodings: list[list[int]] = []

    def run(jobs: list[Any], *rest: Any) -> list[Any]:
        decodings.append([len(job.streams) for job in jobs])
        return [job.run() for job in jobs]

    monkeypatch.setattr("lmzip.container.image_reader.run_jobs", run)
    return image, data, path, decodings


@pytest.mark.parametrize(("threads", "teams"), [(1, [4, 4, 1]), (2, [4, 4, 1]), (4, [3, 3, 3])])
def test_tiles_of_one_shape_are_decoded_in_step(
    threads: int, teams: list[int], nine_tiles: tuple[Pixels, bytes, Path, list[list[int]]]
) -> None:
    image, data, path, decodings = nine_tiles
    assert np.array_equal(lmzip.decompress(data, model=path, threads=threads), image)
    assert decodings == [teams]


def test_regions_decode_only_the_tiles_that_they_touch(
    nine_tiles: tuple[Pixels, bytes, Path, list[list[int]]],
) -> None:
    image, data, path, decodings = nine_tiles
    regions = [(0, 0, 8, 8), (7, 7, 2, 2), (8, 0, 8, 24), (0, 0, 24, 24)]
    for region in regions:
        top, left, height, width = region
        found = lmzip.decompress_region(data, *region, model=path)
        assert np.array_equal(found, image[top : top + height, left : left + width])
    assert [sum(teams) for teams in decodings] == [1, 4, 3, 9]


def test_regions_do_not_mind_damage_elsewhere(
    nine_tiles: tuple[Pixels, bytes, Path, list[list[int]]],
) -> None:
    image, data, path, _ = nine_tiles
    damaged = bytearray(data)
    damaged[-20] ^= 1  # in the last tile
    region = lmzip.decompress_region(bytes(damaged), 0, 0, 16, 24, model=path)
    assert np.array_equal(region, image[:16])
    with pytest.raises(DamagedError, match="chunk 9 of 9"):
        lmzip.decompress_region(bytes(damaged), 15, 15, 2, 2, model=path)


@pytest.mark.parametrize(
    "region", [(0, 0, 0, 1), (-1, 0, 2, 2), (0, 0, 11, 1), (9, 9, 1, 2), (10, 0, 1, 1)]
)
def test_regions_outside_are_named(region: tuple[int, int, int, int], folder: Path) -> None:
    data = lmzip.compress(np.zeros((10, 10, 3), np.uint8), model=folder / "raster.safetensors")
    with pytest.raises(lmzip.InputError, match=f"top={region[0]} left={region[1]}"):
        lmzip.decompress_region(data, *region)


@pytest.mark.parametrize(("size", "count"), [(1, 1), (10, 3), (1000, 2), (7, 7), (513, 2)])
def test_tiles_differ_by_at_most_one(size: int, count: int) -> None:
    bounds = [cut_range(size, count, number) for number in range(count)]
    assert [b for _, b in bounds[:-1]] == [a for a, _ in bounds[1:]]
    assert (bounds[0][0], bounds[-1][1]) == (0, size)
    lengths = {b - a for a, b in bounds}
    assert max(lengths) - min(lengths) <= 1


@pytest.mark.slow
def test_a_large_picture(folder: Path) -> None:
    (image,) = smooth_images(1, 700, 900)
    path = folder / "raster.safetensors"
    data = lmzip.compress(image, model=path)
    assert lmzip.read_info(data).tiles == (3, 2)
    assert np.array_equal(lmzip.decompress(data, model=path), image)
    region = lmzip.decompress_region(data, 300, 400, 100, 120, model=path)
    assert np.array_equal(region, image[300:400, 400:520])
