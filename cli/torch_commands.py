"""Commands that need torch: they are imported when they run, and say so if torch is missing."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import click

INSTALL = 'this command needs torch: pip install "lmzip[train]"'


class MissingTorch(click.ClickException):
    """The extra that brings torch is not installed."""

    exit_code = 2


class TorchCommand(click.Command):
    """Stands for a command in a module that imports torch, until the command is used."""

    def __init__(self, name: str, module: str, attribute: str) -> None:
        super().__init__(name)
        self._module, self._attribute = module, attribute

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        if importlib.util.find_spec("torch") is None:
            raise MissingTorch(INSTALL)
        command: click.Command = getattr(importlib.import_module(self._module), self._attribute)
        return command.make_context(info_name, args, parent, **extra)


train_command = TorchCommand("train", "lmzip.cli.train", "command")
eval_command = TorchCommand("eval", "lmzip.cli.evaluate", "command")
export_command = TorchCommand("export", "lmzip.cli.export", "command")
tune_command = TorchCommand("tune", "lmzip.cli.tune", "command")
import_command = TorchCommand("import", "lmzip.cli.import_weights", "command")
