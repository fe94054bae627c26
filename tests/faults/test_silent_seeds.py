"""Nodes of a Cluster, or Sentinels, that do not say where the servers are: looking for them is part of a verb's time.

There are so many silent ones that asking each of them for as long as it may take would outlast the guard.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest

import servers
import tarry
from faults.any_client import KINDS, AnyClient
from server_groups import MASTER, Sentinels, sentinels
from tarry.connections.embedded.server_process import ServerProcess
from until import LONGEST_S, until

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
def sentinel_group() -> Iterator[Sentinels]:
    with sentinels() as made:
        yield made


def until_met(any_client: AnyClient) -> None:
    """Until it has asked its server something: a busy machine may need longer than its patience."""

    def is_met() -> bool:
        with suppress(tarry.Unavailable):
            any_client.call(any_client.topic("orders"), "stats")
            return True
        return False

    until(is_met, "an answer")


def assert_ends_in_time(threads: ThreadPoolExecutor, any_client: AnyClient, *, wait: float) -> None:
    """Within the guard, which is for a machine that is busy: a second or two is what was asked for."""
    with pytest.raises(tarry.Unavailable, match="did not answer"):
        threads.submit(any_client.call, any_client.topic("orders"), "pop", wait=wait).result(LONGEST_S)


@pytest.mark.parametrize("made_of", URLS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_wait_ends_in_time_when_no_seed_node_answers(
    threads: ThreadPoolExecutor, silent: list[str], kind: str, made_of: str
) -> None:
    any_client = AnyClient(kind, URLS[made_of].format(hosts=",".join(silent)), None, patience=1)
    try:
        assert_ends_in_time(threads, any_client, wait=0.5)
    finally:
        any_client.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_wait_ends_in_time_when_sentinels_and_master_freeze(
    threads: ThreadPoolExecutor, sentinel_group: Sentinels, silent: list[str], kind: str
) -> None:
    url = f"redis+sentinel://{sentinel_group.hosts},{','.join(silent)}/{MASTER}?socket_timeout=0.9"
    any_client = AnyClient(kind, url, None, patience=2)
    until_met(any_client)
    frozen = [*sentinel_group.watchers, *sentinel_group.data]
    try:
        for one in frozen:
            one.freeze()
        assert_ends_in_time(threads, any_client, wait=0.5)
    finally:
        for one in frozen:
            one.resume()
        any_client.close()


def test_waits_end_in_time_when_a_cluster_freezes(
    threads: ThreadPoolExecutor, nodes: list[ServerProcess], silent: list[str]
) -> None:
    real = [f"{host}:{port}" for host, port in servers.cluster_addresses(nodes)]
    known, unknown = ",".join(real), ",".join([*real, *silent])
    any_clients = [
        AnyClient(kind, f"redis+cluster://{hosts}?socket_timeout=0.3", None, patience=2)
        for kind in KINDS
        for hosts in (known, unknown)
    ]
    for any_client in any_clients[::2]:
        until_met(any_client)
    try:
        for one in nodes:
            one.freeze()
        for told in [threads.submit(assert_ends_in_time, threads, any_client, wait=0.5) for any_client in any_clients]:
            told.result()
    finally:
        for one in nodes:
            one.resume()
        for any_client in any_clients:
            any_client.close()


@pytest.mark.parametrize("kind", KINDS)
def test_silent_sentinels_leave_time_for_the_last_one_and_the_master(
    sentinel_group: Sentinels, silent: list[str], kind: str
) -> None:
    hosts = ",".join([*silent[:3], *sentinel_group.hosts.split(",")])
    any_client = AnyClient(kind, f"redis+sentinel://{hosts}/{MASTER}", None, patience=4)
    try:
        assert any_client.call(any_client.topic("found"), "add", "tea").is_new
    finally:
        any_client.close()
