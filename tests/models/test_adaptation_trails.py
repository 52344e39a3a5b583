"""Following adaptation: what is found for a pixel is what the codec has learnt by about then."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from support.networks import compact_network, random_network, smooth_images

from lmzip.models import adaptation_trails
from lmzip.models.adaptation_trails import MARKS, Trails
from lmzip.native.backends import find_backend
from lmzip.network.adaptation import choose_manner
from lmzip.order.orders import parse_order
from lmzip.order.schedule import compile_schedule
from lmzip.stream.encoder import encode_images

RASTER = parse_order("raster")
HEIGHT, WIDTH = 40, 50


def test_changes_are_those_of_the_time_when_a_pixel_is_coded() -> None:
    network, images = compact_network(), smooth_images(1, HEIGHT, WIDTH, noise=10)
    reached: dict[int, npt.NDArray[np.int32]] = {}
    backend, manner = find_backend(), choose_manner(network)
    encode_images(network, RASTER, images, backend, manner=manner, watch=reached.__setitem__)
    schedule = compile_schedule(RASTER, HEIGHT, WIDTH, network.layers)
    trails = Trails(RASTER, list(images), least_pixels=1)
    trails.follow(network)
    stretch = schedule.pixels / MARKS
    for place in range(0, schedule.pixels, 97):
        row, column = divmod(int(schedule.sequence[place]), WIDTH)
        found = trails.find_changes(0, row, column)
        assert found is not None
        near = [c for stop, c in reached.items() if abs(stop - place) <= stretch + schedule.longest]
        assert any(np.array_equal(found, changes) for changes in near)
    last = trails.find_changes(0, HEIGHT - 1, WIDTH - 1)
    assert last is not None
    assert last.any()


def test_each_tile_has_a_trail_of_its_own() -> None:
    image = np.concatenate([smooth_images(1, 150, 20)[0], 255 - smooth_images(1, 150, 20)[0]])
    trails = Trails(RASTER, [image], least_pixels=1)  # cut at row 150
    trails.follow(compact_network())
    ends = [trails.find_changes(0, row, 19) for row in (149, 299)]
    assert all(end is not None and end.any() for end in ends)
    assert not np.array_equal(*ends)  # type: ignore[arg-type]


@pytest.mark.parametrize("least_pixels", [HEIGHT * WIDTH + 1, math.inf])
def test_small_tiles_are_not_followed(least_pixels: float) -> None:
    trails = Trails(RASTER, list(smooth_images(1, HEIGHT, WIDTH)), least_pixels)
    trails.follow(compact_network())
    assert trails.find_changes(0, 20, 20) is None


def test_networks_that_cannot_adapt_are_not_followed() -> None:
    trails = Trails(RASTER, list(smooth_images(1, HEIGHT, WIDTH)), least_pixels=1)
    trails.follow(random_network(width=128))
    assert trails.find_changes(0, 20, 20) is None


def test_of_very_many_tiles_some_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    images = list(smooth_images(7, 20, 20, noise=10))
    every = Trails(RASTER, images, 1)
    every.follow(compact_network())
    monkeypatch.setattr(adaptation_trails, "MOST_TILES", 3)
    some = Trails(RASTER, images, 1)
    some.follow(compact_network())
    own, found = ([_end_of(trails, number) for number in range(7)] for trails in (every, some))
    same = [np.array_equal(*pair) for pair in zip(own, found, strict=True)]
    assert [number for number in range(7) if same[number]] == [0, 2, 4]
    mean = np.mean([own[number] for number in (0, 2, 4)], 0)
    for number in (1, 3, 5, 6):  # the others get what those learn in the mean
        assert np.array_equal(found[number], mean.round())


def _end_of(trails: Trails, image: int) -> npt.NDArray[np.int32]:
    found = trails.find_changes(image, 19, 19)
    assert found is not None
    return found
