"""The documentation's examples run: Python blocks, command lines, and doctests."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.cli_runner import Cli
from support.documentation import Example, find_examples

import lmzip

ROOT = Path(__file__).parents[1]
PAGES = {
    path.relative_to(ROOT).as_posix(): path
    for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
    if find_examples(path.read_text(encoding="utf-8"))
}


@pytest.fixture
def pictures(tmp_path: Path) -> None:
    """Make what the pages mention: photo.png, and small pictures in photos/ and thumbs/."""
    rows, columns = np.mgrid[0:72, 0:96]
    waves = 20 * np.sin(rows[..., None] / 9 + np.arange(3)) * np.cos(columns[..., None] / 7)
    noise = np.random.default_rng(0).normal(0, 3, (72, 96, 3))
    photograph = (110 + rows[..., None] + waves + noise).clip(0, 255).astype(np.uint8)
    Image.fromarray(photograph).save(tmp_path / "photo.png")
    for folder, side in (("photos", 40), ("thumbs", 16)):
        (tmp_path / folder).mkdir()
        for number in range(3):
            part = photograph[number : number + side, 2 * number : 2 * number + side]
            Image.fromarray(part).save(tmp_path / folder / f"{number}.png")


@pytest.mark.usefixtures("pictures")
@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page: str, cli: Cli) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for example in find_examples(PAGES[page].read_text(encoding="utf-8")):
        where = f"{page}, line {example.line}"
        if example.is_command:
            result = cli(*example.words)
            assert result.code == 0, f"{where}: {example.text}\n{result.err}"
        else:
            # Empty lines in front, so that a traceback names the line of the page.
            exec(compile("\n" * (example.line - 1) + example.text, page, "exec"), names)


def test_examples_are_found_and_can_be_left_out() -> None:
    text = (
        "# Page\n\n    $ lmzip info 'a b.lmz'   # says it all\n    $ pip install .\n"
        "```python\nx = 1\n```\n```\nnot Python\n```\n"
        "    $ lmzip train thumb          # not run: takes hours\n"
        "```python\n# not run: needs a GPU\nboom()\n```\n$ lmzip models\n"
    )
    found = find_examples(text)
    assert found == [
        Example(3, "lmzip info 'a b.lmz'   # says it all", True),
        Example(6, "x = 1\n", False),
        Example(16, "lmzip models", True),
    ]
    assert found[0].words == ["info", "a b.lmz"]


def test_the_readme_has_both_kinds() -> None:
    kinds = {example.is_command for example in find_examples((ROOT / "README.md").read_text())}
    assert kinds == {True, False}


MODULES = [
    module.name
    for module in pkgutil.walk_packages(lmzip.__path__, "lmzip.")
    if not module.name.rpartition(".")[2].startswith("_")
]


@pytest.mark.parametrize("name", ["lmzip", *MODULES])
def test_doctests_pass(name: str) -> None:
    if name.startswith("lmzip.integrations."):
        pytest.importorskip(name)  # each needs the library that it is for
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_doctests_are_found() -> None:
    assert doctest.testmod(lmzip).attempted > 0
