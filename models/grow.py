"""Make a network wider without changing what it computes, so that no hour of training is lost.

    python -m lmzip.models.grow NARROW.safetensors WIDE.safetensors --width 112

Channels of the residual stream and of the hidden layers are copied, and whatever reads a channel
shares its weight out among the copies. The shares are random, since copies that all send and
receive the same would stay copies for ever.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
import torch
from torch import Tensor, nn

from lmzip.errors import InputError, LmzipError
from lmzip.models.compact import CompactNetwork
from lmzip.models.weights import load_network, load_notes, save_network

SPREAD = 0.25  # shares are drawn from 1 - SPREAD to 1 + SPREAD before they are made to add up


def grow(network: CompactNetwork, width: int, seed: int = 0) -> CompactNetwork:
    """Return a network that computes the same with `width` channels, in stream and blocks alike.

    Raises InputError if it would have to become narrower.
    """
    config = network.config
    widest = max(config.width, *(block.hidden for block in config.blocks))
    if width < widest:
        raise InputError(f"a network of {widest} channels cannot be made {width} wide")
    blocks = tuple(replace(block, hidden=width) for block in config.blocks)
    wide = CompactNetwork(replace(config, width=width, blocks=blocks))
    draw = _Shares(torch.Generator().manual_seed(seed))
    stream = draw.sources(config.width, width)
    with torch.no_grad():
        wide.predictor.load_state_dict(network.predictor.state_dict())
        _copy(wide.first, network.first, stream)
        for target, source in zip(wide.blocks, network.blocks, strict=True):
            hidden = draw.sources(len(source.conv.weight), width)
            _copy(target.conv, source.conv, hidden, draw.share(source.conv.weight, stream))
            _copy(target.project, source.project, stream, draw.share(source.project.weight, hidden))
        everything = torch.arange(config.outputs)
        _copy(wide.out, network.out, everything, draw.share(network.out.weight, stream))
    return wide


class _Shares:
    """Draws which channels are copied, and what each copy contributes."""

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator

    def sources(self, narrow: int, wide: int) -> Tensor:
        """Return which channel each new one is a copy of: all of them, then some once more."""
        rounds = [torch.arange(narrow)]
        while narrow * len(rounds) < wide:
            rounds.append(torch.randperm(narrow, generator=self._generator))
        return torch.cat(rounds)[:wide]

    def share(self, weight: Tensor, sources: Tensor) -> Tensor:
        """Return weights (O, wide, ...) whose copies add up to weights (O, narrow, ...)."""
        drawn = torch.rand(len(weight), len(sources), generator=self._generator)
        shares = 1 + SPREAD * (2 * drawn - 1)
        total = torch.zeros(weight.shape[:2]).index_add_(1, sources, shares)
        shares /= total[:, sources]
        return weight[:, sources] * shares.view(*shares.shape, *[1] * (weight.ndim - 2))


def _copy(
    target: nn.Module, source: nn.Module, outputs: Tensor, weight: Tensor | None = None
) -> None:
    """Copy a layer's outputs, all parameters of which count outputs first."""
    state = dict(source.state_dict())
    if weight is not None:
        state["weight"] = weight
    target.load_state_dict({name: tensor[outputs] for name, tensor in state.items()})


@click.command()
@click.argument("narrow", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("wide", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--width", type=click.IntRange(1), required=True, help="Channels of the new network.")
def main(narrow: Path, wide: Path, width: int) -> None:
    """Write a network that computes what a NARROW one does, with more channels."""
    try:
        network = load_network(narrow)
        if not isinstance(network, CompactNetwork):
            raise LmzipError(f"{narrow}: only a compact network can grow")
        save_network(grow(network, width), wide, {**load_notes(narrow), "grown_from": narrow.name})
    except LmzipError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
