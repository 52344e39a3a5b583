"""What a page of documentation lets its reader run: blocks of Python, and command lines.

Python stands in fenced blocks; the blocks of a page run in sequence and share their names. Commands
stand on lines that start with "$ lmzip". A comment "# not run: REASON" keeps a command, or a block
that starts with it, from being run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

_BLOCK = re.compile(r"^```python\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\s*\$ (lmzip\b.*)$", flags=re.MULTILINE)
_NOT_RUN = re.compile(r"# not run: \S")


@dataclass(frozen=True)
class Example:
    """A piece of a page and the line on which it starts."""

    line: int
    text: str
    is_command: bool

    @property
    def words(self) -> list[str]:
        """The arguments of a command, without "lmzip" and without comments."""
        return shlex.split(self.text, comments=True)[1:]


def find_examples(text: str) -> list[Example]:
    """Return what is to be run of a page, first to last."""
    return sorted(_find_all(text), key=lambda example: example.line)


def _find_all(text: str) -> Iterator[Example]:
    for match in _BLOCK.finditer(text):
        if not _NOT_RUN.match(match[1].lstrip()):
            yield Example(_line_of(text, match.start(1)), match[1], is_command=False)
    for match in _COMMAND.finditer(text):
        if not _NOT_RUN.search(match[1]):
            yield Example(_line_of(text, match.start(1)), match[1], is_command=True)


def _line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
