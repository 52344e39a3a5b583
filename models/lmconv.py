"""The locally masked convolution (the paper's Algorithms 1 and 3) in three interchangeable forms.

All forms compute the same sum; they differ in memory and speed:

- `listing`: im2col, mask, matrix product, with gradients by autodiff.
- `efficient`: the paper's figure: its own backward pass recomputes im2col instead of keeping it
  (`lmzip.models.efficient`).
- `grouped`: groups the pixels by mask pattern, and calls an ordinary convolution for each group.
  Raster has one pattern, S-curve two (even and odd rows). Where the patterns form no regular
  grid (Hilbert), it does as `efficient` does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lmzip.models.efficient import convolve_efficient
from lmzip.order.masks import Kernel, Mask, make_mask, overlap
from lmzip.order.orders import Ranks


@dataclass(frozen=True)
class Reach:
    """How many pixels a kernel looks beyond its own on each side, and from tap to tap."""

    above: int
    below: int
    before: int
    after: int
    dilation: int = 1


@dataclass(frozen=True)
class PatternGroup:
    """The pixels rows[i] :: period, columns[j] :: period, which all see the same taps."""

    row: int
    column: int
    row_period: int
    column_period: int
    pattern: Tensor  # (k1, k2), 1 where a tap is visible
    box: tuple[int, int, int, int]  # top, bottom, left, right taps: the visible part of the kernel

    def visible_part(self, weight: Tensor) -> Tensor:
        """Return the box of weights (..., k1, k2), zeros where its taps are hidden."""
        top, bottom, left, right = self.box
        return (weight * self.pattern.to(weight))[..., top : bottom + 1, left : right + 1]

    def reach(self, kernel: Kernel) -> Reach:
        """Return how far the box reaches from the kernel's centre."""
        top, bottom, left, right = self.box
        d, middle, centre = kernel.dilation, kernel.height // 2, kernel.width // 2
        above, below = d * (middle - top), d * (bottom - middle)
        return Reach(above, below, d * (centre - left), d * (right - centre), d)


class LocalMask:
    """The mask of one order, shape and kernel, prepared for every form of the layer."""

    def __init__(self, ranks: Ranks, kernel: Kernel) -> None:
        mask = make_mask(ranks, kernel)
        self.kernel = kernel
        self.height, self.width = ranks.shape
        self.matrix = torch.from_numpy(mask.reshape(kernel.taps, -1)).float()  # (k1 k2, H W)
        self.groups = _group_pixels(mask, kernel)

    @property
    def common_group(self) -> PatternGroup | None:
        """The group of all pixels, if they all see the same taps."""
        return self.groups[0] if self.groups is not None and len(self.groups) == 1 else None

    def to(self, like: Tensor) -> Tensor:
        """Return the mask matrix with the dtype and device of another tensor, and keep it so."""
        if self.matrix.dtype != like.dtype or self.matrix.device != like.device:
            self.matrix = self.matrix.to(like)
        return self.matrix


class MaskSet:
    """The masks of one order and shape, made when a layer first asks for its kernel's.

    Layers look at their neighbours through it, at all pixels at once. `lmzip.models.stepwise` has
    a set whose layers see an image step by step.
    """

    at_once = True

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self._masks: dict[Kernel, LocalMask] = {}

    def __getitem__(self, kernel: Kernel) -> LocalMask:
        if kernel not in self._masks:
            self._masks[kernel] = LocalMask(self.ranks, kernel)
        return self._masks[kernel]

    def convolve(self, layer: LMConv, x: Tensor) -> Tensor:
        """Return a layer's sums without its bias: (B, C_in, H, W) -> (B, C_out, H, W)."""
        mask = self[layer.kernel]
        y = FORMS[layer.form](x, layer.weight, mask)
        return y if layer.mask_weight is None else y + layer.condition_on_mask(mask)

    def look_around(self, layer: nn.Module, kernel: Kernel, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return what a kernel covers at each pixel, (B, C, taps, H W), and what of it is visible.

        The second tensor is a mask (taps, H W), which has not been applied to the first.
        """
        mask = self[kernel]
        patches = F.unfold(x, **_window(kernel)).view(*x.shape[:2], kernel.taps, -1)
        return patches, mask.to(x)


class LMConv(nn.Module):
    """Locally masked 2D convolution with optional mask conditioning (Algorithm 3)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: Kernel,
        *,
        bias: bool = True,
        mask_conditioning: bool = False,
        form: str = "grouped",
    ) -> None:
        super().__init__()
        self.kernel = kernel
        self.form = form
        shape = (out_channels, in_channels, kernel.height, kernel.width)
        self.weight = nn.Parameter(torch.empty(shape))
        self.mask_weight = nn.Parameter(torch.empty(out_channels, kernel.height, kernel.width))
        if not mask_conditioning:
            self.register_parameter("mask_weight", None)
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise as PyTorch initialises its convolutions; mask conditioning starts at zero."""
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.mask_weight is not None:
            nn.init.zeros_(self.mask_weight)

    def forward(self, x: Tensor, masks: MaskSet) -> Tensor:  # (B, C_in, H, W) -> (B, C_out, H, W)
        y = masks.convolve(self, x)
        return y if self.bias is None else y + self.bias[:, None, None]

    def as_convolution(self, mask: LocalMask, group: PatternGroup) -> tuple[Tensor, Tensor, Reach]:
        """Return kernel, what is added to its outputs (C_out, H, W), and reach, for a mask whose
        pixels all see the same taps."""
        kernel, reach = group.visible_part(self.weight), group.reach(self.kernel)
        added = self.weight.new_zeros(len(self.weight), mask.height, mask.width)
        if self.mask_weight is not None:
            added = self.condition_on_mask(mask)
        return kernel, added if self.bias is None else added + self.bias[:, None, None], reach

    def condition_on_mask(self, mask: LocalMask) -> Tensor:
        """Return W_M M of Algorithm 3, which depends on the order alone: (C_out, H, W)."""
        assert self.mask_weight is not None
        conditioned = self.mask_weight.flatten(1) @ mask.to(self.mask_weight)
        return conditioned.view(-1, mask.height, mask.width)


def convolve_listing(x: Tensor, weight: Tensor, mask: LocalMask) -> Tensor:
    """Extract patches, mask them, multiply: Algorithm 1 as it stands."""
    patches = extract_patches(x, mask)
    return (weight.flatten(1) @ patches).view(x.shape[0], -1, *x.shape[2:])


def convolve_grouped(x: Tensor, weight: Tensor, mask: LocalMask) -> Tensor:
    """One ordinary convolution for each mask pattern, unless the patterns form no grid."""
    if mask.groups is None:
        return FORMS["efficient"](x, weight, mask)
    parts = [_convolve_group(x, weight, mask.kernel, group) for group in mask.groups]
    if len(parts) == 1:
        return parts[0]
    axis = 2 if mask.groups[0].row_period > 1 else 3
    interleaved = torch.stack(parts, axis + 1).flatten(axis, axis + 1)
    return interleaved.narrow(axis, 0, x.shape[axis])


FORMS: dict[str, Callable[[Tensor, Tensor, LocalMask], Tensor]] = {
    "listing": convolve_listing,
    "efficient": lambda x, weight, mask: convolve_efficient(x, weight, mask.to(x), mask.kernel),
    "grouped": convolve_grouped,
}


def extract_patches(x: Tensor, mask: LocalMask) -> Tensor:
    """Return the masked patches of im2col, (B, C_in k1 k2, H W)."""
    return _mask_patches(F.unfold(x, **_window(mask.kernel)), mask)


def _mask_patches(patches: Tensor, mask: LocalMask) -> Tensor:
    """Apply the mask to each channel of (B, C_in k1 k2, H W)."""
    by_channel = patches.view(-1, mask.kernel.taps, patches.shape[2])
    return (by_channel * mask.to(patches)).view(patches.shape)


def _window(kernel: Kernel) -> dict[str, Any]:
    """The arguments with which fold and unfold leave the image's size as it is."""
    padding = kernel.dilation * (kernel.height // 2), kernel.dilation * (kernel.width // 2)
    size = kernel.height, kernel.width
    return {"kernel_size": size, "dilation": kernel.dilation, "padding": padding}


def _convolve_group(x: Tensor, weight: Tensor, kernel: Kernel, group: PatternGroup) -> Tensor:
    """Convolve at the pixels of one group, with the visible part of the kernel.

    If the period does not divide the rows, the last ones are not used (likewise for columns).
    """
    visible = group.visible_part(weight)
    reach, height, width = group.reach(kernel), *x.shape[2:]
    vertical, rows = _align(reach.above, reach.below, group.row, group.row_period, height)
    horizontal, columns = _align(
        reach.before, reach.after, group.column, group.column_period, width
    )
    stride = group.row_period, group.column_period
    padding = vertical, horizontal
    y = F.conv2d(x, visible, stride=stride, padding=padding, dilation=kernel.dilation)
    return y[:, :, rows, columns]


def _align(before: int, after: int, first: int, period: int, size: int) -> tuple[int, slice]:
    """Return the padding of a side, and which of the outputs lie at first, first + period, ...

    A kernel that reaches `before` and `after` its centre needs that much padding. Padding is
    cheapest inside the convolution, where it is symmetric: one end may have too much of it, and
    the surplus outputs are cut off.
    """
    count = -(-size // period)
    beyond = first + period * (count - 1) - (size - 1)  # of the last output, from the edge
    padding = max(before - first, after + beyond, 0)
    padding += (before - first - padding) % period
    skipped = (padding - before + first) // period
    return padding, slice(skipped, skipped + count)


def _group_pixels(mask: Mask, kernel: Kernel) -> tuple[PatternGroup, ...] | None:
    """Find the smallest grid (all pixels, every second row, every second column) whose pixels
    share one pattern. Taps outside the image are zero anyway and fit every pattern."""
    for row_period, column_period in ((1, 1), (2, 1), (1, 2)):
        groups = []
        for row in range(row_period):
            for column in range(column_period):
                part = (slice(row, None, row_period), slice(column, None, column_period))
                pattern = _common_pattern(mask, kernel, part)
                if pattern is None:
                    break
                groups.append(
                    PatternGroup(row, column, row_period, column_period, *_box(pattern, kernel))
                )
        if len(groups) == row_period * column_period:
            return tuple(groups)
    return None


def _common_pattern(
    mask: Mask, kernel: Kernel, part: tuple[slice, slice]
) -> npt.NDArray[np.bool_] | None:
    height, width = mask.shape[1:]
    pattern = np.zeros(kernel.taps, bool)
    for tap, (down, right) in enumerate(kernel.offsets()):
        inside = np.zeros((height, width), bool)
        inside[overlap(down, height), overlap(right, width)] = True
        seen = mask[tap][part][inside[part]]
        if seen.any() and not seen.all():
            return None
        pattern[tap] = seen.any()
    return pattern


def _box(
    pattern: npt.NDArray[np.bool_], kernel: Kernel
) -> tuple[Tensor, tuple[int, int, int, int]]:
    grid = pattern.reshape(kernel.height, kernel.width)
    rows, columns = np.flatnonzero(grid.any(1)), np.flatnonzero(grid.any(0))
    centre = kernel.height // 2, kernel.width // 2
    if not grid.any():  # nothing to see: the first layer of a single pixel
        rows, columns = np.array([centre[0]]), np.array([centre[1]])
    box = int(rows[0]), int(rows[-1]), int(columns[0]), int(columns[-1])
    return torch.from_numpy(grid).float(), box
