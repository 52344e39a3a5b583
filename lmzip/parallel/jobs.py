"""Jobs: pieces of coding work that can run here or in another process.

A job is a small description and some bytes, and so is its result; that is all that crosses to a
worker. Jobs name their model by its file, so that a worker can load it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzip.network.backend import get_backend
from lmzip.network.registry import load_model
from lmzip.order.orders import CUSTOM, Order
from lmzip.stream.decoder import decode_images
from lmzip.stream.encoder import encode_images
from lmzip.stream.sequence import Pixels

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

    def run(self) -> list[Coded]:
        network = load_model(self.model).network
        streams = encode_images(
            network, self.order, self.images, get_backend(self.backend), groups=self.groups
        )
        return [
            Coded(stream.data, tuple(int(cost) for cost in stream.costs.sum((1, 2, 3))))
            for stream in streams
        ]

    def pack(self) -> tuple[dict[str, Any], list[bytes]]:
        fields = _describe(self.model, self.backend, self.order, self.images.shape, self.groups)
        return {"kind": "encode", **fields}, [np.ascontiguousarray(self.images).tobytes()]

    @staticmethod
    def unpack(fields: dict[str, Any], parts: Sequence[bytes]) -> EncodeJob:
        images = np.frombuffer(parts[0], np.uint8).reshape(fields["shape"])
        return EncodeJob(*_identify(fields), images, tuple(fields["groups"]))

    @staticmethod
    def pack_result(result: list[Coded]) -> tuple[dict[str, Any], list[bytes]]:
        return {"costs": [coded.costs for coded in result]}, [coded.data for coded in result]

    @staticmethod
    def unpack_result(fields: dict[str, Any], parts: Sequence[bytes]) -> list[Coded]:
        return [Coded(data, tuple(c)) for data, c in zip(parts, fields["costs"], strict=True)]


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

    def run(self) -> Pixels:
        network = load_model(self.model).network
        backend = get_backend(self.backend)
        return decode_images(network, self.order, self.shape, self.streams, self.groups, backend)

    def pack(self) -> tuple[dict[str, Any], list[bytes]]:
        fields = _describe(self.model, self.backend, self.order, self.shape, self.groups)
        return {"kind": "decode", **fields}, list(self.streams)

    @staticmethod
    def unpack(fields: dict[str, Any], parts: Sequence[bytes]) -> DecodeJob:
        height, width, channels = fields["shape"]
        groups = tuple(fields["groups"])
        return DecodeJob(*_identify(fields), (height, width, channels), tuple(parts), groups)

    @staticmethod
    def pack_result(result: Pixels) -> tuple[dict[str, Any], list[bytes]]:
        return {"shape": result.shape}, [result.tobytes()]

    @staticmethod
    def unpack_result(fields: dict[str, Any], parts: Sequence[bytes]) -> Pixels:
        pixels: npt.NDArray[np.uint8] = np.frombuffer(parts[0], np.uint8).reshape(fields["shape"])
        return pixels


Job = EncodeJob | DecodeJob
JOB_KINDS: dict[str, type[EncodeJob] | type[DecodeJob]] = {
    "encode": EncodeJob,
    "decode": DecodeJob,
}


def _describe(
    model: Path, backend: str, order: Order, shape: Sequence[int], groups: Sequence[int]
) -> dict[str, Any]:
    return {
        "model": str(model),
        "backend": backend,
        "family": order.family,
        "variant": order.variant,
        "permutation": order.permutation if order.family == CUSTOM else None,
        "shape": [int(side) for side in shape],
        "groups": [int(size) for size in groups],
    }


def _identify(fields: dict[str, Any]) -> tuple[Path, str, Order]:
    permutation = fields["permutation"]
    order = Order(
        fields["family"], fields["variant"], None if permutation is None else tuple(permutation)
    )
    return Path(fields["model"]), fields["backend"], order
