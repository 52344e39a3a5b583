"""Workers: run jobs on several cores.

Python threads would spend their time waiting for each other between small matrix products, so a
worker is a process of its own that runs `main` below: it reads jobs from its standard input
and writes results to its standard output. Starting it does not import the caller's main module,
so a plain script can use several cores. Messages are a JSON line and as many bytes as it says.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import IO, Any

from lmzip import errors
from lmzip.errors import InputError, LmzipError
from lmzip.parallel.jobs import JOB_KINDS, Job
from lmzip.progress import Progress

# A process costs some 0.4 s to start: below this many pixels a job's own process is quicker.
WORTH_A_WORKER = 1 << 16

_START = "import sys; sys.path += sys.argv[1:]; from lmzip.parallel.workers import main; main()"


def count_threads(threads: int) -> int:
    """Return how many workers `threads` means: 0 is one for each core at hand."""
    if threads < 0:
        raise InputError(f"threads must be 0 or more, got {threads}")
    return threads or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else [0])


def run_jobs(jobs: Sequence[Job], threads: int, progress: Progress | None = None) -> list[Any]:
    """Run jobs on up to `threads` cores and return their results in sequence."""
    done, total = 0, sum(job.pixels for job in jobs)
    workers = min(count_threads(threads), len(jobs), max(1, total // WORTH_A_WORKER))

    def tell(pixels: int) -> None:
        nonlocal done
        done += pixels
        if progress:
            progress(done, total)

    if workers <= 1:
        results = []
        for job in jobs:
            results.append(job.run())
            tell(job.pixels)
        return results

    # Large jobs first, so that none is left for the end; each thread below only waits for its own
    # worker, and the workers are ended however this function is left.
    pool: list[_Worker] = []
    idle: SimpleQueue[_Worker] = SimpleQueue()

    def run(job: Job) -> Any:
        worker = idle.get()
        try:
            result = worker.run(job)
        finally:
            idle.put(worker)
        tell(job.pixels)
        return result

    try:
        for _ in range(workers):
            pool.append(_Worker())
            idle.put(pool[-1])
        with ThreadPoolExecutor(workers) as executor:
            futures = {
                index: executor.submit(run, jobs[index])
                for index in sorted(range(len(jobs)), key=lambda index: -jobs[index].pixels)
            }
            try:
                return [futures[index].result() for index in range(len(jobs))]
            except BaseException:
                executor.shutdown(wait=False, cancel_futures=True)
                for worker in pool:
                    worker.kill()
                raise
    finally:
        for worker in pool:
            worker.kill()


class _Worker:
    """A worker process; runs one job at a time."""

    def __init__(self) -> None:
        # The caller's paths go last: a script's folder may hold a module with a standard name.
        # -P keeps the current folder off the path for the same reason.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, *filter(None, sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # an interrupt at the keyboard is for us: we end the workers
        )

    def run(self, job: Job) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            _write_message(self._process.stdin, *job.pack())
            fields, parts = _read_message(self._process.stdout)
        except (EOFError, OSError) as error:
            raise LmzipError("a worker process ended unexpectedly") from error
        if "error" in fields:
            raise getattr(errors, fields["error"], LmzipError)(fields["message"])
        return type(job).unpack_result(fields, parts)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # a message may be left in it that nobody will read
                    pipe.close()


def _write_message(pipe: IO[bytes], fields: dict[str, Any], parts: Sequence[bytes]) -> None:
    header = {**fields, "sizes": [len(part) for part in parts]}
    pipe.write(json.dumps(header).encode() + b"\n")
    for part in parts:
        pipe.write(part)
    pipe.flush()


def _read_message(pipe: IO[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    line = pipe.readline()
    if not line:
        raise EOFError("the other process is gone")
    fields = json.loads(line)
    sizes = fields.pop("sizes")
    parts = [pipe.read(size) for size in sizes]
    if [len(part) for part in parts] != sizes:
        raise EOFError("the other process ended in the middle of a message")
    return fields, parts


def main() -> None:
    """Run jobs from standard input until it is closed."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            fields, parts = _read_message(source)
        except EOFError:
            return
        kind = JOB_KINDS[fields.pop("kind")]
        try:
            answer = kind.pack_result(kind.unpack(fields, parts).run())  # type: ignore[arg-type]
        except LmzipError as error:
            answer = {"error": type(error).__name__, "message": str(error)}, []
        try:
            _write_message(target, *answer)
        except BrokenPipeError:  # whoever asked has ended
            os._exit(1)
