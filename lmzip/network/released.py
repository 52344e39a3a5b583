"""The released models: the numbers by which files name them, what they are for, how well they do.

A number is given once and never to another model, even if the first should be withdrawn
(FORMAT.md, "Models").
"""

from __future__ import annotations

from typing import NamedTuple

RELEASED = {1: "thumb", 2: "photo", 3: "thumb-any", 4: "thumb-large", 5: "photo-large"}

# Networks of the same purpose with three times the multiply-adds: what the default effort takes, if
# it is there, in place of the smaller one that effort "fast" takes.
LARGER = {"thumb": "thumb-large", "photo": "photo-large"}


class Purpose(NamedTuple):
    """What a model is for, and the bits per sample of real files on the set it is judged by."""

    images: str
    bpd: float
    measured_on: str


PURPOSES = {
    "thumb": Purpose("thumbnails", 3.275, "CIFAR-10"),
    "photo": Purpose("photographs", 3.411, "McMaster"),
    "photo-large": Purpose("photographs", 3.354, "McMaster"),
    "thumb-large": Purpose("thumbnails", 3.189, "CIFAR-10"),
    "thumb-any": Purpose("thumbnails", 3.423, "CIFAR-10, raster"),
}
