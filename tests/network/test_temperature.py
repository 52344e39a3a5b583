"""Temperature: only tables change, and the result is a network like any other."""

from __future__ import annotations

import numpy as np
import pytest
from support.networks import compact_network, smooth_images

from lmzip.errors import InputError
from lmzip.network.backend import get_backend
from lmzip.network.temperature import with_temperature
from lmzip.order.orders import Order
from lmzip.stream.decoder import decode_images
from lmzip.stream.encoder import encode_images


def test_one_changes_nothing() -> None:
    assert with_temperature(compact_network(), 1.0) is compact_network()


@pytest.mark.parametrize("temperature", [1e-9, 0.3, 0.9, 1.5, 1e9])
def test_a_tempered_network_is_exact_and_codes(temperature: float) -> None:
    network = with_temperature(compact_network(), temperature)
    network.prove_exact()
    images = smooth_images(1, 6, 7)
    (stream,) = encode_images(network, Order("raster"), images, get_backend())
    shape = images.shape[1:]
    decoded = decode_images(network, Order("raster"), shape, [stream.data], [1], get_backend())
    assert np.array_equal(decoded, images)


def test_cold_networks_are_more_certain() -> None:
    """What lies at the predicted level costs less, what lies far off costs more."""
    flat, noise = np.full((1, 8, 8, 3), 127, np.uint8), smooth_images(1, 8, 8, noise=40)
    costs = {}
    for temperature in (0.5, 1.0, 2.0):
        network = with_temperature(compact_network(), temperature)
        for name, images in (("flat", flat), ("noise", noise)):
            (stream,) = encode_images(network, Order("raster"), images, get_backend())
            costs[name, temperature] = int(stream.costs.sum())
    assert costs["flat", 0.5] < costs["flat", 1.0] < costs["flat", 2.0]
    assert costs["noise", 0.5] > costs["noise", 1.0]


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_a_temperature_is_positive_and_finite(temperature: float) -> None:
    with pytest.raises(InputError, match="must be positive and finite"):
        with_temperature(compact_network(), temperature)
