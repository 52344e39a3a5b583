"""What tunings bring: the bank at the default effort, and learning with --effort max.

    python benchmarks/tunings.py bank --data PHOTOS [--more FOLDER] [--save DIR]
    python benchmarks/tunings.py files --data PHOTOS [--save DIR]
    python benchmarks/tunings.py archives --data PHOTOS [--minutes 10] [--save DIR]
    python benchmarks/tunings.py collection --data MNIST [--minutes 10] [--save DIR]

Every file is decoded and compared. `bank` and `archives` also take a set unlike what the networks
were trained on, made from the photographs: chroma at half resolution and back, a little grain in
luma, gamma 1.2, the channels rotated. `bank` sees besides that no picture of other folders, or
image of CIFAR-10, gets larger. `collection` takes MNIST's test images, digits, and compares with
JPEG XL on one sheet of all of them.

Large pictures are compared with the default effort twice: as it is, and without adaptation, which
learns while it codes a part of what tunings bring.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

import click
import imagecodecs
import numpy as np
from common import Bar, Pixels, Results, Table
from PIL import Image

import lmzip
from lmzip import MODES, Options, Picture
from lmzip.container import bank_choice, tile_coding
from lmzip.container.archive_writer import pack_archive
from lmzip.container.image_writer import compress_picture
from lmzip.formats import read_picture
from lmzip.models.data_files import read_data_set

DECODES = 3  # of which the fastest counts
SHEET = 100  # images along each side
IMAGES = 1000  # of CIFAR-10 that are looked at one by one


def read_photographs(folder: Path) -> dict[str, Pixels]:
    """Return the photographs of a folder by name."""
    return {
        path.stem: read_picture(path.read_bytes()).picture.samples
        for path in sorted(folder.glob("*.png"))
    }


def estrange(picture: Pixels, seed: int) -> Pixels:
    """Return a picture as no training set has it."""
    luma, *chroma = Image.fromarray(picture).convert("YCbCr").split()
    half = luma.width // 2, luma.height // 2
    smooth = [plane.resize(half).resize(luma.size) for plane in chroma]
    pixels = np.asarray(Image.merge("YCbCr", (luma, *smooth)).convert("RGB")).astype(float)
    pixels += np.random.default_rng(seed).normal(0, 2, picture.shape[:2])[..., None]
    pixels = 255 * (pixels.clip(0, 255) / 255) ** 1.2
    return np.ascontiguousarray(np.roll(pixels.round().astype(np.uint8), 1, axis=2))


def make_sets(folder: Path) -> dict[str, dict[str, Pixels]]:
    photographs = read_photographs(folder)
    strange = {name: estrange(each, n) for n, (name, each) in enumerate(photographs.items())}
    return {"photographs": photographs, "unlike the training set": strange}


@contextmanager
def no_bank() -> Iterator[None]:
    with mock.patch.object(bank_choice, "read_bank", return_value=()):
        yield


@contextmanager
def no_adaptation() -> Iterator[None]:
    with mock.patch.object(tile_coding, "choose_adaptation", return_value=None):
        yield


def compress(image: Pixels, effort: str = "default") -> bytes:
    """Compress an image, and see that it comes back."""
    file = compress_picture(Picture(image, MODES["RGB"]), Options(effort=effort))
    assert np.array_equal(lmzip.decompress(file), image)
    return file


def find_largest_growth(pictures: Iterable[Picture]) -> int:
    """Return by how many bytes the bank makes a file larger at most."""
    growth = -sys.maxsize
    for picture in pictures:
        after = len(compress_picture(picture))
        with no_bank():
            growth = max(growth, after - len(compress_picture(picture)))
    return growth


def read_more(folder: Path) -> Iterator[Picture]:
    """Return the undamaged pictures of a folder, or images of CIFAR-10."""
    if (folder / "cifar-10-batches-bin").is_dir():
        images = read_data_set("cifar10", [folder], "test")[:IMAGES].transpose(0, 2, 3, 1)
        yield from (Picture(np.ascontiguousarray(image), MODES["RGB"]) for image in images)
        return
    for path in sorted(folder.glob("*.png")):
        with suppress(lmzip.LmzipError):
            yield read_picture(path.read_bytes()).picture


def compress_all(images: Sequence[Pixels], options: Options, mode: str = "RGB") -> bytes:
    """Compress images into one archive, and see that they come back."""
    archive = pack_archive([(None, Picture(image, MODES[mode])) for image in images], options)
    with lmzip.open_archive(archive) as restored:
        for image, found in zip(images, restored, strict=True):
            assert np.array_equal(image, found)
    return archive


def time_decoding(file: bytes) -> float:
    times = []
    for _ in range(DECODES):
        began = time.perf_counter()
        lmzip.decompress(file)
        times.append(time.perf_counter() - began)
    return min(times)


def change(before: int, after: int) -> str:
    return f"{100 * (after / before - 1):+.2f} %"


def at_least(what: str, share: float, before: int, after: int) -> Bar:
    """The bar that something gets smaller by a share."""
    return Bar(what, change(before, after), f"-{100 * share:.1f} %", after <= (1 - share) * before)


def not_larger(what: str, worst: int) -> Bar:
    return Bar(f"{what}, the worst file", f"{worst:+} B", "+1 B", worst <= 1)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """What tunings bring."""


data = click.option("--data", type=click.Path(exists=True, path_type=Path), required=True)
save = click.option("--save", type=click.Path(path_type=Path), metavar="DIR")
minutes = click.option("--minutes", type=float, default=10.0, show_default=True)


@main.command()
@data
@click.option("--more", type=click.Path(exists=True, path_type=Path), multiple=True)
@save
def bank(data: Path, more: Sequence[Path], save: Path | None) -> None:
    """The default effort with and without the bank, and without adaptation either."""
    results = Results("tunings-bank", "The bank of tunings, default effort", threads=0)
    columns = ["set", "not adaptive", "without", "with", "change", "tuned", "worst", "choosing"]
    table = Table("one file each", columns)
    least = {"photographs": 0.005, "unlike the training set": 0.015}
    for name, images in make_sets(data).items():
        with no_bank():
            before = {key: len(compress(image)) for key, image in images.items()}
            with no_adaptation():
                static = sum(len(compress(image)) for image in images.values())
        after, seconds, tuned = {}, [], 0
        for key, image in images.items():
            after[key] = len(file := compress(image))
            tuned += lmzip.read_info(file).bank_tuning is not None
            with no_bank():
                began = time.perf_counter()
                lmzip.compress(image)
                plain = time.perf_counter() - began
            began = time.perf_counter()
            lmzip.compress(image)
            seconds.append(time.perf_counter() - began - plain)
        worst = max(after[key] - before[key] for key in images)
        totals = sum(before.values()), sum(after.values())
        sizes = *map("{:,}".format, (static, *totals)), change(*totals)
        chosen, extra = f"{tuned} of {len(images)}", f"{np.median(seconds):.2f} s"
        table.rows.append([name, *sizes, chosen, f"{worst:+,} B", extra])
        results.bars += [
            at_least(f"{name}, by the bank", least[name], *totals),
            at_least(f"{name}, by the bank and adaptation", least[name], static, totals[1]),
            not_larger(name, worst),
        ]
    results.tables.append(table)
    results.bars += [not_larger(each.name, find_largest_growth(read_more(each))) for each in more]
    results.finish(save)


@main.command()
@data
@save
def files(data: Path, save: Path | None) -> None:
    """One file each, --effort max against the default."""
    results = Results("tunings-files", "Files that bring their own tuning", threads=0)
    columns = ["file", "not adaptive", "default", "max", "change", "seconds", "decoding"]
    table = Table("--effort max", columns)
    all_sizes, longest, ratios = [], 0.0, []
    for name, image in read_photographs(data).items():
        with no_adaptation():
            static = compress(image)
        plain = compress(image)
        began = time.perf_counter()
        tuned = compress(image, "max")
        seconds = time.perf_counter() - began
        ratios.append(time_decoding(tuned) / time_decoding(plain))
        longest = max(longest, seconds)
        sizes = len(static), len(plain), len(tuned)
        all_sizes.append(sizes)
        row = [name, *map("{:,}".format, sizes), change(*sizes[1:])]
        table.rows.append([*row, f"{seconds:.0f}", f"{ratios[-1]:.2f}"])
        click.echo("  ".join(table.rows[-1]), err=True)
    totals = [sum(column) for column in zip(*all_sizes, strict=True)]
    static_size, default, smallest = totals
    table.rows.append(["all", *map("{:,}".format, totals), change(default, smallest), "", ""])
    results.tables.append(table)
    ratio = float(np.median(ratios))
    results.bars += [
        at_least("--effort max, of the default", 0.012, default, smallest),
        at_least("--effort max, of the default that is not adaptive", 0.012, static_size, smallest),
        Bar("seconds, the longest", f"{longest:.0f}", "120", longest <= 120),
        Bar("decoding, of the default", f"{ratio:.2f}", "1.05", ratio <= 1.05),
    ]
    results.finish(save)


@main.command()
@data
@save
@minutes
def archives(data: Path, save: Path | None, minutes: float) -> None:
    """All photographs in one archive, --effort max against the default."""
    title = f"Archives that bring their own tuning ({minutes:g} minutes of learning)"
    results = Results("tunings-archives", title, threads=0)
    columns = ["set", "not adaptive", "default", "max", "change", "seconds"]
    table = Table("--effort max", columns)
    least = {"photographs": 0.02, "unlike the training set": 0.04}
    for name, images in make_sets(data).items():
        pictures = list(images.values())
        with no_adaptation():
            static = compress_all(pictures, Options())
        plain = compress_all(pictures, Options())
        began = time.perf_counter()
        tuned = compress_all(pictures, Options(effort="max", minutes=minutes))
        seconds = time.perf_counter() - began
        sizes = len(static), len(plain), len(tuned)
        row = [name, *map("{:,}".format, sizes), change(*sizes[1:])]
        table.rows.append([*row, f"{seconds:.0f}"])
        click.echo("  ".join(table.rows[-1]), err=True)
        what = f"archive of {name}"
        results.bars += [
            at_least(f"{what}, of the default", least[name], *sizes[1:]),
            at_least(f"{what}, of the default that is not adaptive", least[name], *sizes[::2]),
        ]
    results.tables.append(table)
    results.finish(save)


@main.command()
@data
@save
@minutes
def collection(data: Path, save: Path | None, minutes: float) -> None:
    """MNIST's test images in one archive."""
    title = f"A data set unlike any photograph ({minutes:g} minutes of learning)"
    results = Results("tunings-collection", title, threads=0)
    planes = read_data_set("mnist", [data], "test")
    images = list(np.ascontiguousarray(planes.transpose(0, 2, 3, 1)))
    plain = len(compress_all(images, Options(), "L"))
    began = time.perf_counter()
    tuned = len(compress_all(images, Options(effort="max", minutes=minutes), "L"))
    seconds = time.perf_counter() - began
    rows = [np.concatenate(images[SHEET * n : SHEET * (n + 1)], 1) for n in range(SHEET)]
    whole = np.concatenate(rows)[..., 0]
    sheet = len(imagecodecs.jpegxl_encode(whole, lossless=True, effort=9))
    columns = ["what", "bytes", "of the default", "seconds"]
    table = Table("MNIST's 10,000 test images, one archive", columns)
    table.rows += [
        ["default effort", f"{plain:,}", "", ""],
        ["--effort max", f"{tuned:,}", f"{tuned / plain:.1%}", f"{seconds:.0f}"],
        ["JPEG XL effort 9, one sheet", f"{sheet:,}", f"{sheet / plain:.1%}", ""],
    ]
    results.tables.append(table)
    results.bars.append(Bar("of the default", f"{tuned / plain:.1%}", "85 %", tuned < 0.85 * plain))
    results.bars.append(Bar("of JPEG XL", f"{tuned / sheet:.1%}", "100 %", tuned < sheet))
    results.finish(save)


if __name__ == "__main__":
    main()
