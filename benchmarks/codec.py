"""Speed of the codec on one core, where its time goes, and what a second core adds.

    python benchmarks/codec.py [--model MODEL] [--image FILE] [--save DIR]

The kernel that runs here against the numpy engine, on one core: a photograph, thumbnails, orders
that code a pixel at a time, and a photograph of 16-bit samples. Then raw bytes a second of the
numpy engine on a photograph, split into matrix products, the rest of the network, mixture and
coder, next to the rate at which this machine multiplies matrices; two workers against one on
1024x1024; an archive of 1,000 images.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial, wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import numpy as np
from common import (
    Bar,
    DeepPixels,
    Pixels,
    Results,
    Table,
    common_options,
    cut_thumbnails,
    find_model,
    load_deep_photograph,
    load_photograph,
    show_rate,
    time_call,
)
from threadpoolctl import threadpool_limits

import lmzip
from lmzip.network.backend import NumpyBackend
from lmzip.network.registry import Model
from lmzip.parallel import decode_job, encode_job
from lmzip.stream import decoder, depths, encoder, steps

SIDE = 500
SLOWEST = {"encode": 250, "decode": 150}  # kB/s, with about 200,000 multiply-adds a pixel
SPEED_UP = 1.7  # of two workers
FASTER = {  # how many times as fast as numpy a kernel must be
    "encode a photograph": 2.0,
    "decode a photograph": 3.5,
    "encode it, not adaptive": 2.0,
    "decode it, not adaptive": 3.5,
    "decode one thumbnail": 10.0,
    "decode an archive": 2.5,
    "decode 64x64, s-curve": 5.0,
    "decode 64x64, hilbert": 5.0,
}
PARTS = ("matrix products", "rest of the network", "mixture", "coder", "everything else")
WATCHED = (  # where the parts are found, and by which names
    (encoder, "Pass", PARTS[1]),
    (steps, "Pass", PARTS[1]),
    (depths, "Mixture", PARTS[2]),
    (decoder, "Decoder", PARTS[3]),
    (encoder, "encode_intervals", PARTS[3]),
)


class Stopwatch:
    """Sums up the time spent in wrapped functions; time in an inner one is not the outer one's."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._inner = [0.0]

    def wrap(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def timed(*args: Any, **options: Any) -> Any:
            self._inner.append(0.0)
            began = time.perf_counter()
            try:
                return function(*args, **options)
            finally:
                elapsed = time.perf_counter() - began
                self.seconds[part] += elapsed - self._inner.pop()
                self._inner[-1] += elapsed

        return timed

    def wrap_class(self, part: str, kind: type) -> type:
        """Return a subclass whose methods are timed."""
        names = [n for n, f in vars(kind).items() if callable(f) and n[:1] != "_"]
        methods = {name: self.wrap(part, getattr(kind, name)) for name in [*names, "__init__"]}
        return type(kind.__name__, (kind,), methods)


class TimedBackend(NumpyBackend):
    """The numpy backend, its products timed."""

    def __init__(self, watch: Stopwatch) -> None:
        for name in ("multiply", "multiply_each"):
            setattr(self, name, watch.wrap("matrix products", getattr(self, name)))


def profile(run: Callable[[], Any]) -> tuple[float, dict[str, float]]:
    """Run coding work once in this process; return the seconds it took, and those of its parts."""
    watch = Stopwatch()
    with ExitStack() as stack:
        for module, name, part in WATCHED:
            watched = getattr(module, name)
            wrap = watch.wrap_class if isinstance(watched, type) else watch.wrap
            stack.enter_context(patch.object(module, name, wrap(part, watched)))
        for job in (encode_job, decode_job):
            timed = patch.object(job, "find_backend", lambda name: TimedBackend(watch))
            stack.enter_context(timed)
        began = time.perf_counter()
        run()
        total = time.perf_counter() - began
    watch.seconds[PARTS[4]] = total - sum(watch.seconds.values())
    return total, watch.seconds


def measure_kernel(
    photograph: Pixels, thumbnails: Pixels, deep: DeepPixels, bars: list[Bar]
) -> Table:
    """Compare the kernel that runs here with the numpy engine, on one core."""
    small = np.ascontiguousarray(photograph[:64, :64])
    one = lmzip.compress(thumbnails[0], model="thumb", threads=1)
    many = lmzip.compress_batch(thumbnails, model="thumb", threads=1)
    whole = lmzip.compress(photograph, model="photo", threads=1)
    rigid = lmzip.compress(photograph, model="photo", effort="fast", threads=1)
    sixteen = lmzip.compress(deep, model="photo", threads=1)
    walks = {
        order: lmzip.compress(small, model="thumb-any", order=order, threads=1)
        for order in ("s-curve", "hilbert")
    }
    tasks: dict[str, tuple[int, Callable[[], Any]]] = {
        "encode a photograph": (
            photograph.nbytes,
            lambda: lmzip.compress(photograph, model="photo", threads=1),
        ),
        "decode a photograph": (photograph.nbytes, lambda: lmzip.decompress(whole, threads=1)),
        "encode it, not adaptive": (
            photograph.nbytes,
            lambda: lmzip.compress(photograph, model="photo", effort="fast", threads=1),
        ),
        "decode it, not adaptive": (
            photograph.nbytes,
            lambda: lmzip.decompress(rigid, threads=1),
        ),
        "decode one thumbnail": (
            thumbnails[0].nbytes,
            lambda: lmzip.decompress(one, threads=1),
        ),
        "decode an archive": (
            thumbnails.nbytes,
            lambda: lmzip.open_archive(many, threads=1)[:],
        ),
        **{
            f"decode 64x64, {order}": (small.nbytes, partial(lmzip.decompress, data, threads=1))
            for order, data in walks.items()
        },
        "encode 16 bits": (
            deep.nbytes,
            lambda: lmzip.compress(deep, model="photo", threads=1),
        ),
        "decode 16 bits": (deep.nbytes, lambda: lmzip.decompress(sixteen, threads=1)),
    }
    engine = lmzip.describe_backend()
    table = Table(f"{engine} against numpy, one core", ["", "numpy", engine, "times as fast"])
    for what, (size, run) in tasks.items():
        run()  # compiles the schedule
        with patch.dict(os.environ, {"LMZIP_KERNEL": "numpy"}):
            by_numpy = time_call(run, 0.5)
        seconds = time_call(run, 0.5)
        gain = by_numpy / seconds
        table.rows.append(
            [what, show_rate(size, by_numpy), show_rate(size, seconds), f"{gain:.1f}"]
        )
        if what in FASTER:
            least = FASTER[what]
            bars.append(Bar(f"{what}, of numpy", f"{gain:.1f}", f"{least}", gain >= least))
    return table


def measure_sgemm(size: int = 1024) -> float:
    """Return the multiplications and additions a second of one BLAS thread."""
    left = np.random.default_rng(0).random((size, size), np.float32)
    with threadpool_limits(1, "blas"):
        return 2 * size**3 / time_call(lambda: left @ left, 1.0)


def measure_parts(model: Model, photograph: Pixels, bars: list[Bar]) -> Table:
    """Profile encoding and decoding of one photograph, without adaptation, on one core."""
    network, path = model.network, str(model.path)
    data = lmzip.compress(photograph, model=path, effort="fast", threads=1)  # compiles the schedule

    def encode() -> None:
        again = lmzip.compress(photograph, model=path, effort="fast", threads=1)
        assert again == data, "other bytes"

    def decode() -> None:
        decoded = lmzip.decompress(data, model=path, threads=1)
        assert np.array_equal(decoded, photograph), "the photograph came back changed"

    pixels = photograph.shape[0] * photograph.shape[1]
    work = 2 * network.multiply_adds * pixels  # a multiplication and an addition each
    sgemm = measure_sgemm()
    table = Table(
        f"{model.name}: {photograph.shape[0]}x{photograph.shape[1]} photograph, one core",
        ["", "rate", "us a pixel", *PARTS, "products, of sgemm"],
        note=f"{network.multiply_adds:,} multiply-adds a pixel; "
        f"sgemm of 1024x1024 on one thread: {sgemm / 1e9:.1f} GFLOP/s",
    )
    for name, run in (("encode", encode), ("decode", decode)):
        seconds, parts = profile(run)
        reached = work / parts["matrix products"] / sgemm
        table.rows.append(
            [
                name,
                show_rate(photograph.nbytes, seconds),
                f"{1e6 * seconds / pixels:.2f}",
                *(f"{parts[part] / seconds:.0%}" for part in PARTS),
                f"{reached:.0%}",
            ]
        )
        bars.append(hold(f"{name}, {SIDE}x{SIDE}", photograph.nbytes / seconds, name))
    return table


def hold(what: str, rate: float, direction: str) -> Bar:
    """Hold bytes a second against what encoding or decoding must reach on one core."""
    bar = SLOWEST[direction]
    return Bar(f"{what}, kB/s", f"{rate / 1e3:.0f}", f"{bar}", rate >= 1e3 * bar)


def measure_workers(model: Model, path: Path | None, workers: int, bars: list[Bar]) -> Table:
    """Compare several workers with one, on an image of eight tiles."""
    pixels = load_photograph(path, 1024, 1024)
    table = Table("1024x1024 photograph", ["", "1 worker", f"{workers} workers", "speed-up"])
    name = str(model.path)
    data = lmzip.compress(pixels, model=name, threads=1)
    for what, run in (
        ("compress", lambda threads: lmzip.compress(pixels, model=name, threads=threads)),
        ("decompress", lambda threads: lmzip.decompress(data, model=name, threads=threads)),
    ):
        seconds = [time_call(partial(run, threads), 3.0) for threads in (1, workers)]
        rates = [show_rate(pixels.nbytes, s) for s in seconds]
        gain = seconds[0] / seconds[1]
        table.rows.append([what, *rates, f"{gain:.2f}x"])
        if workers == 2:
            figure = f"{what} with 2 workers, speed-up"
            bars.append(Bar(figure, f"{gain:.2f}", f"{SPEED_UP}", gain >= SPEED_UP))
    return table


def measure_archive(model: Model, path: Path | None, workers: int, bars: list[Bar]) -> Table:
    """Code an archive of thumbnails, with one worker and with several."""
    images = cut_thumbnails(path, 1000)
    table = Table("archive of 1,000 images of 32x32", ["", "1 worker", f"{workers} workers", "bpd"])
    name = str(model.path)
    data = lmzip.compress_batch(images, model=name, threads=1)
    rows: list[tuple[str, Callable[[int], Any]]] = [
        ("encode", lambda n: lmzip.compress_batch(images, model=name, threads=n)),
        ("decode", lambda n: lmzip.open_archive(data, model=name, threads=n)[:]),
    ]
    for what, run in rows:
        seconds = []
        for threads in (1, workers):
            began = time.perf_counter()
            run(threads)
            seconds.append(time.perf_counter() - began)
        rates = [show_rate(images.nbytes, s) for s in seconds]
        table.rows.append([what, *rates, f"{8 * len(data) / images.size:.3f}"])
        bars.append(hold(f"{what}, archive", images.nbytes / seconds[0], what))
    with lmzip.open_archive(data, model=name, threads=1) as archive:
        one = time_call(lambda: archive[500], 1.0)
    table.note = f"one image out of the archive: {1e3 * one:.0f} ms"
    return table


@click.command()
@click.option("--workers", default=2, help="Workers to compare with one.")
@common_options
def main(workers: int, model_name: str | None, image: Path | None, save: Path | None) -> None:
    """Measure the codec."""
    model = find_model(model_name)
    results = Results("codec", "Speed of the codec", threads=workers)
    photograph = load_photograph(image, SIDE, SIDE)
    if lmzip.describe_backend() != "numpy":
        thumbnails, deep = cut_thumbnails(image, 1000), load_deep_photograph(image, SIDE, SIDE)
        results.tables.append(measure_kernel(photograph, thumbnails, deep, results.bars))
    results.tables.append(measure_parts(model, photograph, results.bars))
    results.tables.append(measure_workers(model, image, workers, results.bars))
    results.tables.append(measure_archive(model, image, workers, results.bars))
    results.finish(save)


if __name__ == "__main__":
    main()
