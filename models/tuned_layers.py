"""What of a network is learnt: floats that stand for the integers of a tuning, and their price.

Gains, biases and weights are rounded in the loop to the steps in which they are sent, so that what
is learnt is what is sent. The price follows the way in which the numbers of a group are coded
(FORMAT.md, "Tunings"): zeros are the more expensive to leave the fewer numbers have left them, and
each further step costs as much as the numbers there are make it cost. So only what pays is sent.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from lmzip.models.dequantise import FloatLayer, as_tensor, float_layers
from lmzip.network.integer_network import IntegerNetwork
from lmzip.network.tuning import GAIN_BITS, LayerTuning, Tuning

_CHEAPEST = 0.3  # nats: what leaving zero costs at least, and so the least that keeps it quiet


@dataclass(frozen=True)
class Plan:
    """What is learnt, how fast and how finely.

    rate: of Adam, for gains and, in units of an output's usual spread, for biases
    weight_rate: of Adam, in units of the spread of each layer's weights; 0 leaves them alone
    gain_step, bias_step, out_bias_step: powers of two; what is sent are multiples
    weight_step: likewise for weights, as a share of their spread
    price: how much what is sent counts, compared with the images; 0 for a network of its own file
    """

    rate: float = 3e-3
    weight_rate: float = 0.01
    gain_step: int = 0
    bias_step: int = 3
    out_bias_step: int = 1
    weight_step: float = 0.5
    price: float = 1.0
    betas: tuple[float, float] = (0.9, 0.995)

    def for_depth(self, depth: int) -> Plan:
        """Return a plan for samples of so many bits: finer ones bear only smaller steps."""
        share = 2.0 ** ((8 - depth) / 4)
        return replace(self, rate=share * self.rate, weight_rate=share * self.weight_rate)

    def beside_adaptation(self) -> Plan:
        """Return a plan for a network that adapts: what is left to learn asks for smaller steps."""
        return replace(
            self,
            rate=self.rate * 2 / 3,
            weight_rate=self.weight_rate / 2,
            weight_step=self.weight_step * 2,
        )


class Change:
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
class _Layer:
    layer: FloatLayer
    changes: dict[str, Change] = field(default_factory=dict)

    def parameters(self) -> dict[str, Tensor]:
        """Return the float parameters of the tuned layer."""
        weight, bias = as_tensor(self.layer.layer.weight), as_tensor(self.layer.layer.bias)
        one = float(1 << GAIN_BITS)
        weight = weight * (1 + self.changes["output_gains"].integers()[:, None, None] / one)
        weight = weight * (1 + self.changes["input_gains"].integers() / one)
        weight = weight + (weight.round() - weight).detach()
        if "weight" in self.changes:
            weight = weight + self.changes["weight"].integers()
        shift = as_tensor(np.exp2(self.layer.layer.shift.astype(np.float64)))
        bias = bias + self.changes["bias"].integers() * shift
        return self.layer.parameters(weight, bias)


class TunedLayers:
    """The layers of an integer network, and what a tuning changes of them."""

    def __init__(self, network: IntegerNetwork, plan: Plan) -> None:
        self._layers = [_changes_of(layer, plan) for layer in float_layers(network)]

    def changes(self) -> Iterator[Change]:
        for layer in self._layers:
            yield from layer.changes.values()

    def parameters(self) -> dict[str, Tensor]:
        """Return the parameters of the tuned network, by their names in the float network."""
        parameters: dict[str, Tensor] = {}
        for layer in self._layers:
            parameters.update(layer.parameters())
        return parameters

    def price(self) -> Tensor:
        """Return what sending the numbers costs beyond sending zeros, in nats."""
        groups: dict[tuple[str, str], list[Tensor]] = defaultdict(list)
        for layer in self._layers:
            for kind, change in layer.changes.items():
                groups[layer.layer.role, kind].append(change.steps().flatten())
        return torch.stack([_price_of_group(torch.cat(parts)) for parts in groups.values()]).sum()

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


def _price_of_group(steps: Tensor) -> Tensor:
    """Return the nats of a group of magnitudes, in steps, given how they are distributed now.

    Numbers other than zero have a share s of the group, and fall off by a ratio r a step: leaving
    zero costs log((1 - s) / (s (1 - r) / 2)), each further step log(1 / r).
    """
    rounded = steps.detach().round()
    moved = rounded[rounded > 0]
    share = min(max(len(moved), 1) / len(steps), 0.99)
    mean = float(moved.mean()) if len(moved) else 1.0
    ratio = max(1 - 1 / mean, 0.02)  # of the geometric distribution of that mean
    leaving = max(math.log(2 * (1 - share) / (share * (1 - ratio))), _CHEAPEST)
    further = min(-math.log(ratio), leaving)
    return (steps.clamp(max=1) * leaving + (steps - 1).clamp(min=0) * further).sum()


def _changes_of(layer: FloatLayer, plan: Plan) -> _Layer:
    outputs, _, inputs = layer.layer.weight.shape
    one = float(1 << GAIN_BITS)
    changes = _Layer(layer)
    out = layer.role == "out"
    # One unit of a bias parameter is what one unit of the float network's output was.
    unit = 2.0 ** -as_tensor(layer.layer.shift) / layer.factor if out else 512.0
    step = plan.out_bias_step if out else plan.bias_step
    changes.changes["bias"] = Change((outputs,), unit, step, plan.rate)
    changes.changes["output_gains"] = Change((outputs,), one, plan.gain_step, plan.rate)
    changes.changes["input_gains"] = Change((inputs,), one, plan.gain_step, plan.rate)
    if plan.weight_rate:
        spread = float(as_tensor(layer.layer.weight).std())
        bits = round(math.log2(max(1.0, plan.weight_step * spread)))
        shape = layer.layer.weight.shape
        changes.changes["weight"] = Change(shape, spread, bits, plan.weight_rate)
    return changes
