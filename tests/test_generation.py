"""Samples and completions through the public functions: shapes, orders, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from support.networks import ANY_ORDER, compact_network, smooth_images

import lmzip
from lmzip.network.registry import Model

ANY = Model(compact_network(orders=ANY_ORDER), path=None, fingerprint="")  # type: ignore[arg-type]
RASTER = Model(compact_network(), path=None, fingerprint="")  # type: ignore[arg-type]


def test_samples_have_the_shape_that_was_asked_for() -> None:
    images = lmzip.sample_images(ANY, 5, 7, 2, order="s-curve", seed=1)
    assert images.shape == (2, 5, 7, 3)
    assert images.dtype == np.uint8
    assert lmzip.sample_images(RASTER, 4, 4, channels=1).shape == (1, 4, 4, 1)


def test_cold_samples_are_smooth() -> None:
    def roughness(temperature: float) -> float:
        images = lmzip.sample_images(RASTER, 12, 12, 4, temperature=temperature).astype(int)
        return float(np.abs(np.diff(images, axis=2)).mean())

    assert roughness(0.1) < roughness(1.0) < roughness(3.0)


@pytest.mark.parametrize("name", lmzip.REGIONS)
def test_only_what_is_hidden_changes(name: str) -> None:
    pixels = smooth_images(1, 10, 8)[0]
    hidden = lmzip.make_regions(10, 8, [name])[name]
    before = pixels.copy()
    images = lmzip.complete_image(ANY, pixels, hidden, 3)
    assert images.shape == (3, 10, 8, 3)
    assert np.array_equal(pixels, before)
    assert all(np.array_equal(image[~hidden], pixels[~hidden]) for image in images)
    assert not np.array_equal(images[0], images[1])
    secret = np.where(hidden[..., None], 255 - pixels, pixels)  # what is hidden is not looked at
    assert np.array_equal(lmzip.complete_image(ANY, secret, hidden, 3), images)


def test_a_completion_agrees_better_with_its_surroundings() -> None:
    images = smooth_images(8, 12, 12, noise=1)
    hidden = lmzip.make_regions(12, 12, ["top"])["top"]
    best = lmzip.measure_region(ANY, images, hidden)
    worst = lmzip.measure_region(ANY, images, hidden, order="s-curve")
    assert best.shape == (8,)
    assert (best < worst).sum() >= 7
    assert best.sum() < 0.98 * worst.sum()
    whole = np.ones((12, 12), bool)
    total = lmzip.measure_region(ANY, images, whole, order="s-curve")
    rest = lmzip.measure_region(ANY, images, ~hidden, order="s-curve")
    np.testing.assert_allclose(worst + rest, total)


def test_models_are_completed_along_the_family_they_know() -> None:
    assert (ANY.widest_family, RASTER.widest_family) == ("s-curve", "raster")
    pixels = smooth_images(1, 8, 8)[0]
    bottom = lmzip.make_regions(8, 8, ["bottom"])["bottom"]
    images = lmzip.complete_image(RASTER, pixels, bottom)
    assert np.array_equal(images, lmzip.complete_image(RASTER, pixels, bottom, order="raster"))


def test_what_cannot_be_drawn_is_refused() -> None:
    pixels = smooth_images(1, 6, 6)[0]
    hidden = lmzip.make_regions(6, 6, ["top"])["top"]
    with pytest.raises(lmzip.InputError, match="in raster only, not in s-curve; thumb-any"):
        lmzip.sample_images(RASTER, 4, 4, order="s-curve")
    with pytest.raises(lmzip.InputError, match="in raster only, not in raster:flip; thumb-any"):
        lmzip.complete_image(RASTER, pixels, hidden)
    with pytest.raises(lmzip.InputError, match="is for 3 channels, not for 2"):
        lmzip.sample_images(ANY, 4, 4, channels=2)
    with pytest.raises(lmzip.InputError, match="0 images of 4x4 pixels"):
        lmzip.sample_images(ANY, 4, 4, 0)
    with pytest.raises(lmzip.InputError, match="has no pixel"):
        lmzip.complete_image(ANY, pixels, np.zeros((6, 6), bool))
    with pytest.raises(lmzip.InputError, match=r"region is \(5, 6\), the image \(6, 6\)"):
        lmzip.complete_image(ANY, pixels, hidden[1:])
    with pytest.raises(lmzip.InputError, match="temperature must be positive"):
        lmzip.complete_image(ANY, pixels, hidden, temperature=0)
