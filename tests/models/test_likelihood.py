from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from lmzip.models.likelihood import couple_by_values, logistic_log_prob, mixture_nll, to_unit


def all_levels(count: int) -> Tensor:
    """Every level once, as an image of one channel and one row."""
    return torch.arange(count).view(1, 1, 1, count)


def filled(value: float, count: int) -> Tensor:
    return torch.full((1, 1, 1, 1, count), value, requires_grad=True)


def test_levels_span_the_unit_interval() -> None:
    torch.testing.assert_close(to_unit(torch.tensor([0, 1, 2]), 3), torch.tensor([-1.0, 0.0, 1.0]))
    ends = to_unit(torch.tensor([0, 255], dtype=torch.uint8))
    torch.testing.assert_close(ends, torch.tensor([-1.0, 1.0]))


@pytest.mark.parametrize("count", [2, 3, 32, 256])
@pytest.mark.parametrize("log_scale", [-30.0, -7.0, -3.0, 0.0, 5.0, 30.0, 120.0])
def test_probabilities_sum_to_one_with_finite_gradients(count: int, log_scale: float) -> None:
    for mean in (-1e6, -3.0, -1.0, 0.0123, 0.999, 1.0, 40.0, 1e6):
        means, log_scales = filled(mean, count), filled(log_scale, count)
        log_prob = logistic_log_prob(all_levels(count), means, log_scales, count)
        assert log_prob.isfinite().all()
        assert log_prob.double().exp().sum().item() == pytest.approx(1, abs=1e-4)
        for gradient in torch.autograd.grad(log_prob.sum(), (means, log_scales)):
            assert gradient.isfinite().all()


@pytest.mark.parametrize("count", [3, 32, 256])
def test_log_prob_is_the_logarithm_of_the_bin(count: int) -> None:
    generator = torch.Generator().manual_seed(0)
    levels = torch.randint(count, (4, 3, 5, 6), generator=generator)
    levels[0, 0, 0, :2] = torch.tensor([0, count - 1])
    means, log_scales = torch.randn(2, 4, 3, 2, 5, 6, generator=generator, dtype=torch.float64)
    scales, half = (log_scales - 1).exp(), 1 / (count - 1)
    value = (2.0 * levels.double() / (count - 1) - 1).unsqueeze(2)
    above = torch.where(levels.unsqueeze(2) == count - 1, torch.inf, value + half)
    below = torch.where(levels.unsqueeze(2) == 0, -torch.inf, value - half)
    # The curve is symmetric: on its left side the difference of two small numbers stays accurate.
    side = torch.where(value > means, -1.0, 1.0)
    ends = (side * (above - means) / scales).sigmoid(), (side * (below - means) / scales).sigmoid()
    expected = side * (ends[0] - ends[1])
    actual = logistic_log_prob(levels, means.float(), log_scales.float() - 1, count)
    torch.testing.assert_close(actual.double(), expected.log(), rtol=1e-4, atol=1e-4)


def test_gradients_agree_with_differences() -> None:
    generator = torch.Generator().manual_seed(1)
    levels = torch.tensor([0, 1, 3, 4]).view(1, 1, 2, 2).expand(2, 3, 2, 2)
    logits = torch.randn(2, 2, 2, 2, generator=generator, dtype=torch.float64, requires_grad=True)
    means, log_scales, coefficients = (
        torch.randn(2, 3, 2, 2, 2, generator=generator, dtype=torch.float64, requires_grad=True)
        for _ in range(3)
    )

    def nll(logits: Tensor, means: Tensor, log_scales: Tensor, coefficients: Tensor) -> Tensor:
        coupled = couple_by_values(levels, means, coefficients, 5)
        return mixture_nll(levels, logits, coupled, log_scales, 5)

    assert torch.autograd.gradcheck(nll, (logits, means, log_scales, coefficients))


def test_coupled_colours_sum_to_one() -> None:
    count, logistics = 3, 4
    colours = torch.tensor(list(itertools.product(range(count), repeat=3)))
    levels = colours.view(-1, 3, 1, 1)  # one pixel of every colour
    generator = torch.Generator().manual_seed(2)
    logits = 3 * torch.randn(1, logistics, 1, 1, generator=generator)
    means, log_scales, coefficients = torch.randn(3, 1, 3, logistics, 1, 1, generator=generator)
    means, coefficients = (x.expand(len(levels), -1, -1, -1, -1) for x in (means, coefficients))
    coupled = couple_by_values(levels, means, coefficients, count)
    nll = mixture_nll(levels, logits, coupled, log_scales, count)
    assert nll.shape == (count**3, 1, 1)
    assert nll.neg().exp().sum().item() == pytest.approx(1, abs=1e-5)


def test_coupling_uses_earlier_channels_only() -> None:
    means = torch.tensor([0.1, 0.2, 0.3]).view(1, 3, 1, 1, 1)
    coefficients = torch.tensor([0.5, -0.4, 2.0]).view(1, 3, 1, 1, 1)
    levels = torch.tensor([255, 0, 77]).view(1, 3, 1, 1)
    a, b, c = coefficients.tanh().flatten().tolist()
    expected = torch.tensor([0.1, 0.2 + a, 0.3 + b - c])
    coupled = couple_by_values(levels, means, coefficients, 256)
    torch.testing.assert_close(coupled.flatten(), expected)
