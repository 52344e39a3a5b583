"""lmzip info: describe files without decoding pixels or loading a model."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from lmzip import ImageInfo, Info, Limits, list_images, read_info
from lmzip.cli.console import Report, count_of, format_size, printable
from lmzip.cli.files import find_sources
from lmzip.cli.options import common_options, limit_options

_MANIFEST = "manifest.json"  # as in `lmzip.sharding`, which is loaded only for one


@click.command("info")
@click.argument("inputs", nargs=-1, required=True, metavar="FILE...")
@click.option("-r", "--recursive", is_flag=True, help="Go through folders.")
@click.option("--list", "as_list", is_flag=True, help="List the images of archives.")
@limit_options
@common_options(threads=False)
def info_command(
    inputs: tuple[str, ...],
    recursive: bool,
    as_list: bool,
    limits: Limits,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> int:
    """Show size, mode, model, order, tiles, method, bits and metadata of files.

    Of a manifest.json: how many shards and images there are, and which shards are missing.
    """
    report = Report(quiet=quiet, verbose=verbose, as_json=as_json)
    for source in find_sources(inputs, recursive, lambda path: path.suffix == ".lmz", report):
        with report.file(source.name):
            if source.path.name == _MANIFEST and not source.is_stdin:
                from lmzip.cli.info_shards import describe_manifest

                text, numbers = describe_manifest(source.path, limits)
                report.result(text, input=source.name, **numbers)
                continue
            data = source.content(limits)
            info = read_info(data, limits=limits)
            entry: dict[str, Any] = {**asdict(info), "metadata": dict(info.metadata)}
            lines = [_format(source.name, info)]
            if as_list and info.is_archive:
                images = list_images(data, limits=limits)
                entry["images"] = [asdict(image) for image in images]
                lines += map(_format_image, images)
            report.result("\n".join(lines), input=source.name, **entry)
    return report.finish()


def _format(name: str, info: Info) -> str:
    size = "of several sizes" if info.width is None else f"{info.width}x{info.height} pixels"
    what = f"{count_of(info.count, 'image')}, {size}" if info.is_archive else size
    rows = [
        ("image" if not info.is_archive else "archive", f"{what}, {info.mode or 'several modes'}"),
        ("file", f"{format_size(info.size)} ({info.size} bytes), format {info.version}"),
        ("bits", _format_bits(info)),
        ("method", f"{info.method}, which adapts" if info.adaptive else info.method),
    ]
    if info.model is not None:
        rows.append(("model", f"{info.model} {info.fingerprint}"))
    if info.tuning is not None:
        learnt = f"{format_size(info.tuning)}, learnt from the pixels"
        if info.plain_size:
            saved = 100 * (info.size / info.plain_size - 1)
            learnt += f"; without it {info.plain_size} bytes ({saved:+.2f} %)"
        rows.append(("tuning", learnt))
    if info.bank_tuning is not None:
        rows.append(("tuning", f"number {info.bank_tuning} of those that come with the model"))
    if info.order is not None:
        rows.append(("order", info.order))
    if info.tiles != (1, 1):
        rows.append(("tiles", f"{info.tiles[0]} rows of {info.tiles[1]}"))
    if info.is_archive and "FRMS" in info.metadata:
        rows.append(("frames", "images that are frames of one file come back as that file"))
    if info.metadata:
        blocks = ", ".join(f"{tag} {size} B" for tag, size in info.metadata.items())
        rows.append(("metadata", blocks))
    return "\n".join([name, *(f"  {key:<9} {text}" for key, text in rows)])


def _format_image(image: ImageInfo) -> str:
    name = "" if image.name is None else f" {printable(image.name)}"
    size = f"{image.width}x{image.height}"
    return f"  {image.number:>6} {size:>11} {image.mode:<6} {image.method:<8}{name}"


def _format_bits(info: Info) -> str:
    if info.model_bpd is None:
        return f"{info.bpd:.3f} bpd"
    return f"{info.bpd:.3f} bpd, {info.model_bpd:.3f} under the model alone"
