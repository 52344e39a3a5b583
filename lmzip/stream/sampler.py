"""Images drawn from a network: a decoder whose symbols are drawn instead of read.

The frequencies are those of the codec itself, so an image is drawn with the very probability that
its code length states. Pixels that are given are taken as they are when their turn comes.

All chances are drawn beforehand, for each image from a generator of its own: what comes out depends
on the seed and the image's number alone, not on the backend or on how many images go together.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from lmzip.native import runs
from lmzip.native.packing import Kernel
from lmzip.network.backend import Backend
from lmzip.network.integer_network import IntegerNetwork
from lmzip.order.orders import Order
from lmzip.order.schedule import Schedule, compile_schedule
from lmzip.progress import Progress
from lmzip.stream.depths import choose_depth
from lmzip.stream.frequencies import FREQUENCY_TOTAL
from lmzip.stream.sequence import Int32s, Pixels, from_sequence, to_sequence
from lmzip.stream.steps import ArraySteps, Frequencies, Steps


def draw_images(
    network: IntegerNetwork,
    order: Order,
    given: Pixels,
    hidden: npt.NDArray[np.bool_],
    backend: Backend | Kernel,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Pixels:
    """Draw the hidden pixels (H, W) of images (N, H, W, C); the others are given.

    C is the network's number of channels, or 1: then the network sees three equal channels.
    """
    count, height, width, coded = given.shape
    schedule = compile_schedule(order, height, width, network.layers)
    samples = to_sequence(given, schedule)
    free = hidden.ravel()[schedule.sequence]
    chances = _draw_chances(seed, count, (schedule.pixels, coded, 2))
    if isinstance(backend, Kernel):
        steps: Steps = runs.Steps(backend, network, schedule, [count], coded)
        _draw(steps, schedule, samples, free, chances, progress)
    else:
        with threadpool_limits(1, "blas"):
            depth = choose_depth(network, schedule, None)
            steps = ArraySteps(backend, depth, schedule, [count], coded)
            _draw(steps, schedule, samples, free, chances, progress)
    return from_sequence(steps.samples, schedule)


def _draw_chances(seed: int, count: int, shape: tuple[int, int, int]) -> Int32s:
    """Draw a number below 2^24 for each symbol: (channels, nibbles, places, images)."""
    each = [
        np.random.default_rng((seed, image)).integers(0, FREQUENCY_TOTAL, shape, np.int32)
        for image in range(count)
    ]
    return np.ascontiguousarray(np.stack(each).transpose(2, 3, 1, 0))


def _draw(
    steps: Steps,
    schedule: Schedule,
    samples: npt.NDArray[np.uint8],
    free: npt.NDArray[np.bool_],
    chances: Int32s,
    progress: Progress | None,
) -> None:
    """Draw step by step; the samples are those of `steps` in the end."""
    count = samples.shape[1]
    for start, stop in itertools.pairwise(schedule.starts.tolist()):
        drawn = np.repeat(free[start:stop], count)
        rows = steps.begin(start, stop)
        for channel, nibbles in enumerate(chances[:, :, start:stop]):
            known = samples[start:stop, :, channel].ravel().astype(np.int32)
            high = np.where(drawn, _draw_symbols(rows, nibbles[0].ravel()), known >> 4)
            rows = steps.refine(high)
            low = np.where(drawn, _draw_symbols(rows, nibbles[1].ravel()), known & 15)
            rows = steps.finish(low)
        if progress:
            progress(stop, schedule.pixels)


def _draw_symbols(rows: Frequencies, chances: Int32s) -> Int32s:
    """Return the symbol of each row into whose share of 2^24 its chance falls."""
    ends = np.cumsum(rows.astype(np.int32) + 1, axis=1, dtype=np.int32)
    return (ends <= chances[:, None]).sum(1, dtype=np.int32)
