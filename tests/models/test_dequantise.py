"""The float network of an integer one costs what the integers do."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from support.networks import ANY_ORDER, compact_network, smooth_images

from lmzip.cost import COST_BITS
from lmzip.models.dequantise import dequantise, float_layers
from lmzip.models.lmconv import MaskSet
from lmzip.network.adaptation import MOST, ONE, SHIFT
from lmzip.network.backend import get_backend
from lmzip.order.orders import parse_order
from lmzip.stream.encoder import encode_images
from lmzip.stream.precision import PLAIN_SHARPNESS, Precision


@pytest.mark.parametrize("name", ["raster", "s-curve", "hilbert:transpose"])
@pytest.mark.parametrize("channels", [1, 3])
def test_it_costs_what_the_integers_cost(name: str, channels: int) -> None:
    network, order = compact_network(orders=ANY_ORDER), parse_order(name)
    images = smooth_images(2, 12, 13, channels)
    (stream,) = encode_images(network, order, images, get_backend())
    levels = torch.from_numpy(images).permute(0, 3, 1, 2)
    with torch.no_grad():
        nats = dequantise(network).nll(levels, MaskSet(order.ranks(12, 13)))
    bits = nats.double().numpy() / math.log(2)
    costs = stream.costs.sum(3) / (1 << COST_BITS)
    assert np.abs(bits - costs).mean() < 0.02 * bits.mean()
    assert abs(bits.sum() - costs.sum()) < 0.005 * bits.sum()


@pytest.mark.parametrize("precision", [Precision(9), Precision(12, sharpness=40)])
@pytest.mark.parametrize("channels", [1, 3])
def test_deep_samples_cost_what_the_integers_cost(precision: Precision, channels: int) -> None:
    network, order = compact_network(), parse_order("raster")
    images = smooth_images(2, 12, 13, channels).astype(np.uint16) << (precision.depth - 8)
    images += np.random.default_rng(0).integers(2, size=images.shape, dtype=np.uint16)
    (stream,) = encode_images(network, order, images, get_backend(), precision=precision)
    floats = dequantise(network)
    floats.levels, floats.sharpness = 1 << precision.depth, precision.sharpness / PLAIN_SHARPNESS
    levels = torch.from_numpy(images.astype(np.int32)).permute(0, 3, 1, 2)
    with torch.no_grad():
        nats = floats.nll(levels, MaskSet(order.ranks(12, 13)))
    bits = nats.double().numpy() / math.log(2)
    costs = stream.costs.sum(3) / (1 << COST_BITS)
    assert np.abs(bits - costs).mean() < 0.02 * bits.mean()
    assert abs(bits.sum() - costs.sum()) < 0.005 * bits.sum()


def test_what_adaptation_changes_becomes_weights_and_biases() -> None:
    """The output layer with changes gives what the integers give, and what was added to them."""
    network = compact_network()
    layer = float_layers(network)[-1]
    outputs, _, width = network.out.weight.shape
    state = np.random.default_rng(0)
    changes = state.integers(-MOST, MOST + 1, (outputs, width + 1), np.int32)
    features = state.integers(0, network.activation_max + 1, width)
    weight, bias = layer.adapted(changes)
    found = weight[:, :, 0, 0] @ torch.from_numpy(features).float() + bias
    added = (changes[:, :-1] @ features + changes[:, -1] * ONE) / (1 << SHIFT)
    unit = layer.factor.numpy() * np.exp2(layer.layer.shift.astype(float))  # of integer outputs
    assert np.allclose(found.numpy(), added * unit, rtol=1e-4, atol=1e-6)
