"""Every target takes its seeds, what fuzzing found before, and mutations, without a crash."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fuzz import targets

FOUND = sorted((Path(__file__).parent / "found").glob("*-*"))


@pytest.mark.parametrize("name", targets.TARGETS)
def test_seeds_and_mutations(name: str) -> None:
    choose = random.Random(0)
    for data in targets.seeds(name):
        targets.run_target(name, data)
        for _ in range(3):
            targets.run_target(name, targets.mutate(data, choose))


def test_every_target_is_fuzzed_with_each_change() -> None:
    workflow = (Path(__file__).parents[2] / ".github/workflows/tests.yml").read_text("utf-8")
    assert f"target: [{', '.join(sorted(targets.TARGETS))}]" in workflow


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.name)
def test_what_was_found(path: Path) -> None:
    targets.run_target(path.name.split("-")[0], path.read_bytes())
