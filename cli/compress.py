"""lmzip compress: image files to .lmz files, or to one archive."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from lmzip import EFFORTS, InputError, Limits, Options, check_options
from lmzip.cli.compressing import SUFFIX, Compression
from lmzip.cli.console import Report, count_of
from lmzip.cli.files import STANDARD, Source, Targets, check_stdout, find_sources, is_folder
from lmzip.cli.options import common_options, limit_options, output_options, scheduler_option
from lmzip.cli.shards import compress_shards
from lmzip.formats import LOSSY_SUFFIXES, READABLE_SUFFIXES
from lmzip.sharding import Recipe
from lmzip.storage import to_path


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
    help="fast uses small networks, default large ones that adapt as they go; best tries all, and "
    "classical coders at their strongest; max lets the network learn from the images first "
    "(needs torch).",
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
    help="Pass over inputs whose output exists and restores them exactly, but for the time of "
    "change.",
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
    if archive and skip_existing:
        raise click.UsageError("--skip-existing passes over single files: leave out --archive")
    job = Compression(options, verify, strip, keep, skip_existing, limits, report)
    if archive:
        if output is None and not to_stdout:
            raise click.UsageError("--archive needs -o FILE")
        name = output or STANDARD
        targets = Targets.plan([Source.named(name)], output, force, to_stdout, many=False)
        if targets.to_folder:
            raise click.UsageError(f"{name} is a folder; an archive is one file")
        check_stdout(targets, keep, report)
        with report.file(name):
            job.pack(sources, targets)
        return report.finish()
    many = any(is_folder(to_path(name)) for name in inputs)
    targets = Targets.plan(sources, output, force, to_stdout, many)
    targets.keep_apart(sources, SUFFIX)
    check_stdout(targets, keep, report)
    for source in sources:
        with report.file(source.name):
            job.compress(source, targets)
    return report.finish(total=job.print_total())


def _check_choice(options: Options) -> None:
    """Raise UsageError if a model or order cannot be used, before any file is touched."""
    try:
        check_options(options)
    except InputError as error:
        raise click.UsageError(str(error)) from None


class _SkippedJpegs:
    """Counts the JPEG files that `-r` skips: they would grow, so they must be named explicitly."""

    def __init__(self) -> None:
        self.count = 0

    def is_wanted(self, path: Path) -> bool:
        """Whether a file of a folder is to be compressed."""
        suffix = path.suffix.lower()
        self.count += suffix in LOSSY_SUFFIXES
        return suffix in READABLE_SUFFIXES
