"""Limits: how much a file may ask for before anything is given to it.

A header of forty bytes can promise billions of pixels, and a kilobyte can inflate to a gigabyte. So
every size that a file states is compared with a limit before memory is taken or time is spent for
it, and nothing is inflated further than its limit. Limits protect; they are no part of the format:
a file that is refused by one (LimitError, which says how to raise it) may be perfectly good.

Everything that reads takes `limits`; None means those of the environment (LMZIP_MAX_PIXELS,
LMZIP_MAX_IMAGES, LMZIP_MAX_METADATA, LMZIP_MAX_DENSITY, LMZIP_MEMORY), or else the defaults.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from lmzip.errors import InputError, LimitError

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_INFLATE_AT_ONCE = 1 << 20  # bytes of memory taken before anything comes out
# White pictures have some 400 samples a byte under the released networks, all others fewer; black
# ones have any number. This many are let pass whatever their bytes: a tile of lmzip's own making.
_FREE_SAMPLES = 1 << 19
# Bytes of memory, as measured and rounded up: of a pixel that a network decodes, of a byte of
# samples that is decoded classically or read from an image file, of a pixel that libwebp decodes,
# of a sample that OpenJPEG decodes.
NETWORK_PIXEL, SAMPLE_BYTE, WEBP_PIXEL, JPEG2000_SAMPLE = 700, 6, 20, 8
# Likewise of a pixel that Pillow reads, in whatever mode, and of a sample that is written as text.
PILLOW_PIXEL, PLAIN_SAMPLE = 24, 100
METADATA_BLOCK = 200  # of a block of metadata that is kept, however short it is
FRAME_PIXEL = 8  # of a pixel of an animation, all of which is in memory: four samples of 16 bits


@dataclass(frozen=True)
class Limits:
    """What one file may ask for.

    pixels:   of an image; of all images of a batch or frames of a file, which are kept together
    images:   of an archive; frames of an animation, pages of a document
    metadata: bytes of metadata and of other descriptions, inflated: of an image, or of an index
              (what images that are decoded together have in all counts as memory)
    density:  samples for each byte of a network's streams, and of JPEG 2000, which bounds the time
              of decoding
    memory:   bytes that decoding or reading one image may take, as estimated beforehand
    """

    pixels: int = 1 << 28
    images: int = 1 << 20
    metadata: int = 1 << 27
    density: int = 1 << 13
    memory: int = 4 << 30

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise InputError(f"the limit of {field.name} is at least 1")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Limits:
        """Return the defaults with what LMZIP_... variables change; raises InputError."""
        chosen = {}
        for name, variable in VARIABLES.items():
            if text := environment.get(variable):
                try:
                    chosen[name] = parse_size(text)
                except InputError as error:
                    raise InputError(f"{variable}: {error}") from None
        return replace(cls(), **chosen)

    def check_pixels(self, height: int, width: int, count: int = 1) -> None:
        """Raise LimitError if an image, or `count` of them together, has too many pixels."""
        if height * width * count > self.pixels:
            images = f"{count} images of " if count > 1 else ""
            raise _too_much("pixels", f"{images}{width}x{height} pixels", self.pixels)

    def check_frames(self, sizes: Sequence[tuple[int, int]]) -> None:
        """Raise LimitError if the frames of a file, by height and width, are too much together."""
        self.check_images(len(sizes))
        pixels = sum(height * width for height, width in sizes)
        if pixels > self.pixels:
            raise _too_much("pixels", f"{len(sizes)} frames of {pixels} pixels", self.pixels)
        self.check_memory(pixels * FRAME_PIXEL)

    def check_images(self, count: int) -> None:
        """Raise LimitError if an archive has too many images."""
        if count > self.images:
            raise _too_much("images", f"{count} images", self.images)

    def check_metadata(self, size: int) -> None:
        """Raise LimitError if there are too many bytes of metadata."""
        if size > self.metadata:
            raise _too_much("metadata", f"{size} bytes of metadata", self.metadata)

    def check_blocks(self, count: int, size: int = 0) -> None:
        """Raise LimitError if blocks of metadata, of `size` bytes in all, take too much memory.

        They may be of many images: this is for those that are kept at the same time.
        """
        self.check_memory(count * METADATA_BLOCK + size)

    def check_memory(self, size: int) -> None:
        """Raise LimitError if something takes too many bytes."""
        if size > self.memory:
            raise _too_much("memory", f"some {size} bytes of memory", self.memory)

    def check_density(self, samples: int, size: int) -> None:
        """Raise LimitError if streams of `size` bytes hold more samples than they plausibly can."""
        most = self.count_plausible(size)
        if samples > most:
            raise _too_much("density", f"{samples} samples in {size} bytes", most)

    def count_plausible(self, size: int) -> int:
        """Return how many samples streams of `size` bytes may hold."""
        return _FREE_SAMPLES + self.density * size


LIMIT_FLAGS = {
    "pixels": "--max-pixels",
    "images": "--max-images",
    "metadata": "--max-metadata",
    "density": "--max-density",
    "memory": "--memory",
}
VARIABLES = {
    name: f"LMZIP_{flag[2:].upper().replace('-', '_')}" for name, flag in LIMIT_FLAGS.items()
}


def resolve_limits(limits: Limits | None) -> Limits:
    """Return the limits that a caller gave, or those of the environment."""
    return Limits.from_environment() if limits is None else limits


def parse_size(text: str) -> int:
    """Read a number such as 500, 64K, 20M or 2G (powers of 1024); raises InputError."""
    match = re.fullmatch(r"(\d{1,18})([KMGT]?)", text.strip().upper())
    if match is None or not int(match[1]):
        raise InputError(f"{text!r} is not a number such as 500, 64K, 20M or 2G")
    return int(match[1]) * _UNITS[match[2]]


def inflate(data: bytes | memoryview, most: int) -> bytes:
    """Inflate a zlib stream, of `most` + 1 bytes at most: that one byte says that there are more.

    Raises zlib.error if the stream is damaged or cut short. Memory grows with what comes out, not
    with `most`.
    """
    inflater = zlib.decompressobj()
    parts, size, rest = [], 0, bytes(data)
    while size <= most and not inflater.eof:
        part = inflater.decompress(rest, min(_INFLATE_AT_ONCE, most + 1 - size))
        rest = inflater.unconsumed_tail
        if not part and not rest and not inflater.eof:
            raise zlib.error("its end is missing")
        size += len(part)
        parts.append(part)
    return b"".join(parts)


def _too_much(name: str, what: str, limit: int) -> LimitError:
    return LimitError(
        f"{what}, the limit is {limit}: {LIMIT_FLAGS[name]} or {VARIABLES[name]} raises it"
    )
