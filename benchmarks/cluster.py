"""Shards on a Dask cluster of processes on this machine, while workers and clients are killed.

    python benchmarks/cluster.py --data DIR --work SCRATCH [--images 20000] [--shards 20]

1. One process alone makes all shards (the reference for bytes and for CPU time per image).
2. A scheduler and three workers of one thread make them again. When a quarter is done, one worker
   gets SIGKILL; at half, another one is started. At three quarters the client gets SIGKILL, and the
   same command completes the set.
3. Every shard is compared byte for byte with the reference, and verified by `lmzip verify`.

Printed: CPU seconds of the workers for each image, without their starts, against those of the
process alone (throughput per core, whatever else the machine does), wall times, the shards that
were written twice, and the scheduler's memory as the run goes on. CIFAR-10's images are written as
PNG files once, and the shards of the process alone are made once: the script may be started again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import numpy as np
from distributed import Client

from lmzip import MODES, Limits, Options, Picture
from lmzip.formats import write_picture
from lmzip.models.data_files import read_data_set
from lmzip.sharding import Here, Listed, Recipe, open_run, plan_shards
from lmzip.storage import find_files

LMZIP = [sys.executable, "-P", "-c", "from lmzip.cli import main; main()"]
WORKERS = 3
TICKS = os.sysconf("SC_CLK_TCK")
POLL = 0.5  # seconds


def write_images(data: Path, folder: Path, count: int) -> None:
    """Write the first images of CIFAR-10 as PNG files, a thousand to a folder."""
    if folder.exists() and len(list(folder.rglob("*.png"))) == count:
        return
    planes = read_data_set("cifar10", [data], "train", "")[:count]
    for number, image in enumerate(planes):
        path = folder / f"{number // 1000:03d}" / f"{number:06d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        samples = np.ascontiguousarray(image.transpose(1, 2, 0))
        path.write_bytes(write_picture(Picture(samples, MODES["RGB"]), ".png")[0])


def read_cpu(pid: int) -> float:
    """Return the CPU seconds of a process so far; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def read_memory(pid: int) -> float:
    """Return the resident megabytes of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def count_running(dask_worker: Any) -> int:
    """Return the tasks that a worker runs, also those that the scheduler has given up."""
    return len(dask_worker.active_threads)


@dataclass
class Cluster:
    """A scheduler and its workers, each a process."""

    folder: Path
    scheduler: subprocess.Popen[bytes]
    address: str
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    cpu: dict[int, float] = field(default_factory=dict)  # by process, also of those that ended
    memory: list[float] = field(default_factory=list)
    startup: float = 0.0  # CPU seconds of a worker until it is ready
    # The files that a shard has been: their inodes and times.
    written: dict[str, set[tuple[int, int]]] = field(default_factory=dict)

    def add_worker(self) -> None:
        log = open(self.folder / f"worker-{len(self.workers)}.log", "wb")  # noqa: SIM115
        command = [sys.executable, "-m", "distributed.cli.dask_worker", self.address]
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1"]
        self.workers.append(
            subprocess.Popen(
                [*command, *options, "--local-directory", str(self.folder)], stdout=log, stderr=log
            )
        )

    def wait_for_workers(self) -> None:
        """Wait until the workers have registered, and note what their start took."""
        with Client(self.address, timeout="120s", set_as_default=False) as client:
            client.wait_for_workers(len(self.workers), timeout=300)
        self.startup = sum(read_cpu(worker.pid) for worker in self.workers) / len(self.workers)

    def wait_for_strays(self) -> None:
        """Wait until no worker goes on with a task of the client that was killed."""
        with Client(self.address, timeout="120s", set_as_default=False) as client:
            while any(client.run(count_running).values()):
                time.sleep(POLL)

    def count_cpu(self) -> float:
        """Return the CPU seconds of all workers so far, without their starts."""
        return sum(self.cpu.values()) - self.startup * len(self.workers)

    def kill_worker(self) -> None:
        victim = next(worker for worker in self.workers if worker.poll() is None)
        self.observe()
        victim.kill()
        victim.wait()

    def observe(self, shards: Path | None = None) -> None:
        """Note the workers' CPU time, the scheduler's memory, and which shards are new files."""
        for path in shards.glob("shard-*.lmz") if shards else ():
            status = path.stat()
            self.written.setdefault(path.name, set()).add((status.st_ino, status.st_mtime_ns))
        for worker in self.workers:
            if worker.poll() is None:
                self.cpu[worker.pid] = max(self.cpu.get(worker.pid, 0.0), read_cpu(worker.pid))
        self.memory.append(read_memory(self.scheduler.pid))


@contextmanager
def run_cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """Start a scheduler and workers; they end with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    found = folder / "scheduler.json"
    found.unlink(missing_ok=True)
    log = open(folder / "scheduler.log", "wb")  # noqa: SIM115
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1"]
    options = ["--port", "0", "--no-dashboard", "--scheduler-file", str(found)]
    scheduler = subprocess.Popen([*command, *options], stdout=log, stderr=log)
    cluster = Cluster(folder, scheduler, "")
    try:
        for _ in range(120):
            if found.exists() and found.read_text():
                break
            time.sleep(POLL)
        cluster.address = json.loads(found.read_text())["address"]
        for _ in range(workers):
            cluster.add_worker()
        cluster.wait_for_workers()
        yield cluster
    finally:
        for process in [*cluster.workers, scheduler]:
            process.terminate()
        for process in [*cluster.workers, scheduler]:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def count_shards(folder: Path) -> int:
    return len(list(folder.glob("shard-*.lmz")))


def digests(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.glob("shard-*.lmz"))
    }


def start_client(arguments: list[str], log: Path) -> subprocess.Popen[bytes]:
    with open(log, "ab") as file:
        return subprocess.Popen([*LMZIP, *arguments], stdout=file, stderr=file)


def make_alone(images: Path, folder: Path, size: int, verify: bool) -> float:
    """Make the shards by this process with one thread; return the CPU seconds that they took.

    What an earlier call has made counts with the seconds that it took then.
    """
    recipe = Recipe(Options(threads=1), verify=verify)
    pictures = [Listed(0, file) for file in find_files(images)]
    run = open_run(
        plan_shards([str(images)], pictures, str(folder), size, recipe), str(folder), Limits()
    )
    notes = folder.with_suffix(".json")
    taken: dict[str, float] = json.loads(notes.read_text()) if notes.exists() and run.done else {}
    began = time.process_time()
    for task, made in run.make(Here()):
        if isinstance(made, Exception):
            raise made
        taken[task.name] = time.process_time() - began
        began = time.process_time()
        notes.write_text(json.dumps(taken))
    return sum(taken.values())


def make_on_cluster(cluster: Cluster, arguments: list[str], folder: Path, shards: int) -> float:
    """Make the shards while a worker and the client are killed; return wall seconds."""
    arguments = [*arguments, "-o", str(folder), "--scheduler", cluster.address]
    log, began = folder.with_suffix(".log"), time.monotonic()
    kills = {shards // 4: "worker", shards // 2: "restart", 3 * shards // 4: "client"}
    client = start_client(arguments, log)
    try:
        while client.poll() is None:
            time.sleep(POLL)
            cluster.observe(folder)
            done = count_shards(folder)
            for due in [number for number in kills if done >= number]:
                what = kills.pop(due)
                print(f"  {done} shards there: {what}", flush=True)
                if what == "worker":
                    cluster.kill_worker()
                elif what == "restart":
                    cluster.add_worker()
                else:
                    client.kill()
                    client.wait()
                    client = start_client(arguments, log)
    finally:
        client.kill()  # if it has not ended
        client.wait()
    assert client.returncode == 0, log.read_text()
    assert not kills, f"not reached: {kills}"
    return time.monotonic() - began


def end_by_exception(number: int, frame: FrameType | None) -> NoReturn:
    """Let a signal unwind the stack, so that the processes of a cluster end with this one."""
    sys.exit(128 + number)


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end_by_exception)
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--shards", type=int, default=20)
    parser.add_argument("--verify", action="store_true", help="also verify while compressing")
    options = parser.parse_args()
    work, images = options.work, options.work / f"images-{options.images}"
    write_images(options.data, images, options.images)
    size = -(-options.images // options.shards)
    compress = ["compress", "--archive", "-r", str(images), "--shard", str(size)]
    compress += [] if options.verify else ["--no-verify"]
    alone, together = work / "alone", work / "together"
    shutil.rmtree(together, ignore_errors=True)  # of an earlier start
    cpu = make_alone(images, alone, size, options.verify)
    print(f"alone: {1000 * cpu / options.images:.2f} ms CPU an image", flush=True)
    with run_cluster(work / "cluster", WORKERS) as cluster:
        wall = make_on_cluster(cluster, compress, together, options.shards)
        cluster.wait_for_strays()
        cluster.observe(together)
        spent = cluster.count_cpu()
        each = 1000 * spent / options.images
        print(f"cluster: {each:.2f} ms CPU an image, {wall:.0f} s of wall time")
        print(f"throughput per core: {cpu / spent:.1%} of one process alone, killed work included")
        first, *_, last = memory = cluster.memory
        print(f"scheduler: {first:.0f} MB at first, {last:.0f} at last, {max(memory):.0f} at most")
        assert digests(together) == digests(alone), "shards differ"
        assert count_shards(together) == options.shards
        twice = sum(len(files) > 1 for files in cluster.written.values())
        print(f"{options.shards} shards, byte for byte those of one process; {twice} written twice")
        assert not twice
        began = time.monotonic()
        verify = [*LMZIP, "verify", str(together / "manifest.json"), "--scheduler", cluster.address]
        subprocess.run(verify, check=True, stdout=subprocess.DEVNULL)
        print(f"verified by the cluster in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
