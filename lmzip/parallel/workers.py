"""Workers: run jobs on several cores.

A job is a piece of coding work (`encode_job`, `decode_job`) that can run beside others.

Workers are threads. The kernels release Python's lock while they compute, so two threads do nearly
twice the work of one. With numpy alone they wait for each other between small operations.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock
from typing import Any, Protocol

from lmzip.errors import InputError, LmzipError
from lmzip.progress import Progress
from lmzip.stream.sequence import Check

JOB_PIXELS = 1 << 17  # of small images, computed at once: more is no faster


class Job(Protocol):
    """A piece of work. `check` is called between its steps; the job ends as soon as it raises."""

    @property
    def pixels(self) -> int: ...

    def run(self, check: Check | None = None) -> Any: ...


def count_threads(threads: int) -> int:
    """Return how many workers `threads` asks for: 0 means one for each available core."""
    if threads < 0:
        raise InputError(f"threads must be 0 or more, got {threads}")
    if hasattr(os, "sched_getaffinity"):  # where a process may be kept from some of the cores
        return threads or len(os.sched_getaffinity(0))
    return threads or os.cpu_count() or 1


def run_jobs(jobs: Sequence[Job], threads: int, progress: Progress | None = None) -> list[Any]:
    """Run jobs on up to `threads` cores and return their results in sequence."""
    done, total = 0, sum(job.pixels for job in jobs)
    workers = min(count_threads(threads), len(jobs))
    lock, ended = Lock(), Event()

    def check() -> None:
        if ended.is_set():
            raise LmzipError("another job has failed")  # nobody waits for this one's result

    def run(job: Job) -> Any:
        nonlocal done
        result = job.run(check)
        with lock:
            done += job.pixels
            if progress:
                progress(done, total)
        return result

    if workers <= 1:
        return [run(job) for job in jobs]
    with ThreadPoolExecutor(workers) as executor:
        # Large jobs first, so that none is left for the end.
        futures = {
            index: executor.submit(run, jobs[index])
            for index in sorted(range(len(jobs)), key=lambda index: -jobs[index].pixels)
        }
        try:
            return [futures[index].result() for index in range(len(jobs))]
        except BaseException:  # an interrupt too: the jobs under way end after their next step
            ended.set()
            executor.shutdown(wait=False, cancel_futures=True)
            raise
