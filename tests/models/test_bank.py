"""A bank keeps the tunings that help, and what it writes is read by the codec."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from support.cli_runner import write_image
from support.networks import compact_network, smooth_images, write_model

from lmzip.container.tuning_bank import read_bank, tune_by_bank
from lmzip.models import bank
from lmzip.network.registry import load_model
from lmzip.picture import MODES, Picture


def test_only_tunings_that_help_beyond_the_others_are_kept() -> None:
    plain = np.full(4, 1000)
    costs = np.stack(
        [
            plain,
            np.array([900, 1000, 1100, 1000]),  # the best for the first
            np.array([903, 999, 1100, 1000]),  # nearly as good as that
            np.array([1200, 1200, 990, 1200]),  # the best for the third
            plain + 1,  # never the best
        ],
        1,
    )
    assert bank.keep_useful(costs) == [0, 2]
    assert bank.keep_useful(plain[:, None]) == []


def test_a_bank_is_learnt_from_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_model(compact_network(name="small"), tmp_path)
    for number in range(3):
        image = 255 - smooth_images(1, 70, 66, noise=1.0, seed=number)[0][:, :, ::-1]
        picture = Picture(np.ascontiguousarray(image), MODES["RGB"])
        write_image(tmp_path / "inverted" / f"{number}.png", picture)
    monkeypatch.setattr(bank, "CROP", 48)
    monkeypatch.setattr(bank, "KINDS", ["fine-grain"])
    monkeypatch.setattr("lmzip.models.tune.PASSES", 12)
    monkeypatch.setattr("lmzip.models.tune.FEWEST", 2)
    monkeypatch.setattr("lmzip.models.tune.WARMUP", 4)
    output, folder = tmp_path / "small.tunings", tmp_path / "inverted"
    arguments = f"bank {path} --data {folder} -o {output} --crops 8 --rounds 1 --minutes 9"
    monkeypatch.setattr(sys, "argv", arguments.split())
    bank.main()
    told = capsys.readouterr().out
    assert "inverted         -" in told
    model = load_model(path)
    entries = read_bank(model)
    assert entries
    assert {entry.name for entry in entries} <= {"inverted", "fine-grain"}
    assert all(tune_by_bank(model, entry.number) for entry in entries)
