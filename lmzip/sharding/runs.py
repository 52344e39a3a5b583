"""Making the shards of a plan that are missing.

While shards are missing, the target has a folder `unfinished` with the listing of the pictures and
a record for each shard that is there. Whatever is killed, the same plan run again finds these and
makes the rest. When all are there, the manifest takes the place of that folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from lmzip.errors import FormatError, InputError
from lmzip.limits import Limits
from lmzip.sharding.cluster import Runner
from lmzip.sharding.manifest import MANIFEST, Shard, read_manifest, write_manifest
from lmzip.sharding.plan import UNFINISHED, Plan, ShardTask
from lmzip.sharding.tasks import Made, write_shard
from lmzip.storage import FoundFile, find_files, is_remote, name_errors, to_path
from lmzip.whole_files import TEMPORARY_SUFFIX

_READERS = 16  # records that are read at once: a store answers slowly, but many at a time


@dataclass
class Run:
    """The shards of a plan: those that are there, and those to be made."""

    plan: Plan
    target: Path
    done: dict[str, Shard] = field(default_factory=dict)
    replaced: frozenset[str] = frozenset()  # shards of an earlier plan that this one does not have

    @property
    def missing(self) -> list[ShardTask]:
        return [task for task in self.plan.tasks if task.name not in self.done]

    def make(self, runner: Runner) -> Iterator[tuple[ShardTask, Made | Exception]]:
        """Make what is missing; give each task with its shard or its error."""
        missing = self.missing
        if not is_remote(self.target):
            (self.target / UNFINISHED).mkdir(parents=True, exist_ok=True)
        if missing:
            self.plan.write_listing()
        for task, result in runner.run(write_shard, missing, key=ShardTask.identify):
            if isinstance(result, Made):
                self.done[task.name] = result.shard
            yield task, result
        if not self.missing:
            self._finish()

    def _finish(self) -> None:
        """Write the manifest, and remove what was there in the meantime or no longer belongs."""
        write_manifest(self.target / MANIFEST, [self.done[task.name] for task in self.plan.tasks])
        for file in find_files(self.target):
            folder, _, name = file.relative.rpartition("/")
            # Temporary files are left by processes that were killed.
            temporary = name.startswith(".shard-") and name.endswith(TEMPORARY_SUFFIX)
            if folder == UNFINISHED or (not folder and (temporary or name in self.replaced)):
                with name_errors(self.target / file.relative):
                    (self.target / file.relative).unlink(missing_ok=True)
        if not is_remote(self.target):
            (self.target / UNFINISHED).rmdir()


def open_run(plan: Plan, target: str, limits: Limits, *, force: bool = False) -> Run:
    """Find out which shards of a plan are there.

    Raises InputError if the target holds shards of another plan, unless `force` says that they are
    to be replaced. Shards in which pictures failed count as missing.
    """
    folder = to_path(target)
    with name_errors(folder):
        exists = folder.is_dir()
    files = {file.relative: file for file in find_files(folder)} if exists else {}
    known = _read_records(folder, files, limits)
    digests = {task.name: task.digest for task in plan.tasks}
    others = {name for name, shard in known.items() if digests.get(name) != shard.digest}
    if others and not force:
        raise InputError(
            f"{target} holds {min(others)} of other pictures or options: -f replaces it"
        )
    done = {
        name: shard
        for name, shard in known.items()
        if name not in others and not shard.failures and _is_there(shard, files)
    }
    return Run(plan, folder, done, frozenset(others - set(digests)))


def _is_there(shard: Shard, files: dict[str, FoundFile]) -> bool:
    return shard.name in files and files[shard.name].size == shard.size


def _read_records(folder: Path, files: dict[str, FoundFile], limits: Limits) -> dict[str, Shard]:
    """Return the shards that a manifest or records speak of, by name."""
    known: dict[str, Shard] = {}
    if MANIFEST in files:
        known = {shard.name: shard for shard in read_manifest(folder / MANIFEST, limits).shards}
    names = [
        name for name in files if name.startswith(f"{UNFINISHED}/") and name.endswith(".lmz.json")
    ]

    def read(name: str) -> Shard | None:
        with name_errors(folder / name):
            try:
                return Shard.from_json((folder / name).read_bytes())
            except FormatError:
                return None  # its shard is made again

    with ThreadPoolExecutor(_READERS) as readers:
        for shard in filter(None, readers.map(read, names)):
            known[shard.name] = shard
    return known
