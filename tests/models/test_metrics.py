"""Metrics files survive a kill; the plot shows what it is given."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from lmzip.models.metrics import MetricsFile, Reporter, Row, draw_losses, read_rows

ROWS = [
    Row(step, 16 * step, 0.5 * step, 3 + 1 / step, 0.002, 4.25 if step == 3 else None)
    for step in range(1, 6)
]


def test_rows_come_back(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    metrics = MetricsFile(path)
    for row in ROWS:
        metrics.append(row)
    assert read_rows(path) == ROWS
    assert path.read_text().startswith("step,images,seconds,train_bpd,rate,held_out_bpd\n1,16,0.5")


def test_rows_after_the_checkpoint_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    metrics = MetricsFile(path)
    for row in ROWS:
        metrics.append(row)
    with open(path, "a") as file:
        file.write("6,96,3.")  # killed while writing
    metrics = MetricsFile(path, step=3)
    metrics.append(ROWS[3])
    assert read_rows(path) == metrics.rows == ROWS[:4]


@pytest.mark.parametrize("count", [0, 1, 5])
def test_plot(tmp_path: Path, count: int) -> None:
    path = tmp_path / "loss.png"
    draw_losses(ROWS[:count], path, "a run")
    with Image.open(path) as image:
        image.load()
        frame = image.crop((81, 51, 869, 479))
        colours = frame.getcolors(1 << 20)
        assert image.size == (900, 540)
    assert colours is not None
    found = {colour for _, colour in colours}
    assert ((0x9D, 0xB7, 0xD5) in found) == (count > 1)
    assert ((0xC8, 0x43, 0x1F) in found) == (count > 2)


def test_lines_of_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter(5) as report:
        for row in (ROWS[0], ROWS[1], None, ROWS[2]):
            report(row)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [  # the first, and whatever has a held-out figure
        "step 1, 16 images, 0 s, train 4.0000 bpd",
        "step 3, 48 images, 2 s, train 3.3333 bpd, held out 4.2500",
    ]
