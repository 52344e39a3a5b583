"""Runs of a network along a schedule in C: what `lmzip.stream` does with numpy, in few calls.

A decoder's step is one call that evaluates the network and then one for each symbol; an encoder's
span is a single call. In between, only frequencies and symbols cross to Python and the coder.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from lmzip.native.packing import Kernel, pack_network, pad_outputs, pad_to_blocks
from lmzip.network.adaptation import Manner, Watch, find_around
from lmzip.network.deep import deepen
from lmzip.network.engine import find_predictor_sets, find_predictor_taps
from lmzip.network.integer_network import PREDICTOR_TAPS, IntegerNetwork, Layer
from lmzip.order.schedule import Neighbours, Schedule

if TYPE_CHECKING:
    from lmzip.native._kernels import Capsule

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Samples = npt.NDArray[Any]  # (places, images, channels): uint8, or uint16 if deep
Frequencies = npt.NDArray[np.float32]

NIBBLES = 16
SPAN = 256  # columns that the encoder evaluates at once: their features stay in the cache


class Precision(Protocol):
    """What a kernel needs of `lmzip.stream.precision.Precision`."""

    @property
    def depth(self) -> int: ...
    @property
    def sharpness(self) -> int: ...
    @property
    def flatness(self) -> int: ...
    @property
    def symbols(self) -> int: ...
    @property
    def boundaries(self) -> Int32s: ...


class Steps:
    """Decodes step by step; see `lmzip.stream.steps.Steps`."""

    def __init__(
        self,
        kernel: Kernel,
        network: IntegerNetwork,
        schedule: Schedule,
        groups: Sequence[int],
        coded: int,
        precision: Precision | None = None,
        manner: Manner | None = None,
    ) -> None:
        from lmzip.native import _kernels

        self._kernels, self._images = _kernels, sum(groups)
        longest = schedule.longest
        kind = np.uint16 if precision else np.uint8
        self.samples: Samples = np.zeros((schedule.pixels, self._images, coded), kind)
        self._room = np.empty((longest * self._images, NIBBLES), np.float32)
        self._run = _make_run(
            kernel,
            network,
            schedule,
            groups,
            longest,
            self.samples,
            precision,
            manner,
            self._room,
        )

    def begin(self, start: int, stop: int) -> Frequencies:
        """Evaluate a step; return the frequencies of the first channel's first nibbles."""
        self._kernels.begin_step(self._run, start, stop)
        self._frequencies = self._room[: (stop - start) * self._images]
        return self._frequencies

    def refine(self, nibbles: Int32s) -> Frequencies:
        """Take nibbles; return the frequencies of the next ones of the same samples."""
        self._kernels.refine_step(self._run, nibbles)
        return self._frequencies

    def finish(self, nibbles: Int32s) -> Frequencies:
        """Take the last nibbles; return the frequencies of the next channel's first, if any."""
        self._kernels.finish_channel(self._run, nibbles)
        return self._frequencies


def find_intervals(
    kernel: Kernel,
    network: IntegerNetwork,
    schedule: Schedule,
    samples: Samples,
    groups: Sequence[int],
    span: int | None = None,
    check: Callable[[], None] | None = None,
    precision: Precision | None = None,
    manner: Manner | None = None,
    watch: Watch | None = None,
) -> tuple[list[tuple[Int32s, Int32s]], Int64s]:
    """Return what the encoder needs of samples (places, images, channels), and what they cost.

    For each group the intervals [left, right) of all its symbols in the sequence of its stream,
    and the code lengths (places, images, channels) in units of 2^-16 bit. A `watch` sees what an
    adaptive network has learnt after each step.
    """
    from lmzip.native import _kernels

    pixels, images, coded = samples.shape
    span = span or max(1, SPAN // images)
    # What a step teaches counts from the next one on, so adaptation goes step by step.
    ranges = schedule.cut(None if manner else span)
    longest = schedule.longest if manner else span
    run = _make_run(kernel, network, schedule, groups, longest, samples, precision, manner)
    symbols = precision.symbols if precision else 2
    left, right = np.empty((2, symbols * samples.size), np.int32)
    costs = np.empty(samples.shape, np.int64)
    starts = np.ascontiguousarray(schedule.starts, np.int32)
    for start, stop in ranges:
        if check:
            check()
        _kernels.encode_span(run, start, stop, schedule.steps, starts, left, right, costs)
        if watch:
            watch(stop, _copy_changes(run, network))
    bounds = symbols * coded * pixels * np.concatenate([[0], np.cumsum(groups)])
    streams = [slice(first, last) for first, last in itertools.pairwise(bounds)]
    return [(left[stream], right[stream]) for stream in streams], costs


def _copy_changes(run: Capsule, network: IntegerNetwork) -> Int32s:
    from lmzip.native import _kernels

    outputs, _, features = network.out.weight.shape
    padded = pad_to_blocks(features)
    room = np.empty((padded + 1, pad_to_blocks(outputs)), np.int32)
    _kernels.copy_changes(run, room)
    return np.concatenate([room[:features], room[padded:]])[:, :outputs].T


def _make_run(
    kernel: Kernel,
    network: IntegerNetwork,
    schedule: Schedule,
    groups: Sequence[int],
    span: int,
    samples: Samples,
    precision: Precision | None,
    manner: Manner | None,
    frequencies: Frequencies | None = None,
) -> Capsule:
    from lmzip.native import _kernels

    network = deepen(network) if precision else network
    around = list(dict.fromkeys(conv.taps for conv, _ in network.blocks))
    first = schedule.neighbours[network.first.taps]
    views = [first, *(schedule.neighbours[taps] for taps in around)]
    bases = [_find_bases(network.first, first)]
    for conv, project in network.blocks:
        bases.append(_find_bases(conv, schedule.neighbours[conv.taps]))
        bases.append(pad_outputs(project.bias))
    bases.append(pad_outputs(network.out.bias))
    # Features are kept as far back as any layer looks.
    reach = max((view.reach for view in views[1:]), default=0)
    ring = min(schedule.pixels, reach + span)
    pixels, images, coded = samples.shape
    patterns = len(first.patterns)
    return _kernels.make_run(
        pack_network(network, kernel),
        (pixels, images, len(groups), coded, ring, span, patterns),
        np.array(groups, np.int32),
        [_lay_out_view(view) for view in views],
        np.array([around.index(conv.taps) for conv, _ in network.blocks], np.int32),
        bases,
        find_predictor_sets(network, first).astype(np.int32),
        _find_used(first.used, find_predictor_taps(network)),
        frequencies,
        samples,
        _describe(precision, schedule) if precision else None,
        _describe_manner(manner, network, first) if manner else None,
    )


def _describe(
    precision: Precision, schedule: Schedule
) -> tuple[tuple[int, int, int, int, int], Int32s, Int32s]:
    """Return what the mixture of deep samples needs."""
    around = schedule.neighbours[PREDICTOR_TAPS]
    numbers = precision.depth, precision.symbols, precision.sharpness, precision.flatness
    return (*numbers, len(around.used)), precision.boundaries, around.places


def _describe_manner(
    manner: Manner, network: IntegerNetwork, first: Neighbours
) -> tuple[tuple[int, ...], int, Int32s]:
    """Return the rates of a network that adapts, and where it sees errors."""
    around = find_around(manner, network, first)
    taps = [-1 if tap is None else tap for tap in around]
    return manner.rates, len(taps), np.array([*taps, -1], np.int32)


def _find_bases(layer: Layer, neighbours: Neighbours) -> Int32s:
    """Return what each pattern's sums start from, bias and mask weights: (patterns, outputs)."""
    visible = neighbours.patterns.astype(np.int64)
    return pad_outputs(visible @ layer.mask_weight.T.astype(np.int64) + layer.bias)


def _lay_out_view(view: Neighbours) -> tuple[tuple[int, int], Int32s, Int32s, Int32s]:
    taps = np.array(view.used, np.int32)
    return (len(view.used), len(view.patterns)), taps, view.places, view.pattern


def _find_used(used: Sequence[int], taps: Sequence[int | None]) -> Int32s:
    """Return the places of taps among those that are used, or -1."""
    places = [used.index(tap) if tap in used else -1 for tap in taps]
    return np.array(places, np.int32)
