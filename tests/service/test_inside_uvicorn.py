"""What the service's connection knows of the inside of uvicorn and httptools, by name. A new name needs a reason; the range of versions in
``pyproject.toml`` ends at the newest that was looked at."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import httptools
import pytest
from uvicorn.protocols.http import httptools_impl

from service.test_upgrade_offers import Connection, request
from tarry.programs.service import open_requests, paced_input, protocol
from tarry.programs.service.protocol import HTTPProtocol

OF_THE_CONNECTION = {
    "cycle", "flow", "headers", "logger", "transport", "url", "parser",  # what it has
    "connection_made", "connection_lost", "data_received",  # asyncio calls them
    "on_message_begin", "on_headers_complete", "on_body", "on_message_complete",  # httptools calls them
    "on_response_complete", "send_400_response", "shutdown",  # uvicorn calls them
    "_unset_keepalive_if_required",
}  # fmt: skip
"""Of uvicorn's ``HttpToolsProtocol``."""
OF_A_CYCLE = {
    "scope",
    "more_body",
    "response_started",
    "response_complete",
    "keep_alive",
    "transport",
    "disconnected",
    "message_event",
    "waiting_for_100_continue",
}
"""Of its ``RequestResponseCycle``."""
OF_THE_FLOW = {"pause_reading", "resume_reading", "read_paused"}
OF_THE_PARSER = {"get_http_version", "should_upgrade"}


def attributes(module: Any, *objects: str) -> set[str]:
    """The names after a dot, of the given objects."""
    tree = ast.parse(inspect.getsource(module))
    found = {(ast.unparse(node.value), node.attr) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return {name for of, name in found if of in objects}


def own_names() -> set[str]:
    """Those that the class itself defines."""
    tree = ast.parse(inspect.getsource(HTTPProtocol))
    stored = {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    return stored | set(vars(HTTPProtocol))


def test_each_name_of_the_inside_is_listed() -> None:
    inherited = {name for base in HTTPProtocol.__mro__[1:] for name in vars(base)}
    used = attributes(protocol, "self", "super()") | set(vars(HTTPProtocol)) & inherited
    inner = {name for name in used if name not in own_names() or name in inherited | OF_THE_CONNECTION}
    assert {name for name in inner if not name.startswith("__")} == OF_THE_CONNECTION
    assert attributes(protocol, "self.cycle") | attributes(open_requests, "cycle", "self[-1]") == OF_A_CYCLE
    assert (
        attributes(protocol, "self.flow")
        | attributes(open_requests, "flow")
        | attributes(paced_input, "self._connection.flow")
        == OF_THE_FLOW
    )
    assert attributes(protocol, "parser") == OF_THE_PARSER


@pytest.mark.anyio
async def test_each_name_of_the_inside_exists() -> None:
    seen = Connection()
    await seen.read(request("POST", "/a", b"1"))
    cycle: Any = seen.protocol.cycle
    assert all(
        hasattr(super(HTTPProtocol, seen.protocol), name) or name in vars(seen.protocol) for name in OF_THE_CONNECTION
    )
    assert all(hasattr(cycle, name) for name in OF_A_CYCLE)
    assert all(hasattr(seen.protocol.flow, name) for name in OF_THE_FLOW)
    assert all(hasattr(httptools.HttpRequestParser, name) for name in OF_THE_PARSER)
    await seen.end()


def test_there_is_one_short_subclass() -> None:
    tree = Path(inspect.getfile(HTTPProtocol)).parents[1]
    sources = [file.read_text() for file in tree.rglob("*.py")]
    assert sum("uvicorn.protocols" in source for source in sources) == 1
    assert len(inspect.getsource(HTTPProtocol).splitlines()) <= 120
    assert httptools_impl.HttpToolsProtocol in HTTPProtocol.__bases__
