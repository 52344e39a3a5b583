"""The compact network sees the earlier pixels it may, no others; its likelihood adds up to one."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from lmzip.models.compact import (
    COEFFICIENT_SCALE,
    COEFFICIENT_START,
    CONFIGS,
    Block,
    CompactConfig,
    CompactNetwork,
    LinearPredictor,
    couple_by_residuals,
    initial_predictions,
)
from lmzip.models.lmconv import FORMS, LMConv, MaskSet
from lmzip.order.masks import Kernel, make_mask, overlap
from lmzip.order.orders import (
    FAMILIES,
    Order,
    Ranks,
    all_variants,
    observed_first,
    parse_order,
    transform_grid,
)

ORDERS = [order for family in FAMILIES for order in all_variants(family)]
HEIGHT, WIDTH = 7, 8
SMALL = CompactConfig(width=8, first=5, blocks=(Block(6), Block(6, dilation=2)), mixtures=2)


def random_network(
    config: CompactConfig, form: str = "grouped", scale: float = 1.0
) -> CompactNetwork:
    """Return a network in which every weight is random, the mask weights and predictor included."""
    network = CompactNetwork(config)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in network.parameters():
            fan_in = max(1, parameter[0].numel()) if parameter.dim() > 1 else 1
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(scale * noise / fan_in**0.5)
            assert parameter.all()
    for module in network.modules():
        if isinstance(module, LMConv):
            module.form = form
    return network


def change_each_pixel() -> tuple[Tensor, Tensor]:
    """Return an image once for each pixel, and again with that pixel changed: (H W, 3, H, W)."""
    generator = torch.Generator().manual_seed(4)
    pixels = HEIGHT * WIDTH
    before = torch.randint(256, (1, 3, HEIGHT, WIDTH), generator=generator).repeat(pixels, 1, 1, 1)
    after = before.clone()
    each = torch.arange(pixels)
    after[each, :, each // WIDTH, each % WIDTH] ^= 0x80
    return before, after


def predict(network: CompactNetwork, levels: Tensor, masks: MaskSet) -> Tensor:
    """Return all that is predicted of each pixel: (B, H W, outputs)."""
    x = levels.float() / 127.5 - 1
    with torch.no_grad():
        outputs = network(x, masks).flatten(1, 2)
        return torch.cat((outputs, network.predictor(x, masks)), 1).flatten(2).mT


def reachable(ranks: Ranks, config: CompactConfig) -> npt.NDArray[np.bool_]:
    """Return which pixel's value can reach which pixel's prediction: bool (H W to, H W from)."""

    def sees(kernel: Kernel) -> npt.NDArray[np.bool_]:
        height, width = ranks.shape
        flat = np.arange(height * width).reshape(height, width)
        seen = np.zeros((height * width, height * width), bool)
        for visible, (down, right) in zip(make_mask(ranks, kernel), kernel.offsets(), strict=True):
            here = overlap(down, height), overlap(right, width)
            there = overlap(-down, height), overlap(-right, width)
            seen[flat[here], flat[there]] |= visible[here]
        return seen

    reach = sees(Kernel(config.first, config.first, first=True))
    for block in config.blocks:
        reach = sees(Kernel(block.size, block.size, block.dilation)).astype(int) @ reach > 0
    return reach | sees(LinearPredictor.neighbours)


def assert_causal(ranks: Ranks, form: str) -> None:
    network, masks = random_network(SMALL, form), MaskSet(ranks)
    before, after = change_each_pixel()
    moved = (predict(network, before, masks) != predict(network, after, masks)).any(2)
    # moved[k, p]: the prediction of pixel p moves with the value of pixel k
    not_later = ranks.ravel()[None] <= ranks.ravel()[:, None]
    assert not moved[torch.from_numpy(not_later)].any(), "a prediction saw its own or a later pixel"
    assert np.array_equal(moved.numpy().T, reachable(ranks, SMALL)), "a visible pixel had no effect"

    with torch.no_grad():
        nats_moved = (network.nll(before, masks) != network.nll(after, masks)).flatten(1)
    earlier = ranks.ravel()[None] < ranks.ravel()[:, None]
    assert not nats_moved[torch.from_numpy(earlier)].any()


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_predictions_move_with_visible_earlier_pixels_only(order: Order) -> None:
    assert_causal(order.ranks(HEIGHT, WIDTH), "grouped")


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_causal_under_custom_orders_and_hidden_regions(form: str) -> None:
    random = np.random.default_rng(5)
    custom = parse_order(random.permutation(HEIGHT * WIDTH)).ranks(HEIGHT, WIDTH)
    assert_causal(custom, form)
    hidden = np.zeros((HEIGHT, WIDTH), bool)
    hidden[2:5, 3:6] = True
    assert_causal(observed_first(parse_order("s-curve").ranks(HEIGHT, WIDTH), hidden), form)


def all_images(channels: int, height: int, width: int, levels: int) -> Tensor:
    """Return every image there is: (levels ** (C H W), C, H, W)."""
    values = itertools.product(range(levels), repeat=channels * height * width)
    return torch.tensor(list(values)).view(-1, channels, height, width)


@pytest.mark.parametrize("order", ["raster", "s-curve:transpose-flip", "hilbert:rotate"])
@pytest.mark.parametrize(
    ("channels", "height", "width", "levels"), [(1, 2, 3, 3), (1, 2, 2, 4), (3, 1, 2, 3)]
)
def test_the_likelihood_of_all_images_sums_to_one(
    order: str, channels: int, height: int, width: int, levels: int
) -> None:
    config = CompactConfig(8, 3, (Block(6), Block(6, dilation=2)), 2, channels, levels)
    network = random_network(config, scale=0.7)
    masks = MaskSet(parse_order(order).ranks(height, width))
    with torch.no_grad():
        nats = network.nll(all_images(channels, height, width, levels), masks)
    likelihood = nats.double().sum((1, 2)).neg().exp()
    assert likelihood.max() < 0.9, "the test would be idle if one image had all of the probability"
    assert likelihood.sum().item() == pytest.approx(1, abs=1e-5)


def test_the_likelihood_of_all_grey_images_sums_to_one() -> None:
    network = random_network(CompactConfig(8, 3, (Block(6),), 2, levels=4), scale=0.7)
    masks = MaskSet(parse_order("raster").ranks(2, 2))
    greys = all_images(1, 2, 2, 4)
    with torch.no_grad():
        likelihood = network.nll(greys, masks).double().sum((1, 2)).neg().exp()
        in_colour = network.nll(greys.expand(-1, 3, -1, -1), masks).double().sum((1, 2)).neg().exp()
    assert likelihood.sum().item() == pytest.approx(1, abs=1e-5)
    # Greys are some of the images in colour, each with less than what its first channel has.
    assert (in_colour < likelihood).all()


@pytest.mark.parametrize("channels", [1, 3])
def test_an_untrained_network_gives_finite_nats(channels: int) -> None:
    network = CompactNetwork(CompactConfig(8, 5, (Block(8),), 3, channels))
    masks = MaskSet(parse_order("s-curve").ranks(6, 5))
    levels = torch.randint(256, (2, channels, 6, 5), dtype=torch.uint8)
    nats = network.nll(levels, masks)
    assert nats.shape == (2, 6, 5)
    assert nats.isfinite().all()


def test_named_configurations_grow_from_thirty_thousand_to_a_million() -> None:
    costs = [config.multiply_adds for config in CONFIGS.values()]
    assert costs == sorted(costs)
    assert 30_000 < costs[0] < 40_000
    assert 900_000 < costs[-1] < 1_100_000


@pytest.mark.parametrize("name", CONFIGS)
def test_multiply_adds_count_the_taps_of_a_raster_pixel(name: str) -> None:
    config = CONFIGS[name]
    ranks = parse_order("raster").ranks(21, 21)

    def taps(kernel: Kernel) -> int:
        return int(make_mask(ranks, kernel)[:, 10, 10].sum())

    total = taps(Kernel(config.first, config.first, first=True)) * config.channels * config.width
    for block in config.blocks:
        convolution = taps(Kernel(block.size, block.size, block.dilation)) * config.width
        total += (convolution + config.width) * block.hidden
    assert config.multiply_adds == total + config.width * config.outputs


def test_the_linear_prediction_starts_from_west_north_and_north_west() -> None:
    x = torch.randn(2, 3, 5, 6)
    with torch.no_grad():
        predicted = LinearPredictor(3)(x, MaskSet(parse_order("raster").ranks(5, 6)))
    expected = 0.75 * x[:, :, 1:, :-1] + 0.75 * x[:, :, :-1, 1:] - 0.5 * x[:, :, :-1, :-1]
    torch.testing.assert_close(predicted[:, :, 1:, 1:], expected)
    torch.testing.assert_close(predicted[:, :, 0, 1:], x[:, :, 0, :-1])  # only W
    assert not predicted[:, :, 0, 0].any()  # nothing to see


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_the_linear_prediction_starts_reflected_as_the_order_is(order: Order) -> None:
    predictor = LinearPredictor(1)
    x = torch.randn(1, 1, 5, 6)
    reflected = torch.from_numpy(transform_grid(x.numpy(), order.variant).copy())
    with torch.no_grad():
        plain = predictor(x, MaskSet(Order(order.family).ranks(5, 6)))
        actual = predictor(reflected, MaskSet(order.ranks(*reflected.shape[2:])))
    expected = torch.from_numpy(transform_grid(plain.numpy(), order.variant).copy())
    torch.testing.assert_close(actual, expected)


def test_initial_predictions_use_visible_neighbours_and_keep_a_flat_image() -> None:
    kernels = initial_predictions()
    numbers = torch.arange(256)
    visible = (numbers[:, None] >> torch.arange(8) & 1).bool()
    assert not kernels[~visible].any()
    torch.testing.assert_close(kernels.sum(1), (numbers > 0).float())


def test_hidden_neighbours_have_no_gradient() -> None:
    """Else training would teach the predictor to peek."""
    predictor = LinearPredictor(1)
    masks = MaskSet(parse_order("raster").ranks(4, 4))
    predictor(torch.randn(3, 1, 4, 4), masks).square().sum().backward()
    assert predictor.weight.grad is not None
    visible = (torch.arange(256)[:, None] >> torch.arange(8) & 1).bool()
    assert not predictor.weight.grad[:, 0, 0][~visible].any()


def test_channels_are_coupled_by_their_residuals() -> None:
    generator = torch.Generator().manual_seed(6)
    x = torch.randn(2, 3, 4, 5, generator=generator)
    means, raw = torch.randn(2, 2, 3, 6, 4, 5, generator=generator)
    a, b, c = (COEFFICIENT_START[i] + COEFFICIENT_SCALE * raw[:, i] for i in range(3))
    red, green = (x[:, i, None] - means[:, i] for i in range(2))
    coupled = couple_by_residuals(x, means, raw)
    torch.testing.assert_close(coupled[:, 0], means[:, 0])
    torch.testing.assert_close(coupled[:, 1], means[:, 1] + a * red)
    torch.testing.assert_close(coupled[:, 2], means[:, 2] + b * red + c * green)
