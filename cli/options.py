"""Options that several commands share, with one spelling and one text."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar, cast

import click

from lmzip import LIMIT_FLAGS, InputError, Limits, parse_size

F = TypeVar("F", bound=Callable[..., Any])


def output_options(what: str) -> Callable[[F], F]:
    """-o, -f, -c, --rm and -k of commands that write files."""

    def decorate(function: F) -> F:
        for option in reversed(
            (
                click.option("-o", "--output", metavar="OUT", help=what),
                click.option("-c", "--stdout", "to_stdout", is_flag=True, help="Write to stdout."),
                click.option("-f", "--force", is_flag=True, help="Overwrite existing outputs."),
                click.option(
                    "-k/--rm", "keep", default=True,
                    help="Keep the inputs (default), or delete each once its output is safe.",
                ),
                click.option("-r", "--recursive", is_flag=True, help="Go through folders."),
            )
        ):  # fmt: skip
            function = option(function)
        return function

    return decorate


def drawing_options(function: F) -> F:
    """-o, --each, -f, --temperature and --seed of commands that draw images from a model."""
    for option in reversed(
        (
            click.option("-o", "--output", required=True, metavar="PNG", help="File to write."),
            click.option("--each", metavar="FOLDER", help="Also write every image by itself."),
            click.option("-f", "--force", is_flag=True, help="Overwrite existing outputs."),
            click.option(
                "--temperature", default=1.0, metavar="T",
                help="Below 1 draws smoother images, above 1 noisier ones.",
            ),
            click.option("--seed", default=0, type=click.IntRange(0), metavar="N",
                         help="The same seed draws the same images."),
        )
    ):  # fmt: skip
        function = option(function)
    return function


def parse_shape(text: str) -> tuple[int, int]:
    """Read "32x48", a height and a width; raises InputError."""
    height, _, width = text.partition("x")
    if not (height.isdecimal() and width.isdecimal() and int(height) and int(width)):
        raise InputError(f"{text!r} is not HEIGHTxWIDTH, such as 32x48")
    return int(height), int(width)


def model_option(function: F) -> F:
    """--model of commands that decode."""
    return click.option(
        "--model", metavar="FILE", help="The model file, if the files were made with your own."
    )(function)


def scheduler_option(what: str) -> Callable[[F], F]:
    """--scheduler of commands that a Dask cluster can do."""
    return click.option(
        "--scheduler", metavar="ADDRESS",
        help=f"Where {what}: by the workers of this Dask scheduler, tcp://HOST:8786.",
    )  # fmt: skip


def environment_limits() -> Limits:
    """Return the limits that variables set; raises UsageError, as a wrong option does."""
    try:
        return Limits.from_environment()
    except InputError as error:
        raise click.UsageError(str(error)) from None


def limit_options(function: F) -> F:
    """--max-pixels and the other limits; the command gets `limits`."""

    @functools.wraps(function)
    def gather(**arguments: Any) -> Any:
        given = {name: arguments.pop(f"limit_{name}") for name in LIMIT_FLAGS}
        chosen = {name: size for name, size in given.items() if size is not None}
        return function(**arguments, limits=replace(environment_limits(), **chosen))

    texts = {
        "pixels": "Refuse images of more pixels (default 256M).",
        "images": "Refuse archives of more images (default 1M).",
        "metadata": "Refuse more bytes of metadata (default 128M).",
        "density": "Refuse more samples for a byte of a stream (default 8K).",
        "memory": "Refuse what would take more bytes of memory (default 4G).",
    }
    decorated: Any = gather
    for name, flag in reversed(LIMIT_FLAGS.items()):
        option = click.option(
            flag, f"limit_{name}", type=_SIZE, metavar="N", help=texts[name]
        )  # fmt: skip
        decorated = option(decorated)
    return cast(F, decorated)


class _Size(click.ParamType[int]):
    """A number, perhaps with a unit: 500, 64K, 20M, 2G."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return value if isinstance(value, int) else parse_size(value)
        except InputError as error:
            self.fail(str(error), param, ctx)


_SIZE = _Size()


def common_options(*, threads: bool = True, as_json: bool = True) -> Callable[[F], F]:
    """-T, --json, -q and -v."""

    def decorate(function: F) -> F:
        function = click.option(
            "-v", "--verbose", count=True, help="Print more; -vv shows tracebacks."
        )(function)
        function = click.option("-q", "--quiet", is_flag=True, help="Print errors only.")(function)
        if as_json:
            function = click.option(
                "--json", "as_json", is_flag=True, help="Print one JSON document."
            )(function)
        if threads:
            function = click.option(
                "-T", "--threads", type=click.IntRange(0), default=0, metavar="N",
                help="Use N cores; 0, the default, uses all.",
            )(function)  # fmt: skip
        return function

    return decorate
