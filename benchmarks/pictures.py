"""Draws the pictures of the README: sizes as a chart, and a photograph beside its bit map.

    python benchmarks/pictures.py

The chart shows the figures of RESULTS.md, so it can never disagree with the tables. The photograph
comes with scikit-image (the portrait of Eileen Collins, by NASA, in the public domain).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont
from skimage import data

from lmzip.bit_costs import BitCosts, measure_bits
from lmzip.cli.colours import colour_bits
from lmzip.network.registry import load_model
from lmzip.order.orders import parse_order
from lmzip.picture import MODES, Picture

FOLDER = Path(__file__).parent
IMAGES = FOLDER.parent / "docs" / "images"

# Of the chart, in its own units.
WIDTH, LEFT, RIGHT = 760, 110, 70
TITLE_HEIGHT, BAR, GAP = 46, 18, 7
# The efforts of one codec count as one: "WebP m4", "WebP m6" and "JPEG XL e9" lose their last word.
_EFFORT = re.compile(r" [em]\d+$")
_STYLE = """
text { font-family: "Segoe UI", Helvetica, Arial, sans-serif; font-size: 13px; fill: #1f2328; }
.title { font-weight: 600; font-size: 14px; }
.note { fill: #59636e; font-size: 12px; }
.paper { fill: #ffffff; }
.peer { fill: #9aa4b0; }
.ours { fill: #c43a4e; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; }
  .note { fill: #9198a1; }
  .paper { fill: #0d1117; }
  .peer { fill: #59636e; }
  .ours { fill: #f2791e; }
}
"""

# Of the photograph and its bit map, in pixels.
CROP = slice(0, 360), slice(60, 420)
MARGIN, SCALE = 12, 12
TOP = 30  # bits per pixel: the brightest colour


@dataclass(frozen=True)
class Bar:
    """One codec: its bytes as a share of PNG's, and its bits per dimension."""

    codec: str
    share: float
    bpd: float

    @property
    def is_lmzip(self) -> bool:
        return self.codec.startswith("lmzip")


@dataclass(frozen=True)
class Panel:
    """One data set, largest files first."""

    title: str
    bars: list[Bar]


def read_panels(results: str) -> list[Panel]:
    """Read the data sets of RESULTS.md that were measured with PNG among the peers."""
    panels = []
    for section in re.split(r"^## ", results, flags=re.MULTILINE)[1:]:
        rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:1] == "|"]
        if rows and "of PNG" in rows[0]:
            codec, share, bpd = (rows[0].index(name) for name in ("codec", "of PNG", "bpd"))
            bars = [
                Bar(row[codec], float(row[share]), float(row[bpd]))
                for row in rows[2:]
                if "-" not in (row[share], row[bpd])
            ]
            if bars:
                panels.append(Panel(section.splitlines()[0], _keep_smallest(bars)))
    return panels


def _keep_smallest(bars: Sequence[Bar]) -> list[Bar]:
    """Keep the effort of each codec that makes the smallest files."""
    smallest: dict[str, Bar] = {}
    for bar in sorted(bars, key=lambda bar: -bar.share):
        name = _EFFORT.sub("", bar.codec)
        smallest[name] = Bar(name, bar.share, bar.bpd)
    return sorted(smallest.values(), key=lambda bar: -bar.share)


def draw_chart(panels: Sequence[Panel]) -> str:
    """Draw bars as an SVG that follows light and dark."""
    parts: list[str] = []
    y = 8
    longest = max(bar.share for panel in panels for bar in panel.bars)
    for panel in panels:
        parts.append(f'<text class="title" x="14" y="{y + 20}">{escape(panel.title)}</text>')
        parts.append(
            f'<text class="note" x="14" y="{y + 37}">Size of the files, PNG = 100 % '
            "(bits per colour sample); every codec at its smallest setting</text>"
        )
        y += TITLE_HEIGHT
        for bar in panel.bars:
            length = (WIDTH - LEFT - RIGHT - 40) * bar.share / longest
            middle = y + BAR - 5
            parts += [
                f'<text x="{LEFT - 8}" y="{middle}" text-anchor="end">{escape(bar.codec)}</text>',
                f'<rect class="{"ours" if bar.is_lmzip else "peer"}" x="{LEFT}" y="{y}" '
                f'width="{length:.1f}" height="{BAR}" rx="2"/>',
                f'<text x="{LEFT + length + 8:.1f}" y="{middle}">{100 * bar.share:.0f} % '
                f'<tspan class="note">({bar.bpd:.3f})</tspan></text>',
            ]
            y += BAR + GAP
        y += 14
    label = "Sizes of lossless image files: " + "; ".join(
        f"{panel.title}: " + ", ".join(f"{bar.codec} {100 * bar.share:.0f} %" for bar in panel.bars)
        for panel in panels
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" '
        f'height="{y}" role="img" aria-label="{escape(label)}">\n<style>{_STYLE}</style>\n'
        f'<rect class="paper" width="{WIDTH}" height="{y}" rx="6"/>\n' + "\n".join(parts) + "\n"
        "</svg>\n"
    )


def draw_bits(photograph: npt.NDArray[np.uint8], costs: BitCosts) -> Image.Image:
    """Put a photograph beside the cost of each of its pixels, with a scale and a caption."""
    bits = np.rint(costs.pixels)  # whole bits make a smaller file
    font = ImageFont.load_default(14)
    height, width = photograph.shape[:2]
    image = Image.new(
        "RGB", (2 * width + 3 * MARGIN, height + SCALE + 62 + 2 * MARGIN), (255, 255, 255)
    )
    image.paste(Image.fromarray(photograph), (MARGIN, MARGIN))
    right = width + 2 * MARGIN
    image.paste(Image.fromarray(colour_bits(bits, TOP)), (right, MARGIN))
    lower = height + 2 * MARGIN
    ramp = np.broadcast_to(np.linspace(0, TOP, width), (SCALE, width))
    image.paste(Image.fromarray(colour_bits(ramp, TOP)), (right, lower))
    draw = ImageDraw.Draw(image)
    ink = (31, 35, 40)
    for text, place, anchor in (
        ("0", right, "la"),
        (f"{TOP // 2}", right + width // 2, "ma"),
        (f"{TOP} bits per pixel", right + width - 1, "ra"),
    ):
        draw.text((place, lower + SCALE + 5), text, ink, font, anchor)
    draw.text((MARGIN, lower + 1), "A photograph: 24 bits per pixel ...", ink, font)
    mean = costs.total / (height * width)
    caption = f"... and what lmzip pays for each: {mean:.1f} bits on average"
    draw.text((right, lower + SCALE + 27), caption, ink, font)
    return image


@click.command()
@click.option("--results", default=FOLDER / "RESULTS.md", type=click.Path(path_type=Path))
@click.option("--output", default=IMAGES, type=click.Path(path_type=Path), metavar="DIR")
@click.option("--model", default="photo", help="Which model the bit map is of.")
def main(results: Path, output: Path, model: str) -> None:
    """Draw the README's pictures."""
    output.mkdir(parents=True, exist_ok=True)
    panels = read_panels(results.read_text(encoding="utf-8"))
    if not panels:
        raise click.UsageError(f"{results} has no table of a data set")
    (output / "sizes.svg").write_text(draw_chart(panels), encoding="utf-8")
    photograph = np.ascontiguousarray(data.astronaut()[CROP])
    costs = measure_bits(
        Picture(photograph, MODES["RGB"]), load_model(model), parse_order("raster")
    )
    draw_bits(photograph, costs).save(output / "bits.png", optimize=True)
    click.echo(f"{output}: sizes.svg, bits.png")


if __name__ == "__main__":
    main()
