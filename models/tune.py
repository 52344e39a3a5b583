"""Learning a tuning: the network adapts to a picture or a collection (FORMAT.md, "Tunings").

Learning happens on the integer network itself (`lmzip.models.dequantise`), with the rounding of
what is sent and the price of sending it in the loop (`lmzip.models.tuned_layers`). From time to
time the size of the file that would result is estimated: that is what the user sees falling, and
when it hardly falls any more, the rate does, which brings the rest of the gain.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from lmzip.container.tuning_block import write_tuning
from lmzip.models.adaptation_trails import Trails
from lmzip.models.dequantise import dequantise, float_layers
from lmzip.models.lmconv import MaskSet
from lmzip.models.pieces import PIXELS, Batch, Pieces
from lmzip.models.tuned_layers import Plan, TunedLayers
from lmzip.network.integer_network import IntegerNetwork
from lmzip.network.tuning import Tuning, apply_tuning
from lmzip.order.orders import Order
from lmzip.progress import Progress, note_progress
from lmzip.stream.precision import PLAIN_SHARPNESS, Precision

WARMUP = 40  # steps
FREE = 256  # steps, in which the price of what is sent rises to its full height
COOLING = 0.5  # of the budget: in its last part the rate falls to zero
PASSES = 64  # how often each pixel is looked at, if there is time and it goes on to help
FEWEST = 2 * WARMUP  # steps: less is too little to learn anything that pays
ESTIMATED = 32  # batches by which a file's size is estimated
INTERVAL = 128  # steps from one estimate to the next
SURE = 4  # passes over the images before it may end early
WORTH = 5e-4  # of the file: what the last third of the steps must have brought to go on
TIMED = 4  # steps that are made to see how long one takes
FOLLOWED = 4  # times that adaptation is followed, as what it starts from is learnt
HOPELESS = 4  # times as long as a step takes by one thread: several threads hinder each other

Report = Callable[[int, int, float], None]
"""Called with the steps made, all there will be, and the estimated change of the file's size."""


@dataclass(frozen=True)
class Budget:
    """How many steps there may be, and for how many seconds."""

    steps: int
    seconds: float = math.inf


class Tuner:
    """Learns a tuning of a network from images (C, H, W): uint8, or int32 of a `precision`.

    Tiles of `adaptive_from` pixels or more are learnt from as the network adapts to them.
    """

    def __init__(
        self,
        network: IntegerNetwork,
        order: Order,
        images: Sequence[Tensor],
        plan: Plan,
        precision: Precision | None = None,
        adaptive_from: float = math.inf,
    ) -> None:
        self._network, self._order, self._price = network, order, plan.price
        self._floats = dequantise(network).requires_grad_(False)
        if precision is not None:
            self._floats.levels = 1 << precision.depth
            self._floats.sharpness = precision.sharpness / PLAIN_SHARPNESS
        self._likelihood = _Likelihood(self._floats)
        self._out = float_layers(network)[-1]
        # Deep samples are coded by networks that do not adapt.
        self._trails = Trails(order, [] if precision else _by_pixel(images), adaptive_from)
        self._layers = TunedLayers(network, plan)
        groups = [
            {"params": [change.parameter], "lr": change.rate, "base": change.rate}
            for change in self._layers.changes()
        ]
        self._optimiser = torch.optim.Adam(groups, betas=plan.betas)
        self._pieces = Pieces(images)
        self._known = self._pieces.spread_out(ESTIMATED)
        self._masks: dict[tuple[int, int], MaskSet] = {}
        self.pixels = sum(image[0].numel() for image in images)

    def run(self, budget: Budget, report: Report | None = None) -> float:
        """Learn until the budget is spent, or it hardly helps; return the change of the size.

        The rate rises, stays and falls to zero. It begins to fall when half of the budget is spent,
        or once the estimates say that what is still to come is not worth the wait.
        """
        began, most, step, spent = time.perf_counter(), budget.steps, 0, 0.0
        sure = max(2 * FREE, SURE * self.pixels // PIXELS)
        self._trails.follow(self._network)
        start = self._estimate_bits({})
        estimates, followed = [(0, 0.0)], 1
        while spent < 1:
            if spent >= followed / FOLLOWED:
                self._trails.follow(apply_tuning(self._network, self.tuning()))
                followed += 1
            self._make_step(_rate_at(step, spent), _price_at(step, spent))
            step += 1
            spent = max(step / most, (time.perf_counter() - began) / budget.seconds)
            if step % INTERVAL == 0 or spent >= 1:
                estimates.append((step, self._estimate() / start - 1))
                if step >= sure and not _is_worth_it(estimates):
                    most = min(most, math.ceil(step / (1 - COOLING)))
                    spent = max(spent, step / most)
            if report:
                report(step, max(step, round(step / spent)), estimates[-1][1])
        return estimates[-1][1]

    def tuning(self) -> Tuning:
        """Return what has been learnt, as integers."""
        return self._layers.tuning()

    def time_steps(self, steps: int) -> float:
        """Return the seconds that a step takes."""
        began = time.perf_counter()
        for _ in range(steps):
            self._make_step(rate=1.0, price=1.0)
        return (time.perf_counter() - began) / steps

    def _make_step(self, rate: float, price: float) -> None:
        """Make a step at shares of the rates and of the price."""
        for group in self._optimiser.param_groups:
            group["lr"] = group["base"] * rate
        nats = self._nll(self._pieces.draw(), self._layers.parameters())
        loss = nats + self._price * price * self._layers.price() / self.pixels
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()

    def _estimate(self) -> float:
        """Return about how many bits the file would have, with the tuning at its price."""
        bits = self._estimate_bits(self._layers.parameters())
        if self._price:
            bits += self._price * 8 * len(write_tuning(self.tuning(), self._network))
        return bits

    def _estimate_bits(self, parameters: dict[str, Tensor]) -> float:
        """Return about how many bits all pixels take, with some parameters in place of others."""
        with torch.no_grad():
            nats = sum(float(self._nll(each, parameters)) * each.pixels for each in self._known)
        return nats / sum(each.pixels for each in self._known) * self.pixels / math.log(2)

    def _nll(self, batch: Batch, parameters: dict[str, Tensor]) -> Tensor:
        levels = batch.levels
        height, width = levels.shape[2:]
        if (height, width) not in self._masks:
            self._masks[height, width] = MaskSet(self._order.ranks(height, width))
        parameters = {**parameters, **self._adapt(batch, parameters)}
        wrapped = {f"network.{name}": tensor for name, tensor in parameters.items()}
        nats: Tensor = torch.func.functional_call(
            self._likelihood, wrapped, (levels, self._masks[height, width])
        )
        return nats.mean()

    def _adapt(self, batch: Batch, parameters: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the parameters of the output layer as it has adapted where a piece lies."""
        if len(batch.places) > 1:  # images too small to adapt to
            return {}
        ((image, top, left),) = batch.places
        middle = top + batch.levels.shape[2] // 2, left + batch.levels.shape[3] // 2
        changes = self._trails.find_changes(image, *middle)
        if changes is None:
            return {}
        out = dict(self._floats.named_parameters()) | parameters
        weight, bias = self._out.adapted(changes)
        return {"out.weight": out["out.weight"] + weight, "out.bias": out["out.bias"] + bias}


def learn_tuning(
    network: IntegerNetwork,
    order: Order,
    images: Sequence[npt.NDArray[np.integer[Any]]],
    seconds: float,
    progress: Progress | None = None,
    plan: Plan | None = None,
    precision: Precision | None = None,
    adaptive_from: float = math.inf,
) -> Tuning | None:
    """Learn from images (H, W, C) for so long at most: levels, or deep samples of a `precision`.

    Tiles of `adaptive_from` pixels or more are going to be coded by a network that adapts to them.
    Deep samples are learnt from as if their curve were linear. Returns None if there is too little
    of images or time, or if nothing that was learnt pays.
    """
    kind = np.uint8 if precision is None else np.int32
    levels = [
        torch.from_numpy(np.ascontiguousarray(image, kind)).permute(2, 0, 1) for image in images
    ]
    # Colour and grey do not mix in a step: whichever there is more of is learnt from.
    alike = [[image for image in levels if len(image) == channels] for channels in (1, 3)]
    levels = max(alike, key=lambda some: sum(image.numel() for image in some))
    plan = plan or Plan()
    if precision is not None:
        plan = plan.for_depth(precision.depth)
    elif any(image[0].numel() >= adaptive_from for image in levels):
        plan = plan.beside_adaptation()
    steps = PASSES * sum(image[0].numel() for image in levels) // PIXELS
    if steps < FEWEST:
        return None

    def report(step: int, steps: int, change: float) -> None:
        if progress:
            note_progress(progress, f"learning {100 * change:+.2f} %")
            progress(step, steps)

    began, before = time.perf_counter(), torch.get_num_threads()
    try:
        took = _choose_threads(Tuner(network, order, levels, plan, precision))
        seconds -= time.perf_counter() - began
        steps = min(steps, int(seconds / took))
        if steps < FEWEST:
            return None
        tuner = Tuner(network, order, levels, plan, precision, adaptive_from)
        return tuner.tuning() if tuner.run(Budget(steps, seconds), report) < 0 else None
    finally:
        torch.set_num_threads(before)


def _rate_at(step: int, spent: float) -> float:
    """Return the share of the rate, after so many steps and such a share of the budget."""
    return min(1.0, (step + 1) / WARMUP, (1 - spent) / COOLING)


def _price_at(step: int, spent: float) -> float:
    """Return the share of the price that counts.

    The full price from the start would keep everything at zero, where nothing costs anything.
    """
    return min(1.0, max(step / FREE, 2 * spent))


def _is_worth_it(estimates: Sequence[tuple[int, float]]) -> bool:
    """Whether the last third of the steps brought enough to go on."""
    last, now = estimates[-1]
    then = min(estimates, key=lambda estimate: abs(estimate[0] - 2 * last / 3))
    return then[1] - now >= WORTH


def _choose_threads(trial: Tuner) -> float:
    """Let torch use one thread or all, whichever is faster; return the seconds of a step.

    Where other programs keep the cores busy, threads that wait for each other take ten times as
    long as one.
    """
    took: dict[int, float] = {}
    for threads in sorted({1, torch.get_num_threads()}):
        torch.set_num_threads(threads)
        first = trial.time_steps(1)  # which takes longer than others
        if first < HOPELESS * min(took.values(), default=math.inf):
            took[threads] = trial.time_steps(TIMED)
    torch.set_num_threads(min(took, key=lambda threads: took[threads]))
    return min(took.values())


def _by_pixel(images: Sequence[Tensor]) -> list[npt.NDArray[np.uint8]]:
    """Return images (C, H, W) as the codec has them: (H, W, C)."""
    return [image.permute(1, 2, 0).numpy() for image in images]


class _Likelihood(nn.Module):
    """A network whose call is its likelihood, for torch's functional_call."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, levels: Tensor, masks: MaskSet) -> Tensor:
        nats: Tensor = self.network.nll(levels, masks)  # type: ignore[operator]
        return nats
