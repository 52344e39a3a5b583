"""lmzip sample and complete: what is drawn, what is kept, and what the grids show."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw
from support.cli_runner import Cli, make_picture, write_image
from support.networks import ANY_ORDER, compact_network, smooth_images, write_model

import lmzip
from lmzip.cli.complete import parse_region
from lmzip.cli.grids import GridRow, blank_out, draw_grid, enlarge
from lmzip.errors import InputError
from lmzip.models.paper import PaperConfig, PaperNetwork
from lmzip.models.weights import save_network
from lmzip.picture import MODES, Picture


@pytest.fixture
def model(cli: Cli, tmp_path: Path) -> str:
    """The file of a model for any order, in the folder of the test."""
    return str(write_model(compact_network(orders=ANY_ORDER, name="any"), tmp_path))


@pytest.fixture
def weights(cli: Cli) -> str:
    """Float weights of the paper's network, for binary images."""
    torch.manual_seed(0)
    config = PaperConfig(channels=1, levels=2, filters=4, blocks=1)
    save_network(PaperNetwork(config), "binary.safetensors")
    return "binary.safetensors"


def read(path: str | Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image)


def find(pixels: np.ndarray, grid: np.ndarray, zoom: int) -> tuple[int, int] | None:
    """Return the row and column of an enlarged image in a grid."""
    square = pixels.repeat(zoom, axis=0).repeat(zoom, axis=1)
    height, width = square.shape[:2]
    for y, x in zip(*np.nonzero((grid == square[0, 0]).all(2)), strict=True):
        if np.array_equal(grid[y : y + height, x : x + width], square):
            return int(y), int(x)
    return None


def test_samples_are_drawn_and_written_one_by_one(cli: Cli, model: str) -> None:
    result = cli("sample", model, "-n", 3, "--size", "6x8", "--order", "s-curve", "--seed", 4,
                 "-o", "grid.png", "--each", "out")  # fmt: skip
    expected = "grid.png: 3 samples of 6x8 pixels, any, s-curve, temperature 1, seed 4\n"
    assert (result.code, result.err, result.out) == (0, "", expected)
    wanted = lmzip.sample_images(model, 6, 8, 3, order="s-curve", seed=4)
    for number, pixels in enumerate(wanted, 1):
        assert np.array_equal(read(f"out/sample-{number}.png"), pixels)
    assert cli("compress", "out/sample-1.png", "--model", model, "--order", "s-curve").code == 0


def test_a_grid_shows_every_pixel_as_a_square(cli: Cli, model: str) -> None:
    cli("sample", model, "-n", 1, "--size", "4x4", "-o", "grid.png", "--each", "out")
    assert find(read("out/sample-1.png"), read("grid.png"), zoom=32) is not None


@pytest.mark.parametrize("extra", [(), ("--states", 2), ("--temperature", 2)])
def test_samples_are_labelled_with_what_they_cost(
    cli: Cli, model: str, extra: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    write = ImageDraw.ImageDraw.text

    def text(draw: ImageDraw.ImageDraw, place: object, text: str, *args: object) -> None:
        drawn.append(text)
        write(draw, place, text, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(ImageDraw.ImageDraw, "text", text)
    result = cli("sample", model, "-n", 3, "--size", "6x8", "--order", "s-curve", *extra,
                 "-o", "grid.png", "--each", "out", "--json")  # fmt: skip
    images = np.stack([read(f"out/sample-{number}.png") for number in (1, 2, 3)])
    bits = lmzip.measure_region(model, images, np.ones((6, 8), bool), order="s-curve")
    bpd = (bits / (6 * 8 * 3)).tolist()
    assert json.loads(result.out)["files"][0]["bpd"] == pytest.approx(bpd)
    assert {f"{i}: {cost:.3f} bpd" for i, cost in enumerate(bpd, 1)} <= set(drawn)


def test_states_and_animations_grow_along_the_order(cli: Cli, model: str) -> None:
    args = ("sample", model, "-n", 2, "--size", "4x4", "--order", "s-curve")
    assert cli(*args, "--states", 4, "-o", "strip.png").code == 0
    assert read("strip.png").shape[1] > 4 * 128
    assert cli(*args, "--animate", "-o", "grow.png").code == 0
    with Image.open("grow.png") as animation:
        assert animation.n_frames > 4  # type: ignore[attr-defined]
    result = cli(*args, "--states", 2, "--animate", "-o", "x.png")
    assert (result.code, Path("x.png").exists()) == (2, False)


def test_grey_samples_come_from_models_for_colour(cli: Cli, model: str) -> None:
    assert cli("sample", model, "--grey", "-n", 1, "--size", "5x5", "-o", "g.png",
               "--each", "out").code == 0  # fmt: skip
    assert read("out/sample-1.png").shape == (5, 5)


def test_float_weights_draw_too(cli: Cli, weights: str) -> None:
    result = cli("sample", weights, "-n", 2, "--size", "5x5", "--order", "hilbert", "-o", "g.png",
                 "--each", "out", "--json")  # fmt: skip
    assert result.code == 0
    (entry,) = json.loads(result.out)["files"]
    assert (entry["model"], entry["order"], entry["samples"]) == ("binary", "hilbert", 2)
    assert set(np.unique(read("out/sample-1.png"))) <= {0, 255}


def test_a_completion_changes_what_is_hidden_alone(cli: Cli, model: str) -> None:
    pixels = smooth_images(1, 12, 10)[0]
    write_image(Path("a.png"), Picture(pixels, MODES["RGB"]))
    result = cli(
        "complete", "a.png", "--region", "2,3,4,5", "-n", 2, "--model", model,
        "--order", "context", "--order", "raster", "-o", "grid.png", "--each", "out",
    )  # fmt: skip
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].startswith("a.png: maximum context: the truth takes ")
    assert lines[1].startswith("a.png: raster: the truth takes ")
    hidden = np.zeros((12, 10), bool)
    hidden[2:6, 3:8] = True
    for name in ("context-1", "context-2", "raster-1", "raster-2"):
        drawn = read(f"out/a-{name}.png")
        assert np.array_equal(drawn[~hidden], pixels[~hidden])
        assert not np.array_equal(drawn[hidden], pixels[hidden])
    assert read("grid.png").shape[1] > 4 * 110  # input, two completions, truth


def test_halves_have_orders_of_the_training_and_holes_a_remark(cli: Cli, model: str) -> None:
    write_image(Path("a.png"), make_picture("L", 8, 8))
    result = cli("complete", "a.png", "--region", "top", "--model", model, "-o", "a1.png",
                 "--order", "context", "--order", "adversarial", "--json")  # fmt: skip
    assert (result.code, result.err) == (0, "")
    best, worst = json.loads(result.out)["files"]
    assert (best["order"], worst["order"]) == ("context", "adversarial")
    assert best["hidden_pixels"] == 32
    result = cli("complete", "a.png", "--region", "centre", "--model", model, "-o", "a2.png")
    assert "an order that suits this region alone" in result.err


def test_the_help_does_not_promise_that_context_helps_with_holes(cli: Cli) -> None:
    text = " ".join(cli("complete", "--help").out.split())
    assert "three quarters of holes in the middle take fewer with --order raster" in text
    assert "less, the more the model could see" not in text


def test_a_mask_hides_what_is_not_black(cli: Cli, weights: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 2, (6, 6, 1)).astype(np.uint8) * 255
    write_image(Path("a.png"), Picture(pixels, MODES["L"]))
    mask = np.zeros((6, 6, 4), np.uint8)
    mask[..., 3] = 255  # opaque black hides nothing
    mask[1:3, 2:5, 0] = 9
    write_image(Path("mask.png"), Picture(mask, MODES["RGBA"]))
    result = cli("complete", "a.png", "--mask", "mask.png", "--model", weights, "-n", 1,
                 "-o", "g.png", "--each", "out")  # fmt: skip
    assert result.code == 0
    hidden = mask[..., 0] > 0
    assert np.array_equal(read("out/a-context-1.png")[~hidden], pixels[~hidden][:, 0])


@pytest.mark.parametrize(
    ("args", "code", "error"),
    [
        (["a.png", "-o", "g.png"], 2, "say what to hide, with either --region or --mask"),
        (["a.png", "--region", "top", "-o", "g.jpg"], 1,
         "a.png: a drawing is a PNG file, not .jpg"),
        (["a.png", "--region", "9,9,9,9", "-o", "g.png"], 1,
         "a.png: region 9,9,9,9 is not inside the image of 8x8 pixels"),
        (["p.png", "--region", "top", "-o", "g.png"], 1,
         "p.png: completes grey and RGB pictures, not those of mode RGBA"),
        (["a.png", "--mask", "p.png", "-o", "g.png"], 1,
         "a.png: p.png: the mask has (4, 4), the image (8, 8) pixels"),
        (["a.png", "--region", "top", "-o", "old.png"], 1, "a.png: old.png already exists"),
        (["a.png", "--region", "top", "-o", "g.png", "--temperature", "0"], 1,
         "a.png: the temperature must be positive and finite, not 0.0"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(
    cli: Cli, model: str, args: list[str], code: int, error: str
) -> None:
    write_image(Path("a.png"), make_picture("RGB", 8, 8))
    write_image(Path("p.png"), make_picture("RGBA", 4, 4))
    Path("old.png").write_bytes(b"old")
    result = cli("complete", *args, "--model", model)
    assert (result.code, result.err.splitlines()[0]) == (code, f"lmzip: {error}")
    assert Path("old.png").read_bytes() == b"old"
    assert not Path("g.png").exists()


def test_a_model_for_one_order_says_so(cli: Cli, tiny_model_path: Path) -> None:
    result = cli("sample", tiny_model_path, "--order", "hilbert", "-o", "x.png")
    assert (result.code, result.err) == (
        1, "lmzip: x.png: model 'tiny' predicts in raster only, not in hilbert; "
        "thumb-any predicts in any order\n",
    )  # fmt: skip
    write_image(Path("a.png"), make_picture("RGB", 8, 8))
    for region, order in (("top", "raster:flip"), ("centre", "a custom order")):
        result = cli("complete", "a.png", "--region", region, "--model", tiny_model_path,
                     "-o", "x.png")  # fmt: skip
        assert (result.code, result.err) == (
            1, f"lmzip: a.png: model 'tiny' predicts in raster only, not in {order}; "
            "thumb-any predicts in any order\n",
        )  # fmt: skip
    result = cli("sample", "no-such-model", "-o", "x.png")
    assert result.code == 4


def test_regions_are_read() -> None:
    assert parse_region("1,2,3,4", (8, 8))[1:4, 2:6].all()
    assert parse_region("bottom", (4, 4))[2:].all()
    for text in ("middle", "1,2,3", "1,2,3,x", "0,0,0,4", "-1,0,2,2"):
        with pytest.raises(InputError, match="region"):
            parse_region(text, (8, 8))


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (300, 8), (64, 1), (500, 500)])
def test_captions_never_meet(shape: tuple[int, int]) -> None:
    """However small or narrow the images are, captions have white between them."""
    cell = np.zeros((*shape, 3), np.uint8)
    captions = ["a long caption of an image"] * 3
    image = np.asarray(draw_grid("title", [GridRow("row", captions, [cell] * 3)]))
    line = image[16 + 26 + 19 : 16 + 26 + 2 * 19].min(axis=(0, 2))  # where the captions stand
    dark = np.flatnonzero(line < 200)
    assert (np.diff(dark) >= 9).sum() == 2


@pytest.mark.parametrize("square", [False, True])
@pytest.mark.parametrize(
    ("shape", "zoom"),
    [((300, 8), 4), ((8, 300), 4), ((1, 400), 4), ((1, 3000), 1), ((32, 32), 4), ((4, 4), 32)],
)
def test_elongated_images_can_be_seen_and_the_grid_stays_handy(
    shape: tuple[int, int], zoom: int, square: bool
) -> None:
    cells = [np.full((*shape, 3), (255, 0, i), np.uint8) for i in range(5)]
    captions = [f"{i}: 3.448 bpd" for i in range(5)]
    rows = [GridRow("row", captions, cells)]
    image = np.asarray(draw_grid("title", rows, square=square))
    for cell in cells:  # all of it, with nothing drawn over it
        assert find(cell, image, zoom) is not None
        assert (image == cell[0, 0]).all(2).sum() == shape[0] * shape[1] * zoom**2
    assert image.shape[0] <= 2400
    assert image.shape[1] <= max(1600, shape[1]) + 2 * 16


def test_many_elongated_images_are_enlarged_less() -> None:
    rows = [GridRow("row", ["a"] * 2, [np.zeros((300, 8, 3), np.uint8)] * 2)] * 4
    assert 4 * 300 < draw_grid("title", rows).height < 2500


def test_missing_pixels_are_marked() -> None:
    pixels = np.full((4, 4, 1), 7, np.uint8)
    missing = np.zeros((4, 4), bool)
    missing[0] = True
    shown = np.asarray(enlarge(blank_out(pixels, missing), 32))
    assert shown.shape == (4 * 32, 4 * 32, 3)
    assert (shown[32:] == 7).all()
    assert (shown[:32] > 150).all()
    squares = shown[:32].reshape(8, 4, 32, 4, 3)  # no larger than that, however large a pixel is
    assert (squares == squares[:, :1, :, :1]).all()
    assert (shown[:32, 4:] != shown[:32, :-4]).any(2).all()
