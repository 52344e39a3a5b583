"""Writing files whole or not at all, wherever they lie.

On this machine that is `lmzip.whole_files`. A store of objects shows an object when all of it has
arrived; on anything else the content goes to a temporary name first.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from lmzip.errors import InputError
from lmzip.storage.paths import file_system, is_remote, name_errors
from lmzip.whole_files import replace_file, temporary_name

_OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oci", "oss", "memory"}


def write_whole(
    path: Path,
    data: bytes,
    *,
    overwrite: bool = True,
    permissions: int | None = None,
    times: tuple[int, int] | None = None,
) -> None:
    """Write a file; permissions and times are for files on this machine.

    Raises FileExistsError if `overwrite` is off and the name is taken.
    """
    if is_remote(path):
        with name_errors(path):
            _put(path, data, overwrite)
        return
    with replace_file(path, overwrite=overwrite, permissions=permissions, times=times) as file:
        file.write(data)


@contextlib.contextmanager
def open_whole(path: Path) -> Iterator[BinaryIO]:
    """Open a file to be written in place of `path` once the block ends without an error.

    What is for a store lies in a temporary file of this machine until then.
    """
    if not is_remote(path):
        with replace_file(path) as file:
            yield file
        return
    with tempfile.TemporaryDirectory(prefix="lmzip-") as folder:
        local = Path(folder, "whole")
        with local.open("wb") as file:
            yield file
        with name_errors(path):
            _put(path, local, overwrite=True)


def _put(path: Path, data: bytes | Path, overwrite: bool) -> None:
    """Bring bytes, or a file of this machine, to a store."""
    from fsspec.archive import AbstractArchiveFileSystem

    system, name = file_system(path)
    if isinstance(system, AbstractArchiveFileSystem):
        raise InputError(f"{path}: files inside an archive are read, not written")
    mode = "overwrite" if overwrite else "create"
    protocols = {system.protocol} if isinstance(system.protocol, str) else set(system.protocol)
    if protocols & _OBJECT_STORES:
        _send(system, name, data, mode=mode)
        return
    folder, _, last = name.rpartition("/")
    temporary = f"{folder}/{temporary_name(last)}"
    if not overwrite and system.exists(name):
        raise FileExistsError(str(path))
    try:
        _send(system, temporary, data)
        system.mv(temporary, name)
    except BaseException:
        if system.exists(temporary):
            system.rm_file(temporary)
        raise


def _send(system: Any, name: str, data: bytes | Path, **options: str) -> None:
    if isinstance(data, Path):
        system.put_file(str(data), name)  # in pieces; replaces what is there
    else:
        system.pipe_file(name, data, **options)
