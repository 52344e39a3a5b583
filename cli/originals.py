"""Files that are to be compressed: their pictures, and what of them is in no picture."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from lmzip import InputError, Limits, Picture
from lmzip.cli.console import Report, count_of
from lmzip.cli.files import Source
from lmzip.cli.images import read_image
from lmzip.formats import (
    Reading,
    describe_frames,
    keep_frames,
    strip_frames,
    time_block,
    with_format,
)


@dataclass(frozen=True)
class Original:
    """One picture of a file, or all its frames; the file's size and version when it was read."""

    pictures: list[Picture]
    size: int
    version: Hashable
    losses: tuple[str, ...] = ()  # what of the file is in none of its pictures

    @property
    def samples(self) -> int:
        """Bytes of all samples."""
        return sum(picture.samples.nbytes for picture in self.pictures)

    def describe(self) -> str:
        """Return size, mode and metadata in words."""
        first, count = self.pictures[0], len(self.pictures)
        frames = f"{count} frames, the first " if count > 1 else ""
        blocks = " ".join(first.metadata) or "none"
        return f"{frames}{first.width}x{first.height} {first.mode.name}, metadata: {blocks}"

    @property
    def has_frames(self) -> bool:
        """Whether the pictures are frames of a file, rather than one that other formats hold."""
        described = describe_frames(self.pictures[0].metadata)
        return described is not None and not described.is_one_picture


@dataclass(frozen=True)
class OriginalReader:
    """Reads originals, and says what of them cannot be kept."""

    keep: bool  # the files; or they are to be deleted
    strip: bool
    limits: Limits
    report: Report

    def read(self, source: Source, remember_format: bool = False) -> Original:
        """Return what to compress."""
        version = None if self.keep else source.version()
        status, data = source.status(), source.read(self.limits)
        reading = read_image(data, self.limits)
        for remark in reading.warnings:
            self.report.warn(source.name, remark)
        pictures = self._read_frames(source, data, reading)
        losses = () if self.strip or describe_frames(pictures[0].metadata) else reading.losses
        for loss in losses:
            self.report.warn(source.name, f"not kept: {loss}")
        first, *others = strip_frames(pictures) if self.strip else pictures
        if not self.strip and status is not None:
            first = replace(first, metadata={**first.metadata, "TIME": time_block(status)})
        # Of the two endings of TIFF files, the one that users chose comes back.
        is_short = reading.format == "TIFF" and source.path.suffix.lower() == ".tif"
        if remember_format and (is_short or not others):
            first = with_format(first, "TIF" if is_short else reading.format)
        return Original([first, *others], len(data), version, losses)

    def _read_frames(self, source: Source, data: bytes, reading: Reading) -> list[Picture]:
        """Return all pictures of a file; if they cannot be kept, the first, but not with --rm."""
        if reading.complete and reading.format != "GIF":
            return [reading.picture]
        try:
            return keep_frames(data, reading, self.limits)
        except InputError as error:
            kept = f"only the first of {count_of(reading.frames, 'frame')} can be kept ({error})"
        if not self.keep:
            raise InputError(f"{kept}: not compressed with --rm")
        self.report.warn(source.name, kept)
        return [reading.picture]
