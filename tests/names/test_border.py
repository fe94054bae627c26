"""What apps import of the library beyond its public names: a list that may only get shorter (border.toml).

    .venv/bin/python tests/names/test_border.py      writes the list of today; a longer one is refused

An app is a program that stands on the library: the service, the dashboard, the command line… The worker is a part of the library. An app
may import what `tarry`, `tarry.types`, `tarry.redisson` and `tarry.errors` export, the wire of HTTP, and other programs as far as the contracts in pyproject.toml permit.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
SRC = HERE.parents[1] / "src" / "tarry"
LIST = HERE / "border.toml"
APPS = (
    *sorted(f"programs/{path.parent.name}" for path in (SRC / "programs").glob("*/__init__.py")),
    "celery",
    "django",
    "otel.py",
)
BY_RIGHT = (
    "tarry.errors",
    "tarry.types",
    "tarry.redisson",
    "tarry.internal",
    "tarry.wire",
    "tarry.programs",
    "tarry.celery",
    "tarry.django",
    "tarry.testing",
)
"""Errors are public; the wire is the protocol of both ends of HTTP."""


def nodes_of(app: str) -> Iterator[ast.AST]:
    files = [SRC / app] if app.endswith(".py") else sorted((SRC / app).rglob("*.py"))
    for file in files:
        yield from ast.walk(ast.parse(file.read_text("utf-8")))


def public_names() -> set[str]:
    trees = [ast.parse((SRC / f"{module}.py").read_text("utf-8")) for module in ("__init__", "types", "redisson")]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {alias.name for node in nodes for alias in node.names}


def inner_names() -> dict[str, list[str]]:
    """By app: `module:name` of what it imports of the library that is not public."""
    public, found = public_names(), defaultdict[str, set[str]](set)
    for app in APPS:
        for node in nodes_of(app):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tarry."):
                module = str(node.module)
                if not module.startswith(BY_RIGHT):
                    found[app] |= {f"{module}:{alias.name}" for alias in node.names if alias.name not in public}
    return {app: sorted(found[app]) for app in APPS}


def reaches() -> dict[str, int]:
    """By app: how often it reaches through the ``engine`` of a handle, or through the underscore of what is not its own."""
    return {
        app: sum(
            isinstance(node, ast.Attribute)
            and (node.attr == "engine" or (node.attr.startswith("_") and not node.attr.startswith("__")))
            and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", "sys", "os"))
            for node in nodes_of(app)
        )
        for app in APPS
    }


def listed() -> tuple[dict[str, list[str]], dict[str, int]]:
    text = tomllib.loads(LIST.read_text("utf-8"))
    return text["names"], text["reaches"]


def test_no_app_imports_a_name_that_is_not_listed() -> None:
    names, _ = listed()
    new = {app: sorted(set(found) - set(names.get(app, ()))) for app, found in inner_names().items()}
    assert {app: found for app, found in new.items() if found} == {}


def test_a_name_that_no_app_imports_any_more_is_not_listed() -> None:
    names, _ = listed()
    now = inner_names()
    assert {app: gone for app, found in names.items() if (gone := sorted(set(found) - set(now.get(app, ()))))} == {}


def test_the_number_of_reaches_is_the_listed_one() -> None:
    assert reaches() == listed()[1]


def write() -> None:
    names, numbers = inner_names(), reaches()
    if LIST.exists():
        before, counted = listed()
        more = {app: sorted(set(found) - set(before.get(app, ()))) for app, found in names.items()}
        longer = [f"{app}: {name}" for app, found in more.items() for name in found]
        longer += [f"{app}: {n} reaches" for app, n in numbers.items() if n > counted.get(app, 0)]
        if longer:
            sys.exit("The list may only get shorter. Use a public name, or make one:\n  " + "\n  ".join(longer))
    rows = [
        "# What each app may still import, and how often it may reach inside. `.venv/bin/python tests/names/test_border.py`"
    ]
    rows += [
        "# writes this file; it only gets shorter. Decision 0089 lengthened it once, by the functions through which apps reach what",
        "# became private of the public classes.",
        "",
        "[reaches]",
        *(f'"{app}" = {n}' for app, n in numbers.items()),
    ]
    rows += ["", "[names]"]
    for app, found in names.items():
        rows += [f'"{app}" = [', *(f'    "{name}",' for name in found), "]"]
    LIST.write_text("\n".join(rows) + "\n", "utf-8")


if __name__ == "__main__":
    write()
