"""The table for the ends of jobs: they are read, and it is noted which can no longer be read."""

from __future__ import annotations

from typing import Any

from vectors.calls import Case, Step
from vectors.table import HOUR, KEEPS, NOW, SECOND, add, bury, delete, finish, kick, pop, raw, release, step, value

DAY = 24 * HOUR


def died(*ids: str, at: int = SECOND) -> list[Step]:
    return [add(*ids, at=at - 4), pop(len(ids), at=at - 3), bury(*ids, receipt=at - 3, at=at)]


def ended(*ids: str, at: int = SECOND, result: str = "") -> list[Step]:
    return [add(*ids, at=at - 2), pop(len(ids), at=at - 1), finish(*ids, receipt=at - 1, at=at, result=result)]


def unkept(at: int, id: str = "", since: int | None = None) -> Step:
    return raw("HSET", "meta", "unkept", f"{NOW + at} {NOW + (at if since is None else since)} {id}")


def spans(**given: int) -> Step:
    return raw("HSET", "meta", "spans", " ".join(f"{span[1:]}:{NOW + to}" for span, to in given.items()))


def configure(at: int = SECOND, **fields: Any) -> Step:
    return step("topic/configure", 0, 1, "", *(one for pair in fields.items() for one in pair), at=at)


def cases_of_ends() -> list[Case]:
    def ends(begins: int | None = 0, job: str = "", run: int = 0, limit: int = 10, at: int = 9 * SECOND) -> Step:
        since = "" if begins is None else NOW + begins
        return step("topic/ends", since, job, NOW + run if job else 0, limit, at=at)

    both = [KEEPS, *died("b"), *ended(*"ac"), *died("d", at=2 * SECOND), *ended("e", at=3 * SECOND, result="j7")]
    minute = 60 * SECOND
    two_spans = [KEEPS, *ended("a"), *ended("b", at=2 * SECOND, result=f"{minute}n"), *ended("c", at=3 * SECOND)]
    last = 4 * SECOND
    return [
        Case("the ends of an empty topic", [], ends()),
        Case("ends of a topic that keeps none", died("a"), ends()),
        Case("ends of a topic that keeps some and has none", [KEEPS], ends()),
        Case("ends from now on", both, ends(None)),
        Case("ends in their order", both, ends()),
        Case("ends of one microsecond are not all yet", both, ends(at=3 * SECOND)),
        Case("ends behind one", both, ends(SECOND, "a", SECOND - 1)),
        Case("ends behind one of the same microsecond and another place", both, ends(SECOND, "b", SECOND - 3)),
        Case("ends behind the last of a microsecond", both, ends(SECOND, "c", SECOND - 1)),
        Case("ends behind another run of a job", both, ends(SECOND, "c", SECOND - 2)),
        Case("two ends of more", both, ends(limit=2)),
        Case("the next two ends", both, ends(SECOND, "b", SECOND - 3, limit=2)),
        Case("ends of a dead job without a record", [KEEPS, raw("ZADD", "dead", NOW + 1, "a")], ends()),
        Case("ends of a finished job without a record", [KEEPS, raw("ZADD", "finished", NOW + 1 + HOUR, "a")], ends()),
        Case("one end of more", both, ends(limit=1)),
        Case("ends of jobs that are kept for two times", two_spans, ends()),
        Case("ends of jobs that are kept for two times, one by one", two_spans, ends(SECOND, "a", SECOND - 1, limit=1)),
        Case("ends of which some are over", two_spans, ends(at=2 * SECOND + minute)),
        Case("ends behind what is over", two_spans, ends(2 * SECOND + 1, at=2 * SECOND + minute)),
        Case("ends of a time that was used until now", [*two_spans, configure(at=last, keep_finished=2 * HOUR), *ended("d", at=last + 9)], ends(at=2 * HOUR + 1)),
        Case("ends of dead jobs that may be over", [*both, raw("HSET", "meta", "keep_dead", SECOND)], ends()),
        Case("ends of dead jobs that never are over", [*both, raw("HSET", "meta", "keep_dead", 0)], ends(at=HOUR)),
        Case("ends before those that are not known", [*both, unkept(2 * SECOND, "c")], ends()),
        Case("ends behind those that are not known", [*both, unkept(SECOND, "a")], ends(SECOND, "b")),
        Case("ends of which some are not known since earlier", [*both, unkept(4 * SECOND, since=2 * SECOND)], ends(3 * SECOND)),
        Case("ends from a moment to come: the clock was set back", both, ends(HOUR)),
        Case("a topic with partitions has no ends of its own", [raw("SET", "meta", 3)], ends()),
    ]  # fmt: skip


def cases_of_unkept() -> list[Case]:
    """Whatever makes an end unreadable notes it."""
    finished_twice = [KEEPS, *ended("a"), add("a", at=2 * SECOND), pop(at=2 * SECOND)]
    again = finish("a", receipt=2 * SECOND, at=3 * SECOND)
    dead = [KEEPS, *died(*"abc")]
    ahead = [KEEPS, *ended("a", at=9 * SECOND), add("b", at=10 * SECOND), pop(at=10 * SECOND)]
    many = {f"s{span}": HOUR for span in range(HOUR, HOUR + 16)}

    def own(span: int, *before: Step) -> tuple[list[Step], Step]:
        return [KEEPS, *before, add("a"), pop()], finish("a", result=f"{span}n")

    return [
        Case("a finished job takes the place of one that was kept", finished_twice, again),
        Case("a finished job takes the place of one that is kept for another time", [*finished_twice, spans(s60000000=HOUR)], again),
        Case("a finished job takes the place of one that has no moment", [*finished_twice, raw("DEL", "finished")], again),
        Case("a finished job is kept for its own time", *own(2 * HOUR)),
        Case("a finished job is kept for its own time, as others today", *own(2 * HOUR, spans(s7200000000=DAY))),
        Case("a finished job is kept for its own time, as others long ago", *own(2 * HOUR, spans(s7200000000=-1))),
        Case("a finished job is kept for the time of one too many", *own(2 * HOUR, spans(**many))),
        Case("a finished job is kept for its own time, and others are over", *own(2 * HOUR, spans(s5=-6))),
        Case("a job is finished, and the clock was set back", ahead, finish("b", receipt=10 * SECOND, at=8 * SECOND)),
        Case("a job is finished, the clock was set back, and the last record is gone", [*ahead, raw("DEL", "results")], finish("b", receipt=10 * SECOND, at=8 * SECOND)),
        Case("a finished job's record cannot be written", [KEEPS, raw("SET", "results", "x"), add("a"), pop()], finish("a")),
        Case("a job is finished once more, that has died since", [KEEPS, add("a"), pop(), bury("a")], finish("a", replay=1)),
        Case("a dead job is kicked, whose death is kept", dead, kick("b")),
        Case("dead jobs are kicked, whose deaths are kept", dead, kick("c", "a")),
        Case("a dead job is kicked, a later end is not known", [*dead, unkept(2 * SECOND)], kick("b")),
        Case("a dead job is kicked, and an end of its moment is not known", [*dead, unkept(SECOND, "a")], kick("b")),
        Case("a dead job is deleted, whose death is kept", dead, delete("b")),
        Case("a dead job is cancelled, whose death is kept", dead, step("topic/cancel", "b", at=2 * SECOND)),
        Case("a dead job is replaced, whose death is kept", dead, add("b", mark="r", at=2 * SECOND)),
        Case("a dead job is popped by its id, whose death is kept", dead, step("topic/pop_by_id", "b", "dead", HOUR, "w", at=2 * SECOND)),
        Case("dead jobs are purged, whose deaths are kept", dead, step("topic/purge", "dead", "all", 2, at=2 * SECOND)),
        Case("a topic with ends is purged", [*dead, *ended("d", at=2 * SECOND)], step("topic/purge", "all", "", 9, at=3 * SECOND)),
        Case("a topic with jobs that are kept for two times is purged", [KEEPS, *ended("d", result=f"{SECOND}n")], step("topic/purge", "all", "", 9, at=3 * SECOND)),
        Case("dead jobs are on their way, whose deaths are kept", dead, step("migration/depart", 2, "s@t", "", 0, at=2 * SECOND)),
        Case("a dead job arrives where ends are kept", [KEEPS], step("migration/arrive", "s.1.n@t", "a", f"dead {NOW}", "1234567" + value(), "", "", at=2 * SECOND)),
        Case("finished jobs are kept from now on", [], configure(keep_finished=HOUR)),
        Case("finished jobs are kept as long as before", [configure(at=0, keep_finished=HOUR)], configure(keep_finished=HOUR)),
        Case("finished jobs are kept longer", [configure(at=0, keep_finished=HOUR)], configure(keep_finished=2 * HOUR)),
        Case("finished jobs are kept no more", [configure(at=0, keep_finished=HOUR), configure(at=1, keep_finished=2 * HOUR)], configure(keep_finished="")),
        Case("dead jobs are kept longer, and finished ones are", [configure(at=0, keep_finished=HOUR, keep_dead=HOUR)], configure(at=DAY, keep_dead=DAY)),
        Case("dead jobs are kept for ever, and finished ones are", [configure(at=0, keep_finished=HOUR, keep_dead=HOUR)], configure(at=DAY, keep_dead=0)),
        Case("dead jobs are kept less long, and finished ones are", [configure(at=0, keep_finished=HOUR, keep_dead=DAY)], configure(at=DAY, keep_dead=HOUR)),
        Case("a job is released for the last time, and its death is kept", [KEEPS, add("a", stored=value(max_attempts=1)), pop()], release("a")),
    ]  # fmt: skip
