"""Workers: jobs on several cores give what they give on one, and fail as they do on one."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.networks import compact_network, custom_order, smooth_images, write_model

import lmzip
from lmzip.order.orders import Order
from lmzip.parallel import workers
from lmzip.parallel.jobs import DecodeJob, EncodeJob, Job
from lmzip.parallel.workers import count_threads, run_jobs

RASTER = Order("raster")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(compact_network(), tmp_path_factory.mktemp("model"))


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every job be worth a worker."""
    monkeypatch.setattr(workers, "WORTH_A_WORKER", 1)


def encode_jobs(model: Path) -> list[Job]:
    """Return jobs of different sizes, the largest in the middle."""
    counts = (1, 4, 2)
    return [
        EncodeJob(model, "numpy", RASTER, smooth_images(n, 6, 7, seed=n), (1,) * n) for n in counts
    ]


def decode_jobs(encoded: list[Job], model: Path) -> list[DecodeJob]:
    jobs = []
    for job in encoded:
        assert isinstance(job, EncodeJob)
        streams = tuple(coded.data for coded in job.run())
        jobs.append(DecodeJob(model, "numpy", RASTER, (6, 7, 3), streams, job.groups))
    return jobs


@pytest.mark.usefixtures("eager")
def test_results_are_those_of_one_process_and_in_sequence(model: Path) -> None:
    jobs = encode_jobs(model)
    jobs += decode_jobs(jobs, model)
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


@pytest.mark.usefixtures("eager")
def test_errors_keep_their_class_and_text(model: Path, tmp_path: Path) -> None:
    good = encode_jobs(model)
    damaged = replace(decode_jobs(good[:1], model)[0], streams=(b"\1\2\3",))
    with pytest.raises(lmzip.DamagedError, match="3 bytes"):
        run_jobs([*good, damaged], 2)
    missing = replace(good[0], model=tmp_path / "none.safetensors")
    with pytest.raises(lmzip.ModelError, match=r"none\.safetensors"):
        run_jobs([missing, *good], 2)


@pytest.mark.usefixtures("eager")
def test_a_worker_that_dies_is_noticed(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = subprocess.Popen

    def start_and_end(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        return start([command[0], "-c", "import sys; sys.stdin.buffer.readline()"], **options)

    monkeypatch.setattr("lmzip.parallel.workers.subprocess.Popen", start_and_end)
    with pytest.raises(lmzip.LmzipError, match="worker"):
        run_jobs(encode_jobs(model), 2)


def test_small_work_starts_no_worker(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a worker was started")

    monkeypatch.setattr("lmzip.parallel.workers.subprocess.Popen", refuse)
    assert len(run_jobs(encode_jobs(model), 8)) == 3
    assert run_jobs([], 8) == []


@pytest.mark.parametrize("order", [RASTER, Order("hilbert", 3), custom_order(6, 7)], ids=str)
def test_jobs_survive_the_journey(order: Order, model: Path) -> None:
    """What is packed is what is unpacked, through JSON and bytes."""
    images = smooth_images(3, 6, 7)
    encode = EncodeJob(model, "numpy", order, images, (1, 2))
    decode = DecodeJob(model, "torch", order, (6, 7, 1), (b"abcd", b""), (5, 1))
    for job in (encode, decode):
        fields, parts = job.pack()
        fields = json.loads(json.dumps(fields))
        copy = type(job).unpack(fields, parts)
        assert fields["kind"] in ("encode", "decode")
        assert (copy.model, copy.backend, copy.order) == (model, job.backend, order)
        assert copy.groups == job.groups
        assert copy.pixels == job.pixels
    copied = EncodeJob.unpack(*encode.pack())
    assert np.array_equal(copied.images, images)


def test_messages_hold_what_was_written() -> None:
    pipe = io.BytesIO()
    workers._write_message(pipe, {"a": [1, 2]}, [b"\n\n", b"", bytes(1000)])
    workers._write_message(pipe, {}, [])
    pipe.seek(0)
    assert workers._read_message(pipe) == ({"a": [1, 2]}, [b"\n\n", b"", bytes(1000)])
    assert workers._read_message(pipe) == ({}, [])
    with pytest.raises(EOFError):
        workers._read_message(pipe)


def test_threads_are_counted() -> None:
    assert count_threads(3) == 3
    assert count_threads(0) >= 1
    with pytest.raises(lmzip.InputError, match="-1"):
        count_threads(-1)


def test_plain_scripts_may_use_several_cores(model: Path, tmp_path: Path) -> None:
    """Without a main guard: workers do not import the caller's main module."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "import numpy as np\n"
        "import lmzip, lmzip.container.image_file, lmzip.parallel.workers\n"
        "lmzip.container.tiles.TILE, lmzip.parallel.workers.WORTH_A_WORKER = (8, 8), 1\n"
        "image = np.arange(16 * 16 * 3, dtype=np.uint8).reshape(16, 16, 3)\n"
        "data = lmzip.compress(image, model=sys.argv[1], threads=2)\n"
        "assert (lmzip.decompress(data, model=sys.argv[1], threads=2) == image).all()\n"
        "print(lmzip.read_info(data).tiles)\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", script, model], capture_output=True, text=True, check=True
    )
    assert done.stdout == "(2, 2)\n"
