"""What a measurement was made on: processor, cores, and the versions of what did the work."""

from __future__ import annotations

import datetime
import platform
import re
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

from lmzip import count_threads, describe_backend, list_models

_LIBRARIES = ("lmzip", "numpy", "constriction", "pillow", "imagecodecs")


@dataclass(frozen=True)
class Machine:
    """The circumstances of a run.

    `engine` is what computed lmzip's part; `models` are the released models that are installed.
    """

    processor: str
    cores: int
    system: str
    versions: dict[str, str]
    engine: str
    blas: str
    models: tuple[str, ...]
    date: str

    def describe(self) -> str:
        """Return one line that can stand below any table."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        cores = f"{self.cores} core{'s' if self.cores > 1 else ''} in use"
        libraries = f"{versions}; {self.engine}; {self.blas}"
        return f"{self.processor}, {cores}, {self.system}; {libraries}; {self.date}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def describe_machine(cores: int = 0) -> Machine:
    """Describe this machine and this installation; `cores` are those in use, 0 for all."""
    versions = {"Python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return Machine(
        processor=_read_processor(),
        cores=count_threads(cores),
        system=f"{platform.system()} {platform.machine()}",
        versions=versions,
        engine=describe_backend(),
        blas=_describe_blas(),
        models=tuple(entry.name for entry in list_models()),
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
    )


def _read_processor() -> str:
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    name = found[1] if found else platform.processor() or platform.machine()
    return " ".join(name.split())


def _describe_blas() -> str:
    import numpy as np

    np.dot(np.ones((2, 2)), np.ones((2, 2)))  # some libraries are loaded by their first product
    for library in threadpool_info():
        if library.get("user_api") == "blas":
            kind = f" ({library['architecture']})" if library.get("architecture") else ""
            return f"{library['internal_api']} {library.get('version') or '?'}{kind}"
    return "BLAS unknown"
