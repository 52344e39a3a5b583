"""Image files that a user names on the command line."""

from __future__ import annotations

from PIL import Image

from lmzip.formats import Reading, read_picture


def read_image(data: bytes) -> Reading:
    """Read an image file of any size: the user named it, so Pillow need not warn of large ones."""
    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        return read_picture(data)
    finally:
        Image.MAX_IMAGE_PIXELS = limit


def is_lmz(data: bytes) -> bool:
    """Whether a file is one of lmzip's own, by its first bytes."""
    return data.startswith(b"\x89LMZ")
