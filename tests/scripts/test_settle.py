"""The last lines of the scripts, lua/lib/watch.lua, against the pure function that the watch's model has proved.

No reply is lost here: for verbs that are repeated see story/test_replays.py.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tarry.clients.testing import Clock, TestClient
from tarry.verbs.jobs import pop
from watch.rules import earliest, settle

GRACE, ROUND, HORIZON = 1_000_000, 10_000_000, 10_500_000
NOW = 1_800_000_000_000_000
NEAR = st.sampled_from(
    [-GRACE - 1, -GRACE, -GRACE + 1, -1, 0, 1, GRACE - 1, GRACE, GRACE + 1, ROUND, ROUND + 1, HORIZON, HORIZON + 1]
)
MOMENTS = NEAR | st.integers(-3 * GRACE, 2 * ROUND)
SEATS = st.dictionaries(st.sampled_from([b"me", b"a", b"b", b"c"]), MOMENTS, max_size=4)
PLENTY = 600


@pytest.mark.slow
@settings(
    max_examples=PLENTY,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    due=st.none() | MOMENTS.filter(lambda at: at > 0),
    reserved=st.none() | MOMENTS.filter(lambda at: at > 0),
    paused=st.none() | MOMENTS,
    opens=st.none() | MOMENTS.filter(lambda at: at > 0),
    full=st.booleans(),
    fires=st.none() | MOMENTS.filter(lambda at: at > 0),
    seats=SEATS,
    wake=st.booleans(),
    relay=st.booleans(),
    stays=st.booleans(),
)
def test_lua_and_the_python_model_settle_alike(
    valkey_url: str,
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
) -> None:
    with Table(valkey_url) as table:
        full = full and reserved is not None
        table.lay(due, reserved, seats, wake, relay)
        table.rule(paused, opens, full, fires)
        next_ = earliest(due, reserved, paused=paused, opens=opens, full=full, fires=fires)
        expected = settle(0, next_, seats, int(wake), int(relay), b"me", stays, G=GRACE, R=ROUND, H=HORIZON)
        told = table.settle(stays)
        assert told == expected


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
