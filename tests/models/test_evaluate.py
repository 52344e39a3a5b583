"""Evaluation: arithmetic of the scores, averages that are distributions, and hidden regions."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from lmzip.errors import InputError, OrderError
from lmzip.models.compact import Block, CompactConfig, CompactNetwork
from lmzip.models.evaluate import (
    Evaluation,
    ImageSet,
    LikelihoodModel,
    average_orders,
    evaluate,
    evaluate_completion,
    format_table,
    measure_nats,
    to_json,
)
from lmzip.models.lmconv import MaskSet
from lmzip.order.context import RegionMask, adversarial_order, make_regions, maximum_context
from lmzip.order.orders import Order, Ranks, all_variants, observed_first, parse_order


class Uniform:
    """Every level is as likely as any other."""

    def __init__(self, channels: int, levels: int) -> None:
        self.channels, self.levels = channels, levels

    def nll(self, levels: Tensor, masks: MaskSet) -> Tensor:
        return torch.full_like(levels[:, 0], 1).float() * self.channels * math.log(self.levels)


class Ramp(Uniform):
    """The nats of a pixel are its level, plus its place in the order by a hundred."""

    def nll(self, levels: Tensor, masks: MaskSet) -> Tensor:
        return levels[:, 0] + torch.from_numpy(masks.ranks / 100)


def random_network(channels: int, levels: int) -> CompactNetwork:
    network = CompactNetwork(CompactConfig(8, 5, (Block(6), Block(6)), 2, channels, levels))
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in network.parameters():
            fan_in = parameter[0].numel() if parameter.dim() > 1 else 1
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / fan_in**0.5)
    return network


def random_images(*shape: int, levels: int = 256) -> Tensor:
    return torch.randint(levels, shape, generator=torch.Generator().manual_seed(12))


def whole(images: Tensor) -> RegionMask:
    return np.ones(tuple(images.shape[2:]), bool)


def nats_of(
    network: LikelihoodModel, images: Tensor, ranks: Ranks, region: RegionMask | None = None
) -> Tensor:
    region = whole(images) if region is None else region
    return measure_nats(network, images, MaskSet(ranks), region)


def test_a_uniform_network_needs_all_bits() -> None:
    images = random_images(5, 3, 4, 6).to(torch.uint8)
    evaluation = evaluate(Uniform(3, 256), images, ["raster", "hilbert"])
    assert evaluation.images == ImageSet(5, 3, 4, 6, 256)
    (region,) = evaluation.regions
    assert (region.name, region.pixels) == ("image", 24)
    assert [score.name for score in region.scores] == ["raster", "hilbert"]
    for score in region.scores:
        assert score.bpd == pytest.approx(8)
        assert score.nats == pytest.approx(4 * 6 * 3 * math.log(256))
        assert score.bpd_error == pytest.approx(0, abs=1e-6)


def test_scores_are_means_with_standard_errors() -> None:
    images = random_images(7, 1, 2, 3, levels=9)
    (region,) = evaluate(Ramp(1, 9), images, ["raster"], batch_size=3).regions
    per_image = images.numpy().sum((1, 2, 3)) + 0.15
    error = np.std(per_image, ddof=1) / math.sqrt(7)
    (score,) = region.scores
    assert score.nats == pytest.approx(per_image.mean())
    assert score.nats_error == pytest.approx(error)
    assert score.bpd == pytest.approx(per_image.mean() / math.log(2) / 6)
    assert score.bpd_error == pytest.approx(error / math.log(2) / 6)


def test_one_image_has_no_standard_error() -> None:
    (region,) = evaluate(Ramp(1, 9), random_images(1, 1, 2, 2, levels=9), ["raster"]).regions
    assert region.scores[0].nats_error is None
    assert region.scores[0].bpd_error is None


def test_batches_make_no_difference() -> None:
    network, images = random_network(3, 256), random_images(7, 3, 5, 4)
    orders = ["s-curve:*", "raster"]
    one, all_at_once = (evaluate(network, images, orders, batch_size=size) for size in (1, 100))
    for a, b in zip(one.regions[0].scores, all_at_once.regions[0].scores, strict=True):
        assert (a.name, a.orders) == (b.name, b.orders)
        assert a.bpd == pytest.approx(b.bpd, abs=1e-5)


def test_arrays_of_any_integer_type_are_read() -> None:
    network, images = random_network(1, 256), random_images(2, 1, 4, 4).numpy()
    results = {
        evaluate(network, images.astype(kind), ["raster"])
        for kind in (np.uint8, np.uint16, np.int32, np.int64)
    }
    assert len(results) == 1


def test_each_family_is_averaged_over_its_orders() -> None:
    network, images = random_network(3, 256), random_images(4, 3, 4, 5)
    orders: list[Order | str] = ["s-curve:*", "hilbert", parse_order("raster"), "raster:flip"]
    (region,) = evaluate(network, images, orders).regions
    names = [score.name for score in region.scores]
    assert names[:2] == ["s-curve", "s-curve:mirror"]
    assert names[8:] == [
        "s-curve (8 orders)", "hilbert", "raster", "raster:flip", "raster (2 orders)"
    ]  # fmt: skip
    assert [score.orders for score in region.scores] == [1] * 8 + [8, 1, 1, 1, 2]

    singles = [nats_of(network, images, o.ranks(4, 5)) for o in all_variants("s-curve")]
    for score, nats in zip(region.scores, singles, strict=False):
        assert score.nats == pytest.approx(float(nats.mean()))
    probabilities = torch.stack(singles).sub(singles[0]).neg().exp().mean(0)
    assert region.scores[8].nats == pytest.approx(float((singles[0] - probabilities.log()).mean()))


def test_an_average_lies_between_the_best_order_and_all_of_them() -> None:
    network, images = random_network(3, 256), random_images(6, 3, 4, 5)
    singles = [nats_of(network, images, o.ranks(4, 5)) for o in all_variants("s-curve")]
    stacked, average = torch.stack(singles), average_orders(singles)
    assert (average > stacked.min(0).values).all()
    assert (average < stacked.mean(0)).all()
    assert (average < stacked.min(0).values + math.log(8)).all()


def test_impossible_differences_between_orders_do_not_overflow() -> None:
    near, far = torch.tensor([5e3, 2e5]).double(), torch.tensor([9e3, 1e5]).double()
    average = average_orders([near, far])
    torch.testing.assert_close(average, torch.minimum(near, far) + math.log(2))


def all_images(height: int, width: int, levels: int) -> Tensor:
    values = itertools.product(range(levels), repeat=height * width)
    return torch.tensor(list(values)).view(-1, 1, height, width)


def test_the_average_over_orders_sums_to_one() -> None:
    network, images = random_network(1, 3), all_images(2, 3, 3)
    nats = [nats_of(network, images, o.ranks(2, 3)) for o in all_variants("s-curve")]
    assert average_orders(nats).neg().exp().sum().item() == pytest.approx(1, abs=1e-5)


REGIONS = {
    "top": [[1, 1, 1], [0, 0, 0]],
    "right": [[0, 0, 1], [0, 0, 1]],
    "corners": [[1, 0, 1], [0, 1, 0]],
}


@pytest.mark.parametrize("name", REGIONS)
def test_conditionals_of_a_hidden_region_are_those_of_the_joint(name: str) -> None:
    """p(hidden | observed) = p(image) / p(observed), by adding up all images."""
    hidden = np.array(REGIONS[name], bool)
    network, images = random_network(1, 3), all_images(2, 3, 3)
    observed = images[:, 0, ~hidden]
    same = (observed[:, None] == observed[None]).all(2).double()  # which images agree there
    conditionals = []
    for ranks in maximum_context(hidden, 2):
        joint = nats_of(network, images, ranks).neg().exp()
        conditional = nats_of(network, images, ranks, hidden)
        torch.testing.assert_close(
            conditional.neg().exp(), joint / (same @ joint), rtol=1e-4, atol=1e-6
        )
        conditionals.append(conditional)
    average = average_orders(conditionals).neg().exp()
    torch.testing.assert_close(same @ average, torch.ones(len(images)).double(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("region", ["top", "left", "bottom", "right", "square"])
def test_hidden_pixels_may_be_zero_until_their_turn(region: str) -> None:
    """The paper sets the hidden region to zero; filled in one by one, it gives the same nats."""
    network, image = random_network(3, 256), random_images(1, 3, 5, 6)
    hidden = np.zeros((5, 6), bool)
    hidden[1:4, 2:5] = True
    hidden = make_regions(5, 6, [region])[region] if region != "square" else hidden
    (ranks,) = maximum_context(hidden, 1)
    masks = MaskSet(ranks)
    with torch.no_grad():
        at_once = network.nll(image, masks)[0]
        filled = image.clone()
        filled[0, :, torch.from_numpy(hidden)] = 0
        seen = torch.from_numpy(~hidden)
        assert torch.equal(network.nll(filled, masks)[0][seen], at_once[seen])
        total = 0.0
        for pixel in np.argsort(ranks, axis=None)[-int(hidden.sum()) :]:
            row, column = divmod(int(pixel), 6)
            assert hidden[row, column]
            filled[..., row, column] = image[..., row, column]
            nats = network.nll(filled, masks)[0, row, column]
            assert nats == at_once[row, column]
            total += float(nats)
    assert float(nats_of(network, image, ranks, hidden)) == pytest.approx(total)


def test_hidden_pixels_see_the_surroundings_unless_the_order_is_adversarial() -> None:
    network, image = random_network(1, 256), random_images(1, 1, 6, 6)
    hidden = make_regions(6, 6, ["top"])["top"]
    other = image.clone()
    other[:, :, 3:] ^= 0x80
    for ranks, sees in ((adversarial_order(hidden), False), (maximum_context(hidden, 1)[0], True)):
        before, after = (nats_of(network, x, ranks, hidden) for x in (image, other))
        assert torch.equal(before, after) != sees


def test_completion_scores_the_hidden_pixels_alone() -> None:
    network, images = random_network(3, 256), random_images(4, 3, 6, 4)
    regions = make_regions(6, 4, ["top", "left"])
    completion = evaluate_completion(network, images, regions, orders=["raster"], batch_size=3)
    assert [region.name for region in completion.regions] == ["top", "left"]
    for region in completion.regions:
        hidden = regions[region.name]
        assert region.pixels == 12
        best = [nats_of(network, images, r, hidden) for r in maximum_context(hidden, 2)]
        expected = {
            "raster": nats_of(network, images, parse_order("raster").ranks(6, 4), hidden),
            "adversarial order": nats_of(network, images, adversarial_order(hidden), hidden),
            "1 max context order": best[0],
            "2 max context orders": average_orders(best),
        }
        assert [score.name for score in region.scores] == list(expected)
        assert [score.orders for score in region.scores] == [1, 1, 1, 2]
        for score in region.scores:
            assert score.nats == pytest.approx(float(expected[score.name].mean()))
            assert score.bpd == pytest.approx(score.nats / math.log(2) / 36)


def test_the_hidden_region_is_all_that_counts() -> None:
    """Nats that stand still outside of the region leave the scores as they are."""
    images = random_images(3, 1, 4, 4, levels=9)
    hidden = make_regions(4, 4, ["bottom"])
    other = images.clone()
    other[:, :, :2] = 0
    assert evaluate_completion(Ramp(1, 9), images, hidden).regions == (
        evaluate_completion(Ramp(1, 9), other, hidden).regions
    )


def test_progress_counts_images_and_orders() -> None:
    calls: list[tuple[int, int]] = []
    images = random_images(5, 1, 4, 4)
    evaluate(
        Uniform(1, 256),
        images,
        ["raster:*"],
        batch_size=2,
        progress=lambda done, total: calls.append((done, total)),
    )
    assert len(calls) == 8 * 3
    assert calls[:3] == [(2, 40), (4, 40), (5, 40)]
    assert calls[-1] == (40, 40)
    calls.clear()
    regions = make_regions(4, 4)
    evaluate_completion(Uniform(1, 256), images, regions, progress=lambda *call: calls.append(call))
    assert calls[-1] == (5 * 3 * 3, 5 * 3 * 3)


def test_evaluation_leaves_no_gradients() -> None:
    network, images = random_network(1, 256), random_images(2, 1, 4, 4)
    assert not nats_of(network, images, parse_order("raster").ranks(4, 4)).requires_grad
    masks = MaskSet(parse_order("hilbert").ranks(4, 4))
    measure_nats(network, images, masks, whole(images))
    torch.autograd.backward(
        network.nll(images, masks).sum()
    )  # the same masks serve training afterwards


def both_kinds(network: LikelihoodModel, images: Tensor) -> list[Evaluation]:
    height, width = images.shape[2:]
    regions = make_regions(height, width, ["top", "left", "bottom", "right"])
    regions["a region with a rather long name"] = regions["top"]
    return [
        evaluate(network, images, ["s-curve:*", "raster:transpose-rotate"]),
        evaluate_completion(network, images, regions, orders=["raster:transpose-rotate"]),
    ]


def test_tables_fit_a_terminal_and_show_every_score() -> None:
    for evaluation in both_kinds(random_network(3, 256), random_images(3, 3, 6, 6)):
        table = format_table(evaluation)
        assert max(map(len, table.splitlines())) <= 80
        assert "3 images, 6x6, 3 channels, 256 levels\n" in table
        assert "bpd (standard error)" in table
        for region in evaluation.regions:
            assert region.name[:17] in table
            for score in region.scores:
                assert score.name in table
                assert f"{score.bpd:.4f} ({score.bpd_error:.4f})" in table


def test_binary_images_are_reported_in_nats_and_bpd() -> None:
    images = random_images(3, 1, 4, 4, levels=2)
    for evaluation in both_kinds(Uniform(1, 2), images):
        table = format_table(evaluation)
        assert table.index("nats (standard error)") < table.index("bpd (standard error)")
        pixels = evaluation.regions[0].pixels
        assert f"{pixels * math.log(2):.2f} (0.00)" in table
        assert "1.0000 (0.0000)" in table


def test_a_single_image_shows_no_error() -> None:
    table = format_table(evaluate(Uniform(1, 256), random_images(1, 1, 4, 4), ["raster"]))
    assert table.splitlines()[-1].endswith("8.0000")


def test_json_holds_the_same_scores() -> None:
    for evaluation in both_kinds(random_network(1, 256), random_images(2, 1, 4, 4)):
        read = json.loads(json.dumps(to_json(evaluation), allow_nan=False))
        assert read["images"]["count"] == 2
        for region, expected in zip(read["regions"], evaluation.regions, strict=True):
            assert region["name"] == expected.name
            assert [s["bpd"] for s in region["scores"]] == [s.bpd for s in expected.scores]


@pytest.mark.parametrize(
    ("images", "named"),
    [
        (torch.zeros(2, 4, 4, dtype=torch.uint8), r"\(2, 4, 4\)"),
        (torch.zeros(0, 3, 4, 4, dtype=torch.uint8), r"\(0, 3, 4, 4\)"),
        (torch.zeros(2, 3, 4, 4), "float32"),
        (torch.zeros(2, 1, 4, 4, dtype=torch.uint8), "1 channels, the network 3"),
        (torch.full((2, 3, 4, 4), 32), "level 32 .* 0..31"),
        (torch.full((2, 3, 4, 4), -1), "level -1 "),
    ],
)
def test_images_that_do_not_fit_are_refused(images: Tensor, named: str) -> None:
    with pytest.raises(InputError, match=named):
        evaluate(Uniform(3, 32), images, ["raster"])
    with pytest.raises(InputError, match=named):
        evaluate_completion(Uniform(3, 32), images, make_regions(4, 4))


def test_regions_and_orders_that_do_not_fit_are_refused() -> None:
    network, images = Uniform(1, 256), random_images(2, 1, 4, 4)
    with pytest.raises(OrderError, match="'spiral'"):
        evaluate(network, images, ["spiral"])
    with pytest.raises(OrderError, match="'spiral'"):
        evaluate_completion(network, images, make_regions(4, 4), family="spiral")
    with pytest.raises(InputError, match=r"'top' is bool \(5, 4\), not bool \(4, 4\)"):
        evaluate_completion(network, images, make_regions(5, 4))
    with pytest.raises(InputError, match="'none' hides no pixel"):
        evaluate_completion(network, images, {"none": np.zeros((4, 4), bool)})
    with pytest.raises(InputError, match="'middle'"):
        make_regions(4, 4, ["middle"])


def test_observed_pixels_never_see_the_hidden_region() -> None:
    network, image = random_network(3, 256), random_images(1, 3, 6, 6)
    hidden = np.zeros((6, 6), bool)
    hidden[2:4, 1:5] = True
    other = image.clone()
    other[:, :, 2:4, 1:5] ^= 0x80
    ranks = observed_first(parse_order("hilbert").ranks(6, 6), hidden)
    before, after = (nats_of(network, x, ranks, ~hidden) for x in (image, other))
    assert torch.equal(before, after)
