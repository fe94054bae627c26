"""The last lines of the scripts, lua/lib/watch.lua, against the pure function that the watch's model has proved.

No reply is lost here: for verbs that are repeated see story/test_replays.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, islice
from random import Random
from typing import Any

import pytest
import redis

from tarry.clients.testing import Clock, TestClient
from tarry.verbs.jobs import pop
from watch.rules import earliest, settle

GRACE, ROUND, HORIZON = 1_000_000, 10_000_000, 10_500_000
NOW = 1_800_000_000_000_000
NEAR = [-GRACE - 1, -GRACE, -GRACE + 1, -1, 0, 1, GRACE - 1, GRACE, GRACE + 1, ROUND, ROUND + 1, HORIZON, HORIZON + 1]
WATCHERS = [b"me", b"a", b"b", b"c"]
PLENTY = 800


def situations(rng: Random) -> Iterator[dict[str, Any]]:
    """By chance, as moments from now, often where a rule begins or ends; the same in each run."""

    def at() -> int:
        return rng.choice(NEAR) if rng.random() < 0.5 else rng.randint(-3 * GRACE, 2 * ROUND)

    def later() -> int:
        return abs(at()) or 1

    def maybe(draw: Callable[[], int]) -> int | None:
        return draw() if rng.random() < 0.5 else None

    while True:
        reserved = maybe(later)
        yield {
            "due": maybe(later),
            "reserved": reserved,
            "paused": maybe(at),
            "opens": maybe(later),
            "full": reserved is not None and rng.random() < 0.5,
            "fires": maybe(later),
            "seats": {who: at() for who in rng.sample(WATCHERS, rng.randrange(5))},
            "wake": rng.random() < 0.5,
            "relay": rng.random() < 0.5,
            "stays": rng.random() < 0.5,
        }


@pytest.mark.slow
def test_lua_and_the_python_model_settle_alike(valkey_url: str) -> None:
    for situation in islice(situations(Random(7)), PLENTY):
        with Table(valkey_url) as table:
            assert table.told(**situation) == expected(**situation), situation


def expected(
    due: Any,
    reserved: Any,
    paused: Any,
    opens: Any,
    full: bool,
    fires: Any,
    seats: Any,
    wake: bool,
    relay: bool,
    stays: bool,
) -> Any:
    next_ = earliest(due, reserved, paused=paused, opens=opens, full=full, fires=fires)
    return settle(0, next_, seats, int(wake), int(relay), b"me", stays, G=GRACE, R=ROUND, H=HORIZON)


class Table:
    """One topic laid out by hand, under a clock that stands still."""

    _numbers = count()
    _client: TestClient | None = None
    _server: Any = None

    def __init__(self, url: str) -> None:
        if Table._client is None:
            Table._client = TestClient(url, Clock(NOW), namespace="settle")
            Table._server = redis.Redis.from_url(url)
        self.client, self.server = Table._client, Table._server
        self.keys = self.client.topic(f"t{next(Table._numbers)}").verbs.keys

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.delete(*self.keys)

    def told(
        self, due: Any, reserved: Any, paused: Any, opens: Any, full: bool, fires: Any, seats: Any, wake: bool, relay: bool, stays: bool
    ) -> Any:  # fmt: skip
        self.lay(due, reserved, seats, wake, relay)
        self.rule(paused, opens, full, fires)
        return self.settle(stays)

    def lay(self, due: Any, reserved: Any, seats: Any, wake: bool, relay: bool) -> None:
        keys, pipe = self.keys, self.server.pipeline(transaction=False)
        for key, at in ((keys.due, due), (keys.reserved, reserved)):
            if at is not None:
                pipe.zadd(key, {"7": NOW + at})
        if seats:
            pipe.zadd(keys.watch, {who: NOW + at for who, at in seats.items()})
        for key, there in ((keys.wake, wake), (keys.relay, relay)):
            if there:
                pipe.rpush(key, "1")
        pipe.execute()

    def rule(self, paused: Any, opens: Any, full: bool, fires: Any) -> None:
        """What holds the topic back; by a rate, the next job goes one interval after the moment its burst was spent."""
        rules: dict[str, Any] = {"paused": paused and NOW + paused, "fires": fires and NOW + fires}
        if opens is not None or full:
            rate = "0 0 0" if opens is None else f"1 {opens} 1"
            rules |= {"limited": f"{rate} {int(full)} 0", "spent": f"{NOW} 1"}
        rules = {name: value for name, value in rules.items() if value is not None}
        if rules:
            self.server.hset(self.keys.meta, mapping={**rules, "ruled": 1})

    def settle(self, stays: bool) -> tuple[dict[bytes, int], int, int, int | None, int]:
        """A pop that finds nothing ready, of a consumer that keeps waiting, or ``leave`` of one that does not."""
        alarm, seat = None, 0
        if stays:
            found = self.client.engine.run(
                pop.pop_step(self.keys, 1, ttr=b"0", holder=b"h", min_jobs=1, waiter_id=b"me")
            )
            assert not found.jobs
            alarm, seat = found.wait, found.seat
        else:
            self.client.engine.run(pop.leave_watch(self.keys, b"me"))
        promised = {who: int(at) - NOW for who, at in self.server.zrange(self.keys.watch, 0, -1, withscores=True)}
        return promised, self.server.llen(self.keys.wake), self.server.llen(self.keys.relay), alarm, seat
