"""No modules of the package import each other in a circle, imports for type checkers and inside functions counted."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from changed import STATEMENTS, nodes

SRC = Path(__file__).resolve().parent.parent.parent / "src"
PERMITTED = {frozenset(f"tarry.clients.{kind}.{name}" for name in ("topic", "job")) for kind in ("awaited", "blocking")}
"""A topic hands out jobs, and a job settles itself through its topic."""
Graph = Mapping[str, set[str]]


def read_modules() -> dict[str, Path]:
    """The files by the names of their modules; a package is its ``__init__``."""
    return {
        ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__"): path
        for path in SRC.rglob("*.py")
    }


def imported_by(source: str, modules: Mapping[str, Path]) -> Iterator[str]:
    """The modules that a file imports, anywhere in it. ``from package import module`` imports the module, not the package."""
    for node in nodes(ast.parse(source), STATEMENTS):
        if isinstance(node, ast.ImportFrom):
            assert node.module, "a relative import"
            assert not node.level, "a relative import"
            full_names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from [name if name in modules else node.module for name in full_names]
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def cycles_in(graph: Graph) -> set[frozenset[str]]:
    """The groups of modules each of which reaches all others of its group."""
    reached = {name: _reached_from(name, graph) for name in graph}
    return {
        frozenset(other for other in found if name in reached[other])
        for name, found in reached.items()
        if name in found
    }


def _reached_from(start: str, graph: Graph) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def test_a_cycle_is_found() -> None:
    assert cycles_in({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == {frozenset("abc")}
    assert cycles_in({"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"c"}}) == {frozenset("ab"), frozenset("cd")}
    assert cycles_in({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == set()


def test_every_way_to_import_counts() -> None:
    modules = dict.fromkeys(("shop", "shop.till", "shop.shelf", "shop.door", "shop.lamp"), SRC)
    source = """
from shop.till import Coin, Note
if TYPE_CHECKING:
    from shop import shelf, OPEN
def close():
    import shop.door
"""
    assert set(imported_by(source, modules)) == {"shop", "shop.till", "shop.shelf", "shop.door"}


def test_the_modules_import_each_other_in_no_circle() -> None:
    modules = read_modules()
    assert len(modules) > 400
    graph = {
        name: {other for other in imported_by(path.read_text(encoding="utf-8"), modules) if other in modules} - {name}
        for name, path in modules.items()
    }
    assert {"tarry", "tarry.verbs.jobs", "tarry.clients.blocking.topic"} <= graph.keys()
    assert cycles_in(graph) == PERMITTED
