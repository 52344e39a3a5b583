"""Grids of small images with labels: enlarged without smoothing, and no label over another."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from lmzip.cli.drawing import LONGEST, choose_zoom

Pixels = npt.NDArray[np.uint8]  # (height, width, channels): grey, colour, or colour and alpha

_SIDE = 128  # pixels that an image should have, at least on its longer side
_TALLEST = 2400  # pixels of a drawing in which elongated images are enlarged more
_TEXT, _LINE, _TITLE, _GAP, _MARGIN = 13, 19, 26, 12, 16
_PAPER, _INK, _FAINT = (255, 255, 255), (40, 40, 40), (110, 110, 110)
# Where nothing is, a chequerboard of small squares, which cannot be taken for large pixels.
_BLANK, _BLANK_SIDE = (np.array([200, 200, 208]), np.array([216, 216, 224])), 4


@dataclass(frozen=True)
class GridRow:
    """Images of one shape, each below its caption, and a line of text above them all or ""."""

    label: str
    captions: Sequence[str]
    cells: Sequence[Pixels]


@dataclass(frozen=True)
class _Layout:
    """Where things stand: `columns` images in a line, and a new line if a row has more."""

    zoom: int
    size: tuple[int, int]  # of an image: height, width
    step: int  # from an image to the next one in its line
    columns: int

    @property
    def line_height(self) -> int:
        return _LINE + self.size[0] + _GAP

    def row_height(self, row: GridRow) -> int:
        return _LINE * bool(row.label) + self.line_height * -(-len(row.cells) // self.columns)


def draw_grid(title: str, rows: Sequence[GridRow], *, square: bool = False) -> Image.Image:
    """Draw rows of images below a title. Rows that are too long go on in a new line.

    `square` begins new lines so that a row takes about as much height as width.
    """
    font = ImageFont.load_default(_TEXT)
    # A column is as wide as its images and captions, so that captions cannot meet.
    widest = max(int(font.getlength(text)) + 1 for row in rows for text in row.captions)
    layout = _choose_layout(rows, widest, square)
    texts = (title, *(row.label for row in rows))
    inner_width = max(
        layout.columns * layout.step - _GAP, *(int(font.getlength(text)) + 1 for text in texts)
    )
    inner_height = _TITLE + sum(map(layout.row_height, rows)) - _GAP
    image = Image.new("RGB", (2 * _MARGIN + inner_width, 2 * _MARGIN + inner_height), _PAPER)
    draw = ImageDraw.Draw(image)
    draw.text((_MARGIN, _MARGIN), title, _INK, font)
    top = _MARGIN + _TITLE
    for row in rows:
        draw.text((_MARGIN, top), row.label, _INK, font)
        first = top + _LINE * bool(row.label)
        for number, (caption, cell) in enumerate(zip(row.captions, row.cells, strict=True)):
            line, column = divmod(number, layout.columns)
            left, upper = _MARGIN + column * layout.step, first + line * layout.line_height
            room = layout.step - _GAP
            draw.text((left + room // 2, upper), caption, _FAINT, font, "ma")
            left += (room - layout.size[1]) // 2
            image.paste(enlarge(cell, layout.zoom), (left, upper + _LINE))
        top += layout.row_height(row)
    return image


def _choose_layout(rows: Sequence[GridRow], widest: int, square: bool) -> _Layout:
    """Return a layout for images and captions up to `widest`.

    Elongated images are enlarged until they are easy to see, unless the drawing gets too tall.
    """
    height, width = rows[0].cells[0].shape[:2]
    usual = max(1, -(-_SIDE // max(height, width)))
    for zoom in range(choose_zoom(height, width, usual), usual - 1, -1):
        layout = _lay_out(rows, zoom, widest, square)
        if sum(map(layout.row_height, rows)) <= _TALLEST:
            break
    return layout


def _lay_out(rows: Sequence[GridRow], zoom: int, widest: int, square: bool) -> _Layout:
    height, width = (side * zoom for side in rows[0].cells[0].shape[:2])
    count = max(len(row.cells) for row in rows)
    step = max(width, widest) + _GAP
    wanted = round((count * height / step) ** 0.5) if square else count
    columns = max(1, min(count, wanted, (LONGEST + _GAP) // step))
    lines = -(-count // columns)
    return _Layout(zoom, (height, width), step, -(-count // lines))  # lines about equally long


def enlarge(pixels: Pixels, zoom: int) -> Image.Image:
    """Return pixels as a picture in colour, each a square; those without alpha a chequerboard."""
    large = pixels.repeat(zoom, axis=0).repeat(zoom, axis=1)
    if large.shape[2] != 4:
        return Image.fromarray(np.broadcast_to(large, (*large.shape[:2], 3)).copy())
    rows, columns = np.indices(large.shape[:2]) // _BLANK_SIDE
    board = np.where(((rows + columns) % 2 == 0)[..., None], *_BLANK)
    return Image.fromarray(np.where(large[..., 3:] == 0, board, large[..., :3]).astype(np.uint8))


def blank_out(pixels: Pixels, missing: npt.NDArray[np.bool_]) -> Pixels:
    """Return an image in colour and alpha, which is 0 where a pixel (H, W) is missing."""
    colours = np.broadcast_to(pixels, (*pixels.shape[:2], 3))
    return np.dstack([colours, np.where(missing, 0, 255).astype(np.uint8)])


def to_animation(frames: Sequence[Image.Image], milliseconds: int) -> bytes:
    """Return an animated PNG, which rests on its last frame."""
    file = io.BytesIO()
    durations = [milliseconds] * (len(frames) - 1) + [2000]
    frames[0].save(file, "PNG", save_all=True, append_images=frames[1:], duration=durations, loop=0)
    return file.getvalue()
