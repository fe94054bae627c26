"""The table for guarded queues, in both layouts: microseconds, and the milliseconds of the layout "java"."""

from __future__ import annotations

from typing import Any

from vectors.calls import Case, Step
from vectors.table import HOUR, NOW, SECOND, raw, step


def cases_of_guarded() -> list[Case]:
    cases = []
    for unit, of in ((1, "µs"), (1000, "ms")):

        def push(*members: str, delay: int = 0, replay: int = 0, at: int = 0, unit: int = unit) -> Step:
            return step("guarded/push", unit, replay, *(one for member in members for one in (member, delay)), at=at)

        def poll(
            limit: int = 10, bound: Any = "", nonce: str = "nonce.", replay: int = 0, at: int = SECOND, unit: int = unit
        ) -> Step:
            return step("guarded/poll", unit, limit, bound, "c", nonce, replay, at=at)

        two = [push("a", "b")]
        polled = [*two, poll()]
        cases += [
            Case(f"nothing is pushed ({of})", [], push(), ["channel"]),
            Case(f"an item is pushed ({of})", [], push("a", at=500), ["channel"]),
            Case(f"three items are pushed ({of})", [], push("c", "a", "b", at=500), ["channel"]),
            Case(f"three items are pushed with a delay ({of})", [], push("c", "a", "b", delay=1500), ["channel"]),
            Case(f"an item is pushed twice ({of})", [], push("a", "a", delay=1500), ["channel"]),
            Case(f"an item is pushed with delays ({of})", [], step("guarded/push", unit, 0, "a", HOUR, "b", 0), ["channel"]),
            Case(f"an item is pushed again ({of})", two, push("a", delay=HOUR, at=5), ["channel"]),
            Case(f"a push is repeated ({of})", two, push("a", "b", delay=HOUR, replay=1, at=5), ["channel"]),
            Case(f"an item is pushed that is not the first ({of})", two, push("c", at=SECOND), ["channel"]),
            Case(f"nothing is polled ({of})", [], poll()),
            Case(f"items are polled ({of})", two, poll()),
            Case(f"one of two items is polled ({of})", two, poll(limit=1)),
            Case(f"an item that is due is polled ({of})", [*two, push("c", delay=HOUR)], poll()),
            Case(f"no item is due ({of})", [push("c", delay=HOUR)], poll()),
            Case(f"an item is due at the moment ({of})", [push("c", delay=SECOND)], poll()),
            Case(f"an item is due a moment later ({of})", [push("c", delay=SECOND)], poll(at=SECOND - 1)),
            Case(f"the first item is too late ({of})", [push("a")], poll(bound=SECOND - 1)),
            Case(f"the first item is not too late ({of})", [raw("ZADD", "items", (NOW + 1000) // unit, "a")], poll(bound=SECOND - 1000)),
            Case(f"a poll is repeated ({of})", polled, poll(replay=1, at=2 * SECOND)),
            Case(f"a poll is repeated that was not done ({of})", two, poll(replay=1)),
            Case(f"a poll is repeated, and the batch is another's ({of})", [*polled, push("c")], poll(nonce="other.", replay=1)),
        ]  # fmt: skip
    return cases
