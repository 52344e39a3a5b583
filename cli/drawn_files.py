"""Files that drawings go to: checked before the work begins."""

from __future__ import annotations

from pathlib import Path

from lmzip import MODES, InputError, Picture
from lmzip.cli.files import OutputError, make_folder, write_file
from lmzip.cli.generators import Pixels
from lmzip.formats import write_picture


def check_drawing(output: str, force: bool, suffixes: tuple[str, ...] = (".png",)) -> Path:
    """Return the path of a drawing; raises InputError if it may not be written."""
    path = Path(output)
    if path.suffix.lower() not in suffixes:
        kinds = " or ".join(suffix[1:].upper() for suffix in suffixes)
        raise InputError(f"a drawing is a {kinds} file, not {path.suffix or path.name}")
    if path.exists() and not force:
        raise OutputError(f"{path} already exists", "-f overwrites it")
    return path


def write_each(folder: Path, stem: str, images: Pixels, force: bool) -> None:
    """Write every image (N, H, W, C) as a PNG file of its own: folder/stem-1.png and so on."""
    make_folder(folder)
    mode = MODES["L" if images.shape[3] == 1 else "RGB"]
    for number, pixels in enumerate(images, 1):
        data, _ = write_picture(Picture(pixels, mode), ".png")
        write_file(folder / f"{stem}-{number}.png", data, force=force)
