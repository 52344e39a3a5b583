"""Writing files whole or not at all, wherever they lie.

On this machine that is `lmzip.whole_files`. A store of objects shows an object when all of it has
arrived; on anything else the content goes to a temporary name first.
"""

from __future__ import annotations

from pathlib import Path

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


def _put(path: Path, data: bytes, overwrite: bool) -> None:
    from fsspec.archive import AbstractArchiveFileSystem

    system, name = file_system(path)
    if isinstance(system, AbstractArchiveFileSystem):
        raise InputError(f"{path}: files inside an archive are read, not written")
    mode = "overwrite" if overwrite else "create"
    protocols = {system.protocol} if isinstance(system.protocol, str) else set(system.protocol)
    if protocols & _OBJECT_STORES:
        system.pipe_file(name, data, mode=mode)
        return
    folder, _, last = name.rpartition("/")
    temporary = f"{folder}/{temporary_name(last)}"
    if not overwrite and system.exists(name):
        raise FileExistsError(str(path))
    try:
        system.pipe_file(temporary, data)
        system.mv(temporary, name)
    except BaseException:
        if system.exists(temporary):
            system.rm_file(temporary)
        raise
