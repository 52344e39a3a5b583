"""Peak memory to compress and to decompress a large image.

    python benchmarks/memory.py [--height 3000] [--width 4000] [--threads 2] [--model MODEL]

Each is done in a fresh process; counted is by how much its resident memory, with that of its
workers, rises above what it held with the library imported and its input loaded (Linux).
"""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import click
from common import Pixels, Results, Table, common_options, find_model, load_photograph, show_rate

import lmzip
from lmzip.cli.bench.memory import MemoryMeter


def compress(pixels: Pixels, model: str, threads: int) -> tuple[bytes, int, float]:
    """Return the file, the peak of memory and the seconds of a compression."""
    began = time.perf_counter()
    with MemoryMeter(children=True) as meter:
        data = lmzip.compress(pixels, model=model, threads=threads)
    assert meter.peak is not None, "the system does not tell how much memory a process has"
    return data, meter.peak, time.perf_counter() - began


def decompress(data: bytes, model: str, threads: int) -> tuple[int, float]:
    """Return the peak of memory and the seconds of a decompression."""
    began = time.perf_counter()
    with MemoryMeter(children=True) as meter:
        lmzip.decompress(data, model=model, threads=threads)
    assert meter.peak is not None
    return meter.peak, time.perf_counter() - began


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
    for what, (peak, seconds) in (("compress", packing), ("decompress", unpacking)):
        ratio = f"{peak / pixels.nbytes:.1f}x"
        table.rows.append([what, f"{peak / 1e6:.0f}", ratio, show_rate(pixels.nbytes, seconds)])
    title = f"Peak memory with {threads} threads, workers included"
    Results("memory", title, [table], threads=threads).finish(save)


if __name__ == "__main__":
    main()
