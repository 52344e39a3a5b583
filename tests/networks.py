"""Small networks and images for the tests of the codec.

`random_network` draws integers directly, so that its sums come as close to a bound as one likes;
`compact_network` goes through a float network and the exporter, so that it predicts images well.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import oracle_streams
import torch

from lmzip.masks import Kernel
from lmzip.models.compact import Block, CompactConfig, CompactNetwork
from lmzip.models.quantise import make_tables, quantise
from lmzip.network import EXACT, POINTWISE, IntegerNetwork, Layer, save_integer_network
from lmzip.orders import FAMILIES, Order, all_variants
from lmzip.schedule import Taps

Images = npt.NDArray[np.uint8]  # (images, height, width, channels)

ANY_ORDER = ("raster:*", "s-curve:*")
ALL_ORDERS = [order for family in FAMILIES for order in all_variants(family)]
ACTIVATION_MAX, STREAM_BITS = 1023, 2


@cache
def random_network(
    seed: int = 0,
    *,
    orders: tuple[str, ...] = ANY_ORDER,
    channels: int = 3,
    width: int = 10,
    limit: int = EXACT,
    name: str = "random",
) -> IntegerNetwork:
    """Draw a network whose sums come close to `limit`, in all of its layers.

    A third of each layer's outputs have weights of one sign, so that bright images drive their sums
    towards the limit. In another third, the weights of one half of the inputs nearly cancel those
    of the other half: the result is a small difference of large partial sums, so that a lost bit
    is visible.
    """
    state = np.random.default_rng(seed)
    raster = orders == ("raster",)
    first = _taps(Kernel(5, 5, first=True), raster)
    near, far = _taps(Kernel(3, 3), raster), _taps(Kernel(3, 3, dilation=2), raster)
    stream_bits = (ACTIVATION_MAX + 1).bit_length() + STREAM_BITS
    blocks = tuple(
        (
            _draw_layer(state, taps, (width + 2, width), ACTIVATION_MAX, limit, 10),
            _draw_layer(state, POINTWISE, (width, width + 2), ACTIVATION_MAX, limit, 11),
        )
        for taps in (near, far, near)
    )
    couplings = channels * (channels - 1) // 2
    out = _draw_layer(state, POINTWISE, (3 * (1 + 2 * channels + couplings), width), 1023, limit, 9)
    scales, coefficients = slice(3 + 3 * channels, 3 + 6 * channels), slice(3 + 6 * channels, None)
    out.shift[coefficients] -= 2
    out.bias[:] = 0
    out.bias[scales] = 288 << out.shift[scales]  # the middle of the table
    out.bias[coefficients] = 850 << out.shift[coefficients]
    _fill(out, ACTIVATION_MAX, limit)
    return IntegerNetwork(
        name=name,
        channels=channels,
        mixtures=3,
        activation_max=ACTIVATION_MAX,
        stream_max=(1 << (stream_bits + 1)) - 1,
        stream_bits=STREAM_BITS,
        predictor=_draw_predictor(state, channels),
        predictor_shift=10,
        first=_draw_layer(state, first, (width, channels), 255, limit, stream_bits),
        blocks=blocks,
        out=out,
        tables=make_tables(),
        orders=orders,
        notes={},
    )


def _taps(kernel: Kernel, raster: bool) -> Taps:
    """Return the taps that raster order can see, or those that any order can."""
    offsets = [o for o in kernel.offsets() if not (raster and o > (0, 0))]
    return Taps(tuple(o for o in offsets if not (kernel.first and o == (0, 0))))


def _draw_layer(
    state: np.random.Generator,
    taps: Taps,
    size: tuple[int, int],
    input_max: int,
    limit: int,
    bits: int,
) -> Layer:
    """Draw a layer whose bounds are just below `limit` and whose outputs have some `bits` bits."""
    outputs, inputs = size
    shape = outputs, len(taps.offsets), inputs
    weight = state.integers(1, 100, shape) * state.choice([-1, 1], shape)
    weight[::3] = abs(weight[::3])
    pairs = weight[1::3].reshape(len(weight[1::3]), -1)
    half = pairs.shape[1] // 2
    pairs[:, :half] = abs(pairs[:, :half])
    pairs[:, half : 2 * half] = -pairs[:, :half]
    mask_weight = state.integers(-1000, 1000, shape[:2]) * (taps != POINTWISE)
    bias = state.integers(-1000, 1000, outputs)
    layer = Layer(taps, weight, mask_weight, bias, np.full(outputs, limit.bit_length() - 1 - bits))
    _fill(layer, input_max, limit)
    layer.weight[1::3] += 2 * state.integers(-1, 2, weight[1::3].shape)
    layer.shift[1::3] = max(0, int(input_max * half**0.5).bit_length() - bits)
    return layer


def _fill(layer: Layer, input_max: int, limit: int) -> None:
    """Scale the weights so that each output's bound comes close to `limit`."""
    constant = layer.bounds(0)
    rounding = 4 * input_max * layer.weight[0].size
    scale = (limit - 1 - rounding - constant) / (layer.bounds(input_max) - constant)
    grown = np.rint(layer.weight * scale[:, None, None]).astype(np.int64)
    layer.weight[:] = grown | 1  # odd: a common power of two would hide lost bits


def _draw_predictor(state: np.random.Generator, channels: int) -> npt.NDArray[np.int64]:
    """Draw kernels that average the neighbours, with weights that add up to one."""
    weight = state.normal(size=(256, channels, channels, 8)) * 0.02
    weight[:, range(channels), range(channels)] += state.dirichlet(np.ones(8), (256, channels))
    return np.rint(weight.reshape(256, channels, -1) * (32 << 10)).astype(np.int64)


@cache
def compact_network(
    *, orders: tuple[str, ...] = ("raster",), channels: int = 3, name: str = "compact"
) -> IntegerNetwork:
    """Export an untrained compact network; its linear predictor alone makes it useful."""
    config = CompactConfig(8, 5, (Block(8), Block(8, dilation=2)), mixtures=3, channels=channels)
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = CompactNetwork(config)
    for block in network.blocks:
        torch.nn.init.normal_(block.project.weight, std=0.1, generator=generator)  # type: ignore
    images = torch.from_numpy(smooth_images(8, 16, 16, channels)).permute(0, 3, 1, 2)
    return quantise(network, images.contiguous(), orders, name, {})


def write_model(network: IntegerNetwork, folder: Path) -> Path:
    """Write a model file under the network's name."""
    path = folder / f"{network.name}.safetensors"
    save_integer_network(network, path)
    return path


def to_oracle(network: IntegerNetwork) -> oracle_streams.Network:
    """Hand a network to the oracle without a file, and so without proofs."""

    def convert(layer: Layer) -> oracle_streams.Layer:
        parts = (layer.weight, layer.mask_weight, layer.bias, layer.shift)
        return oracle_streams.Layer(*(p.tolist() for p in parts), list(layer.taps.offsets))

    tables = network.tables
    return oracle_streams.Network(
        name=network.name,
        channels=network.channels,
        mixtures=network.mixtures,
        activation_max=network.activation_max,
        stream_max=network.stream_max,
        stream_bits=network.stream_bits,
        predictor_shift=network.predictor_shift,
        predictor=network.predictor.tolist(),
        first=convert(network.first),
        blocks=[(convert(conv), convert(project)) for conv, project in network.blocks],
        out=convert(network.out),
        logistic=tables.logistic.tolist(),
        inverse_scale=tables.inverse_scale.tolist(),
        weight=tables.weight.tolist(),
        fingerprint=bytes.fromhex(network.fingerprint()),
    )


def smooth_images(
    count: int, height: int, width: int, channels: int = 3, *, seed: int = 0, noise: float = 3
) -> Images:
    """Draw images like photographs: slow waves, correlated channels, a little noise."""
    state = np.random.default_rng(seed)
    rows, columns = np.mgrid[:height, :width]
    phases = state.uniform(0, 6, (count, 4, 1, 1))
    waves = sum(
        np.sin(phases[:, i : i + 1] + rows * 0.05 * (i + 1) + columns * 0.07 * (3 - i))
        for i in range(3)
    )
    grey = 128 + 35 * waves.transpose(0, 2, 3, 1)
    colours = grey + state.normal(0, 10, (count, 1, 1, channels))
    return np.clip(colours + state.normal(0, noise, colours.shape), 0, 255).astype(np.uint8)


def harsh_images(
    count: int, height: int, width: int, channels: int = 3, *, seed: int = 0
) -> Images:
    """Draw images of extremes: white and black areas, edges, and noise of full range."""
    state = np.random.default_rng(seed)
    images = state.integers(0, 256, (count, height, width, channels), dtype=np.uint8)
    images[:, : 2 * height // 3, : 2 * width // 3] = 255
    images[:, height // 2 :, width // 2 :] = 0
    images[1::2] = 255 - images[1::2]
    return images


def various_images(height: int, width: int, channels: int) -> Iterator[tuple[str, Images]]:
    """Give a constant image, noise, a gradient, and a photograph of one shape, with their names."""
    shape = (height, width, channels)
    yield "constant", np.full(shape, 200, np.uint8)
    yield "noise", np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    ramp = np.add.outer(3 * np.arange(height), 5 * np.arange(width))[..., None]
    yield "gradient", (ramp + 40 * np.arange(channels)).astype(np.uint8)
    yield "photograph", smooth_images(1, height, width, channels)[0]


def custom_order(height: int, width: int, seed: int = 0) -> Order:
    """Draw a permutation of the pixels."""
    permutation = np.random.default_rng(seed).permutation(height * width)
    return Order("custom", permutation=tuple(permutation.tolist()))
