"""Endings of image files that mean the same format.

Apart from `lmzip.cli.images`, since commands that open no image files do without Pillow.
"""

from __future__ import annotations

_FORMATS = ((".tiff", ".tif"), (".png", ".apng"))
_PNM_SUFFIXES = (".pbm", ".pgm", ".ppm")


def is_ending_of(ending: str, suffix: str) -> bool:
    """Whether a file's ending fits the format that another ending stands for: .tif fits .tiff."""
    if ending == ".pnm":
        return suffix in (ending, *_PNM_SUFFIXES)
    return ending == suffix or any(ending in same and suffix in same for same in _FORMATS)
