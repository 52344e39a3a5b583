"""Schedules: which pixels are coded together, and where each finds its neighbours.

A pixel needs another if some kernel lets it see that one. Every pixel gets the step
1 + max(step of what it needs); the pixels of one step do not need each other, so a decoder takes
them together. Raster with kernels 2k+1 wide becomes a wavefront of W + (k + 1) H steps instead of
W H; S-curve and Hilbert stay sequential. The probabilities are those of the order itself.

The *sequence* lists the pixels step by step, and by rank within a step. It fixes the place of every
symbol in a file, so it is part of the format (FORMAT.md, "Schedule").
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from lmzip.order.masks import overlap
from lmzip.order.orders import Order, Ranks

Int32s = npt.NDArray[np.int32]
Offset = tuple[int, int]


@dataclass(frozen=True)
class Taps:
    """The offsets (rows, columns) at which one layer looks; (0, 0) is the pixel itself.

    The centre is always visible where it is listed: features of a pixel depend on earlier ones
    only. A first layer does not list it.
    """

    offsets: tuple[Offset, ...]


@dataclass(frozen=True)
class Neighbours:
    """For one `Taps`: where each pixel of the sequence finds the taps that anyone can see.

    places:   (N, used) int32, the neighbour's place in the sequence, or N if it is hidden
    used:     which of the taps those are; the others are hidden from every pixel
    patterns: (P, taps) bool, the different masks that occur, the most frequent one first
    pattern:  (N,) int32, which of them each pixel has
    reach:    how many places back the farthest visible neighbour lies
    """

    places: Int32s
    used: tuple[int, ...]
    patterns: npt.NDArray[np.bool_]
    pattern: Int32s
    reach: int


class NeighbourTable(dict[Taps, Neighbours]):
    """The neighbours of each layer, computed on first use: not every layer needs them."""

    def __init__(self, ranks: Ranks, grid: Int32s, sequence: Int32s) -> None:
        super().__init__()
        self._pixels = ranks, grid, sequence

    def __missing__(self, taps: Taps) -> Neighbours:
        self[taps] = neighbours = _find_neighbours(*self._pixels, taps)
        return neighbours


@dataclass(frozen=True)
class Schedule:
    """The sequence of an order on one shape.

    sequence: (N,) flat pixel indices in the sequence in which they are coded
    starts:   (steps + 1,) where each step begins in the sequence
    """

    height: int
    width: int
    sequence: Int32s
    starts: Int32s
    neighbours: NeighbourTable

    @property
    def pixels(self) -> int:
        return self.height * self.width

    @property
    def steps(self) -> int:
        return len(self.starts) - 1

    @property
    def longest(self) -> int:
        """The places of the longest step."""
        return int(np.diff(self.starts).max())

    def cut(self, span: int | None) -> list[tuple[int, int]]:
        """Cut the sequence into ranges (start, stop) of so many places, or into its steps."""
        if span is None:
            bounds = self.starts.tolist()
        else:
            bounds = [*range(0, self.pixels, span), self.pixels]
        return list(itertools.pairwise(bounds))


@lru_cache(maxsize=8)
def compile_schedule(order: Order, height: int, width: int, layers: tuple[Taps, ...]) -> Schedule:
    """Compile an order on one shape for a network that looks through `layers`."""
    ranks = order.ranks(height, width)
    offsets = sorted({offset for taps in layers for offset in taps.offsets} - {(0, 0)})
    steps = _count_steps(ranks, offsets)
    sequence = np.lexsort((ranks.ravel(), steps)).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(np.bincount(steps))]).astype(np.int32)
    places = np.empty(sequence.size, np.int32)
    places[sequence] = np.arange(sequence.size, dtype=np.int32)
    grid = places.reshape(height, width)
    return Schedule(height, width, sequence, starts, NeighbourTable(ranks, grid, sequence))


def _count_steps(ranks: Ranks, offsets: Sequence[Offset]) -> npt.NDArray[np.int64]:
    """Return the step of each pixel, flat, counting from 0."""
    height, width = ranks.shape
    positions = np.argsort(ranks, axis=None)
    rows, columns = np.divmod(positions, width)
    moves = set(zip((-np.diff(rows)).tolist(), (-np.diff(columns)).tolist(), strict=True))
    if moves <= set(offsets):  # each pixel needs the one just before it: nothing is parallel
        return ranks.ravel().astype(np.int64)

    for line in {width, height}:  # the rows of a raster, or the columns of a transposed one
        number, along = np.divmod(ranks.astype(np.int64), line)
        for slope in sorted({min(line, slope) for slope in _likely_slopes(offsets)}):
            wavefront = along + slope * number
            if np.array_equal(wavefront, _next_steps(wavefront, ranks, offsets)):
                return wavefront.ravel()
    return _count_steps_of_any(ranks, offsets)


def _likely_slopes(offsets: Sequence[Offset]) -> set[int]:
    """Return how many steps a line may take, judging by the taps that reach ahead in earlier lines.

    Lines may be rows or columns and run in either direction; each case gives a slope to try.
    """
    slopes = set()
    for ahead, back in ((1, 0), (0, 1)):
        for direction in (1, -1):
            for side in (1, -1):
                demands = [
                    direction * offset[ahead] // (side * offset[back]) + 1
                    for offset in offsets
                    if side * offset[back] > 0
                ]
                slopes.add(max([1, *demands]))
    return slopes


def _next_steps(
    steps: npt.NDArray[np.int64], ranks: Ranks, offsets: Sequence[Offset]
) -> npt.NDArray[np.int64]:
    """Return 1 + max(step of what each pixel needs). Only the true steps map to themselves."""
    height, width = ranks.shape
    latest = np.full(steps.shape, -1, np.int64)
    for down, right in offsets:
        seer = overlap(down, height), overlap(right, width)
        seen = overlap(-down, height), overlap(-right, width)
        visible = ranks[seen] < ranks[seer]
        np.maximum(latest[seer], np.where(visible, steps[seen], -1), out=latest[seer])
    return latest + 1


def _count_steps_of_any(ranks: Ranks, offsets: Sequence[Offset]) -> npt.NDArray[np.int64]:
    """Repeatedly remove the pixels whose needs are met, counting down the needs of the others."""
    height, width = ranks.shape
    pixels = height * width
    dependents = np.full((pixels + 1, len(offsets)), pixels, np.int32)
    needs = np.zeros(pixels + 1, np.int32)
    index = np.arange(pixels, dtype=np.int32).reshape(height, width)
    for column, (down, right) in enumerate(offsets):
        seer = overlap(down, height), overlap(right, width)
        seen = overlap(-down, height), overlap(-right, width)
        visible = ranks[seen] < ranks[seer]
        dependents[index[seen][visible], column] = index[seer][visible]
        needs[index[seer][visible]] += 1
    steps = np.zeros(pixels, np.int64)
    ready, step = np.flatnonzero(needs[:pixels] == 0), 0
    while ready.size:
        steps[ready] = step
        waiting = dependents[ready].ravel()
        np.subtract.at(needs, waiting, 1)
        needs[pixels] = -1  # the dummy dependent never becomes ready
        ready, step = np.unique(waiting[needs[waiting] == 0]), step + 1
    return steps


def _find_neighbours(ranks: Ranks, grid: Int32s, sequence: Int32s, taps: Taps) -> Neighbours:
    height, width = ranks.shape
    pixels = height * width
    here = np.arange(pixels, dtype=np.int32)
    places = np.empty((len(taps.offsets), pixels), np.int32)
    reach = 0
    for tap, (down, right) in enumerate(taps.offsets):
        place = np.full((height, width), pixels, np.int32)
        if (down, right) == (0, 0):
            place = grid
        else:
            seer = overlap(down, height), overlap(right, width)
            seen = overlap(-down, height), overlap(-right, width)
            place[seer] = np.where(ranks[seen] < ranks[seer], grid[seen], pixels)
        np.take(place, sequence, out=places[tap])
        reach = max(reach, int((here - places[tap]).max(initial=0)))
    visible = places < pixels
    patterns, pattern = _number_patterns(visible.T)
    used = tuple(np.flatnonzero(patterns.any(0)).tolist())
    return Neighbours(np.ascontiguousarray(places[list(used)].T), used, patterns, pattern, reach)


def _number_patterns(visible: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.bool_], Int32s]:
    """Return the different rows, the most frequent first, and the number of each row."""
    number = np.zeros(len(visible), np.int64)
    for start in range(0, visible.shape[1], 32):  # 32 taps at a time fit a 64-bit key
        bits = visible[:, start : start + 32]
        key = number << 32
        for tap in range(bits.shape[1]):
            key |= bits[:, tap].astype(np.int64) << tap
        _, first, number, counts = np.unique(
            key, return_index=True, return_inverse=True, return_counts=True
        )
    by_count = np.argsort(-counts, kind="stable")
    renumber = np.argsort(by_count)
    return visible[first[by_count]], renumber[number].astype(np.int32)
