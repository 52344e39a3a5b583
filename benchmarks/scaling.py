"""Cost per pixel as images and batches grow: it must not rise.

    python benchmarks/scaling.py [--largest 2048] [--most 4096] [--model MODEL] [--image FILE]

Squares from 256 to 2048 pixels a side, and archives of 1 to 4,096 images of 32x32, on one core.
Bars: never more than 15 % above 256x256, nor, from 64 images on, above the cost of 64.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
from common import (
    Bar,
    Results,
    Table,
    common_options,
    cut_thumbnails,
    find_model,
    load_photograph,
    time_call,
)

import lmzip

LIMIT = 1.15
LONG = 5.0  # seconds


def measure_sizes(sides: list[int], model: str, image: Path | None) -> dict[int, list[float]]:
    """Return the seconds a pixel to compress and to decompress, by side."""
    costs = {}
    for side in sides:
        pack = partial(lmzip.compress, load_photograph(image, side, side), model=model, threads=1)
        unpack = partial(lmzip.decompress, model=model, threads=1)
        costs[side] = _time_both(pack, unpack, side * side)
    return costs


def measure_batches(counts: list[int], model: str, image: Path | None) -> dict[int, list[float]]:
    """Return the seconds a pixel to pack and to unpack, by number of images."""
    everything, costs = cut_thumbnails(image, max(counts)), {}
    for count in counts:
        pack = partial(lmzip.compress_batch, everything[:count], model=model, threads=1)
        costs[count] = _time_both(pack, partial(_unpack, model), count * 32 * 32)
    return costs


def _unpack(model: str, data: bytes) -> None:
    with lmzip.open_archive(data, model=model, threads=1) as archive:
        _ = archive[:]


def _time_both(
    pack: Callable[[], bytes], unpack: Callable[[bytes], Any], pixels: int
) -> list[float]:
    """Return the seconds a pixel; a first call that is long is not repeated."""
    began = time.perf_counter()
    data = pack()
    packing = time.perf_counter() - began
    if packing < LONG:
        packing = time_call(pack, warm=True)
    return [packing / pixels, time_call(partial(unpack, data), warm=True) / pixels]


def tabulate(
    title: str, heading: str, costs: dict[int, list[float]], base: int
) -> tuple[Table, list[Bar]]:
    """Show costs relative to those of `base`, and hold all larger ones against the limit."""
    columns = [heading, "encode us/pixel", "ratio", "decode us/pixel", "ratio"]
    table, bars = Table(title, columns), []
    for size, pair in costs.items():
        ratios = [cost / of_base for cost, of_base in zip(pair, costs[base], strict=True)]
        cells = [(f"{1e6 * c:.2f}", f"{r:.2f}") for c, r in zip(pair, ratios, strict=True)]
        table.rows.append([str(size), *cells[0], *cells[1]])
        for what, ratio in zip(("encode", "decode"), ratios, strict=True):
            if size > base:
                name = f"{what}, {heading} {size} against {base}"
                bars.append(Bar(name, f"{ratio:.2f}", f"{LIMIT}", ratio <= LIMIT))
    return table, bars


@click.command()
@click.option("--largest", default=2048, help="The largest side.")
@click.option("--most", default=4096, help="The largest number of images.")
@common_options
def main(
    largest: int, most: int, model_name: str | None, image: Path | None, save: Path | None
) -> None:
    """Measure how costs scale."""
    model = str(find_model(model_name).path)
    sides = [side for side in (256, 512, 1024, 2048) if side <= max(256, largest)]
    counts = [count for count in (1, 4, 16, 64, 256, 1024, 4096) if count <= max(64, most)]
    results = Results("scaling", "Cost per pixel as images and batches grow, one core")
    for table, bars in (
        tabulate("Squares", "side", measure_sizes(sides, model, image), 256),
        tabulate("Archives of 32x32", "images", measure_batches(counts, model, image), 64),
    ):
        results.tables.append(table)
        results.bars += bars
    results.finish(save)


if __name__ == "__main__":
    main()
