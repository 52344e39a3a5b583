"""Discretised mixtures of logistics: what a network's outputs say about a pixel's levels.

A pixel has one or three channels of `count` levels. Level l stands for 2l / (count - 1) - 1 in
[-1, 1]; its bin reaches half a step to either side, and the bins of the first and last level are
open. So the probabilities of all levels add up to one whatever the parameters are. More than 256
levels are those of deep samples, which share out what the bins of 256 levels would cover, as in
the codec (`lmzip.stream.precision`). Weights are shared by the channels: the likelihood of a pixel
is joint (the paper's section on its architecture, after PixelCNN++).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

# Below -7 a logistic fits into a fraction of an 8-bit bin. Above 40 it is flat, and its inverse
# scale would soon vanish in float32.
LOG_SCALE_RANGE = -7.0, 40.0


class Mixture(NamedTuple):
    """What a network says about each pixel, before its channels are coupled.

    logits (B, K, H, W); means and log_scales (B, C, K, H, W); coefficients as the network has them,
    or None for a single channel.
    """

    logits: Tensor
    means: Tensor
    log_scales: Tensor
    coefficients: Tensor | None


def to_unit(levels: Tensor, count: int = 256, dtype: torch.dtype = torch.float32) -> Tensor:
    """Map integer levels 0 .. count - 1 to [-1, 1], in a float dtype."""
    half = half_a_step(count)
    return levels.to(dtype).mul_(2 * half).sub_((count - 1) * half)


def half_a_step(count: int) -> float:
    """Return how far the bin of one of so many levels reaches to either side."""
    return 1 / (count - 1) if count <= 256 else 256 / 255 / count


def logistic_log_prob(
    levels: Tensor, means: Tensor, log_scales: Tensor, count: int = 256, sharpness: float = 1.0
) -> Tensor:
    """Return the log probability of each level under each logistic, made narrower by `sharpness`.

    levels (B, C, H, W) integer; means, log_scales and the result (B, C, K, H, W) float.
    """
    levels, half = levels.unsqueeze(2), half_a_step(count)
    inverse_scales = (math.log(sharpness) - log_scales.clamp(*LOG_SCALE_RANGE)).exp()
    upper = (to_unit(levels, count, means.dtype) + half - means) * inverse_scales
    width = inverse_scales * (2 * half)
    # With the bin from `lower` to `upper`,
    #   sigmoid(upper) - sigmoid(lower) = sigmoid(upper) sigmoid(-lower) (1 - exp(lower - upper)),
    # and no factor cancels. An open end drops its own factor and the last one.
    has_lower = (levels > 0).to(means)
    has_upper = (levels < count - 1).to(means)
    log_prob = (-torch.expm1(-width)).log() * (has_lower * has_upper)
    log_prob = torch.addcmul(log_prob, F.softplus(-upper), has_upper, value=-1)
    return torch.addcmul(log_prob, F.softplus(upper - width), has_lower, value=-1)


def mixture_nll(
    levels: Tensor,
    logits: Tensor,
    means: Tensor,
    log_scales: Tensor,
    count: int = 256,
    sharpness: float = 1.0,
) -> Tensor:
    """Return the negative log likelihood of each pixel in nats, joint over its channels: (B, H, W).

    levels (B, C, H, W) integer; logits (B, K, H, W); means, log_scales (B, C, K, H, W). The means
    of later channels have been coupled to the values of the earlier ones.
    """
    each = logistic_log_prob(levels, means, log_scales, count, sharpness)
    joint = each.sum(1) + logits  # (B, K, H, W)
    return logits.logsumexp(1) - joint.logsumexp(1)


def couple_by_values(
    levels: Tensor, means: Tensor, coefficients: Tensor, count: int = 256
) -> Tensor:
    """Shift the means of green and blue by the channels coded before them, as PixelCNN++ does.

    levels (B, 3, H, W) integer; means, coefficients (the outputs before tanh) and the result
    (B, 3, K, H, W).
    """
    red, green, _ = to_unit(levels, count, means.dtype).unsqueeze(2).unbind(1)  # (B, 1, H, W)
    red_to_green, red_to_blue, green_to_blue = coefficients.tanh().unbind(1)  # (B, K, H, W)
    mean_red, mean_green, mean_blue = means.unbind(1)
    return torch.stack(
        (
            mean_red,
            torch.addcmul(mean_green, red_to_green, red),
            torch.addcmul(torch.addcmul(mean_blue, red_to_blue, red), green_to_blue, green),
        ),
        1,
    )
