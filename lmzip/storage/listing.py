"""Listing folders: the files below one, in a sequence that depends on their names alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lmzip.storage.paths import file_system, is_remote, name_errors

# What stores say about a file that changes with its content; the first that is there is taken.
_VERSIONS = ("ETag", "etag", "md5Hash", "generation", "LastModified", "mtime", "created", "CRC")


@dataclass(frozen=True, order=True)
class FoundFile:
    """A file below a folder: its name there, its bytes, and what changes with its content."""

    relative: str  # with "/" between the parts
    size: int
    version: str


def find_files(folder: Path, on_error: Callable[[OSError], None] | None = None) -> list[FoundFile]:
    """Return all files below a folder, sorted by the parts of their names.

    `on_error` gets the errors of folders that cannot be listed; without it the first one is raised.
    """
    found = _find_remote(folder) if is_remote(folder) else _find_local(folder, on_error)
    return sorted(found, key=lambda file: file.relative.split("/"))


def _find_local(folder: Path, on_error: Callable[[OSError], None] | None) -> Iterator[FoundFile]:
    def complain(error: OSError) -> None:
        if on_error is None:
            raise error
        on_error(error)

    for root, _, names in os.walk(folder, onerror=complain):
        for name in names:
            path = Path(root, name)
            if path.is_file():
                status = path.stat()
                relative = path.relative_to(folder).as_posix()
                yield FoundFile(relative, status.st_size, str(status.st_mtime_ns))


def _find_remote(folder: Path) -> Iterator[FoundFile]:
    with name_errors(folder):
        system, name = file_system(folder)
        system.invalidate_cache()
        found = system.find(name, detail=True)
    start = name.rstrip("/") + "/" if name.strip("/") else ""
    for path, info in found.items():
        if info.get("type") == "file" and path != name:
            version = next((str(info[key]) for key in _VERSIONS if key in info), "")
            yield FoundFile(_below(path, start), int(info["size"] or 0), version)


def _below(path: str, start: str) -> str:
    """Return a name without the folder; some stores begin names with "/" and some do not."""
    path, start = path.lstrip("/"), start.lstrip("/")
    return path.removeprefix(start)
