"""The colours of bit maps: from black, for pixels that cost nothing, to white."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.float64]  # (height, width)
Colours = npt.NDArray[np.uint8]  # (height, width, 3)

# They rise evenly in lightness, so equal steps look equal, in grey prints too.
_STOPS = (
    (0x00, 0x00, 0x0A),
    (0x2B, 0x0F, 0x54),
    (0x79, 0x1C, 0x6D),
    (0xC4, 0x3A, 0x4E),
    (0xF2, 0x79, 0x1E),
    (0xFA, 0xC2, 0x3C),
    (0xFF, 0xFF, 0xE0),
)


def choose_top(bits: Bits) -> float:
    """Return a round number of bits that all but the costliest few pixels stay below."""
    high = max(1.0, float(np.quantile(bits, 0.995)))
    step = 10.0 ** np.floor(np.log10(high))
    return float(next(round_ for round_ in step * np.array([1, 2, 3, 4, 5, 6, 8, 10])
                      if round_ >= high))  # fmt: skip


def colour_bits(bits: Bits, top: float) -> Colours:
    """Return a colour for each number of bits from 0 to `top`; larger ones look like `top`."""
    place = np.clip(bits / top, 0, 1) * (len(_STOPS) - 1)
    stops = np.array(_STOPS, np.float64)
    channels = [np.interp(place, np.arange(len(stops)), stops[:, i]) for i in range(3)]
    return np.rint(np.stack(channels, axis=-1)).astype(np.uint8)
