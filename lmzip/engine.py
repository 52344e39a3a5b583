"""The engine: runs an integer network along a schedule, for any number of images at once.

`Pass.advance` evaluates one range of the sequence, layer by layer. A decoder calls it once per
step, with the pixels so far; an encoder, which knows all pixels, with long ranges that span many
steps. Integers are exact, so both get the same outputs: ranges, batches and the backend never
change a bit.

Features are kept in rings that forget what no later pixel can see. A ring's row is one pixel of one
image: row (place mod size) * images + image. The last rows are zeros, which is what hidden taps see.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmzip.backend import Array, Backend
from lmzip.mixture import COEFFICIENT_RANGE, MEAN_BITS, MEAN_RANGE, Parameters
from lmzip.network import PIXEL_MAX, PREDICTOR_TAPS, IntegerNetwork, Layer
from lmzip.schedule import Neighbours, Schedule

Int32s = npt.NDArray[np.int32]

MID_GREY = PIXEL_MAX << (MEAN_BITS - 1)  # 127.5 levels: where 2x - 255 is zero


@dataclass
class _Ring:
    """Features of the last `size` places of the sequence: ((size + 1) * images, channels)."""

    rows: Array
    size: int


@dataclass
class _Product:
    """A layer, ready for one schedule. Weights are divided by 2^shift, which is exact.

    weight (used taps * inputs, outputs); bias (outputs,) of the most frequent mask pattern, and
    what the others add to it (patterns, outputs).
    """

    weight: Array
    bias: Array
    bias_changes: Array
    neighbours: Neighbours


class Pass:
    """One evaluation of a network along a schedule, from the first place to the last.

    `span` is the longest range that `advance` will be asked for. The caller writes the samples of a
    place before it advances to a place that needs them.
    """

    def __init__(
        self, network: IntegerNetwork, schedule: Schedule, images: int, span: int, backend: Backend
    ) -> None:
        self._network, self._schedule, self._backend = network, schedule, backend
        self._images = images
        self._pixels = self._ring(network.channels, schedule.pixels)
        self._first = _prepare(network.first, schedule, backend)
        self._predictor = _prepare_predictor(network, schedule, backend)
        self._blocks = []
        for conv, project in network.blocks:
            size = min(schedule.pixels, schedule.neighbours[conv.taps].reach + span)
            ring = self._ring(conv.weight.shape[2], size)
            self._blocks.append(
                (ring, _prepare(conv, schedule, backend), _prepare_pointwise(project, backend))
            )
        self._out = _prepare_pointwise(network.out, backend)

    def write_pixels(self, start: int, stop: int, samples: Int32s) -> None:
        """Store the samples (places, images, C) of a range of the sequence."""
        rows = slice(start * self._images, stop * self._images)
        centred = (2 * samples - PIXEL_MAX).reshape(-1, self._network.channels)
        self._pixels.rows[rows] = self._backend.from_numpy(centred)

    def advance(self, start: int, stop: int) -> Parameters:
        """Evaluate places start..stop; the n = places * images columns are place-major."""
        backend, network = self._backend, self._network
        patches = self._gather(self._pixels, self._first.neighbours, start, stop)
        stream = self._multiply(patches, self._first, start, stop)
        backend.round_clip(stream, -network.stream_max, network.stream_max)
        for ring, conv, (weight, bias) in self._blocks:
            self._store(ring, start, self._activate(stream))
            neighbourhood = self._gather(ring, conv.neighbours, start, stop)
            hidden = self._multiply(neighbourhood, conv, start, stop)
            backend.round_clip(hidden, 0, network.activation_max)
            change = backend.multiply(hidden, weight)
            change += bias
            backend.add_rounded(stream, change, network.stream_max)
        weight, bias = self._out
        outputs = backend.multiply(self._activate(stream), weight)
        outputs += bias
        linear = self._predict(patches, start, stop)
        return self._read_parameters(backend.to_numpy(outputs), backend.to_numpy(linear))

    def _ring(self, channels: int, size: int) -> _Ring:
        return _Ring(self._backend.zeros(((size + 1) * self._images, channels)), size)

    def _activate(self, stream: Array) -> Array:
        network = self._network
        return self._backend.activate(stream, network.stream_bits, network.activation_max)

    def _store(self, ring: _Ring, start: int, features: Array) -> None:
        first = start % ring.size * self._images
        end = min(first + len(features), ring.size * self._images)
        ring.rows[first:end] = features[: end - first]
        if len(features) > end - first:  # the ring starts over
            ring.rows[: len(features) - (end - first)] = features[end - first :]

    def _gather(self, ring: _Ring, neighbours: Neighbours, start: int, stop: int) -> Array:
        """Return what each pixel sees through the taps: (n, used taps * channels)."""
        places = neighbours.places[start:stop]
        if ring.size < self._schedule.pixels:
            places = np.where(places == self._schedule.pixels, ring.size, places % ring.size)
        if self._images > 1:
            rows = places[:, None, :] * self._images + np.arange(self._images)[:, None]
            places = rows.reshape(-1, places.shape[1])
        return self._backend.gather(ring.rows, places)

    def _unusual(self, neighbours: Neighbours, start: int, stop: int) -> tuple[Int32s, Int32s]:
        """Return which of the n pixels do not have the most frequent mask, and their masks."""
        pattern = neighbours.pattern[start:stop]
        places = np.flatnonzero(pattern).astype(np.int32)
        rows = (places[:, None] * self._images + np.arange(self._images, dtype=np.int32)).ravel()
        return rows, np.repeat(pattern[places], self._images)

    def _multiply(self, patches: Array, product: _Product, start: int, stop: int) -> Array:
        sums = self._backend.multiply(patches, product.weight)
        sums += product.bias
        rows, patterns = self._unusual(product.neighbours, start, stop)
        if rows.size:
            changes = self._backend.gather(product.bias_changes, patterns[:, None])
            self._backend.add_at(sums, rows, changes)
        return sums

    def _predict(self, patches: Array, start: int, stop: int) -> Array:
        """Return the linear prediction, in units of a mean and relative to mid-grey: (n, C)."""
        kernels = self._predictor
        linear = self._backend.multiply(patches, kernels[0])
        rows, patterns = self._unusual(self._first.neighbours, start, stop)
        if rows.size:
            unusual = self._backend.gather(patches, rows[:, None])
            self._backend.put(linear, rows, self._backend.multiply_each(unusual, kernels, patterns))
        return linear

    def _read_parameters(
        self, outputs: npt.NDArray[np.float32], linear: npt.NDArray[np.float32]
    ) -> Parameters:
        """Round the sums to the integers of the mixture, pixels innermost."""
        network = self._network
        integers = np.rint(outputs.T).astype(np.int32)
        by_kind = integers.reshape(-1, network.mixtures, integers.shape[1])
        split = np.cumsum([1, network.channels, network.channels])
        logits, means, log_scales, coefficients = np.split(by_kind, split)
        means = means + (np.rint(linear.T).astype(np.int32)[:, None, :] + MID_GREY)
        return Parameters(
            logits[0],
            np.clip(means, *MEAN_RANGE),
            log_scales,
            np.clip(coefficients, *COEFFICIENT_RANGE),
        )


def _prepare(layer: Layer, schedule: Schedule, backend: Backend) -> _Product:
    neighbours = schedule.neighbours[layer.taps]
    scale = np.exp2(-layer.shift.astype(np.float64))
    weight = layer.weight[:, list(neighbours.used)].reshape(len(layer.weight), -1) * scale[:, None]
    mask_bias = neighbours.patterns @ layer.mask_weight.T.astype(np.int64)  # (patterns, outputs)
    bias = (mask_bias + layer.bias) * scale
    return _Product(
        backend.from_numpy(weight.T),
        backend.from_numpy(bias[0]),
        backend.from_numpy(bias - bias[0]),
        neighbours,
    )


def _prepare_pointwise(layer: Layer, backend: Backend) -> tuple[Array, Array]:
    scale = np.exp2(-layer.shift.astype(np.float64))
    weight = layer.weight[:, 0] * scale[:, None]
    return backend.from_numpy(weight.T), backend.from_numpy(layer.bias * scale)


def _prepare_predictor(network: IntegerNetwork, schedule: Schedule, backend: Backend) -> Array:
    """Lay out the predictor for the first layer's patches: (patterns, used taps * C, C).

    Its eight neighbours are among the first layer's taps, so the masks of that layer decide which
    of the 256 kernels a pixel has.
    """
    neighbours = schedule.neighbours[network.first.taps]
    offsets = network.first.taps.offsets
    taps = [offsets.index(o) if o in offsets else None for o in PREDICTOR_TAPS.offsets]
    sets = np.zeros(len(neighbours.patterns), np.int64)
    channels = network.channels
    for bit, tap in enumerate(taps):
        if tap is not None:
            sets |= neighbours.patterns[:, tap].astype(np.int64) << bit
    kernels = np.zeros((len(sets), len(offsets), channels, channels))
    by_tap = network.predictor.reshape(256, channels, channels, 8)  # set, out, in, neighbour
    for bit, tap in enumerate(taps):
        if tap is not None:
            visible = (sets >> bit & 1)[:, None, None]
            kernels[:, tap] = np.swapaxes(by_tap[sets, :, :, bit], 1, 2) * visible
    kernels = kernels[:, list(neighbours.used)] * 2.0**-network.predictor_shift
    return backend.from_numpy(kernels.reshape(len(sets), -1, channels))
