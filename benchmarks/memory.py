"""Peak memory to compress and to decompress a large image.

    python benchmarks/memory.py [--height 3000] [--width 4000] [--threads 2] [--model MODEL]

Each is done in a fresh process; counted is its resident memory with that of its workers, the
interpreters, the libraries and the pixels themselves included (Linux). The bars are what 4000x3000
pixels took when the workers were processes.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import click
from common import (
    Bar,
    Pixels,
    Results,
    Table,
    common_options,
    find_model,
    load_photograph,
    show_rate,
)

import lmzip
from lmzip.cli.bench.memory import MemoryMeter, read_memory

LIMITS = {"compress": 480e6, "decompress": 420e6}


def compress(pixels: Pixels, model: str, threads: int) -> tuple[bytes, int, float]:
    """Return the file, the peak of memory and the seconds of a compression."""
    data: list[bytes] = []
    run = partial(lmzip.compress, pixels, model=model, threads=threads)
    peak, seconds = measure(lambda: data.append(run()))
    return data[0], peak, seconds


def decompress(data: bytes, model: str, threads: int) -> tuple[int, float]:
    """Return the peak of memory and the seconds of a decompression."""
    return measure(partial(lmzip.decompress, data, model=model, threads=threads))


def measure(run: Callable[[], Any]) -> tuple[int, float]:
    """Return the most memory that this process and its workers hold meanwhile, and the seconds."""
    before, began = read_memory("VmRSS"), time.perf_counter()
    with MemoryMeter(children=True) as meter:
        run()
    assert before is not None, "the system does not tell how much memory a process has"
    assert meter.peak is not None
    return before + meter.peak, time.perf_counter() - began


@click.command()
@click.option("--height", default=3000)
@click.option("--width", default=4000)
@click.option("--threads", default=2)
@common_options
def main(
    height: int,
    width: int,
    threads: int,
    model_name: str | None,
    image: Path | None,
    save: Path | None,
) -> None:
    """Measure peak memory."""
    model = str(find_model(model_name).path)
    pixels = load_photograph(image, height, width)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        data, *packing = pool.submit(compress, pixels, model, threads).result()
        unpacking = pool.submit(decompress, data, model, threads).result()
    table = Table(f"{width}x{height} pixels", ["", "peak MB", "of the raw size", "rate"])
    title = f"Peak memory with {threads} threads, workers included"
    results = Results("memory", title, [table], threads=threads)
    for what, (peak, seconds) in (("compress", packing), ("decompress", unpacking)):
        ratio = f"{peak / pixels.nbytes:.1f}x"
        table.rows.append([what, f"{peak / 1e6:.0f}", ratio, show_rate(pixels.nbytes, seconds)])
        limit = LIMITS[what]
        bar = Bar(f"{what}, MB", f"{peak / 1e6:.0f}", f"{limit / 1e6:.0f}", peak < limit)
        results.bars.append(bar)
    results.finish(save)


if __name__ == "__main__":
    main()
