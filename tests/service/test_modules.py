"""The service is a tree: no module needs one that needs it, not even for a type. An endpoint is written once, with one handler."""

from __future__ import annotations

import ast
from collections import Counter
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import tarry.programs.service as package
from tarry.clients import http
from tarry.clients import redisson as java
from tarry.programs.service.routes import routes_of
from tarry.wire import endpoints, redisson
from tarry.wire.endpoint import Endpoint
from tarry.wire.endpoints.settle_endpoints import ENDPOINTS

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
    assert f"{package.__name__}.routes.job_routes" in modules
    needed = {name: _imports(path) & modules.keys() - {name, package.__name__} for name, path in modules.items()}
    list(TopologicalSorter(needed).static_order())  # raises CycleError, which names them


def _endpoints() -> list[Endpoint[Any]]:
    names = [name for part in (endpoints, redisson) for _, name, _ in iter_modules(part.__path__, f"{part.__name__}.")]
    found = [one for name in names for one in vars(import_module(name)).values() if isinstance(one, Endpoint)]
    return found + [one for pair in ENDPOINTS.values() for one in (pair.one, pair.many)]


def test_each_endpoint_has_one_handler() -> None:
    defined = sorted((one.method, one.path) for one in _endpoints())
    served = Counter((route.method, route.path) for route in routes_of())
    assert len(defined) > 60
    assert ("POST", "/v1/topics/{topic}/many/finish") in defined
    assert [served[one] for one in defined] == [1] * len(defined)


def test_the_client_spells_no_path_of_the_api_itself() -> None:
    folders = [Path(http.__file__).parent, Path(java.__file__).parent]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    assert len(files) > 20
    assert [path.name for path in files if '"/v1' in path.read_text(encoding="utf-8")] == []
