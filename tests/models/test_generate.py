"""Drawing from float networks: stepwise as at once, as often as enumerated, given pixels kept."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from support.chi_squared import chi_squared
from support.networks import custom_order
from torch import Tensor

from lmzip.errors import InputError
from lmzip.models.compact import Block, CompactConfig
from lmzip.models.generate import draw_images, draw_pixels
from lmzip.models.likelihood import to_unit
from lmzip.models.lmconv import MaskSet
from lmzip.models.paper import PaperConfig
from lmzip.models.stepwise import StepMasks, compile_steps
from lmzip.models.weights import Config, Network, make_network
from lmzip.order.orders import Order, parse_order

BLOCKS = (Block(6), Block(6, dilation=2))
CONFIGS: dict[str, Config] = {
    "compact": CompactConfig(8, 5, BLOCKS, 2, 3),
    "compact-grey": CompactConfig(8, 5, BLOCKS, 2, 1, 5),
    "compact-sloped": CompactConfig(8, 7, BLOCKS, 2, 3, slope=2),
    "paper": PaperConfig(filters=6, blocks=1, logistics=2),
    "paper-conditioned": PaperConfig(levels=5, filters=6, blocks=1, mask_conditioning=True),
    "paper-binary": PaperConfig(channels=1, levels=2, filters=6, blocks=1),
}
ORDERS = [parse_order("raster"), parse_order("s-curve:flip"), custom_order(5, 6)]
SAMPLES = 5_000


def random_network(config: Config) -> Network:
    network = make_network(config)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in network.parameters():
            fan_in = parameter[0].numel() if parameter.dim() > 1 else 1
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / fan_in**0.5)
    return network.eval()


@pytest.mark.parametrize(
    ("name", "order"),
    [
        (name, order)
        for name in CONFIGS
        for order in ORDERS
        if name != "compact-sloped" or order.family == "raster"  # which slopes are for
    ],
    ids=str,
)
def test_steps_give_the_nats_of_the_whole_image(name: str, order: Order) -> None:
    network = random_network(CONFIGS[name])
    levels = torch.randint(0, network.levels, (2, network.channels, 5, 6))
    with torch.no_grad():
        at_once = network.nll(levels, MaskSet(order.ranks(5, 6))).flatten(1)
        schedule = compile_steps(network, order, 5, 6)
        masks = StepMasks(order, schedule, 2)
        sequence = torch.from_numpy(schedule.sequence).long()
        for start, stop in itertools.pairwise(schedule.starts.tolist()):
            masks.begin(start, stop)
            pixels = sequence[start:stop]
            step = levels.flatten(2)[:, :, pixels].permute(1, 2, 0).flatten(1)[None, :, None]
            nats = network.nll(step, masks)[0, 0].view(-1, 2).t()
            torch.testing.assert_close(nats, at_once[:, pixels], rtol=1e-4, atol=1e-4)
            masks.write(to_unit(step, network.levels))


def all_images(levels: int, height: int, width: int) -> Tensor:
    outcomes = itertools.product(range(levels), repeat=height * width)
    return torch.tensor(list(outcomes)).view(-1, 1, height, width)


@pytest.mark.parametrize("order", ["raster", "s-curve:rotate", "hilbert"])
@pytest.mark.parametrize("config", [
    PaperConfig(channels=1, levels=2, filters=6, blocks=1),
    PaperConfig(channels=1, levels=3, filters=6, blocks=1, logistics=2),
    CompactConfig(8, 5, BLOCKS, 2, 1, 3),
], ids=["softmax", "paper", "compact"])  # fmt: skip
def test_samples_are_as_frequent_as_enumerated(config: Config, order: str) -> None:
    network, outcomes = random_network(config), all_images(config.levels, 2, 2)
    with torch.no_grad():
        nats = network.nll(outcomes, MaskSet(parse_order(order).ranks(2, 2))).sum((1, 2))
    expected = SAMPLES * nats.double().neg().exp()
    assert float(expected.sum()) == pytest.approx(SAMPLES, rel=1e-4)
    given, everything = torch.zeros(SAMPLES, 1, 2, 2), np.ones((2, 2), bool)
    images = draw_images(network, parse_order(order), given, everything, seed=3)
    digits = images.flatten(1).long()
    numbers = (digits * config.levels ** torch.arange(3, -1, -1)).sum(1)
    counts = torch.bincount(numbers, minlength=len(outcomes))
    assert abs(chi_squared(counts.numpy(), expected.numpy())) < 4


def test_channels_follow_their_joint_distribution() -> None:
    """Three channels of three levels at one pixel: all 27 colours as often as the network says."""
    for config in (
        PaperConfig(levels=3, filters=6, blocks=1),
        CompactConfig(8, 5, BLOCKS, 2, 3, 3),
    ):
        network = random_network(config)
        outcomes = torch.tensor(list(itertools.product(range(3), repeat=3)))[:, :, None, None]
        with torch.no_grad():
            nats = network.nll(outcomes, MaskSet(parse_order("raster").ranks(1, 1)))[:, 0, 0]
        expected = SAMPLES * nats.double().neg().exp()
        given = torch.zeros(SAMPLES, 3, 1, 1)
        images = draw_images(network, parse_order("raster"), given, np.ones((1, 1), bool))
        numbers = (images[:, :, 0, 0].long() * torch.tensor([9, 3, 1])).sum(1)
        counts = torch.bincount(numbers, minlength=27)
        assert abs(chi_squared(counts.numpy(), expected.numpy())) < 4


@pytest.mark.parametrize("name", ["compact", "paper"])
def test_given_pixels_stay_and_images_depend_on_their_number(name: str) -> None:
    network = random_network(CONFIGS[name])
    given = torch.randint(0, 256, (3, 3, 5, 6))
    hidden = np.zeros((5, 6), bool)
    hidden[1:4, 2:5] = True
    images = draw_images(network, ORDERS[2], given, hidden, seed=2)
    assert torch.equal(images[:, :, ~hidden], given[:, :, ~hidden].to(torch.uint8))
    assert not torch.equal(images, given.to(torch.uint8))
    assert torch.equal(draw_images(network, ORDERS[2], given[:1], hidden, seed=2), images[:1])


def test_a_cold_network_draws_the_likeliest_level() -> None:
    network = random_network(CONFIGS["paper-binary"])
    masks, levels = MaskSet(parse_order("raster").ranks(3, 3)), torch.zeros(1, 1, 3, 3).long()
    with torch.no_grad():
        likeliest = network.predict_levels(levels, masks).argmax(1, keepdim=True)  # type: ignore[operator]
        for chance in (0.01, 0.99):
            drawn = draw_pixels(network, levels, masks, torch.full((1, 2, 3, 3), chance), 1e-6)
            assert torch.equal(drawn, likeliest)


def test_what_cannot_be_drawn_is_refused() -> None:
    network, hidden = random_network(CONFIGS["paper-binary"]), np.ones((2, 2), bool)
    with pytest.raises(InputError, match="have 3 channels, the network 1"):
        draw_images(network, parse_order("raster"), torch.zeros(1, 3, 2, 2), hidden)
    with pytest.raises(InputError, match="temperature must be positive"):
        draw_images(network, parse_order("raster"), torch.zeros(1, 1, 2, 2), hidden, temperature=-1)
