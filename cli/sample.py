"""lmzip sample: images drawn from a model, as a labelled grid."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
from PIL import Image

from lmzip import Order, parse_order
from lmzip.cli.console import Report, count_of
from lmzip.cli.drawing import to_png
from lmzip.cli.drawn_files import check_drawing, write_each
from lmzip.cli.files import write_file
from lmzip.cli.generators import Pixels, load_generator
from lmzip.cli.grids import GridRow, blank_out, draw_grid, to_animation
from lmzip.cli.options import common_options, drawing_options, parse_shape

_FRAMES = 24
_FRAME_MILLISECONDS = 120


@click.command("sample")
@click.argument("model", metavar="MODEL")
@click.option("-n", "--count", default=16, type=click.IntRange(1), metavar="N", help="How many.")
@click.option(
    "--size", default="32x32", metavar="HxW", help="Height and width in pixels (default 32x32)."
)
@click.option("--order", default="raster", metavar="ORDER", help="Such as s-curve:flip.")
@click.option("--grey", is_flag=True, help="Draw grey images from a model for colour.")
@click.option("--states", default=0, type=click.IntRange(0), metavar="N",
              help="Show N states on the way to each sample, as a strip.")  # fmt: skip
@click.option("--animate", is_flag=True, help="Make the PNG an animation of the samples' growth.")
@drawing_options
@common_options(threads=False)
def sample_command(
    model: str,
    count: int,
    size: str,
    order: str,
    grey: bool,
    states: int,
    animate: bool,
    output: str,
    each: str | None,
    force: bool,
    temperature: float,
    seed: int,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> int:
    """Draw samples from a MODEL: its name, its file, or a file of float weights.

    Writes a PNG in which all samples stand side by side, each with its number and with what it
    costs under the model, in bits per dimension.
    """
    if states and animate:
        raise click.UsageError("--states makes a strip, --animate an animation: choose one")
    report = Report(quiet=quiet, verbose=verbose, as_json=as_json)
    with report.file(output):
        height, width = parse_shape(size)
        path = check_drawing(output, force)
        generator, chosen = load_generator(model), parse_order(order)
        channels = 1 if grey else generator.channels
        everything = np.ones((height, width), bool)
        with report.progress(model) as progress:
            images = generator.draw(
                np.zeros((height, width, channels), np.uint8), everything, count, chosen,
                temperature=temperature, seed=seed, progress=progress,
            )  # fmt: skip
        if each is not None:
            write_each(Path(each), "sample", images, force)
        costs = [generator.measure(image, everything, chosen) for image in images]
        labels = [f"{number}: {bpd:.3f} bpd" for number, bpd in enumerate(costs, 1)]
        title = f"{generator.name}, {chosen}, temperature {temperature:g}, seed {seed}"
        if animate:
            frames = [_draw(title, labels, stage) for stage in _stages(images, chosen, _FRAMES)]
            data = to_animation(frames, _FRAME_MILLISECONDS)
        elif states:
            data = to_png(_draw_strips(title, labels, images, chosen, states))
        else:
            data = to_png(_draw(title, labels, list(images)))
        write_file(path, data, force=force)
        report.result(
            f"{output}: {count_of(count, 'sample')} of {height}x{width} pixels, {title}",
            output=output, samples=count, height=height, width=width, model=generator.name,
            order=str(chosen), temperature=temperature, seed=seed, bpd=costs,
        )  # fmt: skip
    return report.finish()


def _draw(title: str, labels: Sequence[str], images: Sequence[Pixels]) -> Image.Image:
    """Draw images side by side and in lines, each below its label."""
    return draw_grid(title, [GridRow("", labels, images)], square=True)


def _draw_strips(
    title: str, labels: Sequence[str], images: Pixels, order: Order, states: int
) -> Image.Image:
    """Draw each image as a row of its states."""
    stages = _stages(images, order, states)
    shares = [f"{round(100 * (i + 1) / states)} %" for i in range(states)]
    rows = [
        GridRow(label, shares, [stage[i] for stage in stages]) for i, label in enumerate(labels)
    ]
    return draw_grid(title, rows)


def _stages(images: Pixels, order: Order, count: int) -> list[list[Pixels]]:
    """Return what was known of all images at `count` moments, the last of them the end.

    A pixel does not change any more once it is drawn, so the order says it all.
    """
    ranks = order.ranks(*images.shape[1:3])
    ends = [ranks.size * (i + 1) // count for i in range(count)]
    return [[blank_out(image, ranks >= end) for image in images] for end in ends]
