"""lmzip inspect: where the bits of an image go."""

from __future__ import annotations

from pathlib import Path

import click

from lmzip import (
    BitCosts,
    Choice,
    InputError,
    ModelError,
    Options,
    Picture,
    choose_model_and_order,
    decompress_picture,
    measure_bits,
    read_info,
    read_model_and_order,
)
from lmzip.cli.colours import choose_top
from lmzip.cli.console import Report
from lmzip.cli.drawing import draw_bit_map, to_png
from lmzip.cli.files import Source, Targets
from lmzip.cli.images import is_lmz, read_image
from lmzip.cli.options import common_options, environment_limits

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
@click.option(
    "--model", default=Options.model, metavar="MODEL", help="A model's name, or its file."
)
@click.option("--order", default=Options.order, metavar="ORDER", help="An order, or best.")
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
        source = Source.named(image)
        targets = Targets.plan([source], output, force, to_stdout=False, many=False)
        target = Path(output) if output is not None else None
        if target is not None and not targets.to_stdout:
            if target.suffix.lower() != ".png":
                raise InputError(f"the bit map is a PNG file, not {target.suffix or target.name}")
            targets.check(target, source)
        picture, choice, adaptive = _read(source.read(environment_limits()), Options(model, order))
        with report.progress(image) as progress:
            bit_map = measure_bits(picture, *choice, adaptive=adaptive, progress=progress)
        report.lines_to_stderr = targets.to_stdout
        if target is not None:
            drawing = draw_bit_map(bit_map, choose_top(bit_map.pixels), path=path)
            targets.write(target, source, to_png(drawing))
        report.result(_format(image, picture, bit_map), **_to_json(image, picture, bit_map))
    return report.finish()


def _read(data: bytes, options: Options) -> tuple[Picture, Choice, bool]:
    """Read an image or an .lmz file; return it with the model and the order to use, and whether
    the network adapts."""
    if is_lmz(data):
        given = None if options.model == Options.model else options.model
        choice = read_model_and_order(data, model=given)
        if choice is None:
            raise InputError("stored by a classical method: no network, so no bit map")
        return decompress_picture(data, model=given), choice, read_info(data).adaptive
    picture = read_image(data).picture
    if not picture.mode.groups:
        raise InputError(f"the network does not code pictures of mode {picture.mode.name}")
    choice = choose_model_and_order(picture, options)
    if choice is None:
        raise ModelError("no models are installed: give a model file with --model")
    return picture, choice, True


def _format(name: str, picture: Picture, bit_map: BitCosts) -> str:
    pixels = picture.height * picture.width
    lines = [
        f"{name}  {picture.width}x{picture.height} {picture.mode.name}, "
        f"model {bit_map.model}, order {bit_map.order}",
        f"  {'all':<9} {bit_map.total / 8:12,.0f} bytes {bit_map.bpd:7.3f} bpd "
        f"{bit_map.total / pixels:8.3f} bits a pixel",
    ]
    for channel, bits in zip(
        _CHANNELS[picture.mode.name.removesuffix("16")], bit_map.channels, strict=True
    ):
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
    channels = zip(_CHANNELS[picture.mode.name.removesuffix("16")], bit_map.channels, strict=True)
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
