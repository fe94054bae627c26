"""The table for jobs and schedules that move to another topic: they depart, arrive, and the departure ends."""

from __future__ import annotations

import struct
from typing import Any

from vectors.calls import Case, Step
from vectors.table import (
    HOUR,
    NOW,
    SECOND,
    TWO_SEATS,
    USUAL,
    add,
    bury,
    delete,
    pop,
    raw,
    release,
    settings,
    step,
    value,
)
from vectors.table_schedules import EVERY_HOUR, NEWER, damaged, declare, packed, put, set_state
from vectors.table_views import PARTITIONED

NONCE = "s@d t"
"""From a topic of the name s to the topic t of the name d."""
TAKEN = "1234567"
"""The moment in a job's record, as bytes."""


def departure(at: int = 0) -> str:
    return f"s.{NOW + at}.{NONCE}"


def packed_run(first: int = 0, holder: str = "", fault: str = "") -> str:
    """The run of a job that was handed out twice; ``first``: when it failed first."""
    return struct.pack("<IIddB", 2, 0, NOW - 9, first, len(holder)).decode("latin-1") + holder + fault


HANDED_OUT, FAILED = packed_run(), packed_run(NOW - 99, "w", "oh")


def cases_of_moved_jobs() -> list[Case]:
    def depart(limit: int = 10, overtaken: str = "", above: Any = 0, at: int = 0) -> Step:
        return step("migration/depart", limit, NONCE, overtaken, above, at=at)

    def end(*arrived: str, of: str = departure()) -> Step:
        """``arrived``: such as `a1`, or `b0` for one that was refused."""
        return step("migration/end_departure", of, *(one for word in arrived for one in word), at=SECOND)

    def job(id: str, place: str = f"due {NOW + HOUR}", stored: str = USUAL, run: str = "", failed: str = "") -> list[str]:  # fmt: skip
        return [id, place, TAKEN + stored, run, failed]

    def arrive(*jobs: list[str], of: str = departure(), at: int = SECOND) -> Step:
        return step("migration/arrive", of, *(one for fields in jobs for one in fields), at=at)

    two = [add("a"), add("b", due=HOUR)]
    died = [add("c", at=-9), pop(at=-9), bury("c", receipt=-9, at=-8)]
    failed = [add("a", at=-9), pop(at=-9), release("a", receipt=-9, due=HOUR, at=-8)]
    retried = [add("a", at=-9), pop(at=-9), release("a", receipt=-9, at=-8)]
    ranked = [add("a", stored=value(priority=2))]
    holding = [
        settings(retry_holds_key=1),
        add("a", stored=value(key="k"), at=-9),
        pop(at=-9),
        release("a", receipt=-9, due=HOUR, at=-8),
    ]
    left = [*two, depart()]
    named = raw("HSET", "leaving", "", departure())
    own = [named, raw("HSET", "leaving", "a", f"due {NOW}"), raw("HSET", "jobs", "a", TAKEN + USUAL)]
    ahead = raw("HSET", "meta", "departed", departure(HOUR))
    unknown = raw("HSET", "leaving", "a", f"new {NOW}")
    weighed = settings(bounds=f"1 1000 {NOW}", bytes=100)
    cases = [
        Case("the bytes of jobs that depart", [*two, weighed], depart()),
        Case(
            "the bytes of jobs that are put back and depart", [*two, pop(2, ttr=5), weighed], depart(limit=1, at=SECOND)
        ),
        Case(
            "the bytes of jobs that arrive in a full topic",
            [weighed],
            arrive(job("a"), job("b"), job("c", f"dead {NOW}")),
        ),
        Case("the bytes of jobs that are put back", [*left, weighed], end("a1", "b0")),
    ]
    for what, before in {
        "jobs": two,
        "a dead job": died,
        "a job that failed": failed,
        "a job that failed, for now": retried,
        "a job with a priority": ranked,
        "a retry that holds its key": holding,
    }.items():
        ids = "ab" if before is two else "c" if before is died else "a"
        cases += [
            Case(f"a departure begins: {what}", before, depart()),
            Case(f"a departure ends, all arrived: {what}", [*before, depart()], end(*(f"{id}1" for id in ids))),
            Case(f"a departure ends, all were refused: {what}", [*before, depart()], end(*(f"{id}0" for id in ids))),
        ]
    return [
        *cases,
        Case("no job departs", [], depart()),
        Case("the first of two jobs departs", two, depart(1)),
        Case("dead jobs depart last", [*two, *died], depart()),
        Case("a reserved job stays", [add("a"), pop()], depart()),
        Case("jobs whose TTR is over depart", [add("a", "b"), pop(2, ttr=SECOND // 2)], depart(1, at=SECOND)),
        Case("a job whose last TTR is over departs", [add("a", stored=value(max_attempts=1)), pop(ttr=1)], depart(at=SECOND)),
        Case("jobs that have departed depart again", left, depart(at=SECOND)),
        Case("an overtaken departure gets another number", left, depart(1, departure(), NOW + HOUR, at=SECOND)),
        Case("another departure was overtaken", left, depart(1, departure(9), NOW + HOUR, at=SECOND)),
        Case("a departure that was not named is named", [*left, raw("HDEL", "leaving", "")], depart(at=SECOND)),
        Case("a job that was deleted does not depart", [*left, raw("HDEL", "jobs", "a")], depart(at=SECOND)),
        Case("all jobs that have departed were deleted", [*two, depart(1), delete("a", at=1)], depart(at=SECOND)),
        Case("a departure has no jobs left, a dead one departs", [*died, named], depart()),
        Case("a departure has no jobs left, none departs", [named], depart()),
        Case("a departure's number rises though the clock was set back", [ahead, *two], depart()),
        Case("an earlier departure's name cannot be read", [raw("HSET", "meta", "departed", "x"), *two], depart()),
        Case("a departure of a partitioned topic", PARTITIONED, depart()),
        Case("no departure ends", [], end("a1")),
        Case("another departure ends", left, end("a1", of=departure(9))),
        Case("a departure ends for one of two jobs", left, end("a1")),
        Case("a departure ends: one arrived, one was refused", left, end("a1", "b0")),
        Case("a departure ends for a job that was deleted", [*left, delete("a", at=1)], end("a1", "b1")),
        Case("a departure ends: a job without a record arrived", [*left, raw("HDEL", "jobs", "a")], end("a1")),
        Case("a departure ends: a job of a newer version's place arrived", [*left, unknown], end("a1")),
        Case("a departure ends: a job of a newer version's place was refused", [*left, unknown], end("a0")),
        Case("a departure ends: a job is put back in a topic with seats", [*left, TWO_SEATS], end("a0")),
        Case("no job arrives", [], arrive()),
        Case("a job arrives", [], arrive(job("a"))),
        Case("a ready job arrives", [], arrive(job("a", f"due {NOW}"))),
        Case("a dead job arrives", [], arrive(job("a", f"dead {NOW}", run=FAILED, failed="x"))),
        Case("a job that failed arrives", [], arrive(job("a", run=FAILED, failed="x"))),
        Case("a job that failed arrives, for now", [], arrive(job("a", f"due {NOW}", run=FAILED))),
        Case("a job that was handed out arrives", [], arrive(job("a", run=HANDED_OUT))),
        Case("a job that was changed after it was handed out arrives", [], arrive(job("a", run=packed_run(99 - NOW, "w", "oh")))),
        Case("a job with a damaged run arrives", [], arrive(job("a", run="short"))),
        Case("a job with a priority arrives", [], arrive(job("a", stored=value(priority=1)))),
        Case("a dead job with a priority arrives", [], arrive(job("a", f"dead {NOW}", stored=value(priority=2)))),
        Case("a job with half a head arrives", [], arrive(job("a", stored=""))),
        Case("two jobs arrive, one is there", [add("b")], arrive(job("a"), job("b"))),
        Case("a job arrives that is there, as it is", [raw("HSET", "jobs", "a", TAKEN + USUAL)], arrive(job("a"))),
        Case("a job arrives at its own source", own, arrive(job("a"))),
        Case("a job arrives again", [arrive(job("a")), delete("a")], arrive(job("a"), at=3 * SECOND)),
        Case("a job arrives again, beside another", [arrive(job("a"))], arrive(job("a"), job("b"))),
        Case("a job arrives again that was refused", [add("a"), arrive(job("a")), delete("a")], arrive(job("a"))),
        Case("a later departure arrives", [arrive(job("a"))], arrive(job("b"), of=departure(9))),
        Case("an earlier departure arrives", [arrive(job("a"))], arrive(job("b"), of=departure(-9))),
        Case("a departure of the same number arrives", [arrive(job("a"))], arrive(job("b"), of=departure() + "x")),
        Case("a departure of another source arrives", [arrive(job("a"))], arrive(job("b"), of=f"r.{NOW - 9}.r@d t")),
        Case("a departure whose name cannot be read arrives", [], arrive(job("a"), of="x")),
        Case("a job of a newer version's place is refused", [], arrive(job("a"), job("b", f"new {NOW}"))),
        Case("a job without a place is refused", [], arrive(job("a", ""))),
        Case("a job arrives in a topic with seats", [TWO_SEATS], arrive(job("a", f"due {NOW}"))),
        Case("a job arrives in a partitioned topic", PARTITIONED, arrive(job("a"))),
    ]  # fmt: skip


def cases_of_moved_schedules() -> list[Case]:
    def depart(cursor: int = 0, at: int = SECOND) -> Step:
        return step("migration/schedule_depart", cursor, 10, NONCE, at=at)

    def end(arrived: int, of: str = departure(SECOND), id: str = "s") -> Step:
        return step("migration/schedule_end_departure", id, of, arrived, at=2 * SECOND)

    def kept(next: Any = NOW + HOUR, declaration: str = "", plan: str = packed(), of: str = departure()) -> str:
        return f"{of}\n{next}\n{declaration}\n{plan}"

    def arrive(record: str, id: str = "s") -> Step:
        return step("migration/schedule_arrive", id, record, at=2 * SECOND)

    left = [put("s"), depart()]
    declared = [declare("s"), depart()]
    paused = [put("s"), set_state("pause", "s", at=9), depart()]
    code = f"{NOW} v1"
    return [
        Case("no schedule departs", [], depart()),
        Case("a schedule departs", [put("s")], depart()),
        Case("a declared schedule departs", [declare("s")], depart()),
        Case("a paused schedule departs", [put("s"), set_state("pause", "s", at=9)], depart()),
        Case("a newer version's schedule departs", NEWER, depart()),
        Case("a schedule departs that is a head and no more", damaged(packed()[:32]), depart()),
        Case("a damaged schedule stays, another one departs", [*damaged(), put("r")], depart()),
        Case("a schedule departs again", left, depart(at=HOUR)),
        Case("a schedule departs again, another one waits", [*left, put("r")], depart(7, at=HOUR)),
        Case("a schedule departs after a departure", [raw("HSET", "meta", "departed", departure(HOUR)), put("s")], depart()),
        Case("a schedule departs from a topic with seats", [TWO_SEATS, put("s", next=NOW + 5)], depart()),
        Case("a schedule of a partitioned topic departs", PARTITIONED, depart()),
        Case("no schedule's departure ends", [], end(1)),
        Case("no departure ends", [put("s")], step("migration/schedule_end_departure")),
        Case("a schedule's departure ends: it arrived", left, end(1)),
        Case("a schedule's departure ends: it was refused", left, end(0)),
        Case("a declared schedule's departure ends: it arrived", declared, end(1)),
        Case("a declared schedule's departure ends: it was refused", declared, end(0)),
        Case("a paused schedule's departure ends: it was refused", paused, end(0)),
        Case("a schedule's departure ends: it was refused, and put meanwhile", [*left, put("s", rhythm=EVERY_HOUR, at=SECOND)], end(0)),
        Case("another departure of a schedule ends", left, end(1, departure())),
        Case("a departure of another schedule ends", left, end(1, id="r")),
        Case("a departure of a partitioned topic's schedule ends", PARTITIONED, end(1)),
        Case("no schedule arrives", [put("s")], step("migration/schedule_arrive")),
        Case("a schedule arrives", [], arrive(kept())),
        Case("a paused schedule arrives", [], arrive(kept("", plan=packed(paused=1)))),
        Case("a declared schedule arrives", [], arrive(kept(declaration=code))),
        Case("a declared schedule arrives beside another", [declare("r", at=SECOND)], arrive(kept(declaration=code))),
        Case("a declared schedule arrives whose declaration is damaged", [], arrive(kept(declaration="x"))),
        Case("a schedule arrives that is there, alike", [put("s")], arrive(kept())),
        Case("a schedule arrives that is there with another recurrence", [put("s", rhythm=EVERY_HOUR)], arrive(kept())),
        Case("a schedule arrives that is there with another job", damaged(packed(job="\x01tea")), arrive(kept())),
        Case("a schedule arrives that is there, paused", damaged(packed(paused=1)), arrive(kept())),
        Case("a schedule arrives that is there, damaged", damaged(), arrive(kept())),
        Case("a schedule arrives that is there, a head and no more", damaged(packed()[:32]), arrive(kept())),
        Case("a schedule arrives that is there, both a head and no more", damaged(packed()[:32]), arrive(kept(plan=packed()[:32]))),
        Case("a schedule arrives at its own source", left, arrive(kept())),
        Case("a schedule arrives again", [arrive(kept()), set_state("delete", "s", at=9)], arrive(kept())),
        Case("a schedule arrives again that was refused", [put("s", rhythm=EVERY_HOUR), arrive(kept()), set_state("delete", "s", at=9)], arrive(kept())),
        Case("a schedule arrives by a later departure", [arrive(kept()), set_state("delete", "s", at=9)], arrive(kept(of=departure(9)))),
        Case("a schedule arrives by an earlier departure", [arrive(kept()), set_state("delete", "s", at=9)], arrive(kept(of=departure(-9)))),
        Case("a schedule arrives by another departure of the same number", [arrive(kept()), set_state("delete", "s", at=9)], arrive(kept(of=departure() + "x"))),
        Case("another schedule arrives by an earlier departure", [arrive(kept())], arrive(kept(of=departure(-9)), "r")),
        Case("a schedule arrives in a topic with seats", [TWO_SEATS], arrive(kept(NOW + 5))),
        Case("a schedule arrives in a partitioned topic", PARTITIONED, arrive(kept())),
    ]  # fmt: skip
