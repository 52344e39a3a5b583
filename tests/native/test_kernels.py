"""Kernels: every one that runs here gives the bytes of numpy, and reads what any other wrote."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from support.networks import (
    custom_order,
    harsh_images,
    random_network,
    smooth_images,
)

import lmzip
from lmzip.native import packing, runs
from lmzip.native.backends import find_backend, list_kernels
from lmzip.native.known_answers import make_network
from lmzip.native.packing import Kernel
from lmzip.network.backend import get_backend
from lmzip.network.integer_network import EXACT, PIXEL_MAX, IntegerNetwork, Layer
from lmzip.network.registry import list_models, load_model
from lmzip.order.orders import Order
from lmzip.order.schedule import Neighbours, compile_schedule
from lmzip.stream.decoder import decode_images
from lmzip.stream.depths import choose_depth
from lmzip.stream.encoder import encode_images
from lmzip.stream.precision import LINEAR, SQUARE_ROOT, Precision
from lmzip.stream.sequence import Pixels
from lmzip.stream.steps import ArraySteps, Steps

Ints = npt.NDArray[np.int64]

KERNELS = list_kernels()
NAMES = ["numpy", *(kernel.name for kernel in KERNELS)]
ORDERS = [Order("raster"), Order("raster", 6), Order("s-curve", 3), Order("hilbert", 1)]
DEEP = [
    (LINEAR, 16, 0),
    (LINEAR, 255, 65535),
    (SQUARE_ROOT, 1, 40000),
]  # curve, sharpness, flatness


def check_all(
    network: IntegerNetwork,
    order: Order,
    images: Pixels,
    groups: list[int],
    precision: Precision | None = None,
) -> None:
    """All kernels write what numpy writes, count the same costs, and read it again."""
    encode = partial(encode_images, network, order, images, precision=precision, groups=groups)
    expected = encode(backend=get_backend())
    data = [stream.data for stream in expected]
    shape = images.shape[1:]
    for kernel in KERNELS:
        streams = encode(backend=kernel)
        assert [stream.data for stream in streams] == data, kernel
        for found, wanted in zip(streams, expected, strict=True):
            assert np.array_equal(found.costs, wanted.costs), kernel
        decoded = decode_images(network, order, shape, data, groups, kernel, precision=precision)
        assert decoded.dtype == images.dtype
        assert np.array_equal(decoded, images), kernel


def deep_images(count: int, height: int, width: int, depth: int, channels: int = 3) -> Pixels:
    """Return noise, a plain of two values, which agrees with its neighbours, and slopes."""
    state = np.random.default_rng(depth)
    white = (1 << depth) - 1
    images = state.integers(0, white, (count, height, width, channels), np.uint16, endpoint=True)
    images[1::3] = np.where(np.arange(width)[:, None] < width // 2, white, 0)
    images[1::3, -1, -1] = 3
    slopes = np.add.outer(np.arange(height), np.arange(width)) * white // (height + width)
    images[2::3] = slopes[..., None]
    return images


def test_kernels_were_built() -> None:
    """Whoever runs the tests has a compiler: the Makefile makes a failed build an error."""
    assert [kernel.name for kernel in KERNELS][-1] == "portable"


@pytest.mark.parametrize("width", [1, 7, 16, 33])
@pytest.mark.parametrize("channels", [1, 3])
def test_layers_of_any_width(width: int, channels: int) -> None:
    network = random_network(width=width, channels=channels)
    for order in (*ORDERS, custom_order(6, 9)):
        check_all(network, order, harsh_images(3, 6, 9, channels), [1, 2])


def test_a_single_channel_of_a_colour_network() -> None:
    check_all(random_network(), Order("raster"), harsh_images(3, 8, 9, 1), [3])


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_weights_and_activations_at_their_ends(order: Order) -> None:
    network = make_network()
    for images in (harsh_images(4, 9, 10), smooth_images(4, 9, 10)):
        check_all(network, order, images, [1, 3])
    for level in (0, 255):
        check_all(network, order, np.full((2, 9, 10, 3), level, np.uint8), [2])


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_sums_close_to_their_limit(order: Order) -> None:
    """White images drive sums of every layer above 0.95 of 2^24, and below -0.95."""
    network = full_network()
    for layer in find_white_sums(network, order, 9, 10):
        assert layer.max() > 0.95 * EXACT
        assert layer.min() < -0.95 * EXACT
    check_all(network, order, np.full((2, 9, 10, 3), 255, np.uint8), [2])
    check_all(network, order, harsh_images(4, 9, 10), [1, 3])


@cache
def full_network() -> IntegerNetwork:
    """Return the network of the known answers with layers that white images fill.

    Even outputs have positive weights for all taps and small shifts: they saturate what the next
    layer reads, whichever taps an order lets it see. Odd ones see a single tap, every other one
    with negative weights: their sums come close to the limit wherever that tap is visible.
    """
    network = make_network()
    first = fill_layer(network.first, PIXEL_MAX, np.arange(3))
    first.shift[::2] = 0
    blocks = []
    for conv, project in network.blocks:
        # By turns a shift that saturates and one that leaves the high bits to be seen.
        wide = fill_layer(conv, network.activation_max, np.arange(0, conv.weight.shape[2], 2))
        wide.shift[:] = np.where(np.arange(len(wide.shift)) % 2, 10, 5)
        back = fill_layer(project, network.activation_max, np.arange(0, len(conv.weight), 2))
        back.shift[3::4] = 6  # what these take away leaves the stream saturated
        blocks.append((wide, back))
    out = fill_layer(network.out, network.activation_max, np.arange(0, len(first.weight), 2))
    full = replace(network, first=first, blocks=tuple(blocks), out=out)
    full.prove_exact()
    return full


def fill_layer(layer: Layer, input_max: int, strong: Ints) -> Layer:
    """Return a layer whose bounds are just below 2^24, mostly by weights of `strong` inputs."""
    taps = len(layer.taps.offsets)
    weight = np.zeros(layer.weight.shape, np.int64)
    for output, of_output in enumerate(weight):
        # A tap or the one opposite: inside an image, every order sees one of the two.
        pair, opposite = divmod(output // 4, 2)
        single = taps - 1 - pair if opposite else pair
        chosen = [single % taps] if output % 2 else range(taps)
        of_output[chosen] = 1
        room = (EXACT - 1) // input_max - int(of_output.sum())
        places = [(tap, i) for tap in chosen for i in strong]
        for number, place in enumerate(places):
            of_output[place] += (room + number) // len(places)
    weight[3::4] *= -1
    nothing = np.zeros_like(layer.bias)
    return Layer(layer.taps, weight, 0 * layer.mask_weight, nothing, layer.shift.copy())


def find_white_sums(network: IntegerNetwork, order: Order, height: int, width: int) -> list[Ints]:
    """Return the sums of each layer in a white image, in plain integers: (pixels, outputs)."""
    schedule = compile_schedule(order, height, width, network.layers)
    pixels, sums = schedule.pixels, []

    def add(layer: Layer, inputs: Ints, seen: Neighbours | None = None) -> Ints:
        assert not layer.mask_weight.any()  # they are not counted
        places = seen.places if seen else np.arange(pixels)[:, None]
        weight = layer.weight[:, seen.used] if seen else layer.weight
        rows = np.concatenate([inputs, np.zeros_like(inputs[:1])])[places]  # hidden ones are last
        sums.append(np.einsum("pti,oti->po", rows, weight) + layer.bias)
        return round_even(sums[-1], layer.shift)

    def activate(values: Ints) -> Ints:
        return np.clip(values, 0, network.activation_max)

    white = np.full((pixels, network.channels), PIXEL_MAX, np.int64)
    limits = -network.stream_max, network.stream_max
    stream = add(network.first, white, schedule.neighbours[network.first.taps]).clip(*limits)
    for conv, project in network.blocks:
        active = activate(round_even(stream, network.stream_bits))
        hidden = activate(add(conv, active, schedule.neighbours[conv.taps]))
        stream = (stream + add(project, hidden)).clip(*limits)
    add(network.out, activate(round_even(stream, network.stream_bits)))
    return sums


def round_even(values: Ints, shift: int | npt.NDArray[np.integer[Any]]) -> Ints:
    return np.rint(values / 2.0**shift).astype(np.int64)


def test_steps_of_every_size() -> None:
    """Hilbert order codes a pixel a step: a step has as many columns as there are images."""
    images = harsh_images(40, 3, 4)
    for size in range(1, 41):
        check_all(random_network(), Order("hilbert"), images[:size], [size])


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (2, 2)])
def test_tiny_images(shape: tuple[int, int]) -> None:
    for order in ORDERS:
        check_all(random_network(), order, harsh_images(2, *shape), [1, 1])


@pytest.mark.parametrize("depth", range(8, 17))
@pytest.mark.parametrize(("curve", "sharpness", "flatness"), DEEP)
def test_deep_samples(depth: int, curve: int, sharpness: int, flatness: int) -> None:
    precision = Precision(depth, curve, sharpness, flatness)
    for channels in (3, 1):
        images = deep_images(4, 6, 9, depth, channels)
        for order in ORDERS:
            check_all(random_network(), order, images, [1, 3], precision)
    check_all(make_network(), Order("raster", 6), deep_images(3, 9, 10, depth), [3], precision)


@pytest.mark.parametrize("name", [entry.name for entry in list_models()])
def test_released_models(name: str) -> None:
    network = load_model(name).network
    order = Order("s-curve") if load_model(name).any_order else Order("raster")
    check_all(network, order, smooth_images(2, 14, 15), [1, 1])
    check_all(network, order, deep_images(3, 14, 15, 12), [1, 2], Precision(12, LINEAR, 24, 20000))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_deep_samples_that_cannot_be_are_read_as_by_numpy(kernel: Kernel) -> None:
    """Ten bits make three nibbles: a damaged stream may well give numbers of twelve."""
    precision, network, groups = Precision(10, LINEAR, 16, 30000), random_network(), [2]
    schedule = compile_schedule(Order("raster"), 5, 6, network.layers)
    depth = choose_depth(network, schedule, precision)
    both: list[Steps] = [
        ArraySteps(get_backend(), depth, schedule, groups, 3),
        runs.Steps(kernel, network, schedule, groups, 3, precision),
    ]
    nibbles = np.random.default_rng(0).integers(0, 16, (schedule.steps, 3, 3, 200), np.int32)
    nibbles[:, :, 0] = 15
    for start, stop, of_step in zip(
        schedule.starts[:-1], schedule.starts[1:], nibbles, strict=True
    ):
        size = 2 * int(stop - start)
        rows = [steps.begin(int(start), int(stop)) for steps in both]
        for first, second, last in of_step[..., :size]:
            assert np.array_equal(rows[0], rows[1])
            for nibble in (first, second):
                rows = [steps.refine(nibble) for steps in both]
                assert np.array_equal(rows[0], rows[1])
            rows = [steps.finish(last) for steps in both]
    assert np.array_equal(both[0].samples, both[1].samples)
    assert both[0].samples.max() >= 1 << 10


@pytest.mark.parametrize("writer", NAMES)
@pytest.mark.parametrize("reader", NAMES)
def test_files_of_one_kernel_are_read_by_any(
    writer: str, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (image,) = smooth_images(1, 24, 30)
    monkeypatch.setenv("LMZIP_KERNEL", writer)
    data = lmzip.compress(image, model="thumb")
    monkeypatch.setenv("LMZIP_KERNEL", reader)
    assert np.array_equal(lmzip.decompress(data), image)
    assert lmzip.compress(image, model="thumb") == data


def test_a_network_is_laid_out_once_and_forgotten_with_it() -> None:
    network = random_network.__wrapped__(seed=5)
    (kernel, *_) = KERNELS
    before = len(packing._packed)
    assert packing.pack_network(network, kernel) is packing.pack_network(network, kernel)
    assert len(packing._packed) == before + 1
    del network
    assert len(packing._packed) == before


def test_symbols_that_cannot_be_are_refused() -> None:
    """The coder gives none; nor could they reach memory that is not theirs."""
    network, order = random_network(), Order("raster")
    schedule = compile_schedule(order, 4, 4, network.layers)
    steps = runs.Steps(find_kernel(), network, schedule, [2], 3)
    steps.begin(0, 1)
    for symbols in ([16, 0], [-1, 0], [0], [0, 0, 0]):
        with pytest.raises(ValueError, match="a nibble for each column"):
            steps.refine(np.array(symbols, np.int32))
    nibbles = np.zeros(2, np.int32)
    for _ in range(3):
        with pytest.raises(ValueError, match="cannot be the last nibbles"):
            steps.finish(nibbles)
        steps.refine(nibbles)
        with pytest.raises(ValueError, match="no more nibbles"):
            steps.refine(nibbles)
        steps.finish(nibbles)
    with pytest.raises(ValueError, match="no more nibbles"):  # nor is there a fourth channel
        steps.refine(nibbles)
    with pytest.raises(ValueError, match="cannot be the last nibbles"):
        steps.finish(nibbles)
    for start, stop in ((-1, 1), (0, 17), (3, 3), (0, 16)):
        with pytest.raises(ValueError, match="range"):
            steps.begin(start, stop)


def find_kernel() -> Kernel:
    kernel = find_backend(KERNELS[0].name)
    assert isinstance(kernel, Kernel)
    return kernel
