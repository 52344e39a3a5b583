"""Image files that a user names on the command line."""

from __future__ import annotations

from lmzip import Limits
from lmzip.formats import Reading, read_picture


def read_image(data: bytes, limits: Limits | None = None) -> Reading:
    """Read an image file, within limits."""
    return read_picture(data, limits)


def is_lmz(data: bytes) -> bool:
    """Whether a file is one of lmzip's own, by its first bytes."""
    return data.startswith(b"\x89LMZ")
