"""Reading parts of a file: from bytes, from a file on this machine, or from a store by ranges.

All three are `Ranges`: a length, and slices. A slice of a remote file is one request for these very
bytes, so whoever reads an archive slices what it needs and no more.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from lmzip.errors import DamagedError
from lmzip.limits import Limits
from lmzip.storage.paths import file_system, is_remote, name_errors, to_path


class Ranges(Protocol):
    """Bytes that can be read in parts."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> memoryview: ...


class RemoteFile:
    """A file in a store; raises OSError if it cannot be read, LimitError before too much is."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self._path, self._limits = path, limits
        with name_errors(path):
            self._system, self._name = file_system(path)
            self._size = int(self._system.info(self._name)["size"])

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice, /) -> memoryview:
        start, stop, _ = part.indices(self._size)
        if stop <= start:
            return memoryview(b"")
        self._limits.check_memory(stop - start)
        with name_errors(self._path):
            data = self._system.cat_file(self._name, start=start, end=stop)
            if len(data) != stop - start:
                reason = f"{len(data)} bytes came instead of {stop - start}"
                raise OSError(errno.EIO, reason)
        return memoryview(data)


class LocalFile:
    """An open file of this machine; any thread or forked process may read it.

    It is not mapped into memory: if someone shortened it then, the process would be killed.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = os.fstat(file.fileno()).st_size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice, /) -> memoryview:
        start, stop, _ = part.indices(self._size)
        data = bytearray()
        while start + len(data) < stop:
            more = os.pread(self._file.fileno(), stop - start - len(data), start + len(data))
            if not more:
                raise DamagedError(f"the file has become shorter than {self._size} bytes")
            data += more
        return memoryview(data)


@contextlib.contextmanager
def open_ranges(source: bytes | str | Path, limits: Limits) -> Iterator[Ranges]:
    """Open a file given by its bytes, its path or its address; slices of it end with the block."""
    if isinstance(source, bytes):
        yield memoryview(source)
    elif is_remote(source):
        yield RemoteFile(to_path(source), limits)
    else:
        with open(to_path(source), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                raise DamagedError(f"{source}: the file is empty")
            if hasattr(os, "pread"):
                yield LocalFile(file)
            else:  # Windows, where nobody can shorten a file that is mapped
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                    yield memoryview(mapped)
