"""Muon, schedules and averages against their definitions."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from lmzip.models.compact import Block, CompactConfig, CompactNetwork
from lmzip.models.optimise import (
    Muon,
    RateSchedule,
    ema_weight,
    make_optimisers,
    orthogonalise,
    split_parameters,
    update_ema,
)
from lmzip.models.paper import PaperConfig, PaperNetwork


@pytest.mark.parametrize("shape", [(3, 16, 16), (2, 8, 50), (2, 50, 8), (1, 1, 5)])
def test_orthogonalise_brings_singular_values_near_one(shape: tuple[int, int, int]) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    u, _, v = torch.linalg.svd(matrices, full_matrices=False)
    result = orthogonalise(matrices)
    values = torch.linalg.svdvals(result)
    assert values.max() < 1.25
    if shape[1] != shape[2]:  # square random matrices have singular values near zero
        assert values.min() > 0.6
    assert (result * (u @ v)).sum() > 0.65 * u.shape[2] * shape[0]
    assert torch.equal(orthogonalise(torch.zeros(shape)), torch.zeros(shape))


def test_orthogonalise_applies_its_polynomial_to_each_singular_value() -> None:
    """Down to values as small as gradients have them, far below what float32 resolves in x x^T."""
    generator = torch.Generator().manual_seed(0)
    u, _ = torch.linalg.qr(torch.randn(20, 20, generator=generator, dtype=torch.float64))
    v, _ = torch.linalg.qr(torch.randn(90, 20, generator=generator, dtype=torch.float64))
    values = torch.logspace(0, -7, 20, dtype=torch.float64)
    result = orthogonalise((u * values @ v.mT).float()[None])[0]
    expected = values / values.norm()
    for _ in range(5):
        expected = 3.4445 * expected - 4.7750 * expected**3 + 2.0315 * expected**5
    torch.testing.assert_close(result.double(), u * expected @ v.mT, rtol=0, atol=2e-4)


def test_muon_follows_its_definition() -> None:
    torch.manual_seed(1)
    start, gradients = torch.randn(6, 2, 3, 3), torch.randn(3, 6, 2, 3, 3)
    parameter = nn.Parameter(start.clone())
    optimiser = Muon([parameter], lr=0.1, momentum=0.9, weight_decay=0.5)
    expected, momentum = start.clone(), torch.zeros_like(start)
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimiser.step()
        momentum = 0.9 * momentum + 0.1 * gradient
        ahead = 0.1 * gradient + 0.9 * momentum
        update = orthogonalise(ahead.view(1, 6, 18)).view(6, 2, 3, 3)
        expected = expected * (1 - 0.1 * 0.5) - 0.1 * update
    torch.testing.assert_close(parameter.data, expected)


def test_muon_treats_matrices_of_one_shape_as_if_alone() -> None:
    torch.manual_seed(2)
    together = [nn.Parameter(torch.randn(8, 4)) for _ in range(3)]
    alone = [nn.Parameter(parameter.detach().clone()) for parameter in together]
    gradients = [torch.randn(8, 4) for _ in range(3)]
    optimisers = [Muon(together, 0.1), *(Muon([parameter], 0.1) for parameter in alone)]
    for parameters in (together, alone):
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.clone()
    for optimiser in optimisers:
        optimiser.step()
    for first, second in zip(together, alone, strict=True):
        torch.testing.assert_close(first, second)
    # Twice as many outputs as inputs: the update is larger by the root of two.
    change = orthogonalise(gradients[0][None])[0].norm() * 0.1 * math.sqrt(2)
    before = Muon([nn.Parameter(torch.zeros(8, 4))], 0.1)
    parameter = before.param_groups[0]["params"][0]
    parameter.grad = gradients[0]
    before.step()
    torch.testing.assert_close(parameter.norm(), change, rtol=1e-4, atol=0)


def test_muon_takes_the_matrices_of_the_blocks() -> None:
    compact = CompactNetwork(CompactConfig(8, 5, (Block(6), Block(8)), 2))
    names = {id(parameter): name for name, parameter in compact.named_parameters()}
    matrices, others = split_parameters(compact)
    assert [names[id(matrix)] for matrix in matrices] == [
        f"blocks.{block}.{layer}.weight" for block in (0, 1) for layer in ("conv", "project")
    ]
    assert len(matrices) + len(others) == len(names)

    paper = PaperNetwork(PaperConfig(filters=4, blocks=1, logistics=1))
    chosen = {id(matrix) for matrix in split_parameters(paper)[0]}
    for name, parameter in paper.named_parameters():
        inside = not name.startswith(("first", "output"))
        is_matrix = name.endswith(("weight", "direction")) and "mask_weight" not in name
        assert (id(parameter) in chosen) == (inside and is_matrix), name


def test_state_comes_back_but_rates_are_the_recipes() -> None:
    torch.manual_seed(3)
    network = CompactNetwork(CompactConfig(8, 3, (Block(8),), 2))

    def step_with(optimisers: object) -> None:
        generator = torch.Generator().manual_seed(4)
        for parameter in network.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimisers.step(0.5)  # type: ignore[attr-defined]

    first = make_optimisers(network, "muon", 1e-3, matrix_rate=0.02)
    step_with(first)
    state = first.state_dict()
    second = make_optimisers(network, "muon", 2e-3, matrix_rate=0.04, momentum=0.8)
    second.load_state_dict(state)
    step_with(second)
    adam, muon = second.optimisers
    assert adam.param_groups[0]["lr"] == 1e-3  # half of the new rate
    assert muon.param_groups[0]["lr"] == 0.02
    assert muon.param_groups[0]["momentum"] == 0.8
    parameter = adam.param_groups[0]["params"][0]
    assert adam.state[parameter]["step"] == 2


def test_adam_takes_everything() -> None:
    network = CompactNetwork(CompactConfig(8, 3, (Block(8),), 2))
    (adam,) = make_optimisers(network, "adam", 2e-4).optimisers
    assert len(adam.param_groups[0]["params"]) == len(list(network.parameters()))


def test_schedules() -> None:
    assert [RateSchedule(4).factor(step) for step in range(6)] == [0.25, 0.5, 0.75, 1, 1, 1]
    paper = RateSchedule(decay="exponential", decay_factor=5e-6)
    assert paper.factor(0) == 1
    assert math.isclose(paper.factor(200_000), math.exp(200_000 * math.log1p(-5e-6)))
    linear = RateSchedule(decay="linear", decay_start=10, decay_steps=4, final=0.2)
    expected = [1, 1, 0.8, 0.6, 0.4, 0.2, 0.2]
    assert [round(linear.factor(step), 9) for step in (0, 10, 11, 12, 13, 14, 20)] == expected
    cosine = RateSchedule(decay="cosine", decay_start=10, decay_steps=4)
    assert [round(cosine.factor(step), 3) for step in range(9, 16)] == [
        *(1, 1, 0.854, 0.5, 0.146, 0, 0)
    ]


def test_exponential_average() -> None:
    values = [torch.tensor([float(i)]) for i in range(200)]
    average = [torch.tensor([5.0])]
    expected = 5.0
    for step, value in enumerate(values):
        decay = min(0.9, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * float(value)
        update_ema(average, [value], ema_weight(step, 0.9))
    assert math.isclose(float(average[0]), expected, rel_tol=1e-5)
    assert ema_weight(10, 0.0) == 1  # no averaging at all
