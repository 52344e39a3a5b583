"""Never larger: lmzip left alone is at most 64 bytes above the smallest of WebP, PNG and raw.

Deep drawings are compared with libpng itself, since Pillow writes no colours of 16 bits.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from support.networks import (
    compact_network,
    smooth_images,
    typical_image,
    various_images,
    write_model,
)

import lmzip

Pixels = npt.NDArray[Any]


@pytest.fixture
def released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put one small model in the place of the released ones."""
    path = write_model(compact_network(name="small"), tmp_path)
    monkeypatch.setattr("lmzip.network.registry.WEIGHTS", tmp_path)
    return path


def draw_text(height: int, width: int) -> Pixels:
    """Draw strokes of black on white."""
    state = np.random.default_rng(0)
    page = np.full((height, width, 3), 255, np.uint8)
    for top in range(2, height - 8, 10):
        for left in range(2, width - 5, 6):
            page[top : top + 7, left + state.integers(4)] = 0
            page[top + state.integers(7), left : left + 4] = 0
    return page


def draw_flat_colours(height: int, width: int) -> Pixels:
    """Draw rectangles in a few colours."""
    state = np.random.default_rng(1)
    colours = state.integers(0, 256, (6, 3), dtype=np.uint8)
    picture = np.zeros((height, width, 3), np.uint8)
    for _ in range(30):
        top, left = state.integers(height), state.integers(width)
        picture[top : top + 20, left : left + 30] = colours[state.integers(6)]
    return picture


def deepen(pixels: Pixels, channels: int, *, spread: bool) -> Pixels:
    """Give colours 16 bits: by stretching, or each of their samples any value of 16 bits."""
    values = np.arange(256) * 257
    if spread:
        values = np.random.default_rng(2).integers(0, 65536, 256)
    return np.ascontiguousarray(values.astype(np.uint16)[pixels[..., [0, 1, 2, 0][:channels]]])


def all_contents() -> Iterator[tuple[str, Pixels]]:
    for channels, size in (
        (1, (70, 66)),
        (3, (70, 66)),
        (2, (20, 30)),
        (3, (20, 30)),
        (4, (20, 30)),
    ):
        for name, image in various_images(*size, channels):
            yield f"{name} {size} {channels}", image
    yield "typical", typical_image(70, 66)
    for height, width in ((1, 1), (1, 40), (40, 1), (2, 3), (8, 8)):
        yield f"tiny {height}x{width}", smooth_images(1, height, width)[0]
        yield (
            f"tiny noise {height}x{width}",
            next(image for name, image in various_images(height, width, 3) if name == "noise"),
        )
    yield "repeated far away", np.concatenate([typical_image(260, 130)] * 2)
    yield "text", draw_text(120, 150)
    yield "grey text", draw_text(120, 150)[..., :1]
    yield "flat", draw_flat_colours(120, 150)
    yield "flat, one bit", draw_flat_colours(120, 150)[..., :1] > 100
    yield "text, one bit", draw_text(61, 77)[..., :1] > 0
    yield "16 bits", smooth_images(1, 40, 50, 1)[0].astype(np.uint16) * 257
    yield "16-bit noise", np.random.default_rng(0).integers(0, 65536, (20, 30, 3), np.uint16)
    checkered = np.indices((90, 90)).sum(0)[..., None] % 2 * np.array([255, 128, 3])
    yield "checkered", checkered.astype(np.uint8)


def smallest_of_the_others(pixels: Pixels) -> int:
    """Return the size of the smallest of raw, PNG and lossless WebP."""
    raw = pixels.nbytes if pixels.dtype != np.bool_ else -(-pixels.shape[1] // 8) * len(pixels)
    sizes = [raw]
    squeezed = pixels[..., 0] if pixels.shape[2] == 1 else pixels
    settings: list[tuple[str, dict[str, Any]]] = [("PNG", {"optimize": True})]
    if pixels.dtype == np.uint8:
        settings += [("WEBP", {}), ("WEBP", {"method": 6, "quality": 100})]
    if pixels.dtype == np.uint16 and pixels.shape[2] > 1:
        settings = []  # Pillow writes no such PNG
    for kind, options in settings:
        file = io.BytesIO()
        extra = {"lossless": True, "exact": True} if kind == "WEBP" else {}
        Image.fromarray(squeezed).save(file, kind, **options, **extra)
        sizes.append(len(file.getvalue()))
    return min(sizes)


@pytest.mark.parametrize("pixels", [pytest.param(p, id=name) for name, p in all_contents()])
def test_never_larger(pixels: Pixels, released: Path) -> None:
    data = lmzip.compress(pixels)
    assert len(data) <= smallest_of_the_others(pixels) + 64
    restored = lmzip.decompress(data)
    assert restored.dtype == pixels.dtype
    assert np.array_equal(restored, pixels)


@pytest.mark.parametrize("effort", ["default", "best"])
@pytest.mark.parametrize("draw", [draw_text, draw_flat_colours])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_deep_drawings_are_no_larger_than_as_png(
    channels: int, draw: Callable[[int, int], Pixels], effort: str, released: Path
) -> None:
    """Without a margin: the headers of PNG are longer than ours."""
    imagecodecs = pytest.importorskip("imagecodecs")
    for height, width in ((120, 150), (24, 31), (9, 8)):
        for spread in (False, True):
            pixels = deepen(draw(height, width), channels, spread=spread)
            squeezed = pixels[..., 0] if channels == 1 else pixels
            png = imagecodecs.png_encode(squeezed, level=9)
            data = lmzip.compress(pixels, effort=effort)
            assert len(data) <= len(png)
            assert np.array_equal(lmzip.decompress(data), pixels)


def test_never_larger_without_any_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmzip.network.registry.WEIGHTS", tmp_path)
    for name, pixels in all_contents():
        if pixels.size < 5000:
            data = lmzip.compress(pixels)
            assert len(data) <= smallest_of_the_others(pixels) + 64, name
            assert np.array_equal(lmzip.decompress(data), pixels)


def test_the_network_wins_where_it_is_better(released: Path) -> None:
    """Otherwise the fallback would pass every test above without it."""
    for size in ((24, 25), (70, 66)):
        info = lmzip.read_info(lmzip.compress(typical_image(*size)))
        assert (info.method, info.model) == ("network", "small")
