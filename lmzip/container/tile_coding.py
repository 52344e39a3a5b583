"""The tiles of a picture as chunks: each by the network, or classically where that is smaller.

Large tiles are coded by a network that adapts to them (FORMAT.md, "Adaptation"). A small one is at
its end before anything is learnt, and coding it takes longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from lmzip.classical import encode_classical
from lmzip.container.image_file import Chunk
from lmzip.container.methods import METHODS
from lmzip.container.scaling import Scaling
from lmzip.container.scaling_choice import number_planes
from lmzip.container.tiles import MAX_TILE_PIXELS, choose_grid, cut_tiles
from lmzip.cost import cost_of_bytes
from lmzip.errors import InputError
from lmzip.network.adaptation import Manner, choose_manner
from lmzip.network.registry import Choice
from lmzip.options import BEST, FAST, Options
from lmzip.parallel.encode_job import Coded, EncodeJob
from lmzip.parallel.workers import run_jobs
from lmzip.picture import Mode, Picture, Samples
from lmzip.progress import Progress

# Single tiles are tried classically where that may win: if they are flat, or mere noise.
FLAT, NOISY = 1.5, 1.0  # bits per sample: so many at most, or so many less than there are
LARGE = 128 * 128  # pixels from which on adaptation pays

Place = tuple[slice, slice, list[int]]  # rows, columns, channels


def encode_tiles(
    picture: Picture,
    choice: Choice,
    scalings: Sequence[Scaling],
    options: Options,
    progress: Progress | None,
) -> tuple[list[Chunk], int]:
    """Code every tile and group by the network, or classically where that is smaller.

    Returns the chunks and their cost.
    """
    height, width = picture.height, picture.width
    if choice.order.permutation is not None and height * width > MAX_TILE_PIXELS:
        raise InputError(f"a custom order is for up to 2^26 pixels, not {height}x{width}")
    planes, jobs, ways = [], [], []
    for _, plane, job in cut_planes(picture, choice, scalings, options):
        planes.append(plane)
        ways.append(_list_ways(job, options))
        jobs += ways[-1]
    coded = iter(run_jobs(jobs, options.threads, progress))
    chunks, cost = [], 0
    for plane, tried in zip(planes, ways, strict=True):
        results = [next(coded)[0] for _ in tried]
        job, result = min(zip(tried, results, strict=True), key=lambda pair: len(pair[1].data))
        chunk, units = _choose_smaller(plane, picture.mode, job, result, options)
        chunks.append(chunk)
        cost += units
    return chunks, cost


def cut_planes(
    picture: Picture, choice: Choice, scalings: Sequence[Scaling], options: Options
) -> Iterator[tuple[Place, Samples, EncodeJob]]:
    """Yield where each tile and group lies, its samples, and the plain way to code them."""
    model, order = choice
    grid = choose_grid(picture.height, picture.width, order)
    for tile in cut_tiles(picture.height, picture.width, grid):
        samples = picture.samples[tile.slices]
        for group, channels in enumerate(picture.mode.groups):
            numbers, precision = number_planes(samples[None], picture.mode, scalings, group)
            plane = np.ascontiguousarray(samples[..., channels])
            job = EncodeJob(model, options.backend, order, numbers, (1,), precision)
            yield (*tile.slices, list(channels)), plane, job


def choose_adaptation(job: EncodeJob) -> Manner | None:
    """Return how a network adapts to a tile; None if it cannot, or is not likely to gain by it."""
    if job.pixels < LARGE or job.precision is not None:
        return None
    return choose_manner(job.model.network)


def _list_ways(plain: EncodeJob, options: Options) -> list[EncodeJob]:
    """Return how to code a tile: plainly, or adaptively, or both to see which is smaller."""
    manner = choose_adaptation(plain)
    if options.effort == FAST or manner is None:
        return [plain]
    adaptive = replace(plain, manner=manner)
    return [plain, adaptive] if options.effort == BEST else [adaptive]


def _choose_smaller(
    plane: Samples, mode: Mode, job: EncodeJob, coded: Coded, options: Options
) -> tuple[Chunk, int]:
    """Return the network's chunk of a tile or a smaller classical one, and its cost."""
    chunk = Chunk(METHODS[job.manner], coded.data)
    depth = job.precision.depth if job.precision else 8
    bits = 8 * len(chunk.data) / plane.size
    if not options.forced and not FLAT < bits < depth - NOISY:
        mode = mode.plane(plane.shape[2])
        classical = Chunk(*encode_classical(plane, mode, thorough=False))
        if len(classical.data) < len(chunk.data):
            return classical, cost_of_bytes(len(classical.data))
    return chunk, coded.cost
