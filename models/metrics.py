"""What a training run reports: a CSV file, lines or a bar on stderr, and a plot as PNG."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any

import click
from PIL import Image, ImageDraw, ImageFont

from lmzip.whole_files import replace_file

_LINE_SECONDS = 30.0  # between two lines of progress, away from a terminal


@dataclass(frozen=True)
class Row:
    """One row of metrics; `train_bpd` is the mean since the row before."""

    step: int
    images: int
    seconds: float
    train_bpd: float
    rate: float
    held_out_bpd: float | None = None

    def __str__(self) -> str:
        text = f"step {self.step}, {self.images} images, {self.seconds:.0f} s"
        text += f", train {self.train_bpd:.4f} bpd"
        return text if self.held_out_bpd is None else f"{text}, held out {self.held_out_bpd:.4f}"


class MetricsFile:
    """A CSV file of rows that a resumed run continues from its checkpoint's step."""

    def __init__(self, path: Path, step: int = 0) -> None:
        """Keep the rows up to `step`: later ones will be computed again."""
        self.path = path
        self.rows = [row for row in read_rows(path) if row.step <= step] if path.exists() else []
        with replace_file(path) as file:
            file.write(_format(self.rows, header=True).encode())

    def append(self, row: Row) -> None:
        self.rows.append(row)
        with open(self.path, "a", encoding="utf-8", newline="") as file:
            file.write(_format([row], header=False))


def read_rows(path: Path) -> list[Row]:
    """Read back what `MetricsFile` wrote; a last line that a kill cut short is left out."""
    rows = []
    with open(path, encoding="utf-8", newline="") as file:
        for line in file.read().split("\n")[1:-1]:
            step, images, seconds, train_bpd, rate, held_out = line.split(",")
            held_out_bpd = float(held_out) if held_out else None
            numbers = float(seconds), float(train_bpd), float(rate)
            rows.append(Row(int(step), int(images), *numbers, held_out_bpd))
    return rows


def _format(rows: Sequence[Row], *, header: bool) -> str:
    lines = [",".join(field.name for field in fields(Row))] if header else []
    for row in rows:
        lines.append(",".join("" if value is None else str(value) for value in astuple(row)))
    return "".join(line + "\n" for line in lines)


class Reporter:
    """Progress on stderr: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, steps: int) -> None:
        self._last = -math.inf
        self._row: Row | None = None
        self._bar: Any = None
        if sys.stderr.isatty():
            self._bar = click.progressbar(
                length=steps,
                file=sys.stderr,
                show_pos=True,
                item_show_func=lambda row: "" if row is None else str(row),
            )

    def __enter__(self) -> Reporter:
        if self._bar is not None:
            self._bar.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.__exit__(kind, error, traceback)

    def __call__(self, row: Row | None) -> None:
        """Count one step; show its row of metrics if it has one."""
        self._row = row or self._row
        if self._bar is not None:
            self._bar.update(1, self._row)
        elif row is not None and (
            row.held_out_bpd is not None or time.monotonic() - self._last >= _LINE_SECONDS
        ):
            self._last = time.monotonic()
            print(row, file=sys.stderr, flush=True)


# The plot is drawn at twice its size and then reduced, for smooth lines.
_ZOOM = 2
_SIZE = 900, 540
_FRAME = 80, 50, 870, 480  # left, top, right, bottom
_TRAIN, _HELD_OUT, _GRID, _INK = "#9db7d5", "#c8431f", "#e4e4e4", "#333333"


def draw_losses(rows: Sequence[Row], path: Path, title: str = "") -> None:
    """Write a plot of the training and the held-out bpd over the images seen, on a log scale."""
    image = Image.new("RGB", (_SIZE[0] * _ZOOM, _SIZE[1] * _ZOOM), "white")
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(14 * _ZOOM)
    train = [(float(row.images), row.train_bpd) for row in rows]
    held_out = [(float(r.images), r.held_out_bpd) for r in rows if r.held_out_bpd is not None]
    if train:
        place = _draw_axes(draw, font, train + held_out)
        draw.line(_thin([place(*point) for point in train]), _TRAIN, 2 * _ZOOM, joint="curve")
        draw.line([place(*point) for point in held_out], _HELD_OUT, 2 * _ZOOM, joint="curve")
        for point in held_out:
            x, y = place(*point)
            draw.ellipse((x - 6, y - 6, x + 6, y + 6), _HELD_OUT)
    left, top, right, bottom = (edge * _ZOOM for edge in _FRAME)
    draw.rectangle((left, top, right, bottom), outline=_INK, width=_ZOOM)
    draw.text((left, top - 20), title, _INK, font, "ls")
    draw.text((right - 280, top - 20), "train", _TRAIN, font, "rs")
    draw.text((right, top - 20), "held out (averaged)", _HELD_OUT, font, "rs")
    draw.text(((left + right) / 2, bottom + 96), "images seen", _INK, font, "ms")
    draw.text((20, top - 20), "bpd", _INK, font, "ls")
    with replace_file(path) as file:
        image.resize(_SIZE, Image.Resampling.BOX).save(file, "PNG")


class _Place:
    """Maps (images, bpd) to the plot: images by their logarithm."""

    def __init__(self, images: tuple[float, float], bpd: tuple[float, float]) -> None:
        self.images, self.bpd = images, bpd

    def __call__(self, images: float, bpd: float) -> tuple[float, float]:
        left, top, right, bottom = (edge * _ZOOM for edge in _FRAME)
        low, high = math.log(self.images[0]), math.log(self.images[1])
        across = (math.log(max(images, self.images[0])) - low) / (high - low)
        up = (bpd - self.bpd[0]) / (self.bpd[1] - self.bpd[0])
        return left + across * (right - left), bottom - up * (bottom - top)


def _draw_axes(
    draw: ImageDraw.ImageDraw, font: Any, points: Sequence[tuple[float, float]]
) -> _Place:
    """Draw a grid that holds all points, with its numbers, and return the way into it."""
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    first, last = max(1.0, first), max(2.0, 2 * first, last)
    low, high = min(y for _, y in points), max(y for _, y in points)
    spacing = _nice_spacing(max(0.01, (high - low) / 6))
    low, high = math.floor(low / spacing) * spacing, math.ceil(high / spacing + 1e-9) * spacing
    place = _Place((first, last), (low, high))
    for i in range(round((high - low) / spacing) + 1):
        x, y = place(first, low + i * spacing)
        draw.line((x, y, place(last, low)[0], y), _GRID, _ZOOM)
        decimals = max(0, -math.floor(math.log10(spacing)))
        draw.text((x - 12, y), f"{low + i * spacing:.{decimals}f}", _INK, font, "rm")
    for exponent in range(math.floor(math.log10(first)), math.ceil(math.log10(last)) + 1):
        for images in (10**exponent, 2 * 10**exponent, 5 * 10**exponent):
            if first <= images <= last:
                x, y = place(images, low)
                draw.line((x, y, x, place(images, high)[1]), _GRID, _ZOOM)
                draw.text((x, y + 40), _short(images), _INK, font, "ms")
    return place


def _thin(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Replace the points of each few columns of the plot by their mean."""
    columns: dict[int, list[tuple[float, float]]] = {}
    for x, y in points:
        columns.setdefault(int(x) // (3 * _ZOOM), []).append((x, y))
    return [
        (sum(x for x, _ in some) / len(some), sum(y for _, y in some) / len(some))
        for some in columns.values()
    ]


def _nice_spacing(least: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)


def _short(number: float) -> str:
    for unit, letter in ((1e6, "M"), (1e3, "K")):
        if number >= unit:
            return f"{number / unit:g}{letter}"
    return f"{number:g}"
