"""A server of another kind than the URL names is refused at once; one that may still become the right one is waited for."""

from __future__ import annotations

import logging
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
import redis

import servers
import tarry
from server_groups import MASTER, port_of
from tarry.clients.replies import unavailable_error
from tarry.connections import fitness
from tarry.connections.embedded.server_process import ServerProcess
from tarry.connections.faults import Fault, fault_of

SOON = {"imaginary": False, "patience": 0.3}


def assert_raises(error: type[Exception], words: str, any_client: Any) -> None:
    with pytest.raises(error, match=words):
        any_client.call(any_client.topic("orders"), "add", "tea")


@pytest.fixture
def plain(own_server: Callable[..., ServerProcess]) -> str:
    return f"127.0.0.1:{port_of(own_server(port=True))}"


@pytest.fixture
def newborn(own_server: Callable[..., ServerProcess]) -> str:
    """A node that is of no Cluster yet."""
    return f"127.0.0.1:{port_of(own_server(port=True, cluster_enabled='yes'))}"


@pytest.fixture
def nobody() -> str:
    return f"127.0.0.1:{servers.free_ports(1)[0]}"


@pytest.fixture
def fresh_sentinel() -> Iterator[str]:
    """One that watches nobody yet."""
    (port,) = servers.free_ports(1)
    with servers.short_folder() as folder:
        (folder / "s.conf").write_text(f"port {port}\nbind 127.0.0.1\n")
        words = [str(servers.valkey_binary()), str(folder / "s.conf"), "--sentinel"]
        running = ServerProcess(folder, words, (servers.LOOPBACK, port))
        try:
            yield f"127.0.0.1:{port}"
        finally:
            running.stop()


def test_a_plain_server_is_refused_as_a_cluster_and_as_a_sentinel(
    plain: str, nobody: str, kind: str, make_client: Any
) -> None:
    for hosts in (plain, f"{plain},{nobody}"):  # who does not answer says nothing else
        url = f"redis+cluster://{hosts}"
        assert_raises(
            tarry.ServerUnfit, r"not part of a Cluster; use redis://", make_client(kind, url, imaginary=False)
        )
        url = f"redis+sentinel://{hosts}/mymaster"
        assert_raises(tarry.ServerUnfit, r"not a Sentinel; use redis://", make_client(kind, url, imaginary=False))


@pytest.mark.slow
def test_a_plain_server_among_cluster_nodes_is_ignored(plain: str, newborn: str, kind: str, make_client: Any) -> None:
    for hosts in (f"{plain},{newborn}", f"{newborn},{plain}"):
        assert_raises(
            tarry.Unavailable,
            "serves 0 of 16384 slots",  # which must be read before patience ends, on a busy machine too
            make_client(kind, f"redis+cluster://{hosts}", imaginary=False, patience=1),
        )


def test_a_sentinel_is_refused_as_a_server_and_as_a_cluster(fresh_sentinel: str, kind: str, make_client: Any) -> None:
    assert_raises(
        tarry.ServerUnfit, r"it is a Sentinel; use redis\+sentinel://", make_client(kind, f"redis://{fresh_sentinel}")
    )
    assert_raises(tarry.ServerUnfit, "is not part of a Cluster", make_client(kind, f"redis+cluster://{fresh_sentinel}"))


def test_a_sentinel_without_a_master_yet_is_waited_for(fresh_sentinel: str, kind: str, make_client: Any) -> None:
    any_client = make_client(kind, f"redis+sentinel://{fresh_sentinel}/mymaster", **SOON)
    assert_raises(tarry.Unavailable, "no Sentinel names a master 'mymaster'", any_client)


@pytest.mark.otherserver
def test_a_master_name_unknown_to_all_sentinels_is_refused(
    sentinel_url: str, nobody: str, kind: str, make_client: Any
) -> None:
    hosts = sentinel_url.partition("://")[2].partition("/")[0]
    words = f"watch no master 'mymaster', but {MASTER}"
    assert_raises(tarry.ServerUnfit, words, make_client(kind, f"redis+sentinel://{hosts}/mymaster", imaginary=False))
    any_client = make_client(kind, f"redis+sentinel://{hosts},{nobody}/mymaster", **SOON)
    assert_raises(tarry.Unavailable, f"watches a master 'mymaster', but {MASTER}", any_client)


def test_a_database_number_is_refused_on_a_cluster(newborn: str, kind: str, make_client: Any) -> None:
    assert_raises(
        tarry.ServerUnfit,
        "A Cluster has one database.*leave its number out",
        make_client(kind, f"redis+cluster://{newborn}/3"),
    )
    assert_raises(tarry.ServerUnfit, "a node of a Cluster has one", make_client(kind, f"redis://{newborn}/3"))


@pytest.mark.otherserver
def test_a_database_number_is_refused_on_an_older_cluster(kind: str, make_client: Any) -> None:
    """Redis 6.2."""
    (port,) = servers.free_ports(1)
    with servers.server(servers.redis6_binary(), port=port, options=("--cluster-enabled", "yes")):
        assert_raises(
            tarry.ServerUnfit, "A Cluster has one database", make_client(kind, f"redis+cluster://127.0.0.1:{port}/3")
        )


# ── TLS ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("form", ["rediss://{}", "rediss+cluster://{}", "rediss+sentinel://{}/m"])
def test_a_silent_tls_handshake_raises_an_error_with_advice(plain: str, form: str, kind: str, make_client: Any) -> None:
    any_client = make_client(kind, form.format(plain) + "?socket_timeout=0.3", **SOON)
    assert_raises(tarry.Unavailable, "if that port does not use TLS, write redis for rediss", any_client)


@contextmanager
def saying(words: bytes) -> Iterator[int]:
    """A port that sends this to each connection."""

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(words)
                connection.recv(4096)

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_a_plain_text_answer_to_tls_is_recognized(kind: str, make_client: Any) -> None:
    with saying(b"-DENIED Redis is running in protected mode\r\n") as port:  # as it says at once to strangers
        assert_raises(
            tarry.ServerUnfit,
            "does not use TLS; write redis for rediss",
            make_client(kind, f"rediss://127.0.0.1:{port}"),
        )


def test_a_tls_alert_on_a_plain_connection_is_recognized(kind: str, make_client: Any) -> None:
    with saying(bytes.fromhex("15 03 01 00 02 02 46")) as port:  # TLS's alert: a fatal one, of the version
        assert_raises(
            tarry.ServerUnfit, "uses TLS; write rediss for redis", make_client(kind, f"redis://127.0.0.1:{port}")
        )


# ── words ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.otherserver
def test_each_cluster_node_without_persistence_is_warned_about(
    cluster_nodes: list[tuple[str, int]],
    kind: str,
    make_client: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fitness, "warned", {})  # other tests use the nodes, too
    caplog.set_level(logging.WARNING, "tarry")
    nodes = [f"{host}:{port}" for host, port in cluster_nodes]
    any_client = make_client(kind, f"redis+cluster://{','.join(nodes)}")
    for number in range(20):
        any_client.call(any_client.topic(f"kept {number}"), "stats")
    told = [line.partition(": ")[0] for line in caplog.messages if "no persistence" in line]
    assert sorted(told) == sorted(f"The server at {node}" for node in nodes)


@pytest.mark.otherserver
def test_a_moved_slot_is_explained_in_the_error(cluster_nodes: list[tuple[str, int]]) -> None:
    found: list[Fault] = []
    for host, port in cluster_nodes:
        with redis.Redis(host=host, port=port) as client:
            try:
                client.get("a")
            except redis.RedisError as error:  # which leaves the word MOVED out
                found.append(fault_of(error))
    assert len(found) == 2
    words = str(unavailable_error(found[0], "there", 0))
    assert re.match(r"The server at there did not answer: the slot 15495 is at 127\.0\.0\.1:\d+ now\. The call", words)
