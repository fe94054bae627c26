"""The table for schedules: how they are defined, read, fired, and what code declares."""

from __future__ import annotations

import struct
from typing import Any

from vectors.calls import Case, Step
from vectors.table import HOUR, NOW, PAUSED, SEAT, SECOND, TWO_SEATS, add, raw, settings, step, value
from vectors.table_views import MINUTE, PARTITIONED

EVERY_MINUTE, EVERY_HOUR = '{"every_us":60000000}', '{"every_us":3600000000}'
JOB = "\x08nonce.1"
"""The head and body of a job: so short that a hash of plans keeps its order."""


def packed(
    rhythm: str = EVERY_MINUTE,
    *,
    format: int = 1,
    paused: int = 0,
    after: int = NOW,
    changed: int = NOW,
    job: str = JOB,
) -> str:
    """A plan as it is stored: one occurrence has fired, two were skipped."""
    head = struct.pack("<BBddIIHI", format, paused, after, changed, 1, 2, len(rhythm), 2)
    return head.decode("latin-1") + rhythm + "{}" + job


def put(*ids: str, rhythm: str = EVERY_MINUTE, next: Any = NOW + MINUTE, at: int = 0) -> Step:
    return step("schedules/put", *(one for id in ids for one in (id, rhythm, "{}", JOB, next, NOW + at)), at=at)


def declare(*ids: str, version: str = "v1", rhythm: str = EVERY_MINUTE, next: Any = NOW + MINUTE, at: int = 0) -> Step:
    items = (one for id in ids for one in (id, version, rhythm, "{}", JOB, next, NOW + at if next else 0))
    return step("schedules/declare", *items, at=at)


def set_state(what: str, *ids: str, next: Any = "", after: Any = 0, at: int = SECOND) -> Step:
    return step("schedules/set_state", what, *(one for id in ids for one in (id, next, after)), at=at)


def damaged(plan: str = "short") -> list[Step]:
    return [raw("HSET", "plans", "s", plan), raw("ZADD", "schedules", NOW, "s")]


NEWER = damaged(packed(format=2))
STATES: dict[str, list[Step]] = {
    "it is new": [],
    "it is there": [put("s")],
    "it is due": [put("s", next=NOW + 5)],
    "it is paused": [put("s"), set_state("pause", "s", at=9)],
    "it is declared": [declare("s")],
    "it is declared and paused": [declare("s"), set_state("pause", "s", at=9)],
    "it was declared and deleted": [declare("s"), raw("HDEL", "plans", "s")],
    "it is damaged": damaged(),
    "it has nothing but a head": damaged(packed()[:32]),
    "it is a newer version's": NEWER,
    "another one is there": [put("r")],
    "it was changed by a clock ahead": damaged(packed(changed=NOW + HOUR)),
}
"""What a schedule meets that is put, declared, read, paused, resumed or deleted."""


def cases_of_schedules() -> list[Case]:
    cases = []
    for state, before in STATES.items():
        cases += [
            Case(f"a schedule is put: {state}", before, put("s", at=SECOND)),
            Case(f"a schedule is put with another recurrence: {state}", before, put("s", rhythm=EVERY_HOUR, at=SECOND)),
            Case(f"a schedule is declared again: {state}", before, declare("s", next="", at=SECOND)),
            Case(f"a schedule is declared anew: {state}", before, declare("s", version="v2", rhythm=EVERY_HOUR, at=SECOND)),
            Case(f"a schedule is read: {state}", before, step("schedules/get", "s", "q")),
            Case(f"schedules are listed: {state}", before, step("schedules/list", 0, 10)),
            Case(f"a schedule is paused: {state}", before, set_state("pause", "s")),
            Case(f"a schedule is resumed: {state}", before, set_state("resume", "s", next=NOW + 2 * MINUTE, after=NOW + SECOND)),
            Case(f"a schedule is deleted: {state}", before, set_state("delete", "s")),
        ]  # fmt: skip
    versions = [declare("s"), declare("s", version="v2", rhythm=EVERY_HOUR, at=SECOND)]
    return [
        *cases,
        Case("two schedules are put", [], put("s", "r", next=NOW + HOUR)),
        Case("no schedule is put", [put("s")], put()),
        Case("a schedule is put in a paused topic", [PAUSED], put("s", next=NOW + 5)),
        Case("a schedule is put in a topic with a seat", [SEAT], put("s", next=NOW + 5)),
        Case("a schedule is put in a topic with two seats and a job", [TWO_SEATS, add("a")], put("s")),
        Case("no schedule is declared", [], declare()),
        Case("no schedule is declared any more", [declare("s")], declare(at=MINUTE)),
        Case("no schedule is declared any more, none is left", [raw("HSET", "declared", "", NOW)], declare(at=MINUTE)),
        Case("an older version is declared beside a newer one", versions, declare("s", at=150 * SECOND)),
        Case("an older version is declared when the newer one has gone", versions, declare("s", at=151 * SECOND)),
        Case("an eighth version is declared", [put("s"), raw("HSET", "declared", "s", f"{NOW} v9 v8 v7 v6 v5 v4 v3")], declare("s", version="v10", at=SECOND)),
        Case("two schedules are declared, one is taken", [put("r")], declare("s", "r")),
        Case("two schedules are listed", [put("s"), declare("r")], step("schedules/list", 0, 10)),
        Case("no schedule is read", [declare("s")], step("schedules/get")),
        Case("a schedule is resumed that never comes again", STATES["it is paused"], set_state("resume", "s", after=NOW + SECOND)),
        Case("a newer version's schedule refuses all", [put("r"), *NEWER], set_state("pause", "r", "s")),
        Case("two schedules are paused", [put("s", "r")], set_state("pause", "s", "r")),
        Case("no schedule is paused", [put("s")], set_state("pause")),
        Case("a schedule of a partitioned topic is put", PARTITIONED, put("s")),
        Case("a schedule of a partitioned topic is declared", PARTITIONED, declare("s")),
        Case("a schedule of a partitioned topic is read", PARTITIONED, step("schedules/get", "s")),
        Case("schedules of a partitioned topic are listed", PARTITIONED, step("schedules/list", 0, 10)),
        Case("a schedule of a partitioned topic is paused", PARTITIONED, set_state("pause", "s")),
    ]  # fmt: skip


def cases_of_fired() -> list[Case]:
    def fire(*items: Any, limit: int = 10, at: int = SECOND) -> Step:
        return step("schedules/fire", limit, *items, at=at)

    def handled(
        *occurrences: str, id: str = "s", changed: int = NOW, before: int = NOW, next: Any = NOW + MINUTE, skipped: int = 0
    ) -> tuple[Any, ...]:  # fmt: skip
        named = " ".join(f"{NOW + n} {name}" for n, name in enumerate(occurrences, 1))
        return id, changed, before, next, NOW + SECOND, skipped, named

    due = [put("s", next=NOW + 5)]
    leased = [*due, fire()]
    priority = damaged(packed(job=value(priority=1)))
    return [
        Case("no schedule is fired", [], fire()),
        Case("a due schedule is reserved", due, fire()),
        Case("a reserved schedule is reserved again after a second", leased, fire(at=2 * SECOND)),
        Case("a reserved schedule is not reserved by another", leased, fire(at=2 * SECOND - 1)),
        Case("no schedule is reserved", due, fire(limit=0)),
        Case("the first of two due schedules is reserved", [*due, put("r", next=NOW + 4)], fire(limit=1)),
        Case("two due schedules are reserved", [*due, put("r", next=NOW + 4)], fire()),
        Case("a schedule that is not due is not reserved", [put("s")], fire()),
        Case("a damaged schedule is removed", damaged(), fire()),
        Case("a schedule without a plan is removed", [raw("ZADD", "schedules", NOW, "s")], fire()),
        Case("a newer version's schedule is left for a minute", NEWER, fire()),
        Case("an occurrence is fired", leased, fire(*handled("one"))),
        Case("a schedule waits, for its topic is full", [*leased, settings(bounds=f"1 0 {NOW}"), add("a")], fire(*handled("one"))),
        Case("a schedule has no occurrence in a full topic", [*leased, settings(bounds=f"1 0 {NOW}"), add("a")], fire(*handled())),
        Case("a schedule fills a topic, whose bytes count", [*leased, settings(bounds=f"9 1000 {NOW}", bytes=7)], fire(*handled("one", "two"))),
        Case("two occurrences are fired, three were skipped", leased, fire(*handled("one", "two", skipped=3))),
        Case("no occurrence is fired", leased, fire(*handled())),
        Case("the last occurrence is fired", leased, fire(*handled("one", next=""))),
        Case("an occurrence is fired, and the next is due", leased, fire(*handled("one", next=NOW + 6))),
        Case("an occurrence whose job is there", [*leased, add("s@one")], fire(*handled("one"))),
        Case("an occurrence is fired again", [*leased, fire(*handled("one"))], fire(*handled("one"))),
        Case("an occurrence with a priority is fired", priority, fire(*handled("one"))),
        Case("an occurrence of a raw job without a body is fired", damaged(packed(job="")), fire(*handled("one"))),
        Case("a schedule was changed meanwhile", [*leased, put("s", rhythm=EVERY_HOUR, at=9)], fire(*handled("one"))),
        Case("a schedule was paused meanwhile", [*leased, set_state("pause", "s", at=9)], fire(*handled("one"))),
        Case("a schedule was deleted meanwhile", [*leased, set_state("delete", "s", at=9)], fire(*handled("one"))),
        Case("a schedule was damaged meanwhile", [*leased, raw("HSET", "plans", "s", "short")], fire(*handled("one"))),
        Case("a schedule was handled meanwhile", leased, fire(*handled("one", before=NOW - 1))),
        Case("of two schedules one was changed meanwhile", [*leased, put("r", next=NOW + 4)], fire(*handled("one", changed=NOW - 1), *handled("one", id="r"))),
        Case("a schedule is fired in a paused topic", [PAUSED, *leased], fire(*handled("one"))),
        Case("a schedule is fired in a topic with seats", [TWO_SEATS, *leased], fire(*handled("one"))),
        Case("a schedule is fired in a topic with limits of a newer version", [settings(limited="new"), *leased], fire(*handled("one"))),
        Case("a schedule of a partitioned topic is fired", PARTITIONED, fire(*handled("one"))),
    ]  # fmt: skip
