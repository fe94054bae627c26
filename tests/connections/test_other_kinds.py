"""A server of another kind than the URL says is told of at once, and in words; one that may yet be what it should is waited for."""

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
from tarry.connections.embedded.process import ServerProcess
from tarry.connections.faults import Fault, fault_of

SOON = {"imaginary": False, "patience": 0.3}


def is_told(error: type[Exception], words: str, way: Any) -> None:
    with pytest.raises(error, match=words):
        way.call(way.topic("orders"), "add", "tea")


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


def test_a_plain_server_is_no_cluster_and_no_sentinel(plain: str, nobody: str, kind: str, ways: Any) -> None:
    for hosts in (plain, f"{plain},{nobody}"):  # who does not answer says nothing else
        url = f"redis+cluster://{hosts}"
        is_told(tarry.ServerUnfit, r"not part of a Cluster; use redis://", ways(kind, url, imaginary=False))
        url = f"redis+sentinel://{hosts}/mymaster"
        is_told(tarry.ServerUnfit, r"not a Sentinel; use redis://", ways(kind, url, imaginary=False))


def test_a_stranger_among_nodes_is_not_believed(plain: str, newborn: str, kind: str, ways: Any) -> None:
    for hosts in (f"{plain},{newborn}", f"{newborn},{plain}"):
        is_told(tarry.Unavailable, "serves 0 of 16384 slots", ways(kind, f"redis+cluster://{hosts}", **SOON))


def test_a_sentinel_is_no_server_and_no_cluster(fresh_sentinel: str, kind: str, ways: Any) -> None:
    is_told(tarry.ServerUnfit, r"it is a Sentinel; use redis\+sentinel://", ways(kind, f"redis://{fresh_sentinel}"))
    is_told(tarry.ServerUnfit, "is not part of a Cluster", ways(kind, f"redis+cluster://{fresh_sentinel}"))


def test_a_sentinel_that_watches_nobody_yet_is_waited_for(fresh_sentinel: str, kind: str, ways: Any) -> None:
    way = ways(kind, f"redis+sentinel://{fresh_sentinel}/mymaster", **SOON)
    is_told(tarry.Unavailable, "no Sentinel names a master 'mymaster'", way)


@pytest.mark.otherserver
def test_a_name_that_no_sentinel_knows_is_wrong_if_all_of_them_answer(
    sentinel_url: str, nobody: str, kind: str, ways: Any
) -> None:
    hosts = sentinel_url.partition("://")[2].partition("/")[0]
    words = f"watch no master 'mymaster', but {MASTER}"
    is_told(tarry.ServerUnfit, words, ways(kind, f"redis+sentinel://{hosts}/mymaster", imaginary=False))
    way = ways(kind, f"redis+sentinel://{hosts},{nobody}/mymaster", **SOON)
    is_told(tarry.Unavailable, f"watches a master 'mymaster', but {MASTER}", way)


def test_a_cluster_has_one_database(newborn: str, kind: str, ways: Any) -> None:
    is_told(
        tarry.ServerUnfit,
        "A Cluster has one database.*leave its number out",
        ways(kind, f"redis+cluster://{newborn}/3"),
    )
    is_told(tarry.ServerUnfit, "a node of a Cluster has one", ways(kind, f"redis://{newborn}/3"))


@pytest.mark.otherserver
def test_an_older_node_refuses_a_database_in_other_words(kind: str, ways: Any) -> None:
    """Redis 6.2."""
    (port,) = servers.free_ports(1)
    with servers.server(servers.redis6_binary(), port=port, options=("--cluster-enabled", "yes")):
        is_told(tarry.ServerUnfit, "A Cluster has one database", ways(kind, f"redis+cluster://127.0.0.1:{port}/3"))


# ── TLS ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("form", ["rediss://{}", "rediss+cluster://{}", "rediss+sentinel://{}/m"])
def test_who_waits_for_tls_in_vain_is_told_what_may_be_wrong(plain: str, form: str, kind: str, ways: Any) -> None:
    way = ways(kind, form.format(plain) + "?socket_timeout=0.3", **SOON)
    is_told(tarry.Unavailable, "if that port does not use TLS, write redis for rediss", way)


@contextmanager
def saying(words: bytes) -> Iterator[int]:
    """A port where each who connects is told this."""

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


def test_a_server_without_tls_that_says_something_is_known(kind: str, ways: Any) -> None:
    with saying(b"-DENIED Redis is running in protected mode\r\n") as port:  # as it says at once to strangers
        is_told(tarry.ServerUnfit, "does not use TLS; write redis for rediss", ways(kind, f"rediss://127.0.0.1:{port}"))


def test_a_server_with_tls_that_says_something_is_known(kind: str, ways: Any) -> None:
    with saying(bytes.fromhex("15 03 01 00 02 02 46")) as port:  # TLS's alert: a fatal one, of the version
        is_told(tarry.ServerUnfit, "uses TLS; write rediss for redis", ways(kind, f"redis://127.0.0.1:{port}"))


# ── words ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.otherserver
def test_each_node_of_a_cluster_says_for_itself_that_it_keeps_nothing(
    cluster_nodes: list[tuple[str, int]], kind: str, ways: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "tarry")
    nodes = [f"{host}:{port}" for host, port in cluster_nodes]
    way = ways(kind, f"redis+cluster://{','.join(nodes)}")
    for number in range(20):
        way.call(way.topic(f"kept {number}"), "stats")
    told = [line.partition(": ")[0] for line in caplog.messages if "no persistence" in line]
    assert sorted(told) == sorted(f"The server at {node}" for node in nodes)


@pytest.mark.otherserver
def test_a_slot_that_has_moved_is_told_in_words(cluster_nodes: list[tuple[str, int]]) -> None:
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
