"""lmzip train, eval, export, tune and import: what they do, and what they say without torch."""

import importlib.util
import json
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from support.cli_runner import make_picture, write_image
from support.networks import compact_network, smooth_images, write_model

from lmzip import MODES, Picture
from lmzip.cli.data_sets import load_set
from lmzip.models.compact import Block, CompactConfig, CompactNetwork
from lmzip.models.import_reference import reference_name
from lmzip.models.paper import PaperConfig, PaperNetwork
from lmzip.models.paper_figures import format_figures
from lmzip.models.weights import load_notes, save_network
from lmzip.network.integer_network import load_integer_network


@pytest.fixture
def weights(cli):
    """Float weights in `float.safetensors`, and a few images in `images`."""
    torch.manual_seed(0)
    save_network(CompactNetwork(CompactConfig(8, 3, (Block(8),), 2)), "float.safetensors")
    for number in range(4):
        write_image(Path(f"images/{number}.png"), make_picture(height=20, width=24, seed=number))
    return "float.safetensors"


@pytest.mark.parametrize("command", ["train", "eval", "export", "tune", "import"])
def test_without_torch_one_line_says_what_to_install(cli, monkeypatch, command):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "torch" else find(name)
    )
    result = cli(command, "x")
    assert (result.code, result.out) == (2, "")
    assert result.err == 'lmzip: this command needs torch: pip install "lmzip[train]"\n'


def test_export_shows_three_figures_side_by_side(cli, weights):
    result = cli(
        "export", weights, "-o", "model.safetensors", "--data", "images", "--crop", 16,
        "--note", "trained_on=nothing",
    )  # fmt: skip
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    figures = [float(line.split(" bpd")[0].split()[-1]) for line in lines[:3]]
    assert [line[:16].strip() for line in lines[:3]] == [
        "float network", "integer network", "coded bytes"
    ]  # fmt: skip
    assert abs(figures[1] - figures[0]) < 0.01
    assert figures[1] <= figures[2] < figures[1] + 0.2
    network = load_integer_network(Path("model.safetensors"))
    assert (network.name, network.orders) == ("model", ("raster",))
    assert network.notes == {"trained_on": "nothing"}
    write_image(Path("x.png"))
    assert cli("compress", "x.png", "--model", "model.safetensors").code == 0


def test_export_does_not_overwrite(cli, weights):
    Path("model.safetensors").write_bytes(b"old")
    result = cli("export", weights, "-o", "model.safetensors", "--data", "images", "--crop", 16)
    assert (result.code, result.err.splitlines()[0]) == (
        2, "lmzip: model.safetensors already exists (-f overwrites it)"
    )  # fmt: skip
    assert Path("model.safetensors").read_bytes() == b"old"


@pytest.mark.parametrize(
    ("args", "code", "error"),
    [
        (["--data", "images", "--crop", "64"], 1, "images: no image has 64x64 pixels"),
        (["--data", "images", "--note", "x"], 2, "--note 'x' is not KEY=TEXT"),
    ],
)
def test_export_names_what_is_wrong(cli, weights, args, code, error):
    result = cli("export", weights, "-o", "model.safetensors", *args)
    assert (result.code, result.err.splitlines()[0]) == (code, f"lmzip: {error}")
    assert not Path("model.safetensors").exists()


def test_eval_measures_orders_and_their_average(cli, weights):
    args = ("eval", weights, "--data", "images", "--crop", 16, "--orders", "raster:*,s-curve")
    result = cli(*args)
    assert (result.code, result.err) == (0, "")
    assert "raster (8 orders)" in result.out
    assert all(len(line) <= 80 for line in result.out.splitlines())
    scores = json.loads(cli(*args, "--json").out)["files"][0]["regions"][0]["scores"]
    assert [score["name"] for score in scores][-2:] == ["raster (8 orders)", "s-curve"]
    assert all(0 < score["bpd"] < 16 for score in scores)


def test_eval_measures_hidden_halves(cli, weights):
    result = cli("eval", weights, "--data", "images", "--crop", 16, "--complete", "top,left")
    assert result.code == 0
    assert "2 max context orders" in result.out


def write_mnist(folder: Path, images: npt.NDArray[np.uint8]) -> None:
    """Write digits as MNIST's test set."""
    folder.mkdir()
    header = np.array([0x803, *images.shape], ">i4").tobytes()
    (folder / "t10k-images-idx3-ubyte").write_bytes(header + images.tobytes())


def test_binary_digits_are_drawn_afresh(tmp_path):
    """Each pixel is white as often as its grey says; the same seed draws the same digits."""
    greys = np.array([0, 64, 128, 255], np.uint8)
    write_mnist(tmp_path / "digits", np.tile(greys, (2000, 1)).reshape(2000, 2, 2))
    load = partial(load_set, tmp_path / "digits", None, "test", channels=1, levels=2, crop=1)
    digits = load(seed=1)
    assert set(digits.unique().tolist()) == {0, 1}
    means = digits.float().mean(0).flatten()
    torch.testing.assert_close(means, torch.tensor(greys / 255).float(), rtol=0, atol=0.04)
    assert torch.equal(digits, load(seed=1))
    assert not torch.equal(digits, load(seed=2))


def test_the_papers_figures_stand_below(cli):
    write_mnist(Path("digits"), np.zeros((3, 8, 8), np.uint8))
    torch.manual_seed(0)
    config = PaperConfig(channels=1, levels=2, filters=4, blocks=1)
    save_network(PaperNetwork(config), "b.safetensors")
    result = cli("eval", "b.safetensors", "--data", "digits", "--paper")
    assert (result.code, result.err) == (0, "")
    assert "nats (standard error)" in result.out
    assert "PixelCNN *" in result.out
    assert "LMConv, S-curve, 8 orders              77.58" in result.out
    result = cli("eval", "b.safetensors", "--data", "digits", "--paper", "--complete", "top")
    assert "LMConv, 1 max context" in result.out
    assert max(map(len, result.out.splitlines())) <= 80


def test_others_figures_are_marked():
    text = format_figures("cifar10", completion=True)
    lines = {line[:22].strip(): line for line in text.splitlines()}
    assert "*" in lines["PixelCNN++, 2 streams"]
    assert "*" not in lines["PixelCNN++, 1 stream"]
    assert format_figures("images", completion=False) == ""


def test_eval_scales_images_on_request(cli, weights):
    result = cli("eval", weights, "--data", "images", "--size", 12)
    assert (result.code, result.out.splitlines()[0]) == (
        0, "4 images, 12x12, 3 channels, 256 levels"
    )  # fmt: skip
    result = cli("eval", weights, "--data", "images", "--size", 12, "--paper")
    assert result.out.endswith("the paper has no figures for images\n")


def test_eval_names_what_is_missing(cli):
    result = cli("eval", "missing.safetensors", "--data", ".")
    assert (result.code, len(result.err.splitlines())) == (4, 1)


def test_train_hangs_in_the_same_group(cli):
    assert cli("train", "--help").out.startswith("Usage: lmzip train [OPTIONS] RECIPE")
    result = cli("train", "missing.toml", "--out", "run")
    assert (result.code, len(result.err.splitlines())) == (1, 1)


def test_import_makes_weights_that_eval_takes(cli, weights):
    network = PaperNetwork(PaperConfig(filters=4, blocks=1, logistics=2))
    state = {reference_name(name): tensor for name, tensor in network.state_dict().items()}
    torch.save({"model_state_dict": state, "args": {"n_bits": 8}}, "theirs.pth")
    result = cli("import", "theirs.pth", "-o", "ours.safetensors")
    assert (result.code, result.err) == (0, "")
    assert result.out.endswith(" parameters, 3 channels, 256 levels\n")
    assert load_notes("ours.safetensors") == {"imported_from": "theirs.pth"}
    assert cli("eval", "ours.safetensors", "--data", "images", "--crop", 8).code == 0
    drawn = ("-n", 1, "-o", "drawn.png", "-f")
    assert cli("sample", "ours.safetensors", "--size", "4x4", *drawn).code == 0
    top = ("images/0.png", "--region", "0,0,2,3", "--model", "ours.safetensors")
    assert cli("complete", *top, *drawn).code == 0
    again = cli("import", "theirs.pth", "-o", "ours.safetensors")
    assert (again.code, again.err.splitlines()[0]) == (
        2, "lmzip: ours.safetensors already exists (-f overwrites it)"
    )  # fmt: skip


def test_import_refuses_other_files(cli):
    Path("x.pth").write_bytes(b"no checkpoint")
    result = cli("import", "x.pth", "-o", "ours.safetensors")
    assert (result.code, len(result.err.splitlines())) == (4, 1)
    assert not Path("ours.safetensors").exists()


def test_tune_writes_a_model_for_files_like_those_it_learnt_from(cli, monkeypatch, tmp_path):
    """What is left out of learning gets smaller, and the model file is an ordinary one."""
    write_model(compact_network(name="small"), tmp_path)
    monkeypatch.setattr("lmzip.models.tune.PASSES", 12)
    for number in range(8):
        image = 255 - smooth_images(1, 64, 64, noise=1.0, seed=number)[0][:, :, ::-1]
        picture = Picture(np.ascontiguousarray(image), MODES["RGB"])
        write_image(Path(f"images/{number}.png"), picture)
    small = tmp_path / "small.safetensors"
    result = cli("tune", "images", "-o", "mine.safetensors", "--model", small, "--minutes", 20)
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0].startswith("7 images learnt from")
    before, after = (float(lines[n].split(" bpd")[0].split()[-1]) for n in (1, 2))
    assert after < 0.98 * before
    network = load_integer_network(Path("mine.safetensors"))
    assert (network.name, network.notes["tuned_from"].split()[0]) == ("mine", "small")
    assert cli("compress", "images/0.png", "--model", "mine.safetensors").code == 0
    assert cli("tune", "images", "-o", "mine.safetensors", "--model", small).code == 2
    result = cli("tune", "images", "-o", "other.safetensors", "--model", small, "--minutes", 1e-6)
    assert result.code == 1
    assert "nothing was learnt" in result.err
    assert not Path("other.safetensors").exists()


def test_tune_learns_from_deep_pictures(cli, monkeypatch, tmp_path):
    """As deep as they are; a picture of another depth among them is not learnt from."""
    write_model(compact_network(name="small"), tmp_path)
    monkeypatch.setattr("lmzip.models.tune.PASSES", 12)
    low = np.random.default_rng(0)
    for number in range(8):
        image = 255 - smooth_images(1, 64, 64, 1, noise=1.0, seed=number)[0].astype(np.uint16)
        image = (image << 4) + low.integers(3, size=image.shape, dtype=np.uint16)
        write_image(Path(f"images/{number}.png"), Picture(image, MODES["L16"]))
    write_image(Path("images/8.png"), make_picture("L", 64, 64))
    small = tmp_path / "small.safetensors"
    result = cli("tune", "images", "-o", "mine.safetensors", "--model", small, "--minutes", 20)
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0].startswith("7 images learnt from, 1 left out")
    before, after = (float(lines[n].split(" bpd")[0].split()[-1]) for n in (1, 2))
    assert after < 0.98 * before
    assert cli("compress", "images/7.png", "--model", "mine.safetensors").code == 0
