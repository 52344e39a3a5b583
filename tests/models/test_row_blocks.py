"""Blocks by rows compute what blocks by convolutions do, forward and backward."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lmzip.models import compact
from lmzip.models.batches import MaskCache
from lmzip.models.compact import Block, CompactConfig, CompactNetwork
from lmzip.models.row_blocks import find_layout
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


def nll_and_gradients(network: CompactNetwork, levels: Tensor, order: str) -> list[Tensor]:
    network.zero_grad()
    nll = network.nll(levels, MaskCache().get(parse_order(order), *levels.shape[2:]))
    nll.sum().backward()  # type: ignore[no-untyped-call]
    return [nll, *(p.grad.clone() for p in network.parameters() if p.grad is not None)]


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 1, 7), (3, 6, 1), (2, 9, 8), (1, 40, 13)])
@pytest.mark.parametrize("rows", [1, 50, 100_000])
def test_rows_and_convolutions_agree(
    network: CompactNetwork,
    shape: tuple[int, int, int],
    rows: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lmzip.models.row_blocks.CACHED_ROWS", rows)
    levels = torch.randint(0, 256, (shape[0], 3, *shape[1:]))
    by_rows = nll_and_gradients(network, levels, "raster")
    monkeypatch.setattr(compact, "find_layout", lambda *anything: None)
    by_convolution = nll_and_gradients(network, levels, "raster")
    assert len(by_rows) == len(by_convolution)
    for ours, theirs in zip(by_rows, by_convolution, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("order", "usable"), [("raster", True), ("raster:flip", False), ("s-curve", False)]
)
def test_only_orders_that_look_back_go_by_rows(
    network: CompactNetwork, order: str, usable: bool
) -> None:
    masks = MaskCache().get(parse_order(order), 8, 9)
    layers = [block.conv for block in network.blocks]
    assert (find_layout(torch.zeros(2, 10, 8, 9), layers, masks) is not None) == usable
