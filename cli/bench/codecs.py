"""lmzip as a codec to measure: single files, and archives of all images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata

from lmzip.cli.bench.peers import Peer
from lmzip.container.archive_reader import Archive
from lmzip.container.archive_writer import pack_archive
from lmzip.container.image_reader import decompress_picture
from lmzip.container.image_writer import compress_picture
from lmzip.container.info import read_info
from lmzip.options import AUTO, Options
from lmzip.picture import Mode, Picture, Samples
from lmzip.progress import Progress


@dataclass(frozen=True)
class Choice:
    """Which model and order lmzip uses; `model` may be a file."""

    model: str = AUTO
    order: str = "raster"
    effort: str = "default"

    @property
    def title(self) -> str:
        """What tables call it: only what is not the default is mentioned."""
        parts = ["lmzip"]
        if self.model != AUTO:
            parts.append(self.model.replace("\\", "/").rsplit("/", 1)[-1].split(".")[0])
        if self.order != "raster":
            parts.append(self.order)
        if self.effort != "default":
            parts.append(f"({self.effort})")
        return " ".join(parts)

    @property
    def model_file(self) -> str | None:
        """What a decoder must be given: nothing if the model is a released one."""
        return None if self.model == AUTO else self.model

    def options(self, threads: int) -> Options:
        return Options(self.model, self.order, self.effort, threads)


@dataclass(frozen=True)
class LmzipFiles(Peer):
    """Every picture in a file of its own."""

    name: str
    choice: Choice

    @property
    def library(self) -> str:
        return _version()

    def encode(self, picture: Picture) -> bytes:
        return compress_picture(picture, self.choice.options(threads=1))

    def decode(self, data: bytes, mode: Mode) -> Samples:
        return decompress_picture(data, model=self.choice.model_file, threads=1).samples


@dataclass(frozen=True)
class LmzipArchive:
    """All pictures in one archive."""

    name: str
    choice: Choice

    @property
    def library(self) -> str:
        return _version()

    def encode(
        self, pictures: Iterable[Picture], threads: int, progress: Progress | None = None
    ) -> bytes:
        named = ((None, picture) for picture in pictures)
        return pack_archive(named, self.choice.options(threads), progress)

    def decode(self, data: bytes, threads: int) -> Iterator[Samples]:
        with Archive(data, model=self.choice.model_file, threads=threads) as archive:
            yield from archive


Codec = Peer | LmzipArchive


def count_model_bits(data: bytes) -> float | None:
    """Return the bits of an .lmz file's pixels under its model; None if it used no network."""
    info = read_info(data)
    return None if info.model_bpd is None else info.model_bpd * info.samples


def _version() -> str:
    return f"lmzip {metadata.version('lmzip')}"
