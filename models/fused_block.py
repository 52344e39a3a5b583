"""A residual block in one piece, for orders in which every pixel sees the same taps.

    x + project clip(convolution of clip(x) + condition) + bias

On a CPU, oneDNN's convolutions come close to what the processor can do if a pixel's channels lie
side by side in memory (channels last), and then all else that a block does takes as long as a
tenth of its arithmetic, if it happens in place. So the gradient is written out here: autodiff
would keep more tensors and pass over each of them more often.

The products may be of a narrower type than everything else, bfloat16 on processors that have it:
what a block adds to its input, and what it adds to a gradient, is then rounded; the stream of
features from block to block, its gradient and the weights themselves are not.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lmzip.models.lmconv import Reach

# With one thread and few images, torch takes a slower way for kernels of 1x1, unless they are
# dilated, which changes nothing about a single tap.
_POINTWISE = 2


def prefer_fused(x: Tensor) -> bool:
    """Return whether the layers below are the fastest way for a tensor: a GPU has its own."""
    return x.device.type == "cpu"


def convolve_first(x: Tensor, kernel: Tensor, added: Tensor, reach: Reach) -> Tensor:
    """Return a convolution of pixels, and something added, as the blocks want it in memory.

    x (B, C, H, W), kernel (width, C, h, w), added (width, H, W).
    """
    padded = F.pad(x, (reach.before, reach.after, reach.above, reach.below))
    padded = padded.contiguous(memory_format=torch.channels_last)
    return F.conv2d(padded, kernel, dilation=reach.dilation) + _channels_last(added)


class FusedBlock(torch.autograd.Function):
    """The block above; clip is to 0 .. top.

    x (B, C, H, W), kernel (hidden, C, h, w), condition (hidden, H, W), project (C, hidden, 1, 1),
    bias (C,); `products` is the type of what is multiplied.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        kernel: Tensor,
        condition: Tensor,
        project: Tensor,
        bias: Tensor,
        reach: Reach,
        top: float,
        products: torch.dtype,
    ) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        kernel, condition = kernel.to(products), condition.to(products)
        project, bias = project.to(products), bias.to(products)
        factors = x.to(products)
        active = _pad_with_zeros(factors, reach)
        torch.clamp(factors, 0, top, out=_crop(active, factors, reach))
        hidden = F.conv2d(active, kernel, dilation=reach.dilation)
        hidden.add_(_channels_last(condition)).clamp_(0, top)
        ctx.save_for_backward(active, hidden, kernel, project)
        ctx.reach, ctx.top = reach, top
        return F.conv2d(hidden, project, bias, dilation=_POINTWISE).to(x.dtype).add_(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        active, hidden, kernel, project = ctx.saved_tensors
        reach, top = ctx.reach, ctx.top
        change = gradients[0].contiguous(memory_format=torch.channels_last)
        factors = change.to(hidden.dtype)
        inner, project_gradient = _convolve_back(factors, hidden, project, _POINTWISE)
        _keep_active(inner, hidden, top)
        outer, kernel_gradient = _convolve_back(inner, active, kernel, reach.dilation)
        outer = _crop(outer, change, reach)
        _keep_active(outer, _crop(active, change, reach), top)
        x_gradient = torch.add(change, outer, out=torch.empty_like(change))
        condition_gradient = _by_pixel(inner).sum(0, dtype=change.dtype).permute(2, 0, 1)
        bias_gradient = _by_pixel(change).sum((0, 1, 2))
        return (
            x_gradient,
            kernel_gradient.to(change.dtype),
            condition_gradient,
            project_gradient.to(change.dtype),
            bias_gradient,
            None,
            None,
            None,
        )


class FusedOutputs(torch.autograd.Function):
    """project clip(x) + bias, planar: what follows works on whole planes of outputs.

    x (B, C, H, W), project (outputs, C, 1, 1), bias (outputs,).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, project: Tensor, bias: Tensor, top: float) -> Tensor:
        active = x.contiguous(memory_format=torch.channels_last).clamp(0, top)
        ctx.save_for_backward(active, project)
        ctx.top = top
        return F.conv2d(active, project, bias, dilation=_POINTWISE).contiguous()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        active, project = ctx.saved_tensors
        change = gradients[0].contiguous(memory_format=torch.channels_last)
        x_gradient, project_gradient = _convolve_back(change, active, project, _POINTWISE)
        _keep_active(x_gradient, active, ctx.top)
        return x_gradient, project_gradient, _by_pixel(change).sum((0, 1, 2)), None


def _by_pixel(images: Tensor) -> Tensor:
    """View images (B, C, H, W) as they lie in memory: (B, H, W, C)."""
    return images.permute(0, 2, 3, 1)


def _channels_last(image: Tensor) -> Tensor:
    """Return one image (C, H, W) with the channels of a pixel side by side in memory."""
    return image.permute(1, 2, 0).contiguous().permute(2, 0, 1)


def _pad_with_zeros(images: Tensor, reach: Reach) -> Tensor:
    """Return zeros in the shape of images and of what a kernel sees around them."""
    batch, channels, height, width = images.shape
    height, width = height + reach.above + reach.below, width + reach.before + reach.after
    return images.new_zeros(batch, height, width, channels).permute(0, 3, 1, 2)


def _crop(padded: Tensor, like: Tensor, reach: Reach) -> Tensor:
    """Return the part of padded images that is not padding."""
    height, width = like.shape[2:]
    return padded.narrow(2, reach.above, height).narrow(3, reach.before, width)


def _convolve_back(
    change: Tensor, inputs: Tensor, kernel: Tensor, dilation: int
) -> tuple[Tensor, Tensor]:
    """Return the gradients of a convolution's inputs and kernel."""
    wanted = [True, True, False]
    geometry = [1, 1], [0, 0], [dilation, dilation], False, [0, 0], 1
    return torch.ops.aten.convolution_backward(change, inputs, kernel, None, *geometry, wanted)[:2]


def _keep_active(gradient: Tensor, activation: Tensor, top: float) -> None:
    """Set a gradient to zero where an activation was clipped, in place."""
    torch.ops.aten.hardtanh_backward.grad_input(gradient, activation, 0, top, grad_input=gradient)
