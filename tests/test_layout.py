"""Who may import whom (docs/ARCHITECTURE.md, "Rules").

Parts depend on each other in one direction, cli -> lmzip.models -> lmzip, and so do the packages
inside lmzip. For each rule, a test with a few made-up modules shows that breaking it is noticed.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.import_graph import (
    Graph,
    find_paths,
    find_private_names,
    find_unpublished,
    find_wrong_directions,
    read_graph,
)

import lmzip
import lmzip.formats
import lmzip.sharding
import lmzip.storage

ROOT = Path(__file__).parents[1]
FOLDERS = {"lmzip": "lmzip", "models": "lmzip.models", "cli": "lmzip.cli"}  # folder: package
LEVELS = {  # each part of the codec uses those of lower levels
    **dict.fromkeys(("errors", "progress", "cost", "whole_files"), 0),
    **dict.fromkeys(("limits", "picture", "png_chunks", "jpeg2000_headers", "order"), 1),
    **dict.fromkeys(("options", "classical", "formats", "network", "storage"), 2),
    "native": 3,
    "stream": 4,
    "parallel": 5,
    "selection": 6,
    "container": 7,
    **dict.fromkeys(("api", "bit_costs", "generation", "pillow_plugin", "sharding"), 8),
    **dict.fromkeys(("integrations", "models"), 9),
    "cli": 10,
}
DECODING = (
    "lmzip.stream.decoder",
    "lmzip.parallel.decode_job",
    "lmzip.container.image_reader",
    "lmzip.container.archive_reader",
    "lmzip.container.info",
)
ENCODING = (
    "lmzip.stream.encoder",
    "lmzip.parallel.encode_job",
    "lmzip.container.image_writer",
    "lmzip.container.archive_writer",
    "lmzip.container.scaling_choice",
    "lmzip.selection",
    "lmzip.options",
)
# What the codec offers to the command line, and to everyone else.
PUBLISHED = {
    "lmzip": lmzip.__all__,
    "lmzip.formats": lmzip.formats.__all__,
    "lmzip.sharding": lmzip.sharding.__all__,
    "lmzip.storage": lmzip.storage.__all__,
}


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
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
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
    """But for effort "max", which learns."""
    allowed = ["lmzip/container/learning.py imports lmzip.models.tune"]
    assert offences("lmzip", "lmzip.models", "lmzip.cli") == allowed
    assert offences("lmzip", "lmzip.models", "lmzip.cli", at_import_only=True) == []


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


@pytest.fixture(scope="module")
def graph() -> Graph:
    """The import graph of everything that is installed."""
    texts = {}
    for folder, package in FOLDERS.items():
        for path in modules(folder):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            inside = parts[:-1] if parts[-1] == "__init__" else parts
            texts[".".join((package, *inside))] = path.read_text(encoding="utf-8")
    return read_graph(texts)


def test_packages_depend_in_one_direction(graph: Graph) -> None:
    assert find_wrong_directions(graph, "lmzip", LEVELS) == []


def test_a_wrong_direction_is_noticed() -> None:
    texts = {
        "p.order.orders": "",
        "p.network.engine": "from p.order.orders import Order\nfrom p.network import tables",
        "p.network.tables": "def later():\n    from p.stream import coder",
        "p.stream.coder": "import p.novelty",
        "p.novelty": "",
    }
    levels = {"order": 0, "network": 1, "stream": 2}
    assert find_wrong_directions(read_graph(texts), "p", levels) == [
        "novelty has no level",
        "p.network.tables imports p.stream.coder",
    ]


def test_decoding_knows_nothing_of_encoding(graph: Graph) -> None:
    assert find_paths(graph, DECODING, ENCODING) == []


def test_a_roundabout_import_is_noticed() -> None:
    texts = {
        "p": "",
        "p.reader": "if TYPE_CHECKING:\n    import p.writer\nfrom p.tools.sums import add",
        "p.tools": "from p.table import SIZE",  # a package is imported with its modules
        "p.tools.sums": "",
        "p.table": "from p.writer import SIZE",
        "p.writer": "import p.reader",
    }
    found = find_paths(read_graph(texts), ["p.reader"], ["p.writer"])
    assert found == ["p.reader -> p.tools -> p.table -> p.writer"]
    texts["p.table"] = "SIZE = 3"
    assert find_paths(read_graph(texts), ["p.reader"], ["p.writer"]) == []


def test_reading_a_model_loads_no_coder(graph: Graph) -> None:
    assert find_paths(graph, ["lmzip.network.registry"], ["lmzip.stream.ans"]) == []
    program = "import json, sys, lmzip; lmzip.load_model; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(run_python(program))
    assert "lmzip.network.registry" in loaded
    assert not [name for name in loaded if belongs_to(name, "constriction")]


def test_private_names_stay_in_their_modules(graph: Graph) -> None:
    assert find_private_names(graph) == []


def test_a_private_name_abroad_is_noticed() -> None:
    texts = {
        "p.one": "_hidden = 1",
        "p.two": "from p.one import _hidden\nimport numpy as np\nnp._own\nself._mine",
        "p.three": "from p import one\ndef f():\n    return one._hidden",
        "p.four": "import p.one\np.one._hidden = 2\np.one.__doc__",
    }
    assert find_private_names(read_graph(texts)) == [
        "p.four uses p.one._hidden",
        "p.three uses p.one._hidden",
        "p.two uses p.one._hidden",
    ]


def test_the_cli_uses_what_is_published(graph: Graph) -> None:
    free = ("lmzip.cli", "lmzip.models")
    assert find_unpublished(graph, "lmzip.cli", PUBLISHED, free) == []


def test_an_unpublished_name_is_noticed() -> None:
    texts = {
        "p": "",
        "p.inner": "",
        "p.cli.info": "from p import read, secret\nfrom p.inner import parse\nimport p.cli.other",
        "p.cli.other": "import p\nfrom p import inner",
    }
    assert find_unpublished(read_graph(texts), "p.cli", {"p": ["read"]}, ["p.cli"]) == [
        "p.cli.info imports p.inner.parse",
        "p.cli.info imports p.secret",
        "p.cli.other imports p.inner",
    ]
