"""Images of one shape to coded bytes: engine, mixture and coder put together.

`lmzip.stream.decoder` is the way back; `lmzip.stream.sequence` says in which sequence the symbols
of a stream stand.

Several groups of images, each with a stream of its own, can be computed at once. How many images
share a computation is never visible in the bytes; how many share a stream is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from lmzip.network.backend import Backend
from lmzip.network.engine import Pass
from lmzip.network.integer_network import IntegerNetwork
from lmzip.order.orders import Order
from lmzip.order.schedule import Schedule, compile_schedule
from lmzip.stream.ans import encode_intervals
from lmzip.stream.mixture import Mixture
from lmzip.stream.sequence import Int32s, Pixels, from_sequence, to_sequence, widen

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
    backend: Backend,
    *,
    groups: Sequence[int] | None = None,
    span: int | None = None,
) -> list[Stream]:
    """Encode images (N, H, W, C): one stream for each group of consecutive ones.

    C is the network's number of channels, or 1: then the network sees three equal channels and
    only the first is coded. `groups` are the numbers of images a stream; one stream by default.
    """
    count, height, width, coded = images.shape
    schedule = compile_schedule(order, height, width, network.layers)
    samples = to_sequence(images, schedule)  # (places, images, coded)
    span = span or max(1, ENCODER_SPAN // count)
    intervals = np.empty((coded, 2, 2, schedule.pixels, count), np.int32)
    costs = np.empty((schedule.pixels, count, coded), np.int64)
    with threadpool_limits(1, "blas"):
        run = Pass(network, schedule, count, span, backend)
        run.write_pixels(0, schedule.pixels, widen(samples, network))
        for start in range(0, schedule.pixels, span):
            stop = min(start + span, schedule.pixels)
            mixture = Mixture(network.tables, run.advance(start, stop))
            for channel in range(coded):
                column = samples[start:stop, :, channel].ravel()
                *both, cost = mixture.intervals(column)
                for nibble, interval in enumerate(both):
                    intervals[channel, nibble, :, start:stop] = interval.reshape(2, -1, count)
                costs[start:stop, :, channel] = cost.reshape(-1, count)
                mixture.observe(channel, column, channel + 1 < coded)
    by_image = from_sequence(costs, schedule)
    streams, first = [], 0
    for size in groups or [count]:
        group = slice(first, first + size)
        left, right = _in_stream_order(intervals[..., group], schedule)
        streams.append(Stream(encode_intervals(left, right), by_image[group]))
        first += size
    return streams


def _in_stream_order(intervals: Int32s, schedule: Schedule) -> tuple[Int32s, Int32s]:
    """Bring intervals (C, nibble, side, places, images) into the sequence of a stream."""
    coded, _, _, pixels, count = intervals.shape
    symbols = 2 * coded
    sizes = np.diff(schedule.starts)
    start, size = np.repeat(schedule.starts[:-1], sizes), np.repeat(sizes, sizes)
    within = np.arange(pixels) - start
    ordered = np.empty((2, pixels * symbols * count), np.int32)
    image = np.arange(count)
    for channel in range(coded):
        for nibble in range(2):
            symbol = 2 * channel + nibble
            place = symbols * start + symbol * size + within
            target = (place[:, None] * count + image).ravel()
            ordered[:, target] = intervals[channel, nibble].reshape(2, -1)
    return ordered[0], ordered[1]
