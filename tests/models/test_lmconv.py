"""The three forms of LMConv compute the same sums and gradients, and those of the paper."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lmzip.models.lmconv import FORMS, LMConv, LocalMask, MaskSet
from lmzip.order.masks import Kernel, make_mask
from lmzip.order.orders import FAMILIES, Order, all_variants, observed_first, parse_order

KERNELS = [
    Kernel(3, 3),
    Kernel(3, 3, first=True),
    Kernel(3, 3, 2),
    Kernel(5, 5, 3, first=True),
    Kernel(3, 5, 2),
    Kernel(7, 7, first=True),
    Kernel(1, 1),
]
SHAPES = [(1, 1), (1, 6), (5, 1), (2, 2), (5, 7), (8, 6), (7, 8)]
ORDERS = [order for family in FAMILIES for order in all_variants(family)]


def random_layer(
    kernel: Kernel, form: str = "listing", channels: tuple[int, int] = (3, 4)
) -> LMConv:
    """Return a layer in double with no weight at zero, the same for every form."""
    layer = LMConv(*channels, kernel, mask_conditioning=True, form=form).double()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return layer


def random_image(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(8)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def run(form: str, kernel: Kernel, masks: MaskSet, x: Tensor) -> tuple[Tensor, ...]:
    """Return a layer's output and its gradients for the image and all weights."""
    layer, x = random_layer(kernel, form), x.clone().requires_grad_()
    y = layer(x, masks)
    gradients = torch.autograd.grad(y.square().sum(), (x, *layer.parameters()))
    return y.detach(), *gradients


def assert_forms_agree(masks: MaskSet, kernel: Kernel) -> None:
    x = random_image(2, 3, *masks.ranks.shape)
    expected = run("listing", kernel, masks, x)
    for form in ("efficient", "grouped"):
        for result, reference in zip(run(form, kernel, masks, x), expected, strict=True):
            torch.testing.assert_close(result, reference, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_forms_agree_for_every_order_kernel_and_shape(order: Order) -> None:
    for shape in SHAPES:
        masks = MaskSet(order.ranks(*shape))
        for kernel in KERNELS:
            assert_forms_agree(masks, kernel)


@pytest.mark.parametrize("seed", range(4))
def test_forms_agree_for_custom_orders_and_hidden_regions(seed: int) -> None:
    random = np.random.default_rng(seed)
    custom = parse_order(random.permutation(30)).ranks(5, 6)
    hidden = random.random((5, 6)) < 0.5
    for ranks in (custom, observed_first(parse_order("s-curve").ranks(5, 6), hidden)):
        for kernel in KERNELS:
            assert_forms_agree(MaskSet(ranks), kernel)


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_raster_has_one_pattern_and_s_curve_two(order: Order) -> None:
    for kernel in KERNELS[:-1]:
        groups = LocalMask(order.ranks(9, 8), kernel).groups
        expected = {"raster": 1, "s-curve": 2, "hilbert": None}[order.family]
        assert (groups and len(groups)) == expected


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "order", ["raster", "raster:rotate", "s-curve", "s-curve:transpose", "hilbert"]
)
@pytest.mark.parametrize("kernel", [Kernel(3, 3, first=True), Kernel(3, 3, 2)], ids=str)
def test_gradients_agree_with_differences(form: str, order: str, kernel: Kernel) -> None:
    layer = random_layer(kernel, form, (2, 2))
    masks = MaskSet(parse_order(order).ranks(3, 4))
    names = [name for name, _ in layer.named_parameters()]
    assert names == ["weight", "mask_weight", "bias"]

    def apply(x: Tensor, *parameters: Tensor) -> Tensor:
        named = dict(zip(names, parameters, strict=True))
        result: Tensor = torch.func.functional_call(layer, named, (x, masks))
        return result

    x = random_image(2, 2, 3, 4).requires_grad_()
    assert torch.autograd.gradcheck(apply, (x, *layer.parameters()))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("order", ["raster:flip", "s-curve", "hilbert"])
def test_gradients_of_frozen_inputs_are_left_out(form: str, order: str) -> None:
    kernel, masks = Kernel(3, 3), MaskSet(parse_order(order).ranks(4, 5))
    layer = random_layer(kernel, form)
    layer(random_image(1, 3, 4, 5), masks).sum().backward()
    assert layer.weight.grad is not None

    frozen = random_layer(kernel, form).requires_grad_(False)
    x = random_image(1, 3, 4, 5).requires_grad_()
    frozen(x, masks).sum().backward()
    assert frozen.weight.grad is None
    assert x.grad is not None


def transcribe_algorithm_3(layer: LMConv, x: Tensor, masks: MaskSet) -> Tensor:
    """LMConv with mask conditioning as one sum per pixel, from the formula on."""
    batch, _, height, width = x.shape
    kernel = layer.kernel
    mask = make_mask(masks.ranks, kernel)
    assert layer.mask_weight is not None
    assert layer.bias is not None
    y = torch.zeros(batch, layer.weight.shape[0], height, width, dtype=x.dtype)
    for row, column in np.ndindex(height, width):
        total = layer.bias.expand(batch, -1).clone()
        for tap, (down, right) in enumerate(kernel.offsets()):
            if mask[tap, row, column]:
                i, j = divmod(tap, kernel.width)
                if 0 <= row + down < height and 0 <= column + right < width:
                    total += x[:, :, row + down, column + right] @ layer.weight[:, :, i, j].t()
                total += layer.mask_weight[:, i, j]
        y[:, :, row, column] = total
    return y


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_every_form_equals_algorithm_3(form: str, order: Order) -> None:
    x, masks = random_image(2, 3, 4, 5), MaskSet(order.ranks(4, 5))
    for kernel in (Kernel(3, 3, first=True), Kernel(3, 5, 2)):
        layer = random_layer(kernel, form)
        with torch.no_grad():
            torch.testing.assert_close(
                layer(x, masks), transcribe_algorithm_3(layer, x, masks), rtol=1e-10, atol=1e-10
            )


def test_without_conditioning_and_bias_only_the_weights_remain() -> None:
    layer = LMConv(3, 4, Kernel(3, 3), bias=False)
    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    masks = MaskSet(parse_order("raster").ranks(3, 3))
    assert not layer(torch.zeros(1, 3, 3, 3), masks).any()


def test_conditioning_starts_without_effect() -> None:
    layer = LMConv(3, 4, Kernel(3, 3), mask_conditioning=True)
    masks = MaskSet(parse_order("hilbert").ranks(4, 4))
    assert not layer.condition_on_mask(masks[layer.kernel]).any()


def test_every_tap_visible_is_an_ordinary_convolution() -> None:
    """The last pixel of an order sees all of its surroundings."""
    last = np.array([[0, 1, 2], [3, 8, 4], [5, 6, 7]], np.int32)
    layer, x = random_layer(Kernel(3, 3)), random_image(2, 3, 3, 3)
    assert layer.mask_weight is not None
    ordinary = nn.functional.conv2d(x, layer.weight, layer.bias)[:, :, 0, 0]
    expected = ordinary + layer.mask_weight.sum((1, 2))
    for form in FORMS:
        layer.form = form
        torch.testing.assert_close(layer(x, MaskSet(last))[:, :, 1, 1], expected)


def test_masks_serve_layers_of_several_dtypes() -> None:
    masks, kernel = MaskSet(parse_order("hilbert").ranks(4, 4)), Kernel(3, 3)
    for form in FORMS:
        layer, x = random_layer(kernel, form), random_image(1, 3, 4, 4)
        precise = layer(x, masks)
        rough = layer.float()(x.float(), masks)
        assert (precise.dtype, rough.dtype) == (torch.float64, torch.float32)
        torch.testing.assert_close(rough.double(), precise, rtol=1e-4, atol=1e-4)


def test_masks_are_made_once() -> None:
    masks = MaskSet(parse_order("raster").ranks(4, 4))
    assert masks[Kernel(3, 3)] is masks[Kernel(3, 3)]
    assert masks[Kernel(3, 3)] is not masks[Kernel(3, 3, first=True)]


def test_efficient_keeps_no_patches_for_the_backward_pass() -> None:
    """What autodiff saves is k1 k2 times the image; the efficient form saves the image itself."""
    masks, kernel = MaskSet(parse_order("hilbert").ranks(8, 8)), Kernel(3, 3)
    kept = {}
    for form in ("listing", "efficient"):
        layer, x = LMConv(16, 16, kernel, bias=False, form=form), torch.randn(4, 16, 8, 8)
        x.requires_grad_()
        saved: list[int] = []

        def note(tensor: Tensor, saved: list[int] = saved) -> Tensor:
            saved.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            layer(x, masks)
        kept[form] = sum(saved)
    image, weight = 4 * 16 * 8 * 8, 16 * 16 * 9
    assert kept["efficient"] == image + weight
    assert kept["listing"] > 9 * image
