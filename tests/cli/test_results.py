"""RESULTS.md, the README's tables and its chart: all from what the scripts have saved."""

from __future__ import annotations

import importlib.util
import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
from click.testing import CliRunner

ROOT = Path(__file__).parents[2]
MACHINE = {
    "processor": "Abacus 9", "cores": 2, "system": "Linux x86_64", "engine": "the bead kernel",
    "versions": {"Python": "3.11", "numpy": "2.0"}, "models": [], "date": "2026-01-02",
    "blas": "openblas 1",
}  # fmt: skip


@pytest.fixture
def results() -> ModuleType:
    return load_script("results")


@pytest.fixture
def pictures() -> ModuleType:
    return load_script("pictures")


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where a script's dataclasses look for themselves
    spec.loader.exec_module(module)
    return module


def codec(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "codec": name, "bpd": 4.25, "model_bpd": None, "overhead": None, "ratio_to_png": 0.5,
        "encode_rate": 1.5e6, "decode_rate": 12e6, "peak_memory": 9e6, "threads": 2,
        "failures": [], "mismatches": [],
    } | fields  # fmt: skip


BENCH = {
    "data": "CIFAR-10 test",
    "images": 1000,
    "machine": MACHINE,
    "codecs": [
        codec("PNG"),
        codec("odd", bpd=None, encode_rate=None, decode_rate=None, failures=[1, 2]),
        codec("liar", mismatches=[1]),
        codec("lmzip", bpd=3.21, model_bpd=3.2, overhead=0.003),
    ],
}
TABLE = {"title": "Start", "columns": ["", "ms"], "rows": [["import", "88"]], "note": "a note"}
SCALING = {
    "title": "Scaling",
    "measured_on": "Abacus 9",
    "tables": [TABLE],
    "bars": [{"what": "side 512", "value": "1.31", "bar": "1.15", "met": False}],
}


def test_failures_keep_their_rows(results: ModuleType) -> None:
    text = results.render_bench(BENCH)
    assert "| odd | - | - | - | 0.500 | - | - | 9 | 2 | fails on 2 |" in text
    assert "**NO**: 1 changed" in text
    assert "| lmzip | 3.210 | 3.200 | 0.3% |" in text
    assert "Abacus 9, 2 cores in use" in text
    assert "numpy 2.0; the bead kernel; openblas 1; 2026-01-02." in text


def test_missed_bars_are_shown(results: ModuleType) -> None:
    text = results.render_script(SCALING)
    assert "| side 512 | 1.31 | 1.15 | **missed** |" in text
    assert "Measured on Abacus 9." in text
    assert "a note" in text


def test_the_readme_keeps_everything_else(results: ModuleType, tmp_path: Path) -> None:
    folder, readme = tmp_path / "results", tmp_path / "README.md"
    folder.mkdir()
    (folder / "cifar10.json").write_text(json.dumps(BENCH))
    (folder / "scaling.json").write_text(json.dumps(SCALING))
    (folder / "layer.txt").write_text("as printed\n")
    readme.write_text(f"# lmzip\nbefore\n{results.BEGIN}\nold\n{results.END}\nafter\n")
    options = ["--results", folder, "--output", tmp_path / "RESULTS.md", "--readme", readme]
    for _ in range(2):  # twice is the same as once
        finished = CliRunner().invoke(results.main, [str(option) for option in options])
        assert finished.exit_code == 0, finished.output
        text = readme.read_text()
        head = f"# lmzip\nbefore\n{results.BEGIN}\n**CIFAR-10 test (1,000 images)**\n"
        assert text.startswith(head)
        assert text.endswith(f"{results.END}\nafter\n")
        assert "| lmzip | 3.210 | 1.5 | 12 |" in text
        assert "old" not in text
    written = (tmp_path / "RESULTS.md").read_text()
    assert "## Scaling" in written
    assert "```\nas printed\n```" in written
    assert "not by hand" in written


def test_sections_that_were_not_measured_again_stay(results: ModuleType) -> None:
    old = "# Results\n\nold words\n\n## A\n\n1\n\n## B\n\n2\n"
    new = "# Results\n\nnew words\n\n## B\n\n3\n\n## C\n\n4\n"
    page = "# Results\n\nnew words\n\n## A\n\n1\n\n## B\n\n3\n\n## C\n\n4\n"
    assert results.keep_sections(old, new) == page
    assert results.keep_sections(page, new) == page


def test_a_readme_without_markers_is_left_alone(results: ModuleType) -> None:
    with pytest.raises(click.UsageError, match="has no lines"):
        results.insert_between("# lmzip\n", "table")


def test_a_machine_is_named_once_for_all_its_tables(results: ModuleType) -> None:
    second = BENCH | {"data": "photographs"}
    other = BENCH | {"data": "scans", "machine": MACHINE | {"processor": "Slide rule"}}
    assert results.render_readme({"a": BENCH, "b": second}).count("Measured on Abacus 9") == 1
    both = results.render_readme({"a": BENCH, "b": second, "c": other})
    assert [line.split(",")[0] for line in both.splitlines() if "Measured" in line] == [
        "Measured on Abacus 9", "Measured on Slide rule",
    ]  # fmt: skip


def test_tables_that_were_not_measured_again_stay(results: ModuleType) -> None:
    other = BENCH | {"data": "photographs", "machine": MACHINE | {"processor": "Slide rule"}}
    both = results.render_readme({"a": BENCH, "b": other})
    assert results.render_readme({"b": other}, both) == both
    assert results.render_readme({}, both) == both
    same = results.render_readme({"b": other | {"machine": MACHINE}}, both)
    assert same == results.render_readme({"a": BENCH, "b": other | {"machine": MACHINE}})
    assert results.render_readme({"a": BENCH}, same) == same  # whose machine is named below both


def test_the_chart_shows_the_smallest_setting_of_each_codec(
    results: ModuleType, pictures: ModuleType
) -> None:
    codecs = [
        codec("PNG", ratio_to_png=1.0),
        codec("WebP m4", ratio_to_png=0.8),
        codec("WebP m6", ratio_to_png=0.75),
        codec("odd", bpd=None, ratio_to_png=None, failures=[1]),
        codec("lmzip <best>", ratio_to_png=0.5),
    ]
    text = results.render_results({"a": BENCH | {"codecs": codecs}, "b": SCALING}, {})
    (panel,) = pictures.read_panels(text)
    assert panel.title == "CIFAR-10 test (1,000 images)"
    shown = [(bar.codec, bar.share) for bar in panel.bars]
    assert shown == [("PNG", 1.0), ("WebP", 0.75), ("lmzip <best>", 0.5)]
    drawn = ElementTree.fromstring(pictures.draw_chart([panel]))
    kinds = [rect.get("class") for rect in drawn.iter("{http://www.w3.org/2000/svg}rect")]
    assert kinds == ["paper", "peer", "peer", "ours"]


def test_the_readmes_chart_and_tables_are_those_of_the_results(pictures: ModuleType) -> None:
    text = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    panels = pictures.read_panels(text)
    chart = (ROOT / "docs" / "images" / "sizes.svg").read_text(encoding="utf-8")
    assert chart == pictures.draw_chart(panels), "run benchmarks/pictures.py"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for panel in panels:
        assert f"**{panel.title}**" in readme
        for bar in panel.bars:
            assert f"| {bar.bpd:.3f} |" in readme
