"""Known answers: what every kernel must give before it is used.

A small network of extremes is run over three small images, as an encoder and as a decoder do, and a
checksum of all that comes out is compared with the one below; then over three images of deep
samples, and, with smaller activations, over an image that the network adapts to. Its weights leave
room for sums up to 2^24, of which the first and the last layer use more than half and the blocks a
fifth to a half (tests/native drives all of them to the end). Weights and activations reach the ends
of 16 bits, no width is a multiple of 16, shifts go from 0 to 24, and steps have 1 to 9 columns. The
numbers come from a formula, so that they are the same everywhere and for ever; a test shows that
numpy gives the same answers.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzip.native import runs
from lmzip.native.packing import Kernel
from lmzip.network.adaptation import BY_ERRORS, BY_FEATURES, ONE, Manner
from lmzip.network.integer_network import EXACT, PIXEL_MAX, POINTWISE, IntegerNetwork, Layer
from lmzip.network.tables import CDF_BITS, TABLE_SIZE, Tables
from lmzip.order.orders import Order
from lmzip.order.schedule import Taps, compile_schedule

KNOWN_ANSWERS = 2510217797
DEEP_ANSWERS = 3640982042
ADAPTIVE_ANSWERS = {BY_FEATURES: 2825493370, BY_ERRORS: 3214294361}
GROUPS = (1, 2)
SHAPE = 3, 7, 13, 3  # images, height, width, channels
ADAPTIVE_GROUPS = (1,)
ADAPTIVE_SHAPE = 1, 23, 29, 3  # enough for some moves
ORDER = Order("raster", 5)
ACTIVATION_MAX, STREAM_MAX, STREAM_BITS = (1 << 15) - 1, 1 << 22, 3
MIXTURES, WIDTH, HIDDEN = 5, 19, 25

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Cells:
    """The deep samples that answers are known of, as `lmzip.stream.precision` would have them."""

    depth: int = 14
    symbols: int = 4
    sharpness: int = 90
    flatness: int = 50000

    @property
    def boundaries(self) -> npt.NDArray[np.int32]:
        return np.arange((1 << self.depth) + 1, dtype=np.int32) << (20 - self.depth)


def gives_known_answers(kernel: Kernel) -> bool:
    """Return whether a kernel gives the answers that it must."""
    engine = partial(runs.Steps, kernel), partial(runs.find_intervals, kernel)
    return (
        find_answers(*engine) == KNOWN_ANSWERS
        and find_answers(*engine, Cells()) == DEEP_ANSWERS
        and all(
            find_answers(*engine, manner=manner) == answers
            for manner, answers in ADAPTIVE_ANSWERS.items()
        )
    )


def find_answers(
    make_steps: Callable[..., Any],
    find_intervals: Callable[..., Any],
    cells: Cells | None = None,
    manner: Manner | None = None,
) -> int:
    """Return a checksum of what an engine gives, as `lmzip.native.runs` does, for the network."""
    network = make_adaptive_network() if manner else make_network()
    groups = ADAPTIVE_GROUPS if manner else GROUPS
    count, height, width, channels = ADAPTIVE_SHAPE if manner else SHAPE
    schedule = compile_schedule(ORDER, height, width, network.layers)
    depth, symbols = (cells.depth, cells.symbols) if cells else (8, 2)
    white = (1 << depth) - 1
    drawn = _draw(100, (schedule.pixels, count, channels), 0, white)
    images = drawn.astype(np.uint16 if cells else np.uint8)
    images[: schedule.pixels // 2, 0] = white
    images[schedule.pixels // 3 :, 1:2] = (
        images[schedule.pixels // 3 :, 1:2] // (1 << depth - 1) * white
    )
    answers = 0

    def take(values: npt.NDArray[Any], kind: str) -> None:
        nonlocal answers
        answers = zlib.crc32(np.ascontiguousarray(values, kind).tobytes(), answers)

    for coded in (channels, 1):
        samples = np.ascontiguousarray(images[..., :coded])
        intervals, costs = find_intervals(
            network, schedule, samples, groups, 17, None, cells, manner
        )
        for left, right in intervals:
            take(left, "<i4")
            take(right, "<i4")
        take(costs, "<i8")
        steps = make_steps(network, schedule, groups, coded, cells, manner)
        for start, stop in zip(schedule.starts[:-1], schedule.starts[1:], strict=True):
            step = samples[start:stop]
            columns = np.concatenate(
                [step[:, :1].reshape(-1, coded), step[:, 1:].reshape(-1, coded)]
            )
            frequencies = steps.begin(int(start), int(stop))
            for channel in range(coded):
                take(frequencies, "<f4")
                column = columns[:, channel].astype(np.int32)
                for bits in range(4 * symbols - 4, 0, -4):
                    take(steps.refine(column >> bits & 15), "<f4")
                frequencies = steps.finish(column & 15)
        take(steps.samples, "<u2" if cells else "|u1")
    return answers


@cache
def make_network() -> IntegerNetwork:
    """Make the network that the answers are about."""
    channels = SHAPE[3]
    seeds = count()
    square = [(i, j) for i in (-2, -1, 0, 1, 2) for j in (-2, -1, 0, 1, 2)]
    near = Taps(tuple((i, j) for i, j in square if max(abs(i), abs(j)) < 2))
    far = Taps(tuple((i, j) for i, j in square if i % 2 == j % 2 == 0))
    first = _make_layer(
        next(seeds), Taps(tuple(o for o in square if o != (0, 0))), WIDTH, channels, PIXEL_MAX
    )
    first.weight[2::4] = 0  # two weights at the ends of 16 bits leave room for no other
    first.weight[2::4, 1, 0], first.weight[2::4, 8, 1] = (1 << 15) - 1, 1 - (1 << 15)
    first.bias[2::4] = first.mask_weight[2::4] = 0
    first.shift[:] = np.arange(WIDTH) % 3
    blocks = []
    for taps in (near, far, near):
        conv = _make_layer(next(seeds), taps, HIDDEN, WIDTH, ACTIVATION_MAX)
        project = _make_layer(next(seeds), POINTWISE, WIDTH, HIDDEN, ACTIVATION_MAX)
        conv.shift[:] = np.arange(HIDDEN)  # 0 to 24
        project.shift[:] = 1 + np.arange(WIDTH) % 5
        blocks.append((conv, project))
    kinds = 1 + 2 * channels + channels * (channels - 1) // 2
    out = _make_layer(next(seeds), POINTWISE, kinds * MIXTURES, WIDTH, ACTIVATION_MAX)
    out.shift[:] = np.repeat([14] + [10] * channels + [17] * channels + [11] * channels, MIXTURES)
    network = IntegerNetwork(
        name="known answers",
        channels=channels,
        mixtures=MIXTURES,
        activation_max=ACTIVATION_MAX,
        stream_max=STREAM_MAX,
        stream_bits=STREAM_BITS,
        predictor=_draw(next(seeds), (256, channels, 8 * channels), -2500, 2500),
        predictor_shift=9,
        first=first,
        blocks=tuple(blocks),
        out=out,
        tables=_make_tables(next(seeds)),
        orders=(str(ORDER),),
        notes={},
    )
    network.prove_exact()
    return network


@cache
def make_adaptive_network() -> IntegerNetwork:
    """Make one that can adapt: its activations are smaller."""
    network = replace(make_network(), activation_max=ONE - 1)
    network.prove_exact()
    return network


def _draw(seed: int, shape: tuple[int, ...], low: int, high: int) -> Ints:
    """Return integers from low to high that look random (splitmix64)."""
    size = int(np.prod(shape))
    state = np.arange(1, size + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    state += np.uint64(seed * 0x632BE59BD9B4E019 % (1 << 64))
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    state ^= state >> np.uint64(31)
    return (state % np.uint64(high - low + 1)).astype(np.int64).reshape(shape) + low


def _make_layer(seed: int, taps: Taps, outputs: int, inputs: int, input_max: int) -> Layer:
    """Draw a layer whose sums may come close to 2^24; every third output's are positive."""
    shape = outputs, len(taps.offsets), inputs
    weight = _draw(3 * seed, shape, -1000, 1000)
    weight[::3] = np.abs(weight[::3])
    mask_weight = _draw(3 * seed + 1, shape[:2], -1000, 1000) * (taps != POINTWISE)
    bias = _draw(3 * seed + 2, (outputs,), -70000, 70000)
    room = (EXACT - 1 - np.abs(mask_weight).sum(1) - np.abs(bias)) // input_max
    share = np.abs(weight) * room[:, None, None] // np.abs(weight).sum((1, 2))[:, None, None]
    weight = np.sign(weight) * np.minimum(share, (1 << 15) - 1)
    return Layer(taps, weight, mask_weight, bias, np.zeros(outputs, np.int64))


def _make_tables(seed: int) -> Tables:
    rises = np.cumsum(_draw(seed, (TABLE_SIZE,), 0, 100) ** 3)
    scales = 1 + np.cumsum(_draw(seed + 1, (60,), 0, 100) ** 3) * ((1 << 16) - 1) // (60 * 100**3)
    return Tables(
        logistic=((rises - rises[0] << CDF_BITS) // (rises[-1] - rises[0])).astype(np.uint32),
        inverse_scale=scales.astype(np.int32),
        weight=np.array([(1 << 16) * 3**i >> 2 * i for i in range(39)], np.int64),
        log2=_draw(seed + 2, (1 << 12,), 0, (1 << 16) - 1),
    )
