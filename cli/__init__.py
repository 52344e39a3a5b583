"""The command line: thin commands on top of what `lmzip` and `lmzip.models` publish."""

from lmzip.cli.app import main

__all__ = ["main"]
