"""Residual blocks as plain matrix products, for orders in which every pixel sees the same taps.

On a CPU, a convolution of 64 to 128 channels reaches little more than half the speed of a matrix
product, and it multiplies the taps that raster order hides as well. So the images of a batch are
laid out side by side, one row of a matrix for each pixel:

    row = (y * images + image) * (pad + width) + pad + x

Each visible tap is then one product with that tap's weights, of rows that lie a constant distance
away. Columns of zeros separate the images, and zeros lie above the first line, as far as taps
reach. Taps only look back, so a few lines at a time go through the whole block while they are in
the processor's cache: forward from the first line, backward from the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lmzip.models.lmconv import LMConv, MaskSet, PatternGroup
from lmzip.order.masks import Kernel

CACHED_ROWS = 4096  # that go through a block at once


@dataclass(frozen=True)
class RowLayout:
    """Where the pixels of a batch lie in a matrix of rows; `pad` is how far taps reach."""

    images: int
    height: int
    width: int
    pad: int

    @property
    def line(self) -> int:
        """Rows from a pixel to the one below it."""
        return self.images * (self.pad + self.width)

    @property
    def rows(self) -> int:
        """Rows of all pixels, and of the columns of zeros between images."""
        return self.height * self.line

    @property
    def margin(self) -> int:
        """Rows of zeros before the first pixel, which taps see, and behind the last."""
        return self.pad * (self.line + 1)

    def shift(self, down: int, right: int) -> int:
        """Return how many rows away a tap lies."""
        return down * self.line + right

    def parts(self) -> Iterator[slice]:
        """Cut the rows into whole lines, as many as fit a cache."""
        step = max(1, CACHED_ROWS // self.line) * self.line
        for start in range(0, self.rows, step):
            yield slice(start, min(start + step, self.rows))

    def by_pixel(self, rows: Tensor) -> Tensor:
        """View whole lines of rows (n, C) as (lines, images, pad + width, C)."""
        return rows.view(-1, self.images, self.pad + self.width, rows.shape[1])

    def pixels(self, rows: Tensor) -> Tensor:
        """Return the pixels among whole lines of rows: (lines, images, width, C)."""
        return self.by_pixel(rows)[:, :, self.pad :]

    def clear_padding(self, rows: Tensor) -> None:
        self.by_pixel(rows)[:, :, : self.pad] = 0

    def to_images(self, columns: Tensor) -> Tensor:
        """Return what columns (C, n) hold, one for each row, as images (B, C, H, W)."""
        shape = len(columns), self.height, self.images, self.pad + self.width
        return columns.view(shape)[..., self.pad :].permute(2, 0, 1, 3)

    def with_margins(self, like: Tensor, columns: int) -> Tensor:
        """Return a matrix for all rows, of which only the margins are set, to zero."""
        padded = like.new_empty(self.rows + 2 * self.margin, columns)
        padded[: self.margin] = 0
        padded[self.margin + self.rows :] = 0
        return padded

    def moved(self, part: slice, shift: int) -> slice:
        """Return where a part's rows, moved by a shift, lie in a matrix with margins."""
        return slice(part.start + self.margin + shift, part.stop + self.margin + shift)


def find_layout(images: Tensor, layers: Sequence[LMConv], masks: MaskSet) -> RowLayout | None:
    """Return the layout in which images (B, C, H, W) can pass LMConvs by rows, if there is one.

    All pixels must see the same taps, none of them ahead of the pixel in memory; and a GPU has
    faster ways.
    """
    pad = 0
    for layer in layers:
        groups = masks[layer.kernel].groups
        plain = layer.form == "grouped" and images.device.type == "cpu"
        if not plain or groups is None or len(groups) != 1:
            return None
        offsets = visible_offsets(layer.kernel, groups[0])
        if any((down, right) > (0, 0) for down, right in offsets):
            return None
        pad = max(pad, *(max(-down, abs(right)) for down, right in offsets))
    return RowLayout(images.shape[0], images.shape[2], images.shape[3], pad)


def visible_offsets(kernel: Kernel, group: PatternGroup) -> list[tuple[int, int]]:
    """Return (rows, columns) from a pixel to each tap that a group's pixels see."""
    seen = group.pattern.flatten().tolist()
    return [offset for offset, visible in zip(kernel.offsets(), seen, strict=True) if visible]


class ToRows(torch.autograd.Function):
    """Images (B, C, H, W) to rows (n, C), zeros in the padding."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, layout: RowLayout) -> Tensor:
        ctx.layout = layout
        rows = images.new_zeros(layout.rows, images.shape[1])
        layout.pixels(rows)[:] = images.permute(2, 0, 3, 1)
        return rows

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.layout.pixels(gradients[0]).permute(1, 3, 0, 2).contiguous(), None


class RowBlock(torch.autograd.Function):
    """x + project clip(condition + taps of clip(x)) + bias, on rows; clip is to 0..top.

    x (n, C), weights (taps, hidden, C), condition (height, width, hidden), project (C, hidden),
    bias (C,); shifts are the taps' distances in rows, none of them ahead. Gradients come back with
    zeros in the padding, whatever lies in the padding of x.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weights: Tensor,
        condition: Tensor,
        project: Tensor,
        bias: Tensor,
        layout: RowLayout,
        shifts: Sequence[int],
        top: float,
    ) -> Tensor:
        active = layout.with_margins(x, x.shape[1])
        hidden = x.new_empty(layout.rows, len(project[0]))
        result = torch.empty_like(x)
        lines = condition[:, None].expand(-1, layout.images, -1, -1)
        for part in layout.parts():
            here = active[layout.moved(part, 0)]
            torch.clamp(x[part], 0, top, out=here)
            layout.clear_padding(here)
            inner = hidden[part]
            layout.clear_padding(inner)
            layout.pixels(inner)[:] = lines[part.start // layout.line : part.stop // layout.line]
            for weight, shift in zip(weights, shifts, strict=True):
                inner.addmm_(active[layout.moved(part, shift)], weight.t())
            inner.clamp_(0, top)
            torch.add(x[part], bias, out=result[part])
            result[part].addmm_(inner, project.t())
        ctx.save_for_backward(active, hidden, weights, project)
        ctx.layout, ctx.shifts, ctx.top = layout, shifts, top
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        active, hidden, weights, project = ctx.saved_tensors
        layout, shifts, top = ctx.layout, ctx.shifts, ctx.top
        change = gradients[0]
        inner = layout.with_margins(change, hidden.shape[1])
        x_gradient = torch.empty_like(change)
        weight_gradients = torch.zeros_like(weights)
        condition_gradient = change.new_empty(layout.height, layout.width, hidden.shape[1])
        project_gradient = torch.zeros_like(project)
        for part in reversed(list(layout.parts())):
            here = inner[layout.moved(part, 0)]
            torch.mm(change[part], project, out=here)
            _keep_active(here, hidden[part], top)
            lines = slice(part.start // layout.line, part.stop // layout.line)
            torch.sum(layout.pixels(here), 1, out=condition_gradient[lines])
            project_gradient.addmm_(change[part].t(), hidden[part])
            target = x_gradient[part]
            target.zero_()
            for weight, gradient, shift in zip(weights, weight_gradients, shifts, strict=True):
                gradient.addmm_(here.t(), active[layout.moved(part, shift)])
                target.addmm_(inner[layout.moved(part, -shift)], weight)
            _keep_active(target, active[layout.moved(part, 0)], top)  # the padding is zero
            target += change[part]
        return (
            x_gradient,
            weight_gradients,
            condition_gradient,
            project_gradient,
            change.sum(0),
            None,
            None,
            None,
        )


def _keep_active(gradient: Tensor, activation: Tensor, top: float) -> None:
    """Set a gradient to zero where an activation was clipped, in place."""
    torch.ops.aten.hardtanh_backward.grad_input(gradient, activation, 0, top, grad_input=gradient)
