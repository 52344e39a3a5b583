"""Export: a trained compact network becomes an integer network (DESIGN: exact by arithmetic).

Every channel gets a real scale that maps its usual range (the 99.99th percentile on calibration
images) to 10 bits; ReLU commutes with positive scales, so they fold into the weights on either
side. The weights of each output are then multiplied by the largest power of two for which the
sums provably stay below 2^24, and rounded. Biases and mask weights share that scale.

The outputs leave the last layer in the units of `lmzip.mixture`, whose tables are made here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from lmzip.cost import COST_BITS
from lmzip.errors import ModelError
from lmzip.masks import Kernel, make_mask
from lmzip.mixture import (
    CDF_BITS,
    COEFFICIENT_BITS,
    MEAN_BITS,
    SCALE_BITS,
    TABLE_SIZE,
    Tables,
)
from lmzip.models.compact import (
    COEFFICIENT_SCALE,
    COEFFICIENT_START,
    MEAN_SCALE,
    CompactConfig,
    CompactNetwork,
)
from lmzip.models.lmconv import LMConv, MaskSet
from lmzip.models.mixture import to_unit
from lmzip.network import EXACT, LARGEST_WEIGHT, PIXEL_MAX, POINTWISE, IntegerNetwork, Layer
from lmzip.orders import Order, expand_orders
from lmzip.schedule import Taps

Floats = npt.NDArray[np.float64]

ACTIVATION_BITS = 10  # measured: 8 bits lose 0.0054 bpd, 10 bits 0.0007, 12 bits starve the weights
STREAM_BITS = 2  # the residual stream is this much finer, since it is rounded once per block
STREAM_HEADROOM = 4  # bits that the stream may exceed an activation's usual range by
PERCENTILE = 0.9999

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
    config = network.config
    if config.levels != PIXEL_MAX + 1:
        raise ModelError(f"the codec is for 256 levels, the network has {config.levels}")
    parsed = expand_orders(orders)
    stream_range, hidden_ranges = _measure_ranges(network, calibration, parsed)
    activation_max = (1 << ACTIVATION_BITS) - 1
    to_activation = activation_max / stream_range  # (width,)
    to_stream = to_activation * 2**STREAM_BITS

    first = _quantise_lmconv(network.first, parsed, 1 / PIXEL_MAX, to_stream, PIXEL_MAX)
    blocks = []
    for block, hidden_range in zip(network.blocks, hidden_ranges, strict=True):
        to_hidden = activation_max / hidden_range
        conv = _quantise_lmconv(block.conv, parsed, 1 / to_activation, to_hidden, activation_max)
        project = _quantise_pointwise(block.project, 1 / to_hidden, to_stream, activation_max)
        blocks.append((conv, project))
    scale, offset = _output_units(config)
    out = _quantise_pointwise(network.out, 1 / to_activation, scale, activation_max, offset)
    predictor, predictor_shift = _quantise_predictor(network)
    integer = IntegerNetwork(
        name=name,
        channels=config.channels,
        mixtures=config.mixtures,
        activation_max=activation_max,
        stream_max=(1 << (ACTIVATION_BITS + STREAM_BITS + STREAM_HEADROOM)) - 1,
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


def _output_units(config: CompactConfig) -> tuple[Floats, Floats]:
    """Return factor and offset that bring each raw output to the mixture's units."""
    couplings, mean_unit = config.couplings, HALF_RANGE * 2**MEAN_BITS
    kinds = [
        ([LOGIT_UNIT / np.log(2)], [0.0]),
        ([MEAN_SCALE * mean_unit] * config.channels, [0.0] * config.channels),
        (
            [LOG_SCALE_UNIT] * config.channels,
            [-LOG_SCALE_RANGE[0] * LOG_SCALE_UNIT] * config.channels,
        ),
        (
            [COEFFICIENT_SCALE * 2**COEFFICIENT_BITS] * couplings,
            [start * 2**COEFFICIENT_BITS for start in COEFFICIENT_START[:couplings]],
        ),
    ]
    factors = [factor for kind, _ in kinds for factor in kind]
    offsets = [offset for _, kind in kinds for offset in kind]
    return np.repeat(factors, config.mixtures), np.repeat(offsets, config.mixtures)


@torch.no_grad()
def _measure_ranges(
    network: CompactNetwork, images: Tensor, orders: Sequence[Order]
) -> tuple[Floats, list[Floats]]:
    """Return the usual range of each channel of the stream and of each block's hidden layer."""
    stream_range = np.zeros(network.config.width)
    hidden_ranges = [np.zeros(block.hidden) for block in network.config.blocks]
    for order in orders:
        masks = MaskSet(order.ranks(*images.shape[2:]))
        stream = network.first(to_unit(images, network.levels), masks)
        for block, hidden_range in zip(network.blocks, hidden_ranges, strict=True):
            np.maximum(stream_range, _usual_range(stream), out=stream_range)
            hidden = F.relu(block.conv(F.relu(stream), masks))
            np.maximum(hidden_range, _usual_range(hidden), out=hidden_range)
            stream = stream + block.project(hidden)
        np.maximum(stream_range, _usual_range(stream), out=stream_range)
    # A channel that hardly ever fires must not blow up the weights that read it.
    for ranges in (stream_range, *hidden_ranges):
        np.maximum(ranges, 0.02 * ranges.max(), out=ranges)
    return stream_range, hidden_ranges


def _usual_range(features: Tensor) -> Floats:
    by_channel = features.transpose(0, 1).flatten(1)
    rank = max(1, int(by_channel.shape[1] * PERCENTILE))
    result: Floats = by_channel.kthvalue(rank, dim=1).values.double().numpy()
    return result


def _quantise_lmconv(
    layer: LMConv, orders: Sequence[Order], from_input: float | Floats, to_output: Floats, top: int
) -> Layer:
    """Quantise a masked layer, keeping the taps that some order can see."""
    taps, kept = _visible_taps(layer.kernel, orders)
    assert layer.mask_weight is not None
    assert layer.bias is not None
    weight = _double(layer.weight.flatten(2)).transpose(0, 2, 1)[:, kept]  # (out, taps, in)
    mask_weight = _double(layer.mask_weight.flatten(1))[:, kept]
    scaled = weight * from_input * to_output[:, None, None]
    bias = _double(layer.bias) * to_output
    return _quantise_rows(taps, scaled, mask_weight * to_output[:, None], bias, top)


def _quantise_pointwise(
    layer: torch.nn.Conv2d,
    from_input: Floats,
    to_output: Floats,
    top: int,
    offset: Floats | float = 0.0,
) -> Layer:
    assert layer.bias is not None
    weight = _double(layer.weight.flatten(1)) * from_input * to_output[:, None]
    bias = _double(layer.bias) * to_output + offset
    return _quantise_rows(POINTWISE, weight[:, None], np.zeros((len(bias), 1)), bias, top)


def _quantise_rows(
    taps: Taps, weight: Floats, mask_weight: Floats, bias: Floats, top: int
) -> Layer:
    """Round each output's row at the finest power of two for which its sums stay exact."""
    for shift in range(24, -1, -1):
        scale = 2.0**shift
        layer = Layer(
            taps,
            np.rint(weight * scale).astype(np.int64),
            np.rint(mask_weight * scale).astype(np.int64),
            np.rint(bias * scale).astype(np.int64),
            np.full(len(bias), shift),
        )
        fits = layer.bounds(top) < EXACT
        fits &= np.abs(layer.weight).max((1, 2), initial=0) <= LARGEST_WEIGHT
        if shift == 24:
            chosen, pending = layer, ~fits
            continue
        take = pending & fits
        for field in ("weight", "mask_weight", "bias", "shift"):
            getattr(chosen, field)[take] = getattr(layer, field)[take]
        pending &= ~fits
        if not pending.any():
            return chosen
    raise ModelError(
        f"output {int(np.flatnonzero(pending)[0])}: its weights are too large to export"
    )


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
