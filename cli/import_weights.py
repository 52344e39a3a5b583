"""lmzip import: a checkpoint of the paper's authors becomes float weights of lmzip."""

from __future__ import annotations

from pathlib import Path

import click

from lmzip.cli.console import Report
from lmzip.cli.options import common_options
from lmzip.models.import_reference import import_reference
from lmzip.models.weights import save_network

_PATH = click.Path(path_type=Path)


@click.command("import")
@click.argument("checkpoint", type=_PATH)
@click.option("-o", "--output", required=True, metavar="WEIGHTS", type=_PATH, help="File to write.")
@click.option(
    "--levels", type=click.IntRange(2, 1 << 16), metavar="N",
    help="Levels of a sample, if not those that the checkpoint states.",
)  # fmt: skip
@click.option(
    "--dilation", type=click.IntRange(1), metavar="N",
    help="Dilation between stages, if not the one that the checkpoint states.",
)  # fmt: skip
@click.option("-f", "--force", is_flag=True, help="Overwrite an existing output.")
@common_options(threads=False)
def command(
    checkpoint: Path,
    output: Path,
    levels: int | None,
    dilation: int | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> int:
    """Convert a CHECKPOINT of the authors' code (ajayjain/lmconv) to weights of lmzip.

    `lmzip eval`, `sample` and `complete` take them. Nothing in the file is executed.
    """
    report = Report(quiet=quiet, verbose=verbose, as_json=as_json)
    if output.exists() and not force:
        raise click.UsageError(f"{output} already exists (-f overwrites it)")
    with report.file(str(checkpoint)):
        network = import_reference(checkpoint, levels=levels, dilation=dilation)
        save_network(network, output, {"imported_from": checkpoint.name})
        parameters = sum(parameter.numel() for parameter in network.parameters())
        report.result(
            f"{output}: {parameters:,} parameters, {network.channels} channels, "
            f"{network.levels} levels",
            input=str(checkpoint),
            output=str(output),
            parameters=parameters,
            channels=network.channels,
            levels=network.levels,
        )
    return report.finish()
