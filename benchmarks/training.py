"""How fast a compact network learns: 2,000 CIFAR-10 images, three minutes, bpd on unseen ones.

    python benchmarks/training.py DATA [--minutes 3] [--threads 2]

DATA holds CIFAR-10 in one of its official layouts. Prints the held-out curve on stderr and the last
figure on stdout; ends with code 1 if it is not below 4.0.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click
import torch

from lmzip.models.metrics import Reporter, read_rows
from lmzip.models.recipe import parse_recipe
from lmzip.models.train import RunOptions, Trainer

BAR = 4.0
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
@click.argument("data", type=click.Path(exists=True, path_type=Path))
@click.option("--minutes", default=3.0, help="Stop after so many minutes.")
@click.option("--threads", default=2, help="Threads to use.")
def main(data: Path, minutes: float, threads: int) -> None:
    """Train on 2,000 images and print the bpd of 500 unseen ones."""
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as out:
        trainer = Trainer(parse_recipe(RECIPE, "benchmark"), [data], out, RunOptions(minutes))
        with Reporter(trainer.total) as report:
            trainer.run(report)
        last = read_rows(Path(out) / "metrics.csv")[-1]
    bpd = last.held_out_bpd
    assert bpd is not None
    verdict = "below" if bpd < BAR else "NOT below"
    click.echo(
        f"{bpd:.4f} bpd on unseen images after {last.images} images in {last.seconds:.0f} s: "
        f"{verdict} {BAR}"
    )
    sys.exit(0 if bpd < BAR else 1)


if __name__ == "__main__":
    main()
