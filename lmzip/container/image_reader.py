"""From an image file back to the picture, or to a region of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from lmzip.classical import BY_NETWORK, JPEG2000, decode_classical, estimate_memory
from lmzip.container.binary import Reader
from lmzip.container.checksums import checksum_of_samples
from lmzip.container.image_file import (
    CHECKSUM_BYTES,
    Chunk,
    close_image,
    read_chunk,
    read_chunks,
    read_closing_checksum,
    read_image_header,
)
from lmzip.container.image_header import ImageHeader
from lmzip.container.methods import MANNERS
from lmzip.container.model_reference import ModelReference
from lmzip.container.scaling import Scaling
from lmzip.container.tiles import Tile, find_tile
from lmzip.container.tuned_models import find_network
from lmzip.errors import DamagedError, FormatError, InputError
from lmzip.limits import NETWORK_PIXEL, Limits
from lmzip.network.adaptation import Manner, can_adapt
from lmzip.network.registry import Choice, Model
from lmzip.parallel.decode_job import DecodeJob
from lmzip.parallel.workers import count_threads, run_jobs
from lmzip.picture import Mode, Picture, Samples
from lmzip.progress import Progress

# Tiles that are decoded in step: the more pixels a step has, the less time is lost around its
# matrix products. Four gain a third over one; eight a sixth more, for twice the memory.
TOGETHER = 4


@dataclass(frozen=True)
class Region:
    """A rectangle of pixels."""

    top: int
    left: int
    height: int
    width: int

    @property
    def slices(self) -> tuple[slice, slice]:
        """The rows and columns as indices of an array."""
        bottom, right = self.top + self.height, self.left + self.width
        return slice(self.top, bottom), slice(self.left, right)

    def check_within(self, height: int, width: int) -> None:
        """Raise InputError unless the region is a part of an image."""
        inside = 0 <= self.top < self.top + self.height <= height
        if not (inside and 0 <= self.left < self.left + self.width <= width):
            raise InputError(
                f"region top={self.top} left={self.left} height={self.height} width={self.width} "
                f"does not lie within {height}x{width} pixels"
            )


@dataclass(frozen=True)
class _Place:
    """The pixels and channels that a chunk holds."""

    tile: Tile
    channels: tuple[int, ...]
    scaling: Scaling | None  # of deep samples, if a network codes them

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        return self.tile.height, self.tile.width, len(self.channels)

    def overlaps(self, region: Region) -> bool:
        rows, columns = self.tile.rows, self.tile.columns
        return (
            rows[0] < region.top + region.height
            and region.top < rows[1]
            and columns[0] < region.left + region.width
            and region.left < columns[1]
        )


@dataclass(frozen=True)
class _Piece:
    """One chunk, and where it belongs."""

    chunk: Chunk
    place: _Place

    @property
    def by_network(self) -> bool:
        return self.chunk.method in BY_NETWORK

    @property
    def manner(self) -> Manner | None:
        """How a network adapts to it, if it does."""
        return MANNERS[self.chunk.method]


def decompress_picture(
    data: bytes,
    *,
    region: Region | None = None,
    model: str | Path | None = None,
    threads: int = 0,
    backend: str = "auto",
    progress: Progress | None = None,
    limits: Limits | None = None,
    shared: Sequence[ModelReference] = (),
) -> Picture:
    """Return the picture of an image file, or a region of it.

    The checksum of the pixels is compared when all of them are decoded; for a region, those of its
    chunks are. Raises LimitError before it takes memory or time beyond the limits. `shared` are the
    models of the archive that holds the file, if any does.
    """
    reader = Reader(data, limits=limits)
    header = read_image_header(reader)
    whole = Region(0, 0, header.height, header.width)
    if region is not None:
        region.check_within(header.height, header.width)
    # Only all of a sealed file shows whether it is right; it is a single chunk anyway.
    wanted = whole if region is None or header.sealed else region
    chunks = read_chunks(reader, header, lambda number: _place(header, number).overlaps(wanted))
    checksum = read_closing_checksum(reader)
    places = [_place(header, number) for number in range(len(chunks))]
    pieces = [_Piece(c, p) for c, p in zip(chunks, places, strict=True) if p.overlaps(wanted)]
    shape = wanted.height, wanted.width, header.mode.channels
    threads = _check_pieces(header, pieces, wanted, threads, reader.limits)
    samples: Samples = np.empty(shape, header.mode.dtype)
    find = partial(_find_choice, header, model, shared)
    for piece, values in _decode_pieces(header, pieces, find, threads, backend, progress):
        _paste(samples, piece.place, values, wanted)
    if wanted is whole and _close(reader, header, samples) != checksum:
        raise DamagedError("checksum mismatch of the pixels (file is damaged)")
    if region is not None and wanted is whole:
        samples = samples[region.slices].copy()
    return Picture(samples, header.mode, header.metadata)


def salvage_picture(
    data: bytes,
    *,
    model: str | Path | None = None,
    threads: int = 0,
    limits: Limits | None = None,
    shared: Sequence[ModelReference] = (),
) -> tuple[Picture, list[str]]:
    """Return what is whole of a damaged image file, with zeros elsewhere, and what is lost.

    The header must be whole. Each chunk is decoded by itself; after one whose length is damaged,
    nothing can be found.
    """
    reader = Reader(data, limits=limits)
    header = read_image_header(reader)
    shape = header.height, header.width, header.mode.channels
    whole = Region(0, 0, header.height, header.width)
    pieces, losses = [], []
    for number in range(header.chunks):
        place = _place(header, number)
        try:
            pieces.append(_Piece(read_chunk(reader, header, f"chunk {number + 1}"), place))
        except DamagedError as error:
            losses.append(_describe_loss(place, error))
    threads = _check_pieces(header, pieces, whole, threads, reader.limits)
    samples: Samples = np.zeros(shape, header.mode.dtype)
    for piece in pieces:
        try:
            find = partial(_find_choice, header, model, shared)
            ((_, values),) = _decode_pieces(header, [piece], find, threads, "numpy", None)
            _paste(samples, piece.place, values, whole)
        except DamagedError as error:
            losses.append(_describe_loss(piece.place, error))
    try:
        right = read_closing_checksum(reader) == _close(reader, header, samples)
    except FormatError as error:
        losses.append(str(error))
    else:
        if not right and not losses:
            losses.append("some pixels: their checksum does not match")
    return Picture(samples, header.mode, header.metadata), losses


def _close(reader: Reader, header: ImageHeader, samples: Samples) -> int:
    """Return what the checksum at the end of a file must be."""
    return close_image(header, reader.data[:-CHECKSUM_BYTES], checksum_of_samples(samples))


def _describe_loss(place: _Place, error: DamagedError) -> str:
    rows, columns = place.tile.rows, place.tile.columns
    channels = "".join(map(str, place.channels))
    return (
        f"rows {rows[0]} to {rows[1] - 1}, columns {columns[0]} to {columns[1] - 1}, "
        f"channels {channels}: {error}"
    )


def read_model_and_order(data: bytes, *, model: str | Path | None = None) -> Choice | None:
    """Return the model and order of an image file, or None if no network coded it.

    `model` is the file of a model that is not released.
    """
    header = read_image_header(Reader(data))
    return _find_choice(header, model, ()) if header.coding else None


def _find_choice(
    header: ImageHeader, given: str | Path | None, shared: Sequence[ModelReference]
) -> Choice:
    """Return the model and order of an image that a network coded."""
    if header.coding is None:
        raise DamagedError("a chunk needs a network, but the file names none")
    return Choice(find_network(header.coding.model, given, shared), header.coding.order)


def _check_pieces(
    header: ImageHeader, pieces: list[_Piece], wanted: Region, threads: int, limits: Limits
) -> int:
    """Raise LimitError if decoding could take too much; return how many threads there is room for.

    A network's empty stream is black and takes no time; others must not promise too many samples.
    """
    whole = 2 * wanted.height * wanted.width * header.mode.channels
    whole *= np.dtype(header.mode.dtype).itemsize
    heavy = (*BY_NETWORK, JPEG2000)
    streams = [p for p in pieces if p.chunk.method in heavy and p.chunk.data]
    samples = sum(math.prod(piece.place.shape) for piece in streams)
    limits.check_density(samples, sum(len(piece.chunk.data) for piece in streams))
    largest = 0
    for piece in pieces:
        height, width, _ = piece.place.shape
        if piece.by_network:
            largest = max(largest, NETWORK_PIXEL * height * width if piece.chunk.data else 0)
        else:
            mode = _mode_of(header, piece)
            classical = estimate_memory(piece.chunk.method, mode, height, width)
            limits.check_memory(whole + classical)
    limits.check_memory(whole + largest)
    return min(count_threads(threads), max(1, (limits.memory - whole) // max(1, largest)))


def _place(header: ImageHeader, number: int) -> _Place:
    """Return the place of a chunk: tile by tile, and group by group in a tile."""
    tile, group = divmod(number, len(header.groups))
    place = find_tile(header.height, header.width, header.grid, tile)
    scalings = header.coding.scalings if header.coding else ()
    return _Place(place, header.groups[group], scalings[group] if scalings else None)


def _decode_pieces(
    header: ImageHeader,
    pieces: list[_Piece],
    find: Callable[[], Choice],
    threads: int,
    backend: str,
    progress: Progress | None,
) -> list[tuple[_Piece, Samples]]:
    by_network = [piece for piece in pieces if piece.by_network]
    decoded = []
    for piece in pieces:
        if not piece.by_network:
            mode = _mode_of(header, piece)
            height, width, _ = piece.place.shape
            values = decode_classical(piece.chunk.method, piece.chunk.data, mode, height, width)
            decoded.append((piece, values))
    if not by_network:
        return decoded
    model, order = find()
    _check_adaptive(by_network, model)
    teams = _form_teams(by_network, count_threads(threads))
    jobs = []
    for team in teams:
        streams = tuple(piece.chunk.data for piece in team)
        ones, place = (1,) * len(team), team[0].place
        precision = place.scaling.precision if place.scaling else None
        work = place.shape, streams, ones, precision, team[0].manner
        jobs.append(DecodeJob(model, backend, order, *work))
    for team, images in zip(teams, run_jobs(jobs, threads, progress), strict=True):
        scaling = team[0].place.scaling
        decoded += zip(team, scaling.restore(images) if scaling else images, strict=True)
    return decoded


def _check_adaptive(pieces: Sequence[_Piece], model: Model) -> None:
    """Raise FormatError if a chunk asks for what this network cannot do."""
    for piece in pieces:
        manner = piece.manner
        if manner and (piece.place.scaling or not can_adapt(model.network, manner)):
            raise FormatError("an adaptive chunk that its samples or its network are not for")


def _mode_of(header: ImageHeader, piece: _Piece) -> Mode:
    """Return as what a piece is stored if no network codes it."""
    return header.mode.plane(len(piece.place.channels)) if header.coding else header.mode


def _form_teams(pieces: list[_Piece], workers: int) -> list[list[_Piece]]:
    """Group pieces of one shape, to be decoded in step, and leave work for every worker.

    Adaptive ones stay alone: each has a network of its own before long.
    """
    by_shape: dict[object, list[_Piece]] = {}
    for piece in pieces:
        alike = piece.place.shape, piece.place.scaling, piece.manner
        by_shape.setdefault(alike, []).append(piece)
    most = min(TOGETHER, -(-len(pieces) // workers))
    teams = []
    for together in by_shape.values():
        size = 1 if together[0].manner else most
        teams += [together[first : first + size] for first in range(0, len(together), size)]
    return teams


def _paste(target: Samples, place: _Place, values: Samples, region: Region) -> None:
    """Copy the part of a chunk's pixels that lies in the region."""
    rows, columns = place.tile.rows, place.tile.columns
    top, bottom = (max(0, min(row - region.top, region.height)) for row in rows)
    left, right = (max(0, min(column - region.left, region.width)) for column in columns)
    from_row, from_column = top + region.top - rows[0], left + region.left - columns[0]
    part = values[from_row : from_row + bottom - top, from_column : from_column + right - left]
    target[top:bottom, left:right, list(place.channels)] = part
