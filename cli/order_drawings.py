"""Orders as paths, and the local masks of their pixels: the paper's figures of orders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lmzip import Kernel, Order, make_mask
from lmzip.cli.canvas import Canvas, Colour, Point, measure_text

_TEXT, _GAP, _MARGIN = 13, 24, 20
_PANEL, _SMALLEST_CELL = 168, 6  # units of a path's longer side, and of a pixel in it
_TAP = 5  # units of a tap of a mask
_INK, _FAINT, _GRID = (40, 40, 40), (120, 120, 120), (225, 225, 230)
_START, _END = np.array([30, 90, 200]), np.array([60, 170, 80])  # of a path
_JUMP = (200, 200, 205)
_VISIBLE, _HIDDEN, _CENTRE, _OUTSIDE = (
    (50, 70, 120),
    (228, 230, 236),
    (240, 160, 60),
    (190, 225, 190),
)
_PER_ROW = 4  # paths, where nothing stands beside them


def draw_orders(
    orders: Sequence[Order], height: int, width: int, kernels: Sequence[Kernel] = ()
) -> Canvas:
    """Draw each order as a path, with its masks for each kernel beside it."""
    cell = max(_SMALLEST_CELL, _PANEL // max(height, width))
    path_size = width * cell, height * cell
    masks = [(width * _pitch(kernel), height * _pitch(kernel)) for kernel in kernels]
    titles = [_name_kernel(kernel) for kernel in kernels]
    widest = max(measure_text(str(order), _TEXT) for order in orders)
    wide = [max(path_size[0], widest)]
    wide += [max(mask[0], measure_text(t, _TEXT)) for mask, t in zip(masks, titles, strict=True)]
    tall = max([path_size[1], *(mask[1] for mask in masks)]) + _TEXT + _GAP
    total = sum(wide) + _GAP * (len(wide) - 1)
    per_row = _count_per_row(len(orders), total, tall, 1 if kernels else _PER_ROW)
    rows = -(-len(orders) // per_row)
    legend = _TEXT + _GAP if kernels else 0
    canvas = Canvas(
        2 * _MARGIN
        + max(per_row * (total + _GAP) - _GAP, _legend_width(kernels) if kernels else 0),
        2 * _MARGIN + rows * tall - _GAP + legend,
    )
    for number, order in enumerate(orders):
        left = _MARGIN + number % per_row * (total + _GAP)
        top = _MARGIN + number // per_row * tall
        canvas.text((left, top + _TEXT), str(order), _TEXT, _INK)
        _draw_path(canvas, (left, top + _TEXT + 8), order, (height, width), cell)
        for kernel, title, before in zip(kernels, titles, wide, strict=False):
            left += before + _GAP
            canvas.text((left, top + _TEXT), title, _TEXT, _FAINT)
            _draw_masks(canvas, (left, top + _TEXT + 8), order, (height, width), kernel)
    if kernels:
        _draw_legend(canvas, (_MARGIN, canvas.height - _MARGIN), kernels)
    return canvas


def _count_per_row(count: int, width: float, height: float, usual: int) -> int:
    """Return how many of `count` panels stand side by side: long ones fill about a square."""
    filling = round((count * height / width) ** 0.5)
    if height > 2 * width:
        usual = max(usual, filling)
    elif width > 2 * height:
        usual = min(usual, filling)
    return max(1, min(count, usual))


def _draw_path(
    canvas: Canvas, corner: Point, order: Order, shape: tuple[int, int], cell: int
) -> None:
    """Draw a path from blue to green over a grid of pixels; jumps are thin and grey."""
    (left, top), (height, width) = corner, shape
    for row in range(height + 1):
        y = top + row * cell
        canvas.line([(left, y), (left + width * cell, y)], _GRID)
    for column in range(width + 1):
        x = left + column * cell
        canvas.line([(x, top), (x, top + height * cell)], _GRID)
    rows, columns = np.divmod(order.positions(height, width), width)
    points = [
        (left + (column + 0.5) * cell, top + (row + 0.5) * cell)
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
    ]
    colours = [_shade(i / max(1, len(points) - 1)) for i in range(len(points))]
    steps = list(zip(points, points[1:], colours, strict=False))
    for first, second, _ in steps:
        if max(abs(first[0] - second[0]), abs(first[1] - second[1])) > 1.5 * cell:
            canvas.line([first, second], _JUMP, 0.75)
    for first, second, colour in steps:
        if max(abs(first[0] - second[0]), abs(first[1] - second[1])) <= 1.5 * cell:
            canvas.line([first, second], colour, max(1.5, cell / 7))
    canvas.disc(points[0], max(2.5, cell / 4), colours[0])
    canvas.disc(points[-1], max(1.5, cell / 6), colours[-1])


def _draw_masks(
    canvas: Canvas, corner: Point, order: Order, shape: tuple[int, int], kernel: Kernel
) -> None:
    """Draw, at the place of each pixel, the taps that it sees."""
    height, width = shape
    mask = make_mask(order.ranks(height, width), kernel)
    pitch = _pitch(kernel)
    for tap, (down, right) in enumerate(kernel.offsets()):
        across, along = divmod(tap, kernel.width)
        for row in range(height):
            for column in range(width):
                x = corner[0] + column * pitch + along * _TAP
                y = corner[1] + row * pitch + across * _TAP
                inside = 0 <= row + down < height and 0 <= column + right < width
                colour = _OUTSIDE if not inside else _VISIBLE if mask[tap, row, column] else _HIDDEN
                if (down, right) == (0, 0) and kernel.first:
                    colour = _CENTRE
                canvas.rectangle((x, y), (_TAP - 0.5, _TAP - 0.5), colour)


def _draw_legend(canvas: Canvas, place: Point, kernels: Sequence[Kernel]) -> None:
    x, y = place
    for colour, text in _legend(kernels):
        canvas.rectangle((x, y - _TEXT + 3), (_TEXT - 3, _TEXT - 3), colour)
        canvas.text((x + _TEXT + 2, y), text, _TEXT, _INK)
        x += _TEXT + 2 + measure_text(text, _TEXT) + _GAP


def _legend(kernels: Sequence[Kernel]) -> list[tuple[Colour, str]]:
    """Return the colours that occur; first layers alone do not see the pixel itself."""
    centre = [(_CENTRE, "the pixel itself")] if any(kernel.first for kernel in kernels) else []
    return [(_VISIBLE, "seen"), (_HIDDEN, "hidden"), *centre, (_OUTSIDE, "outside")]


def _legend_width(kernels: Sequence[Kernel]) -> float:
    texts = [text for _, text in _legend(kernels)]
    return sum(_TEXT + 2 + measure_text(text, _TEXT) + _GAP for text in texts) - _GAP


def _pitch(kernel: Kernel) -> int:
    """Return the units from one pixel's mask to the next."""
    return max(kernel.height, kernel.width) * _TAP + 4


def _name_kernel(kernel: Kernel) -> str:
    layer = "first layer" if kernel.first else "later layers"
    dilation = f", dilation {kernel.dilation}" if kernel.dilation > 1 else ""
    return f"masks of {kernel.height}x{kernel.width}{dilation}, {layer}"


def _shade(share: float) -> Colour:
    red, green, blue = np.rint(_START + share * (_END - _START)).astype(int).tolist()
    return red, green, blue
