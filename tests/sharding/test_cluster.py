"""Shards on Dask: the same bytes, whatever dies."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cli_runner import COMMAND, Cli, make_picture, write_image

import lmzip
from lmzip.sharding import open_cluster

distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own


@pytest.fixture
def scheduler() -> Iterator[str]:
    """Return the address of a scheduler with two workers, all in this process."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number in range(7):
        write_image(tmp_path / f"photos/{number}.png", make_picture(seed=number))
    return tmp_path / "photos"


def contents(folder: str | Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


@pytest.mark.usefixtures("photos")
def test_a_cluster_makes_and_verifies_what_one_machine_makes(cli: Cli, scheduler: str) -> None:
    command = ["--archive", "-r", "photos", "--shard", 2]
    assert cli.compress(*command, "-o", "alone").code == 0
    result = cli.compress(*command, "-o", "together", "--scheduler", scheduler, "--json")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out)["total"]["shards"] == 4
    assert contents("together") == contents("alone")
    verify = ["verify", "--model", cli.model, "--scheduler", scheduler, "together/manifest.json"]
    assert cli(*verify).code == 0
    shard = Path("together/shard-000002.lmz")
    shard.write_bytes(shard.read_bytes()[:-30] + bytes(30))
    assert cli(*verify).code == 3


def test_a_picture_that_fails_is_named_by_the_client(
    cli: Cli, scheduler: str, photos: Path
) -> None:
    (photos / "3.png").write_bytes(b"GIF89a nothing")
    command = ["--archive", "-r", "photos", "--shard", 2, "-o", "set", "--scheduler", scheduler]
    result = cli.compress(*command)
    assert result.code == 1
    assert result.err.startswith("lmzip: 3.png: ")


@pytest.mark.usefixtures("photos")
def test_bench_on_a_cluster_finds_the_sizes_of_one_machine(cli: Cli, scheduler: str) -> None:
    np.save("photos.npy", np.stack([make_picture(seed=n).samples for n in range(5)]))
    for data in ("photos", "photos.npy"):
        command = ["bench", data, "--model", cli.model, "--peers", "png", "--archive", "--json"]
        alone = json.loads(cli(*command, "-T", 1).out)["codecs"]
        result = cli(*command, "--scheduler", scheduler)
        assert result.code == 0
        together = json.loads(result.out)["codecs"]
        assert len(together) == 3
        for one, other in zip(alone, together, strict=True):
            for key in ("codec", "size", "images", "samples", "bpd", "model_bits", "exact"):
                assert one[key] == other[key], key


def square(number: int) -> int:
    if number == 5:
        raise lmzip.InputError("five")
    if number == 6:
        raise RuntimeError("six")
    return number * number


def test_few_tasks_are_under_way_and_errors_come_back(
    scheduler: str,
) -> None:
    taken: list[int] = []

    def tasks() -> Iterator[int]:
        for number in range(40):
            taken.append(number)
            yield number

    results: dict[int, Any] = {}
    with open_cluster(scheduler) as cluster:
        for number, result in cluster.run(square, tasks()):
            results[number] = result
            assert len(taken) - len(results) <= 4  # two for each of two threads
    assert len(results) == 40
    assert results[7] == 49
    assert isinstance(results[5], lmzip.InputError)
    assert str(results[6]) == "RuntimeError: six"
    assert isinstance(results[6], lmzip.LmzipError)


_together = threading.Barrier(2)


def meet(number: int) -> int:
    """Return once two tasks are under way."""
    _together.wait(timeout=60)
    return number


def test_workers_that_come_late_get_tasks_while_others_work() -> None:
    with (
        distributed.LocalCluster(
            n_workers=0, threads_per_worker=1, processes=False, dashboard_address=None
        ) as local,
        open_cluster(local.scheduler_address) as cluster,
    ):
        later = threading.Timer(0.3, lambda: local.scale(2))
        later.start()
        try:
            assert sorted(cluster.run(meet, range(4))) == [(n, n) for n in range(4)]
        finally:
            later.join()


def test_a_lost_scheduler_is_one_error(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> dict[str, int]:
        raise OSError("Timed out trying to connect")

    with open_cluster(scheduler) as cluster:
        results = cluster.run(square, range(40))
        assert next(results)[1] in range(100)
        monkeypatch.setattr(cluster._client, "nthreads", fail)
        with pytest.raises(lmzip.LmzipError, match="the scheduler is gone: the same command"):
            list(results)


@pytest.mark.usefixtures("photos")
def test_no_scheduler_is_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmzip.sharding.cluster._CONNECT", "1s")
    command = ["--archive", "-r", "photos", "--shard", 2, "-o", "set"]
    result = cli.compress(*command, "--scheduler", "tcp://127.0.0.1:9")
    assert result.code == 1
    assert result.err.startswith("lmzip: tcp://127.0.0.1:9: no scheduler answers")
    assert result.err.count("\n") == 1


@contextmanager
def processes(
    folder: Path, *worker_options: str
) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Start a scheduler and two workers in processes of their own."""
    found = folder / "scheduler.json"
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", *options]
    started = [start_quietly([*command, "--scheduler-file", str(found)])]
    try:
        for _ in range(300):
            if found.exists() and found.read_text():
                break
            time.sleep(0.1)
        address = json.loads(found.read_text())["address"]
        started += [start_worker(address, folder, *worker_options) for _ in range(2)]
        with distributed.Client(address, timeout="120s", set_as_default=False) as client:
            client.wait_for_workers(2, timeout=120)
        yield address, started
    finally:
        for process in started:
            process.kill()
            process.wait()


def start_worker(address: str, folder: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny"]
    place = ["--no-dashboard", "--local-directory", str(folder)]
    return start_quietly([*command, *place, *(options or ("--nthreads", "1"))])


def start_quietly(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.slow
def test_killed_workers_and_clients_lose_nothing(
    cli: Cli, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A worker is killed and replaced, then the client is; all shards are there."""
    for number in range(120):
        write_image(tmp_path / f"many/{number:03d}.png", make_picture("RGB", 64, 64, number))
    command = ["compress", "--model", cli.model, "--archive", "-r", "many", "--shard", 6]
    assert cli(*command, "-o", "alone").code == 0
    target = tmp_path / "together"
    with processes(tmp_path_factory.mktemp("dask")) as (address, started):
        client = [*COMMAND, *map(str, command), "-o", str(target), "--scheduler", address]

        def start_client() -> subprocess.Popen[bytes]:
            return subprocess.Popen(client, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

        def wait_for_shards(count: int, process: subprocess.Popen[bytes]) -> None:
            for _ in range(1200):
                if len(list(target.glob("shard-*.lmz"))) >= count or process.poll() is not None:
                    return
                time.sleep(0.05)
            pytest.fail(f"{count} shards were never there")

        running = start_client()
        wait_for_shards(4, running)
        started[1].send_signal(signal.SIGKILL)
        started.append(start_worker(address, tmp_path))
        wait_for_shards(9, running)
        running.kill()
        running.communicate()
        before = {path: path.stat().st_ino for path in target.glob("shard-*.lmz")}
        assert len(before) >= 9
        running = start_client()
        _, errors = running.communicate(timeout=120)
        assert running.returncode == 0, errors.decode()
        assert [path for path, number in before.items() if path.stat().st_ino != number] == []
    assert contents("alone") == contents(target)


# The first worker to have packed a shard waits there; those that come later pass it. (Dask imports
# this twice.)
DELAY = """
import os, time
from pathlib import Path
from lmzip.sharding import tasks

folder = Path({folder!r})
store = tasks.plain_store = getattr(tasks, "plain_store", tasks._store)

def store_later(task, shard, data):
    try:
        os.close(os.open(folder / f"{{task.name}}.waits", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        (folder / f"{{task.name}}.again").touch()
        return store(task, shard, data)
    while not (folder / "go").exists():
        time.sleep(0.02)
    found = store(task, shard, data)
    (folder / f"{{task.name}}.done").write_text(found.sha256)
    return found

tasks._store = store_later
"""


def wait_for(count: int, folder: Path, pattern: str) -> None:
    for _ in range(1200):
        if len(list(folder.glob(pattern))) >= count:
            return
        time.sleep(0.05)
    pytest.fail(f"{folder}: {count} {pattern} were never there")


@pytest.mark.slow
@pytest.mark.parametrize("late", [True, False])
@pytest.mark.usefixtures("photos")
def test_workers_that_outlive_their_client_write_nothing_twice(
    late: bool, cli: Cli, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """They go on while their shards are made elsewhere, or before they are asked for again."""
    command = ["compress", "--model", cli.model, "--archive", "-r", "photos", "--shard", 4]
    assert cli(*command, "-o", "alone").code == 0
    target = tmp_path / "together"
    with workers_without_client(command, target, tmp_path_factory) as (client, folder):
        if late:
            assert cli(*command, "-o", target).code == 0  # without the cluster
        first = {path.name: path.stat().st_ino for path in target.glob("*.lmz")}
        assert len(first) == (2 if late else 0)
        (folder / "go").touch()
        wait_for(2, folder, "*.done")
        if not late:
            first = {path.name: path.stat().st_ino for path in target.glob("*.lmz")}
            second = subprocess.run(client, capture_output=True, timeout=120, check=False)
            assert second.returncode == 0, second.stderr.decode()
            assert b"2 of 2 shards are there already" in second.stderr
        assert {path.name: path.stat().st_ino for path in target.glob("*.lmz")} == first
    assert contents("alone") == contents(target)
    assert not (target / "unfinished").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("photos")
def test_a_new_client_waits_for_what_is_under_way(
    cli: Cli, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The same command takes what workers were doing for a lost client; nothing is done again."""
    command = ["compress", "--model", cli.model, "--archive", "-r", "photos", "--shard", 4]
    assert cli(*command, "-o", "alone").code == 0
    target = tmp_path / "together"
    with workers_without_client(command, target, tmp_path_factory) as (client, folder):
        second = start_quietly(client)
        time.sleep(3)
        assert second.poll() is None
        (folder / "go").touch()
        assert second.wait(timeout=120) == 0
        assert list(folder.glob("*.again")) == []
    assert contents("alone") == contents(target)


@contextmanager
def workers_without_client(
    command: list[object], target: Path, factory: pytest.TempPathFactory
) -> Iterator[tuple[list[str], Path]]:
    """Workers that hold two shards of a client that was killed, until there is a file `go`.

    Gives the client's command and the folder of `go`.
    """
    folder = factory.mktemp("dask")
    preload = folder / "delay.py"
    preload.write_text(DELAY.format(folder=str(folder)))
    with processes(folder, "--nthreads", "2", "--preload", str(preload)) as (address, _):
        client = [*COMMAND, *map(str, command), "-o", str(target), "--scheduler", address]
        lost = start_quietly(client)
        wait_for(2, folder, "*.waits")
        lost.kill()
        lost.wait()
        assert list(target.glob("*.lmz")) == []
        yield client, folder
