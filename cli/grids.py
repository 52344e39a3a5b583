"""Grids of small images with labels: enlarged without smoothing, and no label over another."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

Pixels = npt.NDArray[np.uint8]  # (height, width, channels)

_SIDE = 128  # pixels that a cell should have, at least on its longer side
_TEXT, _GAP, _MARGIN = 13, 10, 16
_PAPER, _INK, _FAINT = (255, 255, 255), (40, 40, 40), (120, 120, 120)
_BLANK = np.array([200, 200, 208]), np.array([216, 216, 224])  # a fine chequerboard: nothing there


@dataclass(frozen=True)
class GridRow:
    """A line of text, and images of one shape below it."""

    label: str
    cells: Sequence[Pixels]


def draw_grid(title: str, columns: Sequence[str], rows: Sequence[GridRow]) -> Image.Image:
    """Draw rows of images below a title and the names of the columns, which may be empty."""
    font = ImageFont.load_default(_TEXT)
    height, width = rows[0].cells[0].shape[:2]
    zoom = max(1, -(-_SIDE // max(height, width)))
    count = max(len(row.cells) for row in rows)
    # A column is as wide as its image and its label, so that labels cannot meet.
    widest = max((int(font.getlength(text)) + 1 for text in columns), default=0)
    step = max(width * zoom, widest) + _GAP
    line = _TEXT + 6
    each = [line * bool(row.label) + height * zoom + _GAP for row in rows]
    text_width = max(int(font.getlength(text)) for text in (title, *(row.label for row in rows)))
    size = (
        2 * _MARGIN + max(count * step - _GAP, text_width),
        2 * _MARGIN + line + line * bool(columns) + sum(each) - _GAP,
    )
    image = Image.new("RGB", size, _PAPER)
    draw = ImageDraw.Draw(image)
    draw.text((_MARGIN, _MARGIN), title, _INK, font)
    top = _MARGIN + line
    for number, text in enumerate(columns):
        centre = _MARGIN + number * step + (step - _GAP) // 2
        draw.text((centre, top), text, _FAINT, font, "ma")
    top += line * bool(columns)
    for row, used in zip(rows, each, strict=True):
        if row.label:
            draw.text((_MARGIN, top), row.label, _INK, font)
        for number, cell in enumerate(row.cells):
            left = _MARGIN + number * step + (step - _GAP - width * zoom) // 2
            image.paste(enlarge(cell, zoom), (left, top + line * bool(row.label)))
        top += used
    return image


def enlarge(pixels: Pixels, zoom: int) -> Image.Image:
    """Return pixels as a picture in colour, each of them a square."""
    colours = np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels
    return Image.fromarray(colours.repeat(zoom, axis=0).repeat(zoom, axis=1))


def blank_out(pixels: Pixels, missing: npt.NDArray[np.bool_]) -> Pixels:
    """Return an image in colour whose missing pixels (H, W) are a faint chequerboard."""
    colours = np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels
    rows, columns = np.indices(missing.shape)
    board = np.where(((rows + columns) % 2 == 0)[..., None], *_BLANK)
    return np.where(missing[..., None], board, colours).astype(np.uint8)


def to_animation(frames: Sequence[Image.Image], milliseconds: int) -> bytes:
    """Return an animated PNG, which rests on its last frame."""
    file = io.BytesIO()
    durations = [milliseconds] * (len(frames) - 1) + [2000]
    frames[0].save(file, "PNG", save_all=True, append_images=frames[1:], duration=durations, loop=0)
    return file.getvalue()
