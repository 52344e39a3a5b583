"""Pictures: samples, the mode that says what they mean, and metadata.

A mode fixes the number of channels and the type of the samples. The network codes samples of 8 and
of 16 bits; 1-bit samples and palette indices go to the classical methods. `groups` says how the
channels of a mode are split when the network codes them: three at a time as colours, the others one
by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzip.errors import InputError

Samples = npt.NDArray[Any]  # (height, width, channels): bool, uint8 or uint16


@dataclass(frozen=True)
class Mode:
    """What the samples of a picture are. `number` is its id in files."""

    name: str
    number: int
    channels: int
    dtype: type
    groups: tuple[tuple[int, ...], ...] = ()  # empty: the network does not code this mode

    @property
    def bits(self) -> int:
        """Bits per sample: a dimension of `bpd` is one sample."""
        return 1 if self.dtype is np.bool_ else 8 * np.dtype(self.dtype).itemsize

    @property
    def deep(self) -> bool:
        """Whether samples have more than 8 bits."""
        return self.dtype is np.uint16

    def plane(self, channels: int) -> Mode:
        """Return the mode in which a classical method stores a group of so many channels."""
        return MODES[{1: "L", 3: "RGB"}[channels] + ("16" if self.deep else "")]


_ALL_MODES = (
    Mode("1", 1, 1, np.bool_),
    Mode("L", 2, 1, np.uint8, ((0,),)),
    Mode("LA", 3, 2, np.uint8, ((0,), (1,))),
    Mode("RGB", 4, 3, np.uint8, ((0, 1, 2),)),
    Mode("RGBA", 5, 4, np.uint8, ((0, 1, 2), (3,))),
    Mode("P", 6, 1, np.uint8),  # palette indices; the palette is metadata
    Mode("CMYK", 7, 4, np.uint8, ((0, 1, 2), (3,))),
    Mode("L16", 8, 1, np.uint16, ((0,),)),
    Mode("LA16", 9, 2, np.uint16, ((0,), (1,))),
    Mode("RGB16", 10, 3, np.uint16, ((0, 1, 2),)),
    Mode("RGBA16", 11, 4, np.uint16, ((0, 1, 2), (3,))),
)
MODES = {mode.name: mode for mode in _ALL_MODES}
MODE_NUMBERS = {mode.number: mode for mode in _ALL_MODES}
MAX_SIDE = (1 << 31) - 1


@dataclass(frozen=True)
class Picture:
    """Samples (height, width, channels) of a mode, with metadata blocks by four-letter tag."""

    samples: Samples
    mode: Mode
    metadata: Mapping[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        samples, mode = self.samples, self.mode
        if samples.ndim != 3 or samples.shape[2] != mode.channels or samples.dtype != mode.dtype:
            raise InputError(
                f"mode {mode.name} needs {mode.channels} channels of {np.dtype(mode.dtype)}, "
                f"got {samples.dtype} of shape {samples.shape}"
            )
        if mode.dtype is np.bool_:  # Pillow's true is 255, ours is 1
            object.__setattr__(self, "samples", samples.view(np.uint8) != 0)
        if not all(1 <= side <= MAX_SIDE for side in samples.shape[:2]):
            raise InputError(f"an image needs at least one pixel, got shape {samples.shape}")

    @property
    def height(self) -> int:
        return int(self.samples.shape[0])

    @property
    def width(self) -> int:
        return int(self.samples.shape[1])


def mode_of(samples: Samples) -> Mode:
    """Return the default mode for samples (H, W, C) of bool, uint8 or uint16."""
    for mode in _ALL_MODES:
        if samples.shape[2] == mode.channels and samples.dtype == mode.dtype:
            return mode
    raise InputError(
        f"no mode for {samples.shape[2]} channels of {samples.dtype}: "
        "use bool (1), uint8 or uint16 (1 to 4)"
    )
