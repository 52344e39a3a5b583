"""Paths and addresses: what a name means, and what happens when its store fails.

An address such as s3://bucket/photo.png becomes a path of universal_pathlib, which has the methods
of `pathlib.Path` that lmzip uses; so the rest of lmzip speaks of paths and seldom asks which kind.
Credentials and endpoints are fsspec's affair: its configuration files and variables hold them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

from lmzip.errors import InputError, LmzipError

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+(::[a-z][a-z0-9+.-]+)*://")
_LOCAL = ("file", "local")
_REASONS = {
    FileNotFoundError: errno.ENOENT,
    FileExistsError: errno.EEXIST,
    IsADirectoryError: errno.EISDIR,
    PermissionError: errno.EACCES,
}
_INSTALL = 'pip install "lmzip[remote]"'


def is_remote(name: str | os.PathLike[str]) -> bool:
    """Whether a name is an address for fsspec rather than a path on this machine."""
    text = str(name)
    return bool(_ADDRESS.match(text)) and urlsplit(text).scheme not in _LOCAL


def to_path(name: str | os.PathLike[str]) -> Path:
    """Return the path that a name or an address means; raises InputError if nothing reads it."""
    text = str(name)
    if not _ADDRESS.match(text):
        return Path(name)
    if not is_remote(text):
        return Path(url2pathname(urlsplit(text).path))
    try:
        import fsspec
        from upath import UPath
    except ImportError:
        raise InputError(f"{text}: addresses need fsspec: {_INSTALL}") from None
    protocols = [part.partition("://")[0] for part in text.split("::") if "://" in part]
    for protocol in protocols:
        try:
            fsspec.get_filesystem_class(protocol)
        except (ImportError, ValueError) as error:
            raise InputError(f"{text}: {_one_line(error)}") from None
    return cast(Path, UPath(text))


def to_address(name: str | os.PathLike[str]) -> str:
    """Return a name that means the same file in any folder."""
    path = to_path(name)
    return str(path if is_remote(path) else path.absolute())


def file_system(path: Path) -> tuple[Any, str]:
    """Return the fsspec file system of a remote path, and the file's name in it."""
    remote = cast(Any, path)
    return remote.fs, remote.path


@contextlib.contextmanager
def name_errors(path: Path) -> Iterator[None]:
    """Turn whatever a store's library raises into an OSError that names the file."""
    try:
        yield
    except LmzipError:
        raise
    except OSError as error:
        if not is_remote(path):
            error.filename = error.filename or str(path)  # reading and writing give no name
            raise
        raise _named(error, path) from error
    except MemoryError:
        raise
    except Exception as error:  # of botocore, aiohttp, zipfile, ...: each has its own
        reason = f"{type(error).__name__}: {_one_line(error)}".removesuffix(": ")
        raise OSError(errno.EIO, reason, str(path)) from error


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths are of one file."""
    if is_remote(one) != is_remote(other):
        return False
    if is_remote(one):
        return str(one) == str(other)
    return one.exists() and other.exists() and one.samefile(other)


def version_of(path: Path) -> Hashable:
    """Return something that changes when the file does."""
    if not is_remote(path):
        status = path.stat()
        return status.st_size, status.st_mtime_ns, status.st_ino
    system, name = file_system(path)
    with name_errors(path):
        system.invalidate_cache()
        return cast(str, system.ukey(name))


def _named(error: OSError, path: Path) -> OSError:
    """Return an error of a store as the system would put it: stores' own texts differ."""
    for kind, number in _REASONS.items():
        if isinstance(error, kind):
            return kind(number, os.strerror(number), str(path))
    return OSError(error.errno or errno.EIO, error.strerror or _one_line(error), str(path))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
