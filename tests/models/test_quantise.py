"""Export: the integer network says what the float network says, within what rounding costs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from support.networks import ANY_ORDER, Images, smooth_images

from lmzip.cost import COST_BITS
from lmzip.errors import ModelError
from lmzip.models.compact import Block, CompactConfig, CompactNetwork
from lmzip.models.lmconv import MaskSet
from lmzip.models.quantise import make_tables, quantise
from lmzip.network.backend import get_backend
from lmzip.network.integer_network import EXACT, IntegerNetwork
from lmzip.order.orders import Order
from lmzip.stream.encoder import encode_images

CONFIG = CompactConfig(12, 5, (Block(12), Block(10, dilation=2)), mixtures=4)


def make_network(config: CompactConfig = CONFIG, seed: int = 0) -> CompactNetwork:
    """Return a network whose blocks and outputs all matter, as after training."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = CompactNetwork(config)
        for block in network.blocks:
            torch.nn.init.normal_(block.project.weight, std=0.2)
            torch.nn.init.normal_(block.conv.mask_weight, std=0.1)
        torch.nn.init.normal_(network.first.mask_weight, std=0.1)
        torch.nn.init.normal_(network.out.weight, std=0.05)
    return network


def to_tensor(images: Images) -> torch.Tensor:
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()


def export(network: CompactNetwork, orders: tuple[str, ...] = ("raster",)) -> IntegerNetwork:
    calibration = smooth_images(8, 20, 20, network.channels, seed=1)
    return quantise(network, to_tensor(calibration), orders, "test", {})


def measure_bpd(
    network: CompactNetwork, integers: IntegerNetwork, images: Images, order: Order
) -> tuple[float, float]:
    """Return the bits per dimension of the float network and of the integer one."""
    masks = MaskSet(order.ranks(*images.shape[1:3]))
    with torch.no_grad():
        nats = network.nll(to_tensor(images), masks).sum().item()
    (stream,) = encode_images(integers, order, images, get_backend())
    bits = stream.costs.sum() / 2**COST_BITS
    return nats / math.log(2) / images.size, bits / images.size


@pytest.mark.parametrize(
    "order", [Order("raster"), Order("s-curve", 3), Order("raster", 6)], ids=str
)
@pytest.mark.parametrize("seed", [0, 1])
def test_bpd_of_both_networks_agree(order: Order, seed: int) -> None:
    """On images that the scales were not chosen by; biases, mask weights and mixture included."""
    network = make_network(seed=seed)
    integers = export(network, ANY_ORDER if order != Order("raster") else ("raster",))
    exact, rounded = measure_bpd(network, integers, smooth_images(4, 24, 24, seed=9), order)
    assert abs(rounded - exact) < 0.005
    assert exact < 6


@pytest.mark.parametrize("channels", [1, 3])
def test_other_numbers_of_channels(channels: int) -> None:
    config = CompactConfig(10, 5, (Block(8),), mixtures=3, channels=channels)
    network = make_network(config)
    images = smooth_images(4, 20, 20, channels, seed=4)
    exact, rounded = measure_bpd(network, export(network), images, Order("raster"))
    assert abs(rounded - exact) < 0.005


def test_grey_images_in_a_colour_network() -> None:
    network = make_network()
    images = smooth_images(4, 20, 20, 1, seed=4)
    exact, rounded = measure_bpd(network, export(network), images, Order("raster"))
    assert abs(rounded - exact) < 0.005


def test_scales_are_as_fine_as_the_bound_allows() -> None:
    """One more bit for an output's weights, and its sums could leave the exact range."""
    integers = export(make_network())
    top = integers.activation_max
    layers = [(integers.first, 255), (integers.out, top)]
    layers += [(layer, top) for block in integers.blocks for layer in block]
    for layer, largest in layers:
        bounds = layer.bounds(largest)
        assert (bounds < EXACT).all()
        finest = (layer.shift == 24) | (abs(layer.weight).max((1, 2)) > (1 << 14) - 2)
        assert ((bounds > EXACT // 2 - (1 << 16)) | finest).all()


def test_only_taps_that_an_order_can_see_are_kept() -> None:
    raster, every = export(make_network()), export(make_network(), ANY_ORDER)
    assert len(raster.first.taps.offsets) == 12
    assert len(every.first.taps.offsets) == 24
    assert all(offset < (0, 0) for offset in raster.first.taps.offsets)
    assert [len(conv.taps.offsets) for conv, _ in raster.blocks] == [5, 5]
    assert [len(conv.taps.offsets) for conv, _ in every.blocks] == [9, 9]
    for network in (raster, every):
        assert (0, 0) not in network.first.taps.offsets
        assert network.blocks[1][0].taps.offsets[0] == (-2, -2)


def test_channels_that_never_fire_do_no_harm() -> None:
    network = make_network()
    first, conv = network.first, next(iter(network.blocks)).conv
    assert first.bias is not None
    assert conv.bias is not None
    with torch.no_grad():
        first.weight[3] = 0
        first.bias[3] = -1
        conv.bias[2] = -100
    exact, rounded = measure_bpd(
        network, export(network), smooth_images(4, 24, 24, seed=9), Order("raster")
    )
    assert abs(rounded - exact) < 0.005


def test_weights_that_cannot_fit_are_refused() -> None:
    network = make_network()
    with torch.no_grad():
        network.out.weight[5] *= 1e6
    with pytest.raises(ModelError, match="output 5"):
        export(network)
    network = make_network()
    with torch.no_grad():
        network.predictor.weight[200] = 5000
    with pytest.raises(ModelError, match="predictor"):
        export(network)


def test_networks_of_other_levels_are_refused() -> None:
    config = CompactConfig(8, 3, (Block(8),), mixtures=2, levels=2)
    with pytest.raises(ModelError, match="levels"):
        export(CompactNetwork(config))


def test_tables_are_the_functions_they_stand_for() -> None:
    tables = make_tables()
    middle = np.arange(1 << 14) + 0.5 - (1 << 13)
    logistic = 2**16 / (1 + np.exp(-middle * 24 / 2**14))
    assert np.abs(tables.logistic - logistic).max() <= 0.5
    assert np.array_equal(tables.logistic + tables.logistic[::-1], np.full(1 << 14, 1 << 16))
    assert (np.diff(tables.inverse_scale) <= 0).all()
    assert tables.weight[0] == 1 << 16
    assert tables.weight[64] == 1 << 15
    assert tables.weight[-1] == 0
    assert tables.log2[0] < tables.log2[-1] < 1 << COST_BITS
