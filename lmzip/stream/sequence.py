"""The sequence of a stream's symbols, which encoder and decoder share.

The symbols of a stream follow the schedule: step by step; in a step, channel by channel; of each
channel all first nibbles, then all second ones, and so on; of each, place by place; of each place,
image by image (FORMAT.md, "Streams").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from lmzip.network.integer_network import IntegerNetwork
from lmzip.order.schedule import Schedule

Pixels = npt.NDArray[Any]  # (images, height, width, channels): uint8, or uint16 if deep
Samples = npt.NDArray[Any]  # (places, images, channels): likewise
Int32s = npt.NDArray[np.int32]
Check = Callable[[], None]  # called between steps; raises to end the work

_T = TypeVar("_T", bound=np.generic)


def to_sequence(images: Pixels, schedule: Schedule) -> Samples:
    """Bring images (N, H, W, C) into a schedule's sequence: (places, images, C)."""
    count, _, _, channels = images.shape
    flat = images.reshape(count, schedule.pixels, channels)
    return np.ascontiguousarray(flat[:, schedule.sequence].transpose(1, 0, 2))


def from_sequence(values: npt.NDArray[_T], schedule: Schedule) -> npt.NDArray[_T]:
    """Bring values (places, images, C) back into the shape of images (N, H, W, C)."""
    _, count, channels = values.shape
    flat = np.empty((count, schedule.pixels, channels), values.dtype)
    flat[:, schedule.sequence] = values.transpose(1, 0, 2)
    return flat.reshape(count, schedule.height, schedule.width, channels)


def widen(samples: Int32s, network: IntegerNetwork) -> Int32s:
    """Give a single coded channel to all of the network's channels."""
    if samples.shape[2] == network.channels:
        return samples
    return np.repeat(samples, network.channels, axis=2)
