"""The command line: thin commands on top of the public API (STYLE: "The command line")."""

from lmzip.cli.app import main

__all__ = ["main"]
