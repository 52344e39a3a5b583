"""The import graph of a set of modules, and the rules that it can be checked against.

Modules are given as texts by name, so that a test can show with a few made-up ones that breaking a
rule is noticed. Imports for type checkers alone do not count; imports inside functions do.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field


@dataclass
class Module:
    """What a module imports, and the names with a leading underscore that it takes from others.

    imports: (module, name) for each imported name; no name if all of the module is imported
    private: "module.name"
    """

    imports: set[tuple[str, str | None]] = field(default_factory=set)
    private: set[str] = field(default_factory=set)

    @property
    def modules(self) -> set[str]:
        return {module for module, _ in self.imports}


Graph = dict[str, Module]


def read_graph(texts: Mapping[str, str]) -> Graph:
    """Return the graph of modules given as name and text; other modules are left out of it."""
    return {name: _read_module(name, text, texts) for name, text in texts.items()}


def _read_module(name: str, text: str, known: Collection[str]) -> Module:
    module = Module()
    aliases: dict[str, str] = {}  # local names of our modules
    tree = ast.parse(text)
    for node in _walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in known:
                    module.imports.add((alias.name, None))
                    aliases[alias.asname or alias.name] = alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in known:
                    module.imports.add((inner, None))
                    aliases[alias.asname or alias.name] = inner
                elif node.module in known:
                    module.imports.add((str(node.module), alias.name))
                    # A module `_x` without a text (in C) belongs to all modules of its package.
                    if _is_private(alias.name) and node.module != name.rpartition(".")[0]:
                        module.private.add(inner)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            owner = aliases.get(ast.unparse(node.value))
            if owner is not None and owner != name:
                module.private.add(f"{owner}.{node.attr}")
    return module


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _walk(child)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def find_wrong_directions(graph: Graph, package: str, levels: Mapping[str, int]) -> list[str]:
    """Return the imports within a package that do not lead from a part to one of a lower level.

    A part is a module or a package directly below the package; each must have a level.
    """
    wrong = []
    for name, module in graph.items():
        part = _part_of(name, package)
        for target in module.modules if part else ():
            other = _part_of(target, package)
            if part is None or other is None or part == other:
                continue
            if other not in levels or part not in levels:
                wrong.append(f"{other if other not in levels else part} has no level")
            elif levels[other] >= levels[part]:
                wrong.append(f"{name} imports {target}")
    return sorted(set(wrong))


def _part_of(name: str, package: str) -> str | None:
    start = f"{package}."
    return name.removeprefix(start).split(".")[0] if name.startswith(start) else None


def find_paths(graph: Graph, starts: Collection[str], forbidden: Collection[str]) -> list[str]:
    """Return how modules reach forbidden ones, directly or through others."""
    return [
        " -> ".join(path)
        for start in starts
        for path in _shortest_paths(graph, start)
        if path[-1] in forbidden
    ]


def _shortest_paths(graph: Graph, start: str) -> Iterator[tuple[str, ...]]:
    """Yield the shortest way to every module that importing one imports."""
    seen = {start}
    waiting: list[tuple[str, ...]] = [(start,)]
    while waiting:
        path = waiting.pop(0)
        for target in sorted(_loaded_by(graph, path[-1]) - seen):
            seen.add(target)
            waiting.append((*path, target))
            yield (*path, target)


def _loaded_by(graph: Graph, name: str) -> set[str]:
    """Return what importing a module imports, the packages around each module included."""
    loaded = set()
    for target in graph[name].modules:
        parts = target.split(".")
        loaded |= {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    return loaded & graph.keys()


def find_private_names(graph: Graph) -> list[str]:
    """Return the private names that are used outside of their modules."""
    return sorted(
        f"{name} uses {used}" for name, module in graph.items() for used in module.private
    )


def find_unpublished(
    graph: Graph, user: str, published: Mapping[str, Collection[str]], free: Collection[str]
) -> list[str]:
    """Return what a package imports beyond names that are published.

    published: the public names of each public module. free: packages of which everything is.
    """
    return sorted(
        f"{name} imports {target}" + (f".{what}" if what else "")
        for name, module in graph.items()
        if _belongs_to(name, user)
        for target, what in module.imports
        if not any(_belongs_to(target, package) for package in free)
        and not (target in published and (what is None or what in published[target]))
    )


def _belongs_to(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")
