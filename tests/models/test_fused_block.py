"""Fused blocks compute what convolutions do one by one, forward and backward."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from lmzip.models import compact
from lmzip.models.batches import MaskCache
from lmzip.models.compact import Block, CompactConfig, CompactNetwork
from lmzip.order.orders import parse_order

CONFIG = CompactConfig(10, 5, (Block(6), Block(8, 3, 2), Block(6, 5)), 2)


@pytest.fixture
def network() -> CompactNetwork:
    """Return a network whose weights are all random: none starts at zero."""
    torch.manual_seed(0)
    network = CompactNetwork(CONFIG)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return network


def outputs_and_gradients(network: CompactNetwork, x: Tensor, order: str) -> list[Tensor]:
    network.zero_grad()
    outputs = network(x, MaskCache().get(parse_order(order), *x.shape[2:]))
    outputs.square().sum().backward()
    return [outputs, *(p.grad.clone() for p in network.parameters() if p.grad is not None)]


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 1, 7), (3, 6, 1), (2, 9, 8), (20, 5, 6)])
@pytest.mark.parametrize("order", ["raster", "raster:flip", "s-curve"])
@pytest.mark.parametrize("top", [math.inf, 0.7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fused_and_plain_layers_agree(
    network: CompactNetwork,
    shape: tuple[int, int, int],
    order: str,
    top: float,
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network.to(dtype).set_top(top)
    x = torch.randn(shape[0], 3, *shape[1:], dtype=dtype)
    fused = outputs_and_gradients(network, x, order)
    monkeypatch.setattr(compact, "prefer_fused", lambda x: False)
    plain = outputs_and_gradients(network, x, order)
    assert len(fused) == len(plain)
    for ours, theirs in zip(fused, plain, strict=True):
        largest = theirs.abs().max().item()
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5 * largest)


def test_narrow_products_round_no_more_than_their_type(network: CompactNetwork) -> None:
    x = torch.randn(3, 3, 9, 8)
    exact = outputs_and_gradients(network, x, "raster")
    network.set_products(torch.bfloat16)
    rounded = outputs_and_gradients(network, x, "raster")
    for ours, theirs in zip(rounded, exact, strict=True):
        assert ours.dtype == theirs.dtype == torch.float32
        error = (ours - theirs).norm() / theirs.norm()
        assert error < 0.03, error
    assert not torch.equal(rounded[0], exact[0])


@pytest.mark.parametrize(
    ("order", "fuses"), [("raster", True), ("raster:flip", True), ("s-curve", False)]
)
def test_only_orders_with_one_pattern_are_fused(
    network: CompactNetwork, order: str, fuses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def count(x: Tensor, *rest: object) -> Tensor:
        nonlocal calls
        calls += 1
        return x

    monkeypatch.setattr("lmzip.models.compact.FusedBlock.apply", count)
    network(torch.randn(2, 3, 8, 9), MaskCache().get(parse_order(order), 8, 9))
    assert calls == (len(CONFIG.blocks) if fuses else 0)
