"""Kinds of pictures that people have, made from photographs: what a bank's tunings learn from.

`lmzip.models.alterations` varies what it does at random, for networks that are to bear everything.
A kind is always done the same way, so that a tuning can tell it from others. Each takes a picture
and the side of a square, and returns such a crop of what becomes of it.
"""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from lmzip.models.alterations import MARGIN, Pixels, cut, halve_chroma, to_bytes

Make = Callable[[Pixels, int, np.random.Generator], Pixels]

_WORDS = "the of a pixel order in light shadow image 1984 and mask network which river tower 0.25"
_CHANNEL_OF = np.array([[0, 1], [1, 2]])  # of each place of a Bayer cell


def _as_it_is(picture: Pixels, size: int, rng: np.random.Generator) -> Pixels:
    return cut(picture, size, rng)


def _from_jpeg(quality: int, halved: bool) -> Make:
    def make(picture: Pixels, size: int, rng: np.random.Generator) -> Pixels:
        file = io.BytesIO()
        around = Image.fromarray(cut(picture, size + MARGIN, rng))
        around.save(file, "JPEG", quality=quality, subsampling=2 if halved else 0)
        return cut(np.asarray(Image.open(file)), size, rng)

    return make


def _with_noise(luma: float, chroma: float, blur: float = 0.0) -> Make:
    """Noise of such deviations: of all channels together, and of each; blurred as film has it."""

    def make(picture: Pixels, size: int, rng: np.random.Generator) -> Pixels:
        noise = luma * rng.standard_normal((size, size, 1))
        noise = noise + chroma * rng.standard_normal((size, size, 3))
        if blur:
            noise = _blur(noise, blur)
        return to_bytes(cut(picture, size, rng) + noise)

    return make


def _graded(gamma: float, saturation: float) -> Make:
    def make(picture: Pixels, size: int, rng: np.random.Generator) -> Pixels:
        pixels = 255 * (cut(picture, size, rng) / 255.0) ** gamma
        grey = pixels.mean(2, keepdims=True)
        return to_bytes(grey + saturation * (pixels - grey))

    return make


def _with_channels(*channels: int) -> Make:
    def make(picture: Pixels, size: int, rng: np.random.Generator) -> Pixels:
        return cut(picture, size, rng)[:, :, list(channels)]

    return make


def _sharpened(picture: Pixels, size: int, rng: np.random.Generator) -> Pixels:
    image = Image.fromarray(cut(picture, round(1.5 * size), rng))
    image = image.resize((size, size), Image.Resampling.LANCZOS)
    return np.asarray(image.filter(ImageFilter.UnsharpMask(0.8, 120, 0)))


def _enlarged(picture: Pixels, size: int, rng: np.random.Generator) -> Pixels:
    image = Image.fromarray(cut(picture, round(size / 1.6), rng))
    return np.asarray(image.resize((size, size), Image.Resampling.BICUBIC))


def _demosaiced(picture: Pixels, size: int, rng: np.random.Generator) -> Pixels:
    """As a camera sees it: one channel a pixel, the others interpolated between neighbours."""
    pixels = cut(picture, size, rng).astype(float)
    rows, columns = np.indices(pixels.shape[:2])
    seen = _CHANNEL_OF[rows % 2, columns % 2][:, :, None] == np.arange(3)
    between = _spread(pixels * seen) / _spread(seen.astype(float))
    return to_bytes(np.where(seen, pixels, between))


def _scanned_film(picture: Pixels, size: int, rng: np.random.Generator) -> Pixels:
    """Grain that a scanner has blurred, chroma at half resolution, sharpened."""
    grainy = _with_noise(4.0, 1.5, blur=0.6)(picture, size, rng)
    image = Image.fromarray(halve_chroma(grainy, size, rng))
    return np.asarray(image.filter(ImageFilter.UnsharpMask(0.7, 60, 0)))


def _filmed(picture: Pixels, size: int, rng: np.random.Generator) -> Pixels:
    """A frame of a video: chroma at half resolution, and the sensor's noise in luma."""
    return _with_noise(2.0, 0.0)(halve_chroma(picture, size, rng), size, rng)


def _drawn(picture: Pixels, size: int, rng: np.random.Generator) -> Pixels:
    """Flat colours with soft borders and dark lines, as in comics and anime."""
    image = Image.fromarray(cut(picture, size, rng)).filter(ImageFilter.MedianFilter(7))
    flat = np.asarray(image.quantize(12).convert("RGB").filter(ImageFilter.GaussianBlur(0.6)))
    lines = np.asarray(image.convert("L").filter(ImageFilter.CONTOUR)).astype(float)[:, :, None]
    return to_bytes(flat * (0.2 + 0.8 * lines / 255))


def _scanned_text(picture: Pixels, size: int, rng: np.random.Generator) -> Pixels:
    """A page of text on paper, with the noise of a scanner; the picture gives the paper's tint."""
    paper = 225 + 0.1 * (picture.mean((0, 1)) - 128)
    page = Image.new("L", (size, size), 0)
    _write(ImageDraw.Draw(page), size, 255, rng)
    ink = np.asarray(page.filter(ImageFilter.GaussianBlur(0.7))).astype(float)[:, :, None] / 255
    grain = _blur(3 * rng.standard_normal((size, size, 1)), 0.5) + rng.normal(0, 1, (size, size, 3))
    return to_bytes(paper * (1 - ink) + 40 * ink + grain)


def _on_screen(picture: Pixels, size: int, rng: np.random.Generator) -> Pixels:
    """A photograph beside text on a flat colour, as in a screenshot."""
    colour = tuple(int(level) for level in rng.integers(200, 256, 3))
    screen = Image.new("RGB", (size, size), colour)
    _write(ImageDraw.Draw(screen), size, (30, 30, 40), rng)
    pixels, side = np.array(screen), 2 * size // 3
    pixels[-side:, -side:] = cut(picture, side, rng)
    return pixels


KINDS: dict[str, Make] = {
    "jpeg-75": _from_jpeg(75, halved=True),
    "jpeg-85": _from_jpeg(85, halved=True),
    "jpeg-92": _from_jpeg(92, halved=True),
    "jpeg-97": _from_jpeg(97, halved=True),
    "jpeg-85-full": _from_jpeg(85, halved=False),
    "jpeg-95-full": _from_jpeg(95, halved=False),
    "half-chroma": halve_chroma,
    "fine-grain": _with_noise(1.5, 0.3),
    "coarse-grain": _with_noise(8.0, 1.0, blur=0.8),
    "high-iso": _with_noise(2.0, 5.0),
    "film": _scanned_film,
    "video": _filmed,
    "sharpened": _sharpened,
    "enlarged": _enlarged,
    "demosaiced": _demosaiced,
    "vivid": _graded(1.0, 1.5),
    "faded": _graded(0.9, 0.5),
    "dark": _graded(1.6, 1.0),
    "bright": _graded(0.65, 1.0),
    "bgr": _with_channels(2, 1, 0),
    "false-colour": _with_channels(1, 2, 0),
    "drawing": _drawn,
    "text": _scanned_text,
    "screen": _on_screen,
}


def make_crop(picture: Pixels, size: int, kind: str | None, rng: np.random.Generator) -> Pixels:
    """Return a square of `size` of what a kind makes of a picture; of the picture itself if None.

    The picture must be at least `size` in height and width.
    """
    return (KINDS[kind] if kind else _as_it_is)(picture, size, rng)


def _blur(noise: npt.NDArray[np.float64], deviation: float) -> npt.NDArray[np.float64]:
    """Blur along rows and columns by a kernel of three, with as much variance as before."""
    side = np.exp(-0.5 / deviation**2)
    for axis in (0, 1):
        noise = noise + side * (np.roll(noise, 1, axis) + np.roll(noise, -1, axis))
    return noise / (1 + 2 * side**2)


def _spread(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the weighted sums over neighbourhoods of 3x3 with which bilinear demosaicing works."""
    rows = values + 0.5 * (np.roll(values, 1, 0) + np.roll(values, -1, 0))
    return rows + 0.5 * (np.roll(rows, 1, 1) + np.roll(rows, -1, 1))


def _write(
    draw: ImageDraw.ImageDraw,
    size: int,
    ink: int | tuple[int, int, int],
    rng: np.random.Generator,
) -> None:
    """Fill a square with lines of words."""
    height = int(rng.integers(9, 20))
    font, words = ImageFont.load_default(height), _WORDS.split()
    for top in range(int(rng.integers(height)), size, round(1.4 * height)):
        draw.text((2, top), " ".join(rng.choice(words, 12)), fill=ink, font=font)
