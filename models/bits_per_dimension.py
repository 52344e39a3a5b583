"""The mean bits per dimension of images: under a float network, an integer network, and coded."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from lmzip.cost import to_bits
from lmzip.models.lmconv import MaskSet
from lmzip.models.weights import Network
from lmzip.native.backends import find_backend
from lmzip.network.integer_network import IntegerNetwork
from lmzip.order.orders import Order
from lmzip.stream.encoder import encode_images

_BATCH = 16  # images


@torch.no_grad()
def measure_float(
    network: Network, levels: Tensor, masks: Sequence[MaskSet], batch_size: int = _BATCH
) -> float:
    """Return a float network's bits per dimension of levels (N, C, H, W), the mean over orders."""
    device = next(network.parameters()).device
    nats = 0.0
    for order in masks:
        for batch in torch.split(levels, batch_size):
            nats += float(network.nll(batch.to(device), order).sum())
    return nats / (levels.numel() * len(masks) * math.log(2))


def measure_integers(network: IntegerNetwork, levels: Tensor, order: Order) -> tuple[float, float]:
    """Return bits per dimension under the integer mixture, and of the coded bytes."""
    cost = size = 0
    for batch in torch.split(levels, _BATCH):
        pixels = batch.permute(0, 2, 3, 1).contiguous().numpy()
        for stream in encode_images(network, order, pixels, find_backend()):
            cost += int(stream.costs.sum())
            size += len(stream.data)
    return to_bits(cost) / levels.numel(), 8 * size / levels.numel()
