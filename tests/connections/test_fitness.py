"""Which servers are refused, and which are only warned of."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

import servers
import tarry
from tarry import ServerUnfit
from tarry.connections import fitness
from tarry.connections.embedded.server_process import ServerProcess
from tarry.connections.faults import ConnectionLost, NoScript, ServerRefused, TryLater

VALKEY = (
    "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:{}\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n"
)
REDIS = "# Server\r\nredis_version:{}\r\n\r\n# Memory\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n"


def check_server(info: str, script: Any = None, *, cluster: bool = False) -> None:
    fitness.check_fitness([info.encode(), script or NoScript("none"), []], "there", cluster=cluster)


@pytest.mark.parametrize("version", ["6.2.0", "6.2.14", "7.0.15", "7.4.0-rc1", "8.0.1", "10.0.0", "255.255.255"])
def test_supported_redis_versions_are_accepted(version: str) -> None:
    check_server(REDIS.format(version))


@pytest.mark.parametrize("version", ["2.8.19", "5.0.14", "6.0.16"])
def test_old_redis_versions_are_refused(version: str) -> None:
    with pytest.raises(ServerUnfit, match=f"is Redis {version}; tarry needs at least Redis 6.2"):
        check_server(REDIS.format(version))


@pytest.mark.parametrize("version", ["7.2.0", "8.0.0", "9.1.0", "10.0.0-rc2"])
def test_supported_valkey_versions_are_accepted(version: str) -> None:
    check_server(VALKEY.format(version))


def test_valkey_is_judged_by_its_own_version() -> None:
    with pytest.raises(ServerUnfit, match=r"is Valkey 7.1.9; tarry needs .* Valkey 7.2"):
        check_server(VALKEY.format("7.1.9"))


def test_all_problems_are_reported_at_once() -> None:
    info = REDIS.format("5.0.0").replace("noeviction", "allkeys-lru") + "cluster_enabled:1\r\n"
    with pytest.raises(ServerUnfit, match=r"Redis 5.*no scripts.*allkeys-lru.*Cluster") as told:
        check_server(info, script=ServerRefused(ServerUnfit("unknown command")))
    assert told.value.code == "server_unfit"


@pytest.mark.parametrize("fault", [TryLater("LOADING"), TryLater("BUSY"), ConnectionLost("gone")])
@pytest.mark.parametrize("where", [0, 1])
def test_a_server_that_does_not_answer_is_not_called_unfit(fault: Any, where: int) -> None:
    replies: list[Any] = [REDIS.format("7.0.0").encode(), NoScript("none"), []]
    replies[where] = fault
    with pytest.raises(type(fault)):
        fitness.check_fitness(replies, "there")


def test_a_server_that_refuses_info_is_accepted(caplog: pytest.LogCaptureFixture) -> None:
    secret = ServerRefused(ServerUnfit("NOPERM"))
    fitness.check_fitness([secret, NoScript("none"), []], "there")
    assert not caplog.records


# ── real servers ─────────────────────────────────────────────────────────────────────────────────────────────────────


@servers.ON_BOTH
@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random"])
def test_a_server_that_evicts_any_key_is_refused(
    policy: str, own_server: Callable[..., ServerProcess], kind: str, make_client: Any
) -> None:
    any_client = make_client(kind, own_server(maxmemory="20mb", maxmemory_policy=policy).url)
    for _ in range(2):
        with pytest.raises(ServerUnfit, match=f"{policy}.*noeviction"):
            any_client.call(any_client.topic("a"), "add", "tea")


@servers.ON_BOTH
@pytest.mark.parametrize("command", ["EVALSHA"])
def test_a_server_without_scripting_is_refused(
    command: str, own_server: Callable[..., ServerProcess], kind: str, make_client: Any
) -> None:
    any_client = make_client(kind, own_server("--rename-command", command, "").url)
    with pytest.raises(ServerUnfit, match=r"runs no scripts .*allow EVALSHA, EVAL"):
        any_client.call(any_client.topic("a"), "add", "tea")


@servers.ON_BOTH
def test_a_cluster_node_needs_a_cluster_url(
    own_server: Callable[..., ServerProcess], kind: str, make_client: Any
) -> None:
    any_client = make_client(kind, own_server("--cluster-enabled", "yes", port=True).url)
    with pytest.raises(ServerUnfit, match=r"redis\+cluster://"):
        any_client.call(any_client.topic("a"), "add", "tea")


@servers.ON_BOTH
def test_acceptable_problems_are_logged_once(
    own_server: Callable[..., ServerProcess], kind: str, make_client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "tarry")
    any_client = make_client(kind, own_server(maxmemory="20mb", maxmemory_policy="volatile-lru").url)
    for n in range(3):
        any_client.call(any_client.topic("a"), "add", n)
        any_client.call(any_client.topic("b"), "pop")
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "volatile-lru" in told[0]
    assert "no persistence" in told[1]


@servers.ON_BOTH
def test_a_warning_is_logged_once_for_all_clients_of_a_process_and_again_for_another_server(
    own_server: Callable[..., ServerProcess], make_client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "tarry")
    urls = own_server(port=True).url, own_server(port=True).url
    for url in urls:
        for kind in ("sync", "async", "sync"):
            for address in (url, url.replace("127.0.0.1", "localhost")):  # two names of one server
                any_client = make_client(kind, address)
                any_client.call(any_client.topic("a"), "add", 7)
    told = [record.getMessage().partition(": ")[0] for record in caplog.records]
    assert told == [f"The server at {url}" for url in urls]


@servers.ON_BOTH
def test_a_user_without_config_permission_leaves_no_acl_log_entry(
    own_server: Callable[..., ServerProcess], kind: str, make_client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The client works, and the server's ACL log stays empty."""
    caplog.set_level(logging.WARNING, "tarry")
    running = own_server("--save", "")
    assert running.ask("ACL", "SETUSER", "plain", "on", ">x", "~*", "&*", "+@all", "-config") == b"OK"
    any_client = make_client(kind, running.url.replace("unix://", "unix://plain:x@"))
    any_client.call(any_client.topic("a"), "add", "tea")
    assert not caplog.records
    refused: Any = running.ask("ACL", "LOG")
    assert not [entry for entry in refused if b"config" in b" ".join(word for word in entry if isinstance(word, bytes))]


@servers.ON_BOTH
def test_a_server_with_persistence_logs_no_warning(
    own_server: Callable[..., ServerProcess], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "tarry")
    with tarry.Client(own_server("--appendonly", "yes").url) as client:
        client.topic("a").add("tea")
    assert not caplog.records
