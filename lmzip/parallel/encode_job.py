"""A job that encodes: groups of images to streams."""

from __future__ import annotations

from dataclasses import dataclass

from lmzip.native.backends import find_backend
from lmzip.network.adaptation import Manner
from lmzip.network.registry import Model
from lmzip.order.orders import Order
from lmzip.stream.encoder import encode_images
from lmzip.stream.precision import Precision
from lmzip.stream.sequence import Check, Pixels


@dataclass(frozen=True)
class Coded:
    """A group of images as coded: the stream, and each image's cost in 2^-16 bit."""

    data: bytes
    costs: tuple[int, ...]

    @property
    def cost(self) -> int:
        return sum(self.costs)


@dataclass(frozen=True)
class EncodeJob:
    """Encode images (N, H, W, C) of one order, in groups with a stream each."""

    model: Model
    backend: str
    order: Order
    images: Pixels
    groups: tuple[int, ...]
    precision: Precision | None = None  # of deep samples
    manner: Manner | None = None  # in which the network adapts to a single image

    @property
    def pixels(self) -> int:
        count, height, width, _ = self.images.shape
        return int(count * height * width)

    def run(self, check: Check | None = None) -> list[Coded]:
        backend = find_backend(self.backend)
        streams = encode_images(
            self.model.network,
            self.order,
            self.images,
            backend,
            precision=self.precision,
            groups=self.groups,
            check=check,
            manner=self.manner,
        )
        return [
            Coded(stream.data, tuple(int(cost) for cost in stream.costs.sum((1, 2, 3))))
            for stream in streams
        ]
