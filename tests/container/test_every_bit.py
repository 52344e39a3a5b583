"""Every bit: flip each one of small files, cut at each length: a named error, or right pixels."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("trust", ROOT / "benchmarks" / "trust.py")
assert spec is not None
assert spec.loader is not None
trust = importlib.util.module_from_spec(spec)
spec.loader.exec_module(trust)


@pytest.mark.parametrize("kind", ["v2/one-pixel", "v2/webp-1", "one-pixel", "webp-1"])
def test_every_bit_of_the_smallest_files(kind: str) -> None:
    outcomes = trust.check_bits((kind,))
    size = (trust.GOLDEN / f"{kind}.lmz").stat().st_size
    assert sum(outcomes.values()) == 9 * size
    named = {"DamagedError", "FormatError", "VersionError", "FingerprintError", "LimitError"}
    assert set(outcomes) <= named


@pytest.mark.slow
@pytest.mark.parametrize("kind", trust.KINDS)
def test_every_bit(kind: str) -> None:
    assert "right" not in trust.check_bits((kind,))


@pytest.mark.slow
def test_mutated_files() -> None:
    assert sum(trust.check_mutations(500).values()) == 500


@pytest.mark.slow
def test_threads_and_forked_processes() -> None:
    trust.check_together()


@pytest.mark.slow
def test_killed_at_any_moment_in_a_folder() -> None:
    trust.check_kills(5)
