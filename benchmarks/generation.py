"""Samples and completions: how much faster steps are than a pass per pixel, and what they are like.

    python benchmarks/generation.py [--data FOLDER] [--save DIR]

An image drawn step by step costs one pass of the network. Without that, each pixel would need a
pass over the whole image: that time is measured for one pass and multiplied by the pixels. Times
are CPU seconds of this process, the best of three, so that other load matters little.

With CIFAR-10 in --data, it also counts how many of 100 test images have their hidden half predicted
better in a maximum-context order than in an adversarial one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import torch
from common import Bar, Results, Table

import lmzip
from lmzip.models.data_files import read_cifar10
from lmzip.models.generate import draw_images
from lmzip.models.lmconv import MaskSet
from lmzip.models.paper import PaperConfig, PaperNetwork
from lmzip.models.weights import Network, load_network
from lmzip.native.backends import find_backend
from lmzip.stream.encoder import encode_images

ANY_ORDER = Path(__file__).parents[1] / "models" / "weights" / "thumb-any.safetensors"
FASTER, COMPLETED, OVERHEAD = 50, 90, 0.002  # the bars
IMAGES, SAMPLES = 100, 64


@click.command()
@click.option("--data", type=click.Path(path_type=Path), help="Folder with CIFAR-10.")
@click.option("--save", type=click.Path(path_type=Path), metavar="DIR",
              help="Write the results to DIR as JSON.")  # fmt: skip
def main(data: Path | None, save: Path | None) -> None:
    """Measure samples and completions."""
    torch.set_num_threads(1)
    results = Results("generation", "Samples and completions")
    results.tables.append(_measure_speed(results))
    results.tables.append(_measure_samples(results))
    if data is not None:
        results.tables.append(_measure_completions(data, results))
    results.finish(save)


def _measure_speed(results: Results) -> Table:
    table = Table(
        "Drawing step by step, and with a pass of the network for each pixel (CPU seconds)",
        ["network", "order", "images", "steps", "passes", "faster"],
    )
    torch.manual_seed(0)
    paper = PaperConfig(channels=1, levels=2)
    networks: list[tuple[str, Network, int, int]] = [
        ("thumb-any, float", load_network(ANY_ORDER).eval(), 32, 16),
        ("the paper's, 46M parameters", PaperNetwork(paper).eval(), 28, 4),
    ]
    for order in ("raster", "s-curve"):
        for count in (1, 16):
            steps, whole = _time_model("thumb-any", order, 32, count)
            _add_row(table, results, ("thumb-any", order, count), steps, whole, 32 * 32)
        for name, network, side, count in networks:
            steps, whole = _time_float(network, order, side, count)
            _add_row(table, results, (name, order, count), steps, whole, side * side)
    return table


def _add_row(
    table: Table,
    results: Results,
    what: tuple[str, str, int],
    steps: float,
    whole: float,
    pixels: int,
) -> None:
    ratio = whole * pixels / steps
    name, order, count = what
    table.rows.append(
        [name, order, str(count), f"{steps:.2f}", f"{whole * pixels:.0f}", f"{ratio:.0f} times"]
    )
    what_is = f"{name}, {order}, {count} at a time: steps against passes"
    results.bars.append(Bar(what_is, f"{ratio:.0f}", f"at least {FASTER}", ratio >= FASTER))


def _time_model(name: str, order: str, side: int, count: int) -> tuple[float, float]:
    """Return the seconds of drawing `count` images, and of one pass over as many."""
    model, parsed = lmzip.load_model(name), lmzip.parse_order(order)
    images = lmzip.sample_images(model, side, side, count, order=order)
    steps = _best(lambda: lmzip.sample_images(model, side, side, count, order=order), 3)
    whole = _best(lambda: encode_images(model.network, parsed, images, find_backend()), 3)
    return steps, whole


def _time_float(network: Network, order: str, side: int, count: int) -> tuple[float, float]:
    parsed = lmzip.parse_order(order)
    given = torch.zeros(count, network.channels, side, side, dtype=torch.long)
    everything, masks = np.ones((side, side), bool), MaskSet(parsed.ranks(side, side))
    steps = _best(lambda: draw_images(network, parsed, given, everything), 1)
    with torch.inference_mode():
        whole = _best(lambda: network.nll(given, masks), 3)
    return steps, whole


def _best(run: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        began = time.process_time()
        run()
        times.append(time.process_time() - began)
    return min(times)


def _measure_samples(results: Results) -> Table:
    """Compress samples with the model and order that drew them: the bytes are their likelihood."""
    table = Table(
        f"{SAMPLES} samples of thumb-any, compressed as one archive with the same model and order",
        ["order", "likelihood, bpd", "stream, bpd", "archive, bpd"],
    )
    model, everything = lmzip.load_model("thumb-any"), np.ones((32, 32), bool)
    for order in ("raster", "s-curve", "hilbert"):
        images = lmzip.sample_images(model, 32, 32, SAMPLES, order=order, seed=1)
        own = lmzip.measure_region(model, images, everything, order=order).sum() / images.size
        parsed = lmzip.parse_order(order)
        (stream,) = encode_images(model.network, parsed, images, find_backend())
        coded = 8 * len(stream.data) / images.size
        data = lmzip.compress_batch(images, model="thumb-any", order=order)
        archive = 8 * len(data) / images.size
        table.rows.append([order, f"{own:.5f}", f"{coded:.5f}", f"{archive:.5f}"])
        results.bars.append(
            Bar(f"samples, {order}: bytes against likelihood", f"{archive / own - 1:+.3%}",
                "within 0.2 %", bool(abs(archive / own - 1) <= OVERHEAD))
        )  # fmt: skip
    return table


def _measure_completions(data: Path, results: Results) -> Table:
    table = Table(
        f"Hidden parts of {IMAGES} CIFAR-10 test images under thumb-any, bpd",
        ["region", "adversarial", "maximum context", "better", "plain raster"],
    )
    images = np.ascontiguousarray(read_cifar10([data], "test")[:IMAGES].transpose(0, 2, 3, 1))
    for name, hidden in lmzip.make_regions(32, 32, lmzip.REGIONS).items():
        size = int(hidden.sum()) * 3
        orders = {
            "worst": lmzip.completion_order(hidden, adversarial=True),
            "best": lmzip.completion_order(hidden),
            "raster": lmzip.parse_order("raster"),
        }
        bits = {
            key: lmzip.measure_region("thumb-any", images, hidden, order=order) / size
            for key, order in orders.items()
        }
        better = int((bits["best"] < bits["worst"]).sum())
        means = {key: f"{values.mean():.4f}" for key, values in bits.items()}
        table.rows.append([name, means["worst"], means["best"], str(better), means["raster"]])
        what = f"{name}: images better in maximum context"
        bar = f"at least {COMPLETED} of {IMAGES}"
        results.bars.append(Bar(what, str(better), bar, better >= COMPLETED))
    return table


if __name__ == "__main__":
    main()
