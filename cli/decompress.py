"""lmzip decompress: .lmz files and archives back to image files."""

from __future__ import annotations

from pathlib import Path

import click

from lmzip import InputError, Limits, Region
from lmzip.cli.console import Report
from lmzip.cli.files import Targets, check_stdout, find_sources, is_folder
from lmzip.cli.options import common_options, limit_options, model_option, output_options
from lmzip.cli.restoring import Restoration
from lmzip.cli.verify import verify_source
from lmzip.formats import WRITABLE_SUFFIXES, check_suffix
from lmzip.storage import to_path


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
    pnm, bmp, qoi or gif. Without one it is the original format if lmzip writes that, or else PNG.
    Animations and documents of several pages come back as they were; --only restores one frame.
    An archive becomes a folder of images.
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
    check_stdout(targets, keep, report)
    suffix = f".{kind}" if kind else None
    job = Restoration(targets, suffix, model, threads, salvage, limits, report)
    if targets.output is not None and job.to_image:
        _check_ending(targets.output)
    for source in sources:
        with report.file(source.name):
            failures = report.failures
            version = None if keep else source.version()
            job.restore(source, region, only)
            if not keep and report.failures == failures:
                job.remove(source, version)
    return report.finish()


def _check_ending(output: str) -> None:
    try:
        check_suffix(Path(output).suffix)
    except InputError as error:
        raise click.UsageError(f"{output}: {error}") from None
