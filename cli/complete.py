"""lmzip complete: a hidden part of an image, drawn in several ways beside the truth."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from lmzip import (
    REGIONS,
    InputError,
    Order,
    completion_order,
    make_regions,
    parse_order,
)
from lmzip.cli.console import Report
from lmzip.cli.drawing import to_png
from lmzip.cli.drawn_files import check_drawing, write_each
from lmzip.cli.files import Source, write_file
from lmzip.cli.generators import Pixels, Region, load_generator
from lmzip.cli.grids import GridRow, blank_out, draw_grid
from lmzip.cli.images import read_image
from lmzip.cli.options import common_options, drawing_options, environment_limits

_CONTEXT, _ADVERSARIAL = "context", "adversarial"


@click.command("complete")
@click.argument("image", metavar="IMAGE")
@click.option("--region", metavar="REGION", help="TOP,LEFT,HEIGHT,WIDTH, or top, left, bottom, "
              "right or centre: what to hide.")  # fmt: skip
@click.option("--mask", metavar="PNG", help="Hide what is not black in this picture.")
@click.option("-n", "--count", default=3, type=click.IntRange(1), metavar="N",
              help="Draw N completions (default 3).")  # fmt: skip
@click.option("--model", default="thumb-any", metavar="MODEL",
              help="A model, or float weights (default thumb-any).")  # fmt: skip
@click.option("--order", "orders", multiple=True, default=(_CONTEXT,), metavar="ORDER",
              help="context (default): what is observed comes first. adversarial: last. "
              "Or any order. May be repeated, to compare.")  # fmt: skip
@drawing_options
@common_options(threads=False)
def complete_command(
    image: str,
    region: str | None,
    mask: str | None,
    count: int,
    model: str,
    orders: tuple[str, ...],
    output: str,
    each: str | None,
    force: bool,
    temperature: float,
    seed: int,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> int:
    """Draw a hidden part of an IMAGE from the rest of it, and put it beside the truth.

    Only what is hidden is drawn; all other pixels stay as they are. Prints what the true pixels
    cost under each order, in bits per dimension.

    More context does not always mean fewer bits: three quarters of holes in the middle take
    fewer with --order raster, which thumb-any knows better.
    """
    if (region is None) == (mask is None):
        raise click.UsageError("say what to hide, with either --region or --mask")
    report = Report(quiet=quiet, verbose=verbose, as_json=as_json)
    with report.file(image):
        path = check_drawing(output, force)
        pixels = _read_pixels(image)
        shape = pixels.shape[0], pixels.shape[1]
        hidden = _read_mask(mask, shape) if mask is not None else parse_region(region or "", shape)
        generator = load_generator(model)
        captions = ["input", *(f"drawn {i}" for i in range(1, count + 1)), "truth"]
        rows = []
        for name in orders:
            order = _choose_order(name, hidden, generator.family)
            with report.progress(image) as progress:
                drawn = generator.draw(
                    pixels, hidden, count, order,
                    temperature=temperature, seed=seed, progress=progress,
                )  # fmt: skip
            bpd = generator.measure(pixels, hidden, order)
            label = f"{_describe(name, order)}: the truth takes {bpd:.3f} bpd"
            rows.append(GridRow(label, captions, [blank_out(pixels, hidden), *drawn, pixels]))
            report.result(f"{image}: {label}", input=image, output=output, model=generator.name,
                          order=name, hidden_pixels=int(hidden.sum()), bpd=bpd)  # fmt: skip
            if name == _CONTEXT and order.permutation is not None:
                report.warn(image, "an order that suits this region alone: the model may predict "
                            "it better with --order raster")  # fmt: skip
            if each is not None:
                write_each(Path(each), f"{Path(image).stem}-{name.replace(':', '-')}", drawn, force)
        title = f"{generator.name}, temperature {temperature:g}, seed {seed}"
        write_file(path, to_png(draw_grid(title, rows)), force=force)
    return report.finish()


def parse_region(text: str, shape: tuple[int, int]) -> Region:
    """Read a region's name, or its top, left, height and width; raises InputError."""
    height, width = shape
    if text in REGIONS:
        return make_regions(height, width, [text])[text]
    numbers = text.split(",")
    if len(numbers) != 4 or not all(number.strip().isdecimal() for number in numbers):
        raise InputError(f"region {text!r} is not TOP,LEFT,HEIGHT,WIDTH or {', '.join(REGIONS)}")
    top, left, rows, columns = map(int, numbers)
    if not (rows and columns and top + rows <= height and left + columns <= width):
        raise InputError(f"region {text} is not inside the image of {height}x{width} pixels")
    hidden = np.zeros(shape, bool)
    hidden[top : top + rows, left : left + columns] = True
    return hidden


def _read_pixels(name: str) -> Pixels:
    """Read a picture of 8-bit grey or colour."""
    data = Source.named(name).read(environment_limits())
    picture = read_image(data).picture
    if picture.mode.name not in ("L", "RGB"):
        raise InputError(f"completes grey and RGB pictures, not those of mode {picture.mode.name}")
    return picture.samples.astype(np.uint8)


def _read_mask(name: str, shape: tuple[int, int]) -> Region:
    """Read a mask of the picture's size: hidden where any channel but alpha is not zero."""
    data = Source.named(name).read(environment_limits())
    picture = read_image(data).picture
    colours = picture.samples[..., :-1] if picture.mode.name.endswith("A") else picture.samples
    hidden: Region = (colours != 0).any(2)
    if hidden.shape != shape:
        raise InputError(f"{name}: the mask has {hidden.shape}, the image {shape} pixels")
    return hidden


def _choose_order(name: str, hidden: Region, family: str) -> Order:
    if name in (_CONTEXT, _ADVERSARIAL):
        return completion_order(hidden, family, adversarial=name == _ADVERSARIAL)
    return parse_order(name)


def _describe(name: str, order: Order) -> str:
    names = {_CONTEXT: "maximum context", _ADVERSARIAL: "adversarial"}
    if name not in names:
        return str(order)
    return names[name] if order.permutation is not None else f"{names[name]} ({order})"
