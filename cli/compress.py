"""lmzip compress: image files to .lmz files, or to one archive."""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import dataclass, replace
from pathlib import Path

import click

from lmzip import (
    EFFORTS,
    Archive,
    DamagedError,
    Info,
    InputError,
    Limits,
    LmzipError,
    Options,
    Picture,
    Progress,
    check_options,
    compress_picture,
    decompress_picture,
    is_archive,
    pack_archive,
    read_info,
)
from lmzip.cli.console import Report, VerificationError, count_of, fit_name, format_size
from lmzip.cli.files import (
    STANDARD,
    OutputError,
    Source,
    Targets,
    find_sources,
    is_folder,
)
from lmzip.cli.images import read_image
from lmzip.cli.options import common_options, limit_options, output_options, scheduler_option
from lmzip.cli.shards import compress_shards
from lmzip.formats import (
    LOSSY_SUFFIXES,
    READABLE_SUFFIXES,
    Reading,
    describe_frames,
    file_times,
    keep_frames,
    strip_frames,
    time_block,
    with_format,
)
from lmzip.sharding import Recipe
from lmzip.storage import to_path

_SUFFIX = ".lmz"
_NAME_WIDTH = 18


@click.command("compress")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@output_options("The output: a file, or a folder for several inputs.")
@click.option("--archive", is_flag=True, help="Pack all images into one file, given by -o.")
@click.option(
    "--shard", type=click.IntRange(1), metavar="N",
    help="With --archive: archives of N images each, in the folder given by -o, and a manifest. "
    "The same command again makes what is missing.",
)  # fmt: skip
@scheduler_option("shards are made")
@click.option(
    "--model", default=Options.model, metavar="MODEL", help="A model's name, or its file."
)
@click.option(
    "--order", default=Options.order, metavar="ORDER",
    help="raster, s-curve or hilbert, with a variant such as raster:mirror; or best.",
)  # fmt: skip
@click.option(
    "--effort", type=click.Choice(EFFORTS), default=Options.effort,
    help="fast tries one model; best tries more, and classical coders at their strongest; max "
    "lets the network learn from the images first (needs torch).",
)  # fmt: skip
@click.option(
    "--minutes", type=click.FloatRange(0, min_open=True), default=Options.minutes,
    show_default=True, help="How long the network may learn, with --effort max.",
)  # fmt: skip
@click.option(
    "--verify/--no-verify", default=True,
    help="Decode and compare before anything is written (default).",
)  # fmt: skip
@click.option("--strip", is_flag=True, help="Drop metadata: profiles, EXIF, texts, times.")
@click.option(
    "--skip-existing", is_flag=True,
    help="Pass over inputs whose output exists and restores them exactly.",
)  # fmt: skip
@limit_options
@common_options()
def compress_command(
    inputs: tuple[str, ...],
    output: str | None,
    to_stdout: bool,
    force: bool,
    keep: bool,
    recursive: bool,
    archive: bool,
    shard: int | None,
    scheduler: str | None,
    model: str,
    order: str,
    effort: str,
    minutes: float,
    verify: bool,
    strip: bool,
    skip_existing: bool,
    limits: Limits,
    threads: int,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> int:
    """Compress images, losslessly.

    Reads PNG, TIFF, BMP, PNM, WebP, GIF and QOI files of unsigned samples with up to 16 bits, and
    the pixels of JPEG files; "-" is stdin. Writes .lmz files beside the inputs unless -o says
    otherwise.

    Prints a line for each file: raw size, file size, ratio, bits per dimension of the file and of
    the model alone, seconds.
    """
    if not keep and not verify:
        raise click.UsageError("--rm deletes only what was verified: leave out --no-verify")
    report = Report(quiet=quiet, verbose=verbose, as_json=as_json)
    options = Options(model, order, effort, threads, minutes=minutes)
    _check_choice(options)
    skipped = _SkippedJpegs()
    if shard is not None or scheduler is not None:
        if not archive or shard is None or output is None or not recursive:
            raise click.UsageError("shards need --archive -r SOURCE -o FOLDER --shard N")
        if to_stdout or not keep or skip_existing:
            raise click.UsageError("shards exclude -c, --rm and --skip-existing")
        if scheduler is not None:
            options = replace(options, threads=threads or 1)  # workers have threads of their own
        recipe = Recipe(options, strip, verify, limits)
        return compress_shards(
            inputs, output, shard, recipe, scheduler, skipped.is_wanted, force, report
        )
    sources = find_sources(inputs, recursive, skipped.is_wanted, report)
    if skipped.count:
        files = count_of(skipped.count, "JPEG file")
        report.remark(f"{files} skipped: the exact pixels would take more space")
    job = _Compression(options, verify, strip, keep, skip_existing, limits, report)
    if archive:
        if output is None and not to_stdout:
            raise click.UsageError("--archive needs -o FILE")
        name = output or STANDARD
        target = Source(to_path(name), Path(name))
        targets = Targets.plan([target], output, force, to_stdout, many=False)
        if targets.to_folder:
            raise click.UsageError(f"{name} is a folder; an archive is one file")
        _check_stdout(targets, report)
        with report.file(name):
            job.pack(sources, targets)
        return report.finish()
    many = any(is_folder(to_path(name)) for name in inputs)
    targets = Targets.plan(sources, output, force, to_stdout, many)
    targets.keep_apart(sources, _SUFFIX)
    _check_stdout(targets, report)
    for source in sources:
        with report.file(source.name):
            job.compress(source, targets)
    return report.finish(total=job.print_total())


@dataclass(frozen=True)
class _Read:
    """What is to be compressed, one picture or several frames; the size and version of its file."""

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


class _Compression:
    """The settings that all files of a command share, and their totals."""

    def __init__(
        self,
        options: Options,
        verify: bool,
        strip: bool,
        keep: bool,
        skip_existing: bool,
        limits: Limits,
        report: Report,
    ) -> None:
        self.options, self.verify, self.strip, self.keep = options, verify, strip, keep
        self.skip_existing, self.limits, self.report = skip_existing, limits, report
        self.began = time.monotonic()
        self.raw = self.size = self.samples = self.count = 0
        self.model_bits = 0.0

    def compress(self, source: Source, targets: Targets) -> None:
        """Compress one file to its target."""
        began = time.monotonic()
        target = targets.of(source, _SUFFIX)
        exists = self.skip_existing and not targets.to_stdout and target.is_file()
        if not exists:
            targets.check(target, source)
        read = self._read(source, remember_format=True)
        if exists:
            self._skip(source, target, read, targets)
            return
        self.report.note(f"{source.name}: {read.describe()}")
        with self.report.progress(source.name) as progress:
            data = self._encode(read.pictures, progress)
        if self.verify:
            with self.report.progress(f"verify {source.name}") as progress:
                self._verify(data, read.pictures, progress)
        targets.write(target, source, data, file_times(read.pictures[0].metadata))
        info = read_info(data, limits=self.limits)
        self._describe(source.name, target, read.samples, info, time.monotonic() - began)
        larger = 0 < read.size < len(data)
        if larger:
            self.report.warn(
                source.name, f"{target} has {len(data)} bytes, the input only {read.size}"
            )
        if not self.keep:
            self._remove(source, target, read, targets, larger)

    def _encode(self, pictures: list[Picture], progress: Progress | None) -> bytes:
        """Return the image file of a picture, or the archive of several frames."""
        if not _are_frames(pictures):
            return compress_picture(pictures[0], self.options, progress)
        frames = ((None, picture) for picture in pictures)
        return pack_archive(frames, self.options, progress, gather_metadata=True)

    def _verify(
        self, data: bytes, pictures: list[Picture], progress: Progress | None = None
    ) -> None:
        """Raise VerificationError unless a file holds these pictures."""
        if is_archive(data):
            self._verify_archive(data, pictures)
            return
        decoded = decompress_picture(
            data,
            model=self._own_model(),
            threads=self.options.threads,
            progress=progress,
            limits=self.limits,
        )
        for picture in pictures:
            _compare(decoded, picture)

    def _skip(self, source: Source, target: Path, read: _Read, targets: Targets) -> None:
        """Pass over a file whose output is there; raises OutputError if that is another's."""
        targets.check_input(target, source)
        existing = Source(target, Path(target.name)).read(self.limits)
        try:
            self._verify(existing, read.pictures)
        except LmzipError:
            raise OutputError(
                f"{target} exists and is not this image", "-f overwrites it"
            ) from None
        self.report.note(f"{source.name}: {target} is there already")
        targets.written[target] = source.name
        if not self.keep:
            self._remove(source, target, read, targets)

    def pack(self, sources: list[Source], targets: Targets) -> None:
        """Pack all files that can be read into one archive."""
        assert targets.output is not None or targets.to_stdout
        target = to_path(targets.output or STANDARD)
        name = str(target)
        pictures: list[tuple[str, Picture]] = []
        has_frames = False
        used: dict[str, Source] = {}
        done: list[tuple[Source, _Read]] = []
        if not targets.to_stdout:
            targets.check_target(target)
        for source in sources:
            with self.report.file(source.name):
                inside = "stdin" if source.is_stdin else source.relative.as_posix()
                if not targets.to_stdout:
                    targets.check_input(target, source)
                _check_names([inside], used)
                if not _is_utf8(inside):
                    raise OutputError("names in an archive must be UTF-8, and this one is not")
                read = self._read(source)
                names = _name_frames(inside, len(read.pictures))
                _check_names(names, used)
                pictures += zip(names, read.pictures, strict=True)
                has_frames |= _are_frames(read.pictures)
                used.update(dict.fromkeys(names, source))
                done.append((source, read))
        if not pictures:
            return
        with self.report.progress(name) as progress:
            data = pack_archive(pictures, self.options, progress, gather_metadata=has_frames)
        if self.verify:
            self._verify_archive(data, [picture for _, picture in pictures])
        targets.write(target, Source(Path(STANDARD), Path(STANDARD)), data)
        total = sum(picture.samples.nbytes for _, picture in pictures)
        self._describe(
            name, target, total, read_info(data, limits=self.limits), time.monotonic() - self.began
        )
        if not self.keep:
            for source, read in done:
                self._remove(source, target, read, targets)

    def _remove(
        self, source: Source, target: Path, read: _Read, targets: Targets, larger: bool = False
    ) -> None:
        """Delete an input, if all of it is in the output."""
        if read.losses:
            self.report.warn(source.name, "not deleted: not all of it is in the output")
        elif larger:
            self.report.warn(source.name, "not deleted: it is smaller than the output")
        else:
            targets.remove_input(source, target, read.version)

    def _verify_archive(self, data: bytes, pictures: list[Picture]) -> None:
        with Archive(
            data, model=self._own_model(), threads=self.options.threads, limits=self.limits
        ) as archive:
            if len(archive) != len(pictures):
                raise VerificationError(
                    f"verification failed: {len(archive)} images of {len(pictures)}"
                )
            for number, decoded in archive.restore(range(len(archive))):
                if isinstance(decoded, DamagedError):
                    raise decoded
                _compare(decoded, pictures[number])

    def print_total(self) -> dict[str, float | int | None]:
        """Print the totals of a batch; return them for `--json`."""
        seconds = time.monotonic() - self.began
        bpd = 8 * self.size / self.samples if self.samples else None
        model_bpd = self.model_bits / self.samples if self.samples else None
        if self.count > 1 and bpd is not None:
            name = fit_name(f"total of {self.count}", _NAME_WIDTH)
            numbers = _format_numbers(self.raw, self.size, bpd, f"model {model_bpd:.3f}", seconds)
            self.report.line(f"{name} {numbers}")
        return {
            "count": self.count,
            "raw_bytes": self.raw,
            "bytes": self.size,
            "bpd": bpd,
            "model_bpd": model_bpd,
            "seconds": round(seconds, 3),
        }

    def _read(self, source: Source, remember_format: bool = False) -> _Read:
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
        if remember_format and not others:
            first = with_format(first, reading.format)
        return _Read([first, *others], len(data), version, losses)

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

    def _own_model(self) -> str | None:
        return None if self.options.model == Options.model else self.options.model

    def _describe(self, name: str, target: Path, raw: int, info: Info, seconds: float) -> None:
        """Print the line of a file, and add it to the totals."""
        self.count += 1
        self.raw += raw
        self.size += info.size
        self.samples += info.samples
        bpd = info.bpd if info.model_bpd is None else info.model_bpd
        self.model_bits += bpd * info.samples
        how = info.method if info.model_bpd is None else f"model {info.model_bpd:.3f}"
        numbers = _format_numbers(raw, info.size, info.bpd, how, seconds)
        self.report.result(
            f"{fit_name(name, _NAME_WIDTH)} {numbers}",
            input=name,
            output=str(target),
            raw_bytes=raw,
            bytes=info.size,
            ratio=raw / info.size,
            bpd=info.bpd,
            model_bpd=info.model_bpd,
            method=info.method,
            model=info.model,
            order=info.order,
            seconds=round(seconds, 3),
        )


def _format_numbers(raw: int, size: int, bpd: float, how: str, seconds: float) -> str:
    return (
        f"{format_size(raw):>8} -> {format_size(size):>8} {raw / size:5.2f}x "
        f"{bpd:6.3f} bpd ({how}) {seconds:4.1f} s"
    )


def _compare(decoded: Picture, picture: Picture) -> None:
    """Raise VerificationError unless a picture came back as it was."""
    same = decoded.mode == picture.mode and decoded.samples.shape == picture.samples.shape
    if not same or (decoded.samples != picture.samples).any():
        raise VerificationError("verification failed: the decoded pixels differ (nothing written)")
    if dict(decoded.metadata) != dict(picture.metadata):
        raise VerificationError(
            "verification failed: the decoded metadata differs (nothing written)"
        )


def _check_stdout(targets: Targets, report: Report) -> None:
    """Keep results and files apart if both would go to stdout."""
    if targets.to_stdout and report.as_json:
        raise click.UsageError("--json and a file cannot both go to stdout")
    report.lines_to_stderr = targets.to_stdout


def _check_choice(options: Options) -> None:
    """Raise UsageError if a model or order cannot be used, before any file is touched."""
    try:
        check_options(options)
    except InputError as error:
        raise click.UsageError(str(error)) from None


def _are_frames(pictures: list[Picture]) -> bool:
    """Whether pictures are frames of a file, rather than one that other formats can hold too."""
    described = describe_frames(pictures[0].metadata)
    return described is not None and not described.is_one_picture


def _name_frames(name: str, count: int) -> list[str]:
    """Return the names of a file's frames in an archive: a.gif, a.gif#2, a.gif#3, ..."""
    return [name, *(f"{name}#{number}" for number in range(2, count + 1))]


def _check_names(names: list[str], used: dict[str, Source]) -> None:
    """Raise OutputError if a name in an archive is taken."""
    for name in names:
        if name in used:
            raise OutputError(f"{used[name].name} already has the name {name} in the archive")


def _is_utf8(name: str) -> bool:
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


class _SkippedJpegs:
    """Counts the JPEG files that `-r` skips: they would grow, so they must be named explicitly."""

    def __init__(self) -> None:
        self.count = 0

    def is_wanted(self, path: Path) -> bool:
        """Whether a file of a folder is to be compressed."""
        suffix = path.suffix.lower()
        self.count += suffix in LOSSY_SUFFIXES
        return suffix in READABLE_SUFFIXES
