"""What the user sees: results, warnings, errors, a progress bar, and the exit code.

Results go to stdout, everything else to stderr. An error is one line, and a batch goes on after it.
With `--json`, stdout gets one document at the end instead of lines.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import click

from lmzip import DamagedError, LmzipError, ModelError, Progress

OK, FAILED, USAGE, DAMAGED, NO_MODEL = 0, 1, 2, 3, 4
_GRAVITY = (
    DAMAGED,
    NO_MODEL,
    FAILED,
    OK,
)  # the most serious failure of a batch gives the exit code
_BAR_DELAY, _BAR_INTERVAL = 1.0, 0.1  # seconds


class VerificationError(DamagedError):
    """The decoded image differs from what was encoded, or from what it is compared with."""


def exit_code_of(error: BaseException) -> int:
    """Return the exit code that an error stands for."""
    if isinstance(error, DamagedError):
        return DAMAGED
    return NO_MODEL if isinstance(error, ModelError) else FAILED


def print_error(text: str, label: str = "lmzip") -> None:
    """Print one line on stderr."""
    click.echo(f"{label}: {printable(text)}", err=True)


def describe_os_error(error: OSError) -> str:
    """Return what the system says, without Python's numbers and quotes."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


@contextlib.contextmanager
def naming_output(name: str = "standard output") -> Iterator[None]:
    """Let an error of writing name the output: the system names files only when they are opened."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or name
        raise


class Report:
    """Counts what happens in a run, prints it, and owns the exit code."""

    def __init__(self, *, quiet: bool = False, verbose: int = 0, as_json: bool = False) -> None:
        self.quiet, self.verbose, self.as_json = quiet, verbose, as_json
        self.entries: list[dict[str, Any]] = []
        self.code = OK
        self.failures = 0
        self.lines_to_stderr = False  # while stdout carries files
        self._bar_width = 0
        self._hints: set[str] = set()  # each is given once

    def result(self, line: str, **entry: Any) -> None:
        """Print a line of results and keep its entry for `--json`."""
        self.entries.append(entry)
        self.line(line)

    def line(self, text: str) -> None:
        """Print a line of results."""
        if not self.as_json and not self.quiet:
            lines = "\n".join(map(printable, text.split("\n")))
            if self.lines_to_stderr:
                click.echo(lines, err=True)
                return
            with naming_output():
                click.echo(lines)

    def remark(self, text: str) -> None:
        """Print something the user should know about the whole run."""
        if not self.quiet:
            print_error(text)

    def note(self, text: str) -> None:
        """Print a detail, if the user asked for more with -v."""
        if self.verbose:
            print_error(text)

    def warn(self, name: str, text: str) -> None:
        """Print a warning about a file that is processed all the same."""
        if not self.quiet:
            print_error(f"{name}: warning: {text}")

    def fail(self, name: str, reason: str, code: int = FAILED, hint: str = "") -> None:
        """Print an error and remember the failure."""
        self.failures += 1
        print_error(f"{name}: {reason}")
        if hint and hint not in self._hints:
            self._hints.add(hint)
            print_error(hint, label="hint")
        self.entries.append({"input": name, "error": reason, "exit_code": code})
        self.code = min(self.code, code, key=_GRAVITY.index)

    @contextlib.contextmanager
    def file(self, name: str) -> Iterator[None]:
        """Process one file of a batch: report its errors, and let the others go on."""
        try:
            yield
        except (BrokenPipeError, click.UsageError):
            raise  # the reader of our output is gone, or no file can go well
        except LmzipError as error:
            self._fail_with(name, " ".join(str(error).split()), error)
        except OSError as error:
            self._fail_with(name, _reason_for(name, error), error)
        except MemoryError as error:
            self._fail_with(name, "not enough memory", error)
        except Exception as error:
            self._fail_with(name, f"internal error ({type(error).__name__}: {error})", error)
            print_error("please report this, with the output of -vv", label="hint")

    def _fail_with(self, name: str, reason: str, error: BaseException) -> None:
        self.fail(name, reason, exit_code_of(error), getattr(error, "hint", ""))
        if self.verbose >= 2:
            traceback.print_exception(error)

    def finish(self, **summary: Any) -> int:
        """Print the JSON document if there is to be one; return the exit code."""
        if self.as_json:
            document = {"files": self.entries, **summary, "exit_code": self.code}
            with naming_output():
                click.echo(json.dumps(document, indent=2))
        return self.code

    @contextlib.contextmanager
    def progress(self, label: str) -> Iterator[Progress | None]:
        """Show a progress bar on a terminal, if the work takes long enough to need one."""
        if self.quiet or not sys.stderr.isatty():
            yield None
            return
        try:
            yield _Bar(label, self._draw_bar)
        finally:
            self._clear_bar()

    def _draw_bar(self, label: str, note: str, share: float, left: float) -> None:
        columns = min(80, shutil.get_terminal_size().columns) - 1
        tail = f"{note and ' '}{note} {share:4.0%} {left:5.0f} s left"
        name = shorten(label, max(8, columns // 3))
        width = max(4, columns - len(name) - len(tail) - 3)
        bar = "#" * round(share * width)
        text = f"{name} [{bar:<{width}}]{tail}"
        self._bar_width = len(text)
        sys.stderr.write(f"\r{text}")
        sys.stderr.flush()

    def _clear_bar(self) -> None:
        if self._bar_width:
            sys.stderr.write(f"\r{' ' * self._bar_width}\r")
            sys.stderr.flush()
            self._bar_width = 0


class _Bar:
    """Counts the steps of a job, and draws itself from time to time."""

    def __init__(self, label: str, draw: Callable[[str, str, float, float], None]) -> None:
        self._label, self._note, self._draw = label, "", draw
        self._began = self._stage = self._drawn = time.monotonic()
        self._done = 0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done < self._done:  # the next stage of the work
            self._stage, self._note = now, ""
        self._done = done
        if now - self._began >= _BAR_DELAY and now - self._drawn >= _BAR_INTERVAL and total:
            self._drawn = now
            left = (now - self._stage) * (total - done) / max(1, done)
            self._draw(self._label, self._note, done / total, left)

    def note(self, text: str) -> None:
        """Show what the work has come to, beside the bar."""
        self._note = text


def _reason_for(name: str, error: OSError) -> str:
    """Return the system's reason, and the file if it is not the one being processed."""
    reason = error.strerror or str(error)
    if error.filename and str(error.filename) != name:
        return f"{error.filename}: {reason}"
    return reason


def printable(text: str) -> str:
    """Escape what would break a line or confuse a terminal: file names may contain anything."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def count_of(number: int, what: str) -> str:
    """Return "1 image" or "2 images"."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def shorten(text: str, width: int) -> str:
    """Cut the middle out of a text that is too long."""
    if len(text) <= width:
        return text
    tail = (width - 3) * 2 // 3
    return f"{text[: width - 3 - tail]}...{text[len(text) - tail :]}"


def format_size(size: float) -> str:
    """Return a number of bytes in at most eight characters."""
    if size < 1000:
        return f"{size:.0f} B"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 999.95 or unit == "GB":
            break
    return f"{size:.1f} {unit}"


def fit_name(name: str, width: int) -> str:
    """Pad a name to a column; on a terminal, shorten it to fit."""
    name = printable(name)
    return f"{shorten(name, width) if sys.stdout.isatty() else name:<{width}}"
