"""Batches are a pure function of seed, step and rank, and hold what the recipe asks for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from lmzip.models.batches import Batches, ImageSource, MaskCache, draw_rectangle
from lmzip.models.data_files import DataError
from lmzip.models.data_tensors import to_luma
from lmzip.models.recipe import DataRecipe, PhaseRecipe
from lmzip.order.orders import all_variants, observed_first, parse_order


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder `few` of 5 images, and one `many` of 12, each image of one grey of its own."""
    for name, count in {"few": 5, "many": 12}.items():
        (tmp_path / name).mkdir()
        for number in range(count):
            pixels = np.full((8, 10, 3), 16 * number, np.uint8)
            Image.fromarray(pixels).save(tmp_path / name / f"{number:02d}.png")
    return tmp_path


def greys(levels: torch.Tensor) -> list[int]:
    return (levels[:, 0, 0, 0] // 16).tolist()


def test_a_step_is_a_pure_function_of_its_number(root: Path) -> None:
    many = DataRecipe("folder", "many", crop=6, batch=4, flip=True, noise=5.0, weight=3)
    few = DataRecipe("folder", "few", crop=4, batch=2)
    orders = all_variants("raster")

    def draw_all(steps: list[int], seed: int) -> dict[int, tuple[torch.Tensor, object]]:
        batches = Batches([ImageSource(many, [root]), ImageSource(few, [root])], orders, seed=seed)
        return {step: batches.draw(step) for step in steps}

    steps = [0, 1, 2, 3, 4095, 4096, 10_000]
    forwards, backwards = draw_all(steps, 7), draw_all(steps[::-1], 7)
    others = draw_all(steps, 8)
    for step in steps:
        assert torch.equal(forwards[step][0], backwards[step][0])
        assert forwards[step][1] == backwards[step][1]
    assert any(
        forwards[step][0].shape != others[step][0].shape
        or not torch.equal(forwards[step][0], others[step][0])
        for step in steps
    )


def test_every_image_comes_once_in_an_epoch(root: Path) -> None:
    sources = [
        ImageSource(DataRecipe("folder", "many", crop=8, batch=5), [root]),
        ImageSource(DataRecipe("folder", "few", crop=4, batch=3), [root]),
    ]
    batches = Batches(sources, [parse_order("raster")])
    seen: dict[int, list[int]] = {8: [], 4: []}
    for step in range(4090, 4200):  # across the border of a block of sources
        levels, _ = batches.draw(step)
        seen[levels.shape[2]] += greys(levels)
    for numbers, count in ((seen[8], 12), (seen[4], 5)):
        assert len(numbers) > 4 * count
        starts = [i for i in range(count) if sorted(numbers[i : i + count]) == list(range(count))]
        assert starts, "no epoch begins here"
        for begin in range(starts[0], len(numbers) - count, count):
            assert sorted(numbers[begin : begin + count]) == list(range(count))


def test_ranks_share_out_what_one_process_would_see(root: Path) -> None:
    recipe = DataRecipe("folder", "many", crop=8, batch=6)
    orders = all_variants("s-curve")
    alone = Batches([ImageSource(recipe, [root])], orders)
    source = ImageSource(replace(recipe, batch=2), [root])
    ranks = [Batches([source], orders, rank=rank, world=3) for rank in range(3)]
    for step in range(5):
        levels, order = alone.draw(step)
        drawn = [batches.draw(step) for batches in ranks]
        assert [number for part, _ in drawn for number in greys(part)] == greys(levels)
        assert {part_order for _, part_order in drawn} == {order}
        assert {batches.batch_size(step) for batches in ranks} == {6}


def test_sources_come_as_often_as_they_weigh(root: Path) -> None:
    recipes = [
        DataRecipe("folder", "few", crop=4, weight=weight, batch=batch)
        for weight, batch in ((1.0, 1), (0.0, 2), (3.0, 3))
    ]
    batches = Batches([ImageSource(recipe, [root]) for recipe in recipes], [parse_order("raster")])
    sizes = np.array([batches.batch_size(step) for step in range(4000)])
    assert not (sizes == 2).any()
    assert 0.72 < (sizes == 3).mean() < 0.78


def test_all_orders_are_drawn(root: Path) -> None:
    source = ImageSource(DataRecipe("folder", "few", crop=4, batch=1), [root])
    orders = all_variants("raster") + all_variants("s-curve")
    batches = Batches([source], orders)
    assert {batches.draw(step)[1] for step in range(150)} == set(orders)


def test_a_share_of_the_batches_visits_a_rectangle_last(root: Path) -> None:
    source = ImageSource(DataRecipe("folder", "few", crop=8, batch=1), [root])
    plain = Batches([source], all_variants("raster"))
    batches = Batches([source], all_variants("raster"), completion=0.5)
    moved = 0
    for step in range(60):
        (levels, order), (_, before) = batches.draw(step), plain.draw(step)
        assert batches.draw(step)[1] == order
        if order == before:
            continue
        moved += 1
        ranks, ranks_before = order.ranks(*levels.shape[2:]), before.ranks(*levels.shape[2:])
        later = ranks > ranks_before
        assert np.array_equal(observed_first(ranks_before, ranks >= ranks[later].min()), ranks)
    assert 20 <= moved <= 40


def test_rectangles_have_a_quarter_to_three_of_each_side() -> None:
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(400):
        region = draw_rectangle(8, 16, rng)
        rows, columns = np.flatnonzero(region.any(1)), np.flatnonzero(region.any(0))
        assert region.sum() == len(rows) * len(columns)
        assert np.ptp(rows) == len(rows) - 1
        assert np.ptp(columns) == len(columns) - 1
        seen |= {("rows", len(rows)), ("columns", len(columns))}
    expected = {("rows", n) for n in range(2, 7)} | {("columns", n) for n in range(4, 13)}
    assert seen == expected
    assert draw_rectangle(1, 1, rng).all()


def test_masks_are_kept_for_the_latest_orders_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmzip.models.batches._MASKS_KEPT", 2)
    cache, orders = MaskCache(), all_variants("raster")
    first = cache.get(orders[0], 4, 4)
    assert cache.get(orders[0], 4, 4) is first
    for order in orders[1:3]:
        cache.get(order, 4, 4)
    assert cache.get(orders[0], 4, 4) is not first


def test_phases_come_first_at_their_resolution(root: Path) -> None:
    source = ImageSource(DataRecipe("folder", "few", crop=8, batch=1), [root])
    phases = [PhaseRecipe(2, 4), PhaseRecipe(1, 2)]
    batches = Batches([source], [parse_order("raster")], phases)
    sizes = [batches.draw(step)[0].shape[2] for step in range(5)]
    assert sizes == [2, 2, 4, 8, 8]


def test_crops_flips_scales_and_depth(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
    Image.fromarray(np.stack([ramp] * 3, 2)).save(tmp_path / "one" / "ramp.png")
    rng = np.random.default_rng(0)
    source = ImageSource(DataRecipe("folder", "one", crop=6, flip=True), [tmp_path])
    cut = source.cut(np.zeros(200, np.int64), rng)[:, 0].int()
    corners = set(cut[:, 0, :].amin(1).tolist())
    assert corners == {16 * row + column for row in range(11) for column in range(11)} & corners
    assert len(corners) > 60
    rightwards = cut[:, 0, 1] - cut[:, 0, 0]
    assert set(rightwards.tolist()) == {-1, 1}
    assert (cut[:, 1] - cut[:, 0] == 16).all()

    scaled = ImageSource(DataRecipe("folder", "one", crop=6, scales=(1, 2, 3)), [tmp_path])
    assert [picture.shape[1] for picture in scaled.pictures] == [16, 8]  # a third is too small
    shallow = ImageSource(DataRecipe("folder", "one", size=16, bits=5), [tmp_path])
    assert np.array_equal(shallow.cut_all(0)[0, 0], ramp >> 3)


def test_grey_is_the_luma_that_pillow_makes(tmp_path: Path) -> None:
    colours = np.random.default_rng(2).integers(0, 256, (40, 50, 3), np.uint8)
    (tmp_path / "one").mkdir()
    Image.fromarray(colours).save(tmp_path / "one" / "colours.png")
    luma = np.asarray(Image.fromarray(colours).convert("L"))
    assert np.array_equal(to_luma(torch.from_numpy(colours.transpose(2, 0, 1)))[0], luma)
    source = ImageSource(DataRecipe("folder", "one", crop=40, grey=True), [tmp_path])
    assert source.channels == 1
    assert np.array_equal(source.pictures[0][0], luma)


def test_noise_is_bounded_and_centred(root: Path) -> None:
    source = ImageSource(DataRecipe("folder", "many", crop=8, noise=4.0), [root])
    indices = np.full(100, 6)
    noisy = source.cut(indices, np.random.default_rng(3)).float()
    spread = (noisy - 96).flatten(1).std(1)
    assert spread.max() < 4.6
    assert spread.min() < 0.6
    assert abs(float(noisy.mean()) - 96) < 0.2


def test_held_out_images_are_always_the_same(root: Path) -> None:
    source = ImageSource(DataRecipe("folder", "many", crop=5, limit=7), [root])
    assert source.cut_all(1).shape == (7, 3, 5, 5)
    assert torch.equal(source.cut_all(1), source.cut_all(1))


def test_a_crop_larger_than_all_images_is_refused(root: Path) -> None:
    with pytest.raises(DataError, match="many: no image is as large as a crop of 9"):
        ImageSource(DataRecipe("folder", "many", crop=9), [root])


def test_masks_are_made_once() -> None:
    cache = MaskCache()
    order = parse_order("s-curve:flip")
    assert cache.get(order, 4, 6) is cache.get(order, 4, 6)
    assert cache.get(order, 4, 6).ranks.shape == (4, 6)
    assert cache.get(order, 6, 4) is not cache.get(order, 4, 6)


def test_some_crops_are_altered_and_some_are_not(root: Path) -> None:
    """A grey of one value stays it under all alterations but grain, colours or not."""
    for grey in (False, True):
        recipe = DataRecipe("folder", "many", crop=6, batch=12, alter=("grain",), grey=grey)
        source = ImageSource(recipe, [root])
        batch, again = (source.cut(np.arange(12), np.random.default_rng(1)) for _ in range(2))
        assert batch.shape == (12, 1 if grey else 3, 6, 6)
        assert torch.equal(batch, again)
        flat = batch.flatten(1).float().std(1)[1:] == 0  # the first is black and clipped
        assert 0 < flat.sum() < 11


def test_images_can_be_held_back(root: Path) -> None:
    held = ImageSource(DataRecipe("folder", "many", crop=8, limit=3), [root])
    rest = ImageSource(DataRecipe("folder", "many", crop=8, skip=3), [root])
    some = ImageSource(DataRecipe("folder", "many", crop=8, skip=3, limit=2), [root])
    assert greys(held.cut_all(0)) == [0, 1, 2]
    assert greys(rest.cut_all(0)) == list(range(3, 12))
    assert greys(some.cut_all(0)) == [3, 4]
