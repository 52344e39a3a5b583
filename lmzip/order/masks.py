"""Local masks: which neighbours a pixel may see under an order (the paper's Algorithm 2).

The kernel is always the full k1 x k2 rectangle around a pixel; a mask says which of its taps have
been generated before. Pixels outside the image have never been generated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmzip.order.orders import Ranks

Mask = npt.NDArray[np.bool_]  # (taps, height, width)


@dataclass(frozen=True)
class Kernel:
    """A centred kernel: odd sides, a dilation, and whether it belongs to the first layer.

    In the first layer the centre is hidden (it is the pixel to be predicted); in later layers it
    holds features that depend on earlier pixels only.

    A slope s, for networks that only ever see plain raster order, also hides the taps that lie s or
    more columns to the right for each row above. A decoder's wavefront then needs s steps per row.
    """

    height: int
    width: int
    dilation: int = 1
    first: bool = False
    slope: int | None = None

    def __post_init__(self) -> None:
        assert self.height % 2 == self.width % 2 == 1, "kernels have a centre"

    @property
    def taps(self) -> int:
        return self.height * self.width

    def offsets(self) -> list[tuple[int, int]]:
        """Return (rows, columns) from the centre to each tap, row by row."""
        d, half_height, half_width = self.dilation, self.height // 2, self.width // 2
        return [
            (d * (i - half_height), d * (j - half_width))
            for i in range(self.height)
            for j in range(self.width)
        ]


def make_mask(ranks: Ranks, kernel: Kernel) -> Mask:
    """Return, for each tap and pixel, whether the pixel may see the tap: bool (taps, H, W)."""
    height, width = ranks.shape
    mask = np.zeros((kernel.taps, height, width), bool)
    for tap, (down, right) in enumerate(kernel.offsets()):
        if (down, right) == (0, 0):
            mask[tap] = not kernel.first
            continue
        if kernel.slope is not None and right >= kernel.slope * -down > 0:
            continue
        here, there = overlap(down, height), overlap(right, width)
        neighbour = overlap(-down, height), overlap(-right, width)
        mask[tap, here, there] = ranks[neighbour] < ranks[here, there]
    return mask


def overlap(offset: int, size: int) -> slice:
    """Return the positions p in 0..size-1 for which p + offset is in that range too."""
    return slice(min(max(0, -offset), size), max(0, size - max(0, offset)))
