"""``?views=replica``: views read from replicas of a Cluster or of a master behind Sentinels; verbs never do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

import servers
import tarry
from server_groups import BigCluster, Sentinels, ask_fields, big_cluster, sentinels, until
from tarry.connections.address import find_address
from tarry.connections.embedded.server_process import ServerProcess
from until import LONGEST_S
from warm import WarmTarry

# ── what the URL says ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("url", "reached"),
    [
        ("redis+cluster://a:1,b:2?views=replica", "redis://a:1,b:2"),
        ("redis+sentinel://a:1/m?views=replica", "redis://a:1/m"),
        ("redis+sentinel://a/m?sentinel_password=x&views=replica&socket_timeout=2", "redis://a/m?sentinel_password=x&socket_timeout=2"),
    ],
)  # fmt: skip
def test_a_url_option_allows_views_from_replicas(url: str, reached: str) -> None:
    address = find_address(url, {})
    assert (address.url, address.read_from) == (reached, True)
    assert address == find_address(url.replace("views=replica&", "").replace("?views=replica", ""), {}), (
        "the same server"
    )


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://a?views=replica", "is for redis.cluster:// and redis.sentinel://"),
        ("redis+cluster://a?views=master", "views=master is unknown; write views=replica"),
        ("redis+cluster://a?views=", "views= is unknown"),
    ],
)
def test_invalid_values_are_refused_with_a_message(url: str, says: str) -> None:
    with pytest.raises(tarry.BadInput, match=says):
        find_address(url, {})


# ── on real replicas ─────────────────────────────────────────────────────────────────────────────────────────────────


def calls(node: ServerProcess, *commands: str) -> int:
    """How often a server was asked for commands."""
    row = ask_fields(node, "INFO", "commandstats")
    return sum(
        int(row[f"cmdstat_{name}"].split(",")[0].removeprefix("calls="))
        for name in commands
        if f"cmdstat_{name}" in row
    )


ASKED = ("evalsha_ro", "eval_ro")


def reset(*nodes: ServerProcess) -> None:
    for node in nodes:
        node.ask("CONFIG", "RESETSTAT")


@pytest.fixture(scope="module")
def sentinel_group() -> Iterator[Sentinels]:
    with sentinels() as made:
        yield made


@pytest.fixture(scope="module")
def cluster() -> Iterator[BigCluster]:
    with big_cluster() as made:
        for node in made.nodes:
            until(
                "a node that knows all replicas",
                lambda node=node: all(len(row) > 3 for row in node.ask("CLUSTER", "SLOTS")),
            )  # type: ignore[misc]
        yield made


def all_views(client: tarry.Client) -> list[Any]:
    topic = client.topic("orders")
    ids = [job.id for job in topic.list()]
    return [
        topic.stats().delayed, sorted(ids), [job.body for job in topic.get_many(ids)],  # type: ignore[union-attr]
        topic.histogram(span="2h").counts, client.delayed_queue("told").stats().waiting,
    ]  # fmt: skip


@pytest.mark.otherserver
@pytest.mark.slow
def test_behind_sentinels_views_read_only_the_replica(sentinel_group: Sentinels) -> None:
    master, replica = (
        sentinel_group.master(),
        next(one for one in sentinel_group.data if one is not sentinel_group.master()),
    )
    with tarry.Client(sentinel_group.url) as plain, tarry.Client(sentinel_group.url + "?views=replica") as client:
        client.topic("orders").add_many(range(9), delay="1h")
        client.delayed_queue("told").offer("x", "1h")
        sentinel_group.until_replicated()
        expected = all_views(plain)
        reset(master, replica)
        assert all_views(client) == expected
        assert (calls(master, *ASKED, "evalsha", "eval"), calls(replica, *ASKED) >= 5) == (0, True)

        async def awaited() -> None:
            async with tarry.AsyncClient(sentinel_group.url + "?views=replica") as other:
                topic = other.topic("orders")
                await topic.stats()  # and how many partitions it has, which the master is asked
                reset(master, replica)
                found = await asyncio.gather(*[topic.stats() for _ in range(5)])
                assert [stats.delayed for stats in found] == expected[:1] * 5
                assert (calls(master, *ASKED, "evalsha", "eval"), calls(replica, *ASKED)) == (0, 5)

        asyncio.run(awaited())
        job = client.topic("orders").add("now")
        assert client.pop("orders").id == job.id  # type: ignore[union-attr]
        client.migrate("orders", client.topic("another"))
        assert plain.topic("another").stats().delayed == 9, "a verb goes by what the master says"


@pytest.mark.otherserver
@pytest.mark.slow
def test_on_a_cluster_views_read_only_the_replicas(cluster: BigCluster) -> None:
    with tarry.Client(cluster.url) as plain, tarry.Client(cluster.url + "?views=replica") as client:
        topic = client.topic("orders", partitions=8)
        topic.add_many(range(40), delay="1h")
        client.delayed_queue("told").offer("x", "1h")
        for master in cluster.nodes[:3]:
            until("all replicated", lambda master=master: master.ask("WAIT", "1", "1000") == 1)  # type: ignore[misc]
        expected = all_views(plain)
        reset(*cluster.nodes)
        assert all_views(client) == expected
        assert [calls(node, *ASKED, "evalsha", "eval") for node in cluster.nodes[:3]] == [0, 0, 0]
        assert all(calls(node, *ASKED) for node in cluster.nodes[3:])
        cluster.nodes[3].kill()
        assert all_views(client) == expected
        assert sum(calls(node, "evalsha", "eval") for node in cluster.nodes[:3]) > 0


@pytest.mark.otherserver
@pytest.mark.slow
def test_views_fall_back_to_the_master_when_the_replica_fails() -> None:
    """It is frozen, then cut off from its master, then killed."""
    with sentinels() as own, ExitStack() as stack:

        def seen(client: tarry.Client | None = None) -> int:
            """As a new client sees it, or one that knows the replica."""
            client = client or stack.enter_context(tarry.Client(own.url + "?views=replica&socket_timeout=1"))
            return client.topic("orders").stats().delayed

        knows = stack.enter_context(tarry.Client(own.url + "?views=replica&socket_timeout=1"))
        knows.topic("orders").add_many(range(3), delay="1h")
        own.until_replicated()
        master, replica = own.master(), next(one for one in own.data if one is not own.master())
        reset(master, replica)
        assert seen(knows) == 3
        assert calls(replica, *ASKED) > 0

        replica.freeze()
        try:
            knows.topic("orders").add("more", delay="1h")
            assert (seen(knows), seen()) == (4, 4)
        finally:
            replica.resume()

        replica.ask("REPLICAOF", "127.0.0.1", "1")
        until("a cut link", lambda: ask_fields(replica, "INFO", "replication")["master_link_status"] == "down")
        knows.topic("orders").add("more", delay="1h")
        assert seen() == 5, "nothing stale of one that is cut off"

        replica.kill()
        assert (seen(knows), seen()) == (5, 5)


@pytest.mark.otherserver
@pytest.mark.slow
def test_views_read_the_master_without_a_replica(cluster_nodes: list[tuple[str, int]]) -> None:
    host, port = cluster_nodes[0]
    with tarry.Client(f"redis+cluster://{host}:{port}?views=replica", namespace="views") as client:
        client.topic("orders").add("tea", delay="1h")
        assert client.topic("orders").stats().delayed == 1


@pytest.mark.otherserver
@pytest.mark.slow
def test_the_command_line_takes_the_views_option_from_its_url(
    sentinel_group: Sentinels, tarry_command: WarmTarry, tmp_path: Path
) -> None:
    replica = next(one for one in sentinel_group.data if one is not sentinel_group.master())
    with tarry.Client(sentinel_group.url, namespace="programs") as plain:
        plain.topic("orders").add("tea", delay="1h")
        sentinel_group.until_replicated()
    for verb, says in (("stats", "delayed"), ("list", "delayed"), ("doctor", "orders")):
        reset(replica)
        words = [verb, *(["orders"] if verb != "doctor" else []), "--namespace", "programs"]
        place = {"TARRY_URL": sentinel_group.url + "?views=replica"}
        done = tarry_command.run(words, None, place, tmp_path)
        assert says in done.stdout, done.stderr
        assert calls(replica, *ASKED) > 0, verb


@pytest.mark.otherserver
@pytest.mark.slow
def test_a_service_reads_metrics_and_dashboard_from_the_replica(
    sentinel_group: Sentinels, tarry_command: WarmTarry, tmp_path: Path
) -> None:
    master, replica = (
        sentinel_group.master(),
        next(one for one in sentinel_group.data if one is not sentinel_group.master()),
    )
    with tarry.Client(sentinel_group.url) as plain:
        plain.topic("metered").add("tea", delay="1h")
        sentinel_group.until_replicated()
    port = servers.free_ports(1)[0]
    place = {"TARRY_URL": sentinel_group.url + "?views=replica"}
    with (tmp_path / "said").open("w") as file:
        process = tarry_command.start(["serve", "--port", str(port)], file, place, tmp_path)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as http:

            def shows() -> bool:
                with suppress(httpx.TransportError):
                    return 'topic="metered"' in http.get("/metrics").text
                return False

            def only_the_replica_is_asked() -> bool:
                reset(master, replica)
                assert shows()
                assert http.get("/v1/topics/metered/stats").json()["delayed"] == 1
                asked = calls(master, *ASKED, "evalsha")  # EVAL is the round trip that /metrics tells of
                return (asked, calls(replica, *ASKED) >= 2) == (0, True)

            until("a service", shows)
            until("views from the replica alone", only_the_replica_is_asked)  # a slow one is passed over for a while
            reset(replica)
            assert "metered" in http.get("/").text
            assert calls(replica, *ASKED) > 0
    finally:
        process.terminate()
        process.wait(LONGEST_S)
