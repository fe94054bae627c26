"""The table for views and settings of a topic, and for the reservations of one holder."""

from __future__ import annotations

import struct
from typing import Any

from vectors.calls import Case, Step, key
from vectors.table import (
    HOUR,
    KEEPS,
    NO_MISSED,
    NOW,
    OLD_MISSED,
    ONE_AT_A_TIME,
    PAUSED,
    SEAT,
    SECOND,
    TEN_A_SECOND,
    TWO_SEATS,
    add,
    bury,
    finish,
    leaving,
    limits,
    pop,
    raw,
    release,
    settings,
    step,
    value,
)


def packed_moment(moment: int) -> str:
    return "\xcb" + struct.pack(">d", moment).decode("latin-1")


MINUTE = 60 * SECOND
BOTH_MISSED = raw(
    "HSET",
    "meta",
    "missed",
    "\x82"
    + "".join(
        f"\xa1{holder}\x93{packed_moment(NOW + since)}\xa11{packed_moment(NOW)}"
        for holder, since in (("w", 0), ("v", SECOND))
    ),
)
"""Marks of two holders: when each was set, the absence that it is about, the last receipt. In which order both are written is not certain."""
PARTITIONED = [raw("SET", "meta", 3), raw("SET", "jobs", 3)]
EVERYWHERE = [
    add("dead", at=-9),
    pop(at=-9),
    bury("dead", receipt=-9, at=-8),
    add("reserved", at=-7),
    pop(at=-7, ttr=HOUR),
    add("over", at=-6),
    pop(at=-6, ttr=3),
    add("retrying", at=-5),
    pop(at=-5),
    release("retrying", receipt=-5, due=HOUR, at=-4),
    add("ready", at=-2),
    add("later", due=5 * SECOND, stored=value(headers="{}", priority=2)),
]
"""A job in each place."""
FINISHED = [KEEPS, add(*"abc"), pop(3), finish("a", "b"), finish("c", result=f"{MINUTE}j7")]


def cases_of_partitioned() -> list[Case]:
    """A topic has been given partitions since the caller asked."""
    calls = {
        "topic/check": ("jobs", 0, 10),
        "topic/due_soon": (HOUR, 10),
        "topic/histogram": (0, SECOND, 3),
        "topic/list": ("due", "", "", "", "", 10),
        "topic/purge": ("all", "", 10),
        "topic/release_holder": ("w", 1, "", "", "", "", 0, 10),
        "topic/stats": (MINUTE,),
        "topic/throughput": (),
        "topic/touch_holder": ("w", HOUR, 0, 10),
    }
    return [Case("a topic with partitions", PARTITIONED, step(script, *args)) for script, args in calls.items()]


def cases_of_views() -> list[Case]:
    def due_soon(horizon: int = HOUR, limit: int = 10) -> Step:
        return step("topic/due_soon", horizon, limit)

    def histogram(begins: Any = 0, buckets: int = 3) -> Step:
        return step("topic/histogram", begins, 2 * SECOND, buckets)

    def throughput(at: int = 0) -> Step:
        return step("topic/throughput", at=at)

    def stats(at: int = 0) -> Step:
        return step("topic/stats", MINUTE, at=at)

    now = [
        limits(n=10, span=SECOND, burst=1),
        settings(spent=f"{NOW} 0", paused=NOW),
        *(raw("ZADD", place, NOW, place) for place in ("due", "retrying", "finished", "dead")),
        raw("ZADD", "reserved", NOW + 1, "reserved"),
        raw("ZADD", "dead", NOW - MINUTE, "first"),
    ]
    return [
        Case("a forecast of an empty topic", [], due_soon()),
        Case("a forecast of a topic with jobs everywhere", EVERYWHERE, due_soon()),
        Case("a forecast ends with its horizon", EVERYWHERE, due_soon(SECOND)),
        Case("a forecast of one job", EVERYWHERE, due_soon(limit=1)),
        Case("a forecast of a paused topic with a rate", [TEN_A_SECOND, add(*"ab"), pop(), PAUSED], due_soon()),
        Case("a forecast of a job without a record", [raw("ZADD", "due", NOW, "a")], due_soon()),
        Case("due times of an empty topic are counted", [], histogram()),
        Case("due times are counted", [add("a", "d"), add("b", due=SECOND), add("c", due=HOUR)], histogram()),
        Case("due times are counted from a moment on", [add("a"), add("b", due=SECOND)], histogram(f"@{NOW + SECOND}")),
        Case("a due time between two buckets is the second's", [add("a", due=f"@{NOW + 2 * SECOND}")], histogram()),
        Case("due times are counted in no bucket", [add("a"), add("b", due=SECOND)], histogram(SECOND, 0)),
        Case("the totals of an empty topic", [], throughput()),
        Case("the totals of a topic", [*EVERYWHERE, KEEPS, pop(at=MINUTE), finish("over", receipt=MINUTE, at=MINUTE)], throughput(2 * MINUTE)),
        Case("the totals of a topic whose jobs went", [*FINISHED, step("topic/purge", "due", "", 10)], throughput()),
        Case("the totals of a topic whose dead jobs were too old", [settings(keep_dead=SECOND), *EVERYWHERE, pop(at=HOUR)], throughput(HOUR)),
        Case("the numbers of an empty topic", [], stats()),
        Case("the numbers of a topic with a delayed job", [add("a", due=SECOND)], stats()),
        Case("the numbers of a topic with jobs everywhere", EVERYWHERE, stats()),
        Case("the numbers of a topic an hour later", EVERYWHERE, stats(2 * HOUR)),
        Case("the numbers of a topic whose oldest job ran out", [add("a"), pop(ttr=1), add("b", at=9)], stats(10)),
        Case("the numbers of a topic whose oldest job is ready", [add("b"), add("a", at=-9), pop(at=1, ttr=1)], stats(10)),
        Case("the numbers of a topic with finished jobs", FINISHED, stats(2 * MINUTE)),
        Case("the numbers of a topic where all is at this moment", now, stats()),
        Case("ready jobs wait for a pause, the TTR of one is over", [add(*"ab"), pop(ttr=1), PAUSED], stats(2)),
        Case("the numbers of a topic that a move has left", leaving("due"), stats()),
        Case("a reservation ends at this moment", [add("a"), pop(ttr=SECOND)], stats(SECOND)),
        Case("ready jobs wait for a pause", [add("a"), PAUSED], stats()),
        Case("ready jobs wait for a rate", [TEN_A_SECOND, add(*"ab"), pop()], stats()),
        Case("ready jobs wait for a place", [ONE_AT_A_TIME, add(*"ab"), pop()], stats()),
        Case("ready jobs wait for a place longer than for a rate", [limits(n=10, span=SECOND, burst=1, concurrency=1), add(*"ab"), pop()], stats()),
        Case("no job waits in a full topic", [ONE_AT_A_TIME, add("a"), pop()], stats()),
        Case("a reservation is over in a full topic", [ONE_AT_A_TIME, add(*"ab"), pop(ttr=1)], stats(2)),
        Case("the numbers of a topic with a newer version's limits", [settings(limited="new"), add("a")], stats()),
    ]  # fmt: skip


def cases_of_pages() -> list[Case]:
    def page(place: str, side: str = "", begins: Any = "", ends: Any = "", past: str = "", limit: int = 10) -> Step:
        return step("topic/list", place, side, begins, ends, past, limit, at=2)

    moment = [add(*(f"{letter}{n}" for letter in "ab" for n in range(3)), "b10", due=f"@{NOW + HOUR}")]
    edge = [add(f"a{n}", due=f"@{NOW + n}") for n in range(1, 5)]
    cases = [Case("a page of an empty topic", [], page("due"))]
    cases += [
        Case(f"a page of those that are {place}", EVERYWHERE, page(place))
        for place in ("due", "reserved", "dead", "retrying")
    ]
    return [
        *cases,
        Case("a page of finished jobs", FINISHED, page("finished")),
        Case("a page of the past", EVERYWHERE, page("due", "past")),
        Case("a page of the future", EVERYWHERE, page("due", "future")),
        Case("a page between two moments", EVERYWHERE, page("due", "", NOW, NOW + MINUTE)),
        Case("a page of the past ends with the moment", edge, page("due", "past")),
        Case("a page of the future begins after the moment", edge, page("due", "future")),
        Case("a page of nothing", EVERYWHERE, page("due", "", NOW + MINUTE, NOW + MINUTE)),
        Case("the first page of several", moment, page("due", limit=2)),
        Case("the next page begins after an id of the same moment", moment, page("due", "", NOW + HOUR, "", "a2", 2)),
        Case("a page begins after an id that is the start of another", moment, page("due", "", NOW + HOUR, "", "b1", 2)),
        Case("a page begins after the last id", moment, page("due", "", NOW + HOUR, "", "b2")),
        Case("a page of an entry without a record", [raw("ZADD", "due", NOW, "a")], page("due")),
        Case("a page of a reservation without a run", [add("a"), pop(), raw("DEL", "runs")], page("reserved")),
    ]  # fmt: skip


def cases_of_checks() -> list[Case]:
    def check(part: str) -> Step:
        return step("topic/check", part, 0, 10)

    parts = ("jobs", "twice", "runs", "due", "reserved", "dead")
    twice = [add(*"abc"), pop(), raw("ZADD", "dead", NOW, "a")]
    cases = []
    for part in parts:
        cases += [
            Case(f"an empty topic is checked: {part}", [], check(part)),
            Case(f"a topic with jobs everywhere is checked: {part}", EVERYWHERE, check(part)),
            Case(f"a job in two places is found: {part}", twice, check(part)),
        ]
    for part, before in {
        "runs": raw("HSET", "runs", "a", "x"),
        "due": raw("ZADD", "due", NOW, "a"),
        "reserved": raw("ZADD", "reserved", NOW, "a"),
        "dead": raw("ZADD", "dead", NOW, "a"),
    }.items():
        cases.append(Case(f"an entry without a job is found: {part}", [before], check(part)))
    return [
        *cases,
        Case("a job in no place is found", [add("a"), raw("DEL", "due")], check("jobs")),
        Case("a job with half a head is found", [add("a"), raw("HSET", "jobs", "a", "123")], check("jobs")),
        Case("a job of a moment that nobody wrote is found", [add("a"), raw("HSET", "jobs", "a", "123456\xff" + value())], check("jobs")),
        Case("a job whose headers are cut is found", [add("a", stored=value(headers="{}")[:-7])], check("jobs")),
        Case("a job with flags of a newer version is no fault", [add("a", stored=value(further=64))], check("jobs")),
        Case("a job with flags of a newer version may end otherwise", [add("a", stored=value(further=64, headers="{}")[:-7])], check("jobs")),
        Case("a job with headers and no body is no fault", [add("a", stored=value("", headers="{}"))], check("jobs")),
        Case("a raw job is no fault", [add("a", stored="\x01tea")], check("jobs")),
        Case("a job with all fields is no fault", [add("a", stored=value(ttr_ms=5000, max_attempts=3, headers="{}", max_lateness=HOUR))], check("jobs")),
        Case("a reservation without a run is found", [add("a"), pop(), raw("DEL", "runs")], check("reserved")),
    ]  # fmt: skip


def cases_of_looks() -> list[Case]:
    """The second topic is empty, unless its keys are named."""
    states: dict[str, list[Step]] = {
        "both are empty": [],
        "a job is ready": [add("a")],
        "a job is due at the horizon": [add("a", due=10_500_000)],
        "a job is due later": [add("a", due=10_500_001)],
        "a schedule is due at the horizon": [settings(fires=NOW + 10_500_000)],
        "a schedule is due later": [settings(fires=NOW + HOUR)],
        "a reservation ends at the horizon": [raw("ZADD", "reserved", NOW + 10_500_000, "a")],
        "a reservation ends later": [raw("ZADD", "reserved", NOW + HOUR, "a")],
        "a pop of this minute": [raw("HSET", "meta", "last", 1, "minute", NOW // MINUTE)],
        "no pop of this minute": [raw("HSET", "meta", "last", 1, "minute", NOW // MINUTE - 1)],
        "no minute was noted": [raw("HSET", "meta", "last", 1)],
        "it has partitions": [raw("SET", "meta", 3)],
        "a key is damaged": [raw("SET", "due", "x")],
        "the reservations are damaged": [raw("SET", "reserved", "x")],
        "both have ready jobs": [add("a"), raw("ZADD", "u:due", NOW, "a")],
        "the other one has a ready job": [raw("ZADD", "u:due", NOW, "a"), raw("HSET", "u:meta", "fires", NOW + HOUR)],
    }
    return [Case(f"two topics are looked at: {state}", before, step("topic/look")) for state, before in states.items()]


def cases_of_settings() -> list[Case]:
    def configure(place: int = 0, parts: int = 1, version: Any = "", at: int = SECOND, **fields: Any) -> Step:
        return step("topic/configure", place, parts, version, *(one for pair in fields.items() for one in pair), at=at)

    everything = {
        "ttr": 7 * SECOND, "max_attempts": 3, "keep_dead": HOUR, "rate": f"100 {SECOND}", "burst": 8, "concurrency": 7, "max_lateness": HOUR,
        "keep_finished": HOUR,
    }  # fmt: skip
    none = dict.fromkeys(everything, "")
    whole = {"rate": f"100 {SECOND}", "burst": 8, "concurrency": 7, "ttr": 5}
    full = [configure(concurrency=1, at=0), add(*"ab"), pop()]
    cases = [
        Case("nothing is set in an empty topic", [], configure()),
        Case("everything is set in an empty topic", [], configure(**everything)),
        Case("the settings are read", [configure(**everything, at=0)], configure()),
        Case("the settings are read, and no consumer is called", [configure(**everything, at=0), add("a"), raw("DEL", "wake", key("relay"))], configure()),
        Case("everything is removed", [configure(**everything, at=0)], configure(**none)),
        Case("everything is removed from an empty topic", [], configure(**none)),
        Case("a setting that is no limit", [add("a")], configure(ttr=5)),
        Case("a rate gets a burst", [], configure(rate=f"100 {SECOND}")),
        Case("a slow rate gets a burst of one", [], configure(rate=f"1 {HOUR}")),
        Case("a rate is changed", [configure(rate=f"10 {SECOND}", at=0), add(*"ab"), pop()], configure(rate=f"20 {SECOND}")),
        Case("a rate is set again", [configure(rate=f"10 {SECOND}", at=0), add(*"ab"), pop()], configure(rate=f"10 {SECOND}")),
        Case("a rate is removed, and a limit stays", [configure(rate=f"10 {SECOND}", concurrency=2, at=0)], configure(rate="")),
        Case("a limit is raised in a full topic", full, configure(concurrency=2)),
        Case("a limit is lowered in a full topic", full, configure(concurrency=1)),
        Case("a limit is removed in a full topic, and another is set", full, configure(concurrency="", max_lateness=HOUR)),
        Case("a limit is raised in a topic that is not full", [configure(concurrency=2, at=0)], configure(concurrency=3)),
        Case("a topic with a seat and a job", [SEAT, add("a", due=5 * SECOND)], configure(concurrency=3)),
        Case("a topic with partitions is no plain one", [raw("SET", "meta", 3), raw("SET", "jobs", 3)], configure(ttr=5)),
    ]  # fmt: skip
    cases += [
        Case(f"partition {place} gets its share", [], configure(place, 3, 4 if place else "", **whole))
        for place in range(3)
    ]
    ruled = [configure(1, 3, 4, **whole, at=0)]
    return [
        *cases,
        Case("the second of two partitions gets its share", [], configure(1, 2, 1, **whole)),
        Case("the first partition's version rises above its own", [configure(0, 3, **whole, at=0)], configure(0, 3, 1, ttr=9)),
        Case("the first partition is read", [configure(0, 3, **whole, at=0)], configure(0, 3)),
        Case("the first partition's version rises", [configure(0, 3, **whole, at=0)], configure(0, 3, ttr=9)),
        Case("the first partition's version rises above one", [configure(0, 3, **whole, at=0)], configure(0, 3, 8, ttr=9)),
        Case("a partition keeps what is as new", ruled, configure(1, 3, 4, ttr=9)),
        Case("a partition takes what is newer", ruled, configure(1, 3, 5, ttr=9)),
        Case("a partition takes a newer version without settings", ruled, configure(1, 3, 5)),
        Case("a partition's limits are removed", ruled, configure(1, 3, 5, rate="", burst="", concurrency="")),
        Case("a rate of a partition gets a burst", [], configure(2, 3, 1, rate=f"100 {SECOND}")),
    ]  # fmt: skip


def cases_of_purges() -> list[Case]:
    def purge(place: str, side: str = "", limit: int = 10) -> Step:
        return step("topic/purge", place, side, limit, at=2)

    places = ("all", "due", "reserved", "dead", "retrying", "finished")
    cases = [Case(f"an empty topic is purged: {place}", [], purge(place)) for place in places]
    cases += [Case(f"a topic is purged: {place}", [*EVERYWHERE, KEEPS], purge(place)) for place in places]
    return [
        *cases,
        Case("finished jobs are purged", FINISHED, purge("finished")),
        Case("finished jobs are purged, and some are over", [*FINISHED, raw("ZADD", "finished", NOW - 5, "c")], purge("finished")),
        Case("finished jobs are purged, the keep of one ends", [*FINISHED, raw("ZADD", "finished", NOW + 2, "c")], purge("finished")),
        Case("finished jobs are purged, all are over", [KEEPS, raw("ZADD", "finished", NOW - 5, "c")], purge("finished")),
        Case("a topic with history is purged", FINISHED, purge("all")),
        Case("two jobs are purged of three", [add(*"abc")], purge("due", limit=2)),
        Case("ready jobs are purged", EVERYWHERE, purge("due", "past")),
        Case("delayed jobs are purged", EVERYWHERE, purge("due", "future")),
        Case("reservations that are over are purged", EVERYWHERE, purge("reserved", "past")),
        Case("a full topic is purged", [ONE_AT_A_TIME, add(*"ab"), pop()], purge("reserved")),
        Case("a full topic is purged of a due job", [ONE_AT_A_TIME, add(*"ab"), pop()], purge("due")),
        Case("a full topic is purged of no dead job", [ONE_AT_A_TIME, add(*"ab"), pop()], purge("dead")),
        Case("a full topic is purged of all", [ONE_AT_A_TIME, add(*"ab"), pop()], purge("all")),
        Case("a topic with seats and tokens is purged", [add("a"), TWO_SEATS, raw("RPUSH", "wake", 1)], purge("due")),
    ]  # fmt: skip


def cases_of_holders_jobs() -> list[Case]:
    absence = str(NOW + 7)

    def free(*answered: int, counted: int = 1, max_jobs: Any = "", after: Any = "", up_to: Any = "", at: int = SECOND) -> Step:  # fmt: skip
        return step("topic/release_holder", "w", counted, max_jobs, "", after, up_to, 0, 10, *answered, at=at)

    def free_absent(since: str = absence, at: int = SECOND) -> Step:
        return step("topic/release_holder", "w", 1, "", since, "", "", 0, 10, at=at)

    def free_another(at: int) -> Step:
        return step("topic/release_holder", "v", 1, "", 1, "", "", 0, 10, at=at)

    def touch(ttr: int = HOUR, at: int = SECOND) -> Step:
        return step("topic/touch_holder", "w", ttr, 0, 10, at=at)

    two = [add(*"ab"), pop(2)]
    mixed = [add(*"abc"), pop(), pop(holder="v", at=1), pop(at=2, ttr=HOUR), add("d", at=3), pop(ttr=1, at=3)]
    last = [add("a", stored=value(max_attempts=1)), pop()]
    confirmed = [*last, step("topic/confirm", "a", NOW)]
    marked = [*two, free_absent()]
    renewed = [*marked, step("topic/touch", 0, "a", NOW, HOUR, 1, at=SECOND + 9)]
    old = SECOND + 300_000
    return [
        Case("no job of a holder is released", [], free()),
        Case("a holder's jobs are released", two, free()),
        Case("a holder's jobs are released, not counted", two, free(counted=0)),
        Case("only this holder's jobs are released", mixed, free()),
        Case("one of a holder's jobs is released", [add(*"abc"), pop(3)], free(max_jobs=1)),
        Case("none of a holder's jobs is released", two, free(max_jobs=0)),
        Case("jobs of receipts in a range are released", mixed, free(after=NOW, up_to=NOW + 2)),
        Case("jobs of receipts that were answered stay", mixed, free(NOW, after=NOW - 1, up_to=NOW + 2)),
        Case("a holder's job fails at its second attempt", [add("a"), pop(), release("a", at=1), pop(at=2)], free()),
        Case("a holder's last attempt was not confirmed", last, free()),
        Case("a holder's last attempt was confirmed", confirmed, free()),
        Case("a holder's last attempt was confirmed, not counted", confirmed, free(counted=0)),
        Case("a holder's job has a priority", [add("a", stored=value(priority=2)), pop()], free()),
        Case("a holder's job is released in a full topic", [ONE_AT_A_TIME, add(*"ab"), pop()], free()),
        Case("a holder's job has any number of attempts", [settings(max_attempts=4294967295), add("a"), pop()], free()),
        Case("no job of a holder is released, and no consumer is called", [add(*"ab"), pop(holder="v"), raw("DEL", "wake", key("relay"))], free()),
        Case("reservations without runs stay", [*two, raw("DEL", "runs")], free()),
        Case("an absent holder of an empty topic is not marked", [], free_absent()),
        Case("an absent holder is marked", two, free_absent()),
        Case("an absent holder is marked before any receipt", [raw("ZADD", "reserved", NOW + HOUR, "a")], free_absent()),
        Case("an absent holder is marked for another absence", marked, free_absent(str(NOW + 2 * SECOND), at=3 * SECOND)),
        Case("an absent holder's mark is too young", marked, free_absent(at=old - 1)),
        Case("an absent holder's jobs are released", marked, free_absent(at=old)),
        Case("an absent holder's damaged run stays", [*marked, raw("HSET", "runs", "a", "x")], free_absent(at=old)),
        Case("an absent holder has shown that it lives", renewed, free_absent(at=old)),
        Case("an absent holder is marked in place of an old mark", [*two, OLD_MISSED], free_absent()),
        Case("an absent holder's jobs are released, another one's mark is a minute old", [add("a"), pop(holder="v"), BOTH_MISSED], free_another(MINUTE)),
        Case("an absent holder is marked beside a damaged mark", [*two, raw("HSET", "meta", "missed", "\x81\xa1v\x01")], free_absent()),
        Case("an absent holder's jobs are released, another one's mark is older", [add("a"), pop(holder="v"), BOTH_MISSED], free_another(MINUTE + 1)),
        Case("an absent holder is marked, and the marks cannot be read", [*two, NO_MISSED], free_absent()),
        Case("no job of a holder is renewed", [], touch()),
        Case("a holder's jobs are renewed", two, touch()),
        Case("only this holder's jobs are renewed, that end sooner and are not over", mixed, touch(HOUR // 2)),
        Case("a holder's only job is renewed", [add("a"), pop()], touch()),
        Case("a reservation that ends at the moment is not renewed", [add("a"), pop(ttr=SECOND)], touch()),
        Case("jobs that end later are not renewed", two, touch(SECOND)),
    ]  # fmt: skip
