"""Coded bytes back to images of one shape: the mirror of `lmzip.stream.encoder`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from lmzip.errors import DamagedError
from lmzip.native import runs
from lmzip.native.packing import Kernel
from lmzip.network.adaptation import Adaptation, Manner
from lmzip.network.backend import Backend
from lmzip.network.integer_network import IntegerNetwork
from lmzip.order.orders import Order
from lmzip.order.schedule import Schedule, compile_schedule
from lmzip.stream.ans import Decoder
from lmzip.stream.depths import choose_depth
from lmzip.stream.precision import Precision
from lmzip.stream.sequence import Check, Int32s, Pixels, from_sequence
from lmzip.stream.steps import ArraySteps, Frequencies, Steps


def decode_images(
    network: IntegerNetwork,
    order: Order,
    shape: tuple[int, int, int],
    streams: Sequence[bytes],
    groups: Sequence[int],
    backend: Backend | Kernel,
    *,
    precision: Precision | None = None,
    check: Check | None = None,
    manner: Manner | None = None,
) -> Pixels:
    """Decode groups of images of `shape` (H, W, C), each group from its own stream.

    Samples are of 8 bits unless a `precision` is given. With a `manner` the network adapts to
    the image, of which there is but one then.
    """
    assert manner is None or (list(groups) == [1] and precision is None)
    height, width, coded = shape
    decoders = [Decoder(stream) for stream in streams]
    if all(decoder.is_dry for decoder in decoders):  # black: no need to see in which sequence
        return np.zeros((sum(groups), *shape), np.uint16 if precision else np.uint8)
    schedule = compile_schedule(order, height, width, network.layers)
    symbols = precision.symbols if precision else 2
    if isinstance(backend, Kernel):
        steps: Steps = runs.Steps(backend, network, schedule, groups, coded, precision, manner)
        _decode(steps, symbols, schedule, decoders, groups, check)
    else:
        with threadpool_limits(1, "blas"):
            depth = choose_depth(network, schedule, precision, manner is not None)
            adaptation = Adaptation(network, manner, schedule) if manner else None
            steps = ArraySteps(backend, depth, schedule, groups, coded, adaptation)
            _decode(steps, symbols, schedule, decoders, groups, check)
    for decoder in decoders:
        decoder.finish()
    if precision and steps.samples.max() >= 1 << precision.depth:
        raise DamagedError(f"a sample of more than {precision.depth} bits (file is damaged)")
    return from_sequence(steps.samples, schedule)


def _decode(
    steps: Steps,
    symbols: int,
    schedule: Schedule,
    decoders: Sequence[Decoder],
    groups: Sequence[int],
    check: Check | None,
) -> None:
    """Decode step by step, so many symbols a sample; the samples end up in `steps`."""
    coded = steps.samples.shape[2]
    bounds = [0, *np.cumsum(groups).tolist()]
    each = list(zip(decoders, bounds[:-1], bounds[1:], strict=True))
    longest = schedule.longest
    room: Int32s = np.empty(longest * bounds[-1], np.int32)

    def decode_by_group(rows: Frequencies) -> Int32s:
        """Decode one symbol for each column of a step, every group from its own stream."""
        places, symbols = len(rows) // bounds[-1], room[: len(rows)]
        for decoder, first, last in each:
            part = slice(places * first, places * last)
            symbols[part] = decoder.decode(rows[part])
        return symbols

    decode_symbols = decoders[0].decode if len(decoders) == 1 else decode_by_group
    starts = schedule.starts.tolist()
    for start, stop in itertools.pairwise(starts):
        if check:
            check()
        if all(decoder.is_dry for decoder in decoders):
            return  # what is left is zero: a stream that has run dry takes no time
        rows = steps.begin(start, stop)
        for _ in range(coded):
            for _ in range(symbols - 1):
                rows = steps.refine(decode_symbols(rows))
            rows = steps.finish(decode_symbols(rows))
