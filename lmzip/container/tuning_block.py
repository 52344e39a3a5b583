"""The bytes of a tuning (FORMAT.md, "Tunings").

The numbers of a tuning come in groups, one for each role of a layer and each kind of change: the
input gains of all convolutions, say. A group's numbers are small and cluster around zero; its
header says how steeply they fall off, and one ANS stream holds the numbers of all groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from lmzip.container.binary import Reader, Writer
from lmzip.errors import DamagedError, FormatError
from lmzip.network.integer_network import IntegerNetwork, Layer
from lmzip.network.tuning import (
    ROLES,
    Int64s,
    LayerTuning,
    Tuning,
    list_layers,
    shape_of_change,
)
from lmzip.stream.ans import Decoder, encode_intervals
from lmzip.stream.frequencies import FREQUENCY_TOTAL

KINDS = tuple(field.name for field in fields(LayerTuning))
LARGEST = 4096  # the most that a number of a group may be, in units of the group's step
LARGEST_STEP = 16  # bits
ZEROS = 8 * 25  # values of a group's `zero`
_ONE = 1 << 16  # the weight of the numbers 1 and -1, before all are made to share 2^24


@dataclass(frozen=True)
class Group:
    """How the numbers of a group are distributed.

    largest: numbers lie in -largest..largest; 0 is a group without any
    step:    numbers are multiples of 2^step
    zero:    how likely 0 is, compared with 1: (8 + zero % 8) * 2^(zero // 8) against 2^16
    ratio:   how likely each number is, compared with the one nearer to 0, in 1/256
    """

    largest: int
    step: int = 0
    zero: int = 0
    ratio: int = 0

    def bounds(self) -> Int64s:
        """Return where the interval of each number begins, and where the last one ends."""
        side = [_ONE]
        for _ in range(self.largest - 1):
            side.append(side[-1] * self.ratio >> 8)
        weights = [*side[::-1], (8 + self.zero % 8) << self.zero // 8, *side]
        ends = np.concatenate([[0], np.cumsum(np.array(weights, np.int64))])
        shared = FREQUENCY_TOTAL - len(weights)
        return ends * shared // ends[-1] + np.arange(len(ends))

    def cost(self, counts: Int64s) -> float:
        """Return the bits of numbers of which -largest..largest occur so many times."""
        widths = np.diff(self.bounds())
        return float((counts * (24 - np.log2(widths))).sum())


def write_tuning(tuning: Tuning, network: IntegerNetwork) -> bytes:
    """Return the bytes of a tuning of a network."""
    writer = Writer()
    left: list[npt.NDArray[np.int32]] = []
    right: list[npt.NDArray[np.int32]] = []
    layers = list_layers(network)
    for role, kind in _groups():
        theirs = [number for number, (name, _) in enumerate(layers) if name == role]
        changes = [tuning.layers[number] for number in theirs]
        numbers, step = _gather(changes, [layers[number][1] for number in theirs], kind)
        group = _fit(numbers, step)
        writer.varint(group.largest)
        if group.largest:
            for value in (group.step, group.zero, group.ratio):
                writer.byte(value)
            bounds = group.bounds().astype(np.int32)
            places = numbers + group.largest
            left.append(bounds[places])
            right.append(bounds[places + 1])
    if left:
        writer.raw(encode_intervals(np.concatenate(left), np.concatenate(right)))
    return bytes(writer.data)


def read_tuning(data: bytes | memoryview, network: IntegerNetwork) -> Tuning:
    """Return the tuning that some bytes hold, for the network they are meant for."""
    reader = Reader(data)
    groups = {}
    for role, kind in _groups():
        groups[role, kind] = _read_group(reader)
    decoder = Decoder(bytes(reader.data[reader.position :]))
    layers = list_layers(network)
    changes: list[dict[str, Int64s]] = [{} for _ in layers]
    for (role, kind), group in groups.items():
        if not group.largest:
            continue
        frequencies = np.diff(group.bounds()).astype(np.int32) - 1
        for change, (name, layer) in zip(changes, layers, strict=True):
            if name == role:
                shape = shape_of_change(layer, kind)
                count = int(np.prod(shape))
                symbols = decoder.decode_alike(frequencies, count)
                numbers = symbols.astype(np.int64) - group.largest
                change[kind] = (numbers << group.step).reshape(shape)
    decoder.finish()
    return Tuning(tuple(LayerTuning(**change) for change in changes))


def _groups() -> Iterator[tuple[str, str]]:
    for role in ROLES:
        for kind in KINDS:
            yield role, kind


def _read_group(reader: Reader) -> Group:
    largest = reader.varint()
    if not largest:
        return Group(0)
    if largest > LARGEST:
        raise FormatError(f"a tuning with numbers up to {largest}, of which {LARGEST} are allowed")
    group = Group(largest, reader.byte(), reader.byte(), reader.byte())
    if group.step > LARGEST_STEP or group.zero >= ZEROS:
        raise DamagedError(f"a tuning with steps of {group.step} bits, zero weight {group.zero}")
    return group


def _gather(
    changes: Sequence[LayerTuning], layers: Sequence[Layer], kind: str
) -> tuple[Int64s, int]:
    """Return the numbers of a group, divided by the largest power of two that divides them all.

    A group is there for all layers of its role or for none: what does not change is zero.
    """
    parts = [getattr(change, kind) for change in changes]
    if all(part is None for part in parts):
        return np.zeros(0, np.int64), 0
    shapes = [shape_of_change(layer, kind) for layer in layers]
    numbers = np.concatenate(
        [
            np.zeros(np.prod(shape), np.int64) if part is None else part.ravel()
            for part, shape in zip(parts, shapes, strict=True)
        ]
    )
    common = int(np.bitwise_or.reduce(np.abs(numbers)))
    step = min((common & -common).bit_length() - 1, LARGEST_STEP) if common else 0
    return numbers >> step, step


def _fit(numbers: Int64s, step: int) -> Group:
    """Return the group in which numbers take the fewest bits."""
    largest = int(np.abs(numbers).max(initial=0))
    if not largest:
        return Group(0)
    counts = np.bincount(numbers + largest, minlength=2 * largest + 1)
    group = Group(largest, step, zero=8 * 13, ratio=128)
    for _ in range(3):  # one after the other: each has a single best value
        zeros = [replace(group, zero=zero) for zero in range(ZEROS)]
        group = _cheapest(zeros, counts)
        group = _cheapest([replace(group, ratio=ratio) for ratio in range(256)], counts)
    return group


def _cheapest(groups: Sequence[Group], counts: Int64s) -> Group:
    """Return the group of the lowest cost, where costs fall and then rise."""
    first, last = 0, len(groups) - 1
    while first < last:
        middle = (first + last) // 2
        if groups[middle].cost(counts) <= groups[middle + 1].cost(counts):
            last = middle
        else:
            first = middle + 1
    return groups[first]
