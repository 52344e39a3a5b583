"""lmzip train, eval, export, tune and import: what they do, and what they say without torch."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from support.cli_runner import make_picture, write_image
from support.networks import compact_network, smooth_images, write_model

from lmzip import MODES, Picture
from lmzip.models.compact import Block, CompactConfig, CompactNetwork
from lmzip.models.import_reference import reference_name
from lmzip.models.paper import PaperConfig, PaperNetwork
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
