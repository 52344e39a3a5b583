"""Drawn images: as often as the network says, the same whatever computes, and given pixels kept."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from support.chi_squared import chi_squared
from support.networks import (
    ANY_ORDER,
    Images,
    compact_network,
    custom_order,
    random_network,
    smooth_images,
)

from lmzip.cost import to_bits
from lmzip.native.backends import find_backend, list_kernels
from lmzip.network.integer_network import IntegerNetwork
from lmzip.network.temperature import with_temperature
from lmzip.order.orders import Order, parse_order
from lmzip.stream.encoder import encode_images
from lmzip.stream.sampler import draw_images

BACKENDS = ["numpy", *(kernel.name for kernel in list_kernels())]
SAMPLES = 20_000


def draw(
    network: IntegerNetwork, order: Order, count: int, shape: tuple[int, int, int], seed: int = 0,
    backend: str = "auto",
) -> Images:  # fmt: skip
    given = np.zeros((count, *shape), np.uint8)
    everything = np.ones(shape[:2], bool)
    return draw_images(network, order, given, everything, find_backend(backend), seed=seed)


def probabilities(network: IntegerNetwork, order: Order, images: Images) -> npt.NDArray[np.float64]:
    (stream,) = encode_images(network, order, images, find_backend())
    return np.array([2 ** -to_bits(int(cost)) for cost in stream.costs.sum((1, 2, 3))])


@pytest.mark.parametrize(
    "order", [Order("raster"), parse_order("s-curve:transpose-flip"), custom_order(2, 2, seed=3)],
    ids=["raster", "s-curve", "custom"],
)  # fmt: skip
def test_samples_are_as_frequent_as_enumerated(order: Order) -> None:
    """A cold network expects few levels, so that all images of four pixels can be enumerated."""
    network = with_temperature(compact_network(orders=ANY_ORDER, channels=1), 0.008)
    images = draw(network, order, SAMPLES, (2, 2, 1))
    low, high = int(images.min()), int(images.max())
    assert high - low < 16
    outcomes = np.array(list(itertools.product(range(low, high + 1), repeat=4)), np.uint8)
    expected = probabilities(network, order, outcomes.reshape(-1, 2, 2, 1)) * SAMPLES
    assert abs(expected.sum() / SAMPLES - 1) < 0.002
    digits = images.reshape(-1, 4).astype(np.int64) - low
    numbers = digits @ (high - low + 1) ** np.arange(3, -1, -1)
    counts = np.bincount(numbers, minlength=len(outcomes))
    assert abs(chi_squared(counts, expected)) < 4
    # The test would notice another distribution: that of a network a little warmer.
    warmer = with_temperature(compact_network(orders=ANY_ORDER, channels=1), 0.009)
    other = probabilities(warmer, order, outcomes.reshape(-1, 2, 2, 1)) * SAMPLES
    assert chi_squared(counts, other) > 10


@pytest.mark.parametrize("order", ["raster", "s-curve:mirror", "hilbert"])
def test_images_do_not_depend_on_what_computes(order: str) -> None:
    for network in (compact_network(orders=ANY_ORDER), random_network()):
        first = draw(network, parse_order(order), 3, (5, 7, 3), backend="numpy")
        for backend in BACKENDS:
            again = draw(network, parse_order(order), 3, (5, 7, 3), backend=backend)
            assert np.array_equal(again, first)


def test_an_image_depends_on_its_seed_and_number_alone() -> None:
    network, order = compact_network(), Order("raster")
    images = draw(network, order, 4, (6, 6, 3), seed=7)
    assert np.array_equal(draw(network, order, 2, (6, 6, 3), seed=7), images[:2])
    assert not np.array_equal(draw(network, order, 4, (6, 6, 3), seed=8), images)
    assert not np.array_equal(images[0], images[1])


@pytest.mark.parametrize("channels", [1, 3])
def test_given_pixels_stay(channels: int) -> None:
    network, given = compact_network(orders=ANY_ORDER), smooth_images(2, 6, 8, channels)
    hidden = np.zeros((6, 8), bool)
    hidden[2:5, 1:6] = True
    for order in (Order("raster"), custom_order(6, 8)):
        images = draw_images(network, order, given, hidden, find_backend())
        assert np.array_equal(images[:, ~hidden], given[:, ~hidden])
        assert not np.array_equal(images[:, hidden], given[:, hidden])


def test_what_a_sample_costs_is_its_likelihood() -> None:
    """The coder comes within 0.2 % of the mixture's own code length, and the bytes with it."""
    network, order = compact_network(orders=ANY_ORDER), parse_order("s-curve")
    images = draw(network, order, 40, (16, 16, 3))
    (stream,) = encode_images(network, order, images, find_backend())
    bits = to_bits(int(stream.costs.sum()))
    assert abs(8 * len(stream.data) / bits - 1) < 0.002
