"""The vectors of topics with keys. A call without the keys of such jobs is a `short` one."""

from __future__ import annotations

import struct
from typing import Any

from vectors import table
from vectors.calls import Case, Step
from vectors.table import (
    HOUR,
    NOW,
    SECOND,
    USUAL,
    add,
    bury,
    delete,
    kick,
    pop,
    raw,
    release,
    reschedule,
    settings,
    step,
    value,
)
from vectors.table_views import PARTITIONED

OF_K, OF_L = value(key="k"), value(key="l")
HIGH = value(key="k", priority=3)
URGENT = value(priority=2)
PLACE = settings(key_concurrency=1, key_limits="1 0 0 0")
TWO_PLACES = settings(key_concurrency=2, key_limits="2 0 0 0")
HELD = raw("ZADD", "by_key", 0, "k\0/" + struct.pack(">d", NOW + 60 * SECOND).decode("latin-1") + "x")
MANY_PLACES = settings(key_concurrency=9, key_limits="9 0 0 0")
SETTLED = raw("HSET", "meta", "minute", 10**9)
HOLDS = settings(retry_holds_key=1)
FAIR = settings(fair=1, key_limits="0 0 0 1")
RATE = settings(key_rate=f"3 {SECOND}", key_limits=f"0 3 {SECOND} 0")


def short(call: Step) -> Step:
    return call._replace(fewer=4)


def finish(*ids: str, receipt: int = 0, result: str = "", replay: int = 0, at: int = SECOND) -> Step:
    return table.finish(*ids, receipt=receipt, result=result, replay=replay, at=at)._replace(fewer=0)


def of_k(*ids: str, due: Any = 0, at: int = 0) -> Step:
    return add(*ids, due=due, stored=OF_K, at=at)


def usual_pops() -> list[Case]:
    """Of one job, after the first pop of the minute."""
    situations: dict[str, list[Step]] = {
        "the only one of its key": [of_k("a"), add("b", stored=OF_L)],
        "one of two": [TWO_PLACES, of_k("a", "b")],
        "one that takes turns": [FAIR, of_k("a", "b"), add("c", stored=OF_L)],
        "one of a key that has many places": [MANY_PLACES, of_k("a", "b"), add("c", due=HOUR)],
        "one of a key with four that are reserved": [MANY_PLACES, of_k(*"abcdef"), pop(4)],
        "one that has been due for longer than its key had a turn": [FAIR, of_k("a", "b"), pop(at=SECOND)],
        "one of a key that has a rate": [RATE, of_k("a", "b")],
        "one before another that is due later": [settings(keep_finished=SECOND), of_k("a"), of_k("b", due=HOUR)],
        "one before another that is due later, and has a priority": [
            add("a", stored=HIGH),
            add("b", stored=HIGH, due=HOUR),
            of_k("c"),
        ],
        "one that was handed out before": [of_k("a"), pop(), release("a", due=0)],
        "one behind a job without a key": [add("a"), of_k("b")],
        "one whose key had a turn while it was paused": [
            of_k("a"),
            pause(HOUR),
            raw("ZADD", "turns", NOW, "k"),
        ],
        "one whose key's pause is over": [of_k("a", "b"), pause(1000)],
        "one that is damaged": [of_k("a"), raw("HSET", "jobs", "a", "x")],
        "one that has a maximum lateness": [add("a", stored=value(key="k", max_lateness=HOUR))],
    }
    return [
        Case(f"a job with a key is popped alone: {situation}", [*given, SETTLED], pop(ttr=0, at=2 * SECOND))
        for situation, given in situations.items()
    ]


def configure(*fields: Any, at: int = SECOND) -> Step:
    return step("topic/configure", 0, 1, "", *fields, at=at)


def pause(span: Any, key: str = "k", longer: Any = "", at: int = SECOND) -> Step:
    return step("topic/pause", span, longer, key, at=at)


def key_stats(*keys: str, at: int = SECOND) -> Step:
    return step("topic/key_stats", *keys, at=at)


def purge(place: str, limit: int = 100) -> Step:
    return step("topic/purge_key", "k", place, limit, at=SECOND)


def alone(id: str, due: Any = 0, key: str = "k", at: int = 0, **head: Any) -> Step:
    """A small add."""
    return table.leased(step("topic/add_with_key", id, f"n{due}", value(key=key, **head), at=at))


def cases_of_keys() -> list[Case]:
    three = [of_k("a", "b"), add("c", stored=OF_L), add("d")]
    held = [PLACE, *three, pop(4)]
    retried = [HOLDS, *three, pop(), release("a", due=HOUR)]
    stopped = [*retried, configure("retry_holds_key", "")]
    ten = [add(f"job {n}", stored=value(key=f"key {n}")) for n in range(10)]
    return [
        Case("jobs with keys", [], of_k("a", "b")),
        Case("a job with a key, and another one of it", [of_k("a")], of_k("b", due=HOUR)),
        Case("a job with a key is due sooner than those before", [of_k("a", due=HOUR)], of_k("b")),
        Case("a job with a key, without their keys", [], short(of_k("a"))),
        Case("the first job with a key is added alone", [], alone("a")),
        Case("a job with a key is added alone, and its id is taken", [of_k("a")], alone("a", HOUR)),
        Case("a job with a key is added alone for 1970", [of_k("a")], alone("b", "@0")),
        Case("a job of another key is added alone", [of_k("a")], alone("b", key="l")),
        Case("a job of another key is added alone, due later", [of_k("a")], alone("b", HOUR, key="l")),
        Case("a job of a key is added alone, due sooner", [of_k("a", due=HOUR)], alone("b", f"@{NOW + SECOND}", at=1)),
        Case("a job of a key is added alone, due later", [of_k("a")], alone("b", HOUR)),
        Case("a job of a key that is full is added alone", [PLACE, of_k("a"), pop()], alone("b", at=1)),
        Case("a job of a key that has a place is added alone", [TWO_PLACES, of_k("a"), pop()], alone("b", at=1)),
        Case("a job of a key that takes turns is added alone", [FAIR, of_k("a"), pop()], alone("b")),
        Case("a job of a key that has spent its rate is added alone", [RATE, of_k("a"), pop()], alone("b", at=1)),
        Case(
            "a job of a key that is paused is added alone",
            [of_k("a"), pause(HOUR), pop(at=2 * SECOND)],
            alone("b", at=2 * SECOND),
        ),
        Case(
            "a job with all fields and a key is added alone",
            [of_k("a", due=HOUR)],
            alone("b", nonce="other.", ttr_ms=1000, max_attempts=2, max_lateness=SECOND, headers="x"),
        ),
        Case("a job without a key where others have one, without their keys", [of_k("a")], short(add("b"))),
        Case(
            "a job with a key is replaced, with a lease and without their keys",
            [of_k("a")],
            short(step("topic/add", "each", NOW // SECOND, 0, "b", "k0", USUAL, "a", "r0", USUAL)),
        ),
        Case("a job with a key is replaced by one without", [of_k("a")], add("a", mark="r")),
        Case(
            "a reserved job with a key is replaced",
            [PLACE, of_k("a", "b"), pop()],
            add("a", mark="r", stored=value(nonce="other.", key="l")),
        ),
        Case(
            "a job gets a key in the add that adds it",
            [],
            step(
                "topic/add",
                "all",
                0,
                0,
                "a",
                "k0",
                USUAL,
                "a",
                "u0",
                value(nonce="other.", key="k"),
                "b",
                "k0",
                USUAL,
                "b",
                "r0",
                value(nonce="other.", key="k"),
            ),
        ),
        Case("a job gets another key", [of_k("a")], add("a", mark="u", stored=value(nonce="other.", key="l"))),
        Case("a job gets a key", [add("a")], add("a", mark="u", stored=value(nonce="other.", key="l"))),
        Case(
            "a job of a topic with keys is updated",
            [of_k("b"), add("a", stored=URGENT)],
            add("a", mark="u", stored=value("2", nonce="other.")),
        ),
        Case("jobs of keys are handed out by their due times", three, pop(4)),
        Case("jobs of keys are handed out, without their keys", three, short(pop(4))),
        Case("a key has one place", [PLACE, *three], pop(4)),
        Case("a key has two places", [TWO_PLACES, *three, of_k("e", "f")], pop(3)),
        Case("a key has two places, and one is taken", [TWO_PLACES, *three, of_k("e"), pop()], pop(4)),
        Case(
            "jobs of two keys are due by turns",
            [of_k("a"), of_k("b", due=50), add("c", stored=OF_L, due=20), add("d", stored=OF_L, due=30)],
            pop(4, at=SECOND),
        ),
        Case("a key has many places", [MANY_PLACES, of_k(*"abcdefghij"), pop(1)], pop(10)),
        Case(
            "a key has no job but those that are reserved",
            [TWO_PLACES, of_k("a", "b"), pop(1), delete("b"), raw("ZADD", "turns", NOW, "k")],
            pop(1),
        ),
        Case("many jobs of one key", [of_k("a", "b", "c", "d", "e")], pop(4)),
        *usual_pops(),
        Case("keys take turns", [FAIR, *three, of_k("e", "f", "g"), add("h", "i")], pop(8)),
        Case("keys take turns from where they were", [FAIR, *three, of_k("e", "f"), add("h", "i"), pop(3)], pop(1)),
        Case(
            "a key is due before the ring ends",
            [FAIR, of_k("a", "b", "c", "d"), pop(4), add("e", due=1, stored=OF_L)],
            pop(),
        ),
        Case("a key that comes enters at the end", [FAIR, of_k("a", "b"), pop(1)], add("c", stored=OF_L)),
        Case("a key has spent its rate", [RATE, of_k("a", "b"), pop(2)], pop(2, at=1000)),
        Case("a key may go on", [RATE, of_k("a", "b", "c"), pop(3)], pop(3, at=SECOND)),
        Case("a key that is delayed", [FAIR, of_k("a", due=HOUR), of_k("b")], pop(2)),
        Case("of a key the highest priority comes first", [of_k("a"), add("b", stored=HIGH)], pop(1)),
        Case("of a key the highest priority is not due", [of_k("a"), add("b", stored=HIGH, due=HOUR)], pop(2)),
        Case(
            "jobs without a key come first by their priority",
            [add("a", "b", stored=URGENT), *[of_k("k")], add("c")],
            pop(3),
        ),
        Case("jobs with a key wait for a schedule", [of_k("a"), settings(fires=NOW - SECOND)], pop(2)),
        Case("a key's job is unreadable", [of_k("a", "b"), raw("HSET", "jobs", "a", "x")], pop(2)),
        Case("a key's turn is of a job that is gone", [of_k("a"), raw("DEL", "by_key")], pop(2)),
        Case("a job without a key is delayed, and one with a key is not", [of_k("a"), add("b", due=HOUR)], pop(2)),
        Case(
            "a key is free whose highest job is not due",
            [PLACE, of_k("a"), pop(), add("b", stored=HIGH, due=HOUR), of_k("c")],
            finish("a"),
        ),
        Case(
            "a key is free whose jobs are not due",
            [PLACE, of_k("a"), pop(), add("b", stored=HIGH, due=HOUR), of_k("c", due=2 * HOUR)],
            finish("a"),
        ),
        Case("a job with a key is finished", held, finish("a")),
        Case("jobs with and without a key are finished", held, finish("a", "c", "d")),
        Case("a job of a key that has two places is finished", [TWO_PLACES, *three, pop(1)], finish("a")),
        Case("a job with a key is finished twice in one call", held, finish("a", "a", "d")),
        Case("a job of a topic with keys is finished too late", held, finish("a", at=HOUR)),
        Case("a job with a key is finished, without their keys", held, short(finish("a"))),
        Case(
            "a job with a key is finished again, without their keys",
            [*held, release("a")],
            short(finish("a", replay=1)),
        ),
        Case("a job with a key that was put back is finished again", [*held, release("a")], finish("a", replay=1)),
        Case("a job with a key is released", held, release("a")),
        Case("a job with a key is released, without their keys", held, short(release("a"))),
        Case("a job with a key dies", held, bury("a")),
        Case("a job with a key that was put back dies again", [*held, release("a")], bury("a", replay=1)),
        Case(
            "a changed job with a key goes on",
            [*held, add("a", mark="u", stored=value("2", nonce="other.", key="k"))],
            bury("a"),
        ),
        Case("a job with a key is kicked", [*held, bury("a")], kick("a")),
        Case("jobs with a key are deleted", held, delete("a", "b", "c")),
        Case("the only waiting job of a key is deleted", [of_k("a")], delete("a")),
        Case("jobs with a key are cancelled", held, step("topic/cancel", "a", "b", at=SECOND)),
        Case("jobs with a key are rescheduled", held, reschedule("b")),
        Case("a reservation with a key is over, and the job is rescheduled", held, reschedule("a", at=HOUR)),
        Case("reservations with keys are over", held, pop(4, at=HOUR)),
        Case(
            "a job with a key is popped by its id", [of_k("a", "b")], step("topic/pop_by_id", "b", "ready", SECOND, "w")
        ),
        Case(
            "a job with a key whose reservation is over is popped by its id",
            held,
            step("topic/pop_by_id", "a", "ready", SECOND, "w", at=HOUR),
        ),
        Case("a holder with keys dies", held, step("topic/release_holder", "w", 1, "", "", "", "", 0, 100, at=SECOND)),
        Case(
            "a last attempt with a key is confirmed",
            [add("a", stored=value(key="k", max_attempts=1)), pop()],
            step("topic/confirm", "a", NOW, at=1),
        ),
        Case("waiting jobs with keys are purged", held, step("topic/purge", "due", "past", 100, at=SECOND)),
        Case("reserved jobs with keys are purged", held, step("topic/purge", "reserved", "future", 100, at=SECOND)),
        Case("a topic with keys is purged", held, step("topic/purge", "all", "", 0, at=SECOND)),
        Case(
            "a page of jobs with and without keys",
            [*three, of_k("e", due=HOUR)],
            step("topic/list", "due", "", "", "", "", 3),
        ),
        Case(
            "a later page of jobs with and without keys",
            [*three, of_k("e", due=HOUR)],
            step("topic/list", "due", "", NOW - 1, "", "b", 3),
        ),
        Case("the numbers of a topic with keys", held, step("topic/stats", 600 * SECOND, at=SECOND)),
        Case(
            "the numbers of a topic whose keys are full",
            [PLACE, of_k("a", "b"), pop()],
            step("topic/stats", 600 * SECOND, at=SECOND),
        ),
        Case(
            "the numbers of a topic whose keys have spent their rate",
            [RATE, of_k("a", "b"), pop()],
            step("topic/stats", 600 * SECOND, at=1000),
        ),
        *[
            Case(f"the numbers of a topic whose keys {what}", before, step("topic/stats", 600 * SECOND, at=at))
            for what, before, at in [
                ("have one place", [PLACE, *three, of_k("e"), pop()], SECOND),
                ("have one place, and are free", [PLACE, *three], SECOND),
                ("have two places", [TWO_PLACES, *three, of_k("e"), pop()], SECOND),
                ("have had turns ahead of the clock", [PLACE, *three, settings(turn=NOW + HOUR)], SECOND),
            ]
        ],
        Case("the numbers of a key that waits for a retry", [of_k("a"), HELD], key_stats("k", at=2 * SECOND)),
        Case("the numbers of a key whose retry is due", [of_k("a"), HELD], key_stats("k", at=HOUR)),
        Case(
            "the numbers of keys that are full", [PLACE, *three, of_k("e", due=HOUR), pop()], key_stats("k", "l", "m")
        ),
        Case("the numbers of a key with two places", [TWO_PLACES, *three, of_k("e"), pop()], key_stats("k")),
        Case(
            "the numbers of keys that have spent their rate",
            [RATE, *three, add("e", stored=HIGH), pop()],
            key_stats("k", "l", at=1000),
        ),
        Case("the numbers of a key that is paused", [of_k("a"), pause(HOUR)], key_stats("k", at=2 * SECOND)),
        Case("the numbers of keys without limits", three, key_stats("k", "l", at=2 * SECOND)),
        Case("the numbers of a topic with partitions, by key", PARTITIONED, key_stats("k")),
        Case("the numbers of a key without jobs", [], key_stats("k")),
        Case("the busiest keys of no jobs", [], step("topic/busiest_keys", "", "", 10)),
        Case("the jobs of a key that has none are purged", [], purge("all")),
        Case("the busiest keys", three, step("topic/busiest_keys", "", "", 10)),
        Case("the busiest keys, in steps", three, step("topic/busiest_keys", "", "", 1)),
        Case("the busiest keys, behind one", [*three, of_k("k\1")], step("topic/busiest_keys", "k", 1, 10)),
        Case("the busiest keys, behind one, at a distance", three, step("topic/busiest_keys", "k", 3, 10)),
        Case(
            "the busiest keys, of which one begins with another",
            [of_k("a"), add("b", stored=value(key="k\1"))],
            step("topic/busiest_keys", "", 1, 10),
        ),
        Case("the jobs of a key are purged", [*held, of_k("e", due=HOUR)], purge("all")),
        Case("the jobs of a key that wait are purged", [*held, of_k("e", due=HOUR)], purge("ready")),
        Case("the jobs of a key that are delayed are purged", [*held, of_k("e", due=HOUR)], purge("delayed")),
        Case("the jobs of a key that are reserved are purged", held, purge("reserved")),
        Case(
            "the jobs of a key are purged whose bytes are counted",
            [settings(bounds=f"0 1000 {NOW - HOUR}", bytes="20"), of_k("a")],
            purge("all"),
        ),
        Case("an unreadable job with a key is deleted", [of_k("a", "b"), raw("HSET", "jobs", "a", "x")], delete("a")),
        Case("one job of a key is purged", three, purge("all", limit=1)),
        Case("an unreadable job of a key is purged", [of_k("a", "b"), raw("HSET", "jobs", "a", "x")], purge("all")),
        Case("the jobs of a key are gone that are purged", [of_k("a", "b"), raw("DEL", "keyed")], purge("all")),
        *[
            Case(f"a key that a retry holds: {what}", before, call)
            for what, before, call in [
                ("it is released", [HOLDS, *three, pop()], release("a", due=HOUR)),
                ("it is put off", [HOLDS, *three, pop()], release("a", due=HOUR, counted=0)),
                ("pop", [*retried], pop(4, at=2)),
                ("pop, and its turn came too soon", [*retried, raw("ZADD", "turns", NOW, "k")], pop(4, at=2)),
                ("pop when it is due", [*retried], pop(4, at=HOUR + SECOND)),
                ("pop behind it", [*retried, of_k("e", due=HOUR)], pop(1, at=HOUR + SECOND)),
                (
                    "pop between two of them",
                    [HOLDS, *three, of_k("e"), pop(2), release("a", due=SECOND), release("b", due=HOUR)],
                    pop(4, at=5 * SECOND),
                ),
                ("its reservation is over", [HOLDS, *three, pop()], pop(4, at=HOUR)),
                (
                    "its holder dies",
                    [HOLDS, *three, pop()],
                    step("topic/release_holder", "w", 1, "", "", "", "", 0, 100, at=1),
                ),
                ("it is deleted", retried, delete("a")),
                ("it is rescheduled", retried, reschedule("a", at=2 * SECOND)),
                ("it is updated", retried, add("a", mark="u", stored=value("2", nonce="other.", key="k"))),
                ("it is purged", retried, purge("delayed")),
                ("it is popped by its id", retried, step("topic/pop_by_id", "a", "delayed", SECOND, "w", at=SECOND)),
                ("its numbers", retried, key_stats("k")),
            ]
        ],
        Case("a job comes behind a retry that holds its key", retried, of_k("e", at=2 * SECOND)),
        Case("a job is added alone behind a retry that holds its key", retried, alone("e", at=2 * SECOND)),
        Case("a retry is to hold its key", [], configure("retry_holds_key", 1)),
        Case("retries stop holding their keys", retried, configure("retry_holds_key", "")),
        Case("a retry stopped holding its key", stopped, pop(4, at=2 * SECOND)),
        Case("a retry stopped holding its key, the numbers", stopped, key_stats("k", at=2 * SECOND)),
        Case("a key is paused", [of_k("a")], pause(HOUR)),
        Case("a key is paused, but not for a shorter time", [of_k("a"), pause(HOUR)], pause(SECOND, longer=1)),
        Case("a key's pause ends", [of_k("a"), pause(HOUR)], pause("")),
        Case("a paused key", [of_k("a"), add("b", stored=OF_L), pause(HOUR)], pop(2, at=2 * SECOND)),
        Case("limits for keys", [], configure("key_concurrency", 2, "key_rate", f"5 {SECOND}", "fair", 1)),
        Case("limits for keys, after the first job", [*three, pop()], configure("key_concurrency", 1)),
        Case("no more limits for keys", held, configure("key_concurrency", "")),
        Case("a key is found again, and is full", [*held, raw("HSET", "meta", "recount", "")], pop(4, at=2 * SECOND)),
        Case(
            "a key is found again, and its many places are taken",
            [MANY_PLACES, of_k(*"abcdefghij"), pop(9), raw("HSET", "meta", "recount", "")],
            pop(4, at=2 * SECOND),
        ),
        Case("the keys are found again", [*held, configure("key_concurrency", "")], pop(4, at=2 * SECOND)),
        Case(
            "the keys are found again, eight in a pop",
            [PLACE, *ten, configure("key_concurrency", "")],
            pop(4, at=2 * SECOND),
        ),
        Case("the clock was set back, with keys", [FAIR, *three, settings(turn=NOW + HOUR)], pop(4)),
        Case(
            "a schedule's jobs have a key",
            [raw("ZADD", "schedules", NOW, "s"), step("schedules/put", "s", "every 60", "", OF_K, NOW, NOW - 1)],
            step("schedules/fire", 0, "s", NOW, NOW - 1, "", NOW, 0, f"{NOW} x"),
        ),
        Case("a job with a key leaves", held, step("migration/depart", 10, "n@x", "", 0, at=SECOND)),
        Case(
            "a job with a key arrives",
            [],
            step("migration/arrive", "s.1.n", "a", f"due {NOW}", "1234567" + OF_K, "", ""),
        ),
        Case(
            "a job with a key comes back",
            [of_k("a"), step("migration/depart", 10, "n@x", "", 0)],
            step("migration/end_departure", f"n.{NOW}.n@x", "a", 0),
        ),
    ]
