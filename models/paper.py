"""The paper's network: a PixelCNN++ of a single stream, built of locally masked convolutions.

As in the paper's section on its architecture, two passes of gated residual blocks are joined like a
U-net: each block of the second pass receives a feature map of the first. Dilated layers between the
stages take the place of resampling, which would preclude most orders. Features are normalised
across the channels at each position, because masks show each position a different number of
neighbours. There is no dropout.

A pixel's prediction depends on earlier pixels only: the first layer hides the centre, all the
others may see it, and nothing else mixes positions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lmzip.errors import InputError
from lmzip.models.likelihood import Mixture, couple_by_values, mixture_nll, to_unit
from lmzip.models.lmconv import LMConv, MaskSet
from lmzip.order.masks import Kernel

_STAGES = 3
_NORMALISATION_EPSILON = 1e-5


@dataclass(frozen=True)
class PaperConfig:
    """What defines a network; the defaults are the 46M parameters of the paper's tables.

    `blocks` counts the residual blocks of a stage. Data of one channel and two levels is predicted
    by a softmax, everything else by a mixture of logistics.
    """

    channels: int = 3
    levels: int = 256
    filters: int = 160
    blocks: int = 5
    logistics: int = 10
    kernel_size: int = 3
    dilation: int = 2
    mask_conditioning: bool = False

    def __post_init__(self) -> None:
        if self.channels not in (1, 3):
            raise InputError(f"the network takes 1 or 3 channels, not {self.channels}")
        if self.kernel_size < 1 or self.kernel_size % 2 == 0:
            raise InputError(f"the kernel size must be odd, not {self.kernel_size}")
        for name, least in {
            "levels": 2,
            "filters": 2,
            "blocks": 1,
            "logistics": 1,
            "dilation": 1,
        }.items():
            if getattr(self, name) < least:
                raise InputError(f"{name} must be at least {least}, not {getattr(self, name)}")

    @property
    def binary(self) -> bool:
        return self.channels == 1 and self.levels == 2

    @property
    def outputs(self) -> int:
        """Outputs per pixel: weights, then means, log-scales and (in colour) coefficients."""
        if self.binary:
            return 2
        return self.logistics * (10 if self.channels == 3 else 3)


# CelebA-HQ at 5 bits, the larger network (184M parameters) of the paper's samples.
FACES = PaperConfig(levels=32, filters=320)


class PaperNetwork(nn.Module):
    """Predicts all pixels of an image at once, each from those before it in the order."""

    def __init__(self, config: PaperConfig) -> None:
        super().__init__()
        self.config = config
        self.channels = config.channels
        self.levels = config.levels

        # An extra channel of ones tells a pixel of value zero from one outside the mask.
        self.first = _convolution(config, config.channels + 1, config.filters, first=True)
        self.up = nn.ModuleList(_stage(config, config.blocks, skip=False) for _ in range(_STAGES))
        self.up_dilated = nn.ModuleList(_dilated(config) for _ in range(_STAGES - 1))
        # A stage of the first pass leaves a map for each block and one for the layer before it.
        # The very last map starts the second pass, whose first stage is therefore a block shorter.
        self.down = nn.ModuleList(
            _stage(config, config.blocks + (stage > 0), skip=True) for stage in range(_STAGES)
        )
        self.down_dilated = nn.ModuleList(_dilated(config) for _ in range(_STAGES - 1))
        self.output = PointwiseLayer(config.filters, config.outputs)

    def forward(self, x: Tensor, masks: MaskSet) -> Tensor:
        """Map pixels in [-1, 1], (B, C, H, W), to raw outputs, (B, config.outputs, H, W)."""
        ones = x.new_ones(x.shape[0], 1, *x.shape[2:])
        h = normalise_channels(self.first(torch.cat((x, ones), 1), masks))
        features = [h]
        for stage, blocks in enumerate(self.up):
            if stage > 0:
                h = normalise_channels(self.up_dilated[stage - 1](h, masks))
                features.append(h)
            for block in _blocks(blocks):
                h = block(h, masks)
                features.append(h)

        features.pop()  # the second pass starts from the last map itself
        for stage, blocks in enumerate(self.down):
            if stage > 0:
                h = normalise_channels(self.down_dilated[stage - 1](h, masks))
            for block in _blocks(blocks):
                h = block(h, masks, features.pop())
        assert not features
        result: Tensor = self.output(F.elu(h))
        return result

    def nll(self, levels: Tensor, masks: MaskSet) -> Tensor:
        """Return the negative log likelihood of each pixel in nats: (B, C, H, W) -> (B, H, W)."""
        if self.config.binary:
            logits = self.predict_levels(levels, masks)
            return F.cross_entropy(logits, levels[:, 0].long(), reduction="none")
        mixture = self.predict(levels, masks)
        means = self.couple(levels, mixture)
        return mixture_nll(levels, mixture.logits, means, mixture.log_scales, self.levels)

    def predict_levels(self, levels: Tensor, masks: MaskSet) -> Tensor:
        """Return the logits of both levels of each pixel of binary data: (B, 2, H, W)."""
        assert self.config.binary
        outputs: Tensor = self(self._to_inputs(levels), masks)
        return outputs

    def predict(self, levels: Tensor, masks: MaskSet) -> Mixture:
        """Return the mixture of each pixel, before its channels are coupled."""
        outputs = self(self._to_inputs(levels), masks)
        # Splitting costs no copies in the backward pass; indexing would.
        logistics = self.config.logistics
        logits, rest = outputs.split((logistics, outputs.shape[1] - logistics), 1)
        parameters = rest.view(rest.shape[0], self.channels, -1, logistics, *rest.shape[2:])
        means, log_scales, *coefficients = parameters.unbind(2)  # each (B, C, K, H, W)
        return Mixture(logits, means, log_scales, coefficients[0] if coefficients else None)

    def couple(self, levels: Tensor, mixture: Mixture) -> Tensor:
        """Return each channel's means given the levels of those before it: (B, C, K, H, W)."""
        if mixture.coefficients is None:
            return mixture.means
        return couple_by_values(levels, mixture.means, mixture.coefficients, self.levels)

    def _to_inputs(self, levels: Tensor) -> Tensor:
        return to_unit(levels, self.levels, self.first.weight.dtype)


class GatedBlock(nn.Module):
    """A residual block with a gate and, in the second pass, a feature map of the first."""

    def __init__(self, config: PaperConfig, *, skip: bool) -> None:
        super().__init__()
        filters = config.filters
        self.enter = _convolution(config, 2 * filters, filters)
        self.skip = PointwiseLayer(2 * filters, filters) if skip else None
        self.leave = _convolution(config, 2 * filters, 2 * filters)

    def forward(self, x: Tensor, masks: MaskSet, feature: Tensor | None = None) -> Tensor:
        h = normalise_channels(self.enter(concat_elu(x), masks))
        if self.skip is not None:
            assert feature is not None
            h = h + self.skip(concat_elu(feature))
        value, gate = self.leave(concat_elu(h), masks).chunk(2, 1)
        return torch.addcmul(x, normalise_channels(value), gate.sigmoid())


class PointwiseLayer(nn.Module):
    """A 1x1 convolution with weight normalisation: each row is a direction times a gain."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.empty(out_channels, in_channels))
        self.gain = nn.Parameter(torch.empty(out_channels, 1))
        self.bias = nn.Parameter(torch.zeros(out_channels))
        nn.init.kaiming_uniform_(self.direction, a=math.sqrt(5))
        with torch.no_grad():
            self.gain.copy_(self.direction.norm(dim=1, keepdim=True))

    def forward(self, x: Tensor) -> Tensor:  # (B, C_in, H, W) -> (B, C_out, H, W)
        weight = self.direction * (self.gain / self.direction.norm(dim=1, keepdim=True))
        return F.conv2d(x, weight[:, :, None, None], self.bias)


def normalise_channels(x: Tensor) -> Tensor:
    """Shift and scale the channels of each position to mean 0 and variance 1 (PONO)."""
    variance, mean = torch.var_mean(x, 1, keepdim=True)
    return (x - mean) * (variance + _NORMALISATION_EPSILON).rsqrt()


def concat_elu(x: Tensor) -> Tensor:
    """Return ELU of x and of -x: twice the channels."""
    return F.elu(torch.cat((x, -x), 1), inplace=True)


def _convolution(
    config: PaperConfig, inputs: int, outputs: int, *, dilation: int = 1, first: bool = False
) -> LMConv:
    kernel = Kernel(config.kernel_size, config.kernel_size, dilation, first)
    layer = LMConv(inputs, outputs, kernel, mask_conditioning=config.mask_conditioning)
    # The first pixel of an order sees nothing. Without biases all of its features would be zero,
    # and each normalisation would multiply its gradient by the inverse of a tiny deviation.
    assert layer.bias is not None
    bound = 1 / math.sqrt(inputs * kernel.taps)  # as PyTorch draws the biases of convolutions
    nn.init.uniform_(layer.bias, -bound, bound)
    return layer


def _dilated(config: PaperConfig) -> LMConv:
    return _convolution(config, config.filters, config.filters, dilation=config.dilation)


def _stage(config: PaperConfig, blocks: int, *, skip: bool) -> nn.ModuleList:
    return nn.ModuleList(GatedBlock(config, skip=skip) for _ in range(blocks))


def _blocks(stage: nn.Module) -> nn.ModuleList:
    """Give a stage its type back, which nn.ModuleList forgets."""
    assert isinstance(stage, nn.ModuleList)
    return stage
