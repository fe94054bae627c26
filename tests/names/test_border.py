"""What an app may import of the library: public names, the wire of HTTP, the floor of serving, and ``tarry.internal``, which is small.

An app is a program that stands on the library: the service, the dashboard, the command line… The worker is a part of the library. That no
app imports the library's own packages, nor another app, is checked by the contracts in pyproject.toml.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from types import ModuleType

from changed import nodes
from tarry import internal

SRC = Path(__file__).resolve().parents[2] / "src" / "tarry"
APPS = (
    *sorted(f"programs/{path.parent.name}" for path in (SRC / "programs").glob("*/__init__.py")),
    "celery",
    "django",
    "otel.py",
)
PUBLIC = ("tarry.errors", "tarry.redisson", "tarry.testing", "tarry.types", "tarry.zookeeper")
BY_RIGHT = (*PUBLIC, "tarry.internal", "tarry.wire", "tarry.programs.serving")
MOST_NAMES = 50
OF_PYTHON = {"_asdict", "_make", "_replace"}
"""What a named tuple has, and users spell."""


@cache
def nodes_of(app: str) -> list[ast.AST]:
    files = [SRC / app] if app.endswith(".py") else sorted((SRC / app).rglob("*.py"))
    return [node for file in files for node in nodes(ast.parse(file.read_text("utf-8")))]


@cache
def imports(app: str) -> set[tuple[str, str]]:
    """The modules of tarry that an app imports from, and the names."""
    return {
        (node.module, alias.name)
        for node in nodes_of(app)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "tarry"
        for alias in node.names
    }


def test_an_app_imports_public_names_the_wire_serving_and_internal() -> None:
    """The command line puts the programs together."""
    found = defaultdict[str, list[str]](list)
    for app in APPS:
        own = f"tarry.{app.removesuffix('.py').replace('/', '.')}"
        others = ("tarry.",) if app == "programs/cli" else (own,)
        inside = ("tarry.clients", "tarry.connections", "tarry.core", "tarry.values", "tarry.verbs", "tarry.worker")
        for module, name in imports(app):
            if module != "tarry" and (module.startswith(inside) or not module.startswith((*BY_RIGHT, *others))):
                found[app].append(f"{module}:{name}")
    assert found == {}


def test_internal_has_few_names() -> None:
    """A module among them would hide as many as it has."""
    assert len(internal.__all__) <= MOST_NAMES
    assert [name for name in internal.__all__ if isinstance(getattr(internal, name), ModuleType)] == []


def test_each_name_of_internal_has_a_reason_and_two_apps() -> None:
    source = inspect.getsource(internal)
    apps = {name: {app for app in APPS if ("tarry.internal", name) in imports(app)} for name in internal.__all__}
    assert {name: sorted(found) for name, found in apps.items() if len(found) < 2} == {}
    assert [name for name in internal.__all__ if not re.search(rf'^    "{name}",  # \w', source, re.M)] == []


def test_the_lists_of_internal_have_the_same_names_and_places() -> None:
    """A type checker reads the imports, Python ``_PLACES``. ``server_verbs`` is a function of the module, as are those without an import."""
    block = next(node for node in ast.parse(inspect.getsource(internal)).body if isinstance(node, ast.If))
    imported = {
        alias.name: str(node.module).removeprefix("tarry.")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    places = vars(internal)["_PLACES"]
    assert {name: imported.get(name) for name in places} == places
    assert {name for name in internal.__all__ if name in imported} - {"server_verbs"} == set(places)


def test_no_app_reaches_inside() -> None:
    """Through the ``engine`` or the ``verbs`` of a handle (``server_verbs`` gives them), or an underscore of what is not its own."""
    found = [
        f"{app}: {ast.unparse(node)}"
        for app in APPS
        for node in nodes_of(app)
        if isinstance(node, ast.Attribute)
        and (node.attr in ("engine", "verbs") or (node.attr.startswith("_") and not node.attr.startswith("__")))
        and node.attr not in OF_PYTHON
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", "sys", "os"))
    ]
    of_other_libraries = ["programs/cli: param._runtime_param", "programs/cli: parameter._runtime_param"]
    assert found == [*of_other_libraries, "celery: super()._create_task_sender"]  # test_foreign_insides.py
