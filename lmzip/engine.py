"""The engine: runs an integer network along a schedule, for any number of images at once.

`Pass.advance` evaluates one range of the sequence, layer by layer. A decoder calls it once per
step, with the pixels so far; an encoder, which knows all pixels, with long ranges that span many
steps. Integers are exact, so both get the same outputs: ranges, batches and the backend never
change a bit.

Features are kept in rings that forget what no later pixel can see. A ring's row is one pixel of one
image: row (place mod size) * images + image. The last rows are zeros: hidden taps see those.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmzip.backend import Array, Backend, Indices
from lmzip.mixture import COEFFICIENT_RANGE, MEAN_BITS, MEAN_RANGE, Parameters
from lmzip.network import PIXEL_MAX, PREDICTOR_TAPS, IntegerNetwork, Layer
from lmzip.schedule import Neighbours, Schedule, Taps

Int32s = npt.NDArray[np.int32]

# Bounds of the arrays' own type: numpy clips several times faster with those.
_MEANS = np.int32(MEAN_RANGE[0]), np.int32(MEAN_RANGE[1])
_COEFFICIENTS = np.int32(COEFFICIENT_RANGE[0]), np.int32(COEFFICIENT_RANGE[1])
MID_GREY = PIXEL_MAX << (MEAN_BITS - 1)  # 127.5 levels: where 2x - 255 is zero


class _View:
    """Where the pixels of a schedule find their neighbours' rows in a ring of features."""

    def __init__(self, neighbours: Neighbours, schedule: Schedule, images: int, size: int) -> None:
        hidden = neighbours.places == schedule.pixels
        places = np.where(hidden, size, neighbours.places % size) * images
        self._places = places.astype(np.intp)  # of the first image's rows
        self._images = np.arange(images)
        self._pattern = neighbours.pattern
        self._unusual = np.flatnonzero(neighbours.pattern)

    def at(self, start: int, stop: int) -> _Range:
        places, images = self._places[start:stop], self._images
        if len(images) > 1:
            shape = len(places) * len(images), places.shape[1]
            places = (places[:, None, :] + images[:, None]).reshape(shape)
        first, last = np.searchsorted(self._unusual, (start, stop))
        unusual = self._unusual[first:last]
        rows = (((unusual - start) * len(images))[:, None] + images).ravel()
        return _Range(places, rows, np.repeat(self._pattern[unusual], len(images)))


@dataclass
class _Range:
    """A view's rows for n pixels: (n, used taps).

    `unusual` are the pixels that do not have the most frequent mask, `patterns` what they have.
    """

    rows: Indices
    unusual: Indices
    patterns: Indices


@dataclass
class _Product:
    """A layer, ready for one schedule. Weights are divided by 2^shift, which is exact.

    weight (used taps * inputs, outputs); bias (outputs,) of the most frequent mask pattern, and
    what the others add to it (patterns, outputs).
    """

    taps: Taps
    weight: Array
    bias: Array
    bias_changes: Array


class Pass:
    """One evaluation of a network along a schedule, from the first place to the last.

    `span` is the longest range that `advance` will be asked for. The caller writes the samples of a
    place before it advances to a place that needs them.
    """

    def __init__(
        self, network: IntegerNetwork, schedule: Schedule, images: int, span: int, backend: Backend
    ) -> None:
        self._network, self._backend, self._images = network, backend, images
        self._first = _prepare(network.first, schedule, backend)
        self._predictor = _prepare_predictor(network, schedule, backend)
        self._blocks = [
            (_prepare(conv, schedule, backend), _prepare_pointwise(project, backend))
            for conv, project in network.blocks
        ]
        self._out = _prepare_pointwise(network.out, backend)

        # The pixels stay; features are kept as far back as any layer looks.
        reach = max((schedule.neighbours[conv.taps].reach for conv, _ in network.blocks), default=0)
        self._size = min(schedule.pixels, reach + span)
        self._pixels = backend.zeros(((schedule.pixels + 1) * images, network.channels))
        self._rings = [
            backend.zeros(((self._size + 1) * images, conv.weight.shape[2]))
            for conv, _ in network.blocks
        ]
        self._pixel_view = _View(
            schedule.neighbours[network.first.taps], schedule, images, schedule.pixels
        )
        self._views = {
            taps: _View(schedule.neighbours[taps], schedule, images, self._size)
            for taps in {conv.taps for conv, _ in network.blocks}
        }

    def write_pixels(self, start: int, stop: int, samples: Int32s) -> None:
        """Store the samples (places, images, C) of a range of the sequence."""
        rows = slice(start * self._images, stop * self._images)
        centred = (2 * samples - PIXEL_MAX).reshape(-1, self._network.channels)
        self._pixels[rows] = self._backend.from_numpy(centred)

    def advance(self, start: int, stop: int) -> Parameters:
        """Evaluate places start..stop; the n = places * images columns are place-major."""
        backend, network = self._backend, self._network
        seen = self._pixel_view.at(start, stop)
        patches = backend.gather(self._pixels, seen.rows)
        stream = self._multiply(patches, self._first, seen)
        backend.round_clip(stream, -network.stream_max, network.stream_max)
        ranges = {taps: view.at(start, stop) for taps, view in self._views.items()}
        for ring, (conv, (weight, bias)) in zip(self._rings, self._blocks, strict=True):
            self._store(ring, start, self._activate(stream))
            neighbourhood = backend.gather(ring, ranges[conv.taps].rows)
            hidden = self._multiply(neighbourhood, conv, ranges[conv.taps])
            backend.round_clip(hidden, 0, network.activation_max)
            change = backend.multiply(hidden, weight)
            change += bias
            backend.add_rounded(stream, change, network.stream_max)
        weight, bias = self._out
        outputs = backend.multiply(self._activate(stream), weight)
        outputs += bias
        linear = self._predict(patches, seen)
        return self._read_parameters(backend.to_numpy(outputs), backend.to_numpy(linear))

    def _activate(self, stream: Array) -> Array:
        network = self._network
        return self._backend.activate(stream, network.stream_bits, network.activation_max)

    def _store(self, ring: Array, start: int, features: Array) -> None:
        first = start % self._size * self._images
        end = min(first + len(features), self._size * self._images)
        ring[first:end] = features[: end - first]
        if len(features) > end - first:  # the ring starts over
            ring[: len(features) - (end - first)] = features[end - first :]

    def _multiply(self, patches: Array, product: _Product, seen: _Range) -> Array:
        sums = self._backend.multiply(patches, product.weight)
        sums += product.bias
        if seen.unusual.size:
            changes = self._backend.gather(product.bias_changes, seen.patterns[:, None])
            self._backend.add_at(sums, seen.unusual, changes)
        return sums

    def _predict(self, patches: Array, seen: _Range) -> Array:
        """Return the linear prediction, in units of a mean and relative to mid-grey: (n, C)."""
        backend, kernels = self._backend, self._predictor
        linear = backend.multiply(patches, kernels[0])
        if seen.unusual.size:
            unusual = backend.gather(patches, seen.unusual[:, None])
            predictions = backend.multiply_each(unusual, kernels, seen.patterns)
            backend.put(linear, seen.unusual, predictions)
        return linear

    def _read_parameters(
        self, outputs: npt.NDArray[np.float32], linear: npt.NDArray[np.float32]
    ) -> Parameters:
        """Round the sums to the integers of the mixture, pixels innermost."""
        network = self._network
        integers = np.rint(outputs.T).astype(np.int32)
        by_kind = integers.reshape(-1, network.mixtures, integers.shape[1])
        channels = network.channels
        means = by_kind[1 : 1 + channels]
        means += np.rint(linear.T).astype(np.int32)[:, None, :] + np.int32(MID_GREY)
        coefficients = by_kind[1 + 2 * channels :]
        np.clip(means, *_MEANS, out=means)
        np.clip(coefficients, *_COEFFICIENTS, out=coefficients)
        return Parameters(by_kind[0], means, by_kind[1 + channels : 1 + 2 * channels], coefficients)


def _prepare(layer: Layer, schedule: Schedule, backend: Backend) -> _Product:
    neighbours = schedule.neighbours[layer.taps]
    scale = np.exp2(-layer.shift.astype(np.float64))
    weight = layer.weight[:, list(neighbours.used)].reshape(len(layer.weight), -1) * scale[:, None]
    mask_bias = neighbours.patterns @ layer.mask_weight.T.astype(np.int64)  # (patterns, outputs)
    bias = (mask_bias + layer.bias) * scale
    return _Product(
        layer.taps,
        backend.from_numpy(weight.T),
        backend.from_numpy(bias[0]),
        backend.from_numpy(bias - bias[0]),
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
