"""Sentinels fail over: acknowledged jobs are there, and no client stays with the former master.

The old master takes part on purpose: it calls itself a master, and takes whatever it is given, until it is demoted some ten
seconds after the switch.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tarry
from faults.any_client import KINDS, AnyClient
from server_groups import MASTER, Sentinels, ask_fields, big_cluster, port_of, sentinels
from tarry.connections.embedded.server_process import ServerProcess
from tarry.values.keys import topic_keys
from until import LONGEST_S, until
from warm import WarmTarry

pytestmark = [pytest.mark.otherserver, pytest.mark.slow]
BOTH = pytest.mark.parametrize("kind", KINDS)
SAFE = ("--min-replicas-max-lag", "2", "--min-replicas-to-write")
HERE = Path(__file__).parent
LATE_S = 1.0
"""What was acknowledged later than that after the first announcement must be there: what the issue and the page promise."""


@pytest.fixture
def sentinel_group() -> Iterator[Sentinels]:
    with sentinels() as made:
        yield made


def ids_at(server: ServerProcess, topic: str = "orders") -> set[str]:
    """The jobs of a topic, as this server has them."""
    found = server.ask("HKEYS", topic_keys("default", topic).jobs.decode())
    assert isinstance(found, list)
    return {one.decode() for one in found if isinstance(one, bytes)}


def is_demoted(old: ServerProcess) -> bool:
    try:
        return ask_fields(old, "INFO", "replication")["role"] == "slave"
    except OSError:  # it drops its clients in that very moment
        return False


class Producer(threading.Thread):
    """Adds all the time, and remembers when each was acknowledged."""

    def __init__(self, kind: str, url: str, name: str = "", pause: float = 0.003, **options: Any) -> None:
        super().__init__()
        self._options = {"delay": "1h", **options}
        self.acknowledged: dict[str, float] = {}
        self.refused: list[tarry.TarryError] = []
        self._kind, self._url, self._name, self._pause = kind, url, name, pause
        self._ended = threading.Event()
        self.start()

    def run(self) -> None:
        any_client = AnyClient(self._kind, self._url, None, patience=30)
        topic = any_client.topic("orders")
        number = 0
        while not self._ended.wait(self._pause):
            number += 1
            try:
                job = any_client.call(topic, "add", number, id=f"{self._kind}{self._name}-{number}", **self._options)
            except tarry.TarryError as fault:
                self.refused.append(fault)
            else:
                self.acknowledged[job.id] = time.monotonic()
        any_client.close()

    def end(self) -> None:
        self._ended.set()
        self.join()


@contextmanager
def producers(*made: Producer) -> Iterator[tuple[Producer, ...]]:
    try:
        yield made
    finally:
        for one in made:
            one.end()


def test_adds_acknowledged_a_second_after_the_failover_survive(sentinel_group: Sentinels) -> None:
    with producers(*[Producer(kind, sentinel_group.url) for kind in KINDS]) as both:
        until(lambda: all(len(one.acknowledged) > 100 for one in both))
        with sentinel_group.switching() as switch:
            announced = switch.until_announced()
        until(lambda: is_demoted(switch.old), "the old master's demotion")
        until(lambda: all(len(late(one, announced)) > 100 for one in both), "adds after the fail-over")
    there = ids_at(sentinel_group.master())
    for one in both:
        assert not one.refused
        assert late(one, announced) <= there


def late(producer: Producer, announced: float) -> set[str]:
    """The ids of what was acknowledged later than ``LATE_S`` after the fail-over."""
    return {id for id, at in list(producer.acknowledged.items()) if at > announced + LATE_S}


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.long)])
def test_min_replicas_to_write_prevents_all_loss(replicas: int) -> None:
    """Ten thousand, and a planned switch in their midst."""
    with sentinels(options=(*SAFE, str(replicas)), replicas=replicas) as own:
        with producers(
            *[Producer(kind, own.url, str(at), pause=0) for kind in KINDS for at in range(2)]
        ) as all_of_them:
            until(lambda: all(len(one.acknowledged) > 500 for one in all_of_them))
            with own.switching() as switch:
                pass
            until(lambda: is_demoted(switch.old), "the old master's demotion")
            until(lambda: sum(len(one.acknowledged) for one in all_of_them) >= 10_000)
        there = ids_at(own.master())
        for one in all_of_them:
            assert not one.refused
            assert one.acknowledged.keys() <= there


@BOTH
@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_an_idle_client_never_adds_to_a_former_master(sentinel_group: Sentinels, kind: str, how: str) -> None:
    any_client = AnyClient(kind, sentinel_group.url, None, patience=30)
    topic = any_client.topic("orders")
    any_client.call(topic, "add", "before")
    sentinel_group.until_replicated()
    old = sentinel_group.master()
    (old.kill if how == "killed" else old.freeze)()
    until(lambda: sentinel_group.master() is not old, "another master")
    (old.restart if how == "killed" else old.resume)()
    added = {any_client.call(topic, "add", "after").id for _ in range(3)}
    any_client.close()
    assert added <= ids_at(sentinel_group.master())


@pytest.mark.parametrize("how", ["", "COORDINATED"])
def test_a_planned_failover_loses_nothing_when_sentinels_are_subscribed(sentinel_group: Sentinels, how: str) -> None:
    """Verbs wait while one of them makes another the master; at a COORDINATED one the old master waits, too."""
    with producers(*[Producer(kind, sentinel_group.url, pause=0) for kind in KINDS]) as both:
        until(lambda: all(len(one.acknowledged) > 100 for one in both))
        with sentinel_group.switching(how):
            pass
        many = sum(len(one.acknowledged) for one in both)
        until(lambda: sum(len(one.acknowledged) for one in both) > many + 1000)
    there = ids_at(sentinel_group.master())
    for one in both:
        assert not one.refused
        assert one.acknowledged.keys() <= there


@BOTH
def test_confirmed_adds_survive_a_killed_master(sentinel_group: Sentinels, kind: str) -> None:
    with producers(Producer(kind, sentinel_group.url, pause=0, durability="replicated")) as (one,):
        until(lambda: len(one.acknowledged) > 100)
        sentinel_group.master().kill()
        old = sentinel_group.master()
        until(lambda: sentinel_group.master() is not old, "another master")
    assert one.acknowledged.keys() <= ids_at(sentinel_group.master())


@BOTH
def test_confirmed_adds_survive_a_killed_cluster_master(kind: str) -> None:
    with big_cluster() as cluster:
        old = cluster.owner_of(topic_keys("default", "orders").jobs)
        with producers(Producer(kind, cluster.url, pause=0, durability="replicated")) as (one,):
            until(lambda: len(one.acknowledged) > 100)
            old.kill()
            until(lambda: cluster.owner_of(topic_keys("default", "orders").jobs) is not old, "another master")
        assert one.acknowledged.keys() <= ids_at(cluster.owner_of(topic_keys("default", "orders").jobs))


@BOTH
def test_a_process_stopped_during_a_failover_checks_the_master_first(
    sentinel_group: Sentinels, tarry_command: WarmTarry, kind: str
) -> None:
    """Its connection is open, and the old master would take what it sends."""
    with tarry_command.talk_to(HERE / "add_process.py", kind, sentinel_group.url) as (program, stdin, stdout):
        assert stdout.readline().strip() in ids_at(sentinel_group.master())
        program.send_signal(signal.SIGSTOP)
        with sentinel_group.switching() as switch:
            pass
        program.send_signal(signal.SIGCONT)
        print(file=stdin, flush=True)
        assert stdout.readline().strip() in ids_at(sentinel_group.master())
        assert not is_demoted(switch.old)


@BOTH
def test_a_forked_process_is_notified_of_a_failover_too(
    sentinel_group: Sentinels, tarry_command: WarmTarry, kind: str
) -> None:
    with tarry_command.talk_to(HERE / "add_process.py", kind, sentinel_group.url, "fork") as (_, stdin, stdout):
        assert stdout.readline().strip() in ids_at(sentinel_group.master())
        with sentinel_group.switching() as switch:
            pass
        print(file=stdin, flush=True)
        assert stdout.readline().strip() in ids_at(sentinel_group.master())
        assert not is_demoted(switch.old)


@BOTH
def test_without_sentinels_connections_stay_in_use_and_none_is_opened(sentinel_group: Sentinels, kind: str) -> None:
    any_client = AnyClient(kind, sentinel_group.url, None, patience=2)
    topic = any_client.topic("orders")
    any_client.call(topic, "add", "before")
    for one in sentinel_group.watchers:
        one.freeze()
    try:
        any_client.call(topic, "add", "meanwhile")
        sentinel_group.data[0].ask("CLIENT", "KILL", "TYPE", "normal")
        with pytest.raises(tarry.Unavailable, match="did not answer"):
            any_client.call(topic, "add", "lost")
    finally:
        for one in sentinel_group.watchers:
            one.resume()
        until(lambda: is_added(any_client, topic))
        any_client.close()


def is_added(any_client: AnyClient, topic: Any) -> bool:
    try:
        any_client.call(topic, "add", "after")
    except tarry.Unavailable:
        return False
    return True


@BOTH
def test_a_server_with_the_replica_role_gets_no_job(sentinel_group: Sentinels, kind: str) -> None:
    """Somebody has made it one by hand, and the Sentinels still name it."""
    master, replica = sentinel_group.data
    any_client = AnyClient(kind, sentinel_group.url, None, patience=3)  # on a busy machine the Sentinels take a second
    for one in sentinel_group.watchers:  # they would turn it back
        one.ask("SENTINEL", "SET", MASTER, "down-after-milliseconds", "600000")
    master.ask("REPLICAOF", "127.0.0.1", str(port_of(replica)))
    try:
        with pytest.raises(tarry.Unavailable, match="it is a replica; waiting for its master"):
            any_client.call(any_client.topic("orders"), "add", "tea")
        assert not ids_at(master)
    finally:
        any_client.close()


@BOTH
def test_a_closed_client_leaves_no_thread(sentinel_group: Sentinels, kind: str) -> None:
    before = subscriber_threads()
    any_client = AnyClient(kind, sentinel_group.url, None)
    any_client.call(any_client.topic("orders"), "add", "tea")
    assert len(subscriber_threads() - before) == 3
    any_client.close()
    until(lambda: subscriber_threads() <= before)


def subscriber_threads() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name == "tarry-sentinel"}


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_client_moves_between_event_loops_across_a_failover(sentinel_group: Sentinels) -> None:
    client = tarry.AsyncClient(sentinel_group.url)

    async def add() -> str:
        return (await client.topic("orders").add("tea")).id

    async def end() -> str:
        async with client:
            return await add()

    assert asyncio.run(add()) in ids_at(sentinel_group.master())
    with sentinel_group.switching() as switch:
        pass
    assert asyncio.run(add()) in ids_at(sentinel_group.master())
    assert asyncio.run(end()) in ids_at(sentinel_group.master())
    assert not is_demoted(switch.old)
    gc.collect()  # of the loops that ended with their connections open


@BOTH
def test_every_connection_to_the_old_master_is_dropped(
    sentinel_group: Sentinels, tarry_command: WarmTarry, kind: str
) -> None:
    """Clients that wait for jobs and for elements, that listen, and that are idle; long before the old master is demoted."""
    with tarry_command.talk_to(HERE / "connected_process.py", kind, sentinel_group.url) as (program, stdin, stdout):
        assert stdout.readline() == "ready\n"
        until(
            lambda: {"blpop", "subscribe", "llen"} <= last_words(sentinel_group.master())
        )  # they wait, listen and are idle
        assert len(last_words(sentinel_group.master())) > 3
        with sentinel_group.switching() as switch:
            pass
        until(lambda: not last_words(switch.old))
        assert not is_demoted(switch.old)
        with tarry.Client(sentinel_group.url) as client:
            until(lambda: "subscribe" in last_words(sentinel_group.master()))
            for topic in ("blocked", "heard"):
                client.topic(topic).add("tea")
            client.blocking_queue("elements").put("milk")
            client.map_cache("things").put("cup", 1)
        said = {stdout.readline() for _ in range(4)}
        assert said == {"blocked tea\n", "heard tea\n", "taken milk\n", "told cup\n"}
        stdin.close()
        assert program.wait(LONGEST_S) == 0


def last_words(server: ServerProcess) -> set[str]:
    """The last command of each of its clients that is tarry's."""
    try:
        rows = server.ask("CLIENT", "LIST")
    except OSError:  # it drops its clients in that very moment
        return {"?"}
    assert isinstance(rows, bytes)
    fields = [dict(word.partition("=")[::2] for word in row.split()) for row in rows.decode().splitlines()]
    return {row["cmd"] for row in fields if row.get("name") == "tarry"}
