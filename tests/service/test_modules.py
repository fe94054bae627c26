"""The service is a tree: no module needs one that needs it, not even for a type."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import tarry.programs.service as package

ROOT = Path(package.__file__).parent


def _modules() -> dict[str, Path]:
    paths = {
        ".".join((package.__name__, *path.relative_to(ROOT).with_suffix("").parts)): path for path in ROOT.rglob("*.py")
    }
    return {name.removesuffix(".__init__"): path for name, path in paths.items()}


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return found


def test_there_is_no_cycle_of_modules() -> None:
    modules = _modules()
    assert f"{package.__name__}.routes.jobs" in modules
    needed = {name: _imports(path) & modules.keys() - {name, package.__name__} for name, path in modules.items()}
    list(TopologicalSorter(needed).static_order())  # raises CycleError, which names them
