"""Options that several commands share, with one spelling and one text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

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


def model_option(function: F) -> F:
    """--model of commands that decode."""
    return click.option(
        "--model", metavar="FILE", help="The model file, if the files were made with your own."
    )(function)


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
