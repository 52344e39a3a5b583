"""Drawings: bit maps with a scale, orders as paths, thumbnails."""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from lmzip import BitCosts, Order, Picture
from lmzip.cli.colours import Bits, colour_bits
from lmzip.formats import image_from_picture

_SMALLEST, _LARGEST_ZOOM = 480, 24  # pixels of the longer side, pixels a pixel
_VISIBLE, LONGEST = 32, 1600  # pixels that a shorter side needs, and that a longer one may take
_MARGIN, _BAR, _TEXT = 16, 14, 13
_PAPER, _INK = (255, 255, 255), (40, 40, 40)
_PATH_START, _PATH_END = np.array([90, 200, 255]), np.array([190, 255, 120])
_PATH_PIXELS = 64 * 64  # with more, a path is drawn on a coarser grid
_COARSE, _THIN = 24, 4  # cells of the longer side of that grid, and at least of the shorter


def draw_bit_map(bit_map: BitCosts, top: float, *, path: bool = False) -> Image.Image:
    """Draw a bit map with its scale below, small ones enlarged; `path` adds the order."""
    bits = bit_map.pixels
    height, width = bits.shape
    zoom = choose_zoom(height, width, min(_LARGEST_ZOOM, _SMALLEST // max(height, width)))
    colours = colour_bits(bits, top).repeat(zoom, axis=0).repeat(zoom, axis=1)
    if path:
        colours = _draw_paths(colours, bit_map, zoom)
    text = (
        f"{bit_map.model}, {bit_map.order}: {bit_map.total / 8:,.0f} bytes, {bit_map.bpd:.3f} bpd"
    )
    font = ImageFont.load_default(_TEXT)
    needed = max(width * zoom, 320, int(font.getlength(text)) + 1)
    image = Image.new(
        "RGB", (needed + 2 * _MARGIN, height * zoom + _BAR + 3 * _TEXT + 4 * _MARGIN + 4), _PAPER
    )
    image.paste(Image.fromarray(colours), (_MARGIN + (needed - width * zoom) // 2, _MARGIN))
    _draw_scale(image, (_MARGIN, _MARGIN + height * zoom + _MARGIN), needed, top, text, font)
    return image


def choose_zoom(height: int, width: int, usual: int) -> int:
    """Return how many times to enlarge a picture: more than usual if it is very elongated.

    Else nobody could see its shorter side; but the longer one stays within LONGEST pixels.
    """
    visible = -(-_VISIBLE // min(height, width))
    return max(1, usual, min(visible, LONGEST // max(height, width)))


def _draw_scale(
    image: Image.Image,
    corner: tuple[int, int],
    length: int,
    top: float,
    text: str,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
) -> None:
    """Draw a bar of all colours, ticks with their unit below them, and a line of text."""
    left, upper = corner
    ramp = np.broadcast_to(np.linspace(0, top, length), (_BAR, length))
    image.paste(Image.fromarray(colour_bits(ramp, top)), corner)
    draw = ImageDraw.Draw(image)
    for tick in range(5):
        bits, x = top * tick / 4, left + round((length - 1) * tick / 4)
        draw.line([(x, upper + _BAR), (x, upper + _BAR + 4)], _INK)
        anchor = "la" if tick == 0 else "ra" if tick == 4 else "ma"
        draw.text((x, upper + _BAR + 6), f"{bits:g}", _INK, font, anchor)
    # On a line of its own: beside the last tick, it would run into the one before.
    draw.text((left + length // 2, upper + _BAR + _TEXT + 8), "bits a pixel", _INK, font, "ma")
    draw.text((left, upper + _BAR + 2 * _TEXT + 18), text, _INK, font)


def _draw_paths(
    colours: npt.NDArray[np.uint8], bit_map: BitCosts, zoom: int
) -> npt.NDArray[np.uint8]:
    """Draw the order into every tile, from blue to green; jumps are thin lines."""
    image = Image.fromarray(colours)
    draw = ImageDraw.Draw(image)
    for tile, _ in bit_map.tiles:
        (top, bottom), (left, right) = tile.rows, tile.columns
        points = trace_order(bit_map.order, bottom - top, right - left)
        points = (points + np.array([top, left])) * zoom
        lengths = np.hypot(*np.diff(points, axis=0).T)
        step = float(np.min(lengths, initial=max(image.size)))
        width = max(1, round(step / 8))
        shares = np.linspace(0, 1, max(1, len(lengths)))[:, None]
        shades = np.rint(_PATH_START + shares * (_PATH_END - _PATH_START)).astype(int).tolist()
        line = [(x, y) for y, x in points.tolist()]
        for number, length in enumerate(lengths):
            ends, shade = line[number : number + 2], tuple(shades[number])
            if length > 1.5 * step:
                draw.line(ends, shade, 1)
                continue
            if step > 4:  # an outline, because the map may be as bright as the path
                draw.line(ends, (0, 0, 0), width + 2)
            draw.line(ends, shade, width)
        (x, y), radius = line[0], max(2, step / 4)
        draw.ellipse([(x - radius, y - radius), (x + radius, y + radius)], (255, 255, 255))
    return np.asarray(image)


def trace_order(order: Order, height: int, width: int) -> npt.NDArray[np.float64]:
    """Return the points (rows, columns) that an order visits, first to last: pixels' centres.

    A large picture is traced on a coarser grid of the same shape, unless the order is custom.
    """
    rows, columns = height, width
    if height * width > _PATH_PIXELS and order.permutation is None:
        scale = max(_COARSE / max(height, width), min(1, _THIN / min(height, width)))
        rows, columns = max(1, round(height * scale)), max(1, round(width * scale))
    row, column = np.divmod(order.positions(rows, columns), columns)
    return np.stack([(row + 0.5) * height / rows, (column + 0.5) * width / columns], axis=1)


def shrink_bits(bits: Bits, side: int) -> Bits:
    """Average bits (H, W) over boxes until the longer side is at most `side`."""
    longer = max(bits.shape)
    if longer <= side:
        return bits
    size = (max(1, bits.shape[1] * side // longer), max(1, bits.shape[0] * side // longer))
    image = Image.fromarray(bits.astype(np.float32))
    return np.asarray(image.resize(size, Image.Resampling.BOX), np.float64)


def make_thumbnail(picture: Picture, side: int) -> Image.Image:
    """Return a picture as 8-bit colours whose longer side is at most `side`."""
    if picture.mode.bits == 16:
        samples = _show_bits_in_use(picture)
        image = Image.fromarray(samples[..., 0] if samples.shape[2] == 1 else samples)
    else:
        image = image_from_picture(picture)
    image = image.convert("RGB" if image.mode == "CMYK" else image.mode)
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    return image


def _show_bits_in_use(picture: Picture) -> npt.NDArray[np.uint8]:
    """Return deep samples as 8 bits: the highest that are in use, else 12 bits would look black.

    Colours and alpha have bits of their own, since programs like to make alpha 16 bits deep.
    """
    shown = np.empty(picture.samples.shape, np.uint8)
    for channels in picture.mode.groups:
        samples = picture.samples[..., channels]
        bits = max(8, int(samples.max()).bit_length())
        shown[..., channels] = samples >> (bits - 8)
    return shown


def to_png(image: Image.Image) -> bytes:
    """Return an image as a PNG file."""
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()
