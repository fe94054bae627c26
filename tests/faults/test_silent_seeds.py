"""Nodes of a Cluster, or Sentinels, that do not say where the servers are: looking for them is part of a verb's time.

There are so many silent ones that asking each of them for as long as it may take would outlast the guard.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

import servers
import tarry
from faults.both_clients import KINDS, AnyClient
from faults.patience import HANG_S
from server_groups import MASTER, Sentinels, sentinels
from tarry.connections.embedded.process import ServerProcess

pytestmark = [pytest.mark.otherserver, pytest.mark.slow]
MANY = 40
URLS = {"cluster": "redis+cluster://{hosts}", "sentinels": f"redis+sentinel://{{hosts}}/{MASTER}"}


@pytest.fixture(scope="module")
def silent() -> Iterator[list[str]]:
    """Hosts that take connections and never answer."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=200)) for _ in range(MANY)]
        yield [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[ServerProcess]]:
    with servers.cluster() as made:
        yield made


@pytest.fixture(scope="module")
def trio() -> Iterator[Sentinels]:
    with sentinels() as made:
        yield made


def is_told(threads: ThreadPoolExecutor, way: AnyClient, *, wait: float) -> None:
    """Within the guard, which is for a machine that is busy: a second or two is what was asked for."""
    with pytest.raises(tarry.Unavailable, match="did not answer"):
        threads.submit(way.call, way.topic("orders"), "pop", wait=wait).result(HANG_S)


@pytest.mark.parametrize("made_of", URLS)
@pytest.mark.parametrize("kind", KINDS)
def test_who_waits_is_told_though_nobody_says_where_the_servers_are(
    threads: ThreadPoolExecutor, silent: list[str], kind: str, made_of: str
) -> None:
    way = AnyClient(kind, URLS[made_of].format(hosts=",".join(silent)), None, patience=1)
    try:
        is_told(threads, way, wait=0.5)
    finally:
        way.close()


@pytest.mark.parametrize("kind", KINDS)
def test_who_knows_the_sentinels_is_told_when_they_and_their_master_freeze(
    threads: ThreadPoolExecutor, trio: Sentinels, silent: list[str], kind: str
) -> None:
    url = f"redis+sentinel://{trio.hosts},{','.join(silent)}/{MASTER}?socket_timeout=0.9"
    way = AnyClient(kind, url, None, patience=2)
    way.call(way.topic("orders"), "stats")
    frozen = [*trio.watchers, *trio.data]
    try:
        for one in frozen:
            one.freeze()
        is_told(threads, way, wait=0.5)
    finally:
        for one in frozen:
            one.resume()
        way.close()


def test_who_knows_the_cluster_and_who_does_not_is_told_when_it_freezes(
    threads: ThreadPoolExecutor, nodes: list[ServerProcess], silent: list[str]
) -> None:
    real = [f"{host}:{port}" for host, port in servers.cluster_addresses(nodes)]
    known, unknown = ",".join(real), ",".join([*real, *silent])
    ways = [
        AnyClient(kind, f"redis+cluster://{hosts}?socket_timeout=0.3", None, patience=2)
        for kind in KINDS
        for hosts in (known, unknown)
    ]
    for way in ways[::2]:
        way.call(way.topic("orders"), "stats")
    try:
        for one in nodes:
            one.freeze()
        for told in [threads.submit(is_told, threads, way, wait=0.5) for way in ways]:
            told.result()
    finally:
        for one in nodes:
            one.resume()
        for way in ways:
            way.close()


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_who_is_asked_has_time_left_to_say_it_and_so_has_the_master(
    trio: Sentinels, silent: list[str], kind: str
) -> None:
    hosts = ",".join([*silent[:3], *trio.hosts.split(",")])
    way = AnyClient(kind, f"redis+sentinel://{hosts}/{MASTER}", None, patience=4)
    try:
        assert way.call(way.topic("found"), "add", "tea").created
    finally:
        way.close()
