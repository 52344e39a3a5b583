"""Workers: jobs on several cores give what they give on one, and fail as they do on one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.networks import compact_network, smooth_images, write_model

import lmzip
from lmzip.network.registry import Model, load_model
from lmzip.order.orders import Order
from lmzip.parallel.decode_job import DecodeJob
from lmzip.parallel.encode_job import EncodeJob
from lmzip.parallel.workers import Job, count_threads, run_jobs
from lmzip.stream.sequence import Check

RASTER = Order("raster")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return load_model(write_model(compact_network(), tmp_path_factory.mktemp("model")))


def encode_jobs(model: Model) -> list[EncodeJob]:
    """Return jobs of different sizes, the largest in the middle."""
    counts = (1, 4, 2)
    return [
        EncodeJob(model, "auto", RASTER, smooth_images(n, 6, 7, seed=n), (1,) * n) for n in counts
    ]


def decode_jobs(encoded: list[EncodeJob], model: Model) -> list[DecodeJob]:
    jobs = []
    for job in encoded:
        streams = tuple(coded.data for coded in job.run())
        jobs.append(DecodeJob(model, "auto", RASTER, (6, 7, 3), streams, job.groups))
    return jobs


def test_results_are_those_of_one_process_and_in_sequence(model: Model) -> None:
    encoded = encode_jobs(model)
    jobs: list[Job] = [*encoded, *decode_jobs(encoded, model)]
    told: list[tuple[int, int]] = []
    results = run_jobs(jobs, 2, lambda done, total: told.append((done, total)))
    expected = run_jobs(jobs, 1)
    assert results[:3] == expected[:3]
    for found, wanted in zip(results[3:], expected[3:], strict=True):
        assert np.array_equal(found, wanted)
    total = sum(job.pixels for job in jobs)
    assert told[-1] == (total, total)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert len(told) == len(jobs)


def test_errors_keep_their_class_and_text(model: Model) -> None:
    good = encode_jobs(model)
    damaged = replace(decode_jobs(good[:1], model)[0], streams=(b"\1\2\0",))
    with pytest.raises(lmzip.DamagedError, match="ends in zeros"):
        run_jobs([*good, damaged], 2)
    unknown = replace(good[0], backend="abacus")
    with pytest.raises(lmzip.InputError, match="abacus"):
        run_jobs([unknown, *good], 2)


class PatientJob:
    """A job of very many steps, which ends only when it is told to."""

    pixels = 1
    steps = 0
    was_ended = False

    def run(self, check: Check | None = None) -> None:
        assert check is not None
        for _ in range(30_000):
            self.steps += 1
            try:
                check()
            except lmzip.LmzipError:
                self.was_ended = True
                raise
            time.sleep(0.001)


class FailingJob:
    """A job that fails once another one is under way."""

    pixels = 2  # the largest come first

    def __init__(self, other: PatientJob) -> None:
        self._other = other

    def run(self, check: Check | None = None) -> None:
        while not self._other.steps:
            time.sleep(0.001)
        raise lmzip.DamagedError("broken")


def test_a_failure_ends_the_other_jobs() -> None:
    """They end after a step, not when all of their work is done."""
    patient = PatientJob()
    with pytest.raises(lmzip.DamagedError, match="broken"):
        run_jobs([FailingJob(patient), patient], 2)
    assert patient.was_ended


@pytest.mark.parametrize("backend", ["auto", "numpy"])
def test_jobs_ask_between_their_steps_whether_to_end(model: Model, backend: str) -> None:
    def refuse() -> None:
        raise lmzip.LmzipError("enough")

    encode = replace(encode_jobs(model)[0], backend=backend)
    decode = replace(decode_jobs([encode], model)[0], backend=backend)
    for job in (encode, decode):
        with pytest.raises(lmzip.LmzipError, match="enough"):
            job.run(refuse)


def test_threads_are_counted() -> None:
    assert count_threads(3) == 3
    assert count_threads(0) >= 1
    with pytest.raises(lmzip.InputError, match="-1"):
        count_threads(-1)


def test_plain_scripts_may_use_several_cores(model: Model, tmp_path: Path) -> None:
    """Without a main guard."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "import numpy as np\n"
        "import lmzip, lmzip.container.tiles\n"
        "lmzip.container.tiles.TILE = 8, 8\n"
        "image = np.arange(16 * 16 * 3, dtype=np.uint8).reshape(16, 16, 3)\n"
        "data = lmzip.compress(image, model=sys.argv[1], threads=2)\n"
        "assert (lmzip.decompress(data, model=sys.argv[1], threads=2) == image).all()\n"
        "print(lmzip.read_info(data).tiles)\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", script, model.path], capture_output=True, text=True, check=True
    )
    assert done.stdout == "(2, 2)\n"


# What lmzip imports when it is first called must be there before: Python's locks of imports that
# are under way in other threads would stay closed in a forked process for ever.
TOGETHER = """
import os, sys, threading
import numpy as np
import lmzip

expected, pixels, model = open(sys.argv[1], "rb").read(), np.load(sys.argv[2]), sys.argv[3]
wrong, started = [], threading.Barrier(9)

def work():
    for _ in range(3):
        if lmzip.compress(pixels, model=model, threads=2) != expected:
            wrong.append("compress")
        if not np.array_equal(lmzip.decompress(expected, model=model), pixels):
            wrong.append("decompress")

def start():
    started.wait()
    work()

work()
threads = [threading.Thread(target=start) for _ in range(8)]
for thread in threads:
    thread.start()
started.wait()
children = []
for _ in range(4):
    if not (pid := os.fork()):
        work()
        os._exit(len(wrong))
    children.append(pid)
for thread in threads:
    thread.join()
failed = [pid for pid in children if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]
sys.exit(f"{wrong} {failed}" if wrong or failed else 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that forks")
def test_threads_and_forked_processes_at_once_give_the_same(model: Model, tmp_path: Path) -> None:
    pixels = smooth_images(1, 40, 60)[0]
    np.save(tmp_path / "pixels.npy", pixels)
    (tmp_path / "expected.lmz").write_bytes(lmzip.compress(pixels, model=model.path, threads=1))
    command = [sys.executable, "-P", "-c", TOGETHER, "expected.lmz", "pixels.npy", str(model.path)]
    finished = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert (finished.returncode, finished.stderr) == (0, "")
