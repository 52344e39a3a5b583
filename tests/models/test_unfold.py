"""A raster network, unfolded: the same in raster order, and its mirror image in the flipped one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from lmzip.models.compact import Block, CompactConfig, CompactNetwork
from lmzip.models.lmconv import MaskSet
from lmzip.models.unfold import main, unfold
from lmzip.models.weights import load_network, save_network
from lmzip.order.orders import parse_order

CONFIG = CompactConfig(
    width=8, first=7, blocks=(Block(6), Block(6, dilation=2)), mixtures=2, slope=2
)


@pytest.fixture
def network() -> CompactNetwork:
    network = CompactNetwork(CONFIG)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    return network


def evaluate(network: CompactNetwork, x: torch.Tensor, order: str) -> torch.Tensor:
    with torch.no_grad():
        return network(x, MaskSet(parse_order(order).ranks(*x.shape[2:])))


def test_raster_stays_as_it_was(network: CompactNetwork) -> None:
    x = torch.rand(2, 3, 9, 11) * 2 - 1
    unfolded = unfold(network)
    assert unfolded.config.slope == CompactConfig.slope
    torch.testing.assert_close(evaluate(unfolded, x, "raster"), evaluate(network, x, "raster"))


def test_the_flipped_order_sees_what_raster_sees_of_the_flipped_image(
    network: CompactNetwork,
) -> None:
    x = torch.rand(2, 3, 9, 11) * 2 - 1
    flipped = evaluate(unfold(network), x.flip(2), "raster:flip").flip(3)
    torch.testing.assert_close(flipped, evaluate(network, x, "raster"))
    assert not torch.allclose(evaluate(network, x.flip(2), "raster:flip").flip(3), flipped)


def test_as_a_command(network: CompactNetwork, tmp_path: Path) -> None:
    raster, start = tmp_path / "raster.safetensors", tmp_path / "start.safetensors"
    save_network(network, raster, {"step": 7})
    result = CliRunner().invoke(main, [str(raster), str(start)])
    assert result.exit_code == 0, result.output
    written, expected = load_network(start).state_dict(), unfold(network).state_dict()
    assert all(torch.equal(written[name], expected[name]) for name in expected)
    raster.write_bytes(b"nothing")
    result = CliRunner().invoke(main, [str(raster), str(start)])
    assert result.exit_code == 1
    assert "raster.safetensors" in result.output
