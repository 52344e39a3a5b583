"""Training: order-agnostic maximum likelihood with one order a batch, as the paper trains.

    lmzip train RECIPE --data DIR --out DIR

The output folder holds `checkpoint.pt` (all that is needed to go on), `weights.safetensors` (the
exponential average, for use), `metrics.csv`, `loss.png`, `constant.pt` (the checkpoint at the end
of a constant-rate phase) and `average.safetensors` (the mean of the last snapshots, if the recipe
asks for them). The same command again goes on from the checkpoint. A step's batch, order and
augmentation depend on nothing but the recipe and the step's number, and checkpoints are replaced
whole, so a run that was killed at any moment continues with the very losses it would have had.

A constant-rate run can be extended at any time. `--from CHECKPOINT --decay STEPS --out ELSEWHERE`
lets the rate decay from any of its checkpoints and leaves the checkpoint alone.

Several processes: `torchrun --nproc-per-node N -m lmzip.cli train ...`. Each draws its own batches,
and the gradients are averaged.

On a CPU, start with MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=8589934592 in the
environment: glibc then keeps the memory that every step needs again.
"""

from __future__ import annotations

import copy
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from lmzip.errors import InputError
from lmzip.models.batches import Batches, ImageSource, MaskCache
from lmzip.models.bits_per_dimension import measure_float
from lmzip.models.checkpoint import Counters, Snapshots, State, TrainingError
from lmzip.models.compact import CompactNetwork
from lmzip.models.metrics import MetricsFile, Row, draw_losses
from lmzip.models.optimise import RateSchedule, ema_weight, make_optimisers, update_ema
from lmzip.models.recipe import DataRecipe, Recipe
from lmzip.models.weights import Network, load_network, make_network, save_network


@dataclass(frozen=True)
class RunOptions:
    """Where a run starts and when it stops; everything else is in the recipe."""

    minutes: float = math.inf
    steps: int | None = None  # stop after this step, whatever the schedule says
    init: Path | None = None  # float weights to start from, with fresh optimisers
    start: Path | None = None  # a checkpoint to start from, which stays as it is
    decay: int | None = None  # decay the rate from the start, over this many steps
    bfloat16: bool = False  # multiply in bfloat16 while training, never to measure


class Trainer:
    """A network with its optimisers, its average and its data, ready to run.

    Raises LmzipError if the data, the checkpoint or the weights do not fit the recipe.
    """

    def __init__(
        self,
        recipe: Recipe,
        roots: Sequence[str | Path],
        out: str | Path,
        options: RunOptions | None = None,
    ) -> None:
        self.recipe, self.out, self.options = recipe, Path(out), options or RunOptions()
        self.rank, self.world, self.device = _join_group()
        torch.manual_seed(recipe.seed)
        self.network = self._make_network().to(self.device)
        self.average = copy.deepcopy(self.network)
        if self.options.bfloat16:
            self._narrow_products()
        self.parameters = list(self.network.parameters())
        self.average_parameters = list(self.average.parameters())
        self.optimisers = make_optimisers(self.network, **_optimiser_settings(recipe))
        self.progress = Counters()
        self.state = State(self.network, self.average, self.optimisers, self.progress)
        self.out.mkdir(parents=True, exist_ok=True)
        self._restore()
        self.schedule, self.total = self._plan()
        sources = [self._load_source(data, roots) for data in recipe.data]
        drawn = recipe.phases, recipe.seed, self.rank, self.world, recipe.completion.share
        self.batches = Batches(sources, recipe.orders, *drawn)
        self.held_out: Tensor | None = None
        if recipe.held_out is not None and self.rank == 0:
            source = self._load_source(recipe.held_out.source, roots)
            self.held_out = source.cut_all(recipe.seed)
        self.masks = MaskCache()
        # What processes tell each other. One tensor for all steps: gloo's threads let go of theirs
        # when they come to it, and must not be the last to do so when Python has ended.
        self.message: Tensor | None = None
        self.interrupted = False  # set from outside to stop after the step under way

    def _make_network(self) -> Network:
        if self.options.init is None:
            return make_network(self.recipe.network)
        network = load_network(self.options.init)
        if network.config != self.recipe.network:
            raise TrainingError(
                f"{self.options.init}: holds {network.config}, the recipe {self.recipe.network}"
            )
        return network

    def _narrow_products(self) -> None:
        if not isinstance(self.network, CompactNetwork) or self.device.type != "cpu":
            raise TrainingError("bfloat16 is for compact networks on a processor")
        self.network.set_products(torch.bfloat16)

    def _restore(self) -> None:
        """Go on from the run's own checkpoint, or else from the one to start from."""
        own = self.out / "checkpoint.pt"
        path = own if own.exists() else self.options.start
        if path is not None:
            self.state.load(path)
        if path != own and self.options.decay is not None:
            self.progress.decay_start = self.progress.step
            self.progress.decay_steps = self.options.decay

    def _plan(self) -> tuple[RateSchedule, int]:
        """Return the schedule and the step at which to stop."""
        recipe = self.recipe.schedule
        decay, start, steps, total = recipe.decay, recipe.steps, recipe.decay_steps, recipe.total
        if self.progress.decay_start is not None:
            decay = "cosine" if decay == "cosine" else "linear"
            start, steps = self.progress.decay_start, self.progress.decay_steps
            total = start + steps
        schedule = RateSchedule(
            recipe.warmup, decay, recipe.decay_factor, start, steps, recipe.final
        )
        return schedule, total if self.options.steps is None else min(total, self.options.steps)

    def _load_source(self, recipe: DataRecipe, roots: Sequence[str | Path]) -> ImageSource:
        """Load images and check that they are what the network is for."""
        source = ImageSource(recipe, roots, self.network.channels)
        has = source.channels, 1 << recipe.depth
        takes = 1 if recipe.grey else self.network.channels, self.network.levels
        if has != takes:
            raise InputError(
                f"{recipe.kind} has {has[0]} channels of {has[1]} levels, "
                f"the network takes {takes[0]} of {takes[1]}"
            )
        return source

    def run(self, report: Callable[[Row | None], None] = lambda row: None) -> None:
        """Train to the end of the schedule or of the budget, and leave a checkpoint.

        `report` is called after each step, with a row of metrics if the step has one. Raises
        TrainingError if the loss is no longer a number; the last checkpoint is then intact.
        """
        progress, log = self.progress, self.recipe.log
        metrics = MetricsFile(self.out / "metrics.csv", progress.step) if self.rank == 0 else None
        average = self.recipe.average
        snapshots = Snapshots(self.out / "snapshots", average.snapshots, average.every)
        losses = torch.tensor(progress.loss_sum, dtype=torch.float64, device=self.device)
        began = saved = time.monotonic()
        seconds_before = progress.seconds
        stop = progress.step >= self.total
        while not stop:
            elapsed = time.monotonic() - began
            loss, stop = self._update(progress.step, elapsed >= 60 * self.options.minutes)
            losses += loss
            progress.images += self.batches.batch_size(progress.step)
            progress.step += 1
            progress.loss_count += 1
            progress.seconds = seconds_before + time.monotonic() - began
            stop |= progress.step >= self.total

            regular = progress.step % log.every == 0
            row = None
            if regular or stop or self._is_evaluation_due():
                progress.loss_sum = _finite(losses, progress.step)
                if metrics is not None:
                    row = self._make_row(stop)
                    metrics.append(row)
            if regular:
                losses.zero_()
                progress.loss_count = 0
            report(row)
            if metrics is not None:
                snapshots.offer(self.network, progress.step)
                by_time = time.monotonic() - saved >= 60 * log.checkpoint_minutes
                by_step = log.checkpoint_steps and progress.step % log.checkpoint_steps == 0
                if by_time or by_step or stop or progress.step == self._constant_end:
                    progress.loss_sum = _finite(losses, progress.step)
                    self.save()
                    draw_losses(metrics.rows, self.out / "loss.png", self.recipe.name)
                    saved = time.monotonic()
        if metrics is not None and progress.step >= self.total:
            mean = snapshots.average(progress.step)
            if mean is not None:
                save_network(mean, self.out / "average.safetensors", self._notes("snapshots"))

    def _update(self, step: int, stop: bool) -> tuple[Tensor, bool]:
        """Make one update; return its loss in bpd, a tensor, and whether any process must stop."""
        levels, order = self.batches.draw(step)
        masks = self.masks.get(order, levels.shape[2], levels.shape[3])
        nats = self.network.nll(levels.to(self.device), masks).mean()
        self.optimisers.zero_grad()
        nats.backward()  # type: ignore[no-untyped-call]
        bpd = nats.detach() / (levels.shape[1] * math.log(2))
        stop |= self.interrupted
        if self.world > 1:
            bpd, stop = self._average_gradients(bpd, stop)
        if self.recipe.optimiser.clip:
            nn.utils.clip_grad_norm_(self.parameters, self.recipe.optimiser.clip)
        self.optimisers.step(self.schedule.factor(step))
        weight = ema_weight(step, self.recipe.average.ema)
        update_ema(self.average_parameters, self.parameters, weight)
        return bpd, stop

    def _average_gradients(self, bpd: Tensor, stop: bool) -> tuple[Tensor, bool]:
        """Average gradients and losses over all processes, in one message."""
        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        parts = [*gradients, bpd, bpd.new_tensor(float(stop))]
        self.message = flat = torch.cat([part.flatten() for part in parts], out=self.message)
        dist.all_reduce(flat)
        flat /= self.world
        *averaged, bpd, wants_stop = torch.split(flat, [part.numel() for part in parts])
        for gradient, mean in zip(gradients, averaged, strict=True):
            gradient.copy_(mean.view_as(gradient))
        return bpd[0].clone(), bool(wants_stop > 0)

    def _is_evaluation_due(self) -> bool:
        held_out = self.recipe.held_out
        return held_out is not None and self.progress.step % held_out.every == 0

    def _make_row(self, stop: bool) -> Row:
        """Return the current metrics; an interrupted run does not wait for an evaluation."""
        progress = self.progress
        evaluate = self._is_evaluation_due() or (stop and not self.interrupted)
        return Row(
            progress.step,
            progress.images,
            round(progress.seconds, 1),
            progress.loss_sum / max(1, progress.loss_count),
            self.recipe.optimiser.rate * self.schedule.factor(progress.step - 1),
            self.evaluate() if evaluate and self.held_out is not None else None,
        )

    def evaluate(self) -> float:
        """Return the bpd of the held-out images under the averaged weights."""
        recipe = self.recipe.held_out
        assert recipe is not None
        assert self.held_out is not None
        shape = self.held_out.shape[2], self.held_out.shape[3]
        masks = [self.masks.get(order, *shape) for order in recipe.orders]
        return measure_float(self.average, self.held_out, masks, recipe.source.batch)

    @property
    def _constant_end(self) -> int | None:
        """The last step of the recipe's constant-rate phase, if a decay follows it."""
        decays = self.recipe.schedule.decay in ("linear", "cosine")
        return self.recipe.schedule.steps if decays and self.progress.decay_start is None else None

    def save(self) -> None:
        """Replace the checkpoint and the weights for use."""
        self.state.save(self.out / "checkpoint.pt")
        if self.progress.step == self._constant_end:
            self.state.save(self.out / "constant.pt")
        average = f"exponential, {self.recipe.average.ema}"
        save_network(self.average, self.out / "weights.safetensors", self._notes(average))

    def _notes(self, average: str) -> dict[str, Any]:
        counts = {"step": self.progress.step, "images": self.progress.images}
        return {"recipe": self.recipe.name, **counts, "average": average}


def _optimiser_settings(recipe: Recipe) -> dict[str, Any]:
    settings = asdict(recipe.optimiser)
    del settings["clip"]  # handled by the trainer
    return settings


def _finite(losses: Tensor, step: int) -> float:
    value = float(losses)
    if not math.isfinite(value):
        raise TrainingError(f"the loss is {value} at step {step}: lower the rate or the clip")
    return value


def _join_group() -> tuple[int, int, torch.device]:
    """Return this process's rank, the number of processes, and the device to work on."""
    rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    if torch.cuda.is_available():
        return rank, world, torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    return rank, world, torch.device("cpu")
