"""What a caller may choose when compressing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lmzip.errors import InputError
from lmzip.order.orders import Order, parse_order

AUTO = "auto"
BEST = "best"
FAST = "fast"
EFFORTS = (FAST, "default", BEST)


@dataclass(frozen=True)
class Options:
    """How to compress. `order` is a name, a name and variant, a permutation, or "best".

    Leaving model and order alone lets lmzip store a picture by a classical method where that is
    smaller; naming either one forces the network wherever it covers the picture's mode.
    """

    model: str = AUTO
    order: str | Order | tuple[int, ...] = "raster"
    effort: str = "default"
    threads: int = 0
    backend: str = "numpy"

    def __post_init__(self) -> None:
        if self.effort not in EFFORTS:
            raise InputError(f"unknown effort {self.effort!r}: choose from {', '.join(EFFORTS)}")
        if isinstance(self.order, np.ndarray):
            object.__setattr__(self, "order", parse_order(self.order))

    @property
    def forced(self) -> bool:
        return self.model != AUTO or self.order not in ("raster", BEST)
