"""lmzip verify: decode, check every checksum, and compare with an original if there is one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np

from lmzip import Archive, DamagedError, InputError, Limits, Picture, decompress_picture, read_info
from lmzip.cli.console import Report, VerificationError, fit_name
from lmzip.cli.files import Source, find_sources
from lmzip.cli.images import read_image
from lmzip.cli.members import Member, Members, safe_path
from lmzip.cli.options import common_options, limit_options, model_option, scheduler_option
from lmzip.cli.verify_shards import is_manifest, verify_files
from lmzip.formats import read_frames
from lmzip.storage import to_path


@click.command("verify")
@click.argument("inputs", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--against",
    metavar="IMAGE",
    help="Compare with an image; an archive, with a folder of images.",
)
@click.option("-r", "--recursive", is_flag=True, help="Go through folders.")
@scheduler_option("files are decoded")
@model_option
@limit_options
@common_options()
def verify_command(
    inputs: tuple[str, ...],
    against: str | None,
    recursive: bool,
    scheduler: str | None,
    model: str | None,
    limits: Limits,
    threads: int,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> int:
    """Decode files, check every checksum, and write nothing.

    Of a manifest.json, every shard must be there, with the bytes that the manifest states.
    """
    report = Report(quiet=quiet, verbose=verbose, as_json=as_json)
    if scheduler is not None or any(map(is_manifest, inputs)):
        if against is not None:
            raise click.UsageError("--against compares single files, without a cluster")
        verify_files(inputs, recursive, model, threads, limits, scheduler, report)
        return report.finish()
    sources = find_sources(inputs, recursive, lambda path: path.suffix == ".lmz", report)
    if against is not None and len(sources) != 1:
        raise click.UsageError("--against compares one file with one image or folder")
    for source in sources:
        with report.file(source.name):
            verify_source(source, model, threads, report, limits, against)
    return report.finish()


def verify_source(
    source: Source,
    model: str | None,
    threads: int,
    report: Report,
    limits: Limits,
    against: str | None = None,
) -> None:
    """Decode one file; raises DamagedError, or VerificationError if it is another image."""
    began = time.monotonic()
    data = source.content(limits)
    info = read_info(data, limits=limits)
    if isinstance(data, str) or info.is_archive:
        _verify_archive(data, model, threads, limits, against)
    else:
        with report.progress(source.name) as progress:
            picture = decompress_picture(
                data, model=model, threads=threads, progress=progress, limits=limits
            )
        if against is not None:
            original = Source.named(against)
            _compare(picture, _read_original(original, limits), original.path)
    same = f", the same as {against}" if against else ""
    seconds = time.monotonic() - began
    report.result(
        f"{fit_name(source.name, 28)} ok{same} {seconds:6.1f} s",
        input=source.name,
        ok=True,
        images=info.count,
        seconds=round(seconds, 3),
    )


def _verify_archive(
    data: bytes | str, model: str | None, threads: int, limits: Limits, against: str | None
) -> None:
    """Decode all images; compare each with the file of its name in a folder, if one is given.

    The frames of a single file are compared with that file.
    """
    with Archive(data, model=model, threads=threads, limits=limits) as archive:
        members = Members(archive)
        originals = _Originals(archive, members, against, limits)
        for number, picture in archive.restore(range(len(archive))):
            if isinstance(picture, DamagedError):
                raise picture
            originals.compare(number, picture)


class _Originals:
    """The files that the images of an archive are compared with, if any."""

    def __init__(
        self, archive: Archive, members: Members, against: str | None, limits: Limits
    ) -> None:
        self._limits = limits
        self._files: dict[int, tuple[Member, Source]] = {}
        self._frames: tuple[Source | None, list[Picture]] = None, []  # of the file in use
        if against is None:
            return
        path = to_path(against)
        if not members.is_single_file and (archive.names is None or not path.is_dir()):
            raise InputError("an archive with names is compared with a folder")
        for member in members.all:
            place = Source.named(against)
            if not members.is_single_file:
                safe_path(member.name)  # a stranger's archive may not choose what is read
                file = Path(member.name)  # as it is: files here may have backslashes
                place = Source(path / file, file)
            self._files |= dict.fromkeys(member.numbers, (member, place))

    def compare(self, number: int, picture: Picture) -> None:
        """Raise VerificationError if an image is not the one of its file."""
        if number not in self._files:
            return
        member, source = self._files[number]
        path = source.path
        if member.frames is None:
            with _naming(member.name):
                _compare(picture, _read_original(source, self._limits), path)
            return
        if self._frames[0] != source:
            self._frames = source, _read_original_frames(source, self._limits)
        frame, frames = number - member.numbers[0], self._frames[1]
        with _naming(f"frame {frame}"):
            if len(frames) != len(member.numbers):
                raise VerificationError(f"is of {len(member.numbers)}, {path} has {len(frames)}")
            _compare(picture, frames[frame], path)
            if picture.metadata.get("FRMS") != frames[frame].metadata.get("FRMS"):
                raise VerificationError(f"is shown in another way than in {path}")


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """Say which image of an archive it is that differs."""
    try:
        yield
    except VerificationError as error:
        raise VerificationError(f"{name} {error}") from None


def _read_original(source: Source, limits: Limits) -> Picture:
    with _naming_file(source):
        return read_image(source.read(limits), limits).picture


def _read_original_frames(source: Source, limits: Limits) -> list[Picture]:
    with _naming_file(source):
        return read_frames(source.read(limits), limits)


@contextlib.contextmanager
def _naming_file(source: Source) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise InputError(f"{source.name}: {error}") from None


def _compare(picture: Picture, original: Picture, against: Path) -> None:
    """Raise VerificationError unless a picture has the very same samples as an original."""
    if original.mode != picture.mode:
        raise VerificationError(f"is {picture.mode.name}, {against} is {original.mode.name}")
    if original.samples.shape != picture.samples.shape:
        raise VerificationError(
            f"is {picture.width}x{picture.height}, {against} is {original.width}x{original.height}"
        )
    different = (original.samples != picture.samples).any(axis=2)
    if different.any():
        row, column = np.argwhere(different)[0].tolist()
        raise VerificationError(
            f"{int(different.sum())} pixels differ from {against}, "
            f"the first in row {row}, column {column}"
        )
