"""Quantisation: a trained compact network becomes an integer network (FORMAT.md, "Network").

Every channel gets a real scale that maps its usual range (the 99.99th percentile on calibration
images) to 12 bits; ReLU commutes with positive scales, so they fold into the weights on either
side. The weights of each output are then multiplied by the largest power of two for which the
sums provably stay below 2^24, and rounded (`lmzip.models.rounding`). Biases and mask weights share
that scale.

The outputs leave the last layer in the units of `lmzip.stream.mixture`, whose tables are made here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from lmzip.cost import COST_BITS
from lmzip.errors import ModelError
from lmzip.models.compact import (
    COEFFICIENT_SCALE,
    COEFFICIENT_START,
    MEAN_SCALE,
    CompactNetwork,
)
from lmzip.models.likelihood import to_unit
from lmzip.models.lmconv import LMConv, MaskSet, extract_patches
from lmzip.models.rounding import round_weights
from lmzip.network.integer_network import (
    EXACT,
    LARGEST_WEIGHT,
    PIXEL_MAX,
    POINTWISE,
    IntegerNetwork,
    Layer,
)
from lmzip.network.parameters import COEFFICIENT_BITS, MEAN_BITS
from lmzip.network.tables import CDF_BITS, SCALE_BITS, TABLE_SIZE, Tables
from lmzip.order.masks import Kernel, make_mask
from lmzip.order.orders import Order, expand_orders
from lmzip.order.schedule import Taps

Floats = npt.NDArray[np.float64]

# The most bits for which the weights' share of the 2^24 suffices: 10 lose 0.014 bpd, 11 0.004, 12
# 0.002, and with 13 the weights of a trained network no longer fit.
ACTIVATION_BITS = (12, 11, 10, 9, 8)
STREAM_BITS = 0  # the stream needs no finer unit than activations of 12 bits: 2 more gain nothing
STREAM_HEADROOM = 4  # bits that the stream may exceed an activation's usual range by
PERCENTILE = 0.9999
MOMENT_IMAGES = 32  # second moments need fewer images than extremes do

LOGIT_UNIT = 64  # logits are in units of 1/64 bit
LOG_SCALE_UNIT = 64  # log-scales are in units of 1/64 nat
LOG_SCALE_RANGE = (-7.0, 2.0)
LOGISTIC_RANGE = 12.0  # beyond, the logistic function is 0 or 1 in 16 bits
HALF_RANGE = PIXEL_MAX / 2  # levels in half the range of a sample: the float network's unit


def quantise(
    network: CompactNetwork,
    calibration: Tensor,
    orders: Sequence[str],
    name: str,
    notes: Mapping[str, Any],
) -> IntegerNetwork:
    """Return the integer network of a float one; it proves itself exact or raises ModelError.

    `calibration` are levels (N, C, H, W); `orders` are those the network was trained for.
    """
    if network.levels != PIXEL_MAX + 1:
        raise ModelError(f"the codec is for 256 levels, the network has {network.levels}")
    seen = _Statistics(network, expand_orders(orders))
    seen.measure(calibration)
    for bits in ACTIVATION_BITS[:-1]:
        with suppress(ModelError):
            return _quantise_to(bits, network, seen, orders, name, notes)
    return _quantise_to(ACTIVATION_BITS[-1], network, seen, orders, name, notes)


def _quantise_to(
    bits: int,
    network: CompactNetwork,
    seen: _Statistics,
    orders: Sequence[str],
    name: str,
    notes: Mapping[str, Any],
) -> IntegerNetwork:
    """Quantise with activations of this many bits."""
    config = network.config
    activation_max = (1 << bits) - 1
    to_activation = activation_max / seen.stream_range  # (width,)
    to_stream = to_activation * 2**STREAM_BITS

    to_input = np.full(config.channels, float(PIXEL_MAX))
    first = _quantise_lmconv(network.first, seen.first, to_input, to_stream, PIXEL_MAX)
    blocks = []
    for block, moments in zip(network.blocks, seen.blocks, strict=True):
        to_hidden = activation_max / moments.hidden_range
        conv = _quantise_lmconv(block.conv, moments.conv, to_activation, to_hidden, activation_max)
        project = _quantise_pointwise(
            block.project, moments.project, to_hidden, to_stream, activation_max
        )
        blocks.append((conv, project))
    scale, offset = output_units(config.mixtures, config.channels)
    out = _quantise_pointwise(network.out, seen.out, to_activation, scale, activation_max, offset)
    predictor, predictor_shift = _quantise_predictor(network)
    integer = IntegerNetwork(
        name=name,
        channels=config.channels,
        mixtures=config.mixtures,
        activation_max=activation_max,
        stream_max=(1 << (bits + STREAM_BITS + STREAM_HEADROOM)) - 1,
        stream_bits=STREAM_BITS,
        predictor=predictor,
        predictor_shift=predictor_shift,
        first=first,
        blocks=tuple(blocks),
        out=out,
        tables=make_tables(),
        orders=tuple(orders),
        notes=notes,
    )
    integer.prove_exact()
    return integer


def make_tables() -> Tables:
    """Compute the mixture's tables: the only place where transcendental functions are used."""
    middle = np.arange(TABLE_SIZE) + 0.5 - TABLE_SIZE // 2  # an entry stands for its middle
    logistic = 1 / (1 + np.exp(-middle * (2 * LOGISTIC_RANGE / TABLE_SIZE)))
    log_scales = np.arange(*LOG_SCALE_RANGE, 1 / LOG_SCALE_UNIT)
    scales = HALF_RANGE * 2**MEAN_BITS * np.exp(log_scales)  # in mean units
    entries_per_unit = TABLE_SIZE / (2 * LOGISTIC_RANGE) / scales
    below = np.arange(16 * LOGIT_UNIT + 1)
    weight = np.rint(2**16 * np.exp2(-below / LOGIT_UNIT))
    weight[-1] = 0
    mantissa = 1 + (np.arange(1 << 12) + 0.5) / (1 << 12)
    return Tables(
        logistic=np.rint(2**CDF_BITS * logistic).astype(np.uint32),
        inverse_scale=np.rint(2**SCALE_BITS * entries_per_unit).astype(np.int32),
        weight=weight.astype(np.int64),
        log2=np.rint(2**COST_BITS * np.log2(mantissa)).astype(np.int64),
    )


def output_units(mixtures: int, channels: int) -> tuple[Floats, Floats]:
    """Return factor and offset that bring each raw output to the mixture's units."""
    couplings, mean_unit = channels * (channels - 1) // 2, HALF_RANGE * 2**MEAN_BITS
    kinds = [
        ([LOGIT_UNIT / np.log(2)], [0.0]),
        ([MEAN_SCALE * mean_unit] * channels, [0.0] * channels),
        (
            [LOG_SCALE_UNIT] * channels,
            [-LOG_SCALE_RANGE[0] * LOG_SCALE_UNIT] * channels,
        ),
        (
            [COEFFICIENT_SCALE * 2**COEFFICIENT_BITS] * couplings,
            [start * 2**COEFFICIENT_BITS for start in COEFFICIENT_START[:couplings]],
        ),
    ]
    factors = [factor for kind, _ in kinds for factor in kind]
    offsets = [offset for _, kind in kinds for offset in kind]
    return np.repeat(factors, mixtures), np.repeat(offsets, mixtures)


@dataclass
class _Inputs:
    """The taps that some order can see, and the second moments of what a layer sees there.

    Inputs are counted tap by tap, and channel by channel in a tap.
    """

    taps: Taps
    kept: list[int]
    moments: Floats

    def observe(self, layer: LMConv, x: Tensor, masks: MaskSet) -> None:
        patches = extract_patches(x, masks[layer.kernel])  # (B, C k1 k2, H W)
        by_tap = patches.view(len(x), x.shape[1], -1, patches.shape[2])[:, :, self.kept]
        self.add(by_tap.permute(2, 1, 0, 3).flatten(2).flatten(0, 1))

    def add(self, values: Tensor) -> None:
        """Take in values (inputs, samples)."""
        self.moments += _double(values @ values.t()) / values.shape[1]


@dataclass
class _BlockInputs:
    conv: _Inputs
    project: _Inputs
    hidden_range: Floats


class _Statistics:
    """What the layers of a network see on calibration images: usual ranges, second moments."""

    def __init__(self, network: CompactNetwork, orders: Sequence[Order]) -> None:
        config = network.config
        self._network, self._orders = network, orders
        self.stream_range = np.zeros(config.width)
        self.first = _make_inputs(*_visible_taps(network.first.kernel, orders), config.channels)
        self.blocks = [
            _BlockInputs(
                _make_inputs(*_visible_taps(block.conv.kernel, orders), config.width),
                _make_inputs(POINTWISE, [0], shape.hidden),
                np.zeros(shape.hidden),
            )
            for block, shape in zip(network.blocks, config.blocks, strict=True)
        ]
        self.out = _make_inputs(POINTWISE, [0], config.width)

    @torch.no_grad()
    def measure(self, images: Tensor) -> None:
        """Run the network over levels (N, C, H, W) under every order."""
        network = self._network
        for order in self._orders:
            masks = MaskSet(order.ranks(*images.shape[2:]))
            x = to_unit(images, network.levels)
            self.first.observe(network.first, x[:MOMENT_IMAGES], masks)
            stream = network.first(x, masks)
            for block, seen in zip(network.blocks, self.blocks, strict=True):
                active = F.relu(stream)
                seen.conv.observe(block.conv, active[:MOMENT_IMAGES], masks)
                hidden = F.relu(block.conv(active, masks))
                seen.project.add(hidden.transpose(0, 1).flatten(1))
                np.maximum(self.stream_range, _usual_range(stream), out=self.stream_range)
                np.maximum(seen.hidden_range, _usual_range(hidden), out=seen.hidden_range)
                stream = stream + block.project(hidden)
            np.maximum(self.stream_range, _usual_range(stream), out=self.stream_range)
            self.out.add(F.relu(stream).transpose(0, 1).flatten(1))
        # A channel that hardly ever fires must not blow up the weights that read it.
        for ranges in (self.stream_range, *(seen.hidden_range for seen in self.blocks)):
            np.maximum(ranges, 0.02 * ranges.max(), out=ranges)


def _make_inputs(taps: Taps, kept: list[int], channels: int) -> _Inputs:
    inputs = len(kept) * channels
    return _Inputs(taps, kept, np.zeros((inputs, inputs)))


def _usual_range(features: Tensor) -> Floats:
    by_channel = features.transpose(0, 1).flatten(1)
    rank = max(1, int(by_channel.shape[1] * PERCENTILE))
    return _double(by_channel.kthvalue(rank, dim=1).values)


def _quantise_lmconv(
    layer: LMConv, seen: _Inputs, to_input: Floats, to_output: Floats, top: int
) -> Layer:
    """Quantise a masked layer, keeping the taps that some order can see."""
    assert layer.mask_weight is not None
    assert layer.bias is not None
    weight = _double(layer.weight.flatten(2)).transpose(0, 2, 1)[:, seen.kept]  # (out, taps, in)
    mask_weight = _double(layer.mask_weight.flatten(1))[:, seen.kept] * to_output[:, None]
    scaled = weight / to_input * to_output[:, None, None]
    return _quantise_rows(seen, to_input, scaled, mask_weight, _double(layer.bias) * to_output, top)


def _quantise_pointwise(
    layer: torch.nn.Conv2d,
    seen: _Inputs,
    to_input: Floats,
    to_output: Floats,
    top: int,
    offset: Floats | float = 0.0,
) -> Layer:
    assert layer.bias is not None
    weight = _double(layer.weight.flatten(1)) / to_input * to_output[:, None]
    bias = _double(layer.bias) * to_output + offset
    return _quantise_rows(seen, to_input, weight[:, None], np.zeros((len(bias), 1)), bias, top)


def _quantise_rows(
    seen: _Inputs,
    to_input: Floats,
    weight: Floats,
    mask_weight: Floats,
    bias: Floats,
    top: int,
) -> Layer:
    """Round each output's row at the finest power of two for which its sums stay exact."""
    units = np.tile(to_input, len(seen.kept))
    moments = seen.moments * units[:, None] * units
    outputs = len(bias)
    layer = Layer(
        seen.taps,
        np.zeros(weight.shape, np.int64),
        np.zeros(mask_weight.shape, np.int64),
        np.zeros(outputs, np.int64),
        np.zeros(outputs, np.int64),
    )
    pending = np.arange(outputs)
    for shift in range(24, -1, -1):
        scale = 2.0**shift
        # Rounding adds little to a sum of magnitudes: rows that are far too large can wait.
        magnitude = np.abs(weight[pending]).sum((1, 2)) * scale * top
        rows = pending[magnitude < EXACT]
        if not rows.size:
            continue
        rounded = round_weights(weight[rows].reshape(len(rows), -1) * scale, moments)
        layer.weight[rows] = rounded.reshape(len(rows), *weight.shape[1:])
        layer.mask_weight[rows] = np.rint(mask_weight[rows] * scale)
        layer.bias[rows] = np.rint(bias[rows] * scale)
        layer.shift[rows] = shift
        fits = layer.bounds(top)[rows] < EXACT
        fits &= np.abs(layer.weight[rows]).max((1, 2), initial=0) <= LARGEST_WEIGHT
        pending = np.setdiff1d(pending, rows[fits])
        if not pending.size:
            return layer
    raise ModelError(f"output {pending[0]}: its weights are too large to export")


def _quantise_predictor(network: CompactNetwork) -> tuple[npt.NDArray[np.int16], int]:
    # A sample enters as 2x - 255, twice its level, so a weight of one is half a level.
    weight = _double(network.predictor.weight.flatten(2)) * 2 ** (MEAN_BITS - 1)
    for shift in range(16, -1, -1):
        integers = np.rint(weight * 2.0**shift)
        sums = np.abs(integers).sum(2).max() * PIXEL_MAX
        if sums < EXACT and np.abs(integers).max() <= LARGEST_WEIGHT:
            return integers.astype(np.int16), shift
    raise ModelError("the linear predictor's weights are too large to export")


def _visible_taps(kernel: Kernel, orders: Sequence[Order]) -> tuple[Taps, list[int]]:
    size = 2 * kernel.dilation * max(kernel.height, kernel.width) + 2
    seen = np.zeros(kernel.taps, bool)
    for order in orders:
        seen |= make_mask(order.ranks(size, size), kernel).any((1, 2))
    kept = np.flatnonzero(seen).tolist()
    offsets = kernel.offsets()
    return Taps(tuple(offsets[tap] for tap in kept)), kept


def _double(values: Tensor) -> Floats:
    result: Floats = values.detach().double().numpy()
    return result
