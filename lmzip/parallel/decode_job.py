"""A job that decodes: streams back to groups of images."""

from __future__ import annotations

from dataclasses import dataclass

from lmzip.native.backends import find_backend
from lmzip.network.adaptation import Manner
from lmzip.network.registry import Model
from lmzip.order.orders import Order
from lmzip.stream.decoder import decode_images
from lmzip.stream.precision import Precision
from lmzip.stream.sequence import Check, Pixels


@dataclass(frozen=True)
class DecodeJob:
    """Decode groups of images of one shape (H, W, C) and order, each from its stream."""

    model: Model
    backend: str
    order: Order
    shape: tuple[int, int, int]
    streams: tuple[bytes, ...]
    groups: tuple[int, ...]
    precision: Precision | None = None  # of deep samples
    manner: Manner | None = None  # in which the network adapts to a single image

    @property
    def pixels(self) -> int:
        return sum(self.groups) * self.shape[0] * self.shape[1]

    def run(self, check: Check | None = None) -> Pixels:
        backend = find_backend(self.backend)
        return decode_images(
            self.model.network,
            self.order,
            self.shape,
            self.streams,
            self.groups,
            backend,
            precision=self.precision,
            check=check,
            manner=self.manner,
        )
