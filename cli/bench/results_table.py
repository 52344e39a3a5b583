"""The table of a benchmark: for the terminal, as CSV and as JSON. The page has its own.

If a codec failed on an image, its numbers are left out: they would be those of other images.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lmzip.cli.bench.machine import Machine
from lmzip.cli.bench.measure import Measurement
from lmzip.cli.console import shorten

PNG = "PNG"


@dataclass(frozen=True)
class Benchmark:
    """A data set, what it was measured on, and what came out, codec by codec."""

    data: str
    images: int
    machine: Machine
    rows: list[Measurement]

    def find(self, codec: str) -> Measurement | None:
        return next((row for row in self.rows if row.codec == codec), None)

    def ratio_to_png(self, row: Measurement) -> float | None:
        """Return the bytes of a codec as a share of PNG's, both over all images."""
        png = self.find(PNG)
        if png is None or png.size is None or row.size is None:
            return None
        return row.size / png.size


@dataclass(frozen=True)
class Column:
    """A column: its heading, its width, and how a value is shown; None is shown as a dash."""

    title: str
    width: int
    value: Callable[[Benchmark, Measurement], Any]
    form: str = ""
    wide_only: bool = False

    def show(self, benchmark: Benchmark, row: Measurement) -> str:
        value = self.value(benchmark, row)
        return "-" if value is None else format(value, self.form)


def _mega(value: float | None) -> float | None:
    return None if value is None else value / 1e6


def show_exact(row: Measurement) -> str:
    """Say whether all images came back: "yes", or how many did not."""
    if row.mismatches:
        return f"NO ({len(row.mismatches)})"
    return f"{len(row.failures)} fail" if row.failures else "yes"


COLUMNS = (
    Column("bpd", 6, lambda b, r: r.bpd, ".3f"),
    Column("model", 6, lambda b, r: r.model_bpd, ".3f"),
    Column("over", 5, lambda b, r: r.overhead, ".1%"),
    Column("/PNG", 5, lambda b, r: b.ratio_to_png(r), ".3f"),
    Column("enc MB/s", 8, lambda b, r: _mega(r.encode_rate), ".3g"),
    Column("dec MB/s", 8, lambda b, r: _mega(r.decode_rate), ".3g"),
    Column("MB", 5, lambda b, r: _mega(r.peak_memory), ".0f"),
    Column("T", 2, lambda b, r: r.threads, "d"),
    Column("exact", 6, lambda b, r: show_exact(r)),
    Column("bytes", 11, lambda b, r: r.size, "d", wide_only=True),
    Column("library", 24, lambda b, r: r.library, wide_only=True),
)
_NAME_WIDTH, _WIDE_NAME = 20, 28


def format_header(*, wide: bool = False) -> str:
    """Return the headings: 80 columns unless it is to be wide."""
    titles = [f"{column.title:>{column.width}}" for column in _columns(wide)]
    return " ".join([f"{'codec':<{_WIDE_NAME if wide else _NAME_WIDTH}}", *titles]).rstrip()


def format_row(benchmark: Benchmark, row: Measurement, *, wide: bool = False) -> str:
    """Return the line of one codec."""
    width = _WIDE_NAME if wide else _NAME_WIDTH
    cells = [f"{c.show(benchmark, row):>{c.width}}" for c in _columns(wide)]
    return " ".join([f"{shorten(row.codec, width):<{width}}", *cells])


def _columns(wide: bool) -> Sequence[Column]:
    return [column for column in COLUMNS if wide or not column.wide_only]


def describe_run(benchmark: Benchmark) -> str:
    """Return the line that says what the numbers are of and were measured on."""
    raw = max((row.raw_size for row in benchmark.rows), default=0)
    images = f"{benchmark.images} image{'s' if benchmark.images != 1 else ''}"
    return f"{benchmark.data}: {images}, {raw / 1e6:.2f} MB of samples; " + (
        benchmark.machine.describe()
    )


def to_json(benchmark: Benchmark, *, sizes: bool = False) -> dict[str, Any]:
    """Return everything as plain values; with `sizes`, each image's bytes as well."""
    rows = []
    for row in benchmark.rows:
        fields = asdict(row)
        if not sizes:
            del fields["sizes"], fields["image_samples"]
        fields |= {
            "bpd": row.bpd,
            "model_bpd": row.model_bpd,
            "overhead": row.overhead,
            "ratio_to_png": benchmark.ratio_to_png(row),
            "exact": row.exact,
        }
        rows.append(fields)
    return {
        "data": benchmark.data,
        "images": benchmark.images,
        "machine": benchmark.machine.to_json(),
        "codecs": rows,
    }


_CSV_FIELDS = (
    "data", "codec", "form", "library", "threads", "images", "samples", "raw_size", "size",
    "bpd", "model_bpd", "overhead", "ratio_to_png", "encode_rate", "decode_rate", "peak_memory",
    "failures", "mismatches", "exact", "processor", "date",
)  # fmt: skip


def to_csv(benchmark: Benchmark) -> str:
    """Return one line per codec, failures and mismatches as their numbers."""
    file = io.StringIO()
    writer = csv.DictWriter(file, _CSV_FIELDS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in to_json(benchmark)["codecs"]:
        row["failures"], row["mismatches"] = len(row["failures"]), len(row["mismatches"])
        machine = benchmark.machine
        context = {"data": benchmark.data, "processor": machine.processor, "date": machine.date}
        writer.writerow(row | context)
    return file.getvalue()
