"""Small animations and documents of every kind, and what a viewer shows of them."""

import io
from typing import Any

import numpy as np
from PIL import Image, ImageSequence

TIMES = [40, 50, 60, 70]


def make_frames(alpha: bool = False) -> list[Image.Image]:
    """A square that moves over a smooth ground, opaque or with half-transparent colours."""
    ground = np.zeros((24, 32, 4), np.uint8)
    ground[..., 0] = np.arange(32) * 7
    ground[..., 1] = np.arange(24)[:, None] * 9
    ground[..., 3] = 90 if alpha else 255
    frames = []
    for number in range(len(TIMES)):
        pixels = ground.copy()
        pixels[4 * number : 4 * number + 6, 6 * number : 6 * number + 8] = (250, 20, 90, 255)
        frames.append(Image.fromarray(pixels if alpha else pixels[..., :3].copy()))
    return frames


def save(frames: list[Image.Image], kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    frames[0].save(file, kind, save_all=True, append_images=frames[1:], **options)
    return file.getvalue()


def make_animations() -> dict[str, bytes]:
    """Return files of several frames by the name of what is special about them."""
    plain, clear = make_frames(), make_frames(alpha=True)
    greys = [frame.convert("L") for frame in plain]
    timing: dict[str, Any] = {"duration": TIMES, "loop": 3}
    few = [frame.quantize(9 + number) for number, frame in enumerate(plain)]
    pages = [plain[0], greys[1], plain[2].convert("1"), plain[3].quantize(8)]
    about = {"icc_profile": b"profile" * 20, "exif": _exif()}
    return {
        "gif": save(plain, "GIF", **timing, comment=b"made by hand"),
        "gif-restored-background": save(plain, "GIF", **timing, disposal=2),
        "gif-restored-previous": save(plain, "GIF", **timing, disposal=3),
        "gif-interlaced": save(few, "GIF", **timing, interlace=True),
        "gif-transparent": save(clear, "GIF", **timing),
        "gif-grey": save(greys, "GIF", **timing),
        "png": save(plain, "PNG", **timing),
        "png-alpha": save(clear, "PNG", **timing, disposal=1, blend=1),
        "png-grey": save(greys, "PNG", **timing),
        "png-hidden": save(plain, "PNG", duration=TIMES[1:], default_image=True),
        "webp": save(plain, "WEBP", **timing, lossless=True),
        "webp-alpha": save(clear, "WEBP", **timing, lossless=True, exact=True, **about),
        "webp-lossy": save(clear, "WEBP", **timing, lossless=False),
        "tiff": save(plain, "TIFF", dpi=(300, 300), description="J\xf6rg"),
        "tiff-of-several-modes": save(pages, "TIFF", compression="tiff_deflate", **about),
    }


def _exif() -> Image.Exif:
    exif = Image.Exif()
    exif[271] = "Camera Works"
    return exif


def show(data: bytes) -> list[tuple[Any, ...]]:
    """Return what a viewer shows: the picture of each moment, its time, and how it all repeats."""
    with Image.open(io.BytesIO(data)) as image:
        return [
            (
                frame.size,
                frame.convert("RGBA").tobytes(),
                frame.info.get("duration"),
                image.info.get("loop"),
                image.info.get("comment"),
                image.info.get("icc_profile"),
                image.info.get("dpi"),
            )
            for frame in ImageSequence.Iterator(image)
        ]
