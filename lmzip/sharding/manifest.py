"""What a set of shards holds: manifest.json beside them, and a record of each in the meantime.

A shard's record is written after the shard itself, so a record says that its shard is whole. The
manifest has all records. It names shards, not images: those are in each archive's index, and a
hundred million of them would fit into no manifest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lmzip.errors import FormatError
from lmzip.limits import Limits
from lmzip.storage import open_ranges, write_whole

MANIFEST = "manifest.json"
_KIND, _VERSION = "lmzip shards", 1


@dataclass(frozen=True)
class Remark:
    """Something about a picture: why it is not in its shard, or what of its file is not."""

    image: str
    reason: str


@dataclass(frozen=True)
class Shard:
    """An archive of a set.

    digest: SHA-256 of what it was made from: the names and versions of the pictures, and the recipe
    size, sha256: of its bytes; raw_bytes and samples: of its images
    """

    name: str
    images: int
    first: str
    last: str
    size: int
    sha256: str
    digest: str
    raw_bytes: int
    samples: int
    failures: tuple[Remark, ...] = ()  # pictures that are not in it
    losses: tuple[Remark, ...] = ()  # what is not kept of pictures that are

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Shard:
        """Read a record; raises FormatError if it is not one."""
        try:
            return cls._from_fields(json.loads(data))
        except (ValueError, TypeError, KeyError) as error:
            raise FormatError(f"not the record of a shard ({error})") from None

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Shard:
        for name in ("failures", "losses"):
            fields[name] = tuple(Remark(**remark) for remark in fields[name])
        return cls(**fields)


@dataclass(frozen=True)
class Manifest:
    """All shards of a set, in the sequence of their images."""

    shards: tuple[Shard, ...]

    @property
    def images(self) -> int:
        return sum(shard.images for shard in self.shards)

    def to_json(self) -> bytes:
        head = {"kind": _KIND, "version": _VERSION, "images": self.images}
        shards = ",\n".join(json.dumps(asdict(shard)) for shard in self.shards)
        return f'{json.dumps(head)[:-1]}, "shards": [\n{shards}\n]}}\n'.encode()

    @classmethod
    def from_json(cls, data: bytes) -> Manifest:
        """Read a manifest; raises FormatError if it is not one."""
        try:
            fields = json.loads(data)
            if (fields["kind"], fields["version"]) != (_KIND, _VERSION):
                raise FormatError(f"a manifest of {fields['kind']!r}, version {fields['version']}")
            return cls(tuple(Shard._from_fields(shard) for shard in fields["shards"]))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise FormatError(f"not a manifest of shards ({error})") from None


def read_manifest(path: Path, limits: Limits) -> Manifest:
    """Read a manifest from its file; raises FormatError or OSError."""
    with open_ranges(str(path), limits) as data:
        return Manifest.from_json(bytes(data[:]))


def write_manifest(path: Path, shards: Sequence[Shard]) -> None:
    """Replace a manifest."""
    write_whole(path, Manifest(tuple(shards)).to_json())
