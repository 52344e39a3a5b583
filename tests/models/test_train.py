"""Training learns, resumes exactly, decays from a checkpoint, and works in several processes."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image

from lmzip.cli.train import command
from lmzip.errors import InputError
from lmzip.models.batches import MaskCache
from lmzip.models.checkpoint import TrainingError
from lmzip.models.data_files import DataError
from lmzip.models.metrics import Row, read_rows
from lmzip.models.recipe import Recipe, parse_recipe
from lmzip.models.train import RunOptions, Trainer
from lmzip.models.weights import load_network, load_notes

RECIPE = """
name = "test"
orders = ["raster", "s-curve:flip"]
[network]
width = 6
first = 3
mixtures = 2
blocks = [{ hidden = 6 }]
[optimiser]
kind = "muon"
rate = 2e-3
clip = 5.0
[schedule]
steps = 12
warmup = 2
decay = "linear"
[average]
ema = 0.9
[[data]]
kind = "folder"
path = "pictures"
crop = 8
batch = 2
flip = true
noise = 1.0
[eval]
kind = "folder"
path = "pictures"
crop = 8
batch = 4
every = 5
[log]
every = 3
checkpoint_minutes = 1000.0
checkpoint_steps = 4
"""


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def data(tmp_path: Path) -> list[Path]:
    """A data root with a folder of six smooth pictures."""
    folder = tmp_path / "data" / "pictures"
    folder.mkdir(parents=True)
    rows, columns = np.mgrid[0:12, 0:10]
    for number in range(6):
        waves = np.sin(rows / 3 + number) + np.cos(columns / (2 + number))
        pixels = np.stack([128 + 30 * waves + 10 * c for c in range(3)], 2)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number}.png")
    return [tmp_path / "data"]


@pytest.fixture
def recipe() -> Recipe:
    return parse_recipe(RECIPE)


class KilledError(Exception):
    """Stands for a process that ends without warning."""


def kill_after(step: int) -> Callable[[Row | None], None]:
    remaining = [step]

    def report(row: Row | None) -> None:
        remaining[0] -= 1
        if not remaining[0]:
            raise KilledError

    return report


def figures(out: Path) -> list[Row]:
    """A run's metrics without the times."""
    return [replace(row, seconds=0.0) for row in read_rows(out / "metrics.csv")]


def assert_same_weights(first: torch.nn.Module, second: torch.nn.Module) -> None:
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_killed_run_continues_with_the_very_same_losses(
    tmp_path: Path, data: list[Path], recipe: Recipe
) -> None:
    whole = Trainer(recipe, data, tmp_path / "whole")
    whole.run()
    for step in (2, 5, 7):  # the run is killed 2 steps in, then 5, and so on; it saves at 4, 8
        with pytest.raises(KilledError):
            Trainer(recipe, data, tmp_path / "parts").run(kill_after(step))
    last = Trainer(recipe, data, tmp_path / "parts")
    assert last.progress.step == 8
    last.run()
    rows = figures(tmp_path / "whole")
    assert [row.step for row in rows] == [3, 5, 6, 9, 10, 12]
    assert figures(tmp_path / "parts") == rows
    assert_same_weights(whole.network, last.network)
    assert_same_weights(whole.average, last.average)
    assert last.progress.images == whole.progress.images == 24


def test_a_run_that_was_stopped_in_between_has_the_same_regular_rows(
    tmp_path: Path, data: list[Path], recipe: Recipe
) -> None:
    Trainer(recipe, data, tmp_path / "whole").run()
    Trainer(recipe, data, tmp_path / "parts", RunOptions(steps=7)).run()
    stopped = Trainer(recipe, data, tmp_path / "parts", RunOptions(minutes=0))
    stopped.run()  # makes one step before it looks at the clock
    assert stopped.progress.step == 8
    last = Trainer(recipe, data, tmp_path / "parts")
    last.run()
    whole = {row.step: row.train_bpd for row in figures(tmp_path / "whole")}
    parts = {row.step: row.train_bpd for row in figures(tmp_path / "parts")}
    assert parts.keys() - whole.keys() == {7, 8}
    assert {step: parts[step] for step in whole} == whole


def test_training_learns(tmp_path: Path, data: list[Path], recipe: Recipe) -> None:
    for kind in ("muon", "adam"):
        out = tmp_path / kind
        longer = replace(
            recipe,
            optimiser=replace(recipe.optimiser, kind=kind),
            schedule=replace(recipe.schedule, steps=60),
            data=(replace(recipe.data[0], noise=0.0),),
        )
        Trainer(longer, data, out).run()
        rows = figures(out)
        assert rows[-1].train_bpd < rows[0].train_bpd - 0.3
        held_out = [row.held_out_bpd for row in rows if row.held_out_bpd is not None]
        assert held_out[-1] < held_out[0] - 0.3
        assert (out / "loss.png").stat().st_size > 1000


def test_a_decay_leaves_the_constant_run_alone(
    tmp_path: Path, data: list[Path], recipe: Recipe
) -> None:
    Trainer(recipe, data, tmp_path / "whole").run()
    Trainer(recipe, data, tmp_path / "run", RunOptions(steps=8)).run()
    checkpoint = tmp_path / "run" / "checkpoint.pt"
    before = checkpoint.read_bytes()
    options = RunOptions(start=checkpoint, decay=4)
    with pytest.raises(KilledError):
        Trainer(recipe, data, tmp_path / "decay", replace(options)).run(kill_after(1))
    one_step = replace(options, steps=9)
    Trainer(recipe, data, tmp_path / "decay", one_step).run()
    decay = Trainer(recipe, data, tmp_path / "decay", options)  # goes on with its own checkpoint
    assert decay.progress.step == 9
    decay.run()
    assert decay.progress.step == 12
    rates = [round(row.rate / 2e-3, 6) for row in figures(tmp_path / "decay")]
    assert rates == [1, 0.75, 0.25]  # steps 9, 10 and 12
    assert checkpoint.read_bytes() == before
    run = Trainer(recipe, data, tmp_path / "run")
    run.run()
    assert figures(tmp_path / "run")[-1] == figures(tmp_path / "whole")[-1]


def test_the_recipes_own_decay_keeps_the_end_of_the_constant_phase(
    tmp_path: Path, data: list[Path], recipe: Recipe
) -> None:
    schedule = replace(recipe.schedule, steps=5, decay_steps=2)
    short = replace(recipe, schedule=schedule)
    trainer = Trainer(short, data, tmp_path / "out")
    trainer.run()
    assert trainer.progress.step == 7
    on = Trainer(recipe, data, tmp_path / "on", RunOptions(start=tmp_path / "out" / "constant.pt"))
    assert on.progress.step == 5
    on.run()
    Trainer(recipe, data, tmp_path / "whole").run()
    assert figures(tmp_path / "on")[-1] == figures(tmp_path / "whole")[-1]


def test_weights_alone_are_enough_to_start(
    tmp_path: Path, data: list[Path], recipe: Recipe
) -> None:
    first = Trainer(recipe, data, tmp_path / "first")
    first.run()
    weights = tmp_path / "first" / "weights.safetensors"
    assert load_notes(weights)["step"] == 12
    assert_same_weights(load_network(weights), first.average)
    second = Trainer(recipe, data, tmp_path / "second", RunOptions(init=weights))
    assert second.progress.step == 0
    assert_same_weights(second.network, first.average)
    other = parse_recipe(RECIPE.replace("width = 6", "width = 7"))
    with pytest.raises(TrainingError, match=r"width=6.*width=7"):
        Trainer(other, data, tmp_path / "third", RunOptions(init=weights))


def test_held_out_bpd_is_of_the_averaged_weights(
    tmp_path: Path, data: list[Path], recipe: Recipe
) -> None:
    trainer = Trainer(recipe, data, tmp_path / "out")
    trainer.run()
    assert trainer.held_out is not None
    masks = MaskCache().get(recipe.orders[0], 8, 8)
    with torch.no_grad():
        nats = trainer.average.nll(trainer.held_out, masks).sum(dtype=torch.float64)
    bpd = float(nats) / (6 * 3 * 64 * math.log(2))
    assert figures(tmp_path / "out")[-1].held_out_bpd == pytest.approx(bpd, rel=1e-6)


def test_snapshots_are_averaged_at_the_end(
    tmp_path: Path, data: list[Path], recipe: Recipe
) -> None:
    average = replace(recipe.average, snapshots=2, every=5)
    trainer = Trainer(replace(recipe, average=average), data, tmp_path / "out")
    trainer.run()
    files = sorted((tmp_path / "out" / "snapshots").iterdir())
    assert [file.stem for file in files] == ["000000005", "000000010"]
    first, second = (load_network(file) for file in files)
    mean = load_network(tmp_path / "out" / "average.safetensors")
    for a, b, m in zip(first.parameters(), second.parameters(), mean.parameters(), strict=True):
        torch.testing.assert_close(m, (a + b) / 2)


def test_a_loss_that_is_no_number_leaves_the_checkpoint_alone(
    tmp_path: Path, data: list[Path], recipe: Recipe
) -> None:
    trainer = Trainer(recipe, data, tmp_path / "out", RunOptions(steps=4))
    trainer.run()
    before = (tmp_path / "out" / "checkpoint.pt").read_bytes()
    trainer = Trainer(recipe, data, tmp_path / "out")
    torch.nn.init.constant_(next(trainer.network.parameters()), math.nan)
    with pytest.raises(TrainingError, match="the loss is nan at step 5"):
        trainer.run()
    assert (tmp_path / "out" / "checkpoint.pt").read_bytes() == before


def test_data_must_fit_the_network(tmp_path: Path, data: list[Path], recipe: Recipe) -> None:
    shallow = replace(recipe, data=(replace(recipe.data[0], bits=5),))
    with pytest.raises(InputError, match=r"folder has 3 channels of 32 levels.* takes 3 of 256"):
        Trainer(shallow, data, tmp_path / "out")
    with pytest.raises(DataError, match="no pictures in"):
        Trainer(recipe, [tmp_path], tmp_path / "out")


def test_a_colour_network_learns_grey_images_too(
    tmp_path: Path, data: list[Path], recipe: Recipe
) -> None:
    grey = replace(recipe.data[0], grey=True)
    both = replace(recipe, data=(recipe.data[0], grey))
    rows: list[Row | None] = []
    trainer = Trainer(both, data, tmp_path / "out", RunOptions(steps=6))
    shapes = {trainer.batches.draw(step)[0].shape[1] for step in range(6)}
    trainer.run(rows.append)
    assert shapes == {1, 3}
    assert all(row.train_bpd < 9 for row in rows if row is not None)


def test_command(tmp_path: Path, data: list[Path]) -> None:
    path = tmp_path / "small.toml"
    path.write_text(RECIPE)
    arguments = [str(path), "--data", str(data[0]), "-o", str(tmp_path / "out"), "--steps", "3"]
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert result.stderr.startswith("step 3, 6 images")
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        *("checkpoint.pt", "loss.png", "metrics.csv", "weights.safetensors")
    ]


def start(
    *arguments: str | Path, cwd: Path, launcher: tuple[str, ...] = ()
) -> subprocess.Popen[str]:
    module = [*launcher, "-m", "lmzip.cli", "train"]
    return subprocess.Popen(
        [sys.executable, *module, *map(str, arguments), "--threads", "1"],
        cwd=cwd,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.slow
def test_real_signals(tmp_path: Path, data: list[Path]) -> None:
    """SIGKILL loses only what came after the checkpoint, SIGTERM nothing."""
    path = tmp_path / "long.toml"
    path.write_text(RECIPE.replace("steps = 12", "steps = 200"))
    for number in (signal.SIGKILL, signal.SIGTERM):
        process = start(path, "--data", data[0], "--out", "parts", cwd=tmp_path)
        deadline = time.monotonic() + 60
        checkpoint = tmp_path / "parts" / "checkpoint.pt"
        seen = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        while not checkpoint.exists() or checkpoint.stat().st_mtime_ns == seen:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == (0 if number == signal.SIGTERM else -number), errors
    recipe = parse_recipe(path.read_text())
    parts = Trainer(recipe, data, tmp_path / "parts")
    assert 0 < parts.progress.step < 200
    parts.run()
    whole = Trainer(recipe, data, tmp_path / "whole")
    whole.run()
    assert_same_weights(parts.average, whole.average)
    regular = [row for row in figures(tmp_path / "parts") if row.step % 3 == 0 or row.step % 5 == 0]
    assert regular == figures(tmp_path / "whole")


@pytest.mark.slow
def test_two_processes_do_the_work_of_one(tmp_path: Path, data: list[Path]) -> None:
    """Two processes with batches of 2 see what one sees in batches of 4, and learn the same."""
    for file in (data[0] / "pictures").iterdir():  # exactly a crop: no random part remains
        with Image.open(file) as image:
            image.crop((0, 0, 8, 8)).save(file)
    text = RECIPE.replace("flip = true\nnoise = 1.0\n", "")
    path = tmp_path / "two.toml"
    path.write_text(text)
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    process = start(path, "--data", data[0], "--out", "two", cwd=tmp_path, launcher=launcher)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    single = parse_recipe(text.replace("batch = 2", "batch = 4"))
    one = Trainer(single, data, tmp_path / "one")
    one.run()
    first, second = figures(tmp_path / "one"), figures(tmp_path / "two")
    assert [row.images for row in first] == [row.images for row in second]
    for a, b in zip(first, second, strict=True):
        assert a.train_bpd == pytest.approx(b.train_bpd, rel=1e-4)
    two = load_network(tmp_path / "two" / "weights.safetensors")
    for p, q in zip(one.average.parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)
