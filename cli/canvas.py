"""A drawing of lines, rectangles, discs and texts, written as SVG or as PNG."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field

from PIL import Image, ImageDraw, ImageFont

from lmzip.cli.drawing import to_png

Colour = tuple[int, int, int]
Point = tuple[float, float]

_PNG_SCALE = 2  # pixels a unit
_FINER = 3  # a PNG is drawn so many times larger, and reduced: that makes lines smooth
_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}


@dataclass(frozen=True)
class _Line:
    points: Sequence[Point]
    colour: Colour
    width: float


@dataclass(frozen=True)
class _Rectangle:
    corner: Point
    size: Point
    fill: Colour


@dataclass(frozen=True)
class _Disc:
    centre: Point
    radius: float
    fill: Colour


@dataclass(frozen=True)
class _Text:
    place: Point  # on the base line
    text: str
    size: int
    colour: Colour
    anchor: str


@dataclass
class Canvas:
    """Shapes in the sequence in which they are drawn; y grows downwards."""

    width: float
    height: float
    _shapes: list[_Line | _Rectangle | _Disc | _Text] = field(default_factory=list)

    def line(self, points: Sequence[Point], colour: Colour, width: float = 1) -> None:
        self._shapes.append(_Line(points, colour, width))

    def rectangle(self, corner: Point, size: Point, fill: Colour) -> None:
        self._shapes.append(_Rectangle(corner, size, fill))

    def disc(self, centre: Point, radius: float, fill: Colour) -> None:
        self._shapes.append(_Disc(centre, radius, fill))

    def text(
        self, place: Point, text: str, size: int, colour: Colour, anchor: str = "start"
    ) -> None:
        self._shapes.append(_Text(place, text, size, colour, anchor))

    def to_svg(self) -> bytes:
        """Return the drawing as an SVG file."""
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:g}" '
            f'height="{self.height:g}" viewBox="0 0 {self.width:g} {self.height:g}" '
            'font-family="sans-serif">',
            '<rect width="100%" height="100%" fill="#fff"/>',
            *map(_to_svg, self._shapes),
            "</svg>\n",
        ]
        return "\n".join(parts).encode()

    def to_png(self) -> bytes:
        """Return the drawing as a PNG file, with two pixels for each unit."""
        scale = _PNG_SCALE * _FINER
        size = round(self.width) * scale, round(self.height) * scale
        image = Image.new("RGB", size, (255, 255, 255))
        draw = ImageDraw.Draw(image)
        for shape in self._shapes:
            _draw(draw, shape, scale)
        return to_png(image.reduce(_FINER))


def measure_text(text: str, size: int) -> float:
    """Return the width of a text."""
    return ImageFont.load_default(size).getlength(text)


def _to_svg(shape: _Line | _Rectangle | _Disc | _Text) -> str:
    if isinstance(shape, _Line):
        points = " ".join(f"{x:g},{y:g}" for x, y in shape.points)
        return (
            f'<polyline points="{points}" fill="none" stroke="{_hex(shape.colour)}" '
            f'stroke-width="{shape.width:g}" stroke-linecap="round"/>'
        )
    if isinstance(shape, _Rectangle):
        (x, y), (width, height) = shape.corner, shape.size
        return (
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
            f'fill="{_hex(shape.fill)}"/>'
        )
    if isinstance(shape, _Disc):
        (x, y), radius = shape.centre, shape.radius
        return f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{_hex(shape.fill)}"/>'
    x, y = shape.place
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{shape.size}" text-anchor="{shape.anchor}" '
        f'fill="{_hex(shape.colour)}">{html.escape(shape.text)}</text>'
    )


def _draw(draw: ImageDraw.ImageDraw, shape: _Line | _Rectangle | _Disc | _Text, by: int) -> None:
    if isinstance(shape, _Line):
        points = [(x * by, y * by) for x, y in shape.points]
        thickness = round(shape.width * by) | 1  # odd, so that lines and their ends have one middle
        draw.line(points, shape.colour, thickness, "curve")
        for x, y in (points[0], points[-1]):  # round ends, as in SVG
            draw.circle((x, y), (thickness - 1) / 2, shape.colour)
    elif isinstance(shape, _Rectangle):
        (x, y), (width, height) = shape.corner, shape.size
        ends = [(x * by, y * by), ((x + width) * by - 1, (y + height) * by - 1)]
        draw.rectangle(ends, shape.fill)
    elif isinstance(shape, _Disc):
        (x, y), radius = shape.centre, shape.radius
        draw.ellipse(
            [((x - radius) * by, (y - radius) * by), ((x + radius) * by, (y + radius) * by)],
            shape.fill,
        )
    else:
        place = shape.place[0] * by, shape.place[1] * by
        font = ImageFont.load_default(shape.size * by)
        draw.text(place, shape.text, shape.colour, font, _ANCHORS[shape.anchor])


def _hex(colour: Colour) -> str:
    return "#" + "".join(f"{part:02x}" for part in colour)
