"""Recipes: lmzip's own are valid, and every mistake is named with its key and value."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmzip.models.compact import CONFIGS
from lmzip.models.paper import FACES, PaperConfig
from lmzip.models.recipe import (
    RECIPES,
    DataRecipe,
    PhaseRecipe,
    load_recipe,
    parse_recipe,
)
from lmzip.models.recipe_tables import RecipeError
from lmzip.order.orders import all_variants, parse_order

SMALLEST = """
[network]
size = "tiny"
[schedule]
steps = 10
[[data]]
kind = "cifar10"
"""


def test_defaults() -> None:
    recipe = parse_recipe(SMALLEST, "small")
    assert recipe.name == "small"
    assert recipe.network == CONFIGS["tiny"]
    assert recipe.orders == (parse_order("raster"),)
    assert recipe.schedule.total == 10
    assert recipe.data == (DataRecipe("cifar10"),)
    assert recipe.held_out is None


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_own_recipes_are_valid(path: Path) -> None:
    recipe = load_recipe(path)
    assert recipe == load_recipe(path.stem)
    assert recipe.name == path.stem
    assert recipe.network.levels == 1 << recipe.data[0].depth
    assert recipe.held_out is not None
    for source in recipe.data:  # nothing is measured on what it was trained on
        held_out = recipe.held_out.source
        same = (source.kind, source.path, source.split) == (
            *(held_out.kind, held_out.path, held_out.split),
        )
        assert not same or 0 < held_out.skip + held_out.limit <= source.skip


def test_the_papers_numbers() -> None:
    cifar = load_recipe("paper-cifar10")
    assert (cifar.optimiser.kind, cifar.optimiser.rate) == ("adam", 2e-4)
    assert cifar.optimiser.betas == (0.9, 0.999)
    assert (cifar.schedule.decay, cifar.schedule.decay_factor) == ("exponential", 5e-6)
    assert cifar.schedule.total == 2_600_000
    assert cifar.data[0].batch == 32
    assert cifar.orders == all_variants("s-curve")
    assert cifar.network == PaperConfig()
    assert cifar.average.snapshots * cifar.average.every * 32 == pytest.approx(
        45 * 50_000, rel=0.01
    )
    faces = load_recipe("paper-celeba-hq-64")
    assert faces.network == FACES
    assert faces.phases == (PhaseRecipe(242_000, 2),)
    assert (faces.schedule.total, faces.data[0].batch) == (375_000, 32)
    large = load_recipe("paper-celeba-hq-256")
    assert (large.data[0].size, large.data[0].bits, large.data[0].batch) == (256, 5, 5)
    assert load_recipe("paper-cifar10-raster").orders == (parse_order("raster"),)
    assert load_recipe("paper-binarized-mnist").network == PaperConfig(channels=1, levels=2)


def test_orders_with_all_variants() -> None:
    recipe = parse_recipe('orders = ["raster:*", "hilbert:flip"]' + SMALLEST)
    assert recipe.orders == (*all_variants("raster"), parse_order("hilbert:flip"))


def test_held_out_images_are_measured_in_the_first_order_unless_told() -> None:
    text = 'orders = ["s-curve:*"]' + SMALLEST + '[eval]\nkind = "mnist"\nsplit = "test"\n'
    recipe = parse_recipe(text)
    assert recipe.held_out is not None
    assert recipe.held_out.source == DataRecipe("mnist", split="test")
    assert recipe.held_out.orders == (parse_order("s-curve"),)
    recipe = parse_recipe(text + 'every = 7\norders = ["raster"]')
    assert recipe.held_out is not None
    assert (recipe.held_out.every, recipe.held_out.orders) == (7, (parse_order("raster"),))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("steps = 10", "steps = 10\nrate = 3", "[schedule] rate = 3: no such key among steps"),
        ("steps = 10", "steps = '10'", "[schedule] steps = '10': must be a whole number"),
        ("steps = 10", "steps = true", "[schedule] steps = True: must be a whole number"),
        ("steps = 10", "steps = -1", "[schedule] steps = -1: must not be negative"),
        ("steps = 10", "warmup = 1", "[schedule] steps is missing"),
        ("steps = 10", "steps = 1\ndecay = 'up'", "decay = 'up': choose from none"),
        ("steps = 10", "steps =", "not TOML"),
        ("[schedule]", "[plan]", "plan = {'steps': 10}: no such key"),
        ("[[data]]", "[data]", "data = {'kind': 'cifar10'}: must be a list"),
        ('"cifar10"', '"cifar100"', "[[data]] kind = 'cifar100': choose from cifar10"),
        ('"cifar10"', '"folder"', "[[data]] path = '': must name the folder"),
        ('"cifar10"', '"folder"\npath = "a"', "crop = 0: a folder needs it, or a size"),
        ('"cifar10"', '"folder"\npath = "a"\nsize = 8\nscales = [2]', "scales = (2,): need a crop"),
        ('"cifar10"', '"folder"\npath = "a"\ncrop = 8\nscales = [0]', "scales = (0,): must be at"),
        ('"cifar10"', '"cifar10"\nalter = ["grain"]', "alter = ('grain',): needs a crop"),
        ('"cifar10"', '"folder"\npath = "a"\ncrop = 8\nalter = ["x"]', "alter = 'x': choose from"),
        ('"cifar10"', '"folder"\npath = "a"\ncrop = 8\nscales = 2', "scales = 2: must be a list"),
        ('"cifar10"', '"cifar10"\ncrop = 8', "crop = 8: is for folders only"),
        ('"cifar10"', '"mnist"\ngrey = true', "grey = True: mnist has no colours"),
        (
            SMALLEST,
            SMALLEST.replace('size = "tiny"', 'kind = "paper"') + "grey = true",
            "[[data]] grey = True: is for compact networks",
        ),
        ('"cifar10"', '"cifar10"\nweight = 0', "[[data]] weight = 0: for all sources"),
        ('"cifar10"', '"cifar10"\nbatch = 0', "batch = 0: must be positive"),
        ('"cifar10"', '"cifar10"\n[[phase]]\nsteps = 0', "[[phase]] steps = 0: must be positive"),
        ('"cifar10"', '"cifar10"\n[eval]\nkind = "x"', "[eval] kind = 'x'"),
        ('"cifar10"', '"cifar10"\n[eval]\nkind = "mnist"\nevery = 0', "[eval] every = 0"),
        ('"cifar10"', '"cifar10"\n[optimiser]\nkind = "sgd"', "[optimiser] kind = 'sgd': choose"),
        ('"cifar10"', '"cifar10"\n[optimiser]\nbetas = [1]', "betas = [1]: must have 2 entries"),
        ('"cifar10"', '"cifar10"\n[average]\nema = 1.0', "[average] ema = 1.0: must be"),
        ('"cifar10"', '"cifar10"\n[completion]\nshare = 1.5', "[completion] share = 1.5: must be"),
        ('"tiny"', '"giant"', "[network] unknown size 'giant'"),
        ("\n[network]", "orders = []\n[network]", "orders = []: must be a list"),
        ("\n[network]", "orders = [3]\n[network]", "orders = 3: must be names"),
        ("\n[network]", 'orders = ["x:*"]\n[network]', "unknown order 'x'"),
        ("\n[network]", "seed = -1\n[network]", "seed = -1"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in SMALLEST
    path = tmp_path / "bad.toml"
    path.write_text(SMALLEST.replace(old, new))
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_recipe_names_lmzips_own() -> None:
    with pytest.raises(RecipeError, match=r"nothing\.toml: No such file.*thumb"):
        load_recipe("nothing.toml")
