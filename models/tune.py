"""Learning a tuning: the network adapts to a picture or a collection (FORMAT.md, "Tunings").

Learning happens on the integer network itself (`lmzip.models.dequantise`). Gains, biases and
weights are rounded in the loop to the steps in which they are sent, so what is learnt is what is
sent, and the loss counts what sending it costs: a group of numbers of mean magnitude m takes about
log2(2 e m) bits a number, so each unit of magnitude adds 1 / (m ln 2) bits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from lmzip.models.dequantise import FloatLayer, as_tensor, dequantise, float_layers
from lmzip.models.lmconv import MaskSet
from lmzip.network.integer_network import IntegerNetwork
from lmzip.network.tuning import GAIN_BITS, LayerTuning, Tuning
from lmzip.order.orders import Order

CROP = 64  # the side of the squares that are learnt from
CROPS = 4  # of them in a step
WARMUP = 20  # steps
PASSES = 8  # how often each pixel is looked at, if there is time
FEWEST = 2 * WARMUP  # steps: less is too little to learn anything that pays
TIMED = 2  # steps that are made to see how long one takes


@dataclass(frozen=True)
class Plan:
    """What is learnt, how fast and how finely.

    rate: of Adam, for gains and, in units of an output's usual spread, for biases
    gain_step, bias_step, out_bias_step, weight_step: powers of two; what is sent are multiples
    """

    rate: float = 4e-3
    weight_rate: float = 0.0  # of Adam, in units of each layer's own weights; 0 leaves them alone
    gain_step: int = 0
    bias_step: int = 3
    out_bias_step: int = 1
    weight_step: int = 2
    betas: tuple[float, float] = (0.9, 0.99)


class _Change:
    """One kind of change of one layer: a float parameter, and the integers it stands for."""

    def __init__(self, shape: Sequence[int], unit: Tensor | float, step: int, rate: float) -> None:
        self.parameter = torch.zeros(tuple(shape), requires_grad=True)
        self.rate = rate
        self._unit, self._step = unit, 1 << step  # integers in one unit of the parameter

    def integers(self) -> Tensor:
        """Return the integers, rounded to multiples of the step; gradients pass the rounding."""
        exact = self.parameter * self._unit
        rounded = (exact.detach() / self._step).round() * self._step
        return exact + (rounded - exact).detach()

    def steps(self) -> Tensor:
        """Return the magnitudes in steps, before rounding."""
        return (self.parameter * self._unit / self._step).abs()


@dataclass
class _LayerChanges:
    layer: FloatLayer
    changes: dict[str, _Change] = field(default_factory=dict)

    def parameters(self) -> dict[str, Tensor]:
        """Return the float parameters of the tuned layer."""
        weight, bias = as_tensor(self.layer.layer.weight), as_tensor(self.layer.layer.bias)
        if "output_gains" in self.changes:
            one = float(1 << GAIN_BITS)
            weight = weight * (1 + self.changes["output_gains"].integers()[:, None, None] / one)
            weight = weight * (1 + self.changes["input_gains"].integers() / one)
            weight = weight + (weight.round() - weight).detach()
        if "weight" in self.changes:
            weight = weight + self.changes["weight"].integers()
        if "bias" in self.changes:
            shift = as_tensor(np.exp2(self.layer.layer.shift.astype(np.float64)))
            bias = bias + self.changes["bias"].integers() * shift
        return self.layer.parameters(weight, bias)


class Tuner:
    """Learns a tuning of a network from images (C, H, W) of uint8."""

    def __init__(
        self,
        network: IntegerNetwork,
        order: Order,
        images: Sequence[Tensor],
        plan: Plan,
        seed: int = 0,
    ) -> None:
        self._images, self._order, self._plan = images, order, plan
        self._float = dequantise(network)
        self._float.requires_grad_(False)
        self._layers = [_changes_of(layer, plan) for layer in float_layers(network)]
        changes = [change for layer in self._layers for change in layer.changes.values()]
        groups = [{"params": [c.parameter], "lr": c.rate, "base": c.rate} for c in changes]
        self._optimiser = torch.optim.Adam(groups, betas=plan.betas)
        self._generator = torch.Generator().manual_seed(seed)
        self._masks: dict[tuple[int, int], MaskSet] = {}
        self._sides = torch.tensor([list(image.shape[1:]) for image in images])
        self._weights = self._sides.prod(1).to(torch.float32)
        self.pixels = int(self._weights.sum())

    def run(self, steps: int, report: Callable[[int, float], None] | None = None) -> None:
        """Make so many steps with a rate that falls to zero; reports bits per sample as it goes."""
        for step in range(steps):
            factor = min(1.0, (step + 1) / WARMUP) * (1 - step / steps)
            for group in self._optimiser.param_groups:
                group["lr"] = group["base"] * factor
            levels = self._draw()
            nats = self._nll(levels)
            # A price from the start would keep everything at zero, where nothing costs anything.
            price = min(1.0, 2 * step / steps)
            loss = nats + price * self._rate_nats() / self.pixels
            self._optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimiser.step()
            if report:
                report(step + 1, float(nats.detach()) / (levels.shape[1] * math.log(2)))

    def tuning(self) -> Tuning:
        """Return what has been learnt, as integers."""
        with torch.no_grad():
            return Tuning(
                tuple(
                    LayerTuning(
                        **{
                            kind: change.integers().round().to(torch.int64).numpy()
                            for kind, change in layer.changes.items()
                        }
                    )
                    for layer in self._layers
                )
            )

    def _nll(self, levels: Tensor) -> Tensor:
        parameters: dict[str, Tensor] = {}
        for layer in self._layers:
            parameters.update(layer.parameters())
        height, width = levels.shape[2:]
        if (height, width) not in self._masks:
            self._masks[height, width] = MaskSet(self._order.ranks(height, width))
        wrapped = {f"network.{name}": tensor for name, tensor in parameters.items()}
        nats: Tensor = torch.func.functional_call(
            _Likelihood(self._float), wrapped, (levels, self._masks[height, width])
        )
        return nats.mean()

    def _rate_nats(self) -> Tensor:
        """Return what the numbers cost to send, but for a constant, in nats."""
        groups: dict[tuple[str, str], list[Tensor]] = {}
        for layer in self._layers:
            for kind, change in layer.changes.items():
                groups.setdefault((layer.layer.role, kind), []).append(change.steps().flatten())
        cost = torch.zeros(())
        for parts in groups.values():
            magnitudes = torch.cat(parts)
            mean = magnitudes.detach().mean().clamp(min=0.5)
            cost = cost + magnitudes.sum() / mean
        return cost

    def _draw(self) -> Tensor:
        """Cut pieces of one size out of images, as many pixels of small images as of large ones."""
        first = int(torch.multinomial(self._weights, 1, generator=self._generator))
        height, width = (min(CROP, side) for side in self._images[first].shape[1:])
        fits = ((self._sides >= torch.tensor([height, width])).all(1)).to(torch.float32)
        count = CROPS * CROP * CROP // (height * width)
        chosen = torch.multinomial(self._weights * fits, count, True, generator=self._generator)
        crops = []
        for image in (self._images[int(number)] for number in chosen):
            top = int(torch.randint(image.shape[1] - height + 1, (), generator=self._generator))
            left = int(torch.randint(image.shape[2] - width + 1, (), generator=self._generator))
            crops.append(image[:, top : top + height, left : left + width])
        return torch.stack(crops)


def learn_tuning(
    network: IntegerNetwork,
    order: Order,
    images: Sequence[npt.NDArray[np.uint8]],
    seconds: float,
    progress: Callable[[int, int], None] | None = None,
    plan: Plan | None = None,
) -> Tuning | None:
    """Learn from images (H, W, C) for so long at most; None if they are too few to be worth it."""
    levels = [torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1) for image in images]
    # Colour and grey do not mix in a step: whichever there is more of is learnt from.
    alike = [[image for image in levels if len(image) == channels] for channels in (1, 3)]
    levels = max(alike, key=lambda some: sum(image.numel() for image in some))
    plan = plan or Plan()
    steps = PASSES * sum(image[0].numel() for image in levels) // (CROPS * CROP * CROP)
    if steps < FEWEST:
        return None
    before = torch.get_num_threads()
    try:
        steps = min(steps, int(seconds / _choose_threads(Tuner(network, order, levels, plan))))
        if steps < FEWEST:
            return None
        tuner = Tuner(network, order, levels, plan)
        tuner.run(steps, lambda step, _: progress(step, steps) if progress else None)
        return tuner.tuning()
    finally:
        torch.set_num_threads(before)


def _choose_threads(trial: Tuner) -> float:
    """Let torch use one thread or all, whichever is faster; return the seconds of a step.

    Where other programs keep the cores busy, threads that wait for each other take ten times as
    long as one.
    """
    took = {}
    for threads in sorted({1, torch.get_num_threads()}):
        torch.set_num_threads(threads)
        trial.run(1)  # which takes longer than others
        began = time.perf_counter()
        trial.run(TIMED)
        took[threads] = (time.perf_counter() - began) / TIMED
    torch.set_num_threads(min(took, key=lambda threads: took[threads]))
    return min(took.values())


class _Likelihood(nn.Module):
    """A network whose call is its likelihood, for torch's functional_call."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, levels: Tensor, masks: MaskSet) -> Tensor:
        nats: Tensor = self.network.nll(levels, masks)  # type: ignore[operator]
        return nats


def _changes_of(layer: FloatLayer, plan: Plan) -> _LayerChanges:
    outputs, _, inputs = layer.layer.weight.shape
    one = float(1 << GAIN_BITS)
    changes = _LayerChanges(layer)
    out = layer.role == "out"
    # One unit of a bias parameter is what one unit of the float network's output was.
    unit = 2.0 ** -as_tensor(layer.layer.shift) / layer.factor if out else 512.0
    step = plan.out_bias_step if out else plan.bias_step
    changes.changes["bias"] = _Change((outputs,), unit, step, plan.rate)
    if layer.role != "first":
        changes.changes["output_gains"] = _Change((outputs,), one, plan.gain_step, plan.rate)
        changes.changes["input_gains"] = _Change((inputs,), one, plan.gain_step, plan.rate)
    if plan.weight_rate:
        spread = float(as_tensor(layer.layer.weight).std())
        changes.changes["weight"] = _Change(
            layer.layer.weight.shape, spread, plan.weight_step, plan.weight_rate
        )
    return changes
