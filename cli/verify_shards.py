"""lmzip verify of manifests, and on a cluster: a file is one task."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from lmzip import Limits
from lmzip.cli.console import Report, VerificationError, count_of, fit_name
from lmzip.cli.files import find_sources
from lmzip.cli.shards import open_runner
from lmzip.sharding import MANIFEST, Shard, Verified, read_manifest, verify_file
from lmzip.storage import to_address, to_path


def is_manifest(name: str) -> bool:
    """Whether a name is that of a manifest of shards."""
    return to_path(name).name == MANIFEST


def verify_files(
    inputs: Iterable[str],
    recursive: bool,
    model: str | None,
    threads: int,
    limits: Limits,
    scheduler: str | None,
    report: Report,
) -> None:
    """Decode files and the shards of manifests; a shard must also have its bytes and its images."""
    expected: dict[str, Shard | None] = {}
    for name in inputs:
        if is_manifest(name):
            with report.file(name):
                folder = to_path(name).parent
                for shard in read_manifest(to_path(name), limits).shards:
                    expected[to_address(folder / shard.name)] = shard
        else:
            sources = find_sources([name], recursive, lambda path: path.suffix == ".lmz", report)
            expected.update({to_address(source.path): None for source in sources})
    if scheduler is not None:
        threads = threads or 1  # workers have threads of their own
    task = partial(verify_file, model=model, threads=threads, limits=limits)
    with open_runner(scheduler, report) as runner, report.progress("verify") as progress:
        for number, (address, found) in enumerate(runner.run(task, expected)):
            with report.file(address):
                if isinstance(found, Exception):
                    raise found
                _check(found, expected[address])
                report.result(
                    f"{fit_name(address, 44)} ok, {count_of(found.images, 'image')}",
                    input=address,
                    ok=True,
                    images=found.images,
                )
            if progress:
                progress(number + 1, len(expected))


def _check(found: Verified, shard: Shard | None) -> None:
    if shard is None:
        return
    if (found.size, found.sha256) != (shard.size, shard.sha256):
        raise VerificationError("these are not the bytes that the manifest states")
    if found.images != shard.images:
        raise VerificationError(f"{found.images} images, the manifest states {shard.images}")
