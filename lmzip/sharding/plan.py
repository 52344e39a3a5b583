"""A plan: which pictures go into which shard.

The listing of all pictures is written to the target once, a line for each. A task names its part of
that file, so it is a few hundred bytes however many pictures a shard has, and neither client nor
scheduler carries names around. The listing is sorted and shards are cut by count, so the same
pictures always give the same shards.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path

from lmzip.errors import InputError
from lmzip.limits import Limits
from lmzip.network.registry import load_model
from lmzip.options import AUTO, Options
from lmzip.storage import FoundFile, open_ranges, to_address, to_path, write_whole

UNFINISHED = "unfinished"  # the folder of the listing and of records, while shards are missing
_LISTING = "listing.jsonl"


def installed_version() -> str:
    """Return the version of lmzip on this machine."""
    return metadata.version("lmzip")


@dataclass(frozen=True)
class Recipe:
    """How pictures become shards; everything here may change their bytes, but for `verify`."""

    options: Options = field(default_factory=Options)
    strip: bool = False
    verify: bool = True
    limits: Limits = field(default_factory=Limits)
    version: str = field(default_factory=installed_version)

    @property
    def identity(self) -> str:
        """What the bytes of a shard depend on, besides its pictures.

        A model is what is in its file, wherever that lies.
        """
        options = asdict(self.options)
        if self.options.model != AUTO:
            options["model"] = load_model(self.options.model).fingerprint
        for name in ("threads", "backend", "minutes"):
            del options[name]
        return json.dumps([self.version, self.strip, options], default=str)


@dataclass(frozen=True)
class Listed:
    """A picture: the folder it was found in, by number, and what a listing says about it."""

    root: int
    file: FoundFile

    def to_line(self) -> bytes:
        file = self.file
        return json.dumps([self.root, file.relative, file.size, file.version]).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Listed:
        root, *fields = json.loads(line)
        return cls(root, FoundFile(*fields))


@dataclass(frozen=True)
class ShardTask:
    """All that a worker needs to make one shard: addresses, not names and not pixels."""

    name: str
    target: str  # the folder of the set
    roots: tuple[str, ...]
    listing: str
    start: int  # of its lines in the listing
    stop: int
    images: int
    digest: str
    recipe: Recipe

    @property
    def path(self) -> Path:
        return to_path(self.target) / self.name

    @property
    def record(self) -> Path:
        return to_path(self.target) / UNFINISHED / f"{self.name}.json"

    def identify(self) -> str:
        """Return a name that no other shard has, nor this one of other pictures or options."""
        return f"{self.path}-{self.digest}"

    def read_listing(self) -> list[Listed]:
        """Return the pictures of the shard; raises InputError if the listing is another one."""
        with open_ranges(self.listing, self.recipe.limits) as data:
            lines = bytes(data[self.start : self.stop])
        if _digest(lines, self.recipe) != self.digest:
            raise InputError(f"{self.listing}: changed while shards were made from it")
        return [Listed.from_line(line) for line in lines.splitlines()]


@dataclass(frozen=True)
class Plan:
    """The shards of a set, in sequence, and the listing that their tasks refer to."""

    tasks: tuple[ShardTask, ...]
    lines: bytes

    @property
    def images(self) -> int:
        return sum(task.images for task in self.tasks)

    def write_listing(self) -> None:
        """Write the listing to where the tasks look for it."""
        if self.tasks:
            write_whole(to_path(self.tasks[0].listing), self.lines)


def plan_shards(
    roots: Iterable[str], pictures: Iterable[Listed], target: str, size: int, recipe: Recipe
) -> Plan:
    """Cut pictures into shards of `size`, the last with what is left.

    Workers may run in other folders than this process: whatever tasks name is an address.
    """
    target = to_address(target)
    listing = str(to_path(target) / UNFINISHED / _LISTING)
    if Path(recipe.options.model).is_file():
        options = replace(recipe.options, model=to_address(recipe.options.model))
        recipe = replace(recipe, options=options)
    folders, tasks, lines = tuple(map(to_address, roots)), [], bytearray()
    for number, part in enumerate(_cut(pictures, size)):
        text = b"".join(picture.to_line() for picture in part)
        start = len(lines)
        lines += text
        name = f"shard-{number:06d}.lmz"
        place = (listing, start, len(lines), len(part))
        tasks.append(ShardTask(name, target, folders, *place, _digest(text, recipe), recipe))
    return Plan(tuple(tasks), bytes(lines))


def _cut(pictures: Iterable[Listed], size: int) -> Iterator[list[Listed]]:
    part: list[Listed] = []
    for picture in pictures:
        part.append(picture)
        if len(part) == size:
            yield part
            part = []
    if part:
        yield part


def _digest(lines: bytes, recipe: Recipe) -> str:
    return hashlib.sha256(recipe.identity.encode() + b"\n" + lines).hexdigest()
