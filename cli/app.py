"""The group of commands, and the one place where a run of lmzip ends.

A command's module is imported when the command runs, so that `lmzip --help` is instant and only
the commands that need torch import it.

Exit codes: 0 all done, 1 a file failed, 2 usage, 3 damaged data or verification mismatch, 4 model
missing or not the one that a file names; 128 + n after signal n.
"""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any, NoReturn

import click

from lmzip import LmzipError
from lmzip.cli.console import describe_os_error, exit_code_of, naming_output, print_error

_COMMANDS = {  # name: module and what it does, so that the list needs no import
    "compress": ("compress", "Compress images to .lmz files, or to one archive."),
    "decompress": ("decompress", "Restore images from .lmz files."),
    "info": ("info", "Describe files without decoding them."),
    "verify": ("verify", "Decode files and check every checksum."),
    "models": ("models", "List the models that are installed."),
    "demo": ("demo", "Compress and restore a few photographs."),
    "bench": ("bench.command", "Measure lmzip and other codecs on the same images."),
    "inspect": ("inspect", "Show where the bits of an image go."),
    "sample": ("sample", "Draw images from a model."),
    "complete": ("complete", "Draw a hidden part of an image, in several ways."),
    "orders": ("orders", "Draw orders and their local masks."),
    "train": ("torch_commands", "Train a network by a recipe."),
    "eval": ("torch_commands", "Measure a network's bits per dimension."),
    "export": ("torch_commands", "Turn a trained network into a model file."),
    "tune": ("torch_commands", "Let a model learn from your images."),
    "import": ("torch_commands", "Convert a checkpoint of the paper's authors."),
}
_EPILOGUE = """
\b
Examples:
  lmzip compress photo.png               write photo.lmz
  lmzip compress -r photos -o packed     mirror a folder
  lmzip decompress photo.lmz -o a.tiff   restore, as TIFF
  lmzip info photo.lmz

\b
Shell completion (bash; for zsh and fish write zsh_source, fish_source):
  eval "$(_LMZIP_COMPLETE=bash_source lmzip)"
"""


class Interrupted(BaseException):
    """A signal asks lmzip to end. (For a KeyboardInterrupt, click would print a line itself.)"""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"lmzip.cli.{_COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"lmzip {metadata.version('lmzip')}")
        if ctx.params["verbose"]:
            from lmzip import describe_backend  # loads numpy and the kernels

            click.echo(f"computes with {describe_backend()}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    epilog=_EPILOGUE,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.option("-v", "verbose", is_flag=True, is_eager=True, hidden=True)  # read before --version
@click.option(
    "--version", is_flag=True, expose_value=False, callback=_show_version,
    help="Show the version, with -v also what computes, and exit.",
)  # fmt: skip
def app(verbose: bool) -> None:
    """Lossless image compression with locally masked convolutions."""


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run a command line and exit with its code."""

    def interrupt(number: int, _: Any) -> NoReturn:
        raise Interrupted(number)

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    buffer_stdout()
    code = run(args)
    drop_unwritten()
    sys.exit(code)


def drop_unwritten() -> None:
    """Drop what stdout could not write, and what was reported: Python would fail over it again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def buffer_stdout() -> None:
    """Let stdout write all it is given, or fail: without a buffer, it may write a part of it.

    PYTHONUNBUFFERED takes the buffer away, and a full disk then cuts a file short without a word.
    """
    if isinstance(getattr(sys.stdout, "buffer", None), io.RawIOBase):
        sys.stdout = open(  # noqa: SIM115
            sys.stdout.fileno(),
            "w",
            encoding=sys.stdout.encoding,
            errors=sys.stdout.errors,
            closefd=False,
        )


def run(args: Sequence[str] | None) -> int:
    """Run a command line and return its exit code."""
    try:
        code = app.main(args, prog_name="lmzip", standalone_mode=False)
        if not code:  # otherwise an error has been reported, perhaps this one
            with naming_output():
                sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else error.message, err=True)
        return 2
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "lmzip"
        print_error(_one_line(error.format_message()))
        print_error(f"see '{path} --help'", label="hint")
        return 2
    except click.ClickException as error:
        print_error(_one_line(error.format_message()))
        return error.exit_code
    except Interrupted as error:
        print_error("interrupted")
        return 128 + error.number
    except LmzipError as error:
        print_error(_one_line(str(error)))
        return exit_code_of(error)
    except OSError as error:
        print_error(describe_os_error(error))
        return 1


def _one_line(text: str) -> str:
    return " ".join(text.split())
