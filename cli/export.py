"""lmzip export: a trained network becomes a model file, and what that costs is measured.

It prints three figures, for images that took no part in choosing the scales: the bits of the float
network, those of the integer network under its own mixture, and the bytes that the coder writes.
"""

from __future__ import annotations

from pathlib import Path

import click
from torch import Tensor

from lmzip import InputError
from lmzip.cli.console import Report
from lmzip.cli.data_sets import IMAGES, SETS, guess_set, load_set
from lmzip.cli.options import common_options
from lmzip.models.compact import CompactNetwork
from lmzip.models.export import export_network
from lmzip.models.weights import load_network, load_notes

_PATH = click.Path(path_type=Path)


@click.command("export")
@click.argument("weights", type=_PATH)
@click.option("-o", "--output", required=True, metavar="MODEL", type=_PATH, help="File to write.")
@click.option("--data", required=True, metavar="FOLDER", type=_PATH, help="Where the images are.")
@click.option(
    "--set", "kind", type=click.Choice(SETS), help="Which data set FOLDER is; guessed otherwise."
)
@click.option(
    "--crop", default=64, type=click.IntRange(8), metavar="N", help="Crop images to N x N squares."
)
@click.option(
    "--count", default=100, type=click.IntRange(1), metavar="N",
    help="How many images to calibrate with, and how many to measure.",
)  # fmt: skip
@click.option(
    "--order", "orders", multiple=True, default=("raster",), metavar="ORDER",
    help='An order it was trained for, such as "raster:*"; may be repeated.',
)  # fmt: skip
@click.option("--name", metavar="NAME", help="The model's name; the file's by default.")
@click.option(
    "--note", "notes", multiple=True, metavar="KEY=TEXT",
    help="A note that `lmzip models` shows; may be repeated.",
)  # fmt: skip
@click.option("-f", "--force", is_flag=True, help="Overwrite an existing model file.")
@common_options(threads=False)
def command(
    weights: Path,
    output: Path,
    data: Path,
    kind: str | None,
    crop: int,
    count: int,
    orders: tuple[str, ...],
    name: str | None,
    notes: tuple[str, ...],
    force: bool,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> int:
    """Turn trained float WEIGHTS into the integer network that the codec runs.

    Prints the bits per dimension of the float network, of the integer network and of the coded
    bytes, measured on images that were not used for calibration.
    """
    said = dict(_parse_note(note) for note in notes)
    report = Report(quiet=quiet, verbose=verbose, as_json=as_json)
    if output.exists() and not force:
        raise click.UsageError(f"{output} already exists (-f overwrites it)")
    network = load_network(weights)
    if not isinstance(network, CompactNetwork):
        raise InputError(f"{weights}: the codec runs compact networks only")
    calibration, held_out = _load_images(network, data, kind, crop, count)
    card = {**load_notes(weights), **said}
    export = export_network(
        network.eval(), calibration, held_out, orders, name or output.stem, card
    )
    export.save(output)
    integer, size = export.network, output.stat().st_size
    in_float, in_integers, coded = export.float_bpd, export.integer_bpd, export.coded_bpd
    report.result(
        f"float network    {in_float:8.4f} bpd\n"
        f"integer network  {in_integers:8.4f} bpd {in_integers - in_float:+.4f}\n"
        f"coded bytes      {coded:8.4f} bpd {coded - in_float:+.4f}\n"
        f"{output}: {size:,} bytes, {integer.multiply_adds:,} multiply-adds a pixel, "
        f"fingerprint {integer.fingerprint()[:16]}",
        output=str(output),
        bytes=size,
        float_bpd=in_float,
        integer_bpd=in_integers,
        coded_bpd=coded,
        images=len(held_out),
        fingerprint=integer.fingerprint(),
    )
    return report.finish()


def _load_images(
    network: CompactNetwork, folder: Path, kind: str | None, crop: int, count: int
) -> tuple[Tensor, Tensor]:
    """Return images to calibrate with and others to measure: uint8 (N, C, H, W) each.

    Of a data set, training and test images; of a folder, every second image and the others.
    """
    shape = {"channels": network.channels, "levels": network.levels, "crop": crop}
    kind = kind or guess_set(folder)
    images = load_set(folder, kind, "train", **shape)
    if kind != IMAGES:
        return images[:count], load_set(folder, kind, "test", **shape)[:count]
    if len(images) < 2:
        raise InputError(f"{folder}: fewer than two images of {crop}x{crop} pixels")
    return images[::2][:count], images[1::2][:count]


def _parse_note(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise click.UsageError(f"--note {text!r} is not KEY=TEXT")
    return key, value
