"""Images to streams and back: every order, shape and content, and what a stream costs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.networks import (
    ALL_ORDERS,
    ANY_ORDER,
    Images,
    compact_network,
    custom_order,
    harsh_images,
    random_network,
    smooth_images,
    various_images,
)

from lmzip.errors import DamagedError, OrderError
from lmzip.network.backend import get_backend
from lmzip.network.integer_network import IntegerNetwork
from lmzip.order.orders import Order, observed_first, parse_order, transform_grid
from lmzip.stream.decoder import decode_images
from lmzip.stream.encoder import encode_images

BACKEND = get_backend()


def round_trip(network: IntegerNetwork, order: Order, images: Images) -> bytes:
    """Encode and decode images as one stream, and return it."""
    (stream,) = encode_images(network, order, images, BACKEND)
    decoded = decode_images(network, order, images.shape[1:], [stream.data], [len(images)], BACKEND)
    assert decoded.dtype == np.uint8
    assert np.array_equal(decoded, images)
    assert stream.costs.shape == images.shape
    return stream.data


@pytest.mark.parametrize("order", ALL_ORDERS, ids=str)
def test_every_order_and_variant(order: Order) -> None:
    network = compact_network(orders=ANY_ORDER)
    round_trip(network, order, smooth_images(1, 1, 1))
    for height, width in ((1, 9), (9, 1), (13, 16)):
        round_trip(network, order, smooth_images(2, height, width))


@pytest.mark.slow
@pytest.mark.parametrize("order", ALL_ORDERS, ids=str)
def test_every_order_and_variant_at_full_size(order: Order) -> None:
    for height, width in ((48, 48), (31, 48)):
        round_trip(random_network(), order, harsh_images(1, height, width))


def test_many_images_of_one_pixel() -> None:
    """Nothing to look at: no layer has a tap that any pixel can see, but its own."""
    for network in (compact_network(orders=ANY_ORDER), random_network()):
        round_trip(network, Order("raster"), smooth_images(5, 1, 1))


@given(
    order=st.sampled_from([*ALL_ORDERS, None]),
    height=st.integers(1, 14),
    width=st.integers(1, 14),
    channels=st.sampled_from([1, 3]),
    count=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=30)
def test_any_shape_and_content(
    order: Order | None, height: int, width: int, channels: int, count: int, seed: int
) -> None:
    """With no family, the order is a permutation of its own."""
    chosen = order or custom_order(height, width, seed)
    state = np.random.default_rng(seed)
    levels = int(state.integers(1, 257))
    images = state.integers(0, levels, (count, height, width, channels), dtype=np.uint8)
    round_trip(random_network(), chosen, images)


@pytest.mark.parametrize("channels", [1, 3])
def test_contents(channels: int) -> None:
    for name, image in various_images(17, 23, channels):
        stream = round_trip(compact_network(), Order("raster"), image[None])
        if name == "constant":
            assert len(stream) < image.size / 2
        if name == "noise":
            assert len(stream) < image.size * 2


@pytest.mark.slow
def test_large_raster() -> None:
    """One stream of 700 x 900 pixels, with no tiles to make it smaller."""
    round_trip(compact_network(), Order("raster"), smooth_images(1, 700, 900))


def test_observed_pixels_come_first() -> None:
    hidden = np.zeros((12, 10), bool)
    hidden[4:8, 3:9] = True
    ranks = observed_first(parse_order("raster").ranks(12, 10), hidden)
    order = parse_order(np.argsort(ranks, axis=None))
    round_trip(random_network(), order, harsh_images(2, 12, 10))


@pytest.mark.parametrize("order", [o for o in ALL_ORDERS if str(o) != "raster"], ids=str)
def test_orders_are_masks_and_not_permuted_images(order: Order) -> None:
    """A stream is no raster stream of an image flipped, transposed or laid out along the walk."""
    network = compact_network(orders=ANY_ORDER)
    (image,) = smooth_images(1, 12, 12)
    stream = round_trip(network, order, image[None])
    planes = image.transpose(2, 0, 1)
    moved: list[Images] = []
    for variant in range(8):
        moved.append(transform_grid(planes, variant).transpose(1, 2, 0).astype(np.uint8))
    moved.append(image.reshape(-1, 3)[order.positions(12, 12)].reshape(image.shape))
    for other in moved:
        (by_raster,) = encode_images(network, Order("raster"), other[None], BACKEND)
        assert by_raster.data != stream


def test_costs_are_what_the_stream_takes() -> None:
    """The coder adds some words' worth of state, and little else."""
    network, order = compact_network(), Order("raster")
    images = smooth_images(40, 32, 32)
    (stream,) = encode_images(network, order, images, BACKEND)
    bits = stream.costs.sum() / 2**16
    assert bits - 64 <= 8 * len(stream.data) <= 1.002 * bits + 64


def test_costs_belong_to_their_image() -> None:
    network, order = compact_network(), Order("raster")
    images = np.concatenate([smooth_images(2, 10, 11), harsh_images(2, 10, 11)])
    (together,) = encode_images(network, order, images, BACKEND)
    for image, costs in zip(images, together.costs, strict=True):
        (alone,) = encode_images(network, order, image[None], BACKEND)
        assert np.array_equal(alone.costs[0], costs)


def test_damaged_streams_never_pass_for_whole_ones() -> None:
    """A flipped bit changes the pixels or is noticed; a stream has no checksum of its own."""
    network, order, images = compact_network(), Order("raster"), smooth_images(1, 8, 9)
    data = round_trip(network, order, images)
    for position in range(0, len(data), 5):
        damaged = bytearray(data)
        damaged[position] ^= 1 << (position % 8)
        try:
            decoded = decode_images(network, order, (8, 9, 3), [bytes(damaged)], [1], BACKEND)
        except DamagedError:
            continue
        assert not np.array_equal(decoded, images)


@pytest.mark.parametrize("cut", [1, 2, 4, 40])
def test_cut_streams(cut: int) -> None:
    network, order, images = compact_network(), Order("raster"), smooth_images(1, 8, 9)
    data = round_trip(network, order, images)
    try:
        decoded = decode_images(network, order, (8, 9, 3), [data[:-cut]], [1], BACKEND)
    except DamagedError:
        return
    assert not np.array_equal(decoded, images)


def test_a_permutation_of_another_size_is_refused() -> None:
    with pytest.raises(OrderError, match="100 entries"):
        encode_images(random_network(), custom_order(10, 10), smooth_images(1, 10, 11), BACKEND)
