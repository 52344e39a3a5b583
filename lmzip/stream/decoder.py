"""Coded bytes back to images of one shape: the mirror of `lmzip.stream.encoder`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from lmzip.network.backend import Backend
from lmzip.network.engine import Pass
from lmzip.network.integer_network import IntegerNetwork
from lmzip.order.orders import Order
from lmzip.order.schedule import compile_schedule
from lmzip.stream.ans import Decoder
from lmzip.stream.mixture import Mixture
from lmzip.stream.sequence import Int32s, Pixels, from_sequence, widen


def decode_images(
    network: IntegerNetwork,
    order: Order,
    shape: tuple[int, int, int],
    streams: Sequence[bytes],
    groups: Sequence[int],
    backend: Backend,
) -> Pixels:
    """Decode groups of images of `shape` (H, W, C), each group from its own stream."""
    height, width, coded = shape
    count = sum(groups)
    decoders = [Decoder(stream) for stream in streams]
    if all(decoder.is_dry for decoder in decoders):  # black: no need to see in which sequence
        return np.zeros((count, *shape), np.uint8)
    schedule = compile_schedule(order, height, width, network.layers)
    bounds = np.concatenate([[0], np.cumsum(groups)])
    samples = np.zeros((schedule.pixels, count, coded), np.int32)

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
            if all(decoder.is_dry for decoder in decoders):
                break  # what is left is zero: a stream that has run dry takes no time
            mixture = Mixture(network.tables, run.advance(int(start), int(stop)))
            for channel in range(coded):
                high = decode_symbols(mixture.high_frequencies(), stop - start)
                low = decode_symbols(mixture.low_frequencies(high), stop - start)
                column = high << 4 | low
                samples[start:stop, :, channel] = column.reshape(-1, count)
                mixture.observe(channel, column, channel + 1 < coded)
            run.write_pixels(start, stop, widen(samples[start:stop], network))
    for decoder in decoders:
        decoder.finish()
    return from_sequence(samples.astype(np.uint8), schedule)
