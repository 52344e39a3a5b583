"""Writes RESULTS.md, and the tables of the README, from what the scripts have saved.

    python benchmarks/codec.py --save benchmarks/results      (likewise the other scripts)
    lmzip bench cifar10 DIR --limit 1000 --json > benchmarks/results/cifar10.json \\
        --title "CIFAR-10 test images of 32x32 pixels: one file each, or one archive"
    lmzip bench images DIR --model photo --json > benchmarks/results/photos.json \\
        --title "McMaster photographs of 500x500 pixels: one file each"
    python benchmarks/lmconv.py > benchmarks/results/lmconv.txt
    python benchmarks/results.py
    python benchmarks/pictures.py                             (the README's pictures)

Reads everything in benchmarks/results: JSON of the scripts and of `lmzip bench`, and plain texts,
which are copied. Sections of RESULTS.md and tables of the README that were not measured again stay
as they are. The README's tables go between two markers, but for sets called deep-*.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

FOLDER = Path(__file__).parent
BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
_INTRODUCTION = (
    "# Results\n\nWritten by `benchmarks/results.py` from what the scripts and `lmzip bench` have "
    "saved, not by hand.\nSections may come from different machines; each names its own. bpd is "
    "bits per dimension: bits\nper colour sample.\n"
)


def render_results(documents: dict[str, Any], texts: dict[str, str]) -> str:
    """Return RESULTS.md: data sets first, then the scripts' tables."""
    parts = [_INTRODUCTION]
    parts += [render_bench(document) for document in documents.values() if "codecs" in document]
    parts += [render_script(document) for document in documents.values() if "tables" in document]
    parts += [f"## {name}\n\n```\n{text.strip()}\n```\n" for name, text in texts.items()]
    return "\n".join(parts)


def keep_sections(old: str, new: str) -> str:
    """Return the old page with its sections replaced by those of the new one, others at the end."""
    sections, measured = _split_sections(old), _split_sections(new)
    return "".join({**sections, **measured}.values())


def _split_sections(page: str) -> dict[str, str]:
    """Return the sections of a page by their headings, with what stands before the first."""
    sections: dict[str, str] = {}
    for part in re.split(r"^(?=## )", page, flags=re.MULTILINE):
        heading = part.partition("\n")[0] if part.startswith("## ") else ""
        sections[heading] = part.rstrip("\n") + "\n\n"
    last = list(sections)[-1]
    sections[last] = sections[last].rstrip("\n") + "\n"
    return sections


def render_bench(document: dict[str, Any]) -> str:
    """Return the section of one data set, all codecs and all columns."""
    columns = (
        "codec", "bpd", "model bpd", "overhead", "of PNG", "encode MB/s", "decode MB/s",
        "memory MB", "threads", "exact",
    )  # fmt: skip
    rows = [_bench_cells(codec) for codec in document["codecs"]]
    title = f"## {_title(document)}"
    return f"{title}\n\n{_table(columns, rows)}\n{_describe(document['machine'])}\n"


def _bench_cells(codec: dict[str, Any]) -> list[str]:
    return [
        codec["codec"],
        _show(codec["bpd"], ".3f"),
        _show(codec["model_bpd"], ".3f"),
        _show(codec["overhead"], ".1%"),
        _show(codec["ratio_to_png"], ".3f"),
        _show(codec["encode_rate"], ".3g", 1e-6),
        _show(codec["decode_rate"], ".3g", 1e-6),
        _show(codec["peak_memory"], ".0f", 1e-6),
        str(codec["threads"]),
        _verdict(codec),
    ]


def _verdict(codec: dict[str, Any]) -> str:
    if codec["mismatches"]:
        return f"**NO**: {len(codec['mismatches'])} changed"
    return f"fails on {len(codec['failures'])}" if codec["failures"] else "yes"


def render_readme(documents: dict[str, Any], old: str = "") -> str:
    """Return the README's tables: bits and speeds on each data set, and each machine once.

    Tables of the old ones that were not measured again stay as they are.
    """
    tables = _read_tables(old)
    for document in documents.values():
        if "codecs" in document:
            rows = [[_bench_cells(codec)[i] for i in (0, 1, 5, 6)] for codec in document["codecs"]]
            table = _table(("codec", "bpd", "encode MB/s", "decode MB/s"), rows)
            tables[_title(document)] = table, _describe(document["machine"])
    parts, machines = [], [machine for _, machine in tables.values()]
    for (title, (table, machine)), next_one in zip(
        tables.items(), [*machines[1:], None], strict=True
    ):
        parts.append(f"**{title}**\n\n{table}")
        if machine != next_one:
            parts.append(f"{machine}\n")
    return "\n".join(parts).rstrip()


def _read_tables(text: str) -> dict[str, tuple[str, str]]:
    """Return the tables of a README by title, each with the line that names its machine."""
    form = re.compile(r"^\*\*(.+)\*\*\n\n((?:\|.*\n)+)\n?(Measured on .*)?", re.MULTILINE)
    tables, machine = {}, ""
    for title, table, named in reversed(form.findall(text)):
        machine = named or machine  # consecutive tables share a line
        tables[title] = table, machine
    return dict(reversed(tables.items()))


def _title(document: dict[str, Any]) -> str:
    return f"{document['data']} ({document['images']:,} images)"


def render_script(document: dict[str, Any]) -> str:
    """Return the section of one script."""
    parts = [f"## {document['title']}\n"]
    for table in document["tables"]:
        parts.append(f"{table['title']}:\n\n{_table(table['columns'], table['rows'])}")
        if table["note"]:
            parts.append(f"{table['note']}\n")
    if document["bars"]:
        rows = [
            [bar["what"], bar["value"], bar["bar"], "met" if bar["met"] else "**missed**"]
            for bar in document["bars"]
        ]
        parts.append(_table(("bar", "reached", "wanted", ""), rows))
    return "\n".join([*parts, f"Measured on {document['measured_on']}.\n"])


def _describe(machine: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"Measured on {machine['processor']}, {machine['cores']} cores in use, "
        f"{machine['system']}; {versions}; {machine['engine']}; {machine['blas']}; "
        f"{machine['date']}."
    )


def _show(value: float | None, form: str, scale: float = 1.0) -> str:
    return "-" if value is None else format(value * scale, form)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", *("---:" for _ in columns[1:])]
    lines = [f"| {' | '.join(cells)} |" for cells in (columns, rule, *rows)]
    return "\n".join(lines) + "\n"


def insert_between(text: str, content: str) -> str:
    """Put content between the markers of a text; raises UsageError if they are not there."""
    begin, end = text.find(BEGIN), text.find(END)
    if not 0 <= begin < end:
        raise click.UsageError(f"the README has no lines {BEGIN} and {END}")
    return f"{text[: begin + len(BEGIN)]}\n{content}\n{text[end:]}"


@click.command()
@click.option("--results", default=FOLDER / "results", type=click.Path(exists=True, path_type=Path))
@click.option("--output", default=FOLDER / "RESULTS.md", type=click.Path(path_type=Path))
@click.option("--readme", default=FOLDER.parent / "README.md", type=click.Path(path_type=Path))
def main(results: Path, output: Path, readme: Path) -> None:
    """Write RESULTS.md and the README's table."""
    documents = {path.stem: json.loads(path.read_text()) for path in sorted(results.glob("*.json"))}
    texts = {path.stem: path.read_text() for path in sorted(results.glob("*.txt"))}
    page = render_results(documents, texts)
    output.write_text(keep_sections(output.read_text(), page) if output.exists() else page)
    shown = {name: each for name, each in documents.items() if not name.startswith("deep-")}
    page = readme.read_text()
    readme.write_text(insert_between(page, render_readme(shown, page)))
    click.echo(f"{output} and {readme}: {len(documents)} results, {len(texts)} texts")


if __name__ == "__main__":
    main()
