"""What a tuning is made of: it starts as nothing, and its price is about what it takes to send."""

from __future__ import annotations

import math

import pytest
import torch
from support.networks import compact_network

from lmzip.container.tuning_block import write_tuning
from lmzip.models.dequantise import dequantise
from lmzip.models.tuned_layers import Change, Plan, TunedLayers
from lmzip.network.tuning import apply_tuning


def test_at_the_start_nothing_changes_and_nothing_costs() -> None:
    network = compact_network()
    layers = TunedLayers(network, Plan())
    assert float(layers.price().detach()) == 0
    assert apply_tuning(network, layers.tuning()).fingerprint() == network.fingerprint()
    state = dequantise(network).state_dict()
    for name, tensor in layers.parameters().items():
        torch.testing.assert_close(tensor, state[name])


@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
def test_the_price_is_about_what_sending_takes(share: float) -> None:
    """But for what zeros take, which the price leaves out: it is about what leaves zero."""
    network = compact_network()
    layers = TunedLayers(network, Plan(gain_step=1))
    generator = torch.Generator().manual_seed(0)
    count = 0
    with torch.no_grad():
        for change in layers.changes():
            steps = torch.empty(change.parameter.shape).geometric_(0.4, generator=generator)
            moved = torch.rand(steps.shape, generator=generator) < share
            change.parameter[:] = steps * moved / _steps_of_one(change)
            count += steps.numel()
    zeros = -count * math.log2(1 - share)
    bits = float(layers.price().detach()) / math.log(2) + zeros
    assert 8 * len(write_tuning(layers.tuning(), network)) == pytest.approx(bits, rel=0.25, abs=800)


def _steps_of_one(change: Change) -> torch.Tensor:
    """Return how many steps one unit of a change's parameter is."""
    with torch.no_grad():
        change.parameter[:] = 1
        return change.steps().clone()


def test_the_fewer_have_left_zero_the_more_leaving_costs() -> None:
    layers = TunedLayers(compact_network(), Plan(weight_rate=0))
    gains = [change for change in layers.changes() if change.parameter.numel() > 4][1]

    def price_of_one_more(others: int) -> float:
        with torch.no_grad():
            gains.parameter.zero_()
            gains.parameter[:others] = 1 / 128
        before = float(layers.price().detach())
        with torch.no_grad():
            gains.parameter[others] = 1 / 128
        return float(layers.price().detach()) - before

    assert price_of_one_more(1) > price_of_one_more(6)
