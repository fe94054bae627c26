"""Commands, routes, metrics, settings and variables, for ``docs/interface.txt``: read from the programs themselves."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typer
from prometheus_client import CollectorRegistry

import tarry
from interface_of_python import type_text, value_text
from tarry.programs.beanstalk.server import BeanstalkServer, BeanstalkSettings
from tarry.programs.cli.commands import app, load_commands
from tarry.programs.dashboard.dashboard_app import Dashboard
from tarry.programs.dialects.mounts import ALL_DIALECTS
from tarry.programs.service import openapi
from tarry.programs.service.metrics import Metrics
from tarry.programs.service.routes import routes_of
from tarry.programs.service.settings import ServiceSettings
from tarry.programs.serving import problems
from tarry.programs.serving.connection_limits import FileShares
from tarry.programs.sqs import routes as sqs_routes
from tarry.programs.sqs.operations import OPERATIONS, UNSUPPORTED

DOCS = Path(__file__).resolve().parent
SRC = Path(tarry.__path__[0])
VARIABLE = re.compile(r"TARRY_[A-Z_]+[A-Z]")
REF = "#/components/schemas/"


# ── the command line ─────────────────────────────────────────────────────────────────────────────────────────────────


def commands() -> Iterator[str]:
    """Each command with its arguments in their order, then its options; those of every command stand at ``tarry``."""
    load_commands(["--help"])
    root: Any = typer.main.get_command(app)
    kinds = _kinds(app.registered_callback)
    everywhere = {_option("", one, kinds) for one in root.params if one.name in kinds}
    yield from _command("tarry", root, app.registered_callback, set())
    yield from _group("tarry", root, app, everywhere)


def _group(path: str, group: Any, made: typer.Typer, everywhere: set[str]) -> Iterator[str]:
    infos: dict[str, Any] = {str(one.name): one for one in made.registered_commands}
    groups: dict[str, Any] = {str(one.name): one.typer_instance for one in made.registered_groups}
    for name, command in sorted(group.commands.items()):
        if command.hidden:
            continue
        yield from _command(f"{path} {name}", command, infos.get(name), everywhere)
        if name in groups:
            yield from _group(f"{path} {name}", command, groups[name], everywhere)


def _command(path: str, command: Any, info: Any, everywhere: set[str]) -> Iterator[str]:
    kinds = _kinds(info)
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.name in kinds and one not in arguments and not one.hidden]
    yield " ".join([path, *(metavar_of(one) for one in arguments)])
    for one in arguments:
        yield f"{path} {metavar_of(one)}: {_kind(one, kinds)}"
    yield from sorted(_option(path, one, kinds) for one in options if _option("", one, kinds) not in everywhere)


def _kinds(info: Any) -> dict[str, Any]:
    """The types of the parameters of a command's function; Typer's own options are not among them."""
    if info is None or info.callback is None:
        return {}
    return {name: one.annotation for name, one in inspect.signature(info.callback, eval_str=True).parameters.items()}


def metavar_of(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _option(path: str, option: Any, kinds: dict[str, Any]) -> str:
    names = "/".join([*sorted(option.opts, reverse=True), *option.secondary_opts])
    metavar = f" {option.metavar}" if option.metavar else ""
    default = "" if option.default is None or callable(option.default) else f" = {value_text(option.default)}"
    return f"{path} {names}{metavar}: {_kind(option, kinds)}{default}"


def _kind(parameter: Any, kinds: dict[str, Any]) -> str:
    """The type that the command's function has for it."""
    kind = kinds[parameter.name]
    return type_text(kind.__origin__ if hasattr(kind, "__metadata__") else kind)


# ── Django and the environment ───────────────────────────────────────────────────────────────────────────────────────


def of_django(*words: str) -> Iterator[str]:
    """In a process of its own: Django has one configuration for a process."""
    command = [sys.executable, str(DOCS / "interface_of_django.py"), *words]
    return iter(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines())


def variables() -> Iterator[str]:
    """The variables that the code reads and the settings page explains; the others are between a program and its children."""
    told = set(VARIABLE.findall((DOCS / "reference" / "settings.md").read_text(encoding="utf-8")))
    found = {
        node.value
        for path in SRC.rglob("*.py")
        if VARIABLE.search(source := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and VARIABLE.fullmatch(node.value)
    }
    return iter(sorted(found & told))


# ── HTTP ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _document() -> dict[str, Any]:
    return openapi.document(routes_of(ALL_DIALECTS.mounts(ServiceSettings().namespaces[0])))


def routes() -> Iterator[str]:
    """Each route: its parameters, its body, its answers, its problems."""
    for path, operations in sorted(_document()["paths"].items()):
        for method, operation in sorted(operations.items()):
            yield from sorted(_route(f"{method.upper()} {path}", operation))


def _route(place: str, operation: dict[str, Any]) -> Iterator[str]:
    yield place + ("" if operation.get("security") else " without a token")
    for one in operation["parameters"]:
        mark = {"path": f"{{{one['name']}}}", "query": f"?{one['name']}"}.get(one["in"], f"{one['in']} {one['name']}")
        required = ", required" if one.get("required") and one["in"] != "path" else ""
        yield f"{place} {mark}: {_schema(one['schema'])}{required}"
    for media, body in operation.get("requestBody", {}).get("content", {}).items():
        yield f"{place} body, {media}: {_schema(body.get('schema', {}))}"
    refused: set[str] = set()
    for status, answer in operation["responses"].items():
        content = answer.get("content", {})
        if openapi.PROBLEM in content:
            refused.update(answer["description"].split(", "))
        elif not content:
            yield f"{place} {status}"
        for media, one in content.items():
            if media != openapi.PROBLEM:
                yield f"{place} {status}, {media}: {_schema(one.get('schema', {}))}"
        for header in answer.get("headers", {}):
            yield f"{place} {status} header {header}"
    if refused:
        yield f"{place} problems: {' '.join(sorted(refused))}"


def models() -> Iterator[str]:
    """The fields of all models that routes read or answer."""
    for name, schema in sorted(_document()["components"]["schemas"].items()):
        properties = schema.get("properties")
        if not properties:
            yield f"{name} = {_schema(schema)}"
            continue
        required = schema.get("required", ())
        for field, one in sorted(properties.items()):
            yield f"{name}.{field}: {_schema(one)}{', required' if field in required else ''}"


def _schema(schema: dict[str, Any]) -> str:
    """A schema on one line."""
    default = (
        f" = {value_text(schema['default'])}" if isinstance(schema.get("default"), (str, int, float, bool)) else ""
    )
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(REF) + default
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " | ".join(_schema(one) for one in schema[several]) + default
    if "enum" in schema:
        return " | ".join(repr(one) for one in schema["enum"]) + default
    if "const" in schema:
        return repr(schema["const"])
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"array of {_schema(schema.get('items') or {})}" if schema.get("items") else kind
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_schema(schema['additionalProperties'])}"
    return kind + (f" ({schema['format']})" if "format" in schema else "") + default


def dashboard() -> Iterator[str]:
    """The paths below the dashboard's, by their methods, and the names of its actions."""
    made = Dashboard(tarry.AsyncClient("redis://none"))
    routes: list[Any] = made._router.routes  # noqa: SLF001  # it has no public list of them
    yield from sorted(f"{method} {one.path}" for one in routes for method in one.methods - {"HEAD"})
    yield from sorted(f"POST /act {name}" for name in made.actions)


def sqs() -> Iterator[str]:
    """The paths, and the operations of Amazon that are performed, and that are refused by name."""
    yield from sorted(f"{one.method} {one.path}" for one in sqs_routes.routes_of().routes)
    yield from sorted(f"{name}{' is not supported' * (name in UNSUPPORTED)}" for name in {*OPERATIONS, *UNSUPPORTED})


def problems_and_statuses() -> Iterator[str]:
    """The codes of problems with the status of each."""
    return iter(sorted({f"{code} {status}" for code, status, _ in problems.all_codes()}))


# ── metrics ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def metrics() -> Iterator[str]:
    """The metrics of the service and of beanstalkd's server: those that are counted, and those of each scrape."""
    told = (
        (name, kind, f" {{{', '.join(labels)}}}" if labels else "") for name, kind, labels, _ in described_metrics()
    )
    return iter(sorted(f"{name} {kind}{labels}" for name, kind, labels in told))


def described_metrics() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """The same with what each means: its name as it is scraped, its type, its labels, its words."""
    counted = Metrics()
    host: Any = SimpleNamespace(metrics=counted, files=FileShares(), authorizer=SimpleNamespace(knows_token=None))
    BeanstalkServer(host, BeanstalkSettings())
    import_module("tarry.programs.service.shared_metrics")  # whose registries are subclasses, too
    families: list[Any] = [*counted.registry._collector_to_names]  # noqa: SLF001  # the registry has no public list of what it has
    for kind in CollectorRegistry.__subclasses__():
        if kind.__module__.startswith("tarry."):
            nothing: list[Any] = [Counter[Any]() for _ in inspect.signature(kind).parameters]
            families += kind(*nothing).collect()
    for one in families:
        name = getattr(one, "name", None) or one._name  # noqa: SLF001  # a metric that is counted has no public name
        scraped = getattr(one, "type", None) or one._type  # noqa: SLF001
        words = getattr(one, "documentation", None) or one._documentation  # noqa: SLF001
        yield f"{name}{'_total' * (scraped == 'counter')}", scraped, tuple(one._labelnames), words  # noqa: SLF001
