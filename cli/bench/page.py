"""The report of a benchmark: one HTML page that needs nothing else, no script and no network.

Its policy forbids everything but its own style and images given as data. It is for a phone as well
as for a desk, in light and in dark.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape

import numpy as np
from PIL import Image

from lmzip.cli.bench.charts import Point, Series, draw_histogram, draw_scatter
from lmzip.cli.bench.examples import Example, Examples, find_reference, find_subject
from lmzip.cli.bench.measure import Measurement
from lmzip.cli.bench.results_table import COLUMNS, PNG, Benchmark
from lmzip.cli.bench.style import STYLE
from lmzip.cli.colours import colour_bits
from lmzip.cli.drawing import to_png

_HEADINGS = {  # of the page's table; the terminal has less room
    "model": "model bpd",
    "over": "overhead",
    "/PNG": "of PNG",
    "enc MB/s": "encode MB/s",
    "dec MB/s": "decode MB/s",
    "MB": "memory MB",
    "T": "threads",
}
_TEXT_CELL = ' class="text"'
_SHOWN = 3  # problems of a codec that are spelled out


def render_page(benchmark: Benchmark, examples: Examples | None) -> str:
    """Return the page of a benchmark."""
    title = f"Lossless codecs on {benchmark.data}"
    sections = [
        _render_header(title, benchmark),
        _render_table(benchmark),
        _render_problems(benchmark),
        _render_speed(benchmark),
        _render_histogram(benchmark),
        _render_examples(examples),
        _render_circumstances(benchmark),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">\n"
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"{''.join(sections)}</main>\n</body>\n</html>\n"
    )


def _render_header(title: str, benchmark: Benchmark) -> str:
    raw = max((row.raw_size for row in benchmark.rows), default=0)
    images = f"{benchmark.images:,} image{'s' if benchmark.images != 1 else ''}"
    return (
        f"<header><h1>{escape(title)}</h1>\n"
        f"<p>{images}, {raw / 1e6:,.2f} MB of samples. {_summarise(benchmark)}</p></header>\n"
    )


def _summarise(benchmark: Benchmark) -> str:
    subject, reference = find_subject(benchmark), find_reference(benchmark)
    if subject is None or reference is None or not subject.size or not reference.size:
        return ""
    share = subject.size / reference.size - 1
    verdict = f"{abs(share):.1%} {'smaller' if share < 0 else 'larger'}"
    return (
        f"With each image in a file of its own, <strong>{escape(subject.codec)}</strong> is "
        f"<strong>{verdict}</strong> than {escape(reference.codec)} in total."
    )


def _render_table(benchmark: Benchmark) -> str:
    headings = "".join(
        f'<th scope="col"{_TEXT_CELL if c.title == "library" else ""}>'
        f"{_HEADINGS.get(c.title, c.title)}</th>"
        for c in COLUMNS
    )
    rows = "".join(_render_row(benchmark, row) for row in benchmark.rows)
    return (
        '<section id="table"><h2>All codecs</h2>\n<div class="scroll" tabindex="0"><table>\n'
        f'<thead><tr><th scope="col">codec</th>{headings}</tr></thead>\n<tbody>\n{rows}</tbody>\n'
        '</table></div>\n<p class="note">bpd: bits per sample of all bytes, over all images '
        "together. Model bpd: under lmzip's own prediction; overhead: what its files take beyond "
        "that. Speeds count raw samples. Memory: the rise in resident memory.</p></section>\n"
    )


def _render_row(benchmark: Benchmark, row: Measurement) -> str:
    cells = []
    for column in COLUMNS:
        text = escape(column.show(benchmark, row))
        if column.title == "exact":
            text, kind = _describe_exact(row)
            cells.append(f'<td class="{kind}">{text}</td>')
        elif column.title == "library":
            cells.append(f"<td{_TEXT_CELL}>{text}</td>")
        else:
            cells.append(f"<td>{'&ndash;' if text == '-' else text}</td>")
    kind = kind_of(benchmark, row)
    name = escape(row.codec)
    return f'<tr class="{kind}"><th scope="row">{name}</th>{"".join(cells)}</tr>\n'


def _describe_exact(row: Measurement) -> tuple[str, str]:
    if row.mismatches:
        return f"NO, {len(row.mismatches)} changed", "bad"
    if row.failures:
        return f"fails on {len(row.failures)} of {row.images}", "bad"
    return "yes", "good"


def kind_of(benchmark: Benchmark, row: Measurement) -> str:
    """Return the class of a codec in charts and in the table."""
    if row.is_lmzip:
        return "ours"
    reference = find_reference(benchmark)
    return "reference" if reference and row.codec == reference.codec else "peer"


def _render_problems(benchmark: Benchmark) -> str:
    """List what went wrong, a few images of each codec."""
    items = []
    for row in benchmark.rows:
        problems = [(p, "changed") for p in row.mismatches] + [(p, "fails") for p in row.failures]
        for problem, what in problems[:_SHOWN]:
            items.append(
                f"<li><strong>{escape(row.codec)}</strong> {what}: {escape(problem.image)} "
                f"({escape(problem.reason)})</li>"
            )
        if len(problems) > _SHOWN:
            items.append(
                f"<li><strong>{escape(row.codec)}</strong>: "
                f"and {len(problems) - _SHOWN} more images</li>"
            )
    if not items:
        return ""
    return f'<section id="problems"><h2>Problems</h2><ul>{"".join(items)}</ul></section>\n'


def _render_speed(benchmark: Benchmark) -> str:
    charts = []
    for what in ("encode", "decode"):
        points = [
            Point(row.codec, getattr(row, f"{what}_rate") / 1e6, row.bpd, kind_of(benchmark, row))
            for row in benchmark.rows
            if row.bpd is not None and getattr(row, f"{what}_rate")
        ]
        if points:
            chart = draw_scatter(
                points, f"Rate against the speed to {what}", f"MB/s to {what}", "bpd"
            )
            charts.append(f"<figure>{chart}</figure>")
    if not charts:
        return ""
    failing = sum(bool(row.failures) for row in benchmark.rows)
    missing = f" {failing} that failed on an image are not shown." if failing else ""
    return (
        '<section id="speed"><h2>Rate against speed</h2>\n<p>Lower is smaller, further right is '
        f'faster.{missing}</p>\n<div class="charts">{"".join(charts)}</div></section>\n'
    )


def _render_histogram(benchmark: Benchmark) -> str:
    """Draw the bits of single images, and what lmzip gains on them."""
    subject, reference = find_subject(benchmark), find_reference(benchmark)
    chosen = [row for row in (subject, reference, benchmark.find(PNG)) if row is not None]
    unique = {row.codec: row for row in chosen if row.sizes and row.size is not None}
    if not unique or benchmark.images < 2:
        return ""
    series = [
        Series(row.codec, _bpd_of_images(row), kind_of(benchmark, row)) for row in unique.values()
    ]
    charts = [draw_histogram(series, "Histogram of bpd per image", "bpd of an image")]
    if subject is not None and reference is not None:
        ours, theirs = _bpd_of_images(subject), _bpd_of_images(reference)
        gains = [100 * (1 - one / other) for one, other in zip(ours, theirs, strict=True)]
        title = f"% of an image's bytes saved over {reference.codec}"
        gain = Series(subject.codec, gains, "ours")
        charts.append(draw_histogram([gain], "Histogram of gains per image", title))
    figures = "".join(f"<figure>{chart}</figure>" for chart in charts)
    return (
        '<section id="histogram"><h2>Image by image</h2>\n'
        f'<div class="charts">{figures}</div></section>\n'
    )


def _bpd_of_images(row: Measurement) -> list[float]:
    pairs = zip(row.sizes or (), row.image_samples, strict=True)
    return [8 * (size or 0) / count for size, count in pairs]


def _render_examples(examples: Examples | None) -> str:
    if examples is None:
        return ""
    strip = colour_bits(np.linspace(0, examples.top, 256)[None], examples.top)
    scale = (
        f'<div class="scale"><span>0</span><img alt="scale of bits" src="{_embed_array(strip)}">'
        f"<span>{examples.top:g} bits a pixel</span></div>"
    )
    parts = [
        '<section id="examples"><h2>Where the bits go</h2>\n'
        "<p>Beside each image, its bit map: what every pixel costs under the network.</p>\n"
        f"{scale if _have_maps(examples) else ''}"
    ]
    for heading, chosen in (
        (f"Largest gains over {examples.reference}", examples.largest),
        (f"Smallest gains over {examples.reference}", examples.smallest),
    ):
        if chosen:
            cards = "".join(_render_example(example, examples) for example in chosen)
            parts.append(f'<h3>{escape(heading)}</h3>\n<div class="cards">{cards}</div>\n')
    return "".join(parts) + "</section>\n"


def _have_maps(examples: Examples) -> bool:
    return any(e.bits is not None for e in examples.largest + examples.smallest)


def _render_example(example: Example, examples: Examples) -> str:
    name = escape(example.name)
    shape = "small" if max(example.width, example.height) <= 64 else "large"
    if example.bits is None:
        bit_map = '<p class="nothing">stored by a classical method: no bit map</p>'
    else:
        source = _embed_array(colour_bits(example.bits, examples.top))
        bit_map = f'<img class="{shape} map" alt="bit map of {name}" src="{source}">'
    thumbnail = f"data:image/png;base64,{base64.b64encode(example.thumbnail).decode()}"
    word = "smaller" if example.gain >= 0 else "larger"
    return (
        f'<figure class="card"><div class="pair"><img class="{shape}" alt="{name}" '
        f'src="{thumbnail}">{bit_map}</div>\n<figcaption><strong>{name}</strong> '
        f"{example.width}&times;{example.height} {example.mode}<br>"
        f"{example.size:,} against {example.reference_size:,} bytes, "
        f"<span>{abs(example.gain):.1%} {word}</span></figcaption></figure>\n"
    )


def _embed_array(colours: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> str:
    data = to_png(Image.fromarray(colours))
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def _render_circumstances(benchmark: Benchmark) -> str:
    machine = benchmark.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    models = ", ".join(machine.models) or (
        "none: without a model of its own, lmzip stores by classical methods"
    )
    rows: Sequence[tuple[str, str]] = (
        ("processor", f"{machine.processor}, {machine.cores} in use"),
        ("system", machine.system),
        ("versions", versions),
        ("BLAS", f"{machine.blas}, one thread in each process"),
        ("released models", models),
        ("date", machine.date),
    )
    items = "".join(f"<dt>{escape(key)}</dt><dd>{escape(text)}</dd>" for key, text in rows)
    return (
        f'<section id="machine"><h2>Measured on</h2>\n<dl>{items}</dl>\n'
        '<p class="note">Every codec ran in fresh processes, as many as the table says threads, '
        "after coding one small crop untimed. Every image was decoded and compared, sample by "
        "sample.</p></section>\n"
    )
