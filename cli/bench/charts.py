"""Charts as inline SVG: codecs by rate and speed, images by their bits.

A chart is drawn for some 400 pixels of width and scales with its column; colours come from the
page's style sheet by class (`ours`, `reference`, `peer`), so that it can follow light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

WIDTH, HEIGHT = 400, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 14, 14, 44  # around the plot
_LEGEND = 16  # above the plot of a histogram
_TEXT = 11.0  # height of the letters
_LETTER = 0.56  # their mean width, in heights


@dataclass(frozen=True)
class Point:
    """A codec in a plot: x must be positive."""

    label: str
    x: float
    y: float
    kind: str  # a class of the style sheet


@dataclass(frozen=True)
class Series:
    """One value per image."""

    label: str
    values: Sequence[float]
    kind: str


@dataclass(frozen=True)
class _Scale:
    """Maps values to pixels, linearly or by their logarithms."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        if self.logarithmic:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def draw_scatter(points: Sequence[Point], title: str, x_title: str, y_title: str) -> str:
    """Plot points over a logarithmic axis of speed; each is labelled."""
    xs, ys = [point.x for point in points], [point.y for point in points]
    low, high = 10 ** math.floor(math.log10(min(xs))), 10 ** math.ceil(math.log10(max(xs)))
    high = high if high > low else 10 * low
    across = _Scale(low, high, _LEFT, WIDTH - _RIGHT, logarithmic=True)
    bounds = round_bounds(min(ys), max(ys))
    down = _Scale(bounds[0], bounds[1], HEIGHT - _BOTTOM, _TOP)
    decades = range(round(math.log10(low)), round(math.log10(high)) + 1)
    parts = _draw_axes(
        across, down, [10.0**d for d in decades], ticks_between(*bounds), x_title, y_title
    )
    labels = place_labels([(p.label, across(p.x), down(p.y)) for p in points])
    for point, (x, y, anchor) in zip(points, labels, strict=True):
        name = escape(point.label)
        hint = f"{name}: {point.y:.3f} bpd, {point.x:.3g} MB/s"
        parts.append(
            f'<g class="{point.kind}"><circle cx="{across(point.x):.1f}" cy="{down(point.y):.1f}" '
            f'r="5"><title>{hint}</title></circle>'
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{name}</text></g>'
        )
    return _wrap(title, parts)


def draw_histogram(series: Sequence[Series], title: str, x_title: str) -> str:
    """Draw how many images have which value, one outline per series."""
    everything = np.concatenate([np.asarray(s.values, np.float64) for s in series])
    low, high = round_bounds(float(everything.min()), float(everything.max()))
    bins = int(np.clip(2 * math.sqrt(len(series[0].values)), 8, 40))
    edges = np.linspace(low, high, bins + 1)
    counts = [np.histogram(s.values, edges)[0] for s in series]
    tallest = max(int(c.max()) for c in counts)
    ceiling = round_bounds(0, tallest)[1]
    across = _Scale(low, high, _LEFT, WIDTH - _RIGHT)
    down = _Scale(0, ceiling, HEIGHT - _BOTTOM, _TOP + _LEGEND)
    heights = [tick for tick in ticks_between(0, ceiling) if tick == round(tick)]
    parts = _draw_axes(across, down, ticks_between(low, high), heights, x_title, "images")
    for one, count in zip(series, counts, strict=True):
        path = [f"M{across(low):.1f} {down(0):.1f}"]
        for left, right, value in zip(edges[:-1], edges[1:], count, strict=True):
            path.append(
                f"L{across(left):.1f} {down(value):.1f}L{across(right):.1f} {down(value):.1f}"
            )
        path.append(f"L{across(high):.1f} {down(0):.1f}")
        parts.append(
            f'<path class="area {one.kind}" d="{"".join(path)}">'
            f"<title>{escape(one.label)}</title></path>"
        )
    return _wrap(title, parts + _draw_legend(series))


def _draw_legend(series: Sequence[Series]) -> list[str]:
    """Name the series in a row above the plot."""
    parts, x = [], float(_LEFT)
    for one in series:
        parts.append(
            f'<g class="{one.kind}"><rect x="{x:.1f}" y="{_TOP - 6}" width="9" height="9"/>'
            f'<text x="{x + 14:.1f}" y="{_TOP + 3}">{escape(one.label)}</text></g>'
        )
        x += 34 + 1.1 * _LETTER * _TEXT * len(one.label)
    return parts


def round_bounds(low: float, high: float) -> tuple[float, float]:
    """Return round numbers around a range, some distance from its ends."""
    step = _tick_step(low, high)
    margin = 0.04 * (high - low)
    first = math.floor((low - margin) / step) * step
    first = first if low < 0 else max(0.0, first)
    last = math.ceil((high + margin) / step) * step
    return first, last if last > first else first + step


def ticks_between(low: float, high: float) -> list[float]:
    """Return round numbers from low to high, some five of them."""
    step = _tick_step(low, high)
    first = math.ceil(low / step - 1e-9)
    return [round(step * i, 10) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _tick_step(low: float, high: float) -> float:
    width = max(high - low, 1e-3 * max(abs(high), 1e-6))
    raw = width / 5
    power: float = 10.0 ** math.floor(math.log10(raw))
    return next(power * m for m in (1, 2, 5, 10) if power * m >= raw * 0.999)


def place_labels(points: Sequence[tuple[str, float, float]]) -> list[tuple[float, float, str]]:
    """Return x, y and anchor of each label: beside its point, over no point and no other label.

    If there is no free place near a point, its label goes to the right.
    """
    circles = [(x - 6, y - 6, x + 6, y + 6) for _, x, y in points]
    boxes: list[tuple[float, float, float, float]] = []
    placed: list[tuple[float, float, str]] = []
    for number, (text, x, y) in enumerate(points):
        width = _LETTER * _TEXT * len(text)
        others = circles[:number] + circles[number + 1 :] + boxes
        candidates = [
            place
            for far in (0.0, 12.0, 24.0, 36.0)
            for place in (
                (x + 9, y + 4 + far, "start"),
                (x + 9, y + 4 - far, "start"),
                (x - 9, y + 4 + far, "end"),
                (x - 9, y + 4 - far, "end"),
                (x, y - 10 - far, "middle"),
                (x, y + 18 + far, "middle"),
            )
        ]
        for place in candidates:
            box = _box(*place, width)
            inside = box[0] >= _LEFT and box[2] <= WIDTH - 2 and box[1] >= 0
            if inside and box[3] <= HEIGHT - _BOTTOM and not any(_meet(box, o) for o in others):
                break
        else:
            place = candidates[0]
        boxes.append(_box(*place, width))
        placed.append(place)
    return placed


def _box(x: float, y: float, anchor: str, width: float) -> tuple[float, float, float, float]:
    left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
    return left, y - _TEXT, left + width, y + 3


def _meet(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    across = one[0] < other[2] and other[0] < one[2]
    return across and one[1] < other[3] and other[1] < one[3]


def _draw_axes(
    across: _Scale,
    down: _Scale,
    x_ticks: Sequence[float],
    y_ticks: Sequence[float],
    x_title: str,
    y_title: str,
) -> list[str]:
    bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    parts = ['<g class="axes">']
    for tick in x_ticks:
        x = across(tick)
        parts.append(f'<line x1="{x:.1f}" y1="{down.end}" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 15}" text-anchor="middle">{tick:g}</text>')
    for tick in y_ticks:
        y = down(tick)
        parts.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    middle = (_LEFT + right) / 2
    parts.append(
        f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_title)}</text>'
    )
    y = (_TOP + bottom) / 2
    parts.append(
        f'<text transform="translate(12 {y}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_title)}</text></g>"
    )
    return parts


def _wrap(title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )
