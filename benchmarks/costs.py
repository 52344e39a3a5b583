"""What shards cost for each image, and what that makes for millions: the figures of docs/SCALE.md.

    python benchmarks/costs.py FOLDER [--count N]

Makes one shard of a folder's first images with one thread: CPU time to read and encode, to verify,
and bytes. Lists and plans the whole folder: time and memory of the client for each image, and the
bytes of a task, which is all that a scheduler holds of a shard.
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
import time
import tracemalloc
from pathlib import Path

from lmzip import Limits, Options
from lmzip.formats import READABLE_SUFFIXES
from lmzip.sharding import Here, Listed, Made, Recipe, Shard, open_run, plan_shards, verify_file
from lmzip.storage import find_files

HOUR = 3600


def list_pictures(folder: Path) -> list[Listed]:
    found = find_files(folder)
    return [Listed(0, f) for f in found if Path(f.relative).suffix.lower() in READABLE_SUFFIXES]


def measure_shard(folder: Path, count: int) -> tuple[Shard, float, float]:
    """Return a shard, and the CPU seconds to make it and to verify it."""
    recipe = Recipe(Options(threads=1), verify=False)
    pictures = list_pictures(folder)
    with tempfile.TemporaryDirectory() as target:
        for number in (1, count):  # the first loads models
            chosen = str(Path(target, str(number)))
            Path(chosen).mkdir()
            plan = plan_shards([str(folder)], pictures[:number], chosen, number, recipe)
            began = time.process_time()
            ((_, made),) = open_run(plan, chosen, Limits()).make(Here())
            encode = time.process_time() - began
            assert isinstance(made, Made), made
            shard = made.shard
            began = time.process_time()
            verify_file(str(Path(chosen, shard.name)))
            verify = time.process_time() - began
    return shard, encode, verify


def measure_plan(folder: Path) -> tuple[int, float, float, int]:
    """Return how many images a folder has, microseconds and bytes of each, and bytes of a task."""
    began = time.process_time()
    pictures = list_pictures(folder)
    plan_shards([str(folder)], pictures, "/target", 10_000, Recipe())
    seconds = time.process_time() - began
    tracemalloc.start()
    pictures = list_pictures(folder)
    plan = plan_shards([str(folder)], pictures, "/target", 10_000, Recipe())
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    task = max(len(pickle.dumps(task)) for task in plan.tasks)
    return len(pictures), 1e6 * seconds / len(pictures), size / len(pictures), task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=1000, help="images of the shard")
    options = parser.parse_args()
    shard, encode, verify = measure_shard(options.folder, options.count)
    print(f"{shard.images} images, {shard.raw_bytes / shard.images:.0f} raw bytes each")
    print(f"{shard.size / shard.images:.0f} bytes each, {8 * shard.size / shard.samples:.3f} bpd")
    for what, seconds in (("read and encode", encode), ("verify", verify)):
        each = seconds / shard.images
        hours = f"{1e6 * each / HOUR:.1f} core-hours a million"
        print(f"{what}: {1000 * each:.2f} ms of CPU time an image, {hours}")
    count, microseconds, size, task = measure_plan(options.folder)
    print(f"list and plan {count} images: {microseconds:.0f} us and {size:.0f} bytes each")
    print(f"a task: {task} bytes")


if __name__ == "__main__":
    main()
