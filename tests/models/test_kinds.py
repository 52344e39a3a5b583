"""Kinds cut crops of the right size, follow their generator, and are what their names say."""

from __future__ import annotations

import numpy as np
import pytest
from skimage import data

from lmzip.models.alterations import Pixels
from lmzip.models.kinds import KINDS, make_crop

CROP = 64
PICTURE: Pixels = data.astronaut()[100:300, 150:350]


def made(kind: str | None, seed: int = 1, picture: Pixels = PICTURE) -> Pixels:
    return make_crop(picture, CROP, kind, np.random.default_rng(seed))


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_the_generator_alone_decides(kind: str | None) -> None:
    first = made(kind)
    assert first.shape == (CROP, CROP, 3)
    assert first.dtype == np.uint8
    assert np.array_equal(first, made(kind))
    assert not np.array_equal(first, made(kind, 2))


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_a_picture_of_the_crops_size_will_do(kind: str | None) -> None:
    assert made(kind, picture=PICTURE[:CROP, :CROP]).shape == (CROP, CROP, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_differs_from_the_picture(kind: str) -> None:
    assert not np.array_equal(made(kind, picture=PICTURE[:CROP, :CROP]), PICTURE[:CROP, :CROP])


def test_demosaicing_keeps_what_the_sensor_saw() -> None:
    whole = PICTURE[:CROP, :CROP]
    seen = made("demosaiced", picture=whole)
    assert np.array_equal(seen[::2, ::2, 0], whole[::2, ::2, 0])
    assert np.array_equal(seen[::2, 1::2, 1], whole[::2, 1::2, 1])
    assert np.array_equal(seen[1::2, 1::2, 2], whole[1::2, 1::2, 2])


def test_noise_has_the_strength_it_should() -> None:
    flat = np.full((CROP, CROP, 3), 128, np.uint8)
    assert made("fine-grain", picture=flat).std() == pytest.approx((1.5**2 + 0.3**2) ** 0.5, 0.1)
    assert made("coarse-grain", picture=flat).std() == pytest.approx(8.06, 0.1)  # blurring keeps it


def test_channels_change_places() -> None:
    whole = PICTURE[:CROP, :CROP]
    assert np.array_equal(made("bgr", picture=whole), whole[:, :, ::-1])
    assert np.array_equal(made("false-colour", picture=whole)[:, :, 2], whole[:, :, 0])
