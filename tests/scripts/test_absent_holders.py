"""Which worker processes are absent: the server counts the subscribers of their channels, and a test passes the time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
import redis

import servers
from scripts.test_clock_set_back import set_back
from tarry.clients.testing import Clock, TestClient
from tarry.connections.embedded.server_process import ServerProcess
from tarry.core.requests import Command
from tarry.values.keys import holder_channel, holder_keys
from tarry.verbs import liveness
from tarry.verbs.jobs.holders import LIVES, TOO_YOUNG
from tarry.verbs.jobs.pop import pop_step
from tarry.verbs.liveness import EVERY_S, KNOWN, LOOKS, NOT_SUBSCRIBED, ObserverAnswer
from until import LONGEST_S, until

SOON_S, STAND_BY_S = 0.4, 0.6
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
        return [missed.name for missed in self.look(observer, later_s).missed if missed.is_absent]

    def called(self, holder: str) -> bool:
        """Whether it was called to be an observer, since the last time this was asked."""
        connection, said = self.subscriptions[holder], set[bytes]()
        connection.ping()  # its answer comes behind what was published before
        while (message := connection.get_message(timeout=LONGEST_S)) is None or message["type"] != "pong":
            said |= {message["data"]} if message is not None else set()
        return b"look" in said

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
    assert answer.missed == ((SHOP, b"%d" % (holders.clock.us - 800_000), True, ("t",)),)
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
    assert holders.announce(SHOP, is_busy=False) == NOT_SUBSCRIBED
    assert holders.announce(SHOP) == NOT_SUBSCRIBED
    assert holders.look(OTHER, EVERY_S) == (None, ())


@pytest.mark.parametrize("observers", [(), (THIRD,)])
def test_a_holder_that_its_first_job_kills_is_missed(holders: Holders, observers: Sequence[str]) -> None:
    """The server sees two of its connections end at once: the subscription, and the one with the announcement, which it reads last."""
    holders.join(OTHER, is_busy=False)
    for observer in observers:
        holders.join(observer)
    holders.join(SHOP, is_busy=False)
    holders.die(SHOP)
    assert holders.announce(SHOP) == NOT_SUBSCRIBED
    assert holders.called(OTHER)
    assert holders.absent(OTHER, EVERY_S) == holders.absent(OTHER, SOON_S) == []
    assert holders.absent(OTHER, SOON_S) == [SHOP]


def test_a_living_holder_whose_announcement_finds_no_subscription_withdraws(holders: Holders) -> None:
    holders.join(OTHER, is_busy=False)
    holders.join(SHOP, is_busy=False)
    holders.die(SHOP)
    assert holders.announce(SHOP) == NOT_SUBSCRIBED
    assert holders.client.engine.run(liveness.withdraw(holders.namespace, SHOP.encode()))
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


# ── a living one whose subscription has ended without its notice ─────────────────────────────────────────────────────


def block(holders: Holders, holder: str) -> Any:
    """A connection of the holder that is blocked, as the server knows. Nobody reads what it receives."""
    with redis.Redis.from_url(holders.url) as raw:
        pool: Any = redis.Redis.from_url(holders.url).connection_pool
        connection = pool.get_connection()
        connection.send_command("CLIENT", "ID")
        number = str(connection.read_response())
        connection.send_command("BLPOP", holder_channel(holders.namespace, holder.encode()), 0)
        until(lambda: any(row["id"] == number and "b" in row["flags"] for row in raw.client_list()), "blocked")
    return connection


def test_a_holder_whose_other_connection_is_open_is_not_absent(holders: Holders) -> None:
    """It may stand still: the server itself takes the token from the list."""
    holders.join(OTHER, is_busy=False)
    holders.join(SHOP)
    connection = block(holders, SHOP)
    holders.die(SHOP)
    for later_s in (EVERY_S, SOON_S, SOON_S, SOON_S, EVERY_S):
        assert holders.absent(OTHER, later_s) == []
    assert connection.read_response()[1] == b"1", "it hears of it"
    connection.disconnect()
    assert holders.join(SHOP) == KNOWN
    holders.die(SHOP)
    assert holders.absent(OTHER, EVERY_S) == holders.absent(OTHER, SOON_S) == []
    assert holders.absent(OTHER, SOON_S) == [SHOP], "a later absence is one all the same"


def test_an_open_connection_of_another_holder_is_no_sign_of_life(holders: Holders) -> None:
    holders.join(OTHER, is_busy=False)
    holders.join(SHOP)
    connection = block(holders, OTHER)
    holders.die(SHOP)
    assert holders.absent(OTHER, EVERY_S) == holders.absent(OTHER, SOON_S) == []
    assert holders.absent(OTHER, SOON_S) == [SHOP]
    connection.disconnect()


def test_a_question_is_not_left_behind(holders: Holders) -> None:
    holders.join(OTHER, is_busy=False)
    holders.join(SHOP)
    holders.die(SHOP)
    for later_s in (EVERY_S, SOON_S, SOON_S):
        holders.look(OTHER, later_s)
    with redis.Redis.from_url(holders.url) as raw:
        assert raw.exists(holder_channel(holders.namespace, SHOP.encode()))
        assert holders.client.engine.run(liveness.withdraw(holders.namespace, SHOP.encode(), only_absent=True))
        assert not raw.exists(holder_channel(holders.namespace, SHOP.encode()))


# ── observers ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_nobody_looks_while_nobody_holds_jobs(holders: Holders) -> None:
    assert holders.join(OTHER, is_busy=False) == KNOWN
    assert holders.join(SHOP, is_busy=False) == KNOWN
    assert not holders.called(OTHER)
    assert holders.look(OTHER) == (None, ())


def test_two_of_other_groups_look_when_somebody_gets_a_job_and_the_others_stand_by(holders: Holders) -> None:
    others = [OTHER, THIRD, "fourth:1:WORK"]
    sibling = "fifth:1.1:PARENT:2"
    for one in (*others, sibling):
        holders.join(one, is_busy=False)
    assert holders.join(SHOP) == KNOWN
    assert all(holders.called(one) for one in others)
    assert not holders.called(sibling), "its parent is the same: they may be killed together"
    pauses = [holders.look(one, 0.1).again_s for one in others]
    assert sorted(map(str, pauses)) == sorted(map(str, [EVERY_S, EVERY_S, STAND_BY_S]))
    assert holders.announce(SHOP) == KNOWN
    assert not any(holders.called(one) for one in others), "they are there"


def test_one_that_stands_by_looks_at_once_when_both_observers_have_died(holders: Holders) -> None:
    for one in (OTHER, THIRD):
        holders.join(one, is_busy=False)
    holders.join(SHOP)
    assert holders.join("fourth:1:WORK", is_busy=False) == LOOKS, "it stands by"
    for one in (OTHER, THIRD, SHOP):
        holders.die(one)
    assert holders.absent("fourth:1:WORK", STAND_BY_S) == holders.absent("fourth:1:WORK", SOON_S) == []
    assert holders.absent("fourth:1:WORK", SOON_S) == [SHOP], "1.4 s after their death at the latest"


def test_one_that_stands_by_looks_as_soon_as_observers_that_stand_still_are_late(holders: Holders) -> None:
    """They are suspended, so they seem to live, and each has just looked."""
    for one in (OTHER, THIRD):
        holders.join(one, is_busy=False)
    holders.join(SHOP)
    for one in (OTHER, THIRD):
        holders.look(one)
    holders.join("fourth:1:WORK", is_busy=False)
    holders.die(SHOP)
    answer, took_s = holders.look("fourth:1:WORK"), 0.0
    while not any(missed.is_absent for missed in answer.missed):
        assert answer.again_s is not None
        took_s += answer.again_s
        answer = holders.look("fourth:1:WORK", answer.again_s)
    assert took_s < 1.9


def test_standing_by_writes_nothing(holders: Holders) -> None:
    for one in (OTHER, THIRD):
        holders.join(one, is_busy=False)
    holders.join(SHOP)
    with redis.Redis.from_url(holders.url) as raw:
        before = raw.info("persistence")["rdb_changes_since_last_save"]
        assert holders.look("fourth:1:WORK") == (STAND_BY_S, ())
        assert raw.info("persistence")["rdb_changes_since_last_save"] == before


@pytest.mark.slow
def test_of_many_processes_some_stand_by(holders: Holders) -> None:
    """However many there are, their looks cost the server no more than those of twenty or so."""
    many = [f"many:{n}:W{n}" for n in range(60)]
    holders.join(SHOP)
    for one in many:
        holders.join(one, is_busy=False)
    looking = 0
    for one in many:
        holders.clock.advance(0.013_337)
        looking += holders.announce(one, is_busy=False) == LOOKS
    assert 10 <= looking <= 30
    left = 0
    for one in many:
        holders.clock.advance(0.000_001)
        left += holders.look(one).again_s is None
    assert 0 < left < 20, "and they change"


def test_a_newcomer_looks_at_once_where_the_observers_have_just_died(holders: Holders) -> None:
    for one in (OTHER, THIRD):
        holders.join(one, is_busy=False)
    holders.join(SHOP)
    for one in (OTHER, THIRD, SHOP):
        holders.die(one)
    assert holders.join("new:1:WORK", is_busy=False) == LOOKS
    assert holders.look("new:1:WORK") == (SOON_S, ()), "it has a seat"
    assert holders.absent("new:1:WORK", SOON_S) == []
    assert holders.absent("new:1:WORK", SOON_S) == [SHOP]


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


class Missed:
    """A holder with jobs that observers miss, and a topic."""

    def __init__(self, client: TestClient, clock: Clock, topic: Any) -> None:
        self.client, self.clock, self.topic = client, clock, topic
        topic.add_many(["old", "other", "new"], ttr="1h")
        self.old, self.other = topic.pop_many(2)
        self.holder = topic.get(self.old.id).holder

    def ask(self, since: bytes = b"7") -> int:
        return self.client.engine.run(self.topic.verbs.ask_absent(self.holder, since))

    def release(self, since: bytes = b"7", later_s: float = 0.0) -> int:
        self.clock.advance(later_s)
        return self.client.engine.run(self.topic.verbs.release_absent(self.holder, since))

    def raw_mark(self) -> bytes | None:
        return self.perform(b"HGET", b"missed")

    def perform(self, name: bytes, *args: bytes) -> Any:
        call = Command((name, self.topic.verbs.keys.meta, *args), lambda reply: reply)
        return self.client.engine.runner.perform(call)


@pytest.fixture
def missed(client: TestClient, clock: Clock, topic: Any) -> Missed:
    return Missed(client, clock, topic)


def test_the_jobs_of_an_absent_holder_are_released_when_it_has_shown_no_sign_of_life(missed: Missed) -> None:
    assert (missed.ask(), missed.release()) == (TOO_YOUNG, TOO_YOUNG)
    assert missed.release(later_s=SOON_S) == 2
    assert missed.raw_mark() is None
    assert sorted(job.attempt for job in missed.topic.pop_many(3)) == [1, 2, 2], "a job may have killed it: that counts"


@pytest.mark.parametrize("sign", ["pop", "pop nothing", "finish", "finish_many", "touch"])
def test_a_missed_holder_that_shows_a_sign_of_life_keeps_its_jobs(missed: Missed, sign: str) -> None:
    if sign == "pop nothing":
        missed.topic.pause("1h")
    missed.ask()
    missed.clock.advance(SOON_S)
    if sign.startswith("pop"):
        assert (missed.topic.pop() is None) == (sign == "pop nothing")
    elif sign == "finish_many":
        missed.topic.finish_many([missed.other])
    else:
        getattr(missed.topic, sign)(missed.other)
    assert (missed.ask(), missed.release()) == (LIVES, LIVES)
    assert missed.topic.get(missed.old.id).state == "reserved"


def test_the_pop_of_another_holder_is_no_sign_of_life(missed: Missed) -> None:
    missed.ask()
    missed.clock.advance(SOON_S)
    missed.topic.engine.run(pop_step(missed.topic.verbs.keys, 1, ttr=b"0", holder=b"another"))
    assert missed.release() == 2


def test_a_sign_of_life_before_it_was_missed_counts_for_nothing(missed: Missed) -> None:
    """Nor does the mark of an earlier absence shorten the time in which it may show one."""
    missed.ask()
    missed.topic.pop()
    assert missed.release(since=b"8", later_s=SOON_S) == TOO_YOUNG
    assert missed.release(since=b"8", later_s=SOON_S) == 3


def test_what_was_handed_out_since_the_mark_stays(missed: Missed) -> None:
    """By a pop by id, which is no sign of life."""
    missed.ask()
    missed.clock.advance(SOON_S)
    [id] = [job.id for job in missed.topic.list("ready")]
    missed.client.engine.run(missed.topic.verbs.pop_by_id(id, ("ready",)))
    assert missed.release() == 2
    assert missed.topic.get(id).state == "reserved"


def test_marks_are_forgotten_after_a_minute(missed: Missed) -> None:
    missed.ask()
    missed.clock.advance(61)
    missed.topic.pop()
    assert missed.raw_mark() is None


def test_jobs_are_released_though_the_clock_was_set_back_since_they_were_handed_out(missed: Missed) -> None:
    set_back(missed.clock)
    assert missed.ask() == TOO_YOUNG
    assert missed.release(later_s=SOON_S) == 2


def test_a_topic_without_reservations_gets_no_mark(missed: Missed) -> None:
    missed.topic.finish_many([missed.old, missed.other])
    assert (missed.ask(), missed.release()) == (0, 0)
    assert missed.raw_mark() is None


def test_a_damaged_mark_is_replaced(missed: Missed) -> None:
    missed.perform(b"HSET", b"missed", b"\xff?")
    missed.topic.pop()
    assert missed.ask() == TOO_YOUNG
    assert missed.release(later_s=SOON_S) == 3


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
