"""The peak memory of a process and its children, as Linux counts it."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from pathlib import Path
from types import TracebackType

_INTERVAL = 0.01  # seconds between two looks at the children


class MemoryMeter:
    """Measures by how much the resident memory rises inside a `with` statement.

    The process itself is measured exactly. Children are looked at now and then: each one's own peak
    is known as long as it lives, so only what comes up in its last moments is missed. `peak` is
    None where the system does not tell.
    """

    def __init__(self, *, children: bool = False) -> None:
        self.peak: int | None = None
        self._before = 0
        self._children_peak = 0
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True) if children else None

    def __enter__(self) -> MemoryMeter:
        self._before = read_memory("VmRSS") or 0
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
        if self._watcher:
            self._watcher.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._watcher:
            self._watcher.join()
        own = read_memory("VmHWM")
        if own is not None:
            self.peak = max(0, own - self._before) + self._children_peak

    def _watch(self) -> None:
        while not self._stop.wait(_INTERVAL):
            peaks = [read_memory("VmHWM", child) or 0 for child in _find_descendants(os.getpid())]
            self._children_peak = max(self._children_peak, sum(peaks))


def read_memory(field: str, process: int | str = "self") -> int | None:
    """Return a field of /proc/PROCESS/status in bytes: VmRSS is resident now, VmHWM at most."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return None
    found = re.search(rf"{field}:\s+(\d+) kB", status)
    return int(found[1]) * 1024 if found else None


def _find_descendants(process: int) -> list[int]:
    """Return the processes that one has started and that are alive, and theirs in turn."""
    children: list[int] = []
    with contextlib.suppress(OSError):  # any of them may be gone by now
        for path in Path(f"/proc/{process}/task").glob("*/children"):
            children += map(int, path.read_text().split())
    return children + [found for child in children for found in _find_descendants(child)]
