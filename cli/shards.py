"""lmzip compress --shard: many pictures as archives of so many each, here or on a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from lmzip import InputError
from lmzip.cli.console import Report, count_of, fit_name, format_size
from lmzip.cli.files import is_folder, make_folder
from lmzip.sharding import (
    MANIFEST,
    Here,
    Listed,
    Made,
    Recipe,
    Run,
    Runner,
    Shard,
    open_cluster,
    open_run,
    plan_shards,
)
from lmzip.storage import FoundFile, find_files, name_errors, to_path, version_of

_NAME_WIDTH = 18


def compress_shards(
    inputs: Iterable[str],
    target: str,
    size: int,
    recipe: Recipe,
    scheduler: str | None,
    wanted: Callable[[Path], bool],
    force: bool,
    report: Report,
) -> int:
    """Make the shards of all pictures that the inputs name, or those that are missing."""
    if to_path(target).is_file():
        raise click.UsageError(f"{target} is a file; shards need a folder")
    roots, pictures = _list_pictures(inputs, wanted, report)
    if not pictures:
        return report.finish()
    plan = plan_shards(roots, pictures, target, size, recipe)
    make_folder(to_path(target))
    run = open_run(plan, target, recipe.limits, force=force)
    there = len(run.done)
    if there:
        report.remark(f"{there} of {count_of(len(plan.tasks), 'shard')} are there already")
    with open_runner(scheduler, report) as runner:
        _make(run, runner, report)
    return report.finish(total=_summarise(run, there, report))


@contextmanager
def open_runner(scheduler: str | None, report: Report) -> Iterator[Runner]:
    """Return what runs tasks: this machine, or the cluster of a scheduler."""
    if scheduler is None:
        yield Here()
        return
    with open_cluster(scheduler) as cluster:
        if not cluster.count_threads():
            report.remark(f"{scheduler} has no workers yet; waiting for some")
        yield cluster


def _make(run: Run, runner: Runner, report: Report) -> None:
    total, began = len(run.plan.tasks), time.monotonic()
    with report.progress(str(run.target)) as progress:
        for task, made in run.make(runner):
            if isinstance(made, Made):
                _print_shard(made, report)
            else:
                with report.file(str(run.target / task.name)):
                    raise made
            if progress:
                progress(len(run.done), total)
    report.note(f"made in {time.monotonic() - began:.1f} s")


def _print_shard(made: Made, report: Report) -> None:
    shard = made.shard
    for failure in shard.failures:
        report.fail(failure.image, failure.reason)
    for loss in shard.losses:
        report.warn(loss.image, f"not kept: {loss.reason}")
    report.result(
        f"{fit_name(shard.name, _NAME_WIDTH)} {_format_sizes(shard)} {made.seconds:6.1f} s",
        output=shard.name,
        images=shard.images,
        raw_bytes=shard.raw_bytes,
        bytes=shard.size,
        bpd=_bpd([shard]),
        sha256=shard.sha256,
        seconds=round(made.seconds, 3),
    )


def _format_sizes(*shards: Shard) -> str:
    images, raw, size = (
        sum(getattr(shard, name) for shard in shards) for name in ("images", "raw_bytes", "size")
    )
    return (
        f"{images:>7} images {format_size(raw):>8} -> {format_size(size):>8} "
        f"{_bpd(shards) or 0:6.3f} bpd"
    )


def _bpd(shards: Iterable[Shard]) -> float | None:
    shards = list(shards)
    samples = sum(shard.samples for shard in shards)
    return 8 * sum(shard.size for shard in shards) / samples if samples else None


def _summarise(run: Run, there: int, report: Report) -> dict[str, object]:
    """Print the totals; return them for `--json`."""
    shards = list(run.done.values())
    if shards:
        name = fit_name(f"{len(shards)} of {count_of(len(run.plan.tasks), 'shard')}", _NAME_WIDTH)
        report.line(f"{name} {_format_sizes(*shards)}")
    return {
        "shards": len(shards),
        "planned": len(run.plan.tasks),
        "there_before": there,
        "images": sum(shard.images for shard in shards),
        "raw_bytes": sum(shard.raw_bytes for shard in shards),
        "bytes": sum(shard.size for shard in shards),
        "bpd": _bpd(shards),
        "manifest": str(run.target / MANIFEST) if not run.missing else None,
    }


def _list_pictures(
    inputs: Iterable[str], wanted: Callable[[Path], bool], report: Report
) -> tuple[list[str], list[Listed]]:
    """Return the folders of the inputs, and all pictures in them; their names must differ."""
    roots: list[str] = []
    pictures: list[Listed] = []
    for number, name in enumerate(inputs):
        path = to_path(name)
        if is_folder(path):
            roots.append(str(path.resolve()))
            found = [file for file in find_files(path) if wanted(Path(file.relative))]
            if not found:
                report.fail(name, "this folder has no files of the right kind")
        else:
            roots.append(str(path.resolve().parent))
            with name_errors(path):
                found = [FoundFile(path.name, path.stat().st_size, str(version_of(path)))]
        pictures += [Listed(number, file) for file in found]
    seen: set[str] = set()
    for picture in pictures:
        if picture.file.relative in seen:
            raise InputError(f"two pictures would have the name {picture.file.relative}")
        seen.add(picture.file.relative)
    return roots, pictures
