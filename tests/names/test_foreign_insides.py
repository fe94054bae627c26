"""What tarry knows of the inside of other libraries, by name. Each has its reason at its line, and its library an upper bound, whose both
ends the tests run (tests/names/test_version_ranges.py). Of uvicorn it is a whole class: tests/service/test_inside_uvicorn.py.

What the machinery of the tests knows of pytest's inside is the second list; its bound is in the development tools (decision 0127)."""

from __future__ import annotations

import asyncio
import importlib.metadata
import re
import threading
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
import redis.asyncio
import typer
from _pytest.assertion import rewrite
from celery import Celery
from celery.app.amqp import AMQP
from celery.app.control import Control
from kazoo.client import KazooClient
from packaging.requirements import Requirement
from typer.main import get_command

from names.test_version_ranges import RANGES

TESTS = Path(__file__).parents[1]
SRC = TESTS.parent / "src" / "tarry"
INSIDES = {
    "celery/sender.py": ("celery", {"_create_task_sender"}),
    "clients/http/proxies.py": ("httpx", {"_transport", "_transport_for_url"}),
    "connections/awaited.py": ("redis", {"_parser"}),
    "connections/blocking.py": ("redis", {"_parser", "_sock"}),
    "connections/pipelined.py": ("redis", {"_reader", "_writer"}),
    "connections/resp.py": ("redis", {"_parser"}),
    "connections/zookeeper_session.py": ("kazoo", {"_live"}),
    "programs/cli/commands.py": ("typer", {"_runtime_param"}),
}
PYTHONS_OWN = {"_getframe", "_current_frames", "_values", "_items"}
"""Documented ones of ``sys``; and those of a mapping's view, which is a part of it."""
INSIDE = re.compile(r"(?<!self)\.(_[a-z]\w*)")
INSIDES_OF_PYTEST = {
    "conftest.py": {"_rewrite_test"},
    "plugin_processes.py": {"_addoption", "_basetemp", "_exit_stack", "_setupstate", "_tmp_path_factory"},
}
OTHERS_IN_TESTS = {
    "_adapters", "_click", "_config", "_get_command", "_transports",  # of typer and httpx, which have a range
    "_current_frames", "_exit", "_fields", "_fork_exec", "_get_running_loop", "_run_exitfuncs", "_set_running_loop", "_shutdown",  # Python's
}  # fmt: skip


def test_each_name_of_another_librarys_inside_is_listed() -> None:
    """The linter refuses the others: each use of a foreign underscore needs `noqa: SLF001`."""
    found = defaultdict[str, set[str]](set)
    for file in SRC.rglob("*.py"):
        for line in file.read_text("utf-8").splitlines():
            if "noqa: SLF001" in line or ("super()._" in line and file.parent.name == "celery"):
                found[str(file.relative_to(SRC))] |= set(INSIDE.findall(line.partition("#")[0])) - PYTHONS_OWN
    assert {file: names for file, names in found.items() if names} == {
        file: names for file, (_, names) in INSIDES.items()
    }


def test_each_library_whose_inside_is_used_has_a_range() -> None:
    assert {library for library, _ in INSIDES.values()} <= {name for one in RANGES for name in one.names}


def test_each_name_of_pytests_inside_is_listed() -> None:
    """In the plugins and the machinery, which the linter lets use them; single tests patch what they like."""
    found = {file.name: set(INSIDE.findall(file.read_text("utf-8"))) - OTHERS_IN_TESTS for file in TESTS.glob("*.py")}
    assert {file: names for file, names in found.items() if names} == INSIDES_OF_PYTEST


def test_pytest_has_them(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """In a version that was looked at: the next one is beyond the bound."""
    inside: Any = request
    assert inside.config._tmp_path_factory is tmp_path_factory
    assert inside.config._tmp_path_factory._basetemp == tmp_path_factory.getbasetemp()
    assert callable(inside.config._tmp_path_factory._exit_stack.pop_all)
    assert callable(inside.session._setupstate.teardown_exact)
    parser: Any = pytest.Parser(_ispytest=True)
    parser.getgroup("ours")._addoption("-n", type=int)
    assert callable(rewrite._rewrite_test)
    tools = tomllib.loads((TESTS.parent / "pyproject.toml").read_text("utf-8"))["dependency-groups"]["dev"]
    [bounds] = (one.specifier for one in map(Requirement, filter(_is_text, tools)) if one.name == "pytest")
    assert {each.operator for each in bounds} == {">=", "<"}
    assert bounds.contains(importlib.metadata.version("pytest"))


def _is_text(one: object) -> bool:
    return isinstance(one, str)


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_drivers_connections_have_them(valkey_url: str, protocol: int) -> None:
    options: Any = {"path": redis.connection.parse_url(valkey_url)["path"], "protocol": protocol}

    def parses(connection: Any) -> bool:
        parser = connection._parser
        return callable(parser.parse_error) and (protocol == 2 or callable(parser.set_invalidation_push_handler))

    blocking: Any = redis.connection.UnixDomainSocketConnection(**options)
    assert blocking._sock is None
    blocking.connect()
    assert parses(blocking)
    assert blocking._sock.fileno() > 0
    blocking.disconnect()

    async def look() -> None:
        awaited: Any = redis.asyncio.UnixDomainSocketConnection(**options)
        assert awaited._reader is awaited._writer is None
        await awaited.connect()
        assert parses(awaited)
        assert awaited._reader.at_eof() is awaited._writer.transport.is_closing() is False
        await awaited.disconnect()

    asyncio.run(look())


def test_httpx_has_them() -> None:
    with httpx.Client(mounts={"http://other": httpx.HTTPTransport()}) as http:
        assert http._transport_for_url(httpx.URL("http://here")) is http._transport
        assert http._transport_for_url(httpx.URL("http://other")) is not http._transport
    assert httpx.AsyncClient()._transport_for_url(httpx.URL("http://here"))


def test_kazoo_has_its_event() -> None:
    assert isinstance(KazooClient()._live, threading.Event)


def test_celery_takes_the_classes_that_are_replaced() -> None:
    """``amqp_cls`` and ``control_cls`` are documented; the sender that is overridden is not."""
    assert callable(AMQP._create_task_sender)
    app = Celery(set_as_current=False)
    assert isinstance(app.amqp, AMQP)
    assert isinstance(app.control, Control)


def test_typer_has_the_parameter_that_is_given_text_as_it_is() -> None:
    """Older versions, which need no pydantic, ignore it."""
    app = typer.Typer()
    app.command()(lambda text: None)
    [parameter, *_] = get_command(app).params
    assert hasattr(parameter, "get_runtime_param") == hasattr(parameter, "_runtime_param")
