"""lmzip train: train a network by a recipe, on one process or several."""

from __future__ import annotations

import math
import os
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import torch
import torch.distributed as dist

from lmzip.models.metrics import Reporter
from lmzip.models.recipe import load_recipe
from lmzip.models.train import RunOptions, Trainer

_PATH = click.Path(path_type=Path)


@click.command("train")
@click.argument("recipe")
@click.option("--data", multiple=True, type=_PATH, help="Folder of data sets; may be repeated.")
@click.option("--out", "-o", required=True, type=_PATH, help="Folder for everything written.")
@click.option("--minutes", default=math.inf, help="Stop after this many minutes.")
@click.option("--steps", type=int, help="Stop after this step.")
@click.option("--init", type=_PATH, help="Start from these float weights.")
@click.option("--from", "start", type=_PATH, help="Start from this checkpoint, which is kept.")
@click.option("--decay", type=click.IntRange(1), help="Decay the rate from here, over N steps.")
@click.option("--bfloat16", is_flag=True, help="Multiply so, which some processors do faster.")
@click.option("--threads", "-T", default=0, help="Threads of each process; 0 lets torch choose.")
def command(recipe: str, data: tuple[Path, ...], out: Path, threads: int, **options: Any) -> None:
    """Train a network by a RECIPE: a TOML file, or the name of one that comes with lmzip.

    The same command continues an interrupted run. For several processes, start it with
    torchrun --nproc-per-node N -m lmzip.cli train ...
    """
    if threads:
        torch.set_num_threads(threads)
    with ExitStack() as stack:
        if "LOCAL_RANK" in os.environ:  # started by torchrun
            dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
            stack.callback(dist.destroy_process_group)
        trainer = Trainer(load_recipe(recipe), data, out, RunOptions(**options))
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.signal(number, lambda *_: setattr(trainer, "interrupted", True))
            stack.callback(signal.signal, number, handler)
        if trainer.rank:
            trainer.run()
        else:
            trainer.run(stack.enter_context(Reporter(trainer.total - trainer.progress.step)))
        if trainer.world > 1:
            dist.barrier()  # the others wait for the first one's files, and all leave together
