"""A network that has grown computes what it did, and its copies can part."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from lmzip.errors import InputError
from lmzip.models.batches import MaskCache
from lmzip.models.compact import Block, CompactConfig, CompactNetwork
from lmzip.models.grow import grow, main
from lmzip.models.weights import load_network, save_network
from lmzip.order.orders import parse_order

LEVELS = torch.randint(0, 256, (2, 3, 9, 8), generator=torch.Generator().manual_seed(0))


def make_network() -> CompactNetwork:
    torch.manual_seed(1)
    network = CompactNetwork(CompactConfig(6, 5, (Block(6), Block(4, 3, 2)), 2))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return network


def nll(network: CompactNetwork, order: str = "raster") -> torch.Tensor:
    return network.nll(LEVELS, MaskCache().get(parse_order(order), 9, 8))


@pytest.mark.parametrize("order", ["raster", "s-curve"])
@pytest.mark.parametrize("width", [6, 7, 10, 20])
def test_it_computes_the_same(width: int, order: str) -> None:
    network = make_network()
    wide = grow(network, width)
    assert wide.config.width == width
    assert {block.hidden for block in wide.config.blocks} == {width}
    torch.testing.assert_close(nll(wide, order), nll(network, order), rtol=1e-4, atol=1e-3)


def test_copies_learn_different_things() -> None:
    wide = grow(make_network(), 12)
    nll(wide).sum().backward()  # type: ignore[no-untyped-call]
    for block in wide.blocks:
        gradient = block.conv.weight.grad
        assert gradient is not None
        rows = gradient.flatten(1)
        used = rows[rows.any(1)]
        assert torch.unique(used, dim=0).shape == used.shape


def test_it_never_becomes_narrower() -> None:
    with pytest.raises(InputError, match="6 channels cannot be made 5 wide"):
        grow(make_network(), 5)


def test_the_command(tmp_path: Path) -> None:
    narrow, wide = tmp_path / "narrow.safetensors", tmp_path / "wide.safetensors"
    save_network(make_network(), narrow)
    result = CliRunner().invoke(main, [str(narrow), str(wide), "--width", "9"])
    assert result.exit_code == 0, result.output
    loaded = load_network(wide)
    assert isinstance(loaded, CompactNetwork)
    assert loaded.config.width == 9
    result = CliRunner().invoke(main, [str(narrow), str(wide), "--width", "2"])
    assert "cannot be made 2 wide" in result.output
