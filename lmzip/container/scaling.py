"""How a file scales deep samples before a network codes them (FORMAT.md, "Deep samples").

Each group of channels of a 16-bit mode has a scaling. First the values that occur become 0, 1, 2,
...: most deep pictures use only a part of the 65,536, some only every sixteenth. Then a precision
says how many bits these numbers have, and how the mixture codes them.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmzip.container.binary import Reader, Writer
from lmzip.errors import DamagedError, FormatError
from lmzip.picture import Mode
from lmzip.stream.precision import (
    LEAST_DEPTH,
    LINEAR,
    MOST_DEPTH,
    PLAIN_SHARPNESS,
    SQUARE_ROOT,
    Precision,
)

UInt16s = npt.NDArray[np.uint16]

VALUES = 1 << 16
_LISTED_BYTES = 40  # of memory, for each value of a list
# Beside the depth, less 8, in the four lowest bits:
_SPACED, _LISTED, _SQUARE_ROOT, _MIXTURE = 16, 32, 64, 128


@dataclass(frozen=True)
class Scaling:
    """The values of a group of channels, and the precision of their numbers.

    Value number i is low + i * step, or the i-th of a list.
    """

    precision: Precision
    low: int = 0
    step: int = 1
    listed: tuple[int, ...] = ()

    @property
    def memory(self) -> int:
        """The bytes of memory that the list takes."""
        return _LISTED_BYTES * len(self.listed)

    def number(self, samples: npt.NDArray[np.uint16]) -> UInt16s:
        """Return the numbers of samples, all of which have one."""
        if self.listed:
            return np.searchsorted(np.array(self.listed), samples).astype(np.uint16)
        return ((samples - np.uint16(self.low)) // np.uint16(self.step)).astype(np.uint16)

    def restore(self, numbers: npt.NDArray[np.uint16]) -> UInt16s:
        """Return the samples with these numbers; raises DamagedError if there are none."""
        values = np.array(self.listed) if self.listed else np.arange(self.low, VALUES, self.step)
        if numbers.size and int(numbers.max()) >= len(values):
            raise DamagedError(f"value {numbers.max()} of {len(values)} (file is damaged)")
        return values.astype(np.uint16)[numbers]


def write_scalings(writer: Writer, scalings: Sequence[Scaling]) -> None:
    """Write the scalings of all groups of a mode."""
    for scaling in scalings:
        precision = scaling.precision
        plain = Precision(precision.depth, precision.curve)
        writer.byte(
            (precision.depth - LEAST_DEPTH)
            | (_LISTED if scaling.listed else 0)
            | (_SPACED if (scaling.low, scaling.step) != (0, 1) else 0)
            | (_SQUARE_ROOT if precision.curve == SQUARE_ROOT else 0)
            | (_MIXTURE if precision != plain else 0)
        )
        if scaling.listed:
            writer.block(pack_values(scaling.listed))
        elif (scaling.low, scaling.step) != (0, 1):
            writer.varint(scaling.low)
            writer.varint(scaling.step)
        if precision != plain:
            writer.byte(precision.sharpness)
            writer.raw(precision.flatness.to_bytes(2, "little"))


def read_scalings(reader: Reader, mode: Mode) -> tuple[Scaling, ...]:
    """Read the scalings of a mode: none, unless its samples are deep."""
    return tuple(_read_scaling(reader) for _ in mode.groups) if mode.deep else ()


def _read_scaling(reader: Reader) -> Scaling:
    flags = reader.byte()
    depth = LEAST_DEPTH + flags % 16
    if depth > MOST_DEPTH or (flags & _SPACED and flags & _LISTED):
        raise FormatError(f"unknown scaling {flags} of the samples")
    low, step = 0, 1
    listed: tuple[int, ...] = ()
    if flags & _LISTED:
        listed = _unpack_values(reader, depth)
    elif flags & _SPACED:
        low, step = reader.varint(), reader.varint()
        if not (low < VALUES and 0 < step < VALUES):
            raise FormatError(f"impossible values of samples: {low}, and every {step}th")
    sharpness, flatness = PLAIN_SHARPNESS, 0
    if flags & _MIXTURE:
        sharpness, flatness = reader.byte(), int.from_bytes(reader.raw(2), "little")
        if not sharpness:
            raise FormatError("a sharpness of 0")
    curve = SQUARE_ROOT if flags & _SQUARE_ROOT else LINEAR
    return Scaling(Precision(depth, curve, sharpness, flatness), low, step, listed)


def pack_values(values: Sequence[int]) -> bytes:
    """Return a list of values as a file has it: differences, deflated."""
    return zlib.compress(np.diff(np.array(values), prepend=0).astype("<u2").tobytes(), 9)


def _unpack_values(reader: Reader, depth: int) -> tuple[int, ...]:
    data = reader.deflated(2 * VALUES, "the list of values")
    gaps = np.frombuffer(data[: len(data) // 2 * 2], "<u2").astype(np.int64)
    values = np.cumsum(gaps)
    if len(data) % 2 or not 0 < len(values) <= 1 << depth:
        raise DamagedError(f"a list of values of {len(data)} bytes, for {depth} bits")
    if not gaps[1:].all() or values[-1] >= VALUES:
        raise DamagedError("the values of a list do not ascend")
    return tuple(values.tolist())
