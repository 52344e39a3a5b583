"""Bit maps: they add up to what a file states, and show it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.cli_runner import Cli, make_picture, write_image
from support.networks import ANY_ORDER, compact_network, smooth_images, write_model

import lmzip
from lmzip.bit_costs import BitCosts, measure_bits
from lmzip.cli.colours import choose_top, colour_bits
from lmzip.cli.drawing import draw_bit_map, make_thumbnail, shrink_bits, trace_order
from lmzip.cost import COST_BITS
from lmzip.errors import InputError
from lmzip.network.registry import Model, load_model
from lmzip.options import Options
from lmzip.order.orders import FAMILIES, parse_order
from lmzip.picture import MODES, Picture


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    network = compact_network(orders=ANY_ORDER)
    return load_model(write_model(network, tmp_path_factory.mktemp("models")))


def photograph(height: int = 20, width: int = 28) -> Picture:
    return Picture(smooth_images(1, height, width, 3)[0], MODES["RGB"])


@pytest.mark.parametrize("name", ["L", "LA", "RGB", "RGBA", "CMYK"])
@pytest.mark.parametrize("order", ["raster", "s-curve:flip"])
def test_costs_add_up_to_what_the_file_states(
    model: Model, name: str, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lmzip.container.tiles.TILE", (16, 16))
    picture = make_picture(name, 20, 34)
    bit_map = measure_bits(picture, model, parse_order(order))
    info = lmzip.read_info(lmzip.compress_picture(picture, Options(str(model.path), order)))
    assert info.tiles == bit_map.grid == (2, 3)
    assert info.model_bpd is not None
    assert bit_map.bpd == pytest.approx(info.model_bpd, abs=1 / 64 / info.samples)
    assert sum(bit_map.channels) == pytest.approx(bit_map.total)
    assert sum(bits for _, bits in bit_map.tiles) == pytest.approx(bit_map.total)
    assert bit_map.pixels.sum() == pytest.approx(bit_map.total)
    areas = [np.prod(np.subtract(*np.transpose([t.rows, t.columns]))) for t, _ in bit_map.tiles]
    assert sum(map(abs, areas)) == 20 * 34


def test_a_surprise_costs_bits_where_it_is(model: Model) -> None:
    calm = Picture(np.full((24, 24, 3), 100, np.uint8), MODES["RGB"])
    samples = calm.samples.copy()
    samples[10, 7] = (255, 0, 255)
    before = measure_bits(calm, model, parse_order("raster")).pixels
    after = measure_bits(Picture(samples, MODES["RGB"]), model, parse_order("raster")).pixels
    change = after - before
    assert change[10, 7] > 8
    assert not change.ravel()[: 10 * 24 + 7].any()  # nothing that comes before knows of it
    assert abs(change[20:]).max() < 1  # nor does what is far away care


def test_custom_orders_keep_the_picture_whole(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lmzip.container.tiles.TILE", (8, 8))
    order = parse_order(np.arange(12 * 10)[::-1].copy())
    assert measure_bits(photograph(12, 10), model, order).grid == (1, 1)


def test_progress_counts_pixels(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmzip.container.tiles.TILE", (16, 16))
    seen: list[tuple[int, int]] = []
    measure_bits(
        photograph(), model, parse_order("raster"), progress=lambda *pair: seen.append(pair)
    )
    assert len(seen) == 4
    assert seen[-1] == (560, 560)


def test_modes_that_the_network_does_not_code_are_refused(model: Model) -> None:
    with pytest.raises(InputError, match="mode P"):
        measure_bits(make_picture("P"), model, parse_order("raster"))


def test_colours_rise_in_lightness_and_stop_at_the_top() -> None:
    ramp = colour_bits(np.linspace(0, 24, 256)[None], 24.0)[0].astype(float)
    lightness = ramp @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(lightness) > 0).all()
    above = colour_bits(np.array([[24.0, 100.0]]), 24.0)[0]
    assert above[0].tolist() == above[1].tolist()


def test_the_top_is_round_and_high_enough() -> None:
    for largest in (0.0, 0.7, 7.3, 29.9, 72.0):
        top = choose_top(np.linspace(0, largest, 100)[None])
        assert max(1.0, 0.99 * largest) <= top <= max(1.0, 2 * largest)
        assert float(f"{top:.1g}") == top


def test_the_drawing_shows_every_pixel(model: Model) -> None:
    bit_map = measure_bits(photograph(), model, parse_order("raster"))
    top = choose_top(bit_map.pixels)
    drawn = np.asarray(draw_bit_map(bit_map, top))
    zoom = 480 // 28
    corner = (drawn.shape[1] - 28 * zoom) // 2
    centres = drawn[16 + zoom // 2 :: zoom, corner + zoom // 2 :: zoom][:20, :28]
    assert np.array_equal(centres, colour_bits(bit_map.pixels, top))
    below = drawn[16 + 20 * zoom :]
    assert len(np.unique(below.reshape(-1, 3), axis=0)) > 100  # the scale
    assert (np.asarray(draw_bit_map(bit_map, top, path=True)) != drawn).any()


@pytest.mark.parametrize("shape", [(300, 8), (8, 300)])
def test_elongated_pictures_are_enlarged_until_they_can_be_seen(shape: tuple[int, int]) -> None:
    costs = np.full((*shape, 1), 8 << COST_BITS, np.int64)
    bit_map = BitCosts(costs, (1, 1), "any", parse_order("raster"))
    drawn = np.asarray(draw_bit_map(bit_map, 10.0))
    colour = colour_bits(np.array([[8.0]]), 10.0)[0, 0]
    rows, columns = (drawn == colour).all(2)[: 16 + 4 * shape[0]].nonzero()
    assert (np.ptp(rows) + 1, np.ptp(columns) + 1) == (4 * shape[0], 4 * shape[1])


def test_the_path_of_a_long_picture_shows_its_turns() -> None:
    rows, columns = trace_order(parse_order("s-curve"), 600, 8).T
    assert len(np.unique(columns)) == 4
    assert (rows.max(), columns.max()) == (599, 7)


@pytest.mark.parametrize("order", FAMILIES)
def test_a_path_visits_every_pixel_of_a_small_picture(order: str) -> None:
    points = trace_order(parse_order(order), 9, 14)
    assert {(row, column) for row, column in points.tolist()} == {
        (row + 0.5, column + 0.5) for row in range(9) for column in range(14)
    }
    assert points[0].tolist() == [0.5, 0.5]


def test_the_path_of_a_large_picture_covers_it() -> None:
    points = trace_order(parse_order("hilbert"), 300, 600)
    assert len(points) == 12 * 24
    assert points.min(0).tolist() == [12.5, 12.5]
    assert points.max(0).tolist() == [287.5, 587.5]


def test_one_pixel_can_be_drawn(model: Model) -> None:
    picture = Picture(np.zeros((1, 1, 3), np.uint8), MODES["RGB"])
    bit_map = measure_bits(picture, model, parse_order("raster"))
    assert draw_bit_map(bit_map, choose_top(bit_map.pixels), path=True).width > 300


def test_shrinking_keeps_the_mean() -> None:
    bits = np.random.default_rng(0).random((60, 90)) * 20
    small = shrink_bits(bits, 30)
    assert small.shape == (20, 30)
    assert small.mean() == pytest.approx(bits.mean(), rel=1e-5)
    assert shrink_bits(bits, 90) is bits


@pytest.mark.parametrize("name", ["L", "LA", "RGB", "RGBA", "CMYK", "L16", "RGB16"])
def test_thumbnails_of_every_mode_are_small(name: str) -> None:
    thumbnail = make_thumbnail(make_picture(name, 40, 60), 30)
    assert thumbnail.size == (30, 20)
    assert thumbnail.mode in ("L", "LA", "RGB", "RGBA")


@pytest.mark.parametrize("depth", [8, 9, 12, 15, 16])
@pytest.mark.parametrize("name", ["L16", "LA16", "RGB16", "RGBA16"])
def test_thumbnails_are_as_bright_as_the_bits_in_use(name: str, depth: int) -> None:
    channels = MODES[name].channels
    ramp = np.linspace(0, (1 << depth) - 1, 60).astype(np.uint16)
    samples = np.broadcast_to(ramp[None, :, None], (40, 60, channels)).copy()
    if name.endswith("A16"):
        samples[..., -1] = 65535
    thumbnail = np.asarray(make_thumbnail(Picture(samples, MODES[name]), 60))
    thumbnail = thumbnail.reshape(40, 60, channels)
    assert np.abs(thumbnail[0, :, 0] - np.linspace(0, 255, 60)).max() <= 1
    assert (thumbnail[..., -1] == 255).all() == name.endswith("A16")


def test_black_deep_pictures_have_black_thumbnails() -> None:
    black = Picture(np.zeros((4, 4, 3), np.uint16), MODES["RGB16"])
    assert not np.asarray(make_thumbnail(black, 4)).any()


def test_totals_are_printed(cli: Cli) -> None:
    picture = write_image(Path("a.png"))
    result = cli("inspect", "a.png", "--model", cli.model)
    assert result.code == 0
    first, total, *channels = result.out.splitlines()
    assert first == "a.png  18x12 RGB, model tiny, order raster"
    assert [line.split()[0] for line in channels] == ["red", "green", "blue"]
    bit_map = measure_bits(picture, load_model(cli.model), parse_order("raster"))
    assert f"{bit_map.bpd:.3f} bpd" in total
    assert not Path("a.bits.png").exists()


def test_json_has_channels_and_tiles(cli: Cli) -> None:
    write_image(Path("a.png"), make_picture("RGBA", 5, 600))
    result = cli("inspect", "a.png", "--model", cli.model, "--json")
    (entry,) = json.loads(result.out)["files"]
    assert list(entry["channels"]) == ["red", "green", "blue", "alpha"]
    assert [tile["columns"] for tile in entry["tiles"]] == [[0, 300], [300, 600]]
    assert sum(tile["bits"] for tile in entry["tiles"]) == pytest.approx(entry["bits"])
    shown = cli("inspect", "a.png", "--model", cli.model)
    assert "bpd of 1 x 2 tiles" in shown.out


def test_the_map_is_written_and_never_over_anything(cli: Cli) -> None:
    write_image(Path("a.png"))
    original = Path("a.png").read_bytes()
    args = ("inspect", "a.png", "--model", cli.model, "-o")
    assert cli(*args, "map.png", "--path").code == 0
    with Image.open("map.png") as image:
        assert image.format == "PNG"
        assert image.width >= 18
    assert "already exists" in cli(*args, "map.png").err
    assert cli(*args, "map.png", "-f").code == 0
    assert cli(*args, "a.png", "-f").code == 1
    assert Path("a.png").read_bytes() == original
    assert "PNG file" in cli(*args, "map.jpg").err
    assert cli("inspect", "a.png", "--model", cli.model, "--path").code == 2


def test_an_lmz_file_is_shown_by_its_own_model_and_order(cli: Cli) -> None:
    write_image(Path("a.png"))
    assert cli.compress("a.png").code == 0
    direct = cli("inspect", "a.png", "--model", cli.model)
    stored = cli("inspect", "a.lmz", "--model", cli.model)
    assert stored.out.splitlines()[1:] == direct.out.splitlines()[1:]
    info = lmzip.read_info("a.lmz")
    assert f"{info.model_bpd:.3f} bpd" in stored.out
    missing = cli("inspect", "a.lmz")
    assert missing.code == 4
    flat = np.zeros((8, 8), np.uint8)
    Path("flat.lmz").write_bytes(lmzip.compress(flat.astype(bool), layout="HW"))
    assert "classical method" in cli("inspect", "flat.lmz").err


@pytest.mark.parametrize("name", ["L16", "LA16", "RGB16", "RGBA16"])
def test_deep_files_are_inspected(cli: Cli, name: str) -> None:
    """As pictures and as compressed files, with the same bits and a map of them."""
    picture = make_picture(name, 14, 18)
    picture.samples[:] >>= 4
    write_image(Path("a.png"), picture)
    direct = cli("inspect", "a.png", "--model", cli.model, "-o", "direct.png")
    assert (direct.code, direct.err) == (0, "")
    first, total, *channels = direct.out.splitlines()
    assert first == f"a.png  18x14 {name}, model tiny, order raster"
    cli.compress("a.png")
    stored = cli("inspect", "a.lmz", "--model", cli.model, "-o", "stored.png")
    assert stored.code == 0
    assert stored.out.splitlines()[1 : 2 + len(channels)] == [total, *channels]
    assert f"{lmzip.read_info('a.lmz').model_bpd:.3f} bpd" in total
    assert len(channels) == picture.mode.channels
    assert Path("direct.png").read_bytes() == Path("stored.png").read_bytes()


def test_without_models_one_must_be_given(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("lmzip.network.registry.WEIGHTS", tmp_path)
    write_image(Path("a.png"))
    result = cli("inspect", "a.png")
    assert result.code == 4
    assert "--model" in result.err


def test_of_several_orders_the_compressors_choice_is_shown(cli: Cli, model: Model) -> None:
    write_image(Path("a.png"))
    assert cli("compress", "a.png", "--model", model.path, "--order", "best").code == 0
    chosen = lmzip.read_info("a.lmz").order
    result = cli("inspect", "a.png", "--model", model.path, "--order", "best")
    assert result.out.splitlines()[0].endswith(f"order {chosen}")


def test_costs_are_counted_in_fractions_of_bits() -> None:
    costs = np.full((2, 2, 1), 1 << COST_BITS, np.int64)
    bit_map = BitCosts(costs, (1, 1), "any", parse_order("raster"))
    assert bit_map.total == 4
    assert bit_map.bpd == 1
