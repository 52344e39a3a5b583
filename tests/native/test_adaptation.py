"""Networks that adapt: every kernel learns what numpy learns, and reads what any other wrote."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from support.networks import compact_network, harsh_images, random_network, smooth_images

from lmzip.native import known_answers
from lmzip.native.backends import list_kernels
from lmzip.native.known_answers import make_adaptive_network
from lmzip.native.packing import Kernel
from lmzip.network.adaptation import BY_ERRORS, BY_FEATURES, Manner
from lmzip.network.backend import Backend, get_backend
from lmzip.network.integer_network import IntegerNetwork
from lmzip.order.orders import Order
from lmzip.order.schedule import compile_schedule
from lmzip.stream.decoder import decode_images
from lmzip.stream.encoder import encode_images
from lmzip.stream.sequence import Pixels

LESSON = 256  # columns that kernels learn from at once
KERNELS = list_kernels()

pytestmark = pytest.mark.skipif(not KERNELS, reason="no kernel was built")


def check_all(network: IntegerNetwork, order: Order, images: Pixels) -> None:
    """All kernels write what numpy writes, count the same costs, and read it again."""
    plain = encode_images(network, order, images, KERNELS[0])[0]
    written = {plain.data}
    for manner in (BY_FEATURES, BY_ERRORS):
        expected = encode_images(network, order, images, get_backend(), manner=manner)[0]
        assert expected.data not in written, "there was nothing to learn"
        written.add(expected.data)
        for kernel in KERNELS:
            found = encode_images(network, order, images, kernel, manner=manner)[0]
            assert found.data == expected.data, kernel
            assert np.array_equal(found.costs, expected.costs), kernel
            shape = images.shape[1:]
            decoded = decode_images(network, order, shape, [found.data], [1], kernel, manner=manner)
            assert np.array_equal(decoded, images), kernel


@pytest.mark.parametrize("manner", [BY_FEATURES, BY_ERRORS])
def test_a_watch_sees_the_same_changes_everywhere(manner: Manner) -> None:
    network, order = random_network(), Order("raster")
    images = smooth_images(1, 20, 31, noise=10)

    def watch_all(backend: Backend | Kernel) -> list[tuple[int, npt.NDArray[np.int32]]]:
        seen: list[tuple[int, npt.NDArray[np.int32]]] = []
        encode_images(
            network, order, images, backend, manner=manner, watch=lambda *each: seen.append(each)
        )
        return seen

    expected = watch_all(get_backend())
    places, changes = zip(*expected, strict=True)
    starts = compile_schedule(order, 20, 31, network.layers).starts
    assert list(places) == starts[1:].tolist()
    outputs, _, features = network.out.weight.shape
    assert changes[0].shape == (outputs, features + 1)
    assert not changes[0].any()
    assert changes[-1].any()
    for kernel in KERNELS:
        for (place, ours), (stop, theirs) in zip(watch_all(kernel), expected, strict=True):
            assert place == stop
            assert np.array_equal(ours, theirs), kernel


def scattered_order(height: int, width: int, apart: int) -> Order:
    """Visit a grid of pixels that do not see each other, then the next grid: steps are long."""
    rows, columns = np.divmod(np.arange(height * width), width)
    phases = rows % apart * apart + columns % apart
    return Order("custom", permutation=tuple(np.argsort(phases, kind="stable").tolist()))


@pytest.mark.parametrize("channels", [3, 1])
@pytest.mark.parametrize(
    "network",
    [
        pytest.param(random_network(), id="random"),
        pytest.param(random_network(1, width=35), id="wide"),
        pytest.param(compact_network(), id="compact"),
        pytest.param(make_adaptive_network(), id="extreme"),
    ],
)
def test_networks_and_images(network: IntegerNetwork, channels: int) -> None:
    order = Order("raster", 5 if network.name == "known answers" else 0)
    check_all(network, order, smooth_images(1, 30, 43, channels, noise=15))
    check_all(network, order, harsh_images(1, 27, 38, channels))


def test_a_network_for_one_channel() -> None:
    check_all(random_network(channels=1), Order("raster"), smooth_images(1, 30, 43, 1))


@pytest.mark.parametrize(("height", "width"), [(1, 190), (190, 1), (5, 61), (2, 400), (70, 90)])
def test_shapes(height: int, width: int) -> None:
    check_all(random_network(), Order("raster"), smooth_images(1, height, width))


@pytest.mark.parametrize("channels", [3, 1])
def test_steps_longer_than_a_lesson(channels: int) -> None:
    network, order = random_network(), scattered_order(53, 97, 3)
    assert compile_schedule(order, 53, 97, network.layers).longest > 2 * LESSON
    check_all(network, order, smooth_images(1, 53, 97, channels, noise=10))


@pytest.mark.parametrize("mixtures", [1, 16, 17, 35])
def test_logistics_that_fill_blocks_or_do_not(
    mixtures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_answers, "make_network", known_answers.make_network.__wrapped__)
    monkeypatch.setattr(known_answers, "MIXTURES", mixtures)
    network = make_adaptive_network.__wrapped__()
    assert network.mixtures == mixtures
    check_all(network, Order("raster", 5), smooth_images(1, 30, 43))
