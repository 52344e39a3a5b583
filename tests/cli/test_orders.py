"""lmzip orders: the steps that are printed, and the drawings."""

from __future__ import annotations

import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image
from support.cli_runner import Cli

from lmzip import Kernel, expand_orders, load_model
from lmzip.cli.canvas import Canvas, measure_text
from lmzip.cli.order_drawings import draw_orders

SVG = "{http://www.w3.org/2000/svg}"


def test_steps_are_those_of_the_schedule(cli: Cli) -> None:
    result = cli("orders", "raster", "s-curve:*", "--size", "9x7", "--json")
    assert result.code == 0
    entries = json.loads(result.out)["files"]
    assert len(entries) == 9
    model = load_model("thumb-any")
    for entry, order in zip(entries, expand_orders(["raster", "s-curve:*"]), strict=True):
        assert entry["steps"] == model.count_steps(order, 9, 7)
    assert entries[0]["steps"] < entries[1]["steps"] == 63
    lines = cli("orders").out.splitlines()
    assert [line.split()[0] for line in lines] == ["order", "raster", "s-curve", "hilbert"]
    assert max(map(len, lines)) <= 80


def test_drawings_are_png_or_svg(cli: Cli) -> None:
    assert cli("orders", "--masks", "-o", "a.png", "-q").code == 0
    assert cli("orders", "--masks", "-o", "a.svg", "-q").code == 0
    root = ElementTree.fromstring(Path("a.svg").read_text())
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts[::2][:3] == ["raster", "s-curve", "hilbert"]
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    with Image.open("a.png") as image:
        assert image.size == (2 * round(width), 2 * round(height))


def test_a_path_visits_all_pixels_and_masks_show_what_is_seen() -> None:
    orders = expand_orders(["s-curve"])
    svg = draw_orders(orders, 4, 5, [Kernel(3, 3, first=True)]).to_svg().decode()
    root = ElementTree.fromstring(svg)
    colours = [rect.get("fill") for rect in root.iter(f"{SVG}rect")]
    # A background, a legend of four, and nine taps a pixel: 20 centres, and what has come before.
    assert len(colours) == 1 + 4 + 9 * 20
    assert colours.count("#f0a03c") == 1 + 20
    pairs = 4 * 4 + 3 * 5 + 2 * 3 * 4  # neighbours: beside, above, across; one of each pair is seen
    assert colours.count("#324678") == 1 + pairs
    grid = 5 + 6
    assert len(list(root.iter(f"{SVG}polyline"))) == grid + 19


@pytest.mark.parametrize("shape", [(1, 1), (8, 8), (3, 40)])
@pytest.mark.parametrize("dilations", [(), (1,), (1, 2)])
def test_texts_do_not_overlap(shape: tuple[int, int], dilations: tuple[int, ...]) -> None:
    kernels = [Kernel(3, 3, dilation, first=True) for dilation in dilations]
    canvas = draw_orders(expand_orders(["s-curve:*"]), *shape, kernels)
    root = ElementTree.fromstring(canvas.to_svg().decode())
    boxes = []
    for text in root.iter(f"{SVG}text"):
        x, y = float(text.get("x", 0)), float(text.get("y", 0))
        boxes.append((x, y, x + measure_text(text.text or "", 13)))
    assert max(right for _, _, right in boxes) <= canvas.width
    for number, (left, y, right) in enumerate(boxes):
        for other_left, other_y, other_right in boxes[:number]:
            assert abs(y - other_y) >= 13 or right < other_left or other_right < left


@pytest.mark.parametrize("shape", [(64, 2), (2, 64)])
@pytest.mark.parametrize("kernels", [[], [Kernel(3, 3, first=True)]])
def test_drawings_of_elongated_shapes_stay_handy(
    shape: tuple[int, int], kernels: list[Kernel]
) -> None:
    canvas = draw_orders(expand_orders(["raster", "s-curve", "hilbert"]), *shape, kernels)
    assert max(canvas.width, canvas.height) < (1800 if kernels else 500)


def test_lines_have_round_ends_in_png_too() -> None:
    canvas = Canvas(40, 40)
    canvas.line([(10, 20), (30, 20)], (0, 0, 0), 10)
    with Image.open(io.BytesIO(canvas.to_png())) as image:
        assert image.getpixel((2 * 6, 2 * 20)) == (0, 0, 0)
        assert image.getpixel((2 * 6, 2 * 16)) == (255, 255, 255)


@pytest.mark.parametrize(
    ("args", "code", "error"),
    [
        (["zigzag"], 1, "thumb-any: unknown order 'zigzag': choose from raster, s-curve, hilbert"),
        (["--size", "8"], 1, "thumb-any: '8' is not HEIGHTxWIDTH, such as 32x48"),
        (["-o", "a.gif"], 1, "a.gif: a drawing is a PNG or SVG file, not .gif"),
        (["-o", "a.png", "--size", "99x9"], 1, "a.png: drawings show up to 64x64 pixels"),
        (["--kernel", "4"], 2, "a kernel has a centre: 4 is not odd"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(cli: Cli, args: list[str], code: int, error: str) -> None:
    result = cli("orders", *args)
    assert (result.code, result.err.splitlines()[0]) == (code, f"lmzip: {error}")
