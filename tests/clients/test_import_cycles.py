"""No cycle of imports in the clients, the service or the dashboard has more than two modules, imports for type checkers counted."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parent.parent.parent / "src"


def imports_of(package: str) -> dict[str, set[str]]:
    """The modules of a package, and which of them each imports."""
    paths = {
        ".".join(path.relative_to(SRC).with_suffix("").parts): path
        for path in (SRC / package.replace(".", "/")).rglob("*.py")
    }
    return {name: set(_imported(path, paths)) - {name} for name, path in paths.items()}


def _imported(path: Path, modules: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield from [full] if full in modules else [node.module] if node.module in modules else []
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)


def without_pairs(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The graph in which two modules that import each other are one."""
    one = {name: min([name, *(other for other in uses if name in graph[other])]) for name, uses in graph.items()}
    merged: dict[str, set[str]] = {}
    for name, uses in graph.items():
        merged.setdefault(one[name], set()).update(one[other] for other in uses)
    return {name: uses - {name} for name, uses in merged.items()}


def test_an_import_cycle_is_found() -> None:
    ring = {"a": {"b"}, "b": {"c"}, "c": {"a"}}
    with pytest.raises(CycleError):
        TopologicalSorter(without_pairs(ring)).prepare()
    TopologicalSorter(without_pairs({"a": {"b"}, "b": {"a", "c"}, "c": set()})).prepare()


@pytest.mark.parametrize(
    ("package", "modules"), [("tarry.clients", 90), ("tarry.programs.service", 40), ("tarry.programs.dashboard", 30)]
)
def test_no_import_cycle_exceeds_two_modules(package: str, modules: int) -> None:
    graph = imports_of(package)
    assert len(graph) > modules
    TopologicalSorter(without_pairs(graph)).prepare()
