"""lmzip as a codec to measure: single files, and archives of all images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata

from lmzip import (
    Archive,
    Mode,
    Options,
    Picture,
    Progress,
    Samples,
    compress_picture,
    decompress_picture,
    pack_archive,
    read_info,
)
from lmzip.cli.bench.peers import Peer


@dataclass(frozen=True)
class LmzipSettings:
    """Which model and order lmzip uses; `model` may be a file."""

    model: str = Options.model
    order: str = "raster"
    effort: str = "default"

    @property
    def title(self) -> str:
        """What tables call it: only what is not the default is mentioned."""
        parts = ["lmzip"]
        if self.model != Options.model:
            parts.append(self.model.replace("\\", "/").rsplit("/", 1)[-1].split(".")[0])
        if self.order != "raster":
            parts.append(self.order)
        if self.effort != "default":
            parts.append(f"({self.effort})")
        return " ".join(parts)

    @property
    def model_file(self) -> str | None:
        """What a decoder must be given: nothing if the model is a released one."""
        return None if self.model == Options.model else self.model

    def options(self, threads: int) -> Options:
        return Options(self.model, self.order, self.effort, threads)


@dataclass(frozen=True)
class LmzipFiles(Peer):
    """Every picture in a file of its own."""

    name: str
    settings: LmzipSettings

    @property
    def library(self) -> str:
        return _version()

    def encode(self, picture: Picture) -> bytes:
        return compress_picture(picture, self.settings.options(threads=1))

    def decode(self, data: bytes, mode: Mode) -> Samples:
        return decompress_picture(data, model=self.settings.model_file, threads=1).samples


@dataclass(frozen=True)
class LmzipArchive:
    """All pictures in one archive."""

    name: str
    settings: LmzipSettings

    @property
    def library(self) -> str:
        return _version()

    def encode(
        self, pictures: Iterable[Picture], threads: int, progress: Progress | None = None
    ) -> bytes:
        named = ((None, picture) for picture in pictures)
        return pack_archive(named, self.settings.options(threads), progress)

    def decode(self, data: bytes, threads: int) -> Iterator[Samples]:
        with Archive(data, model=self.settings.model_file, threads=threads) as archive:
            yield from archive


Codec = Peer | LmzipArchive


def count_model_bits(data: bytes) -> float | None:
    """Return the bits of an .lmz file's pixels under its model; None if it used no network."""
    info = read_info(data)
    return None if info.model_bpd is None else info.model_bpd * info.samples


def _version() -> str:
    return f"lmzip {metadata.version('lmzip')}"
