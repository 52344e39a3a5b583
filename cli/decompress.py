"""lmzip decompress: .lmz files and archives back to image files."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import click

from lmzip import (
    Archive,
    DamagedError,
    InputError,
    Limits,
    Picture,
    Progress,
    Region,
    decompress_picture,
    is_archive,
    salvage_picture,
)
from lmzip.cli.console import DAMAGED, Report, fit_name, format_size
from lmzip.cli.files import (
    OutputError,
    Source,
    Targets,
    find_sources,
    is_folder,
    make_folder,
)
from lmzip.cli.options import common_options, limit_options, model_option, output_options
from lmzip.cli.verify import verify_source
from lmzip.formats import (
    LOSSY_SUFFIXES,
    READABLE_SUFFIXES,
    WRITABLE_SUFFIXES,
    check_suffix,
    default_suffix,
    file_times,
    write_picture,
)
from lmzip.storage import name_errors, to_path


def _parse_region(ctx: click.Context, param: click.Parameter, value: str | None) -> Region | None:
    if value is None:
        return None
    try:
        top, left, height, width = (int(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not TOP,LEFT,HEIGHT,WIDTH", ctx, param) from None
    return Region(top, left, height, width)


@click.command("decompress")
@click.argument("inputs", nargs=-1, required=True, metavar="FILE...")
@output_options("The output: a file, or a folder for several and for archives.")
@click.option(
    "--format", "kind", metavar="FORMAT", type=click.Choice([s[1:] for s in WRITABLE_SUFFIXES]),
    help="The format of outputs whose names do not say it: png, tiff, ...",
)  # fmt: skip
@click.option(
    "--region", callback=_parse_region, metavar="T,L,H,W",
    help="Only a rectangle: top, left, height, width in pixels.",
)  # fmt: skip
@click.option(
    "--only", multiple=True, metavar="NAME",
    help="Of an archive, only this image, by name or number; may be repeated.",
)  # fmt: skip
@click.option(
    "--salvage", is_flag=True,
    help="Restore what is whole of damaged files, black elsewhere; the exit code stays 3.",
)  # fmt: skip
@click.option("-t", "--test", is_flag=True, help="Check the files, write nothing.")
@model_option
@limit_options
@common_options()
def decompress_command(
    inputs: tuple[str, ...],
    output: str | None,
    to_stdout: bool,
    force: bool,
    keep: bool,
    recursive: bool,
    kind: str | None,
    region: Region | None,
    only: tuple[str, ...],
    salvage: bool,
    test: bool,
    model: str | None,
    limits: Limits,
    threads: int,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> int:
    """Restore images from .lmz files.

    The ending of the output's name chooses its format: png, tiff, webp (lossless), ppm, pgm, pbm,
    pnm, bmp or qoi. Without one it is PNG, or TIFF for CMYK and PNM for unusual levels of white,
    which PNG cannot hold. An archive becomes a folder of images.
    """
    if region is not None and not keep:
        raise click.UsageError("--rm would lose everything outside --region")
    if only and not keep:
        raise click.UsageError("--rm would lose the other images of the archive")
    report = Report(quiet=quiet, verbose=verbose, as_json=as_json)
    sources = find_sources(inputs, recursive, lambda path: path.suffix == ".lmz", report)
    if test:
        for source in sources:
            with report.file(source.name):
                verify_source(source, model, threads, report, limits)
        return report.finish()
    many = any(is_folder(to_path(name)) for name in inputs)
    targets = Targets.plan(sources, output, force, to_stdout, many)
    if targets.to_stdout and as_json:
        raise click.UsageError("--json and a file cannot both go to stdout")
    report.lines_to_stderr = targets.to_stdout
    suffix = f".{kind}" if kind else None
    job = _Decompression(targets, suffix, model, threads, salvage, limits, report)
    if targets.output is not None and job.to_image:
        _check_ending(targets.output)
    for source in sources:
        with report.file(source.name):
            failures = report.failures
            job.decompress(source, region, only)
            if not keep and report.failures == failures:
                job.remove(source)
    return report.finish()


@dataclass
class _Decompression:
    """The settings that all files of a command share."""

    targets: Targets
    suffix: str | None
    model: str | None
    threads: int
    salvage: bool
    limits: Limits
    report: Report

    @property
    def to_image(self) -> bool:
        """Whether -o is the name of one image, as its ending says; else it may be a folder."""
        output = self.targets.output
        if output is None or self.targets.to_folder:
            return False
        return Path(output).suffix.lower() in {
            *WRITABLE_SUFFIXES,
            *READABLE_SUFFIXES,
            *LOSSY_SUFFIXES,
        }

    def decompress(self, source: Source, region: Region | None, only: tuple[str, ...]) -> None:
        """Restore one image file, or the images of one archive."""
        data = source.content(self.limits)
        if isinstance(data, str) or is_archive(data):
            if region is not None:
                raise InputError("--region is for files of one image, not for archives")
            self._unpack(source, data, only)
            return
        if only:
            raise InputError("--only is for archives, and this is one image")
        began = time.monotonic()
        suffix = self._early_suffix()
        if suffix:  # before the work if the name is known
            check_suffix(suffix)
            self.targets.check(self.targets.of(source, suffix), source)
        with self.report.progress(source.name) as progress:
            picture, losses = self._decode(data, region, progress)
        suffix = suffix or self._fitting_suffix(source, picture)
        self._write(source, self.targets.of(source, suffix), suffix, picture, began)
        for loss in losses:
            self.report.fail(source.name, f"lost: {loss}", DAMAGED)

    def _decode(
        self, data: bytes, region: Region | None, progress: Progress | None
    ) -> tuple[Picture, list[str]]:
        """Return a picture, and with --salvage what of it is lost."""
        model, threads, limits = self.model, self.threads, self.limits
        try:
            picture = decompress_picture(
                data, region=region, model=model, threads=threads, progress=progress, limits=limits
            )
            return picture, []
        except DamagedError:
            if not self.salvage or region is not None:
                raise
        return salvage_picture(data, model=model, threads=threads, limits=limits)

    def _fitting_suffix(self, source: Source, picture: Picture, ending: str | None = None) -> str:
        """Return the ending of the original format, or another if that cannot hold the picture."""
        wanted = ending or default_suffix(picture)
        metadata = {tag: block for tag, block in picture.metadata.items() if tag != "FORM"}
        other = default_suffix(replace(picture, metadata=metadata))
        if wanted == other:
            return wanted
        try:
            write_picture(picture, wanted)
        except InputError as error:
            self.report.warn(source.name, f"restored as {other[1:]}: {error}")
            return other
        return wanted

    def remove(self, source: Source) -> None:
        """Delete an input, if all of it has been written to files."""
        if source.name in self.targets.written.values() and not source.is_stdin:
            with name_errors(source.path):
                source.path.unlink()

    def _unpack(self, source: Source, data: bytes | str, only: tuple[str, ...]) -> None:
        with Archive(data, model=self.model, threads=self.threads, limits=self.limits) as archive:
            names = archive.names or [f"{number:06d}" for number in range(len(archive))]
            chosen = _choose(names, only) if only else list(range(len(names)))
            if self.targets.to_stdout and len(chosen) > 1:
                raise InputError("an archive of several images cannot go to stdout: use -o FOLDER")
            if self.to_image and len(chosen) > 1:
                raise OutputError(
                    f"{self.targets.output} is one file, and the archive has {len(chosen)} images",
                    "-o FOLDER takes them all, --only NAME one of them",
                )
            stems = Counter(map(_without_ending, names))
            began = time.monotonic()
            for number, picture in archive.restore(chosen):
                with self.report.file(f"{source.name}: {names[number]}"):
                    if isinstance(picture, DamagedError):
                        raise picture
                    self._write_member(source, names[number], stems, picture, began)
                began = time.monotonic()

    def _write_member(
        self,
        source: Source,
        name: str,
        stems: Counter[tuple[PurePosixPath, str]],
        picture: Picture,
        began: float,
    ) -> None:
        """Write one image of an archive, below a folder or to the one file that was asked for."""
        inside, output = _safe_path(name), self.targets.output
        if self.targets.to_stdout or self.to_image:
            suffix = self._early_suffix() or self._fitting_suffix(source, picture)
            self._write(source, to_path(output or name), suffix, picture, began)
            return
        known = inside.suffix.lower() if inside.suffix.lower() in WRITABLE_SUFFIXES else None
        suffix = self.suffix or self._fitting_suffix(source, picture, known)
        folder = source.path.with_suffix("") if output is None else to_path(output)
        target = folder / inside
        if suffix != known and stems[_without_ending(name)] > 1:
            target = target.with_name(target.name + suffix)  # a.gif beside a.png: a.gif.png
        else:
            target = target.with_suffix(suffix)
        make_folder(target.parent)
        self._write(source, target, suffix, picture, began)

    def _early_suffix(self) -> str | None:
        """Return the ending that the command line asks for, if it does."""
        output = self.targets.output
        if output is not None and not self.targets.to_folder and Path(output).suffix:
            return Path(output).suffix
        return self.suffix

    def _write(
        self, source: Source, target: Path, suffix: str, picture: Picture, began: float
    ) -> None:
        name = source.name if self.targets.to_stdout else str(target)
        data, remarks = write_picture(picture, suffix)
        self.targets.check(target, source)
        self.targets.write(target, source, data, file_times(picture.metadata))
        for remark in remarks:
            self.report.warn(name, remark)
        seconds = time.monotonic() - began
        self.report.result(
            f"{fit_name(name, 28)} {picture.width}x{picture.height} {picture.mode.name} "
            f"{format_size(len(data)):>8} {seconds:6.1f} s",
            input=source.name,
            output=None if self.targets.to_stdout else str(target),
            height=picture.height,
            width=picture.width,
            mode=picture.mode.name,
            bytes=len(data),
            seconds=round(seconds, 3),
        )


def _check_ending(output: str) -> None:
    try:
        check_suffix(Path(output).suffix)
    except InputError as error:
        raise click.UsageError(f"{output}: {error}") from None


def _choose(names: list[str], only: tuple[str, ...]) -> list[int]:
    """Return the numbers of images that are given by name or by number."""
    numbers = []
    for wanted in only:
        if wanted in names:
            numbers.append(names.index(wanted))
        elif wanted.isascii() and wanted.isdigit() and int(wanted) < len(names):
            numbers.append(int(wanted))
        else:
            raise InputError(f"no image {wanted!r} among the {len(names)} of the archive")
    return numbers


def _without_ending(name: str) -> tuple[PurePosixPath, str]:
    path = PurePosixPath(name)
    return path.parent, path.stem


def _safe_path(name: str) -> Path:
    """Return a name inside an archive as a path that stays below a folder."""
    parts = PurePosixPath(name.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts or not parts.name or "\0" in name:
        raise OutputError(f"the name {name!r} would leave the folder")
    return Path(*parts.parts)
