"""lmzip models: the installed models, what they are for, and what they cost."""

from __future__ import annotations

import textwrap
from typing import Any

import click

from lmzip import Model, ModelEntry, list_models, load_model
from lmzip.cli.console import Report, format_size
from lmzip.cli.options import common_options

_SHOWN = 16  # digits of a fingerprint, as many as a file carries
_HEADER = f"{'model':<12} {'for':<13} {'order':<8} {'mult-adds':>9} {'size':>8}  bpd"


@click.command("models")
@common_options(threads=False)
def models_command(as_json: bool, quiet: bool, verbose: int) -> int:
    """List the installed models: purpose, cost, size and rate.

    Multiply-adds are those of one pixel; bpd are bits per sample of real files. With -v, training
    and fingerprints as well.
    """
    report = Report(quiet=quiet, verbose=verbose, as_json=as_json)
    entries = list_models()
    if entries:
        report.line(_HEADER)
    for entry in entries:
        with report.file(entry.name):
            model = load_model(entry.path)
            purpose = entry.purpose
            report.result(
                "\n".join([_format_row(entry, model), *(_format_notes(entry, model, verbose))]),
                name=entry.name,
                file=str(entry.path),
                bytes=entry.path.stat().st_size,
                purpose=purpose.images if purpose else None,
                bpd=purpose.bpd if purpose else None,
                measured_on=purpose.measured_on if purpose else None,
                orders=entry.orders,
                multiply_adds=model.network.multiply_adds,
                fingerprint=model.fingerprint,
                notes=dict(entry.notes),
            )
    if not report.entries and not as_json:
        click.echo("lmzip: no models are installed: pictures are stored by classical methods",
                   err=True)  # fmt: skip
    return report.finish()


def _format_row(entry: ModelEntry, model: Model) -> str:
    """Return a model's line of the table."""
    purpose = entry.purpose
    images = purpose.images if purpose else "-"
    rate = f"{purpose.bpd:.3f} ({purpose.measured_on})" if purpose else "-"
    orders = "any" if model.any_order else ", ".join(entry.orders)
    cost, size = f"{model.network.multiply_adds:,}", format_size(entry.path.stat().st_size)
    return f"{entry.name:<12} {images:<13} {orders:<8} {cost:>9} {size:>8}  {rate}"


def _format_notes(entry: ModelEntry, model: Model, verbose: int) -> list[str]:
    """Return what -v adds: lines below the model's own."""
    if not verbose:
        return []
    rows: dict[str, Any] = {
        "fingerprint": model.fingerprint[:_SHOWN],
        "orders": ", ".join(entry.orders),
        **{key.replace("_", " "): _format_note(note) for key, note in entry.notes.items()},
    }
    wrapped = [
        textwrap.wrap(f"{key:<13}{text}", 79, initial_indent="  ", subsequent_indent=" " * 15)
        for key, text in rows.items()
    ]
    return [line for lines in wrapped for line in lines]


def _format_note(note: Any) -> str:
    if isinstance(note, dict):
        return ", ".join(f"{key} {_format_note(value)}" for key, value in note.items())
    if isinstance(note, list):
        return ", ".join(map(_format_note, note))
    return f"{note:.4g}" if isinstance(note, float) else str(note)
