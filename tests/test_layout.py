"""The parts depend on each other in one direction: cli -> lmzip.models -> lmzip."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {"lmzip": "lmzip", "models": "lmzip.models", "cli": "lmzip.cli"}  # folder: package


def modules(folder: str) -> list[Path]:
    found = sorted((ROOT / folder).rglob("*.py"))
    assert found, folder
    return found


def imported_names(path: Path, *, at_import_only: bool = False) -> Iterator[str]:
    """Yield the full names that a module's import statements and `import_module` calls mention."""
    folder = path.relative_to(ROOT).parts[0]
    inside = path.relative_to(ROOT / folder).parent.parts
    package = ".".join((FOLDERS[folder], *inside))
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and at_import_only:
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse if at_import_only else [*node.body, *node.orelse]
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            base = ".".join(filter(None, (above, node.module)))
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
            yield ast.unparse(node.args[0]).lstrip("f").strip("'\"")


def belongs_to(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def offences(folder: str, *packages: str, at_import_only: bool = False) -> list[str]:
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(folder)
        for name in imported_names(path, at_import_only=at_import_only)
        if any(belongs_to(name, package) for package in packages)
    ]


def test_the_scan_sees_imports_of_every_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "lmzip").mkdir()
    path = tmp_path / "lmzip" / "module.py"
    path.write_text(
        "import torch\n"
        "from . import cli\n"
        "from .models import train\n"
        "from lmzip import models\n"
        "if TYPE_CHECKING:\n    import seen\n"
        "try:\n    import tried\nexcept ImportError:\n    pass\n"
        "def later():\n    import hidden\n    import_module(f'lmzip.cli.{x}')\n"
    )
    at_import = {"torch", "lmzip.cli", "lmzip.models.train", "lmzip.models", "tried"}
    assert set(imported_names(path, at_import_only=True)) == at_import
    assert set(imported_names(path)) == at_import | {"seen", "hidden", "lmzip.cli.{x}"}


def test_the_codec_depends_on_neither_models_nor_cli() -> None:
    assert offences("lmzip", "lmzip.models", "lmzip.cli") == []


def test_models_do_not_depend_on_the_cli() -> None:
    assert offences("models", "lmzip.cli") == []


def test_the_codec_loads_torch_only_when_asked() -> None:
    assert offences("lmzip", "torch", at_import_only=True) == []


def test_the_cli_starts_without_torch_and_models() -> None:
    """Its group of commands imports a command's module when the command runs."""
    program = "import json, sys, lmzip.cli; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(run_python(program))
    assert not [name for name in loaded if belongs_to(name, "torch")]
    assert not [name for name in loaded if belongs_to(name, "lmzip.models")]


def test_one_module_knows_constriction() -> None:
    knowing = [
        path.relative_to(ROOT)
        for folder in FOLDERS
        for path in modules(folder)
        if any(belongs_to(name, "constriction") for name in imported_names(path))
    ]
    assert knowing == [Path("lmzip/stream/ans.py")]


def test_importing_lmzip_loads_the_codec_alone() -> None:
    loaded = json.loads(
        run_python(
            "import json, sys, lmzip; lmzip.compress; print(json.dumps(sorted(sys.modules)))"
        )
    )
    assert "lmzip.order.orders" in loaded
    for package in ("torch", "lmzip.models", "lmzip.cli"):
        assert not [name for name in loaded if belongs_to(name, package)]


def run_python(program: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT / "tests",
    )
    return finished.stdout


def test_folders_are_mapped_below_one_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    setuptools = settings["tool"]["setuptools"]
    found = set()
    for folder, package in FOLDERS.items():
        for marker in (ROOT / folder).rglob("__init__.py"):
            found.add(".".join([package, *marker.parent.relative_to(ROOT / folder).parts]))
    assert set(setuptools["packages"]) == found  # none forgotten: it would not be installed
    expected = {package: folder for folder, package in FOLDERS.items() if folder != package}
    assert setuptools["package-dir"] == expected
