"""Images of one size to coded bytes and back: engine, mixture and coder put together.

The symbols of a stream follow the schedule: step by step; in a step, channel by channel; of each
channel all high nibbles, then all low ones; of each, place by place; of each place, image by image
(FORMAT.md, "Streams").

Several groups of images, each with a stream of its own, can be computed at once. How many images
share a computation is never visible in the bytes; how many share a stream is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from lmzip.backend import Backend
from lmzip.coder import Decoder, encode_intervals
from lmzip.engine import Pass
from lmzip.mixture import Mixture
from lmzip.network import IntegerNetwork
from lmzip.orders import Order
from lmzip.schedule import Schedule, compile_schedule

Pixels = npt.NDArray[np.uint8]  # (images, height, width, channels)
Int32s = npt.NDArray[np.int32]
Progress = Callable[[int], None]  # told how many pixels have been coded since it was last told

_T = TypeVar("_T", bound=np.generic)

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
    progress: Progress | None = None,
) -> list[Stream]:
    """Encode images (N, H, W, C): one stream for each group of consecutive ones.

    C is the network's number of channels, or 1: then the network sees three equal channels and
    only the first is coded. `groups` are the numbers of images a stream; one stream by default.
    """
    count, height, width, coded = images.shape
    schedule = compile_schedule(order, height, width, network.layers)
    samples = _to_sequence(images, schedule)  # (places, images, coded)
    span = span or max(1, ENCODER_SPAN // count)
    intervals = np.empty((coded, 2, 2, schedule.pixels, count), np.int32)
    costs = np.empty((schedule.pixels, count, coded), np.int64)
    with threadpool_limits(1, "blas"):
        run = Pass(network, schedule, count, span, backend)
        run.write_pixels(0, schedule.pixels, _widen(samples, network))
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
            if progress:
                progress((stop - start) * count)
    by_image = _from_sequence(costs, schedule)
    streams, first = [], 0
    for size in groups or [count]:
        group = slice(first, first + size)
        left, right = _in_stream_order(intervals[..., group], schedule)
        streams.append(Stream(encode_intervals(left, right), by_image[group]))
        first += size
    return streams


def decode_images(
    network: IntegerNetwork,
    order: Order,
    shape: tuple[int, int, int],
    streams: Sequence[bytes],
    groups: Sequence[int],
    backend: Backend,
    *,
    progress: Progress | None = None,
) -> Pixels:
    """Decode groups of images of `shape` (H, W, C), each group from its own stream."""
    height, width, coded = shape
    count = sum(groups)
    schedule = compile_schedule(order, height, width, network.layers)
    decoders = [Decoder(stream) for stream in streams]
    bounds = np.concatenate([[0], np.cumsum(groups)])
    samples = np.empty((schedule.pixels, count, coded), np.int32)

    def decode_symbols(frequencies: Int32s, places: int) -> Int32s:
        """Decode one symbol for each pixel of a step, every group from its own stream."""
        if len(decoders) == 1:
            return decoders[0].decode(frequencies.T)
        by_place = frequencies.reshape(len(frequencies), places, count)
        symbols = np.empty((places, count), np.int32)
        for decoder, first, last in zip(decoders, bounds[:-1], bounds[1:], strict=True):
            group = by_place[:, :, first:last].reshape(len(frequencies), -1)
            symbols[:, first:last] = decoder.decode(group.T).reshape(places, -1)
        return symbols.ravel()

    with threadpool_limits(1, "blas"):
        longest = int(np.diff(schedule.starts).max())
        run = Pass(network, schedule, count, longest, backend)
        for start, stop in zip(schedule.starts[:-1], schedule.starts[1:], strict=True):
            mixture = Mixture(network.tables, run.advance(int(start), int(stop)))
            for channel in range(coded):
                high = decode_symbols(mixture.high_frequencies(), stop - start)
                low = decode_symbols(mixture.low_frequencies(high), stop - start)
                column = high << 4 | low
                samples[start:stop, :, channel] = column.reshape(-1, count)
                mixture.observe(channel, column, channel + 1 < coded)
            run.write_pixels(start, stop, _widen(samples[start:stop], network))
            if progress:
                progress(int(stop - start) * count)
    for decoder in decoders:
        decoder.finish()
    return _from_sequence(samples.astype(np.uint8), schedule)


def _to_sequence(images: Pixels, schedule: Schedule) -> Int32s:
    count, _, _, channels = images.shape
    flat = images.reshape(count, schedule.pixels, channels)
    return flat[:, schedule.sequence].transpose(1, 0, 2).astype(np.int32)


def _from_sequence(values: npt.NDArray[_T], schedule: Schedule) -> npt.NDArray[_T]:
    _, count, channels = values.shape
    flat = np.empty((count, schedule.pixels, channels), values.dtype)
    flat[:, schedule.sequence] = values.transpose(1, 0, 2)
    return flat.reshape(count, schedule.height, schedule.width, channels)


def _widen(samples: Int32s, network: IntegerNetwork) -> Int32s:
    """Give a single coded channel to all of the network's channels."""
    if samples.shape[2] == network.channels:
        return samples
    return np.repeat(samples, network.channels, axis=2)


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
