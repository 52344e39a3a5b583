"""How fast compact networks train, and how fast one learns.

    python benchmarks/training.py [DATA] [--minutes 3] [--threads 2]

First the images a second of whole training steps, layer by layer as autodiff has it (which is what
GPUs do), fused (`lmzip.models.fused_block`), and fused with products in bfloat16, in turns. Nothing
else may run meanwhile.

Then, if DATA holds CIFAR-10 in one of its official layouts: 2,000 images, three minutes, the bpd of
unseen ones. Prints the held-out curve on stderr and the last figure on stdout.

Ends with code 1 if a bar is missed: base 1.25 times as fast by fused layers, and below 4.0 bpd.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import click
import torch

from lmzip.models import compact
from lmzip.models.lmconv import MaskSet
from lmzip.models.metrics import Reporter, read_rows
from lmzip.models.optimise import make_optimisers
from lmzip.models.recipe import parse_recipe
from lmzip.models.train import RunOptions, Trainer
from lmzip.order.orders import parse_order

RATIO_BAR = 1.25  # of base
IMAGES, ROUNDS, STEPS = 16, 5, 4
BPD_BAR = 4.0
# The schedule is for some 1,000 steps: what two cores make in the time, or less.
RECIPE = """
orders = ["raster"]

[network]
kind = "compact"
size = "small"

[optimiser]
kind = "muon"
rate = 2e-3
matrix_rate = 0.02
betas = [0.9, 0.99]

[schedule]
steps = 400
warmup = 20
decay = "linear"
decay_steps = 600
final = 0.02

[average]
ema = 0.98

[[data]]
kind = "cifar10"
limit = 2000
batch = 8
flip = true

[eval]
kind = "cifar10"
split = "test"
limit = 500
batch = 50
every = 200

[log]
every = 50
"""


@click.command()
@click.argument("data", type=click.Path(exists=True, path_type=Path), required=False)
@click.option("--minutes", default=3.0, help="Stop learning after so many minutes.")
@click.option("--threads", default=2, help="Threads to train with.")
def main(data: Path | None, minutes: float, threads: int) -> None:
    """Print how fast steps are and, given DATA, what a network learns from 2,000 images."""
    torch.set_num_threads(threads)
    ratios = {size: measure_steps(size) for size in ("base", "large")}
    met = ratios["base"] >= RATIO_BAR
    click.echo(f"base: {'at least' if met else 'NOT'} {RATIO_BAR} times as fast by fused layers")
    if data is not None:
        met &= learn(data, minutes)
    sys.exit(0 if met else 1)


def measure_steps(size: str) -> float:
    """Print the images a second of training steps; return the ratio of fused ones to plain ones."""
    network, step = make_step(size)
    seconds: dict[str, list[float]] = {"plain": [], "fused": [], "bfloat16": []}
    for number in range(1 + ROUNDS):
        for name, times in seconds.items():
            plain = patch.object(compact, "prefer_fused", lambda x: False)
            network.set_products(torch.bfloat16 if name == "bfloat16" else torch.float32)
            with plain if name == "plain" else nullcontext():
                step()
                began = time.perf_counter()
                for _ in range(STEPS):
                    step()
            if number:  # the first round is a warm-up
                times.append((time.perf_counter() - began) / STEPS)
    rates = {name: IMAGES / statistics.median(times) for name, times in seconds.items()}
    ratios = {
        name: statistics.median(a / b for a, b in zip(seconds["plain"], times, strict=True))
        for name, times in seconds.items()
    }
    click.echo(
        f"{size}: {rates['plain']:.1f} images a second plain, {rates['fused']:.1f} fused "
        f"({ratios['fused']:.2f} times as fast), {rates['bfloat16']:.1f} in bfloat16 "
        f"({ratios['bfloat16']:.2f} times)"
    )
    return ratios["fused"]


def make_step(size: str) -> tuple[compact.CompactNetwork, Callable[[], None]]:
    """Return a network of a size, and a function that trains it by one step, on noise of 32x32."""
    torch.manual_seed(0)
    network = compact.CompactNetwork(replace(compact.CONFIGS[size], slope=3))
    optimisers = make_optimisers(network, "muon", 1e-3)
    masks = MaskSet(parse_order("raster").ranks(32, 32))
    levels = torch.randint(0, 256, (IMAGES, 3, 32, 32), dtype=torch.uint8)

    def step() -> None:
        nats = network.nll(levels, masks).mean()
        optimisers.zero_grad()
        nats.backward()  # type: ignore[no-untyped-call]
        optimisers.step(1.0)

    return network, step


def learn(data: Path, minutes: float) -> bool:
    """Train on 2,000 images, print the bpd of 500 unseen ones, and return whether it is good."""
    with tempfile.TemporaryDirectory() as out:
        trainer = Trainer(parse_recipe(RECIPE, "benchmark"), [data], out, RunOptions(minutes))
        with Reporter(trainer.total) as report:
            trainer.run(report)
        last = read_rows(Path(out) / "metrics.csv")[-1]
    bpd = last.held_out_bpd
    assert bpd is not None
    verdict = "below" if bpd < BPD_BAR else "NOT below"
    click.echo(
        f"{bpd:.4f} bpd on unseen images after {last.images} images in {last.seconds:.0f} s: "
        f"{verdict} {BPD_BAR}"
    )
    return bpd < BPD_BAR


if __name__ == "__main__":
    main()
