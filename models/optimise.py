"""Optimisers, learning-rate schedules and weight averages.

The paper trains with Adam at 2e-4, multiplied by 1 - 5e-6 at each step. lmzip's own networks learn
much faster with Muon: the update of a matrix is the orthogonal factor of its momentum. A residual
block's kernels are such matrices (4-d weights flattened to outputs x inputs); everything else
(first layer, predictor, outputs, biases) stays with Adam.

torch.optim.Muon takes 2-d parameters only and works in bfloat16, which CPUs emulate slowly; this
one works in the parameters' own type and on all matrices of one shape at a time.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

# The quintic iteration of the Muon authors: singular values from 0.01 to 1 end near 1 in 5 rounds.
_QUINTIC = (3.4445, -4.7750, 2.0315)
_ROUNDS = 5


class Muon(Optimizer):
    """Momentum, orthogonalised (Nesterov's form), for parameters of two or more dimensions."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update all parameters that have a gradient."""
        assert closure is None, "Muon does not re-evaluate the loss"
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape[parameter.shape].append(parameter)
            for parameters in by_shape.values():
                self._update(parameters, group)

    def _update(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        """Update parameters of one shape together: one batch of small matrix products."""
        gradients = [p.grad for p in parameters if p.grad is not None]
        for parameter in parameters:
            if "momentum" not in self.state[parameter]:
                self.state[parameter]["momentum"] = torch.zeros_like(parameter)
        momenta = [self.state[parameter]["momentum"] for parameter in parameters]
        torch._foreach_lerp_(momenta, gradients, 1 - group["momentum"])
        ahead = torch._foreach_lerp(gradients, momenta, group["momentum"])
        updates = orthogonalise(torch.stack([update.flatten(1) for update in ahead]))
        # A matrix with more outputs than inputs needs a larger step to move its outputs as much.
        rate = group["lr"] * math.sqrt(max(1.0, updates.shape[1] / updates.shape[2]))
        if group["weight_decay"]:
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        shaped = [update.view_as(p) for update, p in zip(updates, parameters, strict=True)]
        torch._foreach_add_(parameters, shaped, alpha=-rate)


def orthogonalise(matrices: Tensor) -> Tensor:
    """Return U V^T for U S V^T, approximately: all singular values come near one. (N, O, I).

    A round is x <- (a + b G + c G^2) x with G = x x^T. The factors of all rounds are polynomials
    of the first G, so they commute: the rounds need only G and the product of the factors, which
    are much smaller than x.
    """
    a, b, c = _QUINTIC
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    gram = x @ x.mT
    product = torch.eye(gram.shape[1]).to(gram).expand_as(gram)
    for _ in range(_ROUNDS):
        factor = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        factor.diagonal(dim1=1, dim2=2).add_(a)
        product = factor @ product
        gram = factor @ gram @ factor
    x = product @ x
    return x.mT if tall else x


def split_parameters(network: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Return the matrices of the residual blocks, for Muon, and all other parameters, for Adam.

    Blocks are what a network keeps in lists of modules. A single column does not count as a matrix:
    the gains of weight normalisation stay with Adam.
    """
    stacks = [module for module in network.modules() if isinstance(module, nn.ModuleList)]
    inside = {id(parameter) for stack in stacks for parameter in stack.parameters()}
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for parameter in network.parameters():
        is_matrix = parameter.ndim in (2, 4) and min(parameter.shape[:2]) > 1
        (matrices if is_matrix and id(parameter) in inside else others).append(parameter)
    return matrices, others


@dataclass(frozen=True)
class RateSchedule:
    """The learning rate over time, as a factor of the optimisers' rates.

    `none` stays constant; `exponential` multiplies by 1 - decay_factor at each step; `linear`
    and `cosine` are constant up to `decay_start`, then fall to `final` within `decay_steps`.
    """

    warmup: int = 0
    decay: str = "none"
    decay_factor: float = 0.0
    decay_start: int = 0
    decay_steps: int = 0
    final: float = 0.0

    def factor(self, step: int) -> float:
        """Return the factor for the update number `step`, counted from zero."""
        factor = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        if self.decay == "exponential":
            return factor * float((1 - self.decay_factor) ** step)
        if self.decay in ("linear", "cosine") and step >= self.decay_start:
            done = min(1.0, (step - self.decay_start) / max(1, self.decay_steps))
            left = 1 - done if self.decay == "linear" else (1 + math.cos(math.pi * done)) / 2
            return factor * (self.final + (1 - self.final) * left)
        return factor


class OptimiserSet:
    """The optimisers of one network behind one `step`, with a common schedule."""

    def __init__(self, optimisers: list[Optimizer]) -> None:
        self.optimisers = optimisers
        self._rates = [[g["lr"] for g in optimiser.param_groups] for optimiser in optimisers]

    def step(self, factor: float) -> None:
        """Update all parameters at `factor` times the base rates."""
        for optimiser, rates in zip(self.optimisers, self._rates, strict=True):
            for group, rate in zip(optimiser.param_groups, rates, strict=True):
                group["lr"] = rate * factor
            optimiser.step()

    def zero_grad(self) -> None:
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)

    def state_dict(self) -> list[dict[str, Any]]:
        return [optimiser.state_dict() for optimiser in self.optimisers]

    def load_state_dict(self, states: list[dict[str, Any]]) -> None:
        """Take over moments, but not rates: those belong to the recipe, which may have changed."""
        for optimiser, state in zip(self.optimisers, states, strict=True):
            settings = [dict(group) for group in optimiser.param_groups]
            optimiser.load_state_dict(state)
            for group, setting in zip(optimiser.param_groups, settings, strict=True):
                group.update({k: v for k, v in setting.items() if k != "params"})


def make_optimisers(
    network: nn.Module,
    kind: str,
    rate: float,
    *,
    matrix_rate: float = 0.02,
    betas: tuple[float, float] = (0.9, 0.999),
    momentum: float = 0.95,
    weight_decay: float = 0.0,
) -> OptimiserSet:
    """Return Adam for everything, or Muon for the matrices of the blocks and Adam for the rest."""
    if kind == "adam":
        return OptimiserSet([Adam(network.parameters(), lr=rate, betas=betas)])
    assert kind == "muon", kind
    matrices, others = split_parameters(network)
    adam = Adam(others, lr=rate, betas=betas)
    return OptimiserSet([adam, Muon(matrices, matrix_rate, momentum, weight_decay)])


def ema_weight(step: int, decay: float) -> float:
    """Return how much of the average the weights after update `step` take over.

    The first steps count more; otherwise the average would remember the start for long.
    """
    return 1 - min(decay, (1 + step) / (10 + step))


def update_ema(average: Sequence[Tensor], current: Sequence[Tensor], weight: float) -> None:
    """Move an exponential average of tensors towards their current values, in place."""
    with torch.no_grad():
        torch._foreach_lerp_(list(average), list(current), weight)
