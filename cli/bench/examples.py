"""The images of a data set on which lmzip gains most and least, with their bit maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmzip import Picture, Progress, measure_bits, read_info, read_model_and_order
from lmzip.cli.bench.codecs import Codec, LmzipFiles
from lmzip.cli.bench.data_sets import DataSet
from lmzip.cli.bench.measure import Measurement
from lmzip.cli.bench.results_table import Benchmark
from lmzip.cli.colours import Bits, choose_top
from lmzip.cli.drawing import make_thumbnail, shrink_bits, to_png

COUNT = 4  # images of either kind
SIDE = 256  # pixels of a thumbnail


@dataclass(frozen=True)
class Example:
    """An image: its bytes by lmzip and by the reference, a thumbnail (PNG), the bits of its pixels.

    bits (H, W) are averaged if the image is larger than a thumbnail; None if no network coded it.
    """

    name: str
    width: int
    height: int
    mode: str
    size: int
    reference_size: int
    thumbnail: bytes
    bits: Bits | None

    @property
    def gain(self) -> float:
        """The share of the reference's bytes that lmzip saves; negative if it takes more."""
        return 1 - self.size / self.reference_size


@dataclass(frozen=True)
class Examples:
    """Images by how much smaller `subject` is than `reference`; `top` ends the scale of bits."""

    subject: str
    reference: str
    largest: list[Example]
    smallest: list[Example]
    top: float


def find_subject(benchmark: Benchmark) -> Measurement | None:
    """Return lmzip's first row of single files that has all sizes."""
    rows = (row for row in benchmark.rows if row.is_lmzip and row.sizes)
    return next((row for row in rows if row.size is not None), None)


def find_reference(benchmark: Benchmark) -> Measurement | None:
    """Return the codec to compare with: the smallest of the peers that coded every image."""
    peers = [row for row in benchmark.rows if not row.is_lmzip and row.size is not None]
    return min(peers, key=lambda row: row.size or 0, default=None)


def choose_examples(
    benchmark: Benchmark, data: DataSet, codecs: Sequence[Codec], progress: Progress | None = None
) -> Examples | None:
    """Pick the images with the largest and the smallest gains, and measure their bits."""
    subject, reference = find_subject(benchmark), find_reference(benchmark)
    if subject is None or reference is None or not subject.sizes or not reference.sizes:
        return None
    codec = next(c for c in codecs if isinstance(c, LmzipFiles) and c.name == subject.codec)
    ratios = [
        (ours or 0) / max(1, theirs or 0)
        for ours, theirs in zip(subject.sizes, reference.sizes, strict=True)
    ]
    by_gain = sorted(range(len(data)), key=lambda number: ratios[number])
    count = min(COUNT, (len(data) + 1) // 2)
    chosen = by_gain[:count], by_gain[count:][-COUNT:][::-1]
    lists: list[list[Example]] = []
    for numbers in chosen:
        lists.append([])
        for number in numbers:
            sizes = subject.sizes[number] or 0, reference.sizes[number] or 0
            picture = data.picture(number)
            lists[-1].append(_make_example(data.names[number], picture, codec, sizes))
            if progress:
                progress(sum(map(len, lists)), sum(map(len, chosen)))
    bits = [e.bits for examples in lists for e in examples if e.bits is not None]
    top = max(map(choose_top, bits), default=1.0)
    return Examples(subject.codec, reference.codec, lists[0], lists[1], top)


def _make_example(
    name: str, picture: Picture, codec: LmzipFiles, sizes: tuple[int, int]
) -> Example:
    """Code a picture once more, and measure its bits by the model and order that were chosen."""
    file, bits = codec.encode(picture), None
    choice = read_model_and_order(file, model=codec.settings.model_file)
    if choice is not None:
        costs = measure_bits(picture, *choice, adaptive=read_info(file).adaptive)
        bits = shrink_bits(costs.pixels, SIDE)
    thumbnail = to_png(make_thumbnail(picture, SIDE))
    shape = picture.width, picture.height, picture.mode.name
    return Example(name, *shape, *sizes, thumbnail, bits)
