"""The vectors of topics with limits for producers, which count the bytes of the bodies that wait."""

from __future__ import annotations

from typing import Any

from vectors.calls import Case, Step
from vectors.table import (
    HOUR,
    NOW,
    SECOND,
    USUAL,
    add,
    bury,
    finish,
    later,
    pop,
    raw,
    release,
    settings,
    soon,
    step,
    value,
)

OTHER = value(nonce="other.")
TWO = settings(bounds=f"2 0 {NOW - HOUR}")
TEN_BYTES = settings(bounds=f"0 10 {NOW - HOUR}")
NOT_YET = settings(bounds=f"0 10 {NOW + SECOND // 2}")


def counted(total: Any = 100, sum: Any = "", upto: str = "") -> Step:
    """A topic that knows its bytes; with ``sum`` they are counted anew, up to a place."""
    return settings(bounds=f"0 1000 {NOW - HOUR}", bytes=f"{total} {sum} {upto}".strip())


def count(begins: int = 1, limit: int = 2, at: int = SECOND) -> Step:
    return step("topic/count_bytes", begins, limit, at=at)


def cases_of_full_topics() -> list[Case]:
    waiting = [add("a", due=HOUR, stored=OTHER), add("b", due=HOUR)]
    dead = [add("a", stored=OTHER, at=-SECOND), pop(at=-2), bury("a", receipt=-2, at=-1)]
    held = [add("a", stored=OTHER, at=-SECOND), pop(at=-1)]
    cases = [
        Case("jobs fill a topic", [TWO], add("a", "b")),
        Case("jobs are too many for a topic", [TWO], add("a", "b", "c")),
        Case("of some jobs one is too many", [TWO], add("a", "b", "c", mode="each")),
        Case("jobs that were moved are never too many", [TWO], step("topic/add", "all", "moved", 0, "a", "n0", USUAL, "b", "n0", USUAL, "c", "n0", USUAL)),
        Case("one id is one job of a full topic", [TWO], step("topic/add", "all", 0, 0, "a", "k0", USUAL, "a", "k0", OTHER, "b", "k0", USUAL)),
        Case("a job does not fit into the bytes", [TEN_BYTES], add("a", stored=f"\x00{'x' * 11}")),
        Case("a job fits into the bytes, which are counted first", [*waiting, TEN_BYTES], add("c")),
        Case("a job does not fit, and the bytes are counted", [*waiting, TEN_BYTES], add("c", stored=f"\x00{'x' * 9}", mode="each")),
        Case("the bytes are not counted before the last lease ends", [*waiting, NOT_YET], add("c")),
        Case("the bytes are counted, for the clock was set back", [*waiting, settings(bounds=f"0 10 {NOW + HOUR}")], add("c")),
        Case("a newer version's limits for producers", [settings(bounds="new")], add("a")),
        Case("an add with a lease does not look", [TWO, *waiting], step("topic/add", "all", NOW // SECOND, 0, "c", "n0", USUAL)),
        Case("a small add has no lease", [TWO], step("topic/add_soon", "a", "n0", USUAL)),
        Case("a small add has the lease of another second", [], Step("topic/add_later", (f"{NOW} {NOW // SECOND + 1}", "a", f"n{HOUR}", USUAL))),
        Case("a small add has a lease in a full topic", [TWO, *waiting], soon("c")),
        Case("a small add with a long delay has a lease", [TWO, *waiting], later("c", HOUR)),
    ]  # fmt: skip
    for state, before in {"waiting": waiting[:1], "reserved": held, "dead": dead}.items():
        for mark in "kru":
            cases.append(Case(f"a full topic has the id: {mark}, {state}", [*before, settings(bounds=f"1 0 {NOW}"), add("z", due=HOUR)], add("a", mark=mark, mode="each")))  # fmt: skip
            cases.append(Case(f"the bytes of a job that is there: {mark}, {state}", [*before, counted()], add("a", mark=mark, stored=value(nonce="third.", body="longer"))))  # fmt: skip
    cases += [
        Case("the bytes of a job that is replaced in its own call", [counted()], step("topic/add", "each", 0, 0, "a", "r5", OTHER, "a", "r9", USUAL)),
        Case("the bytes of a job that is updated in its own call", [counted()], step("topic/add", "each", 0, 0, "a", "u5", OTHER, "a", "u9", USUAL)),
        Case("the bytes of a job that leaves and is replaced", [*_leaving(), counted()], add("a", mark="r")),
        Case("the bytes of a job that leaves and is updated", [*_leaving(), counted()], add("a", mark="u")),
        Case("jobs are popped of those that are counted", [add("a", "b"), counted()], pop(2)),
        Case("a damaged job is popped of those that are counted", [add("a", "b"), raw("HSET", "jobs", "b", "short"), counted()], pop(2)),
        Case("a lost job is popped of those that are counted", [add("a"), raw("HDEL", "jobs", "a"), counted()], pop()),
        Case("a reservation is over, and its bytes count", [add("a"), pop(ttr=SECOND), counted()], pop(0, at=2 * SECOND)),
        Case("a job is popped by its id, and its bytes count no longer", [add("a"), counted()], step("topic/pop_by_id", "a", "ready", HOUR, "h", at=SECOND)),
        Case("the bytes of a job that is released", [add("a"), pop(), counted()], release("a")),
        Case("the bytes of a job that a dead worker had", [add("a"), pop(), counted()], step("topic/release_holder", "h", 1, "", "", "", "", 0, 10, at=SECOND)),
        Case("the bytes of a job that is buried again", [add("a"), pop(), release("a"), counted()], bury("a", replay=1)),
        Case("the bytes of a job that was updated and is buried", [add("a", stored=OTHER), pop(), add("a", mark="u", at=1), counted()], bury("a")),
        Case("the bytes of a job that is finished again", [add("a"), pop(), release("a"), counted()], finish("a", replay=1)),
        Case("the bytes of a job that is kicked", [*dead, counted()], step("topic/kick", "a", at=SECOND)),
        Case("the bytes of a job that is rescheduled", [*waiting, counted("-", 3, f"{NOW + HOUR + 1} a")], step("topic/reschedule", "b", 5, at=SECOND)),
        Case("the bytes of a job that is deleted", [*waiting, counted()], step("topic/delete", "a", "", "", at=SECOND)),
        Case("the bytes of a job that is cancelled", [*waiting, counted()], step("topic/cancel", "a", at=SECOND)),
        Case("the bytes of jobs that are purged", [*waiting, counted()], step("topic/purge", "due", "", 10, at=SECOND)),
        Case("the bytes of a purged topic", [*waiting, counted()], step("topic/purge", "all", "", 0, at=SECOND)),
        Case("a topic beyond its limit keeps a job", [*waiting, settings(bounds=f"1 0 {NOW}")], add("a", mark="k")),
        Case("no bytes are counted in an empty topic", [], count()),
        Case("no bytes are counted", waiting, count()),
        Case("no bytes are limited", [*waiting, TWO], count()),
        Case("the bytes are not counted yet", [*waiting, settings(bounds=f"0 10 {NOW + SECOND * 3 // 2}")], count()),
        Case("the bytes are counted for the first time", [*waiting, TEN_BYTES], count(limit=10)),
        Case("the bytes are counted, the first step", [*waiting, add("c", due=HOUR, at=2), counted()], count()),
        Case("the bytes are counted, the last step", [*waiting, add("c", due=HOUR, at=2), counted(), count()], count(begins=0)),
        Case("the bytes are counted anew", [*waiting, counted(1, 7, f"{NOW + HOUR + 1} a")], count(limit=10)),
        Case("many jobs have one moment", [add(*"abcd", due=f"@{NOW + HOUR}"), counted(1, 7, f"{NOW + HOUR} b")], count(begins=0, limit=10)),
        Case("a job before the place that is counted", [*waiting, counted(100, 7, f"{NOW + HOUR + 1} b")], step("topic/delete", "a", "", "", at=SECOND)),
        Case("a job behind the place that is counted", [*waiting, counted(100, 7, f"{NOW + HOUR} b")], step("topic/delete", "a", "", "", at=SECOND)),
        Case("a job at the place that is counted", [*waiting, counted(100, 7, f"{NOW + HOUR + 1} a")], step("topic/delete", "a", "", "", at=SECOND)),
        Case("the limits for producers of a whole topic", [], step("topic/configure", 0, 1, "", "max_pending", 5, "max_pending_bytes", 7)),
        Case("the limits for producers of a partition are rounded up", [], step("topic/configure", 2, 3, 1, "max_pending", 4, "max_pending_bytes", 7)),
        Case("limits for producers are changed", [TWO, settings(max_pending=2)], step("topic/configure", 0, 1, "", "max_pending", 9)),
        Case("the bytes are no longer limited", [counted(), settings(max_pending=2, max_pending_bytes=9)], step("topic/configure", 0, 1, "", "max_pending_bytes", "")),
        Case("producers have no limits any more", [TWO, settings(max_pending=2)], step("topic/configure", 0, 1, "", "max_pending", "")),
    ]  # fmt: skip
    return cases


def _leaving() -> list[Step]:
    return [
        raw("HSET", "jobs", "a", "1234567" + value(nonce="other.")),
        raw("HSET", "leaving", "a", f"due {NOW + HOUR}"),
    ]
