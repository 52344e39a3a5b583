"""lmzip info, models, demo and the help: what they print, and how soon."""

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from support.cli_runner import make_picture, start, write_image

import lmzip
from lmzip.cli.app import LazyGroup, app
from lmzip.cli.console import Report, fit_name, format_size, shorten
from lmzip.network.registry import load_model
from lmzip.network.released import RELEASED


def test_info_of_an_image(cli):
    write_image(Path("x.png"))
    cli.compress("--strip", "x.png")
    result = cli("info", "x.lmz")
    info, model = lmzip.read_info("x.lmz"), load_model(cli.model)
    assert (result.code, result.err) == (0, "")
    assert result.out == (
        "x.lmz\n"
        "  image     18x12 pixels, RGB\n"
        f"  file      {info.size} B ({info.size} bytes), format 2\n"
        f"  bits      {info.bpd:.3f} bpd, {info.model_bpd:.3f} under the model alone\n"
        "  method    network\n"
        f"  model     tiny {model.fingerprint[:16]}\n"
        "  order     raster\n"
    )


def test_info_of_an_archive(cli):
    for number in range(3):
        write_image(Path(f"{number}.png"), make_picture(seed=number))
    cli.compress("--archive", "0.png", "1.png", "2.png", "-o", "all.lmz")
    lines = cli("info", "all.lmz").out.splitlines()
    assert lines[1] == "  archive   3 images, 18x12 pixels, RGB"
    assert lines[-1] == "  metadata  TIME 48 B"


def test_info_as_json(cli):
    write_image(Path("x.png"))
    cli.compress("x.png")
    document = json.loads(cli("info", "--json", "x.lmz", "missing.lmz").out)
    entry = document["files"][0]
    assert (entry["height"], entry["width"], entry["mode"]) == (12, 18, "RGB")
    assert entry["metadata"] == {"TIME": 16}
    assert document["exit_code"] == 1


def test_info_loads_no_model_and_decodes_nothing(cli, tiny_model_path):
    write_image(Path("x.png"))
    cli.compress("x.png")
    assert cli("info", "x.lmz").code == 0  # although the model is not a released one
    Path("x.lmz").write_bytes(Path("x.lmz").read_bytes()[:20])  # within the header
    assert cli("info", "x.lmz").code == 3


def test_models_lists_the_released_ones_in_80_columns(cli):
    lines = cli("models").out.splitlines()
    assert lines[0].split() == ["model", "for", "order", "mult-adds", "size", "bpd"]
    assert {line.split()[0] for line in lines[1:]} == set(RELEASED.values())
    thumb = next(line for line in lines if line.startswith("thumb "))
    network = load_model("thumb").network
    assert thumb.split()[1:4] == ["thumbnails", "raster", f"{network.multiply_adds:,}"]
    assert all(len(line) <= 80 for line in [*lines, *cli("models", "-v").out.splitlines()])


def test_models_shows_what_a_model_says_of_itself(cli, monkeypatch, tiny_model_path):
    from lmzip.network import registry

    monkeypatch.setattr(registry, "WEIGHTS", tiny_model_path.parent)
    network = load_model(tiny_model_path).network
    lines = cli("models", "-v").out.splitlines()
    assert lines[1].split()[:4] == ["tiny", "-", "raster", f"{network.multiply_adds:,}"]
    assert lines[2:4] == [
        f"  fingerprint  {network.fingerprint()[:16]}",
        "  orders       raster",
    ]
    entry = json.loads(cli("models", "--json").out)["files"][0]
    assert (entry["name"], entry["fingerprint"]) == ("tiny", network.fingerprint())
    assert entry["purpose"] is None


def test_demo_compares_and_restores(cli):
    picture = write_image(Path("x.png"), make_picture(height=20, width=30))
    result = cli("demo", "x.png", "missing.png")
    lines = result.out.splitlines()
    assert lines[0].split() == ["image", "PNG", "WebP", "lmzip", "saved", "bpd", "model", "seconds"]
    assert lines[1].startswith("x.png ")
    size = int(lines[1].split()[3])
    assert f"{8 * size / picture.samples.size:6.3f}" in lines[1]
    assert lines[2] == "1 of 2 restored exactly, pixel by pixel"
    assert lines[-1].split() == ["lmzip", "compress", "x.png", "-o", "photo.lmz"]
    assert cli(*lines[-1].split()[1:]).code == 0
    assert all(len(line) <= 80 for line in lines)
    assert (result.code, result.err) == (1, "lmzip: missing.png: No such file or directory\n")


def test_demo_shows_what_no_other_format_holds(cli):
    write_image(Path("x.tiff"), make_picture("CMYK"))
    result = cli("demo", "x.tiff")
    assert (result.code, result.err) == (0, "")
    cells = result.out.splitlines()[1].split()
    assert (cells[1], cells[2], cells[4]) == ("-", "-", "-")


def test_demo_without_photographs_says_what_to_do(cli, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = cli("demo")
    assert (result.code, result.err) == (
        1, "lmzip: found no photographs: name some images, or pip install scikit-image\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    "args", [[], *([name] for name in LazyGroup().list_commands(click.Context(app)))]
)
def test_help_fits_a_terminal(cli, args):
    result = cli(*args, "--help")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"Usage: {' '.join(['lmzip', *args])} ")
    assert all(len(line) <= 80 for line in result.out.splitlines())


def test_the_list_of_commands_says_what_the_commands_say(cli):
    listed = cli("--help").out
    for name in app.list_commands(click.Context(app)):
        assert f"  {name} " in listed


def test_version(cli):
    assert cli("--version").out == f"lmzip {lmzip.__version__}\n"
    engine = f"computes with {lmzip.describe_backend()}\n"
    assert cli("--version", "-v").out == f"lmzip {lmzip.__version__}\n{engine}"


def test_an_unknown_command(cli):
    result = cli("shrink")
    assert (result.code, result.err) == (
        2, "lmzip: No such command 'shrink'.\nhint: see 'lmzip --help'\n"
    )  # fmt: skip


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion(shell):
    process = start(env={**os.environ, "_LMZIP_COMPLETE": f"{shell}_source"})
    out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert b"_LMZIP_COMPLETE" in out


def test_no_command_imports_torch_in_vain(cli):
    write_image(Path("x.png"))
    program = (
        "import sys; from lmzip.cli.app import run\n"
        f"run(['compress', 'x.png', '--model', {cli.model!r}]); run(['info', 'x.lmz'])\n"
        "run(['--help']); print('torch' in sys.modules)"
    )
    process = start_program(program)
    assert process[1].splitlines()[-1] == "False"


def start_program(program: str) -> tuple[int, str]:
    import subprocess

    result = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False
    )
    return result.returncode, result.stdout


@pytest.mark.parametrize(
    ("args", "heavy"),
    [
        ("--help", "numpy constriction PIL safetensors lmzip.native._kernels torch"),
        ("info x.lmz", "constriction PIL safetensors lmzip.native._kernels torch"),
    ],
)
def test_help_and_info_load_nothing_heavy(cli, args, heavy):
    """How long they take is a matter of what they load; `benchmarks/imports.py` measures it."""
    write_image(Path("x.png"))
    cli.compress("x.png")
    script = (
        "import sys\n"
        "from lmzip.cli.app import run\n"
        f"assert run({args.split()!r}) == 0\n"
        f"print('loaded', *({set(heavy.split())!r} & sys.modules.keys()))\n"
    )
    result = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "loaded"


def test_texts_are_shortened_in_the_middle():
    assert shorten("short.png", 20) == "short.png"
    assert shorten("a_very_long_name_of_a_photograph.png", 20) == "a_very...tograph.png"
    assert fit_name("name", 6) == "name  "


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_949, "999.9 kB"), (999_960, "1.0 MB"),
     (12_345_678, "12.3 MB"), (5e12, "5000.0 GB")],
)  # fmt: skip
def test_sizes(size, text):
    assert format_size(size) == text


def test_reports_count_and_own_the_exit_code(capfd):
    report = Report()
    for error in (FileNotFoundError(2, "No such file"), lmzip.DamagedError("bits are wrong")):
        with report.file("x"):
            raise error
    with report.file("x"):
        raise lmzip.FingerprintError("another model")
    assert report.finish() == 3
    assert capfd.readouterr().err == (
        "lmzip: x: No such file\nlmzip: x: bits are wrong\nlmzip: x: another model\n"
    )
    assert len(report.entries) == 3


def test_memory_that_is_not_there_is_no_crash(capfd):
    report = Report()
    with report.file("x"):
        np.empty((1 << 40, 1 << 10))
    assert report.code == 1
    assert capfd.readouterr().err == "lmzip: x: not enough memory\n"
