"""Workers with many topics are killed at once: an observer asks all topics of all of them in pipelines. Round trips are counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from faults.proxy import LOST, TORN, UNSENT, Proxy
from tarry.clients.blocking.runner import Runner
from tarry.clients.testing import Clock, TestClient
from tarry.connections.embedded.server_process import ServerProcess
from tarry.values.keys import holder_channel, topic_keys
from tarry.verbs import liveness
from tarry.verbs.jobs.pop import pop_step
from tarry.worker.liveness import Liveness
from tarry.worker.outage import Outage
from until import LONGEST_S, until

HOLDERS = [f"shop:{number}:WORD" for number in range(5)]
OBSERVER = "observer:1:WORD"
LATER_S = 0.4


class Killed:
    """Workers that hold a job in each of their topics and are dead, and an observer that looks for them over the proxy."""

    def __init__(
        self, url: str, direct: TestClient, client: TestClient, clock: Clock, topics: int, jobs: int = 1, also: str = ""
    ) -> None:
        self.direct, self.clock = direct, clock
        self.topics = [f"t{number}" for number in range(topics)]
        for name in self.topics:
            topic = direct.topic(name)
            topic.add_many(range(jobs * len(HOLDERS)), ttr="10h")
            for holder in HOLDERS:
                self.pop(name, holder, jobs)
        with redis.Redis.from_url(url) as raw:
            self.subscription = self.announce(raw, OBSERVER, [], is_busy=False)
            for holder in HOLDERS:
                self.announce(raw, holder, [*filter(None, [also]), *self.topics], is_busy=True).close()
            channels = [holder_channel(direct.namespace, holder.encode()) for holder in HOLDERS]
            until(
                lambda: not any(count for _, count in raw.pubsub_numsub(*channels)),
                "the server knows that they are dead",
            )

        async def observer() -> Liveness:
            takes_no_jobs: Any = None
            return Liveness(client, takes_no_jobs, OBSERVER.encode(), [], lambda: False, Outage())

        self.liveness = asyncio.run(observer())
        self.look()
        self.look()  # marks are set, and it learns of partitions

    def announce(self, raw: Any, holder: str, topics: list[str], *, is_busy: bool) -> Any:
        subscription = raw.pubsub()
        subscription.subscribe(holder_channel(self.direct.namespace, holder.encode()))
        assert subscription.get_message(timeout=LONGEST_S)
        call = liveness.announce(self.direct.namespace, holder.encode(), topics, is_busy=is_busy)
        assert self.direct.engine.run(call)
        return subscription

    def pop(self, topic: str, holder: str, jobs: int = 1) -> None:
        keys = self.direct.topic(topic).verbs.keys
        self.direct.engine.run(pop_step(keys, jobs, ttr=b"0", holder=holder.encode()))

    def look(self) -> None:
        self.clock.advance(LATER_S)
        self.liveness._look()

    def left(self) -> list[int]:
        """How many jobs of each topic are still reserved."""
        return [self.direct.topic(name).stats().reserved for name in self.topics]


@pytest.fixture
def kill(running: ServerProcess, clock: Clock, proxy: Proxy, namespace: str) -> Iterator[Callable[..., Killed]]:
    with (
        TestClient(running.url, clock, namespace=namespace) as direct,
        TestClient(proxy.url(), clock, namespace=namespace) as client,
    ):
        yield lambda topics, **more: Killed(running.url, direct, client, clock, topics, **more)


@pytest.fixture
def round_trips(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The number of requests of each round trip."""
    sizes: list[int] = []
    exchange = Runner._exchange

    def note(runner: Runner, pipelines: Any) -> Any:
        sizes.append(sum(1 for pipeline in pipelines for _ in pipeline.deliveries))
        return exchange(runner, pipelines)

    monkeypatch.setattr(Runner, "_exchange", note)
    return sizes


def test_a_hundred_topics_of_five_workers_need_few_round_trips(
    kill: Callable[..., Killed], round_trips: list[int]
) -> None:
    killed = kill(100)
    round_trips.clear()
    killed.look()
    steps, pipelines = 2, -(-100 * len(HOLDERS) // 64)
    ends = 2 * 2  # they are withdrawn, and forgotten: scripts that the connection has not used before
    assert len(round_trips) <= 1 + steps * pipelines + ends, "it looks, asks in each topic, and releases"
    assert max(round_trips) <= 64
    assert set(killed.left()) == {0}


def test_a_worker_with_many_jobs_is_released_in_bounded_steps(
    kill: Callable[..., Killed], round_trips: list[int]
) -> None:
    killed = kill(1, jobs=1000)
    round_trips.clear()
    killed.look()
    assert killed.left() == [0]
    assert len(round_trips) <= 35, "each goes through 5,000 reservations, in all 1,000 a time; the steps grow"


@pytest.mark.parametrize("fault", ["damaged", "forbidden name"])
def test_an_error_of_one_topic_does_not_stop_the_others(
    kill: Callable[..., Killed], running: ServerProcess, namespace: str, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    name = ".." if fault == "forbidden name" else "broken"
    if fault == "damaged":
        keys = topic_keys(namespace, name)
        with redis.Redis.from_url(running.url) as raw:
            raw.set(keys.reserved, "no sorted set")
    killed = kill(3, also=name)
    killed.look()
    assert killed.left() == [0, 0, 0]
    assert f"in {name} come back after their TTR" in caplog.text


@pytest.mark.parametrize("at", [b":reserved", b"\r\n15\r\n"], ids=["ask", "release"])
@pytest.mark.parametrize("cut", [UNSENT, LOST, TORN])
def test_a_connection_that_breaks_at_any_step_is_made_up_for_by_the_next_look(
    kill: Callable[..., Killed], proxy: Proxy, cut: str, at: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    killed = kill(3)
    struck = proxy.struck
    proxy.arm(cut, at=at)
    killed.look()
    assert proxy.struck == struck + 1
    assert "is gone; 0 of its jobs" not in caplog.text, "not yet: they may still be reserved"
    killed.look()
    assert caplog.text.count("is gone") == len(HOLDERS)
    assert killed.left() == [0, 0, 0]
    found = [job for name in killed.topics for job in killed.direct.topic(name).list()]
    assert [job.attempts for job in found] == [1] * len(found), "each attempt counts once"


def test_one_that_lives_in_one_topic_keeps_all_its_jobs_and_the_others_lose_theirs(
    kill: Callable[..., Killed],
) -> None:
    killed = kill(3)
    killed.direct.topic("t1").add("more")
    killed.pop("t1", HOLDERS[2])
    killed.look()
    assert killed.left() == [1, 2, 1], "it is called again, and the others are gone"
