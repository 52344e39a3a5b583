"""How deep samples divide the range of a sample among themselves (FORMAT.md, "Deep samples").

A sample of D bits, 8 to 16, is one of 2^D cells that together make up the 256 levels which the
network knows. A curve says how wide the cells are: all alike, or, where noise grows with the
signal as it does in linear light, wider ones for dark samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from lmzip.network.parameters import MEAN_BITS

Int32s = npt.NDArray[np.int32]

LINEAR, SQUARE_ROOT = 0, 1  # curves
LEAST_DEPTH, MOST_DEPTH = 8, 16
RANGE_BITS = 20  # boundaries are in units of 2^-12 of a level, and there are 256 levels
PLAIN_SHARPNESS = 16  # what leaves the scales of the mixture as they are
MOST_FLATNESS = (1 << 16) - 1
NIBBLE_BITS = 4
INPUT_MAX = (1 << 14) - 1  # of the numbers by which samples enter a deep network


@dataclass(frozen=True)
class Precision:
    """The depth of the samples of a group of channels, and what helps the mixture with them.

    curve:     how the cells divide the range
    sharpness: what the mixture's inverse scales are multiplied by, in units of 1/16
    flatness:  how likely a sample is that of all its neighbours where these agree, in 2^-16
    """

    depth: int
    curve: int = LINEAR
    sharpness: int = PLAIN_SHARPNESS
    flatness: int = 0

    @property
    def symbols(self) -> int:
        """How many nibbles a sample is coded as."""
        return -(-self.depth // NIBBLE_BITS)

    @property
    def boundaries(self) -> Int32s:
        """Where the cells begin, and where the last one ends: (2^D + 1,), from 0 to 2^20."""
        return _find_boundaries(self.depth, self.curve)

    @property
    def centres(self) -> Int32s:
        """The middles of the cells, rounded down, in the units of a deep network's means."""
        ends = self.boundaries
        return ((ends[:-1] + ends[1:]) >> 1) - (1 << RANGE_BITS >> 9)

    @property
    def inputs(self) -> Int32s:
        """What a deep network sees of each sample: (2^D,)."""
        ends = self.boundaries
        doubled = ends[:-1] + ends[1:] - (1 << RANGE_BITS)
        return ((doubled + (1 << MEAN_BITS >> 1)) >> MEAN_BITS).clip(-INPUT_MAX, INPUT_MAX)


@lru_cache(maxsize=4)
def _find_boundaries(depth: int, curve: int) -> Int32s:
    samples = np.arange((1 << depth) + 1, dtype=np.int64)
    if curve == LINEAR:
        return (samples << (RANGE_BITS - depth)).astype(np.int32)
    # Integers below 2^52 whose roots are below 2^21: float64 cannot round past a whole number.
    return np.floor(np.sqrt(samples << (2 * RANGE_BITS - depth))).astype(np.int32)
