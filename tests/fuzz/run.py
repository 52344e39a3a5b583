"""Fuzz a target with coverage feedback: python tests/fuzz/run.py TARGET [SECONDS [FOLDER]].

Needs atheris (pip install atheris). Inputs that reach something new are kept in FOLDER (or in a
temporary one); what fails is written to tests/fuzz/found, where test_fuzz.py will find it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["lmzip", "PIL"], enable_loader_override=False):
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from fuzz import targets


def main() -> None:
    name, seconds = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "60"
    folder = Path(sys.argv[3] if len(sys.argv) > 3 else tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(targets.seeds(name)):
        (folder / f"seed-{number:03d}").write_bytes(data)
    found = Path(__file__).parent / "found"
    found.mkdir(exist_ok=True)
    options = [
        f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=3000", "-max_len=65536",
        f"-artifact_prefix={found}/{name}-", "-print_final_stats=1", "-verbosity=0",
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *options, str(folder)], lambda data: targets.run_target(name, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
