"""Frames as image files of their own, and how they go back to where they were taken from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lmzip.errors import InputError


class FrameFile(NamedTuple):
    """One frame of an animation, as an image file of the same format with nothing else in it."""

    height: int
    width: int
    data: bytes


class FrameSupply:
    """Hands out frames in sequence to the places that a skeleton has for them."""

    def __init__(self, files: Iterable[FrameFile]) -> None:
        self._files = iter(files)

    def take(self, height: int, width: int) -> bytes:
        """Return the next frame's file; raises InputError unless it has this size."""
        file = next(self._files, None)
        if file is None:
            raise InputError("there are fewer frames than places for them")
        if (file.height, file.width) != (height, width):
            raise InputError(
                f"a frame of {file.width}x{file.height} pixels in a place of {width}x{height}"
            )
        return file.data

    def finish(self) -> None:
        """Raise InputError if frames are left."""
        if next(self._files, None) is not None:
            raise InputError("there are more frames than places for them")
