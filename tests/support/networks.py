"""Small networks and images for the tests of the codec.

`random_network` draws integers directly, so that its sums come as close to a bound as one likes;
`compact_network` goes through a float network and the exporter, so that it predicts images well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from lmzip.container.tuning_bank import SUFFIX, BankEntry, pack_bank, tune_model
from lmzip.container.tuning_block import write_tuning
from lmzip.models.compact import Block, CompactConfig, CompactNetwork
from lmzip.models.quantise import make_tables, quantise
from lmzip.network.backend import get_backend
from lmzip.network.integer_network import (
    EXACT,
    POINTWISE,
    IntegerNetwork,
    Layer,
    save_integer_network,
)
from lmzip.network.registry import Model
from lmzip.network.tuning import LayerTuning, Tuning, list_layers, shape_of_change
from lmzip.order.masks import Kernel
from lmzip.order.orders import FAMILIES, Order, all_variants
from lmzip.order.schedule import Taps
from lmzip.stream.decoder import decode_images
from support import oracle_streams

Ints = npt.NDArray[np.int64]
Images = npt.NDArray[np.uint8]  # (images, height, width, channels)

ANY_ORDER = ("raster:*", "s-curve:*")
ALL_ORDERS = [order for family in FAMILIES for order in all_variants(family)]
ACTIVATION_MAX, STREAM_BITS, MIXTURES = 1023, 2, 3


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

    Two thirds of each layer's outputs have weights of one sign, so that white images drive their
    sums towards the limit. One of these thirds has biases that take away what a white area in
    raster order adds up to: a small result is the difference of large sums, and a lost bit shows.
    """
    draw = _Artist(np.random.default_rng(seed), raster=orders == ("raster",), limit=limit)
    stream_bits = (ACTIVATION_MAX + 1).bit_length() + STREAM_BITS
    stream_max = (1 << (stream_bits + 1)) - 1
    white = np.full(channels, 255)
    first = draw.layer(Kernel(5, 5, first=True), (width, channels), white, stream_bits)
    stream = np.clip(draw.run(first, white), -stream_max, stream_max)
    blocks = []
    for dilation in (1, 2, 1):
        activation = np.clip(_shift_round(stream, STREAM_BITS), 0, ACTIVATION_MAX)
        conv = draw.layer(Kernel(3, 3, dilation), (width + 2, width), activation, 10)
        hidden = np.clip(draw.run(conv, activation), 0, ACTIVATION_MAX)
        project = draw.layer(Kernel(1, 1), (width, width + 2), hidden, 11)
        stream = np.clip(stream + draw.run(project, hidden), -stream_max, stream_max)
        blocks.append((conv, project))
    return IntegerNetwork(
        name=name,
        channels=channels,
        mixtures=MIXTURES,
        activation_max=ACTIVATION_MAX,
        stream_max=stream_max,
        stream_bits=STREAM_BITS,
        predictor=draw.predictor(channels),
        predictor_shift=10,
        first=first,
        blocks=tuple(blocks),
        out=draw.outputs(channels, width),
        tables=make_tables(),
        orders=orders,
        notes={},
    )


def _shift_round(values: Ints, bits: int | npt.NDArray[np.integer[Any]]) -> Ints:
    return np.rint(values / 2.0**bits).astype(np.int64)


class _Artist:
    """Draws layers whose bounds are just below a limit."""

    def __init__(self, state: np.random.Generator, *, raster: bool, limit: int) -> None:
        self._state, self._raster, self._limit = state, raster, limit

    def layer(self, kernel: Kernel, size: tuple[int, int], white: Ints, bits: int) -> Layer:
        """Draw a layer of (outputs, inputs) whose outputs have some `bits` bits.

        `white` are the inputs of a white area; every third output is balanced there.
        """
        layer = self._draw(self._taps(kernel), size, bits)
        input_max = 255 if kernel.first else ACTIVATION_MAX
        balanced = slice(1, None, 3)
        self._fill(layer, input_max, self._limit)
        self._fill(layer, input_max, self._limit // 2, balanced)
        layer.shift[balanced] = 0
        layer.bias[balanced] += (3 << (bits - 2)) - self._sums(layer, white)[balanced]
        return layer

    def outputs(self, channels: int, inputs: int) -> Layer:
        """Draw the last layer; log-scales and coefficients lie around the middle of their range."""
        kinds = 1 + 2 * channels + channels * (channels - 1) // 2
        layer = self._draw(POINTWISE, (MIXTURES * kinds, inputs), 9)
        by_kind = layer.bias.reshape(kinds, MIXTURES), layer.shift.reshape(kinds, MIXTURES)
        scales, coefficients = slice(1 + channels, 1 + 2 * channels), slice(1 + 2 * channels, None)
        for kind, middle, finer in ((scales, 288, 0), (coefficients, 850, 2)):
            by_kind[1][kind] -= finer
            by_kind[0][kind] = middle << by_kind[1][kind]
        self._fill(layer, ACTIVATION_MAX, self._limit)
        return layer

    def predictor(self, channels: int) -> Ints:
        """Draw kernels that average the neighbours, with weights that add up to one."""
        weight = self._state.normal(size=(256, channels, channels, 8)) * 0.02
        own = self._state.dirichlet(np.ones(8), (256, channels))
        weight[:, range(channels), range(channels)] += own
        return np.rint(weight.reshape(256, channels, -1) * (32 << 10)).astype(np.int64)

    def run(self, layer: Layer, white: Ints) -> Ints:
        """Evaluate a layer in a white area."""
        return _shift_round(self._sums(layer, white), layer.shift)

    def _draw(self, taps: Taps, size: tuple[int, int], bits: int) -> Layer:
        outputs, inputs = size
        shape = outputs, len(taps.offsets), inputs
        weight = self._state.integers(1, 100, shape)
        weight[2::3] *= self._state.choice([-1, 1], weight[2::3].shape)
        mask_weight = self._state.integers(-1000, 1000, shape[:2]) * (taps != POINTWISE)
        bias = self._state.integers(-1000, 1000, outputs)
        shift = np.full(outputs, self._limit.bit_length() - 1 - bits)
        return Layer(taps, weight, mask_weight, bias, shift)

    @staticmethod
    def _fill(layer: Layer, input_max: int, limit: int, rows: slice = slice(None)) -> None:
        """Scale the weights of some outputs so that their bounds come close to `limit`."""
        constant = layer.bounds(0)
        rounding = 2 * input_max * layer.weight[0].size
        scale = (limit - 1 - rounding - constant) / (layer.bounds(input_max) - constant)
        grown = np.rint(layer.weight * scale[:, None, None]).astype(np.int64)
        layer.weight[rows] = grown[rows] | 1  # odd: a common power of two would hide lost bits

    def _taps(self, kernel: Kernel) -> Taps:
        """Return the taps that raster order can see, or those that any order can."""
        offsets = [o for o in kernel.offsets() if not (self._raster and o > (0, 0))]
        return Taps(tuple(o for o in offsets if not (kernel.first and o == (0, 0))))

    @staticmethod
    def _sums(layer: Layer, white: Ints) -> Ints:
        """Return the sums in the middle of a white area, in raster order."""
        seen = [offset <= (0, 0) for offset in layer.taps.offsets]
        weighted = layer.weight[:, seen].sum(1) @ white
        return weighted + layer.mask_weight[:, seen].sum(1) + layer.bias


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
        torch.nn.init.normal_(block.project.weight, std=0.1, generator=generator)
    images = torch.from_numpy(smooth_images(8, 16, 16, channels)).permute(0, 3, 1, 2)
    return quantise(network, images.contiguous(), orders, name, {})


def write_model(network: IntegerNetwork, folder: Path) -> Path:
    """Write a model file under the network's name."""
    path = folder / f"{network.name}.safetensors"
    save_integer_network(network, path)
    return path


def draw_tuned(model: Model, seed: int = 0) -> Model:
    """Return a model with a tuning that changes everything a little."""
    state = np.random.default_rng(seed)
    layers = []
    for _, layer in list_layers(model.network):
        changes = {
            kind: np.rint(state.laplace(0, 0.3, shape_of_change(layer, kind))).astype(np.int64)
            for kind in LayerTuning.__annotations__
        }
        changes["weight"] <<= 1
        layers.append(LayerTuning(**changes))
    return tune_model(model, write_tuning(Tuning(tuple(layers)), model.network))


def to_oracle(network: IntegerNetwork) -> oracle_streams.Network:
    """Hand a network to the oracle without a file, and so without proofs."""

    def convert(layer: Layer) -> oracle_streams.Layer:
        return oracle_streams.Layer(
            layer.weight.tolist(),
            layer.mask_weight.tolist(),
            layer.bias.tolist(),
            layer.shift.tolist(),
            list(layer.taps.offsets),
        )

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
    """Draw images like photographs: slow waves, a little noise, channels much alike."""
    state = np.random.default_rng(seed)
    rows, columns = np.mgrid[:height, :width]
    phases = state.uniform(0, 6, (3, count, 1, 1))
    waves = sum(
        np.sin(p + rows * 0.05 * i + columns * 0.07 * (4 - i)) for i, p in enumerate(phases, 1)
    )
    grey = (128 + 35 * waves + state.normal(0, noise, (count, height, width)))[..., None]
    colours = grey + state.normal(0, 10, (count, 1, 1, channels))
    return np.clip(colours + state.normal(0, noise / 4, colours.shape), 0, 255).astype(np.uint8)


def harsh_images(
    count: int, height: int, width: int, channels: int = 3, *, seed: int = 0
) -> Images:
    """Draw images of extremes: by turns white ones with noise below, and noise beside black."""
    state = np.random.default_rng(seed)
    images = state.integers(0, 256, (count, height, width, channels), dtype=np.uint8)
    images[::2, : 3 * height // 4] = 255
    images[1::2, height // 3 :, width // 2 :] = 0
    return images


def various_images(height: int, width: int, channels: int) -> Iterator[tuple[str, Images]]:
    """Give a constant image, noise, a gradient, and a photograph of one shape, with their names."""
    shape = (height, width, channels)
    yield "constant", np.full(shape, 200, np.uint8)
    yield "noise", np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    ramp = np.add.outer(3 * np.arange(height), 5 * np.arange(width))[..., None]
    yield "gradient", (ramp + 40 * np.arange(channels)).astype(np.uint8)
    yield "photograph", smooth_images(1, height, width, channels)[0]


@cache
def typical_image(height: int, width: int) -> Images:
    """Draw an image from `compact_network` itself, by decoding noise: it is coded like no other."""
    words = np.random.default_rng(0).integers(1, 1 << 32, height * width, np.uint32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzip.stream.ans.Decoder.finish", lambda decoder: None)  # noise does not end
        shape = height, width, 3
        stream = words.tobytes()
        return decode_images(
            compact_network(), Order("raster"), shape, [stream], [1], get_backend()
        )[0]


def custom_order(height: int, width: int, seed: int = 0) -> Order:
    """Draw a permutation of the pixels."""
    permutation = np.random.default_rng(seed).permutation(height * width)
    return Order("custom", permutation=tuple(permutation.tolist()))


def write_bank(model: Model, numbers: Sequence[int]) -> Path:
    """Give a model a bank of tunings that change everything a little; return its file."""
    entries = []
    for number in numbers:
        tuned = draw_tuned(model, seed=number)
        check = bytes.fromhex(tuned.fingerprint)[:4]
        entries.append(BankEntry(number, f"kind {number}", tuned.tuning, check))
    path = model.path.with_suffix(SUFFIX)
    path.write_bytes(pack_bank(entries, model))
    return path
