"""The engine: runs an integer network along a schedule, for any number of images at once.

`Pass.advance` evaluates one range of the sequence, layer by layer. A decoder calls it once per
step, with the pixels so far; an encoder, which knows all pixels, with long ranges that span many
steps. Integers are exact, so both get the same outputs: ranges, batches and the backend never
change a bit.

Features are kept in rings that forget what no later pixel can see. A ring's row is one pixel of one
image: row (place mod size) * images + image. The last rows are zeros: hidden taps see those.

Every row ends in a constant one, which hidden taps do not see either: a layer's mask weights and
its bias are the weights of those ones, so that one product does it all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lmzip.network.adaptation import Adaptation
from lmzip.network.backend import Array, Backend, Indices
from lmzip.network.integer_network import PIXEL_MAX, PREDICTOR_TAPS, IntegerNetwork, Layer
from lmzip.network.parameters import COEFFICIENT_RANGE, MEAN_BITS, MEAN_RANGE, Parameters
from lmzip.order.schedule import Neighbours, Schedule

Int32s = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

# Bounds of the arrays' own type: numpy clips several times faster with those.
_COEFFICIENTS = np.int32(COEFFICIENT_RANGE[0]), np.int32(COEFFICIENT_RANGE[1])
MID_GREY = PIXEL_MAX << (MEAN_BITS - 1)  # 127.5 levels: where 2x - 255 is zero


class _View:
    """Where the pixels of a schedule find their neighbours' rows in a ring of features."""

    def __init__(self, neighbours: Neighbours, pixels: int, images: int, size: int) -> None:
        hidden = neighbours.places == pixels
        places = np.where(hidden, size, neighbours.places % size) * images
        self._places = places.astype(np.intp)  # of the first image's rows
        self._images = np.arange(images)

    def rows(self, start: int, stop: int) -> Indices:
        """Return the rows of places start..stop of all images: (n, used taps)."""
        places, images = self._places[start:stop], self._images
        if len(images) == 1:
            return places
        shape = len(places) * len(images), places.shape[1]
        return (places[:, None, :] + images[:, None]).reshape(shape)


class Pass:
    """One evaluation of a network along a schedule, from the first place to the last.

    `span` is the longest range that `advance` will be asked for. The caller writes the samples of a
    place before it advances to a place that needs them.
    """

    def __init__(
        self,
        network: IntegerNetwork,
        schedule: Schedule,
        images: int,
        span: int,
        backend: Backend,
        adaptation: Adaptation | None = None,
    ) -> None:
        self._network, self._backend, self._images = network, backend, images
        self._adaptation = adaptation
        seen = schedule.neighbours[network.first.taps]
        # Sums of inputs with a fraction (`lmzip.network.deep`) need more than float32 can hold.
        self._wide = network.fraction_bits > 0
        self._first = backend.from_numpy(_with_masks(network.first, seen), self._wide)
        first_bias = network.first.bias * _scale(network.first)
        self._first_bias = backend.from_numpy(first_bias, self._wide)
        self._means = [np.int32(bound << network.fraction_bits) for bound in MEAN_RANGE]
        self._middle = np.int32(MID_GREY << network.fraction_bits)
        self._predictor = _Predictor(network, seen, images, backend)
        self._blocks = [
            (
                conv.taps,
                backend.from_numpy(_with_bias(conv, schedule.neighbours[conv.taps])),
                backend.from_numpy(_pointwise(project)),
            )
            for conv, project in network.blocks
        ]
        self._out = backend.from_numpy(_pointwise(network.out))

        # The pixels stay; features are kept as far back as any layer looks.
        reach = max((schedule.neighbours[conv.taps].reach for conv, _ in network.blocks), default=0)
        self._size = min(schedule.pixels, reach + span)
        width = len(network.first.weight)
        self._pixels = self._make_rows(schedule.pixels, network.channels)
        self._rings = [self._make_rows(self._size, width) for _ in network.blocks]
        self._pixel_view = _View(seen, schedule.pixels, images, schedule.pixels)
        self._views = {
            taps: _View(schedule.neighbours[taps], schedule.pixels, images, self._size)
            for taps in {conv.taps for conv, _ in network.blocks}
        }
        # What the products by 1x1 weights take: its last column stays one.
        widths = {width, *(len(conv.weight) for conv, _ in network.blocks)}
        self._inputs = {width: self._make_rows(span, width) for width in widths}

    def _make_rows(self, places: int, columns: int) -> Array:
        """Return rows for some places of each image, followed by those that hidden taps see."""
        rows = self._backend.zeros(((places + 1) * self._images, columns + 1))
        rows[: places * self._images, columns] = 1
        return rows

    def write_inputs(self, start: int, stop: int, inputs: Int32s) -> None:
        """Store what the network sees of the samples (places, images, C) of a range.

        That is 2x - 255 for a sample x of 8 bits; `lmzip.stream.depths` knows it for deep ones.
        """
        rows = slice(start * self._images, stop * self._images)
        centred = inputs.reshape(-1, self._network.channels)
        self._pixels[rows, :-1] = self._backend.from_numpy(centred)

    def advance(self, start: int, stop: int) -> Parameters:
        """Evaluate places start..stop; the n = places * images columns are place-major."""
        backend, network = self._backend, self._network
        patches = backend.gather(self._pixels, self._pixel_view.rows(start, stop))
        if self._wide:
            patches = backend.widen(patches)
        stream = backend.multiply(patches, self._first)
        stream += self._first_bias
        backend.round_clip(stream, -network.stream_max, network.stream_max)
        if self._wide:
            stream = backend.narrow(stream)
        rows = {taps: view.rows(start, stop) for taps, view in self._views.items()}
        for ring, (taps, weight, project) in zip(self._rings, self._blocks, strict=True):
            self._store(ring, start, stream)
            hidden = self._inputs[weight.shape[1]][: len(stream)]
            backend.multiply(backend.gather(ring, rows[taps]), weight, out=hidden[:, :-1])
            backend.round_clip(hidden, 0, network.activation_max)
            backend.add_rounded(stream, backend.multiply(hidden, project), network.stream_max)
        active = self._inputs[stream.shape[1]][: len(stream)]
        self._activate(stream, active[:, :-1])
        outputs = backend.multiply(active, self._out)
        linear = self._predictor.predict(patches, start, stop)
        integers = np.rint(backend.to_numpy(outputs).T).astype(np.int32, order="C")
        if self._adaptation is not None:
            integers += self._adaptation.correct(backend.to_numpy(active)[:, :-1])
        return self._read_parameters(integers, backend.to_numpy(linear))

    def _store(self, ring: Array, start: int, stream: Array) -> None:
        """Put the activations of a range into a ring."""
        first = start % self._size * self._images
        before_end = min(len(stream), self._size * self._images - first)
        self._activate(stream[:before_end], ring[first : first + before_end, :-1])
        if before_end < len(stream):  # the ring starts over
            self._activate(stream[before_end:], ring[: len(stream) - before_end, :-1])

    def _activate(self, stream: Array, out: Array) -> None:
        network = self._network
        self._backend.activate(stream, network.stream_bits, network.activation_max, out)

    def _read_parameters(self, outputs: Int32s, linear: npt.NDArray[Any]) -> Parameters:
        """Turn outputs (outputs, n) and linear predictions into the parameters of the mixture."""
        network = self._network
        by_kind = outputs.reshape(-1, network.mixtures, outputs.shape[1])
        channels = network.channels
        means = by_kind[1 : 1 + channels]
        means += np.rint(linear.T).astype(np.int32, order="C")[:, None, :] + self._middle
        means.clip(*self._means, out=means)
        coefficients = by_kind[1 + 2 * channels :]
        coefficients.clip(*_COEFFICIENTS, out=coefficients)
        return Parameters(by_kind[0], means, by_kind[1 + channels : 1 + 2 * channels], coefficients)


class _Predictor:
    """The linear predictor on the first layer's patches, with a kernel for each mask pattern."""

    def __init__(
        self, network: IntegerNetwork, neighbours: Neighbours, images: int, backend: Backend
    ) -> None:
        self._backend, self._images = backend, np.arange(images)
        kernels = _lay_out_predictor(network, neighbours)
        self._kernels = backend.from_numpy(kernels, network.fraction_bits > 0)
        self._pattern = neighbours.pattern
        self._unusual = np.flatnonzero(neighbours.pattern)  # not the most frequent pattern

    def predict(self, patches: Array, start: int, stop: int) -> Array:
        """Return the linear prediction, in units of a mean and relative to mid-grey: (n, C)."""
        backend = self._backend
        linear = backend.multiply(patches, self._kernels[0])
        first, last = np.searchsorted(self._unusual, (start, stop))
        if first < last:
            unusual, images = self._unusual[first:last], self._images
            rows = (((unusual - start) * len(images))[:, None] + images).ravel()
            patterns = np.repeat(self._pattern[unusual], len(images))
            theirs = backend.gather(patches, rows[:, None])
            backend.put(linear, rows, backend.multiply_each(theirs, self._kernels, patterns))
        return linear


def _scale(layer: Layer) -> Floats:
    """Weights are divided by 2^shift beforehand, which is exact."""
    return np.exp2(-layer.shift.astype(np.float64))


def _with_masks(layer: Layer, neighbours: Neighbours) -> Floats:
    """Return the weights of the taps that anyone can see: (used taps * (inputs + 1), outputs)."""
    used = list(neighbours.used)
    both = np.concatenate([layer.weight[:, used], layer.mask_weight[:, used, None]], axis=2)
    return both.reshape(len(both), -1).T * _scale(layer)


def _with_bias(layer: Layer, neighbours: Neighbours) -> Floats:
    """Return the weights with the bias added to that of the centre's one, which is always seen."""
    weights = _with_masks(layer, neighbours)
    centre = neighbours.used.index(layer.taps.offsets.index((0, 0)))
    weights[(centre + 1) * (layer.weight.shape[2] + 1) - 1] += layer.bias * _scale(layer)
    return weights


def _pointwise(layer: Layer) -> Floats:
    """Return the weights of a 1x1 layer and, as those of the ones, its bias."""
    both = np.concatenate([layer.weight[:, 0], layer.bias[:, None]], axis=1)
    return both.T * _scale(layer)


def find_predictor_taps(network: IntegerNetwork) -> list[int | None]:
    """Return which of the first layer's taps each of the predictor's neighbours is."""
    offsets = network.first.taps.offsets
    return [offsets.index(o) if o in offsets else None for o in PREDICTOR_TAPS.offsets]


def find_predictor_sets(network: IntegerNetwork, neighbours: Neighbours) -> npt.NDArray[np.int64]:
    """Return the set of visible neighbours, as a number, for each of the first layer's patterns."""
    sets = np.zeros(len(neighbours.patterns), np.int64)
    for bit, tap in enumerate(find_predictor_taps(network)):
        if tap is not None:
            sets |= neighbours.patterns[:, tap].astype(np.int64) << bit
    return sets


def _lay_out_predictor(network: IntegerNetwork, neighbours: Neighbours) -> Floats:
    """Lay out the predictor for the first layer's patches: (patterns, used taps * (C + 1), C).

    Its eight neighbours are among the first layer's taps, so the masks of that layer decide which
    of the 256 kernels a pixel has. The ones do not count.
    """
    taps, sets = find_predictor_taps(network), find_predictor_sets(network, neighbours)
    offsets, channels = network.first.taps.offsets, network.channels
    kernels = np.zeros((len(sets), len(offsets), channels + 1, channels))
    by_tap = network.predictor.reshape(256, channels, channels, 8)  # set, out, in, neighbour
    for bit, tap in enumerate(taps):
        if tap is not None:
            visible = (sets >> bit & 1)[:, None, None]
            kernels[:, tap, :-1] = np.swapaxes(by_tap[sets, :, :, bit], 1, 2) * visible
    kernels = kernels[:, list(neighbours.used)] * 2.0**-network.predictor_shift
    return kernels.reshape(len(sets), -1, channels)
