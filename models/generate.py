"""Images drawn from float networks, compact or the paper's, step by step.

All chances are drawn beforehand, for each image from a generator of its own: image number i depends
on the seed and i alone. At temperature t, logits are divided by t and logistics are t times as
wide, as in `lmzip.network.temperature`.
"""

from __future__ import annotations

import itertools

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from lmzip.errors import InputError
from lmzip.models.likelihood import LOG_SCALE_RANGE, to_unit
from lmzip.models.lmconv import MaskSet
from lmzip.models.paper import PaperNetwork
from lmzip.models.stepwise import StepMasks, compile_steps
from lmzip.models.weights import Network
from lmzip.network.temperature import check_temperature
from lmzip.order.context import RegionMask
from lmzip.order.orders import Order
from lmzip.progress import Progress

_LEAST_CHANCE = 1e-7  # keeps logistics finite


@torch.inference_mode()
def draw_images(
    network: Network,
    order: Order,
    given: Tensor,
    hidden: RegionMask,
    *,
    temperature: float = 1.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> Tensor:
    """Draw the hidden pixels (H, W) of images (N, C, H, W) of levels; the others are given.

    Returns uint8 (N, C, H, W). Raises InputError if the images do not fit the network.
    """
    check_temperature(temperature)
    count, channels, height, width = given.shape
    if channels != network.channels:
        raise InputError(f"the images have {channels} channels, the network {network.channels}")
    schedule = compile_steps(network, order, height, width)
    sequence = torch.from_numpy(schedule.sequence).long()
    # Columns of all images side by side, place by place: (1, C, 1, places N).
    levels = given.long().flatten(2)[:, :, sequence].permute(1, 2, 0).reshape(1, channels, 1, -1)
    free = torch.from_numpy(hidden.ravel())[sequence].repeat_interleave(count)
    chances = _draw_chances(seed, count, (1 + channels, schedule.pixels))
    masks = StepMasks(order, schedule, count)
    for start, stop in itertools.pairwise(schedule.starts.tolist()):
        masks.begin(start, stop)
        step = slice(start * count, stop * count)
        known = levels[..., step]
        drawn = draw_pixels(network, known, masks, chances[..., step], temperature)
        levels[..., step] = torch.where(free[step], drawn, known)
        masks.write(to_unit(levels[..., step], network.levels))
        if progress:
            progress(stop, schedule.pixels)
    images = torch.empty(count, channels, schedule.pixels, dtype=torch.uint8)
    images[:, :, sequence] = levels.view(channels, -1, count).permute(2, 0, 1).to(torch.uint8)
    return images.view(given.shape)


def draw_pixels(
    network: Network, known: Tensor, masks: MaskSet, chances: Tensor, temperature: float
) -> Tensor:
    """Draw levels (B, C, H, W) for all pixels that `masks` has in view, given those before them.

    `chances` (B, 1 + C, H, W) in (0, 1) choose the logistic of each pixel, and its channels.
    """
    if isinstance(network, PaperNetwork) and network.config.binary:
        logits = network.predict_levels(known, masks) / temperature
        return (chances[:, 1:] < F.softmax(logits, 1)[:, 1:]).long()
    mixture = network.predict(known, masks)
    ends = F.softmax(mixture.logits / temperature, 1).cumsum(1)
    last = mixture.logits.shape[1] - 1
    chosen = (ends < chances[:, :1]).sum(1, keepdim=True).clamp(max=last)[:, None]
    drawn = known.clone()
    for channel in range(known.shape[1]):
        means = network.couple(drawn, mixture)[:, channel : channel + 1]
        mean = means.gather(2, chosen)[:, :, 0]
        log_scale = mixture.log_scales[:, channel : channel + 1].gather(2, chosen)[:, :, 0]
        scale = log_scale.clamp(*LOG_SCALE_RANGE).exp() * temperature
        value = mean + scale * chances[:, channel + 1 : channel + 2].logit()
        level = ((value + 1) * ((network.levels - 1) / 2)).round().clamp(0, network.levels - 1)
        drawn[:, channel : channel + 1] = level.long()
    return drawn


def _draw_chances(seed: int, count: int, shape: tuple[int, int]) -> Tensor:
    """Draw numbers in (0, 1) for the columns of all images: float32 (1, 1 + C, 1, places N)."""
    each = [np.random.default_rng((seed, i)).random(shape, np.float32) for i in range(count)]
    columns = torch.from_numpy(np.stack(each, axis=2)).view(1, shape[0], 1, -1)
    return columns.clamp(_LEAST_CHANCE, 1 - _LEAST_CHANCE)
