"""An add that is answered only when a replica, or the disk, has it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import servers
import tarry
from constellations import port_of, told, until
from tarry.links.embedded.launch import Running
from tarry.verbs.jobs.durable import confirmation


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Running, Running]]:
    """A master and its replica."""
    binary, ports = servers.valkey_binary(), servers.free_ports(2)
    with servers.server(binary, port=ports[0], options=("--repl-diskless-sync-delay", "0")) as master:
        follow = ("--replicaof", f"127.0.0.1 {ports[0]}")
        with servers.server(binary, port=ports[1], options=follow) as replica:
            until("a replica", lambda: "state=online" in told(master, "INFO", "replication").get("slave0", ""))
            yield master, replica


def url_of(running: Running) -> str:
    return f"redis://127.0.0.1:{port_of(running)}/0"


def test_a_replicated_add_is_on_the_replica_when_it_is_answered(pair: Any) -> None:
    master, replica = pair
    with tarry.Client(url_of(master), namespace="one") as client:
        topic = client.topic("orders")
        for n in range(20):
            topic.add(n, delay="1h", durability="replicated")
            assert replica.ask("HLEN", topic.verbs.keys.jobs.decode()) == n + 1
        topic.add_many(range(2500), delay="1h", durability=1)
        assert replica.ask("HLEN", topic.verbs.keys.jobs.decode()) == 2520


def test_many_awaited_adds_are_confirmed_together(pair: Any) -> None:
    master, replica = pair

    async def story() -> tarry.Stats:
        async with tarry.AsyncClient(url_of(master), namespace="many") as client:
            topic = client.topic("orders")
            adds = [topic.add(n, delay="1h", durability="replicated") for n in range(500)]
            await asyncio.gather(
                *adds, topic.add("plain", delay="1h"), topic.add_many(["a", "b", "c"], delay="1h", durability=1)
            )
            assert replica.ask("HLEN", topic.verbs.keys.jobs.decode()) in (503, 504)
            return await topic.stats()

    before = told(master, "INFO", "commandstats")
    assert asyncio.run(story()).delayed == 504
    calls = [int(told(master, "INFO", "commandstats")["cmdstat_wait"].split(",")[0].removeprefix("calls="))]
    calls.append(int(before.get("cmdstat_wait", "calls=0,").split(",")[0].removeprefix("calls=")))
    assert calls[0] - calls[1] < 20, "those that leave together are confirmed together"


@pytest.mark.slow
def test_too_few_replicas_are_told_and_the_job_is_there(pair: Any) -> None:
    master, _ = pair

    async def awaited(client: tarry.AsyncClient) -> None:
        async with client:
            await client.topic("orders").add("jam", durability=2)

    with tarry.Client(url_of(master), namespace="few") as client:
        with pytest.raises(tarry.Unconfirmed, match="1 of 2 replicas"):
            client.topic("orders").add("tea", durability=2)
        with pytest.raises(tarry.Unconfirmed, match="1 of 2 replicas"):
            asyncio.run(awaited(tarry.AsyncClient(url_of(master), namespace="few")))
        assert client.topic("orders").stats().ready == 2


@servers.ON_BOTH
def test_an_add_is_on_disk_when_it_is_answered(own_server: Callable[..., Running]) -> None:
    running = own_server(appendonly="yes", appendfsync="everysec")
    with tarry.Client(running.url) as client:
        client.topic("orders").add("tea", delay="1h", durability="fsynced")
        running.kill()
        running.restart()
        assert client.topic("orders").stats().delayed == 1


@servers.ON_BOTH
def test_a_server_without_a_file_cannot_confirm(own_server: Callable[..., Running]) -> None:
    with tarry.Client(own_server().url) as client:
        with pytest.raises(tarry.ServerUnfit, match=r"Added, but this server cannot confirm it: .*WAITAOF"):
            client.topic("orders").add("tea", durability="fsynced")
        assert client.topic("orders").stats().ready == 1


@pytest.mark.parametrize("wrong", ["sure", 0, -1, True, 1.5, 101, "2"])
def test_what_is_no_durability_is_refused(valkey_url: str, wrong: Any) -> None:
    with tarry.Client(valkey_url, namespace="refused") as client, pytest.raises(tarry.BadInput, match="durability"):
        client.topic("orders").add("tea", durability=wrong)
    with pytest.raises(tarry.BadInput):
        confirmation(wrong)
