"""One codec over one data set on a Dask cluster: a share of the images is one task.

An archive is one task, though: its size is that of all images in one file, and several shards have
another.

No pixels travel: a task has paths, and workers read the images themselves. Their processes are not
the codec's own, so there is no peak of memory. Rates are what each thread of the cluster reached
while it was coding, added up.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from lmzip import InputError, Progress
from lmzip.cli.bench.codecs import Codec, LmzipArchive
from lmzip.cli.bench.data_sets import ArraySet, DataSet, FolderSet, NpySet, open_set
from lmzip.cli.bench.measure import Coded, Measurement, code_archive, code_pictures, summarise
from lmzip.sharding import Cluster

_SHARES = 4  # tasks for each thread, so that none waits long for the last


@dataclass(frozen=True)
class SetAddress:
    """A data set as `open_set` takes it."""

    kind: str | None
    path: Path
    limit: int
    split: str


@dataclass(frozen=True)
class _Share:
    """Some images of a data set; `source` holds no pixels."""

    codec: Codec
    source: DataSet | SetAddress
    numbers: tuple[int, ...]  # in `source`


@dataclass(frozen=True)
class _Result:
    thread: str
    coded: list[Coded]


def measure_on_cluster(
    codec: Codec,
    data: DataSet,
    address: SetAddress,
    cluster: Cluster,
    progress: Progress | None = None,
) -> Measurement:
    """Code and restore all images of a data set; raises InputError if a task is lost."""
    count = min(_SHARES * max(1, cluster.count_threads()), len(data))
    if isinstance(codec, LmzipArchive):
        count = 1
    shares = [range(first, len(data), count) for first in range(count)]
    tasks = {_make_share(codec, data, address, share): share for share in shares}
    by_thread: dict[str, list[Coded]] = {}
    done = 0
    for task, result in cluster.run(_code, tasks):
        if isinstance(result, Exception):
            raise InputError(f"{codec.name}: {result}")
        numbers = tasks[task]
        coded = [
            replace(part, numbers=tuple(numbers[number] for number in part.numbers))
            if isinstance(data, FolderSet)
            else part
            for part in result.coded
        ]
        by_thread.setdefault(result.thread, []).extend(coded)
        done += len(numbers)
        if progress:
            progress(done, len(data))
    return summarise(codec, data, list(by_thread.values()), [], 1)


def _make_share(codec: Codec, data: DataSet, address: SetAddress, numbers: Sequence[int]) -> _Share:
    if isinstance(data, ArraySet):
        return _Share(codec, address, tuple(numbers))
    if isinstance(data, FolderSet):  # only the paths of this share
        names = tuple(data.names[number] for number in numbers)
        paths = tuple(data.paths[number].absolute() for number in numbers)
        return _Share(codec, replace(data, names=names, paths=paths), tuple(range(len(numbers))))
    assert isinstance(data, NpySet)
    return _Share(codec, replace(data, path=data.path.absolute()), tuple(numbers))


def _code(share: _Share) -> _Result:
    """Code a share of the images; the body of a task."""
    data = _open(share.source) if isinstance(share.source, SetAddress) else share.source
    if isinstance(share.codec, LmzipArchive):
        coded = [code_archive(share.codec, data, 1, lambda _: None)]
    else:
        coded = list(code_pictures(share.codec, data, share.numbers))
    distributed = importlib.import_module("distributed")
    worker = distributed.get_worker().address
    return _Result(f"{worker} {threading.get_ident()}", coded)


@cache
def _open(address: SetAddress) -> DataSet:
    """Open a data set once in each worker."""
    return open_set(address.kind, address.path, limit=address.limit, split=address.split)
