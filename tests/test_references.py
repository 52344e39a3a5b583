"""What the documentation points at is there: files, modules, sections, and every public name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import lmzip

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
FOLDERS = ("lmzip", "cli", "models", "tests", "benchmarks", "docs")
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")
CODE = re.compile(r"`([^`\s]+)`")
SECTION = re.compile(r'FORMAT\.md,\s+"([^"]+)"')


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{name_of(page)} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_paths_exist(page: Path) -> None:
    missing = [path for path in paths_in(page) if not (ROOT / path).exists()]
    assert missing == []


def paths_in(page: Path) -> Iterator[str]:
    """Yield what stands in code quotes and starts like a path of the repository."""
    for text in CODE.findall(page.read_text(encoding="utf-8")):
        if text.split("/")[0] in FOLDERS and "/" in text:
            yield text


def test_the_scan_finds_paths_and_links() -> None:
    page = ROOT / "docs" / "ARCHITECTURE.md"
    assert "lmzip/order/orders.py" in set(paths_in(page))
    assert "../CONTRIBUTING.md" in LINK.findall(page.read_text(encoding="utf-8"))


def test_every_package_is_described() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    packages = {path.parent for path in (ROOT / "lmzip").glob("*/__init__.py")}
    for package in packages:
        heading = f"**`lmzip/{package.name}/`**"
        assert heading in text, f"docs/ARCHITECTURE.md lacks a paragraph that starts with {heading}"


def test_every_public_name_has_an_example() -> None:
    text = (ROOT / "docs" / "API.md").read_text(encoding="utf-8")
    examples = "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))
    for name in lmzip.__all__:
        assert f"`{name}`" in text, f"docs/API.md does not mention {name}"
        assert re.search(rf"lmzip\.{name}\b", examples), f"docs/API.md has no example of {name}"


def test_sections_that_docstrings_cite_exist() -> None:
    text = (ROOT / "FORMAT.md").read_text(encoding="utf-8")
    headings = set(re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE))
    cited = {
        section: path
        for folder in FOLDERS[:5]
        for path in (ROOT / folder).rglob("*.py")
        for section in SECTION.findall(path.read_text(encoding="utf-8"))
    }
    assert cited
    assert {section: path for section, path in cited.items() if section not in headings} == {}
