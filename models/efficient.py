"""The locally masked convolution that keeps only its inputs, as the paper's figure does.

Its backward pass extracts the patches anew instead of keeping them, and both passes go image by
image, so the patches of one image are all that ever exists and they fit into a cache. They are
extracted with the channels of a pixel side by side, which copies whole rows of memory where
`F.unfold` gathers single numbers. This is the fastest way on a CPU for orders whose mask patterns
form no grid, such as Hilbert's curve and orders that visit a region last.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lmzip.order.masks import Kernel, overlap


def convolve_efficient(x: Tensor, weight: Tensor, matrix: Tensor, kernel: Kernel) -> Tensor:
    """Return the sums of a masked layer, (B, C_in, H, W) -> (B, C_out, H, W).

    matrix (taps, H W) is 1 where a pixel may see a tap.
    """
    result: Tensor = _EfficientConvolution.apply(  # type: ignore[no-untyped-call]
        x, weight, matrix, kernel
    )
    return result


class _EfficientConvolution(torch.autograd.Function):
    """Algorithm 1, the patches of one image at a time."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, matrix: Tensor, kernel: Kernel) -> Tensor:
        images = x.permute(0, 2, 3, 1).contiguous()  # (B, H, W, C_in)
        rows = _as_rows(weight)
        patches = _Patches(images, matrix, kernel)
        sums = images.new_empty(*images.shape[:3], len(rows))
        for image, result in zip(images, sums, strict=True):
            torch.mm(patches.extract(image), rows.t(), out=result.view(-1, len(rows)))
        ctx.save_for_backward(images, weight)
        ctx.matrix, ctx.kernel = matrix, kernel
        return sums.permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        images, weight = ctx.saved_tensors
        rows, patches = _as_rows(weight), _Patches(images, ctx.matrix, ctx.kernel)
        changes = gradients[0].permute(0, 2, 3, 1).contiguous()
        x_gradient = torch.zeros_like(images) if ctx.needs_input_grad[0] else None
        rows_gradient = torch.zeros_like(rows) if ctx.needs_input_grad[1] else None
        for i, change in enumerate(changes.view(len(changes), -1, len(rows))):  # (H W, C_out)
            if rows_gradient is not None:
                rows_gradient.addmm_(change.t(), patches.extract(images[i]))
            if x_gradient is not None:
                patches.add_back(change @ rows, x_gradient[i])
        if x_gradient is not None:
            x_gradient = x_gradient.permute(0, 3, 1, 2)
        if rows_gradient is None:
            return x_gradient, None, None, None
        shape = len(weight), *weight.shape[2:], weight.shape[1]
        return x_gradient, rows_gradient.view(shape).permute(0, 3, 1, 2), None, None


class _Patches:
    """What a masked kernel sees at each pixel of an image (H, W, C): (H W, taps C)."""

    def __init__(self, images: Tensor, matrix: Tensor, kernel: Kernel) -> None:
        _, height, width, channels = images.shape
        self._mask = matrix.view(kernel.taps, height, width, 1)
        # Taps outside the image stay zero, whatever image is extracted.
        self._patches = images.new_zeros(height, width, kernel.taps, channels)
        self._windows = [  # of each tap: the pixels that have it inside, and where it lies
            ((overlap(down, height), overlap(right, width)),
             (overlap(-down, height), overlap(-right, width)))
            for down, right in kernel.offsets()
        ]  # fmt: skip

    def extract(self, image: Tensor) -> Tensor:
        """Return the patches of an image; the next call overwrites them."""
        for tap, (pixels, seen) in enumerate(self._windows):
            target = self._patches[*pixels, tap]
            torch.mul(image[seen], self._mask[tap][pixels], out=target)
        return self._patches.flatten(0, 1).flatten(1)

    def add_back(self, changes: Tensor, image: Tensor) -> None:
        """Add the gradients of patches (H W, taps C) to those of the image they were cut from."""
        by_tap = changes.view(self._patches.shape)
        for tap, (pixels, seen) in enumerate(self._windows):
            image[seen].addcmul_(by_tap[*pixels, tap], self._mask[tap][pixels])


def _as_rows(weight: Tensor) -> Tensor:
    """Return a kernel (C_out, C_in, k1, k2) as a matrix (C_out, k1 k2 C_in)."""
    return weight.permute(0, 2, 3, 1).reshape(len(weight), -1)
