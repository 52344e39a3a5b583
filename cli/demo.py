"""lmzip demo: a few photographs compressed, compared with PNG and WebP, and restored."""

from __future__ import annotations

import importlib.util
import io
import shlex
import shutil
import sys
import time
from pathlib import Path

import click

from lmzip import (
    InputError,
    Options,
    Picture,
    compress_picture,
    decompress_picture,
    read_info,
)
from lmzip.cli.console import Report, VerificationError, shorten
from lmzip.cli.images import read_image
from lmzip.cli.options import common_options
from lmzip.formats import image_from_picture, strip_metadata, write_picture

_PHOTOGRAPHS = ("astronaut.png", "chelsea.png", "coffee.png", "motorcycle_left.png")
_HEADER = "image                  PNG     WebP    lmzip    saved    bpd  model  seconds"


@click.command("demo")
@click.argument("images", nargs=-1, metavar="[IMAGE]...")
@common_options()
def demo_command(
    images: tuple[str, ...], threads: int, as_json: bool, quiet: bool, verbose: int
) -> int:
    """Compress photographs, compare sizes, and restore them exactly.

    Takes the photographs that come with scikit-image unless IMAGES are given. Sizes are those of
    the pixels alone: PNG as optimised by Pillow, WebP at its highest lossless effort.
    """
    report = Report(quiet=quiet, verbose=verbose, as_json=as_json)
    paths = [Path(image) for image in images] or _find_photographs()
    report.line(_HEADER)
    exact = 0
    for path in paths:
        with report.file(str(path)):
            picture = strip_metadata(read_image(path.read_bytes()).picture)
            _show(path.name, picture, threads, report)
            exact += 1
    report.line(f"{exact} of {len(paths)} restored exactly, pixel by pixel")
    report.line(f"\nTry it yourself:\n  {_find_program()} compress {_quote(paths[0])} -o photo.lmz")
    return report.finish()


def _find_program() -> str:
    """Return how to call lmzip from this shell: by its path, unless it is on the search path."""
    program = Path(sys.argv[0])
    if program.stem != "lmzip" or shutil.which("lmzip"):
        return "lmzip"
    return _quote(program)


def _quote(path: Path) -> str:
    """Return a path as a shell takes it, relative to the current folder if it is below."""
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return shlex.quote(str(path))


def _find_photographs() -> list[Path]:
    """Return the photographs inside scikit-image, without importing it."""
    package = importlib.util.find_spec("skimage")
    if package is None or package.origin is None:
        raise InputError("found no photographs: name some images, or pip install scikit-image")
    folder = Path(package.origin).parent / "data"
    found = [folder / name for name in _PHOTOGRAPHS if (folder / name).is_file()]
    if not found:
        raise InputError("this scikit-image has no photographs: name some images")
    return found


def _show(name: str, picture: Picture, threads: int, report: Report) -> None:
    """Print one row of the table."""
    began = time.monotonic()
    with report.progress(name) as progress:
        data = compress_picture(picture, Options(threads=threads), progress)
    with report.progress(f"restore {name}") as progress:
        restored = decompress_picture(data, threads=threads, progress=progress)
    seconds = time.monotonic() - began
    if restored.mode != picture.mode or (restored.samples != picture.samples).any():
        raise VerificationError("the restored pixels differ")
    info = read_info(data)
    png, webp = _png_size(picture), _webp_size(picture)
    others = [size for size in (png, webp) if size]
    saved = f"{1 - len(data) / min(others):.1%}" if others else "-"
    model = f"{info.model_bpd:6.3f}" if info.model_bpd is not None else f"{info.method:>6}"
    report.result(
        f"{shorten(name, 16):<16} {png or '-':>8} {webp or '-':>8} {len(data):8} {saved:>8} "
        f"{info.bpd:6.3f} {model} {seconds:8.1f}",
        input=name,
        png_bytes=png or None,
        webp_bytes=webp or None,
        bytes=len(data),
        bpd=info.bpd,
        model_bpd=info.model_bpd,
        method=info.method,
        seconds=round(seconds, 3),
        restored_exactly=True,
    )


def _png_size(picture: Picture) -> int:
    """Return the size of the smaller of Pillow's PNG file and ours, 0 if PNG has no such mode."""
    sizes = []
    if picture.mode.name != "CMYK":
        sizes.append(len(write_picture(picture, ".png")[0]))
    if picture.mode.name in ("L", "LA", "RGB", "RGBA"):
        file = io.BytesIO()
        image_from_picture(picture).save(file, "PNG", optimize=True)
        sizes.append(len(file.getvalue()))
    return min(sizes, default=0)


def _webp_size(picture: Picture) -> int:
    """Return the size of a lossless WebP file, or 0 if WebP cannot hold the picture."""
    if picture.mode.name not in ("L", "RGB", "RGBA"):
        return 0
    file = io.BytesIO()
    image_from_picture(picture).save(file, "WEBP", lossless=True, exact=True, quality=100, method=6)
    return len(file.getvalue())
