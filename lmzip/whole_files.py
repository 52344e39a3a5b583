"""Writing files whole or not at all.

The content goes to a temporary file beside the target, is synced to the disk, and only then gets
the target's name. Whatever happens before that (an error, a signal, a full disk) leaves the target
as it was.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

TEMPORARY_SUFFIX = ".lmzip-tmp"
_NAME_BYTES = 190  # of the target's name: file systems limit names


@contextlib.contextmanager
def replace_file(
    path: str | Path,
    *,
    overwrite: bool = True,
    permissions: int | None = None,
    times: tuple[int, int] | None = None,
) -> Iterator[BinaryIO]:
    """Open a file to be written in place of `path` once the block ends without an error.

    times: of access and of modification, in nanoseconds. Raises FileExistsError if `overwrite` is
    off and the name is taken, even if that happened only a moment ago.
    """
    target = Path(path)
    temporary = target.with_name(temporary_name(target.name))
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if permissions is not None:
                os.chmod(temporary, permissions)
            if times is not None:
                os.utime(temporary, ns=times)
            os.fsync(file.fileno())
        _give_name(temporary, target, overwrite)
    except OSError as error:
        if error.filename in (None, str(temporary)):
            error.filename = str(target)  # users know the target, not the temporary file
        raise
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
    _sync_folder(target.parent)


def temporary_name(name: str) -> str:
    """Return a name for the meantime that nobody else has: no thread, container or machine.

    Numbers of processes would not do: those of two containers may be the same.
    """
    start = os.fsdecode(os.fsencode(name)[:_NAME_BYTES])
    return f".{start}.{os.urandom(8).hex()}{TEMPORARY_SUFFIX}"


def _give_name(temporary: Path, target: Path, overwrite: bool) -> None:
    """Rename in one step; without `overwrite`, in one step that fails if the name is taken."""
    if not overwrite:
        try:
            os.link(temporary, target)
            return
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            if target.exists():
                raise FileExistsError(errno.EEXIST, "File exists", str(target)) from None
    os.replace(temporary, target)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every system syncs folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
