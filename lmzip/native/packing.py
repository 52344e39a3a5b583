"""Laying out a network's integers as the kernels read them (lmzip/native/kernel.h).

Outputs come in blocks of 16, filled up with zeros; inputs in pairs. What is laid out stays with the
network for as long as that lives.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lmzip.network.integer_network import POINTWISE, IntegerNetwork, Layer

if TYPE_CHECKING:
    from lmzip.native._kernels import Capsule

LANES = 16
SKIP_NOTHING, SKIP_PAIRS, SKIP_INPUTS = range(3)
MOST_SKIPPED = 1024  # taps times inputs of a layer that skips inputs
_CACHE_LINE = 64

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Kernel:
    """One of the kernels that this processor can run.

    `interleaved`: weights of a pair of inputs lie side by side, not 16 outputs of each in turn.
    `skips`: what weights are laid out for: SKIP_PAIRS or SKIP_INPUTS that are zero.
    """

    name: str
    interleaved: bool
    skips: int


_packed: dict[tuple[int, str], Capsule] = {}


def pack_network(network: IntegerNetwork, kernel: Kernel) -> Capsule:
    """Return a network as a kernel takes it."""
    key = id(network), kernel.name
    packed = _packed.get(key)
    if packed is None:
        packed = _packed[key] = _pack(network, kernel)
        weakref.finalize(network, _packed.pop, key, None)
    return packed


def pad_outputs(values: Array) -> npt.NDArray[np.int32]:
    """Fill up the last axis, a layer's outputs, with zeros to whole blocks."""
    *rows, outputs = values.shape
    padded = np.zeros((*rows, pad_to_blocks(outputs)), np.int32)
    padded[..., :outputs] = values
    return padded


def pad_to_blocks(count: int) -> int:
    """Return how many numbers there are in the whole blocks that so many take."""
    return -(-count // LANES) * LANES


def _pack(network: IntegerNetwork, kernel: Kernel) -> Capsule:
    from lmzip.native import _kernels

    layers = [network.first]
    for block in network.blocks:
        layers += block
    layers.append(network.out)
    numbers = (
        network.channels,
        network.mixtures,
        len(network.blocks),
        network.activation_max,
        network.stream_max,
        network.stream_bits,
        network.predictor_shift,
        network.fraction_bits,
    )
    tables = network.tables
    sizes = tables.inverse_scale.size, tables.weight.size, tables.log2.size
    looked_up = tables.logistic, tables.inverse_scale, tables.weight, tables.log2
    columns = [np.ascontiguousarray(table, np.int32) for table in looked_up]
    return _kernels.make_network(
        kernel.name,
        numbers,
        [_pack_layer(layer, kernel, number == 0) for number, layer in enumerate(layers)],
        np.ascontiguousarray(network.predictor, np.int32),
        (sizes, columns[0], columns[1], columns[2], columns[3]),
    )


def _pack_layer(
    layer: Layer, kernel: Kernel, is_first: bool
) -> tuple[tuple[int, int, int, int], Array, Array, Array, Array]:
    outputs, taps, inputs = layer.weight.shape
    blocks, pairs = -(-outputs // LANES), -(-inputs // 2)
    skips = SKIP_NOTHING if is_first else _choose_skipping(layer, kernel, taps * pairs * 2)
    filled = blocks + blocks % 2 if skips == SKIP_INPUTS else blocks
    padded = np.zeros((filled * LANES, taps, pairs * 2), np.int16)
    padded[:outputs, :, :inputs] = layer.weight
    if skips == SKIP_INPUTS:
        quarters = padded.reshape(filled // 2, 2, 4, 4, taps, pairs * 2)
        weights = quarters.transpose(4, 5, 0, 2, 1, 3)
    else:
        split = padded.reshape(blocks, LANES, taps, pairs, 2)
        within = (1, 4) if kernel.interleaved else (4, 1)
        outer = (2, 3, 0) if skips == SKIP_PAIRS else (0, 2, 3)
        weights = split.transpose(outer + within)
    shift = pad_outputs(layer.shift)
    half = ((1 << shift.astype(np.int64)) // 2 - 1).clip(0).astype(np.int32)
    odd = (shift > 0).astype(np.int32)
    return (blocks, taps, pairs, skips), _align(weights), shift, half, odd


def _choose_skipping(layer: Layer, kernel: Kernel, inputs: int) -> int:
    """Return what is passed over of a layer's inputs, all that it has of all taps."""
    possible = {SKIP_PAIRS: layer.taps == POINTWISE, SKIP_INPUTS: inputs <= MOST_SKIPPED}
    return kernel.skips if possible.get(kernel.skips) else SKIP_NOTHING


def _align(values: Array) -> Array:
    """Copy values to where no load of a block crosses the border of a cache line."""
    room = np.empty(values.nbytes + _CACHE_LINE, np.uint8)
    first = -room.ctypes.data % _CACHE_LINE
    aligned = room[first : first + values.nbytes].view(values.dtype).reshape(values.shape)
    aligned[...] = values
    return aligned
