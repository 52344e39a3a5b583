"""lmzip models: the installed models, what they were trained on, and what they cost."""

from __future__ import annotations

import textwrap
from typing import Any

import click

from lmzip import list_models, load_model
from lmzip.cli.console import Report
from lmzip.cli.options import common_options

_SHOWN = 16  # digits of a fingerprint, as many as a file carries


@click.command("models")
@common_options(threads=False)
def models_command(as_json: bool, quiet: bool, verbose: int) -> int:
    """List the installed models: training data, orders, cost and fingerprint."""
    report = Report(quiet=quiet, verbose=verbose, as_json=as_json)
    for entry in list_models():
        with report.file(entry.name):
            model = load_model(entry.path)
            rows: dict[str, Any] = {
                "orders": ", ".join(entry.orders),
                "cost": f"{model.network.multiply_adds:,} multiply-adds a pixel",
                "fingerprint": model.fingerprint[:_SHOWN],
                **{key.replace("_", " "): _format_note(note) for key, note in entry.notes.items()},
            }
            lines = [entry.name]
            for key, text in rows.items():
                lines += textwrap.wrap(
                    f"{key:<13}{text}", 79, initial_indent="  ", subsequent_indent=" " * 15
                )
            report.result(
                "\n".join(lines),
                name=entry.name,
                file=str(entry.path),
                orders=entry.orders,
                multiply_adds=model.network.multiply_adds,
                fingerprint=model.fingerprint,
                notes=dict(entry.notes),
            )
    if not report.entries and not as_json:
        click.echo("lmzip: no models are installed: pictures are stored by classical methods",
                   err=True)  # fmt: skip
    return report.finish()


def _format_note(note: Any) -> str:
    if isinstance(note, dict):
        return ", ".join(f"{key} {_format_note(value)}" for key, value in note.items())
    if isinstance(note, list):
        return ", ".join(map(_format_note, note))
    return f"{note:.4g}" if isinstance(note, float) else str(note)
