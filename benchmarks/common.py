"""What the scripts share: tables of one run, photographs to code, and the machine they ran on.

A script collects `Results`, prints them, and with --save writes them as JSON, from which
`results.py` makes RESULTS.md and the README's table.
"""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np
import numpy.typing as npt
from PIL import Image

from lmzip.cli.bench.machine import describe_machine
from lmzip.network.registry import Model, list_models, load_model

Pixels = npt.NDArray[np.uint8]
DeepPixels = npt.NDArray[np.uint16]
F = TypeVar("F", bound=Callable[..., Any])
_PHOTOGRAPHS = ("motorcycle_left.png", "astronaut.png", "chelsea.png")


@dataclass
class Table:
    """Rows of texts under headings."""

    title: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    note: str = ""

    def print(self) -> None:
        lines = [self.columns, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        click.echo(f"\n{self.title}")
        for line in lines:
            first, *others = (
                f"{cell:{'<' if i == 0 else '>'}{widths[i]}}" for i, cell in enumerate(line)
            )
            click.echo("  ".join([first, *others]).rstrip())
        if self.note:
            click.echo(self.note)


@dataclass
class Bar:
    """What a figure must reach, and whether it does."""

    what: str
    value: str
    bar: str
    met: bool


@dataclass
class Results:
    """Everything that one run of a script found."""

    name: str
    title: str
    tables: list[Table] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    threads: int = 1

    def finish(self, folder: Path | None) -> None:
        """Print tables and bars with what they were measured on; save them if asked to."""
        machine = describe_machine(self.threads)
        click.echo(f"{self.title}\n{machine.describe()}")
        for table in self.tables:
            table.print()
        if self.bars:
            click.echo("")
        for bar in self.bars:
            verdict = "met" if bar.met else "MISSED"
            click.echo(f"  {bar.what:<44} {bar.value:>10}   bar {bar.bar:<10} {verdict}")
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            document = asdict(self) | {"measured_on": machine.describe()}
            path = folder / f"{self.name}.json"
            path.write_text(json.dumps(document, indent=1) + "\n")
            click.echo(f"\nsaved: {path}")


def common_options(function: F) -> F:
    """--model, --image and --save."""
    for option in (
        click.option("--save", type=click.Path(path_type=Path), metavar="DIR",
                     help="Write the results to DIR as JSON, for results.py."),
        click.option("--image", type=click.Path(exists=True, path_type=Path), metavar="FILE",
                     help="A photograph; one of scikit-image's otherwise."),
        click.option("--model", "model_name", metavar="MODEL",
                     help="A model's name or file; the first released one otherwise."),
    ):  # fmt: skip
        function = option(function)
    return function


def find_model(name: str | None) -> Model:
    """Return a model by name or file, or the first that is released for raster order."""
    if name is not None:
        return load_model(name)
    entries = list_models()
    if not entries:
        raise click.UsageError("no models are installed: --model FILE")
    return load_model(min(entries, key=lambda entry: entry.orders != ("raster",)).path)


def load_photograph(path: Path | None, height: int, width: int) -> Pixels:
    """Return a photograph of the wanted size: its upper left corner, mirrored if it is small."""
    image = np.asarray(Image.open(path or _find_photograph()).convert("RGB"))
    for axis, size in enumerate((height, width)):
        while image.shape[axis] < size:
            image = np.concatenate([image, np.flip(image, axis)], axis=axis)
    return np.ascontiguousarray(image[:height, :width])


def load_deep_photograph(path: Path | None, height: int, width: int) -> DeepPixels:
    """Return a photograph of 16 bits, ten of them in use: sums of 2x2 pixels of a larger one."""
    large = load_photograph(path, 2 * height, 2 * width).astype(np.uint16)
    sums = large.reshape(height, 2, width, 2, 3).sum((1, 3), dtype=np.uint16)
    return sums << np.uint16(6)


def _find_photograph() -> Path:
    package = importlib.util.find_spec("skimage")
    if package is not None and package.origin is not None:
        for name in _PHOTOGRAPHS:
            path = Path(package.origin).parent / "data" / name
            if path.is_file():
                return path
    raise click.UsageError("no photograph at hand: --image FILE, or pip install scikit-image")


def cut_thumbnails(path: Path | None, count: int) -> Pixels:
    """Return images (N, 32, 32, 3): squares of a photograph's half-size average, as they differ."""
    photograph = load_photograph(path, 500, 500).astype(np.uint16)
    boxes = photograph.reshape(250, 2, 250, 2, 3).sum((1, 3))
    half = ((boxes + 2) // 4).astype(np.uint8)
    places = np.random.default_rng(0).integers(0, 250 - 32, (count, 2), endpoint=True)
    return np.stack([half[top : top + 32, left : left + 32] for top, left in places])


def time_call(function: Callable[[], Any], seconds: float = 2.0, *, warm: bool = False) -> float:
    """Return the mean seconds of a call: until the time is used up, after one unless it is warm."""
    if not warm:
        function()
    calls, began = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - began) < seconds or not calls:
        function()
        calls += 1
    return elapsed / calls


def show_rate(size: int, seconds: float) -> str:
    """Return raw kilobytes a second."""
    return f"{size / seconds / 1e3:.1f} kB/s"
