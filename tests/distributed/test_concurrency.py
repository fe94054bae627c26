"""Partitions on several servers are asked at the same time, and each goes on where its slot is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from redis.crc import key_slot

import servers
import tarry
from distributed.conftest import PARTS
from faults.any_client import KINDS, AnyClient
from server_groups import ask_fields, until
from tarry.connections.blocking import RequestConnection
from tarry.connections.embedded.server_process import ServerProcess
from until import LONGEST_S

pytestmark = pytest.mark.otherserver


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[ServerProcess]]:
    with servers.cluster() as made:
        yield made


@pytest.fixture(params=KINDS)
def any_client(request: pytest.FixtureRequest, nodes: list[ServerProcess]) -> Iterator[AnyClient]:
    hosts = ",".join(f"{host}:{port}" for host, port in servers.cluster_addresses(nodes))
    made = AnyClient(request.param, f"redis+cluster://{hosts}", None, namespace=f"together-{request.param}")
    yield made
    made.close()


@pytest.fixture
def topic(any_client: AnyClient) -> Any:
    made = any_client.client.topic("orders", partitions=PARTS)
    any_client.call(made, "purge")
    any_client.call(made, "add_many", [tarry.NewJob(n, id=f"{n}") for n in range(100)])
    return made


def parts_of(any_client: AnyClient, topic: Any) -> list[Any]:
    found = topic.verbs.partitions()
    return [part.keys for part in any_client.call(any_client.client.engine, "run", found)]


def test_a_moved_partition_is_found_while_the_others_answer(any_client: AnyClient, topic: Any) -> None:
    """The client believes that one partition is where it is not: that server answers MOVED, the others answer."""
    keys = parts_of(any_client, topic)
    for verb, given, good in (
        ("stats", (), lambda found: found.ready == 100),
        (
            "add_many",
            ([tarry.NewJob(n, id=f"{n}") for n in range(100, 200)],),
            lambda found: all(a.is_new for a in found),
        ),
        ("get_many", ([f"{n}" for n in range(200)],), all),
        ("delete_many", ([f"{n}" for n in range(200)],), lambda found: found == ["ready"] * 200),
    ):
        known = any_client.client.engine.runner._topology._nodes
        slot = key_slot(keys[2].due)
        known[slot] = next(url for url in known if url != known[slot])
        assert good(any_client.call(topic, verb, *given)), verb
    assert any_client.call(topic, "check").ok


def test_servers_are_asked_in_parallel(any_client: AnyClient, topic: Any, nodes: list[ServerProcess]) -> None:
    """The first partition's server pauses; the others are asked all the same, before it has answered."""
    runner, keys = any_client.client.engine.runner, parts_of(any_client, topic)
    place = {f"{host}:{port}": node for node, (host, port) in zip(nodes, servers.cluster_addresses(nodes), strict=True)}
    homes = [place[runner._topology.url_of(one.due).rpartition("/")[2]] for one in keys]
    other = next(node for node in homes if node is not homes[0])

    def calls() -> str:
        return ask_fields(other, "INFO", "commandstats").get("cmdstat_evalsha", "").partition(",")[0]

    before, found = calls(), []
    homes[0].ask("CLIENT", "PAUSE", "20000", "WRITE")
    asking = threading.Thread(target=lambda: found.append(any_client.call(topic, "stats")))
    try:
        asking.start()
        until("the other server is asked", lambda: calls() != before)
        assert not found
    finally:
        homes[0].ask("CLIENT", "UNPAUSE")
        asking.join(LONGEST_S)
    assert found[0].ready == 100


def test_an_interrupted_call_leaves_no_answer_on_any_server(nodes: list[ServerProcess], monkeypatch: Any) -> None:
    """Ctrl-C while the first server's answers are read: the connections to all of them are closed, none is used again."""

    class Interrupted(BaseException):
        pass

    def read(connection: Any) -> Any:
        raise Interrupted

    hosts = ",".join(f"{host}:{port}" for host, port in servers.cluster_addresses(nodes))
    with tarry.Client(f"redis+cluster://{hosts}", namespace="interrupted") as client:
        topic = client.topic("orders", partitions=PARTS)
        topic.add_many([tarry.NewJob(n, id=f"{n}") for n in range(100)])
        read_one = RequestConnection.read
        monkeypatch.setattr(RequestConnection, "read", read)
        with pytest.raises(Interrupted) as kept:
            topic.stats()
        monkeypatch.setattr(RequestConnection, "read", read_one)
        until("connections closed", lambda: not any(b"name=tarry" in node.ask("CLIENT", "LIST") for node in nodes))  # type: ignore[operator]
        assert [job and job.body for job in topic.get_many([f"{n}" for n in range(100)])] == list(range(100))
        assert kept.value is not None, "its frames are still there"


def test_async_calls_on_many_topics_run_concurrently(nodes: list[ServerProcess]) -> None:
    hosts = ",".join(f"{host}:{port}" for host, port in servers.cluster_addresses(nodes))

    async def story() -> None:
        async with tarry.AsyncClient(f"redis+cluster://{hosts}", namespace="beside") as client:
            topics = [client.topic(f"t{n}", partitions=PARTS) for n in range(5)]
            await asyncio.gather(*[topic.add_many(range(20)) for topic in topics])
            assert [stats.ready for stats in await asyncio.gather(*[topic.stats() for topic in topics])] == [20] * 5

    asyncio.run(story())
