"""Running tasks: one after the other on this machine, or by the workers of a Dask cluster.

A scheduler sees only a few tasks for each of its workers at a time, and a task is a few hundred
bytes: so its memory does not grow with the work. What a lost worker was doing, Dask gives to
another; a task that fails is tried again before its error counts.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from lmzip.errors import InputError, LmzipError

T = TypeVar("T")
R = TypeVar("R")
Key = Callable[[T], str]

RETRIES = 2
_AHEAD = 2  # tasks for each thread of the cluster, one under way and one to follow
_ASK_AGAIN = 2.0  # seconds: then tasks follow for workers that have come meanwhile
_POLL = 0.05  # seconds
_CONNECT = "20s"
_LOST = "the scheduler is gone"
_LOGGERS = ("distributed", "distributed.client", "distributed.core", "distributed.comm")
_INSTALL = 'a cluster needs Dask: pip install "lmzip[dask]"'


class Runner(Protocol):
    """Something that runs tasks."""

    def run(
        self, function: Callable[[T], R], tasks: Iterable[T], key: Key[T] | None = None
    ) -> Iterator[tuple[T, R | Exception]]:
        """Give each task with its result, or the error that it ended with, in any sequence.

        A task with a key goes on if whoever asked for it is lost, and whoever asks for the same key
        meanwhile is given its result.
        """


class Here:
    """This machine, one task after the other; a task uses the cores by its own threads."""

    def run(
        self, function: Callable[[T], R], tasks: Iterable[T], key: Key[T] | None = None
    ) -> Iterator[tuple[T, R | Exception]]:
        for task in tasks:
            try:
                result: R | Exception = function(task)
            except (LmzipError, OSError) as error:
                result = error
            yield task, result


class Cluster:
    """A Dask cluster."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def count_threads(self) -> int:
        """Return how many tasks the workers run at once; 0 if there are none yet."""
        return sum(self._client.nthreads().values())

    def run(
        self, function: Callable[[T], R], tasks: Iterable[T], key: Key[T] | None = None
    ) -> Iterator[tuple[T, R | Exception]]:
        """Give each task with its result or its error; raises LmzipError without a scheduler.

        Workers may come and go meanwhile: how many there are is asked again from time to time.
        """
        waiting = iter(tasks)
        distributed = _import_dask()
        running = distributed.as_completed(loop=self._client.loop)
        under_way: dict[Any, T] = {}

        def submit_more() -> None:
            try:
                most = max(1, _AHEAD * self.count_threads())
            except OSError:
                raise LmzipError(f"{_LOST}: the same command again does what is missing") from None
            for task in itertools.islice(waiting, max(0, most - len(under_way))):
                name = key(task) if key else None
                future = self._client.submit(function, task, key=name, pure=False, retries=RETRIES)
                if key:
                    distributed.fire_and_forget(future)
                under_way[future.key] = task
                running.add(future)

        submit_more()
        asked = time.monotonic()
        while under_way:
            finished = running.next_batch(block=False)
            for future in finished:
                task = under_way.pop(future.key)
                yield task, _result_of(future)
                future.release()
            if finished or time.monotonic() - asked > _ASK_AGAIN:
                submit_more()
                asked = time.monotonic()
            else:
                time.sleep(_POLL)


@contextlib.contextmanager
def open_cluster(address: str) -> Iterator[Cluster]:
    """Connect to a scheduler (tcp://host:8786); raises InputError if there is none."""
    distributed = _import_dask()
    for name in _LOGGERS:  # what matters of their errors comes back as ours
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(address, timeout=_CONNECT, set_as_default=False)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{address}: no scheduler answers ({reason})") from None
    try:
        yield Cluster(client)
    finally:
        client.close(timeout=5)


def _import_dask() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise InputError(_INSTALL) from None


def _result_of(future: Any) -> Any:
    """Return what a task returned, or the error that it raised, as one of ours."""
    error = future.exception() if future.status == "error" else None
    if future.status == "finished":
        return future.result()
    if error is None:
        return LmzipError(_LOST if future.cancelled() else future.status)
    if isinstance(error, LmzipError | OSError):
        return error
    if type(error).__name__ == "KilledWorker":
        return LmzipError("several workers were lost while they had this task")
    text = " ".join(str(error).split())
    return LmzipError(f"{type(error).__name__}: {text}")
