"""Networks step by step: every pixel's features are computed once, when its turn comes.

A network runs at the pixels of one step as it runs on a whole image: its pointwise operations take
any shape, and the masked layers look around through `StepMasks`, which remembers what each of them
was given at earlier steps. So drawing an image costs one pass of the network, not one per pixel.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lmzip.models.compact import LinearPredictor
from lmzip.models.lmconv import LMConv, MaskSet
from lmzip.models.weights import Network
from lmzip.order.masks import Kernel
from lmzip.order.orders import Order
from lmzip.order.schedule import Schedule, Taps, compile_schedule


def visible_taps(kernel: Kernel) -> tuple[list[int], Taps]:
    """Return the taps of a kernel that some order lets it see, by number and as offsets."""
    numbers, offsets = [], []
    for number, (down, right) in enumerate(kernel.offsets()):
        beyond = kernel.slope is not None and right >= kernel.slope * -down > 0
        if not beyond and not (kernel.first and (down, right) == (0, 0)):
            numbers.append(number)
            offsets.append((down, right))
    return numbers, Taps(tuple(offsets))


def compile_steps(network: Network, order: Order, height: int, width: int) -> Schedule:
    """Return the schedule of an order on one shape, for all layers of a network."""
    kernels = [layer.kernel for layer in network.modules() if isinstance(layer, LMConv)]
    kernels += [m.neighbours for m in network.modules() if isinstance(m, LinearPredictor)]
    layers = dict.fromkeys(visible_taps(kernel)[1] for kernel in kernels)
    return compile_schedule(order, height, width, tuple(layers))


class StepMasks(MaskSet):
    """Lets layers look at what they were given at earlier steps.

    A column is one place of one image. At a step of n places, layers take and give (1, C, 1, n B):
    the columns of all images side by side, place by place, which makes 1x1 convolutions plain
    matrix products. The pixels themselves are not known yet when the first layers run, which do not
    look at them; `write` adds them afterwards.
    """

    at_once = False

    def __init__(self, order: Order, schedule: Schedule, images: int) -> None:
        super().__init__(order.ranks(schedule.height, schedule.width))
        self._schedule, self._images = schedule, images
        self._rows: dict[nn.Module, Tensor] = {}  # (places + 1, B, C); hidden taps see the last
        self._weights: dict[LMConv, tuple[Tensor, Tensor | None]] = {}
        self._views: dict[Kernel, tuple[list[int], Tensor, Tensor]] = {}
        self._firsts: list[Tensor] = []

    def begin(self, start: int, stop: int) -> None:
        """Move to the step of places start..stop of the sequence."""
        self._step = slice(start, stop)

    def write(self, x: Tensor) -> None:
        """Add the pixels (1, C, 1, n B) of the step to what the first layers see."""
        for rows in self._firsts:
            rows[self._step, :, : x.shape[1]] = self._by_place(x)

    def convolve(self, layer: LMConv, x: Tensor) -> Tensor:
        """Return a layer's sums without its bias: (1, C_in, 1, n B) -> (1, C_out, 1, n B)."""
        taps, places, visible = self._view(layer.kernel)
        if layer not in self._weights:
            self._weights[layer] = _lay_out(layer, taps)
        weight, mask_weight = self._weights[layer]
        seen = self._remember(layer, layer.kernel, x)[places[self._step]]  # (n, taps, B, C_in)
        y = seen.transpose(1, 2).flatten(2) @ weight  # (n, B, C_out)
        if mask_weight is not None:
            y = y + (visible[self._step] @ mask_weight)[:, None]
        return y.flatten(0, 1).t()[None, :, None]

    def look_around(self, layer: nn.Module, kernel: Kernel, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return what `MaskSet.look_around` returns, at the columns of the step."""
        taps, places, visible = self._view(kernel)
        seen = self._remember(layer, kernel, x)[places[self._step]]  # (n, taps, B, C)
        patches = x.new_zeros(1, x.shape[1], kernel.taps, x.shape[3])
        patches[0, :, taps] = seen.permute(3, 1, 0, 2).flatten(2)
        mask = x.new_zeros(kernel.taps, x.shape[3])
        mask[taps] = visible[self._step].t().repeat_interleave(self._images, 1)
        return patches, mask

    def _remember(self, layer: nn.Module, kernel: Kernel, x: Tensor) -> Tensor:
        """Add a layer's input at this step to its rows, and return all of them."""
        if layer not in self._rows:
            shape = self._schedule.pixels + 1, self._images, x.shape[1]
            self._rows[layer] = x.new_zeros(shape)
            if kernel.first:
                self._firsts.append(self._rows[layer])
        rows = self._rows[layer]
        rows[self._step] = self._by_place(x)
        return rows

    def _by_place(self, x: Tensor) -> Tensor:
        """Turn columns (1, C, 1, n B) into rows (n, B, C)."""
        return x[0, :, 0].t().reshape(-1, self._images, x.shape[1])

    def _view(self, kernel: Kernel) -> tuple[list[int], Tensor, Tensor]:
        """Return the taps that anyone can see, where they lie (places, taps), and their mask."""
        if kernel not in self._views:
            numbers, offsets = visible_taps(kernel)
            neighbours = self._schedule.neighbours[offsets]
            places = torch.from_numpy(neighbours.places).long()
            used = [numbers[tap] for tap in neighbours.used]
            self._views[kernel] = used, places, (places < self._schedule.pixels).float()
        return self._views[kernel]


def _lay_out(layer: LMConv, taps: list[int]) -> tuple[Tensor, Tensor | None]:
    """Return a layer's weights (taps C_in, C_out) and mask weights (taps, C_out)."""
    weight = layer.weight.flatten(2)[:, :, taps].permute(2, 1, 0).flatten(0, 1).contiguous()
    if layer.mask_weight is None:
        return weight, None
    return weight, layer.mask_weight.flatten(1)[:, taps].t().contiguous()
