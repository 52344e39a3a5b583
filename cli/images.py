"""Image files that a user names on the command line."""

from __future__ import annotations

from lmzip import Limits
from lmzip.formats import Reading, read_picture

_FORMATS = ((".tiff", ".tif"), (".png", ".apng"))  # endings that mean the same
_PNM_SUFFIXES = (".pbm", ".pgm", ".ppm")


def read_image(data: bytes, limits: Limits | None = None) -> Reading:
    """Read an image file, within limits."""
    return read_picture(data, limits)


def is_lmz(data: bytes) -> bool:
    """Whether a file is one of lmzip's own, by its first bytes."""
    return data.startswith(b"\x89LMZ")


def is_ending_of(ending: str, suffix: str) -> bool:
    """Whether a file's ending fits the format that another ending stands for: .tif fits .tiff."""
    if ending == ".pnm":
        return suffix in (ending, *_PNM_SUFFIXES)
    return ending == suffix or any(ending in same and suffix in same for same in _FORMATS)
