"""The compact network: the LMConv model that the codec ships (ReLU, additions, LMConv, 1x1).

    pixels -> wide first LMConv -> residual blocks (ReLU, LMConv 3x3, ReLU, 1x1) -> mixture
    pixels -> linear predictor ----------------------------------------------------^

Everything here survives the move to integers (`lmzip.models.quantise`): matrix products,
additions, ReLU, and tables for the rest. Three things make a small network good:

- It predicts residuals. The mean of each logistic is a linear prediction from the neighbours,
  with one small kernel for each set of visible neighbours, plus a correction by the network.
- The channels are coupled by residuals: m_G = mu_G + a (x_R - mu_R), and so on.
- Mask conditioning (Algorithm 3) tells each layer what it could see; there is no normalisation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lmzip.models.fused_block import FusedBlock, FusedOutputs, convolve_first, prefer_fused
from lmzip.models.likelihood import Mixture, mixture_nll, to_unit
from lmzip.models.lmconv import LMConv, MaskSet, Reach
from lmzip.order.masks import Kernel

# The raw outputs are of order one; these factors bring them to the scale of what they correct.
MEAN_SCALE = 1 / 8
COEFFICIENT_SCALE = 1 / 4
COEFFICIENT_START = (0.83, 0.0, 0.83)  # R to G, R to B, G to B: measured on natural images
LOG_SCALE_START = (-4.5, -1.5)  # the first and the last logistic, in units of half the range


@dataclass(frozen=True)
class Block:
    """A residual block: LMConv of size x size to `hidden` channels, then 1x1 back."""

    hidden: int
    size: int = 3
    dilation: int = 1


@dataclass(frozen=True)
class CompactConfig:
    """The size of a compact network, and the images it is for.

    A slope below `first // 2 + 1` is for networks of plain raster order (`Kernel`): 2
    makes them decode in W + 2 H steps, where a first layer seven wide needs W + 4 H.
    """

    width: int = 64
    first: int = 7
    blocks: tuple[Block, ...] = ()
    mixtures: int = 10
    channels: int = 3
    levels: int = 256
    slope: int = 8

    @property
    def couplings(self) -> int:
        """How many channels look at how many earlier ones of the same pixel: 3 for RGB."""
        return self.channels * (self.channels - 1) // 2

    @property
    def outputs(self) -> int:
        """Outputs per pixel: for each logistic a weight, means, log-scales and couplings."""
        return self.mixtures * (1 + 2 * self.channels + self.couplings)

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds per pixel in raster order, where half of each kernel is visible."""
        total = self.channels * (self.first**2 // 2) * self.width + self.width * self.outputs
        for block in self.blocks:
            total += self.width * block.hidden * (block.size**2 // 2 + 2)
        return total


def residual_blocks(count: int, hidden: int) -> tuple[Block, ...]:
    """Return `count` 3x3 blocks; every third one is dilated to widen the view."""
    return tuple(Block(hidden, 3, 2 if i % 3 == 2 else 1) for i in range(count))


CONFIGS = {
    "tiny": CompactConfig(24, 7, residual_blocks(8, 24), 5),
    "small": CompactConfig(32, 7, residual_blocks(7, 32), 5),
    "base": CompactConfig(64, 7, residual_blocks(8, 64), 10),
    "large": CompactConfig(112, 7, residual_blocks(8, 112), 10),
    "huge": CompactConfig(128, 7, residual_blocks(10, 128), 10),
}


class CompactNetwork(nn.Module):
    """Predicts every pixel's mixture from the pixels before it, in any order."""

    def __init__(self, config: CompactConfig) -> None:
        super().__init__()
        self.config = config
        self.channels, self.levels = config.channels, config.levels
        self.sharpness = 1.0  # of the logistics: deep samples may need narrower ones
        self.predictor = LinearPredictor(config.channels)
        first = Kernel(config.first, config.first, first=True, slope=config.slope)
        self.first = LMConv(config.channels, config.width, first, mask_conditioning=True)
        blocks = [ResidualBlock(config.width, block) for block in config.blocks]
        self.blocks: Iterable[ResidualBlock] = nn.ModuleList(blocks)  # type: ignore[assignment]
        self.out = nn.Conv2d(config.width, config.outputs, 1)
        self.top = math.inf
        _initialise_outputs(self.out, config)

    def forward(self, x: Tensor, masks: MaskSet) -> Tensor:
        """Return the raw outputs (B, 1 + 2C + couplings, K, H, W) for pixels in [-1, 1]."""
        features = self._compute_features(x, masks)
        for block in self.blocks:
            features = block(features, masks)
        outputs = self._compute_outputs(features)
        return outputs.reshape(len(x), -1, self.config.mixtures, *x.shape[2:])

    def _compute_features(self, x: Tensor, masks: MaskSet) -> Tensor:
        """Return what the first layer makes of pixels, (B, width, H, W)."""
        convolution = find_convolution(self.first, x, masks)
        return self.first(x, masks) if convolution is None else convolve_first(x, *convolution)

    def _compute_outputs(self, features: Tensor) -> Tensor:
        """Return the outputs (B, outputs, H, W)."""
        if not prefer_fused(features):
            return self.out(features.clamp(0, self.top))
        outputs: Tensor = FusedOutputs.apply(  # type: ignore[no-untyped-call]
            features, self.out.weight, self.out.bias, self.top
        )
        return outputs

    def set_top(self, top: float) -> None:
        """Clip all activations at a top, as integer networks do."""
        self.top = top
        for block in self.blocks:
            block.top = top

    def set_products(self, products: torch.dtype) -> None:
        """Multiply in another type inside fused blocks, to train faster."""
        for block in self.blocks:
            block.products = products

    def nll(self, levels: Tensor, masks: MaskSet) -> Tensor:
        """Return the nats of each pixel, (B, H, W), for integer levels (B, C, H, W).

        Grey images (C = 1) pass through a network of three channels as the codec passes them: all
        three inputs see the grey, and the distribution of the first channel codes it.
        """
        mixture = self.predict(levels, masks)
        coded = levels.shape[1]
        means, log_scales = self.couple(levels, mixture), mixture.log_scales[:, :coded]
        cells = self.levels, self.sharpness
        return mixture_nll(levels, mixture.logits, means, log_scales, *cells)

    def predict(self, levels: Tensor, masks: MaskSet) -> Mixture:
        """Return the mixture of each pixel, before its channels are coupled."""
        x = self._to_inputs(levels)
        outputs = self(x, masks)
        c, couplings = self.channels, self.config.couplings
        logits, means, log_scales, coefficients = outputs.split([1, c, c, couplings], 1)
        means = self.predictor(x, masks)[:, :, None] + MEAN_SCALE * means
        return Mixture(logits[:, 0], means, log_scales, coefficients)

    def couple(self, levels: Tensor, mixture: Mixture) -> Tensor:
        """Return each channel's means given the levels of those before it: (B, C, K, H, W)."""
        assert mixture.coefficients is not None
        x = self._to_inputs(levels)
        coupled = couple_by_residuals(x, mixture.means, mixture.coefficients)
        return coupled[:, : levels.shape[1]]

    def _to_inputs(self, levels: Tensor) -> Tensor:
        return to_unit(levels, self.levels).expand(-1, self.channels, -1, -1)


class ResidualBlock(nn.Module):
    """x + W relu(LMConv(relu(x))), starting as the identity.

    The integer network clips activations at the `top` too (`lmzip.models.dequantise`).
    """

    def __init__(self, width: int, block: Block) -> None:
        super().__init__()
        self.top = math.inf
        self.products: torch.dtype | None = None  # that of the input
        kernel = Kernel(block.size, block.size, block.dilation)
        self.conv = LMConv(width, block.hidden, kernel, mask_conditioning=True)
        self.project = nn.Conv2d(block.hidden, width, 1)
        # Half of the taps are visible under an order, and ReLU hides half of what they see.
        visible = width * (block.size**2 // 2 + 1)
        nn.init.normal_(self.conv.weight, std=math.sqrt(2 / visible))
        nn.init.zeros_(self.project.weight)
        nn.init.zeros_(self.project.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor, masks: MaskSet) -> Tensor:
        convolution = find_convolution(self.conv, x, masks)
        if convolution is None:
            hidden = self.conv(x.clamp(0, self.top), masks).clamp(0, self.top)
            return x + self.project(hidden)
        kernel, added, reach = convolution
        project, products = self.project, self.products or x.dtype
        result: Tensor = FusedBlock.apply(  # type: ignore[no-untyped-call]
            x, kernel, added, project.weight, project.bias, reach, self.top, products
        )
        return result


def find_convolution(
    layer: LMConv, x: Tensor, masks: MaskSet
) -> tuple[Tensor, Tensor, Reach] | None:
    """Return the plain convolution that a layer is, if all pixels see the same taps and that is
    the fastest way."""
    if not masks.at_once or layer.form != "grouped" or not prefer_fused(x):
        return None
    mask = masks[layer.kernel]
    return None if mask.common_group is None else layer.as_convolution(mask, mask.common_group)


class LinearPredictor(nn.Module):
    """A linear prediction from the eight neighbours, with a kernel for each set of visible ones.

    The set's number has bit t set if neighbour t (row by row, without the centre) is visible.
    """

    neighbours = Kernel(3, 3, first=True)
    around = (0, 1, 2, 3, 5, 6, 7, 8)  # the taps of a 3x3 kernel without its centre

    def __init__(self, channels: int) -> None:
        super().__init__()
        start = torch.zeros(256, channels, channels, 8)
        own = torch.arange(channels)
        start[:, own, own] = initial_predictions()[:, None]
        self.weight = nn.Parameter(start)

    def forward(self, x: Tensor, masks: MaskSet) -> Tensor:  # (B, C, H, W) -> (B, C, H, W)
        patches, visible = masks.look_around(self, self.neighbours, x)  # (B, C, 9, P), (9, P)
        seen = visible[list(self.around)].t()  # (P, 8)
        kernels = self.weight[visible_sets(seen)] * seen[:, None, None]
        pixels = patches[:, :, list(self.around)].flatten(1, 2)  # (B, C_in 8, P)
        pixels = pixels.permute(2, 1, 0).contiguous()
        return torch.bmm(kernels.flatten(2), pixels).permute(2, 1, 0).view(x.shape)


def visible_sets(seen: Tensor) -> Tensor:
    """Return the number of each pixel's set of visible neighbours: (P, 8) -> int64 (P,)."""
    return (seen.long() << torch.arange(8, device=seen.device)).sum(1)


def initial_predictions() -> Tensor:
    """Return the starting kernel of each set of visible neighbours, float (256, 8).

    Each corner whose three pixels are visible predicts 0.75 a + 0.75 b - 0.5 diagonal, as W, N and
    NW do in raster order; several corners are averaged. Without a corner, the mean of the visible
    sides; without a side, the mean of the visible diagonals.
    """
    corners = [(1, 3, 0), (1, 4, 2), (6, 3, 5), (6, 4, 7)]  # two sides and their diagonal
    sides, diagonals = (1, 3, 4, 6), (0, 2, 5, 7)
    kernels = torch.zeros(256, 8)
    for number in range(256):
        seen = {neighbour for neighbour in range(8) if number >> neighbour & 1}
        usable = [corner for corner in corners if seen.issuperset(corner)]
        for corner in usable:
            kernels[number, list(corner)] += torch.tensor([0.75, 0.75, -0.5]) / len(usable)
        if not usable:
            nearest = sorted(seen & set(sides)) or sorted(seen & set(diagonals))
            kernels[number, nearest] = 1 / max(1, len(nearest))
    return kernels


def couple_by_residuals(x: Tensor, means: Tensor, coefficients: Tensor) -> Tensor:
    """Shift each channel's mean by the residuals of the pixel's earlier channels.

    x is (B, C, H, W), means (B, C, K, H, W), coefficients (B, couplings, K, H, W) raw.
    """
    residuals = x[:, :, None] - means
    coupled, index = [means[:, 0]], 0
    for channel in range(1, means.shape[1]):
        mean = means[:, channel]
        for earlier in range(channel):
            coefficient = COEFFICIENT_START[index] + COEFFICIENT_SCALE * coefficients[:, index]
            mean = mean + coefficient * residuals[:, earlier]
            index += 1
        coupled.append(mean)
    return torch.stack(coupled, 1)


def _initialise_outputs(out: nn.Conv2d, config: CompactConfig) -> None:
    """Start with logistics of many widths around the linear prediction."""
    assert out.bias is not None
    nn.init.normal_(out.weight, std=0.05 * math.sqrt(2 / config.width))
    nn.init.zeros_(out.bias)
    with torch.no_grad():
        widths = out.bias.view(-1, config.mixtures)[1 + config.channels : 1 + 2 * config.channels]
        widths[:] = torch.linspace(*LOG_SCALE_START, config.mixtures)
