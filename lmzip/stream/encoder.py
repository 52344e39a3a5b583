"""Images of one shape to coded bytes: engine, mixture and coder put together.

`lmzip.stream.decoder` is the way back; `lmzip.stream.sequence` says in which sequence the symbols
of a stream stand.

Several groups of images, each with a stream of its own, can be computed at once. How many images
share a computation is never visible in the bytes; how many share a stream is.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from lmzip.native import runs
from lmzip.native.packing import Kernel
from lmzip.network.adaptation import Adaptation, Manner, Watch
from lmzip.network.backend import Backend
from lmzip.network.engine import Pass
from lmzip.network.integer_network import IntegerNetwork
from lmzip.order.orders import Order
from lmzip.order.schedule import Schedule, compile_schedule
from lmzip.stream.ans import encode_intervals
from lmzip.stream.depths import Depth, choose_depth
from lmzip.stream.mixture import Mixture
from lmzip.stream.precision import Precision
from lmzip.stream.sequence import Check, Int32s, Pixels, Samples, from_sequence, to_sequence

ENCODER_SPAN = 4096  # rows that the encoder evaluates at once: enough for BLAS, few enough to cache


@dataclass(frozen=True)
class Stream:
    """The coded bytes of a group of images, and what they cost under the mixture itself.

    costs: (images, height, width, channels) code lengths in units of 2^-16 bit.
    """

    data: bytes
    costs: npt.NDArray[np.int64]


def encode_images(
    network: IntegerNetwork,
    order: Order,
    images: Pixels,
    backend: Backend | Kernel,
    *,
    precision: Precision | None = None,
    groups: Sequence[int] | None = None,
    span: int | None = None,
    check: Check | None = None,
    manner: Manner | None = None,
    watch: Watch | None = None,
) -> list[Stream]:
    """Encode images (N, H, W, C): one stream for each group of consecutive ones.

    C is the network's number of channels, or 1: then the network sees three equal channels and
    only the first is coded. Samples are of 8 bits unless a `precision` is given. `groups` are the
    numbers of images a stream; one stream by default. With a `manner` the network adapts to the
    image, of which there is but one then; a `watch` sees what it has learnt after each step.
    """
    count, height, width, _ = images.shape
    groups = groups or [count]
    assert manner is None or (count == 1 and precision is None)
    schedule = compile_schedule(order, height, width, network.layers)
    samples = to_sequence(images, schedule)  # (places, images, coded)
    if isinstance(backend, Kernel):
        intervals, costs = runs.find_intervals(
            backend, network, schedule, samples, groups, span, check, precision, manner, watch
        )
    else:
        with threadpool_limits(1, "blas"):
            depth = choose_depth(network, schedule, precision, manner is not None)
            adaptation = Adaptation(network, manner, schedule) if manner else None
            intervals, costs = _find_intervals(
                backend, depth, schedule, samples, groups, span, check, adaptation, watch
            )
    by_image = from_sequence(costs, schedule)
    streams, first = [], 0
    for size, (left, right) in zip(groups, intervals, strict=True):
        streams.append(Stream(encode_intervals(left, right), by_image[first : first + size]))
        first += size
    return streams


def _find_intervals(
    backend: Backend,
    depth: Depth,
    schedule: Schedule,
    samples: Samples,
    groups: Sequence[int],
    span: int | None,
    check: Check | None = None,
    adaptation: Adaptation | None = None,
    watch: Watch | None = None,
) -> tuple[list[tuple[Int32s, Int32s]], npt.NDArray[np.int64]]:
    """Do what `lmzip.native.runs.find_intervals` does, with an array library."""
    pixels, count, coded = samples.shape
    span = span or max(1, ENCODER_SPAN // count)
    intervals = np.empty((coded, depth.symbols, 2, pixels, count), np.int32)
    costs = np.empty(samples.shape, np.int64)
    # What a step teaches counts from the next one on, so adaptation goes step by step.
    ranges = schedule.cut(None if adaptation else span)
    longest = schedule.longest if adaptation else span
    run = Pass(depth.network, schedule, count, longest, backend, adaptation)
    run.write_inputs(0, pixels, depth.find_inputs(samples))
    for start, stop in ranges:
        if check:
            check()
        mixture = depth.make_mixture(run.advance(start, stop), samples, start, stop)
        for channel in range(coded):
            column = samples[start:stop, :, channel].ravel().astype(np.int32)
            *each, cost = mixture.intervals(column)
            for nibble, interval in enumerate(each):
                intervals[channel, nibble, :, start:stop] = interval.reshape(2, -1, count)
            costs[start:stop, :, channel] = cost.reshape(-1, count)
            mixture.observe(channel, column, channel + 1 < coded)
        if adaptation is not None:
            assert isinstance(mixture, Mixture)
            adaptation.learn(mixture.gradients(), mixture.errors())
            if watch:
                watch(stop, adaptation.changes)
    bounds = [0, *np.cumsum(groups).tolist()]
    by_group = [
        _in_stream_order(intervals[..., first:last], schedule)
        for first, last in itertools.pairwise(bounds)
    ]
    return by_group, costs


def _in_stream_order(intervals: Int32s, schedule: Schedule) -> tuple[Int32s, Int32s]:
    """Bring intervals (C, nibble, side, places, images) into the sequence of a stream."""
    coded, nibbles, _, pixels, count = intervals.shape
    symbols = nibbles * coded
    sizes = np.diff(schedule.starts)
    start, size = np.repeat(schedule.starts[:-1], sizes), np.repeat(sizes, sizes)
    within = np.arange(pixels) - start
    ordered = np.empty((2, pixels * symbols * count), np.int32)
    image = np.arange(count)
    for channel in range(coded):
        for nibble in range(nibbles):
            symbol = nibbles * channel + nibble
            place = symbols * start + symbol * size + within
            target = (place[:, None] * count + image).ravel()
            ordered[:, target] = intervals[channel, nibble].reshape(2, -1)
    return ordered[0], ordered[1]
