from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from lmzip.errors import InputError
from lmzip.models.lmconv import LMConv, MaskSet
from lmzip.models.paper import FACES, PaperConfig, PaperNetwork, normalise_channels
from lmzip.order.masks import Kernel, make_mask
from lmzip.order.orders import FAMILIES, Order, Ranks, all_variants, parse_order

HEIGHT, WIDTH = 6, 5


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def random_network(config: PaperConfig, seed: int = 0) -> PaperNetwork:
    """A network in which every single weight is random, so that no path is closed by a zero."""
    network = PaperNetwork(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, 0.5, generator=generator)
    return network


def count_parameters(config: PaperConfig) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in PaperNetwork(config).parameters())


@pytest.mark.parametrize(
    ("config", "millions"),
    [
        (PaperConfig(), 46),
        (PaperConfig(levels=32), 46),
        (PaperConfig(channels=1), 46),
        (PaperConfig(channels=1, levels=2), 46),
        (FACES, 184),
    ],
)
def test_sizes_are_the_papers(config: PaperConfig, millions: int) -> None:
    assert count_parameters(config) == pytest.approx(millions * 1e6, rel=0.01)


@pytest.mark.parametrize("mask_conditioning", [False, True])
def test_gradients_of_a_fresh_network_are_of_order_one(mask_conditioning: bool) -> None:
    """The first pixel of an order sees nothing, and no normalisation may blow it up."""
    torch.manual_seed(0)
    config = PaperConfig(channels=1, levels=2, filters=8, mask_conditioning=mask_conditioning)
    network = PaperNetwork(config)
    levels = torch.randint(0, 2, (4, 1, 8, 8))
    network.nll(levels, MaskSet(parse_order("s-curve").ranks(8, 8))).mean().backward()
    gradients = [p.grad for p in network.parameters() if p.grad is not None]
    assert 0.01 < float(torch.nn.utils.get_total_norm(gradients)) < 100


def visible_pixels(ranks: Ranks, kernel: Kernel) -> npt.NDArray[np.bool_]:
    """Which pixels each pixel sees in one layer: bool (pixels, pixels)."""
    height, width = ranks.shape
    visible = np.zeros((height * width, height * width), bool)
    mask = make_mask(ranks, kernel)
    for tap, (down, right) in enumerate(kernel.offsets()):
        for row, column in np.argwhere(mask[tap]):
            visible[row * width + column, (row + down) * width + column + right] = True
    return visible


def reachable_pixels(ranks: Ranks, network: PaperNetwork) -> npt.NDArray[np.bool_]:
    """Which pixels can reach each prediction through all the layers together."""
    layers = [module for module in network.modules() if isinstance(module, LMConv)]
    assert layers[0] is network.first
    assert {layer.kernel.dilation for layer in layers} == {1, network.config.dilation}
    reach = visible_pixels(ranks, network.first.kernel)
    for _ in range(ranks.size):  # more layers than any path through this image is long
        for dilation in (1, network.config.dilation):
            reach = visible_pixels(ranks, Kernel(3, 3, dilation)) @ reach
    return reach


def moved_pixels(network: PaperNetwork, ranks: Ranks, dtype: torch.dtype) -> Tensor:
    """Change each pixel in turn: which predictions move by so much as a bit? (changed, pixels)"""
    pixels = ranks.size
    generator = torch.Generator().manual_seed(7)
    image = torch.rand(1, 3, pixels, generator=generator, dtype=dtype) * 2 - 1
    before = image.repeat(pixels, 1, 1)
    after = before.clone()
    everywhere = torch.arange(pixels)
    after[everywhere, :, everywhere] += 0.25
    shape = pixels, 3, *ranks.shape
    masks = MaskSet(ranks)
    with torch.no_grad():
        first, second = (network.to(dtype)(x.view(shape), masks) for x in (before, after))
    moved: Tensor = (first != second).any(1).flatten(1)
    return moved


@pytest.mark.parametrize("mask_conditioning", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_causality(family: str, mask_conditioning: bool) -> None:
    config = PaperConfig(
        filters=6, blocks=1, logistics=1, dilation=2, mask_conditioning=mask_conditioning
    )
    network = random_network(config)
    for order in all_variants(family):
        ranks = order.ranks(HEIGHT, WIDTH)
        flat = torch.from_numpy(ranks.ravel().copy())
        later = flat[None, :] > flat[:, None]  # (changed, pixels)
        moved = moved_pixels(network, ranks, torch.float32)
        assert not moved[~later].any(), f"{order}: a prediction at or before the change moved"
        direct = torch.from_numpy(visible_pixels(ranks, network.first.kernel)).T
        assert moved[direct].all(), f"{order}: a visible neighbour does not move the prediction"


@pytest.mark.parametrize("text", ["raster", "s-curve:transpose-flip", "hilbert:mirror"])
def test_all_that_masks_let_through_arrives(text: str) -> None:
    ranks = parse_order(text).ranks(HEIGHT, WIDTH)
    network = random_network(PaperConfig(filters=6, blocks=2, logistics=1, dilation=2))
    reach = torch.from_numpy(reachable_pixels(ranks, network)).T
    assert torch.equal(moved_pixels(network, ranks, torch.float64), reach)


def total_probability(network: PaperNetwork, order: Order, height: int, width: int) -> float:
    """Add up the probabilities of all images there are."""
    shape = network.channels, height, width
    samples = itertools.product(range(network.levels), repeat=network.channels * height * width)
    images = torch.tensor(list(samples)).view(-1, *shape)
    with torch.no_grad():
        nll = network.nll(images, MaskSet(order.ranks(height, width)))
    assert nll.shape == (len(images), height, width)
    return float(nll.double().sum((1, 2)).neg().exp().sum())


@pytest.mark.parametrize("text", ["raster", "s-curve:transpose", "hilbert:rotate"])
@pytest.mark.parametrize(
    ("channels", "levels", "height", "width"), [(1, 3, 2, 2), (1, 2, 3, 3), (3, 2, 1, 3)]
)
def test_likelihood_sums_to_one(
    text: str, channels: int, levels: int, height: int, width: int
) -> None:
    config = PaperConfig(channels=channels, levels=levels, filters=4, blocks=1, logistics=2)
    total = total_probability(random_network(config), parse_order(text), height, width)
    assert total == pytest.approx(1, abs=1e-4)


def test_custom_order_sums_to_one() -> None:
    network = random_network(PaperConfig(channels=1, levels=3, filters=4, blocks=1, logistics=2))
    assert total_probability(network, parse_order([2, 0, 3, 1]), 2, 2) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(
    ("channels", "levels", "outputs"), [(3, 256, 20), (3, 32, 20), (1, 256, 6), (1, 2, 2)]
)
def test_outputs(channels: int, levels: int, outputs: int) -> None:
    config = PaperConfig(channels=channels, levels=levels, filters=4, blocks=1, logistics=2)
    network = PaperNetwork(config)
    assert (network.channels, network.levels) == (channels, levels)
    x = torch.zeros(2, channels, HEIGHT, WIDTH)
    masks = MaskSet(parse_order("s-curve").ranks(HEIGHT, WIDTH))
    assert network(x, masks).shape == (2, outputs, HEIGHT, WIDTH)
    levels_dtype = torch.uint8 if levels > 128 else torch.int64
    assert network.nll(x.to(levels_dtype), masks).shape == (2, HEIGHT, WIDTH)


@pytest.mark.parametrize("levels", [2, 256])
def test_every_parameter_learns(levels: int) -> None:
    config = PaperConfig(channels=1, levels=levels, filters=4, blocks=1, mask_conditioning=True)
    network = PaperNetwork(config)
    images = torch.randint(levels, (2, 1, HEIGHT, WIDTH))
    masks = MaskSet(parse_order("hilbert").ranks(HEIGHT, WIDTH))
    names, parameters = zip(*network.named_parameters(), strict=True)
    gradients = torch.autograd.grad(network.nll(images, masks).sum(), parameters)
    for name, gradient in zip(names, gradients, strict=True):
        assert gradient.isfinite().all(), name
        assert gradient.abs().sum() > 0, name


def test_normalisation_is_across_channels() -> None:
    x = torch.randn(2, 8, 3, 4, generator=torch.Generator().manual_seed(0)) * 5 + 3
    y = normalise_channels(x)
    torch.testing.assert_close(y.mean(1), torch.zeros(2, 3, 4), atol=1e-5, rtol=0)
    torch.testing.assert_close(y.var(1), torch.ones(2, 3, 4), atol=1e-3, rtol=0)
    assert normalise_channels(torch.zeros(1, 8, 1, 1)).isfinite().all()


@pytest.mark.parametrize(
    ("field", "value"), [("channels", 4), ("levels", 1), ("filters", 1), ("kernel_size", 4)]
)
def test_impossible_configurations_are_refused(field: str, value: int) -> None:
    with pytest.raises(InputError, match=str(value)):
        PaperConfig(**{field: value})  # type: ignore[arg-type]
