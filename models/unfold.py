"""Turn a network of plain raster order into the start of one for any order.

    python -m lmzip.models.unfold RASTER.safetensors START.safetensors

In raster order, half of each kernel sees nothing, so it is never trained. Here the upper half is
mirrored into the lower one, and the left neighbours into the right ones: images turned upside down
are much like others, so the flipped order starts as good as raster itself and the other variants
not far behind. Training over all orders from there (recipe `thumb-any`) needs a fraction of what it
needs from random weights.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
import torch
from torch import Tensor

from lmzip.errors import LmzipError
from lmzip.models.compact import CompactConfig, CompactNetwork
from lmzip.models.lmconv import LMConv
from lmzip.models.weights import load_network, load_notes, save_network
from lmzip.order.masks import make_mask
from lmzip.order.orders import parse_order

RASTER = parse_order("raster")


def unfold(network: CompactNetwork) -> CompactNetwork:
    """Return the network with the hidden half of its kernels mirrored from the visible half."""
    unfolded = CompactNetwork(replace(network.config, slope=CompactConfig.slope))
    unfolded.load_state_dict(network.state_dict())
    trained = [module for module in network.modules() if isinstance(module, LMConv)]
    copies = [module for module in unfolded.modules() if isinstance(module, LMConv)]
    with torch.no_grad():
        for source, copy in zip(trained, copies, strict=True):
            # The untrained taps: those of the lower half, and what the network's slope hid.
            seen = make_mask(RASTER.ranks(32, 32), source.kernel).any((1, 2))
            hidden = torch.from_numpy(~seen)
            for weights in (copy.weight, copy.mask_weight):
                if weights is not None:
                    weights.view(*weights.shape[:-2], -1)[..., hidden] = 0
                    _mirror(weights)
    return unfolded


def _mirror(weights: Tensor) -> None:
    """Copy what lies before the centre of kernels (..., H, W) to behind it, mirrored."""
    middle, centre = weights.shape[-2] // 2, weights.shape[-1] // 2
    weights[..., middle + 1 :, :] = weights[..., :middle, :].flip(-2)
    weights[..., middle, centre + 1 :] = weights[..., middle, :centre].flip(-1)


@click.command()
@click.argument("raster", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("start", type=click.Path(path_type=Path, dir_okay=False))
def main(raster: Path, start: Path) -> None:
    """Write the start of an order-agnostic network, made of a RASTER network."""
    try:
        network = load_network(raster)
        if not isinstance(network, CompactNetwork):
            raise LmzipError(f"{raster}: only a compact network can be unfolded")
        save_network(unfold(network), start, {**load_notes(raster), "unfolded_from": raster.name})
    except LmzipError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
