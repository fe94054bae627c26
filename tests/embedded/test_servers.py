"""The servers that the tests run on are what they say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tarry.connections.embedded import plain_client
from tarry.connections.embedded.server_process import IMAGINARY_CLOCK, ServerProcess, launch
from tarry.connections.fitness import parse_info
from tarry.errors import BadInput, ServerUnfit

OTHER = pytest.mark.otherserver


@pytest.mark.parametrize(
    ("fixture", "version"),
    [
        ("valkey_url", "9."),
        pytest.param("redis8_url", "8.2", marks=OTHER),
        pytest.param("redis7_url", "7.", marks=OTHER),
        pytest.param("redis6_url", "6.2", marks=OTHER),
    ],
)
def test_each_engine_is_the_version_it_is_named_after(
    fixture: str, version: str, request: pytest.FixtureRequest
) -> None:
    with plain_client.RespConnection.connect(_path(request.getfixturevalue(fixture))) as line:
        about = parse_info(line.call("INFO", "server"))
    assert about.get("valkey_version", about["redis_version"]).startswith(version)


@pytest.mark.parametrize(
    "fixture", ["valkey_url", *(pytest.param(f"redis{number}_url", marks=OTHER) for number in (8, 7, 6))]
)
def test_a_script_can_detect_a_server_for_imaginary_time(fixture: str, request: pytest.FixtureRequest) -> None:
    script = f"return redis.pcall('{IMAGINARY_CLOCK}', '42')"
    assert plain_client.call_once(_path(request.getfixturevalue(fixture)), "EVAL", script, "0") == b"42"


def test_an_unmarked_server_refuses_imaginary_time(folder: Path) -> None:
    server = launch(folder, socket=folder / "s")
    try:
        with pytest.raises(plain_client.ErrorReply):
            server.ask("EVAL", f"return redis.call('{IMAGINARY_CLOCK}', '42')", "0")
    finally:
        server.stop()


@OTHER
def test_every_node_of_the_cluster_knows_all_slots(cluster_nodes: list[tuple[str, int]]) -> None:
    assert len(cluster_nodes) == 3
    for node in cluster_nodes:
        assert b"cluster_slots_ok:16384" in _bytes(plain_client.call_once(node, "CLUSTER", "INFO"))


def test_an_own_server_can_be_killed_and_restarted_at_its_address(
    own_server: Callable[..., ServerProcess],
) -> None:
    server = own_server(maxmemory="20mb")
    first = server.pid
    server.kill()
    assert plain_client.read_state(server.address) == "dead"
    server.restart()
    assert server.pid != first
    assert server.ask("CONFIG", "GET", "maxmemory") == [b"maxmemory", b"20971520"]


def test_a_frozen_server_resumes_with_its_data(own_server: Callable[..., ServerProcess]) -> None:
    server = own_server(port=True)
    server.ask("SET", "k", "v")
    server.freeze()
    server.resume()
    assert server.ask("GET", "k") == b"v"


def test_a_command_can_be_removed_from_an_own_server(own_server: Callable[..., ServerProcess]) -> None:
    server = own_server("--rename-command", "EVALSHA", "")
    with pytest.raises(plain_client.ErrorReply, match="unknown command"):
        server.ask("EVALSHA", "0" * 40, "0")


def test_a_server_that_does_not_start_is_reported_with_a_reason(own_server: Callable[..., ServerProcess]) -> None:
    with pytest.raises(ServerUnfit, match="no-such-option"):
        own_server("--no-such-option", "1")


def test_a_server_needs_a_socket_or_a_port(folder: Path) -> None:
    with pytest.raises(BadInput, match="one of the two"):
        launch(folder)


def _path(url: str) -> str:
    return unquote(urlsplit(url).path)


def _bytes(reply: plain_client.Reply) -> bytes:
    assert isinstance(reply, bytes)
    return reply
