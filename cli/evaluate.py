"""lmzip eval: the likelihood of a data set under a float network, in one order or several."""

from __future__ import annotations

from pathlib import Path

import click
import torch

from lmzip import make_regions
from lmzip.cli.console import Report
from lmzip.cli.data_sets import SETS, guess_set, load_set
from lmzip.cli.options import common_options
from lmzip.models.evaluate import (
    evaluate,
    evaluate_completion,
    format_table,
    to_json,
)
from lmzip.models.paper_figures import format_figures
from lmzip.models.weights import load_network

_FOLDER = click.Path(path_type=Path)


@click.command("eval")
@click.argument("weights", type=_FOLDER)
@click.option("--data", required=True, metavar="FOLDER", type=_FOLDER, help="Where the images are.")
@click.option(
    "--set", "kind", type=click.Choice(SETS), help="Which data set FOLDER is; guessed otherwise."
)
@click.option("--split", default="test", metavar="NAME", help="train, valid or test (default).")
@click.option("--orders", default="raster", metavar="LIST", help='Such as "raster,s-curve:*".')
@click.option(
    "--complete", metavar="LIST", help='Hide halves, such as "top,left", and measure those.'
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the first N images.")
@click.option(
    "--crop", default=64, type=click.IntRange(1), metavar="N", help="Crop images to N x N squares."
)
@click.option(
    "--size", default=0, type=click.IntRange(0), metavar="N", help="Scale images to N x N instead."
)
@click.option(
    "--seed", default=0, type=click.IntRange(0), metavar="N",
    help="Of binary images drawn afresh from grey MNIST.",
)  # fmt: skip
@click.option("--paper", is_flag=True, help="Print the paper's figures for the data set below.")
@click.option(
    "--batch", default=32, type=click.IntRange(1), metavar="N", help="Evaluate N images at a time."
)
@common_options()
def command(
    weights: Path,
    data: Path,
    kind: str | None,
    split: str,
    orders: str,
    complete: str | None,
    limit: int | None,
    crop: int,
    size: int,
    seed: int,
    paper: bool,
    batch: int,
    threads: int,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> int:
    """Measure the likelihood of images under a float network.

    Prints bits per dimension (and nats for binary images) of each order, and of the average of
    several orders of one family, with standard errors in brackets.
    """
    report = Report(quiet=quiet, verbose=verbose, as_json=as_json)
    if threads:
        torch.set_num_threads(threads)
    network = load_network(weights).eval()
    shape = {"channels": network.channels, "levels": network.levels, "crop": crop, "size": size}
    kind = kind or guess_set(data)
    images = load_set(data, kind, split, **shape, seed=seed)[:limit]
    names = orders.split(",")
    with report.progress(weights.name) as progress:
        if complete is None:
            result = evaluate(network, images, names, batch_size=batch, progress=progress)
            report.result(format_table(result), weights=str(weights), **to_json(result))
        else:
            regions = make_regions(images.shape[2], images.shape[3], complete.split(","))
            completion = evaluate_completion(
                network, images, regions, orders=names, batch_size=batch, progress=progress
            )
            report.result(format_table(completion), weights=str(weights), **to_json(completion))
    if paper:
        drawn = kind == "mnist" and network.levels == 2
        figures = format_figures("binarized-mnist" if drawn else kind, completion=bool(complete))
        report.line(f"\n{figures}" if figures else f"\nthe paper has no figures for {kind}")
    return report.finish()
