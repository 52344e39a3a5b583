"""An integer network as a float one: the same function, but for rounding, with gradients.

The result is a `CompactNetwork` whose stream and activations are in the integers' own units, so
that what is learnt on it (`lmzip.models.tune`) can be put into integers one to one. Activations are
clipped as the integers are; their rounding, and the clip of the stream, are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lmzip.models.compact import Block, CompactConfig, CompactNetwork
from lmzip.models.quantise import output_units
from lmzip.network.adaptation import ONE, SHIFT
from lmzip.network.integer_network import PIXEL_MAX, IntegerNetwork, Layer
from lmzip.network.parameters import MEAN_BITS
from lmzip.network.tuning import list_layers


@dataclass(frozen=True)
class FloatLayer:
    """How the integers of a layer become parameters of a `CompactNetwork`."""

    name: str  # of the module
    role: str
    layer: Layer
    size: int
    dilation: int
    input_scale: float  # what the integer layer's inputs are, in units of the float layer's
    factor: Tensor  # (outputs,): from integer sums to the float layer's outputs
    offset: Tensor  # (outputs,): what is added to those

    def parameters(self, weight: Tensor, bias: Tensor) -> dict[str, Tensor]:
        """Return the float parameters for integer weights (O, taps, I) and biases (O,)."""
        middle, side = self.size // 2, self.size
        taps = [
            (down // self.dilation + middle) * side + right // self.dilation + middle
            for down, right in self.layer.taps.offsets
        ]
        factor = self.factor[:, None, None]
        kernels = weight.new_zeros(len(weight), weight.shape[2], side * side)
        kernels[:, :, taps] = weight.transpose(1, 2) * (factor * self.input_scale)
        parameters = {
            "weight": kernels.view(*kernels.shape[:2], side, side),
            "bias": bias * self.factor + self.offset,
        }
        if self.role in ("first", "conv"):
            mask_weight = torch.zeros(len(weight), side * side)
            mask_weight[:, taps] = as_tensor(self.layer.mask_weight) * self.factor[:, None]
            parameters["mask_weight"] = mask_weight.view(-1, side, side)
        return {f"{self.name}.{name}": tensor for name, tensor in parameters.items()}

    def adapted(self, changes: npt.NDArray[np.int32]) -> tuple[Tensor, Tensor]:
        """Return what changes of an output layer that adapts (outputs, features + 1) add to the
        float weight and bias."""
        assert self.role == "out"
        unit = self.factor * 2.0 ** (as_tensor(self.layer.shift) - SHIFT)
        weight = as_tensor(changes[:, :-1]) * unit[:, None]
        return weight[:, :, None, None], as_tensor(changes[:, -1]) * ONE * unit


def float_layers(integer: IntegerNetwork) -> list[FloatLayer]:
    """Return the layers of a network in the sequence of a tuning."""
    names = ["first"]
    for number in range(len(integer.blocks)):
        names += [f"blocks.{number}.conv", f"blocks.{number}.project"]
    layers = []
    for name, (role, layer) in zip([*names, "out"], list_layers(integer), strict=True):
        factor = np.exp2(-layer.shift.astype(np.float64))
        offset = np.zeros(len(factor))
        if role in ("first", "project"):
            factor *= 2.0**-integer.stream_bits  # the float stream is in units of activations
        elif role == "out":
            scale, shift = output_units(integer.mixtures, integer.channels)
            factor, offset = factor / scale, -shift / scale
        size, dilation = _kernel(layer, role)
        input_scale = float(PIXEL_MAX) if role == "first" else 1.0
        scales = as_tensor(factor), as_tensor(offset)
        layers.append(FloatLayer(name, role, layer, size, dilation, input_scale, *scales))
    return layers


def dequantise(integer: IntegerNetwork) -> CompactNetwork:
    """Return the float network of an integer one."""
    layers = float_layers(integer)
    convolutions = [layer for layer in layers if layer.role == "conv"]
    blocks = [Block(len(conv.factor), conv.size, conv.dilation) for conv in convolutions]
    config = CompactConfig(
        width=len(layers[0].factor),
        first=layers[0].size,
        blocks=tuple(blocks),
        mixtures=integer.mixtures,
        channels=integer.channels,
    )
    network = CompactNetwork(config)
    network.set_top(integer.activation_max)
    unit = 2.0 ** -(integer.predictor_shift + MEAN_BITS - 1)
    predictor = as_tensor(integer.predictor * unit)  # (256, C, C * 8)
    state = {"predictor.weight": predictor.view(*predictor.shape[:2], -1, 8)}
    for layer in layers:
        weight, bias = as_tensor(layer.layer.weight), as_tensor(layer.layer.bias)
        state.update(layer.parameters(weight, bias))
    network.load_state_dict(state)
    return network


def as_tensor(values: npt.NDArray[np.generic]) -> Tensor:
    """Return numbers as a float32 tensor."""
    return torch.from_numpy(np.asarray(values, np.float32))


def _kernel(layer: Layer, role: str) -> tuple[int, int]:
    """Return size and dilation of the smallest centred kernel that has a layer's taps."""
    distances = np.abs(np.array(layer.taps.offsets)).ravel()
    dilation = int(np.gcd.reduce(distances)) if role == "conv" else 1
    dilation = max(1, dilation)
    return 2 * int(distances.max()) // dilation + 1, dilation
