"""Alterations cut crops of the right size, change what they say, and follow their generator."""

from __future__ import annotations

import numpy as np
import pytest
from skimage import data

from lmzip.models.alterations import ALTERATIONS, Pixels, alter

CROP = 64
PICTURE: Pixels = data.astronaut()[100:300, 150:350]


def altered(name: str, seed: int, picture: Pixels = PICTURE) -> Pixels:
    return alter(picture, CROP, name, np.random.default_rng(seed))


@pytest.mark.parametrize("name", ALTERATIONS)
def test_the_generator_alone_decides(name: str) -> None:
    first = altered(name, 1)
    assert first.shape == (CROP, CROP, 3)
    assert first.dtype == np.uint8
    assert np.array_equal(first, altered(name, 1))
    assert not np.array_equal(first, altered(name, 2))


@pytest.mark.parametrize("name", ALTERATIONS)
def test_a_picture_of_the_crops_size_will_do(name: str) -> None:
    for seed in range(4):
        assert altered(name, seed, PICTURE[:CROP, :CROP]).shape == (CROP, CROP, 3)


@pytest.mark.parametrize("name", ALTERATIONS)
def test_a_picture_stays_what_it_shows(name: str) -> None:
    """Mean colours hardly move."""
    whole = PICTURE[:CROP, :CROP]
    changed = altered(name, 3, whole)
    assert np.abs(changed.mean((0, 1)) - whole.mean((0, 1))).max() < 20


def chroma_detail(pixels: Pixels) -> float:
    """How much blue less luma differs between neighbours."""
    chroma = pixels[..., 2].astype(float) - pixels.mean(2)
    return float(np.abs(np.diff(chroma, axis=1)).mean())


def test_halved_chroma_is_smooth_and_grain_is_not() -> None:
    noisy = np.random.default_rng(0).integers(0, 256, (CROP, CROP, 3)).astype(np.uint8)
    assert chroma_detail(altered("chroma", 0, noisy)) < 0.7 * chroma_detail(noisy)
    flat = np.full((CROP, CROP, 3), 128, np.uint8)
    assert np.array_equal(altered("chroma", 0, flat), flat)
    assert altered("grain", 0, flat).std() > 0.5


def test_grading_leaves_greys_grey() -> None:
    ramp = np.repeat(np.arange(CROP, dtype=np.uint8)[:, None, None] * 3, CROP, 1).repeat(3, 2)
    graded = altered("grade", 5, np.ascontiguousarray(ramp))
    assert np.array_equal(graded[..., 0], graded[..., 1])
    assert np.array_equal(graded[..., 0], graded[..., 2])
