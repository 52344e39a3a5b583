"""Jobs: pieces of coding work that can run beside each other.

A job names its model by its file; a model is loaded once, whoever asks for it. `check` is called
between the steps of a job, which ends as soon as it raises.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lmzip.native.backends import find_backend
from lmzip.network.registry import load_model
from lmzip.order.orders import Order
from lmzip.stream.decoder import decode_images
from lmzip.stream.encoder import encode_images
from lmzip.stream.sequence import Check, Pixels

JOB_PIXELS = 1 << 17  # of small images, computed at once: more is no faster


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

    model: Path
    backend: str
    order: Order
    images: Pixels
    groups: tuple[int, ...]

    @property
    def pixels(self) -> int:
        count, height, width, _ = self.images.shape
        return int(count * height * width)

    def run(self, check: Check | None = None) -> list[Coded]:
        network = load_model(self.model).network
        backend = find_backend(self.backend)
        streams = encode_images(
            network, self.order, self.images, backend, groups=self.groups, check=check
        )
        return [
            Coded(stream.data, tuple(int(cost) for cost in stream.costs.sum((1, 2, 3))))
            for stream in streams
        ]


@dataclass(frozen=True)
class DecodeJob:
    """Decode groups of images of one shape (H, W, C) and order, each from its stream."""

    model: Path
    backend: str
    order: Order
    shape: tuple[int, int, int]
    streams: tuple[bytes, ...]
    groups: tuple[int, ...]

    @property
    def pixels(self) -> int:
        return sum(self.groups) * self.shape[0] * self.shape[1]

    def run(self, check: Check | None = None) -> Pixels:
        network = load_model(self.model).network
        backend = find_backend(self.backend)
        return decode_images(
            network, self.order, self.shape, self.streams, self.groups, backend, check=check
        )


Job = EncodeJob | DecodeJob
