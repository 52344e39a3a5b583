"""lmzip bench: lmzip and its peers on the same images in the same run."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from lmzip import EFFORTS, InputError, Options, check_options, count_threads, list_models
from lmzip.cli.bench.cluster import SetAddress, measure_on_cluster
from lmzip.cli.bench.codecs import Codec, LmzipArchive, LmzipFiles, LmzipSettings
from lmzip.cli.bench.data_sets import KINDS, DataSet, FolderSet, open_set
from lmzip.cli.bench.machine import describe_machine
from lmzip.cli.bench.measure import Measurement, measure_codec
from lmzip.cli.bench.peers import PEERS, CommandPeer, Peer, choose_peers, is_installed
from lmzip.cli.bench.results_table import (
    Benchmark,
    describe_run,
    format_header,
    format_row,
    to_csv,
    to_json,
)
from lmzip.cli.console import DAMAGED, FAILED, Report
from lmzip.cli.files import write_file
from lmzip.cli.options import common_options, scheduler_option
from lmzip.sharding import open_cluster

_SMALL = 1 << 15  # pixels: archives code smaller images together
_SHOWN = 3  # problems of a codec that are spelled out


@click.command("bench")
@click.argument("dataset", nargs=-1, required=True, metavar="[KIND] PATH")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the first N images.")
@click.option("--title", metavar="TEXT", help="What tables and the page call the data set.")
@click.option(
    "--split", default="test", metavar="NAME", help="test (default) or train, of a data set."
)
@click.option(
    "--model", "models", multiple=True, default=[Options.model], metavar="MODEL",
    help="A model's name or file; may be repeated.",
)  # fmt: skip
@click.option(
    "--order", "orders", multiple=True, default=[Options.order], metavar="ORDER",
    help="An order, or best; may be repeated.",
)  # fmt: skip
@click.option(
    "--effort", type=click.Choice(EFFORTS), default="default", help="The effort of lmzip."
)
@click.option(
    "--archive/--no-archive", default=None,
    help="Also measure lmzip's archives (default if the images are small). With --scheduler, an "
    "archive is one task, on one core.",
)  # fmt: skip
@click.option("--files/--no-files", default=True, help="Measure lmzip's single files (default).")
@click.option(
    "--peers", default="all", metavar="LIST",
    help=f"all, none, or some of {','.join(PEERS)}.",
)  # fmt: skip
@click.option(
    "--command", "commands", nargs=3, multiple=True, metavar="NAME ENCODE DECODE",
    help="A peer: commands that mention {input} and {output}.",
)  # fmt: skip
@click.option("--report", "folder", type=click.Path(path_type=Path), metavar="DIR",
              help="Write a page, DIR/index.html, and all numbers, DIR/results.json.")  # fmt: skip
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@scheduler_option("images are coded")
@click.option("--wide", is_flag=True, help="Print more columns than 80 characters hold.")
@common_options()
def bench_command(
    dataset: tuple[str, ...],
    limit: int | None,
    title: str | None,
    split: str,
    models: tuple[str, ...],
    orders: tuple[str, ...],
    effort: str,
    archive: bool | None,
    files: bool,
    peers: str,
    commands: tuple[tuple[str, str, str], ...],
    folder: Path | None,
    as_csv: bool,
    scheduler: str | None,
    wide: bool,
    threads: int,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> int:
    """Measure lmzip and other codecs on the same images.

    PATH is a folder of images, an image, an .npy array (N x H x W x C), or holds CIFAR-10 or MNIST.
    KIND (cifar10, mnist, binarized-mnist, images, npy) says which, if that is not obvious.

    Columns: bits per dimension of the actual bytes, those under lmzip's model alone, the overhead
    of the former over the latter, bytes as a share of PNG's, raw megabytes per second to encode and
    decode, peak memory, threads, and whether every image came back exactly. If one did not, the
    exit code is 3.

    \b
    A command is a template; {output:jxl} sets a file ending:
      --command cjxl "cjxl -d 0 {input} {output:jxl}" "djxl {input} {output:png}"
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")
    if folder is not None and folder.exists() and not folder.is_dir():
        raise click.UsageError(f"{folder} is a file; --report needs a folder")
    report = Report(quiet=quiet or as_csv, verbose=verbose, as_json=as_json)
    data = _drop_unreadable(_open(dataset, limit or 0, split), report)
    settings = [LmzipSettings(model, order, effort) for model in models for order in orders]
    _check(settings, report)
    others = choose_peers(peers) + [CommandPeer(*command) for command in commands]
    if peers == "all" and not all(map(is_installed, PEERS.values())):
        report.warn("bench", 'some peers are not installed: pip install "lmzip[bench]"')
    if archive is None:
        archive = _are_small(data)
    codecs = _list_codecs(settings, others, files=files, archive=archive)
    benchmark = Benchmark(title or data.title, len(data), describe_machine(threads), [])

    report.line(format_header(wide=wide))
    with ExitStack() as stack:
        measure: Callable[..., Measurement] = partial(measure_codec, threads=count_threads(threads))
        if scheduler is not None:
            cluster = stack.enter_context(open_cluster(scheduler))
            address = _address(dataset, limit or 0, split)
            measure = partial(measure_on_cluster, address=address, cluster=cluster)
        for codec in codecs:
            with report.progress(codec.name) as progress:
                row = measure(codec, data, progress=progress)
            benchmark.rows.append(row)
            report.line(format_row(benchmark, row, wide=wide))
            _report_problems(row, report)
    report.line(textwrap.fill(describe_run(benchmark), 79))
    if folder is not None:
        _write_report(folder, benchmark, data, codecs, report)
    if as_csv:
        click.echo(to_csv(benchmark), nl=False)
    if as_json:
        click.echo(json.dumps(to_json(benchmark) | {"exit_code": report.code}, indent=2))
    return report.code


def _open(dataset: tuple[str, ...], limit: int, split: str) -> DataSet:
    if len(dataset) > 2 or (len(dataset) == 2 and dataset[0] not in KINDS):
        raise click.UsageError(f"give one data set: [{'|'.join(KINDS)}] PATH")
    address = _address(dataset, limit, split)
    if address.kind is None and dataset[0] in KINDS and not Path(dataset[0]).exists():
        raise click.UsageError(f"where is {dataset[0]}? lmzip bench {dataset[0]} PATH")
    return open_set(address.kind, Path(dataset[-1]), limit=limit, split=split)


def _address(dataset: tuple[str, ...], limit: int, split: str) -> SetAddress:
    """Return what a worker of a cluster opens the data set by."""
    kind = dataset[0] if len(dataset) == 2 else None
    return SetAddress(kind, Path(dataset[-1]).absolute(), limit, split)


def _drop_unreadable(data: DataSet, report: Report) -> DataSet:
    """Leave out the files of a folder that cannot be read, for all codecs alike."""
    if not isinstance(data, FolderSet):
        return data
    kept = []
    for number, path in enumerate(data.paths):
        with report.file(str(path)):
            try:
                data.picture(number)
            except InputError as error:
                raise InputError(str(error).removeprefix(f"{path}: ")) from None
            kept.append(number)
    if not kept:
        raise InputError(f"{data.title}: none of the images can be read")
    return replace(
        data,
        names=tuple(data.names[number] for number in kept),
        paths=tuple(data.paths[number] for number in kept),
    )


def _check(settings: list[LmzipSettings], report: Report) -> None:
    """Raise an error if a model or an order cannot be used, before anything is measured."""
    for each in settings:
        check_options(each.options(threads=1))
    if not list_models() and any(each.model == Options.model for each in settings):
        report.warn("lmzip", "no models are installed: pictures are stored by classical methods")


def _are_small(data: DataSet) -> bool:
    """Return whether the images are small enough to gain by being packed together."""
    picture = data.picture(0)
    return len(data) > 1 and picture.height * picture.width <= _SMALL


def _list_codecs(
    settings: list[LmzipSettings], peers: list[Peer], *, files: bool, archive: bool
) -> list[Codec]:
    """Return what is measured: PNG first, so that all can be compared with it; lmzip last."""
    codecs: list[Codec] = list(peers)
    if files:
        codecs += [LmzipFiles(each.title, each) for each in settings]
    if archive:
        codecs += [LmzipArchive(f"{each.title} archive", each) for each in settings]
    names = [codec.name for codec in codecs]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two codecs are called {name!r}")
    if not codecs:
        raise click.UsageError("nothing to measure: no peers, no files and no archive")
    return codecs


def _report_problems(row: Measurement, report: Report) -> None:
    """Name the images that a codec changed, which is an error, or could not code."""
    for problem in row.mismatches[:_SHOWN]:
        report.fail(f"{row.codec}: {problem.image}", f"not exact: {problem.reason}", DAMAGED)
    if row.mismatches:
        report.fail(
            row.codec, f"{len(row.mismatches)} of {row.images} images did not come back", DAMAGED
        )
    for problem in row.failures[:_SHOWN]:
        report.warn(f"{row.codec}: {problem.image}", f"fails: {problem.reason}")
    if row.failures:
        text = f"fails on {len(row.failures)} of {row.images} images: no numbers are shown"
        if row.is_lmzip:
            report.fail(row.codec, text, FAILED)
        else:
            report.warn(row.codec, text)


def _write_report(
    folder: Path, benchmark: Benchmark, data: DataSet, codecs: list[Codec], report: Report
) -> None:
    """Write the page and the numbers behind it."""
    from lmzip.cli.bench.examples import choose_examples
    from lmzip.cli.bench.page import render_page

    with report.progress("bit maps") as progress:
        examples = choose_examples(benchmark, data, codecs, progress)
    folder.mkdir(parents=True, exist_ok=True)
    page = render_page(benchmark, examples)
    numbers = json.dumps(to_json(benchmark, sizes=True) | {"names": data.names}, indent=1)
    for name, text in (("index.html", page), ("results.json", numbers)):
        write_file(folder / name, text.encode(), force=True)
    report.line(f"report: {folder / 'index.html'}")
