"""lmzip tune: a model learns from the images of a folder and becomes a model file of its own.

Files that are compressed with it need it to be restored: it is for collections that go together
with their model. A single file or an archive that brings along what its network learnt is
`compress --effort max`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from lmzip import (
    InputError,
    Limits,
    Model,
    Options,
    Picture,
    choose_model_and_order,
    compress_picture,
    load_model,
)
from lmzip.cli.console import Report, count_of
from lmzip.cli.files import find_sources
from lmzip.cli.images import read_image
from lmzip.cli.options import common_options, limit_options
from lmzip.formats import READABLE_SUFFIXES
from lmzip.models.tuned_model import write_tuned_model

_PATH = click.Path(path_type=Path)
_HELD_OUT = 8  # one image in so many is not learnt from
_MEASURED = 16  # of them, at most, are compressed to see what learning has brought


@click.command("tune")
@click.argument("inputs", nargs=-1, required=True, metavar="FOLDER...")
@click.option("-o", "--output", required=True, metavar="MODEL", type=_PATH, help="File to write.")
@click.option(
    "--model", default=Options.model, metavar="MODEL",
    help="The model that learns; by default, the one that suits most of the images.",
)  # fmt: skip
@click.option(
    "--minutes", type=click.FloatRange(0, min_open=True), default=10.0, show_default=True,
    help="How long it may learn.",
)  # fmt: skip
@click.option("-f", "--force", is_flag=True, help="Overwrite an existing model file.")
@limit_options
@common_options(threads=False)
def command(
    inputs: tuple[str, ...],
    output: Path,
    model: str,
    minutes: float,
    force: bool,
    limits: Limits,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> int:
    """Let a model learn from images, for `compress --model` on others of their kind.

    One image in eight is left out, and shows what learning has brought. Images of one depth are
    learnt from, 8 bits or more, whichever there is most of.
    """
    report = Report(quiet=quiet, verbose=verbose, as_json=as_json)
    if output.exists() and not force:
        raise click.UsageError(f"{output} already exists (-f overwrites it)")
    pictures = _read_pictures(inputs, limits, report)
    base = _choose_model(pictures, model)
    covered = [p for p in pictures if len(p.mode.groups[0]) in (1, base.network.channels)]
    kept = [p for n, p in enumerate(covered) if n % _HELD_OUT != _HELD_OUT - 1]
    held_out = covered[_HELD_OUT - 1 :: _HELD_OUT][:_MEASURED] or kept[:_MEASURED]
    with report.progress(output.name) as progress:
        learnt = write_tuned_model(base, kept, output, 60 * minutes, progress)
    if not learnt:
        raise InputError(
            f"nothing was learnt in {minutes:g} minutes from {count_of(len(kept), 'image')}"
        )
    before, after = _measure(held_out, base.path), _measure(held_out, output)
    what = "left out" if len(covered) >= _HELD_OUT else "of them"
    report.result(
        f"{count_of(learnt, 'image')} learnt from, {len(held_out)} {what} compressed\n"
        f"{base.name:<16} {before:8.4f} bpd\n"
        f"{output.stem:<16} {after:8.4f} bpd {100 * (after / before - 1):+.2f} %",
        output=str(output),
        model=base.name,
        images=learnt,
        measured=len(held_out),
        bpd_before=before,
        bpd=after,
    )
    return report.finish()


def _read_pictures(inputs: Sequence[str], limits: Limits, report: Report) -> list[Picture]:
    pictures = []
    sources = find_sources(inputs, True, lambda p: p.suffix.lower() in READABLE_SUFFIXES, report)
    for source in sources:
        with report.file(source.name):
            picture = read_image(source.read(limits), limits).picture
            if picture.mode.groups:
                pictures.append(picture)
    if not pictures:
        raise InputError(f"{' '.join(inputs)}: no images that a network codes")
    return pictures


def _choose_model(pictures: Sequence[Picture], name: str) -> Model:
    """Return the model that is to learn: the one of that name, or that suits most pixels."""
    if name != Options.model:
        return load_model(name)
    votes: Counter[Model] = Counter()
    for picture in pictures[:: max(1, len(pictures) // _MEASURED)]:
        if choice := choose_model_and_order(picture):
            votes[choice.model] += picture.height * picture.width
    if not votes:
        raise InputError("no model is installed that codes these images")
    return votes.most_common(1)[0][0]


def _measure(pictures: Sequence[Picture], model: Path) -> float:
    """Return the bits per sample of pictures as files."""
    options = Options(model=str(model))
    size = sum(len(compress_picture(picture, options)) for picture in pictures)
    return 8 * size / sum(picture.samples.size for picture in pictures)
