"""Input and output files: which files a command reads, and where its outputs go.

Outputs are written whole or not at all (`lmzip.whole_files`), and no output ever replaces the file
it was made from.
"""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import click

from lmzip import InputError, Limits
from lmzip.cli.console import Report
from lmzip.whole_files import replace_file

STANDARD = "-"  # stdin or stdout
_PERMISSIONS = 0o777
_READ_AT_ONCE = 1 << 20


class OutputError(InputError):
    """An output may not be written; `hint` says what would help."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class Source:
    """An input: its path, and its path relative to the folder it was found in."""

    path: Path
    relative: Path

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def is_stdin(self) -> bool:
        return self.name == STANDARD

    def read(self, limits: Limits) -> bytes:
        """Return the content; raises LimitError if it is too long, InputError if it changes."""
        if self.is_stdin:
            return _read_stream(sys.stdin.buffer, limits)
        with open(self.path, "rb") as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                return _read_stream(file, limits)
            limits.check_memory(before.st_size)
            data = file.read()
            after = os.fstat(file.fileno())
        if _version(before) != _version(after) or len(data) != after.st_size:
            raise InputError("the file changed while it was read")
        return data

    def status(self) -> os.stat_result | None:
        return None if self.is_stdin else self.path.stat()


def _read_stream(file: BinaryIO, limits: Limits) -> bytes:
    """Read a pipe or a device, which may have no end, up to the limit of memory."""
    parts, size = [], 0
    while size <= limits.memory and (part := file.read(_READ_AT_ONCE)):
        parts.append(part)
        size += len(part)
    limits.check_memory(size)
    return b"".join(parts)


def _version(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ino


def find_sources(
    inputs: Iterable[str], recursive: bool, wanted: Callable[[Path], bool], report: Report
) -> list[Source]:
    """Return the files that the inputs name; folders need `-r`."""
    sources: list[Source] = []
    for name in inputs:
        path = Path(name)
        if name == STANDARD or not path.is_dir():
            sources.append(Source(path, Path(path.name)))
        elif recursive:
            found = sorted(_walk(path, report))
            chosen = [file for file in found if wanted(file)]
            sources += [Source(file, file.relative_to(path)) for file in chosen]
            if not chosen:
                report.fail(name, "this folder has no files of the right kind")
        else:
            report.fail(name, "is a folder", hint="-r goes through folders")
    return sources


def _walk(folder: Path, report: Report) -> Iterator[Path]:
    def complain(error: OSError) -> None:
        report.fail(str(error.filename), error.strerror or str(error))

    for root, _, names in os.walk(folder, onerror=complain):
        for name in names:
            path = Path(root, name)
            if path.is_file():
                yield path


@dataclass
class Targets:
    """Where outputs go: beside their inputs, to one file, below a folder, or to stdout."""

    output: str | None
    force: bool
    to_stdout: bool = False
    to_folder: bool = False
    written: dict[Path, str] = field(default_factory=dict)
    shared: frozenset[Path] = frozenset()  # targets that several sources would have

    @classmethod
    def plan(
        cls, sources: list[Source], output: str | None, force: bool, to_stdout: bool, many: bool
    ) -> Targets:
        """Decide what `-o` and `-c` mean for these inputs; raises UsageError if they make no sense.

        `many` says that there may be more outputs than one, so that `-o` is a folder.
        """
        if to_stdout and output not in (None, STANDARD):
            raise click.UsageError("-c and -o exclude each other")
        to_stdout |= output == STANDARD
        to_stdout |= output is None and any(source.is_stdin for source in sources)
        if to_stdout:
            if many or len(sources) > 1:
                raise click.UsageError("only one file can go to stdout")
            if sys.stdout.isatty():
                raise click.UsageError("will not write binary data to a terminal: use -o FILE")
        several = many or len(sources) > 1
        if several and output and output.endswith(".lmz") and not Path(output).is_dir():
            raise click.UsageError(
                f"{output} would be a folder: --archive packs several images into one file"
            )
        to_folder = output is not None and (
            many or len(sources) > 1 or output.endswith(("/", os.sep)) or Path(output).is_dir()
        )
        if to_folder and output and Path(output).exists() and not Path(output).is_dir():
            raise click.UsageError(f"{output} is a file; several outputs need a folder")
        return cls(None if to_stdout else output, force, to_stdout, to_folder)

    def keep_apart(self, sources: list[Source], suffix: str) -> None:
        """Let sources that differ by their endings alone have the whole name: a.bmp, a.bmp.lmz."""
        counts = Counter(self.of(source, suffix) for source in dict.fromkeys(sources))
        self.shared = frozenset(target for target, count in counts.items() if count > 1)

    def of(self, source: Source, suffix: str) -> Path:
        """Return the path of a source's output."""
        if self.output is not None and not self.to_folder:
            return Path(self.output)
        path = source.path
        if self.output is not None:
            path = Path(self.output, "stdin" if source.is_stdin else source.relative)
        target = path.with_suffix(suffix)
        if path.suffix == ".lmz" and Path(path.stem).suffix.lower() == suffix:
            return path.with_suffix("")  # a.bmp.lmz: a.bmp
        return path.with_name(path.name + suffix) if target in self.shared else target

    def check(self, target: Path, source: Source) -> None:
        """Raise OutputError unless the target of a source may be written."""
        if not self.to_stdout:
            self.check_input(target, source)
            self.check_target(target)

    def check_input(self, target: Path, source: Source) -> None:
        """Raise OutputError if the target is the source itself."""
        if not source.is_stdin and target.exists() and target.samefile(source.path):
            raise OutputError("the output would replace the input", "-o gives it another name")

    def check_target(self, target: Path) -> None:
        """Raise OutputError if something is in the way."""
        if target in self.written:
            raise OutputError(
                f"{target} was just written from {self.written[target]}",
                "-o gives it another name",
            )
        if target.is_dir():
            raise OutputError(f"{target} is a folder")
        if not self.to_folder and not target.parent.is_dir():
            raise OutputError(f"{target.parent} is not a folder")
        if not self.force and os.path.lexists(target) and not _is_device(target):
            raise OutputError(f"{target} already exists", "-f overwrites it")

    def write(
        self,
        target: Path,
        source: Source,
        data: bytes,
        times: tuple[int, int] | None = None,
    ) -> None:
        """Write an output with the input's permissions, and with times if they are given."""
        if self.to_stdout:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        if _is_device(target):
            target.write_bytes(data)
            return
        if self.to_folder:
            target.parent.mkdir(parents=True, exist_ok=True)
        status = source.status()
        permissions = None if status is None else stat.S_IMODE(status.st_mode) & _PERMISSIONS
        write_file(target, data, force=self.force, permissions=permissions, times=times)
        self.written[target] = source.name

    def remove_input(self, source: Source, target: Path, read: os.stat_result | None) -> None:
        """Delete an input whose output is safely in place, in a file.

        Raises InputError if it is not the file any more that was read.
        """
        if target in self.written and not source.is_stdin:
            if read is not None and _version(source.path.stat()) != _version(read):
                raise InputError("not deleted: it changed after it was read")
            source.path.unlink()


def write_file(
    target: Path,
    data: bytes,
    *,
    force: bool,
    permissions: int | None = None,
    times: tuple[int, int] | None = None,
) -> None:
    """Write a file whole or not at all; raises OutputError if it exists, unless `force` is set."""
    try:
        with replace_file(target, overwrite=force, permissions=permissions, times=times) as file:
            file.write(data)
    except FileExistsError:
        raise OutputError(f"{target} already exists", "-f overwrites it") from None


def _is_device(path: Path) -> bool:
    """Whether a path is something like /dev/null or a pipe, which must not be replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()
