"""How long it takes until something happens: importing lmzip, `lmzip --help`, `lmzip info`.

    python benchmarks/imports.py [--repeats N] [--save DIR]

Each is a fresh process, the best of several; beside them stand Python alone and numpy.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np
from common import Bar, Results, Table

import lmzip

SLOWEST = 0.3  # seconds that `import lmzip` may take
_MAIN = "from lmzip.cli import main; main()"


def measure(arguments: list[str], folder: Path, repeats: int) -> float:
    """Return the seconds of a Python process, the best of several."""
    best = float("inf")
    for _ in range(repeats + 1):  # the first one warms the disk's cache
        began = time.perf_counter()
        # -P: no folder of the checkout may stand in for an installed package.
        command = [sys.executable, "-P", *arguments]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        best = min(best, time.perf_counter() - began)
    return best


@click.command()
@click.option("--repeats", default=7, help="Runs of each.")
@click.option("--save", type=click.Path(path_type=Path), metavar="DIR", help="Write JSON to DIR.")
def main(repeats: int, save: Path | None) -> None:
    """Measure start-up times."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "image.lmz").write_bytes(lmzip.compress(np.zeros((8, 8, 3), np.uint8)))
        cases = {
            "python -c pass": ["-c", "pass"],
            "import numpy": ["-c", "import numpy"],
            "import lmzip": ["-c", "import lmzip"],
            "import lmzip, and use it": ["-c", "import lmzip; lmzip.compress"],
            "lmzip --help": ["-c", _MAIN, "--help"],
            "lmzip info image.lmz": ["-c", _MAIN, "info", "image.lmz"],
        }
        seconds = {case: measure(args, folder, repeats) for case, args in cases.items()}
    table = Table("Start-up", ["", "ms", "of numpy's import"])
    for case, value in seconds.items():
        table.rows.append([case, f"{1e3 * value:.0f}", f"{value / seconds['import numpy']:.2f}"])
    taken = seconds["import lmzip"]
    bar = Bar("import lmzip, ms", f"{1e3 * taken:.0f}", f"{1e3 * SLOWEST:.0f}", taken < SLOWEST)
    Results("imports", f"Start-up times, best of {repeats}", [table], [bar]).finish(save)


if __name__ == "__main__":
    main()
