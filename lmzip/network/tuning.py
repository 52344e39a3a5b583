"""Tunings: small changes that turn a released network into one that knows a picture better.

A tuning holds, for each layer, gains of its outputs and inputs, changes of its biases, and
differences of its weights, any of which may be absent. Applying it is integer arithmetic, stated in
full in FORMAT.md, "Tunings": the result is a network like any other, proved exact once more, so
nothing else in the codec knows about tunings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lmzip.errors import ModelError
from lmzip.network.integer_network import EXACT, LARGEST_WEIGHT, PIXEL_MAX, IntegerNetwork, Layer

Int64s = npt.NDArray[np.int64]

GAIN_BITS = 7  # a gain of 1 is 2^7
LARGEST_GAIN = 1 << 10  # what a gain may differ from 1 by, in these units
LARGEST_BIAS = 1 << 24
_STORED = {"weight": np.int16, "mask_weight": np.int32, "bias": np.int32, "shift": np.int8}


@dataclass(frozen=True)
class LayerTuning:
    """What changes in one layer; None is no change.

    output_gains: (outputs,), input_gains: (inputs,): in units of 2^-7, relative to a gain of 1
    bias:         (outputs,), in units of the layer's rounded output
    weight:       (outputs, taps, inputs), in units of the weights
    """

    output_gains: Int64s | None = None
    input_gains: Int64s | None = None
    bias: Int64s | None = None
    weight: Int64s | None = None


@dataclass(frozen=True)
class Tuning:
    """The changes of every layer: the first, two for each block, the outputs."""

    layers: tuple[LayerTuning, ...]


ROLES = ("first", "conv", "project", "out")


def shape_of_change(layer: Layer, kind: str) -> tuple[int, ...]:
    """Return the shape of a layer's gains, biases or weights, by their names in `LayerTuning`."""
    outputs, _, inputs = layer.weight.shape
    shapes = {
        "output_gains": (outputs,),
        "input_gains": (inputs,),
        "bias": (outputs,),
        "weight": layer.weight.shape,
    }
    return shapes[kind]


def list_layers(network: IntegerNetwork) -> list[tuple[str, Layer]]:
    """Return the layers in the sequence of a tuning, each with its role."""
    blocks = [pair for block in network.blocks for pair in zip(ROLES[1:3], block, strict=True)]
    return [(ROLES[0], network.first), *blocks, (ROLES[3], network.out)]


def apply_tuning(network: IntegerNetwork, tuning: Tuning) -> IntegerNetwork:
    """Return the tuned network, proved exact. Raises ModelError if the tuning does not fit it."""
    layers = list_layers(network)
    if len(tuning.layers) != len(layers):
        raise ModelError(f"a tuning of {len(tuning.layers)} layers for a network of {len(layers)}")
    tuned = []
    for number, ((role, layer), change) in enumerate(zip(layers, tuning.layers, strict=True)):
        for kind, values in vars(change).items():
            shape = shape_of_change(layer, kind)
            if values is not None and values.shape != shape:
                raise ModelError(
                    f"tuning, layer {number}: {kind} has the shape {values.shape}, not {shape}"
                )
        top = PIXEL_MAX if role == "first" else network.activation_max
        tuned.append(_keep_bound(_change(layer, change, number), top, number))
    pairs = tuple(zip(tuned[1:-1:2], tuned[2:-1:2], strict=True))
    result = replace(network, first=tuned[0], blocks=pairs, out=tuned[-1])
    result.prove_exact()
    return result


def _change(layer: Layer, change: LayerTuning, number: int) -> Layer:
    weight, bias = layer.weight.astype(np.int64), layer.bias.astype(np.int64)
    if change.output_gains is not None or change.input_gains is not None:
        outputs = _gains(change.output_gains, len(weight), number)
        inputs = _gains(change.input_gains, weight.shape[2], number)
        weight = _halve(weight * outputs[:, None, None] * inputs, 2 * GAIN_BITS)
    if change.weight is not None:
        weight = weight + change.weight
    if change.bias is not None:
        if np.abs(change.bias).max(initial=0) > LARGEST_BIAS:
            raise ModelError(f"tuning, layer {number}: a bias changes by more than {LARGEST_BIAS}")
        bias = bias + (change.bias << layer.shift.astype(np.int64))
    weight = weight.clip(-LARGEST_WEIGHT, LARGEST_WEIGHT)
    return replace(layer, weight=weight, bias=bias)


def _gains(values: Int64s | None, count: int, number: int) -> Int64s:
    """Return gains as integers, 2^7 where nothing changes."""
    if values is None:
        return np.full(count, 1 << GAIN_BITS, np.int64)
    if np.abs(values).max(initial=0) > LARGEST_GAIN:
        raise ModelError(f"tuning, layer {number}: a gain differs from 1 by more than 2^3")
    return values + (1 << GAIN_BITS)


def _keep_bound(layer: Layer, top: int, number: int) -> Layer:
    """Halve the rows whose sums could reach 2^24, weights and shift alike, until none could."""
    parts = {name: getattr(layer, name).astype(np.int64) for name in _STORED}
    while True:
        layer = replace(layer, **parts)
        broken = layer.bounds(top) >= EXACT
        if not broken.any():
            return replace(layer, **{name: parts[name].astype(t) for name, t in _STORED.items()})
        if (parts["shift"][broken] == 0).any():
            raise ModelError(f"tuning, layer {number}: sums may reach 2^24")
        for name in ("weight", "mask_weight", "bias"):
            parts[name][broken] = _halve(parts[name][broken], 1)
        parts["shift"][broken] -= 1


def _halve(values: Int64s, bits: int) -> Int64s:
    """Divide by 2^bits and round half to even."""
    floor = values >> bits
    rest = values - (floor << bits)
    half = 1 << (bits - 1)
    up = (rest > half) | ((rest == half) & (floor & 1 == 1))
    result: Int64s = floor + up
    return result
