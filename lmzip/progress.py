"""Progress: how long work reports to its caller how far it is."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

Progress = Callable[[int, int], None]
"""Called with the amount done and the total: pixels in the codec, images elsewhere."""


@runtime_checkable
class Noting(Protocol):
    """What a `Progress` may be besides: it is told in a few words what the work has come to."""

    def note(self, text: str) -> None:
        """Take a text such as "learning -1.2 %"."""


def note_progress(progress: Progress | None, text: str) -> None:
    """Tell a progress that takes notes."""
    if isinstance(progress, Noting):
        progress.note(text)
