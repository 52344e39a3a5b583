"""What a model can do besides compressing: draw images, and complete those with a hidden part.

An image costs one pass of the network, step by step along the schedule, as in decompression.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzip.cost import to_bits
from lmzip.errors import InputError
from lmzip.native.backends import find_backend
from lmzip.network.registry import Model, load_model
from lmzip.network.temperature import with_temperature
from lmzip.options import ImageOrder
from lmzip.order.context import RegionMask, completion_order
from lmzip.order.orders import Order, parse_order
from lmzip.progress import Progress
from lmzip.stream.encoder import encode_images
from lmzip.stream.sampler import draw_images

Images = npt.NDArray[np.uint8]  # (images, height, width, channels)
Hidden = npt.NDArray[np.bool_] | npt.NDArray[np.integer[Any]]


def sample_images(
    model: str | Path | Model,
    height: int,
    width: int,
    count: int = 1,
    *,
    order: ImageOrder = "raster",
    channels: int | None = None,
    temperature: float = 1.0,
    seed: int = 0,
    backend: str = "auto",
    progress: Progress | None = None,
) -> Images:
    """Draw images from a model: uint8 (count, height, width, channels).

    Below a temperature of 1 they become smoother, above it noisier. Image number i depends on the
    seed and i alone, not on `count`. One channel, of a model for three, draws grey images.
    """
    model = load_model(model) if isinstance(model, str | Path) else model
    channels = model.network.channels if channels is None else channels
    if min(height, width, count) < 1:
        raise InputError(f"{count} images of {height}x{width} pixels cannot be drawn")
    given = np.zeros((count, height, width, channels), np.uint8)
    _check(model, parse_order(order), given)
    network = with_temperature(model.network, temperature)
    everything = np.ones((height, width), bool)
    return draw_images(
        network, parse_order(order), given, everything, find_backend(backend),
        seed=seed, progress=progress,
    )  # fmt: skip


def complete_image(
    model: str | Path | Model,
    pixels: npt.NDArray[np.uint8],
    hidden: Hidden,
    count: int = 1,
    *,
    order: ImageOrder | None = None,
    temperature: float = 1.0,
    seed: int = 0,
    backend: str = "auto",
    progress: Progress | None = None,
) -> Images:
    """Draw `count` completions of an image (height, width, channels): uint8, side by side first.

    `hidden` (height, width) is true, or not zero, where a pixel is to be drawn; whatever `pixels`
    holds there is not looked at. All other pixels come back as they are. The order is that of
    `completion_order` unless another is given.
    """
    model = load_model(model) if isinstance(model, str | Path) else model
    region = check_region(hidden, pixels)
    chosen = parse_order(order or completion_order(region, model.widest_family))
    given = np.repeat(np.where(region[..., None], 0, pixels).astype(np.uint8)[None], count, axis=0)
    _check(model, chosen, given)
    network = with_temperature(model.network, temperature)
    return draw_images(
        network, chosen, given, region, find_backend(backend), seed=seed, progress=progress
    )


def measure_region(
    model: str | Path | Model,
    images: Images,
    hidden: Hidden,
    *,
    order: ImageOrder | None = None,
    backend: str = "auto",
) -> npt.NDArray[np.float64]:
    """Return the bits of the hidden pixels of images (N, H, W, C), given those before them: (N,).

    Under an order that visits the observed pixels first, these are the conditional likelihoods of
    completions.
    """
    model = load_model(model) if isinstance(model, str | Path) else model
    region = check_region(hidden, images[0])
    chosen = parse_order(order or completion_order(region, model.widest_family))
    _check(model, chosen, images)
    (stream,) = encode_images(model.network, chosen, images, find_backend(backend))
    return np.array([to_bits(int(cost)) for cost in stream.costs[:, region].sum((1, 2))])


def check_region(hidden: Hidden, pixels: npt.NDArray[np.uint8]) -> RegionMask:
    """Return a region as bool (H, W); raise InputError unless it fits and hides a pixel."""
    region = np.asarray(hidden) != 0
    if pixels.ndim != 3 or pixels.dtype != np.uint8:
        raise InputError(f"an image is uint8 (H, W, C), not {pixels.dtype} {pixels.shape}")
    if region.shape != pixels.shape[:2]:
        raise InputError(f"the hidden region is {region.shape}, the image {pixels.shape[:2]}")
    if not region.any():
        raise InputError("the hidden region has no pixel")
    return region


def _check(model: Model, order: Order, images: Images) -> None:
    """Raise InputError unless a model predicts such images in this order."""
    channels = images.shape[3]
    if channels not in (1, model.network.channels):
        raise InputError(
            f"model {model.name!r} is for {model.network.channels} channels, not for {channels}"
        )
    model.check_order(order)
