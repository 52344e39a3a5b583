"""What happens to photographs on their way to a user, done to crops of training pictures.

A network that has seen only pictures averaged from larger ones expects their kind of noise and
sharpness. Real ones were resampled by some kernel, sharpened, stored as JPEG with their chroma at
half resolution, shot at high ISO, graded. Each alteration takes a picture as it is, with a margin
around the crop, and returns the crop; it draws what it needs from the generator that it is given.
"""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFilter

Pixels = npt.NDArray[np.uint8]  # (height, width, 3)

REACH = 2.0  # an alteration is given at most this many times the side of the crop
MARGIN = 16  # and at least this many pixels more: two blocks of a JPEG
_KERNELS = (
    Image.Resampling.BOX,
    Image.Resampling.BILINEAR,
    Image.Resampling.BICUBIC,
    Image.Resampling.LANCZOS,
)


def alter(picture: Pixels, size: int, name: str, rng: np.random.Generator) -> Pixels:
    """Cut a square of `size` out of a picture, altered: uint8 (size, size, 3).

    The picture must be at least `size` in height and width; where it is too small for an
    alteration's margin, the crop has less context.
    """
    return _ALTERATIONS[name](picture, size, rng)


def _resample(picture: Pixels, size: int, rng: np.random.Generator) -> Pixels:
    """Scale down by up to 2, with one of four kernels; sharpen every other time."""
    most = min(REACH, min(picture.shape[:2]) / size)
    side = round(size * rng.uniform(1, most))
    image = Image.fromarray(cut(picture, side, rng))
    image = image.resize((size, size), _KERNELS[rng.integers(len(_KERNELS))])
    if rng.random() < 0.5:
        percent = int(rng.integers(40, 150))
        image = image.filter(ImageFilter.UnsharpMask(rng.uniform(0.5, 1.2), percent, 0))
    return np.asarray(image)


def _compress_as_jpeg(picture: Pixels, size: int, rng: np.random.Generator) -> Pixels:
    """Store as JPEG of good quality, with full or halved chroma; the grid may lie anywhere."""
    file = io.BytesIO()
    quality, subsampling = int(rng.integers(80, 98)), int(rng.choice([0, 2]))
    around = cut(picture, size + MARGIN, rng)
    Image.fromarray(around).save(file, "JPEG", quality=quality, subsampling=subsampling)
    return cut(np.asarray(Image.open(file)), size, rng)


def halve_chroma(picture: Pixels, size: int, rng: np.random.Generator) -> Pixels:
    """Bring chroma to half its resolution and back, as video and phones do."""
    luma, *chroma = Image.fromarray(cut(picture, size, rng)).convert("YCbCr").split()
    half = size // 2, size // 2
    kernel = _KERNELS[rng.integers(2)]  # box or bilinear
    smooth = [plane.resize(half, kernel).resize(luma.size, kernel) for plane in chroma]
    return np.asarray(Image.merge("YCbCr", (luma, *smooth)).convert("RGB"))


def _add_grain(picture: Pixels, size: int, rng: np.random.Generator) -> Pixels:
    """Add noise, in luma mostly, as film and high ISO have it."""
    grain = rng.standard_normal((size, size, 1)) + 0.3 * rng.standard_normal((size, size, 3))
    return to_bytes(cut(picture, size, rng) + rng.uniform(0.5, 6) * grain)


def _grade(picture: Pixels, size: int, rng: np.random.Generator) -> Pixels:
    """Change gamma and saturation a little and turn hues, as whoever develops a picture does."""
    pixels = 255 * (cut(picture, size, rng) / 255.0) ** rng.uniform(0.8, 1.25)
    grey = pixels.mean(2, keepdims=True)
    turned = np.cross(pixels - grey, np.full(3, 3**-0.5))  # a quarter turn around the greys
    angle, saturation = rng.uniform(-0.15, 0.15), rng.uniform(0.7, 1.2)
    colour = np.cos(angle) * (pixels - grey) + np.sin(angle) * turned
    return to_bytes(grey + saturation * colour)


_ALTERATIONS: dict[str, Callable[[Pixels, int, np.random.Generator], Pixels]] = {
    "resample": _resample,
    "jpeg": _compress_as_jpeg,
    "chroma": halve_chroma,
    "grain": _add_grain,
    "grade": _grade,
}
ALTERATIONS = tuple(_ALTERATIONS)


def cut(picture: Pixels, side: int, rng: np.random.Generator) -> Pixels:
    """Cut a random square out of a picture, or as much of one as there is."""
    height, width = (min(side, length) for length in picture.shape[:2])
    top = int(rng.integers(picture.shape[0] - height + 1))
    left = int(rng.integers(picture.shape[1] - width + 1))
    return picture[top : top + height, left : left + width]


def to_bytes(pixels: npt.NDArray[np.float64]) -> Pixels:
    """Round levels to what bytes hold."""
    return pixels.round().clip(0, 255).astype(np.uint8)
