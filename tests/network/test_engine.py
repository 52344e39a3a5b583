"""The engine against the oracle's network, and against itself in other ranges and batches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import oracle_streams
from support.networks import (
    ANY_ORDER,
    Images,
    compact_network,
    custom_order,
    harsh_images,
    random_network,
    smooth_images,
    to_oracle,
)

from lmzip.network.backend import get_backend
from lmzip.network.engine import Pass
from lmzip.network.integer_network import IntegerNetwork
from lmzip.network.parameters import Parameters
from lmzip.order.orders import Order
from lmzip.order.schedule import Schedule, compile_schedule

HEIGHT, WIDTH = 8, 9
ORDERS = [Order("raster"), Order("s-curve", 1), Order("hilbert", 6), custom_order(HEIGHT, WIDTH)]


def in_sequence(
    images: Images, schedule: Schedule
) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    """Return the samples as (places, images, channels)."""
    count, _, _, channels = images.shape
    flat = images.reshape(count, -1, channels)[:, schedule.sequence]
    return flat.transpose(1, 0, 2).astype(np.int32)


def run_in_ranges(
    network: IntegerNetwork, order: Order, images: Images, span: int, backend: str = "numpy"
) -> Parameters:
    """Evaluate a whole image in ranges of `span` places."""
    schedule = compile_schedule(order, HEIGHT, WIDTH, network.layers)
    run = Pass(network, schedule, len(images), span, get_backend(backend))
    run.write_inputs(0, schedule.pixels, 2 * in_sequence(images, schedule) - 255)
    places = range(0, schedule.pixels, span)
    return join([run.advance(start, min(start + span, schedule.pixels)) for start in places])


def run_in_steps(network: IntegerNetwork, order: Order, images: Images) -> Parameters:
    """Evaluate as a decoder does: a step at a time, with nothing known of what follows."""
    schedule = compile_schedule(order, HEIGHT, WIDTH, network.layers)
    longest = schedule.longest
    run = Pass(network, schedule, len(images), longest, get_backend())
    samples, parts = in_sequence(images, schedule), []
    for start, stop in zip(
        schedule.starts[:-1].tolist(), schedule.starts[1:].tolist(), strict=True
    ):
        parts.append(run.advance(start, stop))
        run.write_inputs(start, stop, 2 * samples[start:stop] - 255)
    return join(parts)


def join(parts: list[Parameters]) -> Parameters:
    """Put the parameters of consecutive ranges side by side."""
    names = ("logits", "means", "log_scales", "coefficients")
    return Parameters(*(np.concatenate([getattr(p, n) for p in parts], -1) for n in names))


def assert_equal(left: Parameters, right: Parameters) -> None:
    for name in ("logits", "means", "log_scales", "coefficients"):
        assert np.array_equal(getattr(left, name), getattr(right, name)), name


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_outputs_are_the_oracles(order: Order) -> None:
    images = np.concatenate([harsh_images(1, HEIGHT, WIDTH), smooth_images(1, HEIGHT, WIDTH)])
    for network in (random_network(), compact_network(orders=ANY_ORDER)):
        found = run_in_steps(network, order, images)
        reference = to_oracle(network)
        schedule = compile_schedule(order, HEIGHT, WIDTH, network.layers)
        ranks = order.ranks(HEIGHT, WIDTH).ravel().tolist()
        features = [oracle_streams.Features(reference, ranks, HEIGHT, WIDTH) for _ in images]
        column = 0
        for pixel in schedule.sequence.tolist():
            for image, feature in zip(images, features, strict=True):
                expected = oracle_streams.Mixture(
                    reference, feature.outputs(pixel), feature.linear(pixel)
                )
                assert found.means[:, :, column].tolist() == expected.means
                assert found.log_scales[:, :, column].tolist() == expected.log_scales
                couplings = list(expected.couplings.values())
                assert found.coefficients[:, :, column].tolist() == couplings
                sample = image.reshape(-1, 3)[pixel]
                feature.inputs[pixel] = [2 * int(value) - 255 for value in sample]
                column += 1


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_ranges_do_not_matter(order: Order) -> None:
    network, images = random_network(), harsh_images(3, HEIGHT, WIDTH)
    stepwise = run_in_steps(network, order, images)
    for span in (1, 2, 5, 31, HEIGHT * WIDTH, 1000):
        assert_equal(run_in_ranges(network, order, images, span), stepwise)
    assert_equal(run_in_ranges(network, order, images, 7, "torch"), stepwise)


@given(start=st.integers(0, HEIGHT * WIDTH - 1), span=st.integers(1, HEIGHT * WIDTH))
@settings(max_examples=20)
def test_later_pixels_do_not_matter(start: int, span: int) -> None:
    """Change every pixel from some place of the order on: nothing up to that place moves."""
    order, network = Order("hilbert"), random_network()
    (image,) = harsh_images(1, HEIGHT, WIDTH)
    schedule = compile_schedule(order, HEIGHT, WIDTH, network.layers)
    changed = image.reshape(-1, 3).copy()
    changed[schedule.sequence[start:]] ^= 0x55
    before = run_in_ranges(network, order, image[None], span)
    after = run_in_ranges(network, order, changed.reshape(1, HEIGHT, WIDTH, 3), span)
    for name in ("logits", "means", "log_scales", "coefficients"):
        left, right = getattr(before, name), getattr(after, name)
        assert np.array_equal(left[..., : start + 1], right[..., : start + 1])


def test_earlier_pixels_do_matter() -> None:
    """The counterpart, so that the test above cannot pass because nothing ever matters."""
    network, order = random_network(), Order("hilbert")
    (image,) = harsh_images(1, HEIGHT, WIDTH)
    schedule = compile_schedule(order, HEIGHT, WIDTH, network.layers)
    changed = image.reshape(-1, 3).copy()
    changed[schedule.sequence[0]] ^= 0x55
    before = run_in_ranges(network, order, image[None], 5)
    after = run_in_ranges(network, order, changed.reshape(1, HEIGHT, WIDTH, 3), 5)
    assert not np.array_equal(before.means[..., 1], after.means[..., 1])


def test_images_of_a_batch_do_not_matter_to_each_other() -> None:
    network, order, images = random_network(), Order("raster"), harsh_images(5, HEIGHT, WIDTH)
    together = run_in_ranges(network, order, images, 10)
    for number in range(len(images)):
        alone = run_in_ranges(network, order, images[number : number + 1], 10)
        assert np.array_equal(together.means[..., number :: len(images)], alone.means)
