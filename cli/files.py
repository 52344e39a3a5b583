"""Input and output files: which files a command reads, and where its outputs go.

Outputs are written whole or not at all (`lmzip.storage`), and no output ever replaces the file it
was made from. Names may be addresses such as s3://bucket/photo.png; stdin and stdout are "-".
"""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import click

from lmzip import InputError, Limits, is_archive
from lmzip.cli.console import Report, naming_output
from lmzip.cli.endings import is_ending_of
from lmzip.storage import (
    find_files,
    is_remote,
    name_errors,
    open_ranges,
    same_file,
    to_path,
    version_of,
    write_whole,
)

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
    is_stdin: bool = False  # the path cannot tell: that of the file ./- is "-" too

    @classmethod
    def named(cls, name: str) -> Source:
        """Return the file, or stdin, that a command line names."""
        path = to_path(name)
        return cls(path, Path(path.name), name == STANDARD)

    @property
    def name(self) -> str:
        return str(self.path)

    def read(self, limits: Limits) -> bytes:
        """Return the content; raises LimitError if it is too long, InputError if it changes."""
        if self.is_stdin:
            return _read_stream(sys.stdin.buffer, limits)
        if is_remote(self.path):
            with open_ranges(self.name, limits) as ranges:
                return bytes(ranges[:])
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

    def content(self, limits: Limits) -> bytes | str:
        """Return the content, or a remote archive's address: its parts are fetched when needed."""
        if not self.is_stdin and is_remote(self.path) and is_archive(self.name):
            return self.name
        return self.read(limits)

    def status(self) -> os.stat_result | None:
        """Return what the system knows about a file of this machine."""
        return None if self.is_stdin or is_remote(self.path) else self.path.stat()

    def version(self) -> Hashable:
        """Return something that changes when the input does; None for stdin."""
        return None if self.is_stdin else version_of(self.path)


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

    def complain(error: OSError) -> None:
        report.fail(str(error.filename), error.strerror or str(error))

    sources: list[Source] = []
    for name in inputs:
        path = to_path(name)
        if name == STANDARD or not is_folder(path):
            sources.append(Source.named(name))
        elif recursive:
            found = [Path(file.relative) for file in find_files(path, complain)]
            chosen = [file for file in found if wanted(file)]
            sources += [Source(path / file, file) for file in chosen]
            if not chosen:
                report.fail(name, "this folder has no files of the right kind")
        else:
            report.fail(name, "is a folder", hint="-r goes through folders")
    return sources


def is_folder(path: Path) -> bool:
    """Whether there is a folder of this name, or objects whose names begin with it."""
    with name_errors(path):
        return path.is_dir()


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
        if several and output and output.endswith(".lmz") and not is_folder(to_path(output)):
            raise click.UsageError(
                f"{output} would be a folder: --archive packs several images into one file"
            )
        to_folder = output is not None and (
            many or len(sources) > 1 or output.endswith(("/", os.sep)) or is_folder(to_path(output))
        )
        if to_folder and output and to_path(output).exists() and not is_folder(to_path(output)):
            raise click.UsageError(f"{output} is a file; several outputs need a folder")
        return cls(None if to_stdout else output, force, to_stdout, to_folder)

    def keep_apart(self, sources: list[Source], suffix: str) -> None:
        """Let sources that differ by their endings alone have the whole name: a.bmp, a.bmp.lmz."""
        counts = Counter(self.of(source, suffix) for source in dict.fromkeys(sources))
        self.shared = frozenset(target for target, count in counts.items() if count > 1)

    def of(self, source: Source, suffix: str) -> Path:
        """Return the path of a source's output."""
        if self.output is not None and not self.to_folder:
            return to_path(self.output)
        path = source.path
        if self.output is not None:
            path = to_path(self.output) / ("stdin" if source.is_stdin else source.relative)
        target = path.with_suffix(suffix)
        if path.suffix == ".lmz" and is_ending_of(Path(path.stem).suffix.lower(), suffix):
            return path.with_suffix("")  # a.bmp.lmz: a.bmp
        return path.with_name(path.name + suffix) if target in self.shared else target

    def check(self, target: Path, source: Source) -> None:
        """Raise OutputError unless the target of a source may be written."""
        if not self.to_stdout:
            self.check_input(target, source)
            self.check_target(target)

    def check_input(self, target: Path, source: Source) -> None:
        """Raise OutputError if the target is the source itself."""
        if not source.is_stdin and same_file(target, source.path):
            raise OutputError("the output would replace the input", "-o gives it another name")

    def check_target(self, target: Path) -> None:
        """Raise OutputError if something is in the way."""
        if target in self.written:
            raise OutputError(
                f"{target} was just written from {self.written[target]}",
                "-o gives it another name",
            )
        with name_errors(target):
            if target.is_dir():
                raise OutputError(f"{target} is a folder")
            exists = target.exists() if is_remote(target) else os.path.lexists(target)
        if not self.to_folder and not is_remote(target) and not target.parent.is_dir():
            raise OutputError(f"{target.parent} is not a folder")
        if not self.force and exists and not _is_device(target):
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
            with naming_output():
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
            return
        if _is_device(target):
            with naming_output(str(target)):
                target.write_bytes(data)
            return
        if self.to_folder:
            make_folder(target.parent)
        status = source.status()
        permissions = None if status is None else stat.S_IMODE(status.st_mode) & _PERMISSIONS
        write_file(target, data, force=self.force, permissions=permissions, times=times)
        self.written[target] = source.name

    def remove_input(self, source: Source, target: Path, read: Hashable) -> None:
        """Delete an input whose output is safely in place, in a file.

        Raises InputError if it is not the file any more that was read.
        """
        if target in self.written and not source.is_stdin:
            if source.version() != read:
                raise InputError("not deleted: it changed after it was read")
            with name_errors(source.path):
                source.path.unlink()


def check_stdout(targets: Targets, keep: bool, report: Report) -> None:
    """Keep results and files apart if both would go to stdout, and inputs that have no file yet.

    Raises UsageError for options that do not go with stdout.
    """
    if targets.to_stdout and report.as_json:
        raise click.UsageError("--json and a file cannot both go to stdout")
    if targets.to_stdout and not keep:
        raise click.UsageError("--rm deletes only what is safe in a file: leave out -c")
    report.lines_to_stderr = targets.to_stdout


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
        write_whole(target, data, overwrite=force, permissions=permissions, times=times)
    except FileExistsError:
        raise OutputError(f"{target} already exists", "-f overwrites it") from None


def make_folder(path: Path) -> None:
    """Make a folder and those above it; stores of objects have none, and need none."""
    if not is_remote(path):
        path.mkdir(parents=True, exist_ok=True)


def _is_device(path: Path) -> bool:
    """Whether a path is something like /dev/null or a pipe, which must not be replaced."""
    return not is_remote(path) and path.exists() and not path.is_file() and not path.is_dir()
