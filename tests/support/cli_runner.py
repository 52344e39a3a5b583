"""Running the command line in tests: in this process, or in one of its own."""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmzip.cli.app import run
from lmzip.formats.png import read_png, write_png
from lmzip.formats.writing import write_picture
from lmzip.picture import MODES, Picture
from lmzip.png_chunks import PngChunk, join_png, split_png

# -P: a folder on the path could hide the package that is tested.
COMMAND = [sys.executable, "-P", "-c", "from lmzip.cli import main; main()"]

PARTS = 40  # of the pixels of an image: each takes 12 bytes more


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


class Cli:
    """Runs commands with the tiny model, in the folder of a test."""

    def __init__(self, capfd: pytest.CaptureFixture[str], model: Path) -> None:
        self.capfd, self.model = capfd, str(model)

    def __call__(self, *args: object) -> Result:
        self.capfd.readouterr()
        code = run([str(arg) for arg in args])
        sys.stdout.flush()
        captured = self.capfd.readouterr()
        return Result(code, hide_seconds(captured.out), captured.err)

    def compress(self, *args: object) -> Result:
        return self("compress", "--model", self.model, *args)

    def decompress(self, *args: object) -> Result:
        return self("decompress", "--model", self.model, *args)


def start(*args: object, **options: Any) -> subprocess.Popen[bytes]:
    """Start a command in a process of its own."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen([*COMMAND, *map(str, args)], **options)


def hide_seconds(text: str) -> str:
    return re.sub(r" +\d+\.\d s$", " # s", text, flags=re.MULTILINE)


def make_picture(name: str = "RGB", height: int = 12, width: int = 18, seed: int = 0) -> Picture:
    mode = MODES[name]
    state = np.random.default_rng(seed)
    smooth = np.cumsum(state.integers(-4, 5, (height, width, mode.channels)), axis=1) + 100
    top = 1 << mode.bits
    metadata = {"PLTE": bytes(range(256)) * 3} if name == "P" else {}
    return Picture((smooth % top).astype(mode.dtype), mode, metadata)


def write_image(path: Path, picture: Picture | None = None) -> Picture:
    picture = picture or make_picture()
    path.parent.mkdir(parents=True, exist_ok=True)
    data = write_picture(picture, path.suffix)[0]
    if path.suffix == ".png":  # not packed, so that no file of the untrained model is larger
        data = _cut_pixels(write_png(read_png(data), level=0))
    path.write_bytes(data)
    return picture


def _cut_pixels(data: bytes) -> bytes:
    """Return a PNG file whose pixels are in many parts."""
    chunks: list[PngChunk] = []
    for kind, content in split_png(data):
        size = -(-len(content) // PARTS) if kind == b"IDAT" else max(1, len(content))
        starts = range(0, max(1, len(content)), size)
        chunks += [(kind, content[start : start + size]) for start in starts]
    return join_png([*chunks, (b"IEND", b"")])
