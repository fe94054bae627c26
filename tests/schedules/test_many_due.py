"""Thousands of schedules are due at once: consumers share them, and no script does much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tarry.clients.testing import Clock, TestClient
from tarry.core.requests import MOST_BYTES, ScriptCall
from tarry.values.durations import SECOND
from tarry.verbs.jobs import pop
from tarry.verbs.schedules import definitions
from tarry.verbs.schedules.definitions import ScheduleDefinition
from tarry.verbs.schedules.fire import FIRE, JOBS, SCHEDULES, fire, fire_due, item_of
from tarry.verbs.schedules.records import Missed
from tarry.verbs.schedules.recurrences import Recurrence

HOUR = 3600 * SECOND
HEAD = bytes(19)


@pytest.fixture
def topic(client: TestClient) -> Any:
    return client.topic("t")


def put_many(client: TestClient, topic: Any, count: int, *, missed: Missed = "once", size: int = 4) -> None:
    """Schedules that are due in an hour, one after the other, a microsecond apart."""
    now = round(topic.stats().now.timestamp() * SECOND)
    keys = definitions.PUT.keys_for(topic.verbs.keys)
    for at in range(0, count, 500):
        some = [
            ScheduleDefinition(
                f"s{n}", Recurrence(HOUR), missed, HEAD + b'"' + b"x" * (size - 2) + b'"', now + HOUR + n
            )
            for n in range(at, min(at + 500, count))
        ]
        items = [word for one in some for word in (one.id.encode(), *one.encoded, *one.start(now))]
        client.engine.run(ScriptCall(definitions.PUT, keys, (), list, items=items))


class Crew:
    """Consumers whose requests are sent in turns; it counts what the scripts do."""

    def __init__(self, client: TestClient, topics: list[Any], size: int) -> None:
        self.client, self.topics, self.size = client, topics, size
        self.scripts, self.most = Counter[str](), Counter[str]()
        self.popped: list[tuple[str, bytes]] = []
        self.in_vain = 0
        self.flows = [self._consume(n) for n in range(size)]

    def _consume(self, n: int) -> Iterator[Any]:
        """Until there is nothing left. Each begins with another topic."""
        at = n * len(self.topics) // self.size
        mine = self.topics[at:] + self.topics[:at]
        while mine:
            for topic in list(mine):
                reply = yield from pop.pop_now(topic.verbs.keys, 100, ttr=b"%d" % (9 * HOUR), holder=b"c%d" % n)
                self.popped += [(topic.name, job[0]) for job in reply.jobs]
                if not reply.jobs:
                    mine.remove(topic)

    def work(self, server: Any) -> None:
        waiting: list[tuple[Any, Any]] = [(flow, None) for flow in self.flows]
        while waiting:
            for flow, answer in waiting.copy():
                waiting.remove((flow, answer))
                try:
                    request = flow.send(answer)
                except StopIteration:
                    continue
                waiting.append((flow, self._send(request, server)))

    def _send(self, request: Any, server: Any) -> Any:
        self.scripts[request.script.name] += 1
        if request.script is not FIRE:
            return self.client.engine.run(request)
        before = commands(server)
        now, counts, rows = self.client.engine.run(request)
        found = {
            "commands": commands(server) - before,
            "handled": len(counts),
            "reserved": len(rows),
            "jobs": sum(count for count in counts if count > 0),
        }
        self.most |= Counter(found)
        self.in_vain += sum(count < 0 for count in counts)
        return now, counts, rows


def commands(server: Any) -> int:
    """How many commands were run so far, those inside scripts included."""
    return sum(int(told["calls"]) for name, told in server.info("commandstats").items() if name != "cmdstat_info")


@pytest.mark.parametrize(("consumers", "many"), [(1, 3000), (4, 3000), pytest.param(4, 10_000, marks=pytest.mark.long)])
def test_thousands_that_are_due_are_shared(
    client: TestClient, topic: Any, server: Any, clock: Clock, consumers: int, many: int
) -> None:
    put_many(client, topic, many)
    clock.advance("1h1s")
    crew = Crew(client, [topic], consumers)
    crew.work(server)
    assert len(crew.popped) == len(set(crew.popped)) == many
    assert crew.in_vain == 0, "no two compute the same"
    assert crew.scripts["schedules/fire"] <= many / SCHEDULES * 1.2
    assert (crew.most["handled"], crew.most["reserved"], crew.most["jobs"]) == (SCHEDULES, SCHEDULES, SCHEDULES)
    assert crew.most["commands"] <= 3 * SCHEDULES + 30


def test_thousands_of_many_topics_are_shared(client: TestClient, server: Any, clock: Clock) -> None:
    topics = [client.topic(f"t{n}") for n in range(60)]
    for topic in topics:
        put_many(client, topic, 50)
    clock.advance("1h1s")
    crew = Crew(client, topics, 4)
    crew.work(server)
    assert len(crew.popped) == len(set(crew.popped)) == 60 * 50
    assert crew.in_vain == 0
    assert crew.scripts["schedules/fire"] <= 2 * len(topics) + 10
    assert crew.most["commands"] <= 3 * SCHEDULES + 30


def test_many_missed_occurrences_are_made_up_for_in_steps(
    client: TestClient, topic: Any, server: Any, clock: Clock
) -> None:
    put_many(client, topic, 200, missed="all")
    clock.advance("60h1s")
    crew = Crew(client, [topic], 4)
    crew.work(server)
    assert len(crew.popped) == len(set(crew.popped)) == 200 * 60
    assert crew.in_vain == 0
    assert crew.most["jobs"] <= JOBS
    assert crew.scripts["schedules/fire"] <= 200 * 60 / (JOBS - 60) * 1.2
    assert crew.most["commands"] <= JOBS + 2 * SCHEDULES + 30


@pytest.mark.parametrize("missed", ["once", "all"])
def test_a_script_handles_few_schedules_with_large_bodies(
    client: TestClient, topic: Any, server: Any, clock: Clock, missed: Missed
) -> None:
    size, count = 250_000, 12
    put_many(client, topic, count, missed=missed, size=size)
    clock.advance("10h1s")
    crew = Crew(client, [topic], 1)
    crew.work(server)
    assert len(crew.popped) == count * (10 if missed == "all" else 1)
    assert crew.most["jobs"] * size <= MOST_BYTES
    assert crew.most["reserved"] * size <= MOST_BYTES + size


def test_a_reply_has_no_bodies(client: TestClient, topic: Any, clock: Clock) -> None:
    put_many(client, topic, 1, size=5000)
    clock.advance("1h")
    _, _, [(id, plan, size)] = client.engine.run(fire(topic.verbs.keys, [], 1))
    assert (id, size) == (b"s0", 5000 + len(HEAD))
    assert len(plan) < 100


def test_what_a_dead_consumer_has_reserved_is_fired_a_second_later(
    client: TestClient, topic: Any, clock: Clock
) -> None:
    put_many(client, topic, 150)
    clock.advance("1h1s")
    assert len(client.engine.run(fire(topic.verbs.keys, [], SCHEDULES))[2]) == SCHEDULES
    began = clock.us
    assert len(topic.pop_many(1000)) == 50, "another consumer fires the others at once"
    assert topic.pop() is None
    assert topic.pop(wait="1m") is not None
    assert clock.us == began + SECOND, "a waiting one is there on the microsecond"
    assert len(topic.pop_many(1000)) == SCHEDULES - 1


def test_the_slower_of_two_consumers_adds_nothing(client: TestClient, topic: Any, clock: Clock) -> None:
    """Neither before the job is finished nor after it, when no id of a job tells that there was one."""
    keys = topic.verbs.keys
    put_many(client, topic, 1)
    clock.advance("1h1s")
    now, _, [(id, plan, _)] = client.engine.run(fire(keys, [], SCHEDULES))
    slow, _ = item_of(id, plan, now, JOBS)
    clock.advance(1)
    assert client.engine.run(fire_due(keys)) == 1
    assert client.engine.run(fire(keys, slow, 0))[1] == [-1]
    [job] = topic.pop_many(9)
    topic.finish(job)
    assert client.engine.run(fire(keys, slow, 0))[1] == [-1]
    assert topic.pop() is None
    assert (client.schedules.get("t", "s0").fired, client.schedules.get("t", "s0").skipped) == (1, 0)


@pytest.mark.parametrize("what", ["put", "body", "pause", "delete", "resume"])
def test_a_schedule_that_was_changed_meanwhile_is_left_alone(
    client: TestClient, topic: Any, clock: Clock, what: str
) -> None:
    keys = topic.verbs.keys
    put_many(client, topic, 1)
    clock.advance("1h1s")
    now, _, [(id, plan, _)] = client.engine.run(fire(keys, [], SCHEDULES))
    item, _ = item_of(id, plan, now, JOBS)
    if what == "put":
        client.schedules.put("t", "s0", "other", every="2h")
    elif what == "body":
        client.schedules.put("t", "s0", "other", every="1h")
    elif what == "resume":
        client.schedules.pause("t", "s0")
        clock.advance("1h")
        client.schedules.resume("t", "s0")
    else:
        getattr(client.schedules, what)("t", "s0")
    assert client.engine.run(fire(keys, item, SCHEDULES)) == (clock.us, [-1], [])
    assert topic.pop() is None


def test_a_clock_that_was_set_back_doubles_and_loses_nothing(client: TestClient, topic: Any, clock: Clock) -> None:
    keys = topic.verbs.keys
    put_many(client, topic, 2)
    clock.advance("1h1s")
    now, _, rows = client.engine.run(fire(keys, [], SCHEDULES))
    clock.us -= HOUR // 2
    clock.advance(0)
    client.engine.run(fire(keys, item_of(*rows[0][:2], now, JOBS)[0], 0))
    assert topic.pop() is None, "by this clock it is not due"
    assert client.engine.run(fire_due(keys)) == 0
    clock.advance("31m")
    assert sorted(job.id.partition("@")[0] for job in topic.pop_many(9) + topic.pop_many(9)) == ["s0", "s1"]
    assert [one.fired for one in client.schedules.list("t")] == [1, 1]
