"""Sentinels fail over: acknowledged jobs are there, and no client stays with the former master.

The old master takes part on purpose: it calls itself a master, and takes whatever it is given, until it is demoted some ten
seconds after the switch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import tarry
from faults.any_client import KINDS, AnyClient
from server_groups import Sentinels, ask_fields, sentinels
from tarry.connections.embedded.server_process import ServerProcess
from tarry.values.keys import topic_keys
from until import until

pytestmark = [pytest.mark.otherserver, pytest.mark.slow]
SAFE = ("--min-replicas-max-lag", "2", "--min-replicas-to-write")


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
        self._kind, self._url, self._name, self.pause = kind, url, name, pause
        self._ended = threading.Event()
        self.start()

    def run(self) -> None:
        any_client = AnyClient(self._kind, self._url, None, patience=30)
        topic = any_client.topic("orders")
        number = 0
        while not self._ended.wait(self.pause):
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


def slow_down(made: Iterable[Producer]) -> None:
    """Once each has added some hundreds after the switch: the demotion of the old master is awaited for ten seconds more."""
    many = {one: len(one.acknowledged) for one in made}
    until(lambda: all(len(one.acknowledged) > many[one] + 400 for one in many))
    for one in many:
        one.pause = 0.02


@contextmanager
def producers(*made: Producer) -> Iterator[tuple[Producer, ...]]:
    try:
        yield made
    finally:
        for one in made:
            one.end()


def test_adds_are_lost_in_one_piece_that_ends_before_the_former_master_is_demoted(sentinel_group: Sentinels) -> None:
    """A client that has left the former master never goes back, and it does not wait for the demotion, ten seconds after the switch.
    ``make chaos FAMILY=sentinel`` bounds the loss by the second that is promised."""
    with producers(*[Producer(kind, sentinel_group.url) for kind in KINDS]) as both:
        until(lambda: all(len(one.acknowledged) > 100 for one in both))
        with sentinel_group.switching() as switch:
            pass
        slow_down(both)
        until(lambda: is_demoted(switch.old), "the old master's demotion")
        demoted = time.monotonic()
        until(lambda: all(sum(at > demoted for at in one.acknowledged.copy().values()) > 100 for one in both))
    there = ids_at(sentinel_group.master())
    for one in both:
        assert not one.refused
        kept = [id in there for id in one.acknowledged]
        lost = [n for n, is_kept in enumerate(kept) if not is_kept]
        if lost:
            assert lost == [*range(lost[0], lost[-1] + 1)]
            assert sum(at < demoted for at in [*one.acknowledged.values()][lost[-1] + 1 :]) > 100


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.long)])
def test_min_replicas_to_write_prevents_all_loss(replicas: int) -> None:
    """Thousands, with two replicas ten of them, and a planned switch in their midst."""
    with sentinels(options=(*SAFE, str(replicas)), replicas=replicas) as own:
        with producers(
            *[Producer(kind, own.url, str(at), pause=0) for kind in KINDS for at in range(2)]
        ) as all_of_them:
            until(lambda: all(len(one.acknowledged) > 500 for one in all_of_them))
            with own.switching() as switch:
                pass
            slow_down(all_of_them)
            until(lambda: is_demoted(switch.old), "the old master's demotion")
            until(lambda: sum(len(one.acknowledged) for one in all_of_them) >= (4000 if replicas == 1 else 10_000))
        there = ids_at(own.master())
        for one in all_of_them:
            assert not one.refused
            assert one.acknowledged.keys() <= there


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_an_idle_client_never_adds_to_a_former_master(sentinel_group: Sentinels, how: str) -> None:
    clients = [AnyClient(kind, sentinel_group.url, None, patience=30) for kind in KINDS]
    topics = [one.topic("orders") for one in clients]
    for one, topic in zip(clients, topics, strict=True):
        one.call(topic, "add", "before")
    sentinel_group.until_replicated()
    old = sentinel_group.master()
    (old.kill if how == "killed" else old.freeze)()
    until(lambda: sentinel_group.master() is not old, "another master")
    (old.restart if how == "killed" else old.resume)()
    for one, topic in zip(clients, topics, strict=True):
        added = {one.call(topic, "add", "after").id for _ in range(3)}
        assert added <= ids_at(sentinel_group.master())
    for one in clients:
        one.close()


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
