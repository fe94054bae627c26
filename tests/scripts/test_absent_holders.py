"""Which worker processes are absent: the server counts the subscribers of their channels, and a test passes the time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis

import servers
from scripts.test_clock_set_back import set_back
from tarry.clients.testing import Clock, TestClient
from tarry.connections.embedded.server_process import ServerProcess
from tarry.values.keys import holder_channel, holder_keys
from tarry.verbs import liveness
from tarry.verbs.liveness import EVERY_S, KNOWN, LOOKS, NOT_SUBSCRIBED, ObserverAnswer
from until import LONGEST_S

SOON_S = 0.4
SHOP, OTHER, THIRD = "shop:7.1:PARENT:1", "other:8:WORD", "third:9:WORT"


class Holders:
    """Worker processes of a namespace, as far as the server knows them."""

    def __init__(self, url: str, client: TestClient, clock: Clock) -> None:
        self.client, self.clock, self.url = client, clock, url
        self.namespace = client.namespace
        self.subscriptions: dict[str, Any] = {}

    def subscribe(self, holder: str) -> Any:
        connection = redis.Redis.from_url(self.url).pubsub()
        connection.subscribe(holder_channel(self.namespace, holder.encode()))
        while connection.get_message(timeout=LONGEST_S) is None:
            pass
        self.subscriptions[holder] = connection
        return connection

    def announce(self, holder: str, *, is_busy: bool = True) -> int:
        return self.client.engine.run(liveness.announce(self.namespace, holder.encode(), ["t"], is_busy=is_busy))

    def join(self, holder: str, *, is_busy: bool = True) -> int:
        self.subscribe(holder)
        return self.announce(holder, is_busy=is_busy)

    def die(self, holder: str) -> None:
        """Its connection ends, and the server has noticed."""
        self.subscriptions.pop(holder).close()
        channel = holder_channel(self.namespace, holder.encode())
        with redis.Redis.from_url(self.url) as raw:
            while raw.pubsub_numsub(channel)[0][1]:
                pass

    def look(self, observer: str, later_s: float = 0.0) -> ObserverAnswer:
        self.clock.advance(later_s)
        return self.client.engine.run(liveness.find_absent(self.namespace, observer.encode()))

    def absent(self, observer: str, later_s: float = 0.0) -> list[str]:
        return [absent.name for absent in self.look(observer, later_s).absent]

    def called(self, holder: str) -> bool:
        """Whether it was called to be an observer, since the last time this was asked."""
        message = self.subscriptions[holder].get_message(timeout=0.05)
        return message is not None and message["data"] == b"look"

    def close(self) -> None:
        for connection in self.subscriptions.values():
            connection.close()


@pytest.fixture
def holders(valkey_url: str, client: TestClient, clock: Clock) -> Iterator[Holders]:
    made = Holders(valkey_url, client, clock)
    yield made
    made.close()


def test_a_holder_whose_connection_ended_is_absent_at_the_third_look(holders: Holders) -> None:
    holders.join(OTHER, is_busy=False)
    holders.join(SHOP)
    holders.die(SHOP)
    assert holders.look(OTHER, EVERY_S) == (SOON_S, ())
    assert holders.absent(OTHER, SOON_S) == []
    answer = holders.look(OTHER, SOON_S)
    assert [(absent.name, absent.topics) for absent in answer.absent] == [(SHOP, ("t",))]
    assert answer.absent[0].missed_us == 800_000
    assert holders.absent(OTHER, SOON_S) == [SHOP], "until it is forgotten"


def test_a_living_holder_is_never_absent(holders: Holders) -> None:
    holders.join(OTHER, is_busy=False)
    holders.join(SHOP)
    for _ in range(20):
        assert holders.look(OTHER, EVERY_S) == (EVERY_S, ())


def test_a_holder_that_subscribes_again_in_time_is_missed_from_the_beginning(holders: Holders) -> None:
    holders.join(OTHER, is_busy=False)
    holders.join(SHOP)
    for _ in range(3):
        holders.die(SHOP)
        assert holders.absent(OTHER, SOON_S) == []
        assert holders.absent(OTHER, SOON_S) == []
        holders.subscribe(SHOP)
        assert holders.absent(OTHER, SOON_S) == []


def test_looks_that_were_queued_while_the_server_stood_still_count_once(holders: Holders) -> None:
    holders.join(OTHER, is_busy=False)
    holders.join(THIRD, is_busy=False)
    holders.join(SHOP)
    holders.die(SHOP)
    assert holders.absent(OTHER, EVERY_S) == []
    assert holders.absent(THIRD, 60) == []
    assert holders.absent(OTHER) == []
    assert holders.absent(THIRD) == []


def test_the_looks_of_two_observers_add_up(holders: Holders) -> None:
    holders.join(OTHER, is_busy=False)
    holders.join(THIRD, is_busy=False)
    holders.join(SHOP)
    holders.die(SHOP)
    assert holders.absent(OTHER, EVERY_S) == []
    assert holders.absent(THIRD, SOON_S) == []
    assert holders.absent(OTHER, SOON_S) == [SHOP]


@pytest.mark.parametrize(
    "kind", ["valkey", *(pytest.param(k, marks=pytest.mark.otherserver) for k in ("redis6", "redis7", "redis8"))]
)
def test_a_server_that_has_started_again_misses_nobody_whom_it_has_not_seen(kind: str) -> None:
    clock = Clock()
    with ExitStack() as stack:
        binary = servers.binary_of(kind, stack.enter_context(servers.short_folder()))
        options = ("--appendonly", "yes", "--appendfsync", "always")
        running: ServerProcess = stack.enter_context(servers.server(binary, options=options))
        client = stack.enter_context(TestClient(running.url, clock))
        holders = Holders(running.url, client, clock)
        stack.callback(holders.close)
        holders.join(OTHER, is_busy=False)
        holders.join(SHOP)
        holders.join(THIRD)
        running.kill()
        running.restart()
        holders.join(OTHER, is_busy=False)
        for _ in range(5):
            assert holders.absent(OTHER, EVERY_S) == []
        holders.join(THIRD)
        holders.die(THIRD)
        assert holders.absent(OTHER, EVERY_S) == holders.absent(OTHER, SOON_S) == []
        assert holders.absent(OTHER, SOON_S) == [THIRD], "it has been seen since"
        holders.look(OTHER, 61)
        assert client.engine.runner is not None
        with redis.Redis.from_url(running.url) as raw:
            assert SHOP.encode() not in raw.hkeys(holder_keys(client.namespace).holders), "dropped after a minute"


def test_an_announcement_without_a_subscription_makes_nobody_known(holders: Holders) -> None:
    holders.join(OTHER, is_busy=False)
    assert holders.announce(SHOP) == NOT_SUBSCRIBED
    holders.join(SHOP)
    holders.die(SHOP)
    assert holders.announce(SHOP) == NOT_SUBSCRIBED
    assert holders.look(OTHER, EVERY_S) == (None, ())


def test_a_holder_that_withdraws_is_not_missed(holders: Holders) -> None:
    holders.join(OTHER, is_busy=False)
    holders.join(SHOP)
    assert holders.client.engine.run(liveness.withdraw(holders.namespace, SHOP.encode()))
    holders.die(SHOP)
    assert holders.look(OTHER, EVERY_S) == (None, ())


def test_one_that_came_back_after_it_was_absent_stays_known(holders: Holders) -> None:
    holders.join(OTHER, is_busy=False)
    holders.join(SHOP)
    holders.die(SHOP)
    for later_s in (EVERY_S, SOON_S, SOON_S):
        absent = holders.absent(OTHER, later_s)
    assert absent == [SHOP]
    holders.join(SHOP)
    forget = liveness.withdraw(holders.namespace, SHOP.encode(), only_absent=True)
    assert not holders.client.engine.run(forget)
    holders.die(SHOP)
    assert holders.absent(OTHER, EVERY_S) == [], "missed for the first time"


# ── observers ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_nobody_looks_while_nobody_holds_jobs(holders: Holders) -> None:
    assert holders.join(OTHER, is_busy=False) == KNOWN
    assert holders.join(SHOP, is_busy=False) == KNOWN
    assert not holders.called(OTHER)
    assert holders.look(OTHER) == (None, ())


def test_two_of_other_groups_are_called_when_somebody_gets_a_job(holders: Holders) -> None:
    others = [OTHER, THIRD, "fourth:1:WORK", "fifth:1.1:PARENT:2"]
    for one in others:
        holders.join(one, is_busy=False)
    assert holders.join(SHOP) == KNOWN
    called = [one for one in others if holders.called(one)]
    assert len(called) == 2
    assert "fifth:1.1:PARENT:2" not in called, "its parent is the same: they may be killed together"
    assert holders.announce(SHOP) == KNOWN
    assert not any(holders.called(one) for one in others), "two are there"


def test_a_process_looks_for_others_and_not_for_its_own_group(holders: Holders) -> None:
    assert holders.join(SHOP) == KNOWN
    assert holders.join("shop:7.2:PARENT:2") == KNOWN
    assert holders.look(SHOP) == (None, ())
    assert holders.join(OTHER) == LOOKS
    assert holders.called(SHOP) != holders.called("shop:7.2:PARENT:2"), "one of the group looks for the newcomer"


def test_one_that_comes_later_looks_for_one_that_has_died(holders: Holders) -> None:
    holders.join(SHOP)
    holders.die(SHOP)
    assert holders.join(OTHER, is_busy=False) == LOOKS
    assert holders.absent(OTHER, EVERY_S) == holders.absent(OTHER, SOON_S) == []
    assert holders.absent(OTHER, SOON_S) == [SHOP]


def test_an_observer_that_dies_is_replaced_by_the_other_one(holders: Holders) -> None:
    for one in (OTHER, THIRD):
        holders.join(one, is_busy=False)
    holders.join(SHOP)
    assert (holders.called(OTHER), holders.called(THIRD)) == (True, True)
    holders.join("fourth:1:WORK", is_busy=False)
    holders.die(OTHER)
    for _ in range(3):
        holders.look(THIRD, EVERY_S)
    assert holders.called("fourth:1:WORK")


def test_a_dead_one_is_not_called(holders: Holders) -> None:
    holders.join(OTHER, is_busy=False)
    holders.die(OTHER)
    holders.join(SHOP)
    holders.join(THIRD, is_busy=False)
    assert holders.look(THIRD, EVERY_S).again_s == EVERY_S


def test_one_that_died_while_it_was_idle_is_forgotten(holders: Holders) -> None:
    holders.join(OTHER, is_busy=False)
    holders.die(OTHER)
    holders.join(SHOP)
    with redis.Redis.from_url(holders.url) as raw:
        assert raw.hkeys(holder_keys(holders.namespace).holders) == [SHOP.encode()]


def test_a_clock_that_is_set_back_keeps_no_seat_for_a_dead_observer(holders: Holders) -> None:
    holders.clock.advance(3600)
    holders.join(OTHER, is_busy=False)
    holders.join(SHOP)
    assert holders.called(OTHER)
    set_back(holders.clock)
    holders.die(OTHER)
    holders.join(THIRD, is_busy=False)
    holders.die(SHOP)
    absent = [holders.absent(THIRD, later_s) for later_s in (EVERY_S, SOON_S, SOON_S)]
    assert absent == [[], [], [SHOP]]


def test_a_third_observer_stops(holders: Holders) -> None:
    for one in (OTHER, THIRD):
        holders.join(one, is_busy=False)
    holders.join(SHOP)
    assert holders.look("late:1:WORST") == (None, ())


def test_they_stop_when_nobody_holds_jobs_any_more(holders: Holders) -> None:
    holders.join(OTHER, is_busy=False)
    holders.join(SHOP)
    assert holders.look(OTHER, EVERY_S) == (EVERY_S, ())
    holders.announce(SHOP, is_busy=False)
    assert holders.look(OTHER, EVERY_S) == (None, ())
    holders.called(OTHER)
    holders.announce(SHOP)
    assert holders.called(OTHER), "and begin again"


# ── what is released ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_jobs_that_were_handed_out_to_a_missed_holder_stay_with_it(
    client: TestClient, clock: Clock, topic: Any
) -> None:
    topic.add_many(["old", "new"])
    old = topic.pop()
    clock.advance(1)
    new = topic.pop()
    clock.advance(1)
    holder = topic.get(old.id).holder
    assert client.engine.run(topic.verbs.release_absent(holder, 1_500_000)) == 1
    assert (topic.get(old.id).state, topic.get(new.id).state) == ("ready", "reserved")
    assert topic.pop().attempt == 2, "the attempt counts: a job may have killed it"


# ── servers that give little ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_full_memory_hinders_nothing(own_server: Callable[..., ServerProcess]) -> None:
    running, clock = own_server(), Clock()
    with TestClient(running.url, clock) as client:
        holders = Holders(running.url, client, clock)
        holders.join(OTHER, is_busy=False)
        running.ask("CONFIG", "SET", "maxmemory", "1")
        assert holders.join(SHOP) == KNOWN
        holders.die(SHOP)
        assert holders.absent(OTHER, EVERY_S) == holders.absent(OTHER, SOON_S) == []
        assert holders.absent(OTHER, SOON_S) == [SHOP]
        assert client.engine.run(liveness.withdraw(client.namespace, SHOP.encode(), only_absent=True))
        holders.close()
