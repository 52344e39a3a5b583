"""From a picture to an image file: tiles, the choice of a coding, and the classical fallback.

With model and order left to lmzip a file is no larger, but for its header, than the smallest
classical encoding. The classical encoders run quickly first, and thoroughly only where they seem
able to win (with effort "best", always); a sample of the picture tells which network to use and
whether any is worth running.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lmzip.classical import NETWORK, encode_classical
from lmzip.container.checksums import checksum_of_samples
from lmzip.container.image_file import Chunk, Coding, ImageHeader, write_image
from lmzip.container.shared_fields import refer_to
from lmzip.container.tiles import MAX_TILE_PIXELS, choose_grid, cut_tiles
from lmzip.cost import cost_of_bytes, to_bits
from lmzip.errors import InputError
from lmzip.network.registry import Model
from lmzip.options import BEST, Options
from lmzip.order.orders import Order
from lmzip.parallel.jobs import Coded, EncodeJob
from lmzip.parallel.workers import run_jobs
from lmzip.picture import PLANE_MODES, Picture, Samples
from lmzip.progress import Progress
from lmzip.selection import SMALL, candidate_codings, choose_by_sample, take_sample

HOPELESS = 1.5  # a network that takes this many times the quick classical size is not run
# Trying hard, classical encoders save a few per cent of a photograph, and up to half of a drawing.
# So they are tried hard if the quick attempt comes this close to the network:
CLOSE, CLOSE_DRAWING = 1.08, 2.5
# Of a tile, a classical encoding is tried where it is likely: in flat ones, and in noise.
FLAT, NOISY = 1.5, 7.0  # bits per sample
DRAWING = 2.0  # bits per sample below which a picture is taken for a drawing


def compress_picture(
    picture: Picture, options: Options | None = None, progress: Progress | None = None
) -> bytes:
    """Return the image file of a picture."""
    options = options or Options()
    samples, mode = picture.samples, picture.mode
    codings = candidate_codings(options, mode) if mode.groups else []
    quick = None
    if not options.forced or not codings:
        small = picture.height * picture.width <= SMALL
        quick = Chunk(*encode_classical(samples, mode, thorough=small or not codings))
    coding = _choose_coding(picture, codings, quick, options)
    if coding is None:
        assert quick is not None
        best = min(quick, Chunk(*encode_classical(samples, mode, thorough=True)), key=_size)
        return _write_classical(picture, best)

    by_network, header = _encode_tiles(picture, *coding, options, progress)
    size = sum(map(_size, by_network))
    if quick is not None and _size(quick) < _closeness(quick, picture, options) * size:
        best = min(quick, Chunk(*encode_classical(samples, mode, thorough=True)), key=_size)
        classical = _write_classical(picture, best)
        if len(classical) < size:
            return classical
    return write_image(header, by_network, checksum_of_samples(samples))


def _size(chunk: Chunk) -> int:
    return len(chunk.data)


def _closeness(quick: Chunk, picture: Picture, options: Options) -> float:
    if options.effort == BEST:
        return math.inf
    drawing = 8 * _size(quick) < DRAWING * picture.samples.size
    return CLOSE_DRAWING if drawing else CLOSE


def _write_classical(picture: Picture, chunk: Chunk) -> bytes:
    header = ImageHeader(
        picture.mode, picture.height, picture.width, (1, 1), None, picture.metadata
    )
    return write_image(header, [chunk], checksum_of_samples(picture.samples))


def _choose_coding(
    picture: Picture,
    codings: Sequence[tuple[Model, Order]],
    quick: Chunk | None,
    options: Options,
) -> tuple[Model, Order] | None:
    """Return the model and order with the cheapest sample; None if no network is worth running."""
    if not codings or (len(codings) == 1 and quick is None):
        return codings[0] if codings else None
    whole = picture.samples[..., picture.mode.groups[0]]
    # A custom order fits the whole picture only; the best one is that of all of a small picture.
    small = choose_grid(picture.height, picture.width) == (1, 1)
    bound = (options.order == BEST and small) or codings[0][1].permutation is not None
    crops = whole[None] if bound else take_sample(whole)
    coding, cost = choose_by_sample(crops, codings, options)
    if quick is not None and not bound:
        bits = to_bits(cost) * (whole.size / crops.size)
        if bits > HOPELESS * 8 * _size(quick):
            return None
    return coding


def _encode_tiles(
    picture: Picture,
    model: Model,
    order: Order,
    options: Options,
    progress: Progress | None,
) -> tuple[list[Chunk], ImageHeader]:
    """Code every tile and group by the network, or classically where that is smaller."""
    height, width = picture.height, picture.width
    if order.permutation is not None and height * width > MAX_TILE_PIXELS:
        raise InputError(f"a custom order is for up to 2^26 pixels, not {height}x{width}")
    grid = choose_grid(height, width, order)
    planes = [
        np.ascontiguousarray(picture.samples[tile.slices][..., channels])
        for tile in cut_tiles(height, width, grid)
        for channels in picture.mode.groups
    ]
    jobs = [EncodeJob(model.path, options.backend, order, plane[None], (1,)) for plane in planes]
    coded = [results[0] for results in run_jobs(jobs, options.threads, progress)]
    chunks, cost = [], 0
    for plane, result in zip(planes, coded, strict=True):
        chunk, units = _smaller(plane, result, options)
        chunks.append(chunk)
        cost += units
    coding = Coding(refer_to(model), order, cost)
    return chunks, ImageHeader(picture.mode, height, width, grid, coding, picture.metadata)


def _smaller(plane: Samples, coded: Coded, options: Options) -> tuple[Chunk, int]:
    """Return the network's chunk of a tile or a smaller classical one, and its cost."""
    chunk, cost = Chunk(NETWORK, coded.data), coded.cost
    bits = 8 * _size(chunk) / plane.size
    if not options.forced and not FLAT < bits < NOISY:
        classical = Chunk(*encode_classical(plane, PLANE_MODES[plane.shape[2]], thorough=False))
        if _size(classical) < _size(chunk):
            return classical, cost_of_bytes(_size(classical))
    return chunk, cost
