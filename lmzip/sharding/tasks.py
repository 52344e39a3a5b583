"""What a worker does: make one shard, or verify one file.

A task may be killed at any moment, or run on two machines at once: a worker that has lost its
client goes on, and the same command gives its shard to another. So a shard gets its name when it is
whole, its record follows, and whoever comes second leaves both as they are.
"""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lmzip.container.archive_reader import Archive
from lmzip.container.archive_writer import pack_archive
from lmzip.container.image_reader import decompress_picture
from lmzip.container.info import is_archive
from lmzip.errors import DamagedError, FormatError, InputError, LimitError, LmzipError
from lmzip.formats import Reading, read_picture, strip_metadata, time_block
from lmzip.limits import Limits
from lmzip.options import AUTO
from lmzip.picture import Picture
from lmzip.progress import Progress
from lmzip.sharding.manifest import MANIFEST, Remark, Shard, read_manifest
from lmzip.sharding.plan import Listed, Recipe, ShardTask, installed_version
from lmzip.storage import is_remote, name_errors, open_ranges, to_path, write_whole


@dataclass(frozen=True)
class Verified:
    """A file that was decoded: its images, bytes and checksum."""

    images: int
    size: int
    sha256: str


@dataclass(frozen=True)
class Made:
    """A shard, and the seconds that it took."""

    shard: Shard
    seconds: float


def write_shard(task: ShardTask, progress: Progress | None = None) -> Made:
    """Make a shard and its record, unless both are there.

    Pictures that cannot be kept are left out, and the record names them. Raises OSError if a
    picture or the target is out of reach.
    """
    began, recipe = time.monotonic(), task.recipe
    if (version := installed_version()) != recipe.version:
        raise LmzipError(f"lmzip {recipe.version} asks, and this worker has lmzip {version}")
    if (shard := _find_shard(task)) is not None:
        return Made(shard, time.monotonic() - began)
    pictures, failures, losses = _read_pictures(task)
    data = pack_archive(pictures, recipe.options, progress)
    if recipe.verify:
        _compare(data, [picture for _, picture in pictures], recipe)
    samples = [picture.samples for _, picture in pictures]
    shard = Shard(
        name=task.name,
        images=len(pictures),
        first=pictures[0][0] if pictures else "",
        last=pictures[-1][0] if pictures else "",
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        digest=task.digest,
        raw_bytes=sum(image.nbytes for image in samples),
        samples=sum(image.size for image in samples),
        failures=tuple(failures),
        losses=tuple(losses),
    )
    return Made(_store(task, shard, data), time.monotonic() - began)


def _find_shard(task: ShardTask) -> Shard | None:
    """Return what a worker made that was lost before it could say so."""
    try:
        with name_errors(task.record):
            shard = Shard.from_json(task.record.read_bytes())
        return shard if _is_made(task, shard) else None
    except (FileNotFoundError, FormatError):
        return None


def _find_in_manifest(task: ShardTask) -> Shard | None:
    """Return the shard if the set has been completed in the meantime: its record is gone then."""
    try:
        shards = read_manifest(task.path.with_name(MANIFEST), task.recipe.limits).shards
        return next((s for s in shards if s.name == task.name and _is_made(task, s)), None)
    except (FileNotFoundError, FormatError):
        return None


def _is_made(task: ShardTask, shard: Shard) -> bool:
    """Whether a record is that of the task, and its file is there; raises FileNotFoundError."""
    with name_errors(task.path):
        whole = task.path.stat().st_size == shard.size
    return whole and shard.digest == task.digest and not shard.failures


def _store(task: ShardTask, shard: Shard, data: bytes) -> Shard:
    """Write a shard and its record, and return it; or return the one that another has written.

    Raises InputError if the set is made from other pictures or options by now. Only what is not
    this task's shard is replaced: an earlier plan's, or a cut one.
    """
    try:
        task.read_listing()
    except FileNotFoundError:
        if (found := _find_in_manifest(task)) is not None:
            return found
        raise
    try:
        write_whole(task.path, data, overwrite=False)
    except FileExistsError:
        if (found := _find_shard(task)) is not None:
            return found
        if not _holds(task.path, data):
            write_whole(task.path, data)
    write_whole(task.record, shard.to_json())
    return shard


def _holds(path: Path, data: bytes) -> bool:
    """Whether these are the bytes of a file: its writer may have been lost before the record."""
    with name_errors(path):
        return path.stat().st_size == len(data) and path.read_bytes() == data


def _read_pictures(
    task: ShardTask,
) -> tuple[list[tuple[str, Picture]], list[Remark], list[Remark]]:
    """Return the pictures with their names, those that failed, and what is not kept of others."""
    pictures, failures, losses = [], [], []
    for listed in task.read_listing():
        name = listed.file.relative
        try:
            reading = _read_file(listed, task)
        except (InputError, LimitError) as error:
            failures.append(Remark(name, " ".join(str(error).split())))
            continue
        pictures.append((name, reading.picture))
        losses += [Remark(name, loss) for loss in reading.losses]
    return pictures, failures, losses


def _read_file(listed: Listed, task: ShardTask) -> Reading:
    path, recipe = to_path(task.roots[listed.root]) / listed.file.relative, task.recipe
    if not _is_utf8(listed.file.relative):
        raise InputError("names in an archive must be UTF-8, and this one is not")
    with open_ranges(str(path), recipe.limits) as data:
        recipe.limits.check_memory(len(data))
        reading = read_picture(bytes(data[:]), recipe.limits)
    if not reading.complete:
        raise InputError(f"{reading.frames} frames: shards are for files of one picture")
    if recipe.strip:
        return replace(reading, picture=strip_metadata(reading.picture), losses=())
    if is_remote(path):
        return reading
    metadata = {**reading.picture.metadata, "TIME": time_block(os.stat(path))}
    return replace(reading, picture=replace(reading.picture, metadata=metadata))


def _is_utf8(name: str) -> bool:
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


def _compare(data: bytes, pictures: list[Picture], recipe: Recipe) -> None:
    """Raise DamagedError unless an archive gives back the pictures it was made from."""
    options = recipe.options
    model = None if options.model == AUTO else options.model
    with Archive(data, model=model, threads=options.threads, limits=recipe.limits) as archive:
        for number, decoded in archive.restore(range(len(archive))):
            if isinstance(decoded, DamagedError):
                raise decoded
            if not _are_equal(decoded, pictures[number]):
                raise DamagedError(f"verification failed: image {number} differs (nothing written)")


def _are_equal(one: Picture, other: Picture) -> bool:
    same = one.mode == other.mode and dict(one.metadata) == dict(other.metadata)
    return same and np.array_equal(one.samples, other.samples)


def verify_file(
    address: str, model: str | None = None, threads: int = 1, limits: Limits | None = None
) -> Verified:
    """Decode everything in a file; raises DamagedError, or OSError if it is out of reach."""
    limits = limits or Limits()
    with open_ranges(address, limits) as ranges:
        limits.check_memory(len(ranges))
        data = bytes(ranges[:])
    count = 1
    if is_archive(data):
        with Archive(data, model=model, threads=threads, limits=limits) as archive:
            count = len(archive)
            for _, picture in archive.restore(range(count)):
                if isinstance(picture, DamagedError):
                    raise picture
    else:
        decompress_picture(data, model=model, threads=threads, limits=limits)
    return Verified(count, len(data), hashlib.sha256(data).hexdigest())
