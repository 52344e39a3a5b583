"""Float weights as a generator, compact or of the paper's network; needs torch.

Networks of fewer levels than 256 see the high bits of 8-bit samples, and what they draw is spread
over the whole range; given pixels come back as they were.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch

from lmzip import InputError, Order, Progress
from lmzip.cli.generators import Pixels, Region
from lmzip.models.evaluate import measure_nats
from lmzip.models.generate import draw_images
from lmzip.models.lmconv import MaskSet
from lmzip.models.weights import load_network


class FloatGenerator:
    """Draws with a float network."""

    family = "s-curve"

    def __init__(self, path: Path) -> None:
        self._network = load_network(path).eval()
        self.name, self.channels = path.stem, self._network.channels

    def draw(
        self,
        pixels: Pixels,
        hidden: Region,
        count: int,
        order: Order,
        *,
        temperature: float,
        seed: int,
        progress: Progress | None,
    ) -> Pixels:
        """Return `count` images (N, H, W, C) whose hidden pixels are drawn."""
        levels = self._to_levels(pixels).expand(count, -1, -1, -1)
        drawn = draw_images(
            self._network, order, levels, hidden,
            temperature=temperature, seed=seed, progress=progress,
        )  # fmt: skip
        top = self._network.levels - 1
        spread = (drawn.permute(0, 2, 3, 1).long() * 255 // top).to(torch.uint8).numpy()
        return np.where(hidden[..., None], spread, pixels)

    def measure(self, pixels: Pixels, hidden: Region, order: Order) -> float:
        """Return the bits per dimension of the hidden pixels, given those before them."""
        masks = MaskSet(order.ranks(*hidden.shape))
        nats = measure_nats(self._network, self._to_levels(pixels), masks, hidden)
        return float(nats) / math.log(2) / (int(hidden.sum()) * pixels.shape[2])

    def _to_levels(self, pixels: Pixels) -> torch.Tensor:
        """Return pixels (H, W, C) as levels (1, C, H, W)."""
        if pixels.shape[2] != self.channels:
            raise InputError(
                f"{self.name} is for {self.channels} channels, not for {pixels.shape[2]}"
            )
        levels = torch.from_numpy(np.ascontiguousarray(pixels)).permute(2, 0, 1)[None].long()
        return levels * self._network.levels // 256
