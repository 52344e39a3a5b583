"""What a caller may choose when compressing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzip.errors import InputError
from lmzip.order.orders import Order, parse_order

ImageOrder = str | Order | tuple[int, ...] | npt.NDArray[np.integer[Any]]

AUTO = "auto"
BEST = "best"
FAST = "fast"
DEFAULT = "default"
MAX = "max"
EFFORTS = (FAST, DEFAULT, BEST, MAX)


@dataclass(frozen=True)
class Options:
    """How to compress.

    model:   the name of a released model, the path of a model file, or "auto"
    order:   a name, a name and variant ("raster:mirror"), a permutation of the pixels, or "best"
    effort:  "fast" uses small networks that stay as they are, "default" large ones that adapt to
             large pictures, and "best" tries all of them and all classical encoders at their
             strongest; "max" does what "best" does, and lets the network learn from the pictures
             beforehand (needs torch)
    threads: how many cores to use; 0 means all
    minutes: how long the network may learn, with effort "max"

    If neither model nor order is given, pictures are stored by a classical method where that is
    smaller. Naming either one forces the network for every mode that it covers.
    """

    model: str = AUTO
    order: ImageOrder = "raster"
    effort: str = DEFAULT
    threads: int = 0
    backend: str = "auto"
    minutes: float = 1.6

    def __post_init__(self) -> None:
        if self.effort not in EFFORTS:
            raise InputError(f"unknown effort {self.effort!r}: choose from {', '.join(EFFORTS)}")
        if not 0 < self.minutes < float("inf"):
            raise InputError(f"the network cannot learn for {self.minutes} minutes")
        if not isinstance(self.order, str | Order):
            object.__setattr__(self, "order", parse_order(self.order))

    @property
    def forced(self) -> bool:
        """Whether the network must be used even where a classical method would be smaller."""
        return self.model != AUTO or self.order not in ("raster", BEST)
