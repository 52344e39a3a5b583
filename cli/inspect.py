"""lmzip inspect: where the bits of an image go."""

from __future__ import annotations

from pathlib import Path

import click

from lmzip.bit_costs import BitCosts, choose_top, measure_bits
from lmzip.cli.console import Report
from lmzip.cli.drawing import draw_bit_map, to_png
from lmzip.cli.files import Source, Targets
from lmzip.cli.options import common_options
from lmzip.container.binary import Reader
from lmzip.container.image_file import Coding, read_image_header
from lmzip.container.image_reader import decompress_picture
from lmzip.container.image_writer import compress_picture
from lmzip.container.shared_fields import MAGIC
from lmzip.errors import InputError, ModelError
from lmzip.formats.reading import read_picture
from lmzip.network.registry import Model, find_model
from lmzip.options import AUTO, Options
from lmzip.order.orders import Order
from lmzip.picture import Picture
from lmzip.selection import candidate_codings

_CHANNELS = {
    "L": ("grey",),
    "LA": ("grey", "alpha"),
    "RGB": ("red", "green", "blue"),
    "RGBA": ("red", "green", "blue", "alpha"),
    "CMYK": ("cyan", "magenta", "yellow", "black"),
}


@click.command("inspect")
@click.argument("image", metavar="IMAGE")
@click.option("-o", "--output", metavar="PNG", help="Write the bit map: a heat map with its scale.")
@click.option("-f", "--force", is_flag=True, help="Overwrite an existing output.")
@click.option("--path", is_flag=True, help="Draw the order into the bit map, as a path.")
@click.option("--model", default=AUTO, metavar="MODEL", help="A model's name, or its file.")
@click.option("--order", default="raster", metavar="ORDER", help="An order, or best.")
@common_options(threads=False)
def inspect_command(
    image: str,
    output: str | None,
    force: bool,
    path: bool,
    model: str,
    order: str,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> int:
    """Show what the pixels of an image cost under the network.

    IMAGE is a picture, or an .lmz file, whose own model and order are then used. Prints the totals
    of channels and tiles; with -o, draws the cost of every pixel.
    """
    if path and output is None:
        raise click.UsageError("--path draws into the bit map: say where with -o PNG")
    report = Report(quiet=quiet, verbose=verbose, as_json=as_json)
    with report.file(image):
        source = Source(Path(image), Path(image).absolute())
        targets = Targets.plan([source], output, force, to_stdout=False, many=False)
        target = Path(output) if output is not None else None
        if target is not None and not targets.to_stdout:
            if target.suffix.lower() != ".png":
                raise InputError(f"the bit map is a PNG file, not {target.suffix or target.name}")
            targets.check(target, source)
        picture, chosen_model, chosen_order = _read(source.read(), Options(model, order))
        with report.progress(image) as progress:
            bit_map = measure_bits(picture, chosen_model, chosen_order, progress=progress)
        report.lines_to_stderr = targets.to_stdout
        if target is not None:
            drawing = draw_bit_map(bit_map, choose_top(bit_map.pixels), path=path)
            targets.write(target, source, to_png(drawing))
        report.result(_format(image, picture, bit_map), **_to_json(image, picture, bit_map))
    return report.finish()


def _read(data: bytes, options: Options) -> tuple[Picture, Model, Order]:
    """Read an image or an .lmz file; return it with the model and the order to use."""
    given = None if options.model == AUTO else options.model
    if data[:4] == MAGIC:
        coding = _read_coding(data)
        if coding is None:
            raise InputError("this file is stored by a classical method: no network, no bit map")
        return decompress_picture(data, model=given), *_find(coding, given)
    picture = read_picture(data).picture
    if not picture.mode.groups:
        raise InputError(f"the network does not code pictures of mode {picture.mode.name}")
    codings = candidate_codings(options, picture.mode)
    if not codings:
        raise ModelError("no models are installed: give a model file with --model")
    if len(codings) > 1:  # several fit: take what the compressor takes
        coding = _read_coding(compress_picture(picture, options))
        if coding is not None:
            return picture, *_find(coding, given)
    return picture, *codings[0]


def _read_coding(data: bytes) -> Coding | None:
    return read_image_header(Reader(data)).coding


def _find(coding: Coding, given: str | None) -> tuple[Model, Order]:
    return find_model(coding.model.name, coding.model.fingerprint, given), coding.order


def _format(name: str, picture: Picture, bit_map: BitCosts) -> str:
    pixels = picture.height * picture.width
    lines = [
        f"{name}  {picture.width}x{picture.height} {picture.mode.name}, "
        f"model {bit_map.model}, order {bit_map.order}",
        f"  {'all':<9} {bit_map.total / 8:12,.0f} bytes {bit_map.bpd:7.3f} bpd "
        f"{bit_map.total / pixels:8.3f} bits a pixel",
    ]
    for channel, bits in zip(_CHANNELS[picture.mode.name], bit_map.channels, strict=True):
        lines.append(f"  {channel:<9} {bits / 8:12,.0f} bytes {bits / pixels:7.3f} bpd")
    rows, columns = bit_map.grid
    if rows * columns > 1:
        lines.append(f"  bpd of {rows} x {columns} tiles")
        values = [_tile_bpd(bit_map, number) for number in range(rows * columns)]
        for first in range(0, len(values), columns):
            lines.append("  " + " ".join(f"{v:6.3f}" for v in values[first : first + columns]))
    return "\n".join(lines)


def _tile_bpd(bit_map: BitCosts, number: int) -> float:
    tile, bits = bit_map.tiles[number]
    height, width = (end - first for first, end in (tile.rows, tile.columns))
    return bits / (height * width * bit_map.costs.shape[2])


def _to_json(name: str, picture: Picture, bit_map: BitCosts) -> dict[str, object]:
    channels = zip(_CHANNELS[picture.mode.name], bit_map.channels, strict=True)
    return {
        "input": name,
        "height": picture.height,
        "width": picture.width,
        "mode": picture.mode.name,
        "model": bit_map.model,
        "order": str(bit_map.order),
        "bits": bit_map.total,
        "bpd": bit_map.bpd,
        "channels": dict(channels),
        "tiles": [
            {"rows": tile.rows, "columns": tile.columns, "bits": bits}
            for tile, bits in bit_map.tiles
        ],
    }
