"""Training: order-agnostic maximum likelihood (the paper's section on training), one order a batch.

    python -m lmzip.models.train RECIPE.toml --data DIR --out DIR

The output folder holds `checkpoint.pt` (all that is needed to go on), `weights.safetensors` (the
exponential average, for use), `metrics.csv`, `loss.png`, and at the end of a constant-rate phase
`constant.pt`. The same command again goes on from the checkpoint. A step's batch, order and
augmentation depend on nothing but the recipe and the step's number, and checkpoints are replaced
whole, so a run that was killed at any moment continues with the very losses it would have had.

A constant-rate run has no end of its own. `--from CHECKPOINT --decay STEPS --out ELSEWHERE` decays
the rate from any of its checkpoints and leaves the checkpoint alone; the constant run may go on.

Several processes: `torchrun --nproc-per-node N -m lmzip.models.train ...`. Each draws its own
batches, and the gradients are averaged.

On a CPU, start with MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=8589934592 in the
environment: glibc then keeps the memory that every step needs again.
"""

from __future__ import annotations

import copy
import io
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import torch
import torch.distributed as dist
from torch import Tensor, nn

from lmzip.errors import InputError, LmzipError
from lmzip.models.batches import Batches, MaskCache, Source
from lmzip.models.metrics import MetricsFile, Row, draw_losses
from lmzip.models.optimise import Schedule, ema_weight, make_optimisers, update_ema
from lmzip.models.recipe import Recipe, load_recipe
from lmzip.models.weights import (
    average_networks,
    load_network,
    make_network,
    save_network,
    write_atomically,
)

_REPORT_SECONDS = 30.0


class TrainingError(LmzipError):
    """A run cannot start from its checkpoint, or its loss is no longer a number."""


@dataclass(frozen=True)
class Options:
    """Where a run starts and when it stops; everything else is in the recipe."""

    minutes: float = math.inf
    steps: int | None = None  # stop after this step in all, whatever the schedule says
    init: Path | None = None  # float weights to start from, with fresh optimisers
    start: Path | None = None  # a checkpoint to start from, which stays as it is
    decay: int | None = None  # start to decay at once, over so many steps


@dataclass
class Progress:
    """How far a run is: what a checkpoint holds beside tensors."""

    step: int = 0
    images: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0  # bpd since the last row of metrics
    loss_count: int = 0
    decay_start: int | None = None  # if the decay was started by hand
    decay_steps: int = 0


class Trainer:
    """A network, its optimisers and averages, and the batches they see."""

    def __init__(
        self, recipe: Recipe, roots: Sequence[str | Path], out: Path, options: Options
    ) -> None:
        self.recipe, self.out, self.options = recipe, out, options
        self.rank, self.world = _rank_and_world()
        self.device = _choose_device(self.rank)
        torch.manual_seed(recipe.seed)
        self.network = self._make_network().to(self.device)
        self.average = copy.deepcopy(self.network)
        self.parameters = list(self.network.parameters())
        self.average_parameters = list(self.average.parameters())
        settings = recipe.optimiser
        self.optimisers = make_optimisers(
            self.network,
            settings.kind,
            settings.rate,
            matrix_rate=settings.matrix_rate,
            betas=settings.betas,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
        )
        self.progress = Progress()
        self._restore()
        self.schedule, self.total = self._plan()
        self.batches = Batches(
            self._load_sources(roots), recipe.orders, recipe.phases, recipe.seed,
            self.rank, self.world,
        )
        self.held_out = self._load_held_out(roots)
        self.masks = MaskCache()
        self.stop_requested = False

    # Starting

    def _make_network(self) -> nn.Module:
        if self.options.init is None:
            return make_network(self.recipe.network)
        network = load_network(self.options.init)
        if network.config != self.recipe.network:
            raise TrainingError(
                f"{self.options.init}: its network is {network.config}, "
                f"the recipe's {self.recipe.network}"
            )
        return network

    def _restore(self) -> None:
        """Go on from the run's own checkpoint, or else from the one to start from."""
        own = self.out / "checkpoint.pt"
        source = own if own.exists() else self.options.start
        if source is None:
            if self.options.decay is not None:
                self.progress.decay_start, self.progress.decay_steps = 0, self.options.decay
            return
        state = _load_checkpoint(source)
        try:
            self.network.load_state_dict(state["network"])
            self.average.load_state_dict(state["average"])
            self.optimisers.load_state_dict(state["optimisers"])
            self.progress = Progress(**state["progress"])
        except (KeyError, ValueError, RuntimeError, TypeError) as error:
            reason = " ".join(str(error).split())[:300]
            raise TrainingError(f"{source}: not a checkpoint of this recipe ({reason})") from None
        if source != own and self.options.decay is not None:
            self.progress.decay_start = self.progress.step
            self.progress.decay_steps = self.options.decay

    def _plan(self) -> tuple[Schedule, int]:
        """Return the schedule and the number of steps in all."""
        recipe = self.recipe.schedule
        decay, start, steps = recipe.decay, recipe.steps, recipe.decay_steps
        total = recipe.total
        if self.progress.decay_start is not None:
            start, steps = self.progress.decay_start, self.progress.decay_steps
            decay, total = (decay if decay == "cosine" else "linear"), start + steps
        schedule = Schedule(recipe.warmup, decay, recipe.decay_factor, start, steps, recipe.final)
        return schedule, total if self.options.steps is None else min(total, self.options.steps)

    def _load_sources(self, roots: Sequence[str | Path]) -> list[Source]:
        sources = [Source(data, roots, self._channels) for data in self.recipe.data]
        for source in sources:
            self._check_depth(source)
        return sources

    def _load_held_out(self, roots: Sequence[str | Path]) -> Tensor | None:
        if self.recipe.held_out is None or self.rank:
            return None
        source = Source(self.recipe.held_out.source, roots, self._channels)
        self._check_depth(source)
        return source.held_out(self.recipe.seed)

    def _check_depth(self, source: Source) -> None:
        levels = int(self.network.levels)  # type: ignore[arg-type]
        if levels != 1 << source.bits:
            raise InputError(
                f"{source.recipe.kind} at {source.bits} bits has {1 << source.bits} levels, "
                f"the network has {levels}"
            )

    @property
    def _channels(self) -> int:
        return int(self.network.channels)  # type: ignore[arg-type]

    # Running

    def run(self, report: Callable[[Row | None, Progress], None]) -> Progress:
        """Train to the end of the schedule or of the budget, and leave a checkpoint."""
        log, average = self.recipe.log, self.recipe.average
        metrics = MetricsFile(self.out / "metrics.csv", self.progress.step) if not self.rank else None
        began, saved = time.monotonic(), time.monotonic()
        seconds_before = self.progress.seconds
        deadline = began + 60 * self.options.minutes
        loss_sum = torch.zeros((), dtype=torch.float64, device=self.device)
        loss_sum += self.progress.loss_sum
        progress = self.progress
        while progress.step < self.total and not self.stop_requested:
            step = progress.step
            loss_sum += self._update(step, time.monotonic() >= deadline)
            progress.step += 1
            progress.loss_count += 1
            progress.images += self.batches.batch_size(step)
            progress.seconds = seconds_before + time.monotonic() - began
            last = progress.step >= self.total or self.stop_requested
            row = None
            evaluate = self.recipe.held_out is not None and (
                progress.step % self.recipe.held_out.every == 0 or progress.step == self.total
            )
            if progress.step % log.every == 0 or evaluate or last:
                progress.loss_sum = float(loss_sum)
                if not math.isfinite(progress.loss_sum):
                    raise TrainingError(
                        f"the loss is no longer a number at step {progress.step}: "
                        "lower the rate or the clip"
                    )
            if metrics is not None and (progress.step % log.every == 0 or evaluate):
                row = self._make_row(evaluate)
                metrics.append(row)
                progress.loss_sum, progress.loss_count = 0.0, 0
            if progress.step % log.every == 0 or evaluate:
                loss_sum.zero_()
                progress.loss_sum, progress.loss_count = 0.0, 0
            report(row, progress)
            if self.rank == 0:
                if average.snapshots and progress.step % average.every == 0:
                    self._save_snapshot()
                due = time.monotonic() - saved >= 60 * log.checkpoint_minutes
                by_count = log.checkpoint_steps and progress.step % log.checkpoint_steps == 0
                if due or by_count or last:
                    progress.loss_sum = float(loss_sum)
                    self.save()
                    if metrics is not None:
                        draw_losses(metrics.rows, self.out / "loss.png", self.recipe.name)
                    saved = time.monotonic()
                if progress.step == self.recipe.schedule.steps and progress.decay_start is None:
                    progress.loss_sum = float(loss_sum)
                    write_atomically(self.out / "constant.pt", self._checkpoint())
        return progress

    def _update(self, step: int, stop: bool) -> Tensor:
        """Make one update and return its loss in bpd, as a tensor that nobody waits for."""
        levels, order = self.batches.draw(step)
        levels = levels.to(self.device)
        masks = self.masks.get(order, *levels.shape[2:])
        nats: Tensor = self.network.nll(levels, masks).mean()  # type: ignore[operator]
        self.optimisers.zero_grad()
        nats.backward()  # type: ignore[no-untyped-call]
        if self.world > 1:
            stop = self._average_gradients(stop)
        self.stop_requested |= stop
        if self.recipe.optimiser.clip:
            nn.utils.clip_grad_norm_(self.parameters, self.recipe.optimiser.clip)
        self.optimisers.step(self.schedule.factor(step))
        weight = ema_weight(step, self.recipe.average.ema)
        update_ema(self.average_parameters, self.parameters, weight)  # type: ignore[arg-type]
        return nats.detach() / (self._channels * math.log(2))

    def _average_gradients(self, stop: bool) -> bool:
        """Average the gradients of all processes; return whether any of them wants to stop."""
        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        flat = torch.cat([g.flatten() for g in gradients] + [gradients[0].new_tensor([stop])])
        dist.all_reduce(flat)
        flat /= self.world
        parts = flat[:-1].split([g.numel() for g in gradients])
        torch._foreach_copy_(gradients, [p.view_as(g) for p, g in zip(parts, gradients, strict=True)])
        return bool(flat[-1] > 0)

    def _make_row(self, evaluate: bool) -> Row:
        progress = self.progress
        return Row(
            progress.step,
            progress.images,
            round(progress.seconds, 1),
            progress.loss_sum / max(1, progress.loss_count),
            self.recipe.optimiser.rate * self.schedule.factor(progress.step - 1),
            self.evaluate() if evaluate else None,
        )

    @torch.no_grad()
    def evaluate(self) -> float:
        """Return the bpd of the held-out images under the averaged weights."""
        assert self.held_out is not None and self.recipe.held_out is not None
        nats, batch = 0.0, self.recipe.held_out.source.batch
        for order in self.recipe.held_out.orders:
            masks = self.masks.get(order, *self.held_out.shape[2:])
            for levels in self.held_out.split(batch):
                nats += float(self.average.nll(levels.to(self.device), masks).sum())  # type: ignore[operator]
        return nats / (self.held_out.numel() * len(self.recipe.held_out.orders) * math.log(2))

    # Saving

    def save(self) -> None:
        """Replace the checkpoint and the weights for use."""
        write_atomically(self.out / "checkpoint.pt", self._checkpoint())
        notes = {"recipe": self.recipe.name, "step": self.progress.step,
                 "images": self.progress.images, "average": "exponential"}
        save_network(self.average, self.out / "weights.safetensors", notes)

    def _checkpoint(self) -> bytes:
        state = {
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "optimisers": self.optimisers.state_dict(),
            "progress": dict(vars(self.progress)),
        }
        buffer = io.BytesIO()
        torch.save(state, buffer)
        return buffer.getvalue()

    def _save_snapshot(self) -> None:
        """Keep the last few snapshots of the weights, and write their average."""
        folder = self.out / "snapshots"
        folder.mkdir(exist_ok=True)
        step = self.progress.step
        save_network(self.network, folder / f"{step:09d}.safetensors", {"step": step})
        kept = sorted(f for f in folder.glob("*.safetensors") if int(f.stem) <= step)
        for old in kept[: -self.recipe.average.snapshots]:
            old.unlink()


def average_snapshots(trainer: Trainer) -> None:
    """Write the mean of the last snapshots, as the paper does for its CIFAR-10 model."""
    files = sorted((trainer.out / "snapshots").glob("*.safetensors"))
    files = [file for file in files if int(file.stem) <= trainer.progress.step]
    if files:
        notes = {"recipe": trainer.recipe.name, "step": trainer.progress.step,
                 "average": f"{len(files)} snapshots"}
        save_network(average_networks(files), trainer.out / "average.safetensors", notes)


def train(
    recipe: Recipe,
    roots: Sequence[str | Path],
    out: str | Path,
    options: Options = Options(),
    report: Callable[[Row | None, Progress], None] = lambda row, progress: None,
) -> Trainer:
    """Run a recipe in an output folder, or go on with it. Returns the trainer at its end."""
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(recipe, roots, out, options)
    trainer.run(report)
    if not trainer.rank and recipe.average.snapshots and trainer.progress.step == trainer.total:
        average_snapshots(trainer)
    return trainer


def _load_checkpoint(path: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise TrainingError(f"{path}: no such checkpoint") from None
    except Exception as error:  # torch raises whatever the damage leads to
        raise TrainingError(f"{path}: not a checkpoint ({type(error).__name__})") from None
    return state


def _rank_and_world() -> tuple[int, int]:
    if not dist.is_initialized():
        return 0, 1
    return dist.get_rank(), dist.get_world_size()


def _choose_device(rank: int) -> torch.device:
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", rank)))
    return torch.device("cpu")


def format_row(row: Row) -> str:
    """Return one line of progress."""
    line = f"step {row.step}  images {row.images}  {row.seconds:.0f} s  train {row.train_bpd:.4f} bpd"
    return line if row.held_out_bpd is None else f"{line}  held-out {row.held_out_bpd:.4f} bpd"


class Reporter:
    """Progress on stderr: a bar on a terminal, now and then a line elsewhere."""

    def __init__(self, done: int, total: int) -> None:
        self._last = -math.inf
        self._bar = None
        if sys.stderr.isatty():
            self._bar = click.progressbar(length=total, file=sys.stderr, show_pos=True,
                                          item_show_func=lambda row: row and format_row(row))
            self._bar.update(done)

    def __call__(self, row: Row | None, progress: Progress) -> None:
        if self._bar is not None:
            self._bar.update(1, row or self._bar.current_item)
        elif row is not None and (
            row.held_out_bpd is not None or time.monotonic() - self._last >= _REPORT_SECONDS
        ):
            self._last = time.monotonic()
            print(format_row(row), file=sys.stderr, flush=True)


@click.command()
@click.argument("recipe", type=click.Path(path_type=Path))
@click.option("--data", "roots", multiple=True, type=click.Path(path_type=Path),
              help="A folder that holds the recipe's data sets; may be given several times.")
@click.option("--out", required=True, type=click.Path(path_type=Path),
              help="The folder for checkpoints, weights and metrics.")
@click.option("--minutes", default=math.inf, help="Stop after so many minutes.")
@click.option("--steps", type=int, help="Stop after this step of the schedule.")
@click.option("--init", type=click.Path(path_type=Path), help="Float weights to start from.")
@click.option("--from", "start", type=click.Path(path_type=Path),
              help="A checkpoint to start from; it stays as it is.")
@click.option("--decay", type=int, help="Decay the rate from here on, over so many steps.")
@click.option("--threads", "-T", default=0, help="Threads of a process; 0 leaves it to torch.")
def main(recipe: Path, roots: tuple[Path, ...], out: Path, minutes: float, steps: int | None,
         init: Path | None, start: Path | None, decay: int | None, threads: int) -> None:
    """Train a network by a recipe."""
    if threads:
        torch.set_num_threads(threads)
    try:
        with ExitStack() as stack:
            if "LOCAL_RANK" in os.environ:
                dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
                stack.callback(dist.destroy_process_group)
            options = Options(minutes, steps, init, start, decay)
            out.mkdir(parents=True, exist_ok=True)
            trainer = Trainer(load_recipe(recipe), roots, out, options)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: setattr(trainer, "stop_requested", True))
            report = Reporter(trainer.progress.step, trainer.total) if not trainer.rank else (
                lambda row, progress: None)
            trainer.run(report)
    except LmzipError as error:
        print(f"lmzip: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
