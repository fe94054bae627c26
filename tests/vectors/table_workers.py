"""The table for workers: their reports, which processes hold jobs and who looks for them; and for the partitions of a topic."""

from __future__ import annotations

from typing import Any

from vectors.calls import SERVER_ID, Case, Step, key
from vectors.table import NOW, SECOND, add, raw, settings, step
from vectors.table_views import MINUTE

CHANNELS = key("holder:")
ME, BROTHER, OTHER, THIRD = "h:1:x", "h:2:x", "g:1:y", "f:1:z"
"""Processes; a brother is of the same parent."""


def crowd(n: int = 24) -> Step:
    return raw("HSET", "holders", *(one for k in range(n) for one in (f"h:{k + 10}:x", "")))


def cases_of_workers() -> list[Case]:
    def report(worker: str = "w", since: Any = "", record: str = '{"jobs":1}', at: int = 0) -> Step:
        return step("workers/report", worker, since, record, at=at)

    def ask(worker: str = "w", mode: str = "quiet", at: int = 0) -> Step:
        return step("workers/ask", worker, mode, at=at)

    def listed(at: int = SECOND) -> Step:
        return step("workers/list_reports", 0, 10, at=at)

    alive = 30 * SECOND - 1
    return [
        Case("a worker reports for the first time", [], report()),
        Case("a worker reports for the second time", [report()], report(since=NOW, record="{}", at=SECOND)),
        Case("a worker's first report is repeated", [report()], report(at=SECOND)),
        Case("a worker's first report was damaged", [raw("HSET", "workers", "w", "x")], report()),
        Case("a worker learns what it was asked", [report(), ask()], report(since=NOW, at=SECOND)),
        Case("another run of a worker forgets what was asked", [report(), ask()], report(at=SECOND)),
        Case("a report removes workers that no longer report", [report("v"), ask("v"), report("u", at=1)], report(at=30 * SECOND)),
        Case("a worker is asked that nobody knows", [], ask()),
        Case("a worker is asked", [report()], ask(at=alive)),
        Case("a worker is asked that no longer reports", [report()], ask(at=alive + 1)),
        Case("a worker is asked for another mode", [report(), ask()], ask(mode="off")),
        Case("a worker leaves that nobody knows", [], step("workers/leave", "w")),
        Case("a worker leaves", [report(), ask()], step("workers/leave", "w")),
        Case("one of two workers leaves", [report(), report("v"), ask("v")], step("workers/leave", "w")),
        Case("no workers are listed", [], listed()),
        Case("workers are listed", [report(), report("v", at=1)], listed()),
        Case("workers are listed, one was asked", [report(), report("v", at=1), ask("v")], listed()),
        Case("workers are listed, one no longer reports", [report(), report("v", at=1)], listed(at=alive + 1)),
        Case("workers are listed, one has only a record", [raw("HSET", "workers", "w", f"{NOW} x")], listed()),
    ]  # fmt: skip


def known(*holders: str, misses: int = 0, first: int = 0, last: int = 0, server: str = SERVER_ID) -> Step:
    """Processes as they are stored; ``last`` is a moment like ``at``, ``first`` too."""
    record = f'{server} {misses} {NOW + first} {NOW + last} ["t"]'
    return raw("HSET", "holders", *(one for holder in holders for one in (holder, record)))


def busy(*holders: str, at: int = 0) -> Step:
    return raw("ZADD", "busy", *(one for holder in holders for one in (NOW + at, holder)))


def observing(**by: int) -> Step:
    """Seats of observers, in µs from the call."""
    names = {"me": ME, "brother": BROTHER, "other": OTHER, "third": THIRD}
    return raw("ZADD", "observers", *(one for name, us in by.items() for one in (NOW + us, names[name])))


def subscribed(*holders: str) -> list[str]:
    return [f"holder:{holder}" for holder in holders]


def cases_of_holders() -> list[Case]:
    def announce(is_busy: int = 1, at: int = 0) -> Step:
        return step("holders/announce", ME, is_busy, CHANNELS, '["t"]', at=at)

    def withdraw(only_absent: int = 0) -> Step:
        return step("holders/withdraw", ME, CHANNELS, only_absent)

    me, both, three = subscribed(ME), subscribed(ME, OTHER), subscribed(ME, OTHER, THIRD)
    asked = raw("RPUSH", f"holder:{ME}", 1)
    return [
        Case("a process that nobody hears is not known", [], announce()),
        Case("a process that nobody hears is forgotten", [known(ME, server="x"), busy(ME), observing(me=9), asked], announce()),
        Case("a busy process whose subscription has ended is missed", [known(ME)], announce(at=5)),
        Case("a busy process whose subscription has ended calls another to look", [known(ME, OTHER)], announce(), subscribed(OTHER)),
        Case("a busy process whose subscription has ended does not look", [known(ME, OTHER), busy(OTHER)], announce(), subscribed(OTHER)),
        Case("an idle process whose subscription has ended is forgotten", [known(ME)], announce(0)),
        Case("an idle process says that it is there", [], announce(0), me),
        Case("a busy process says that it is there", [], announce(), me),
        Case("a process is idle again", [known(ME), busy(ME)], announce(0), me),
        Case("a process was missed", [known(ME, misses=2), busy(ME)], announce(), me),
        Case("a busy process calls another to look", [known(OTHER)], announce(), both),
        Case("a busy process calls two others to look", [known(OTHER, THIRD)], announce(), three),
        Case("a busy process calls no brother", [known(BROTHER)], announce(), subscribed(ME, BROTHER)),
        Case("a busy process calls one that died idle", [known(OTHER)], announce(), me),
        Case("a second busy process calls one that died busy", [known(OTHER), busy(OTHER)], announce(), me),
        Case("the first busy process calls all others", [known(OTHER, THIRD, "e:1:q"), observing(other=9, third=9)], announce(), [*three, *subscribed("e:1:q")]),
        Case("the first busy process finds one that died idle", [known(OTHER, THIRD, "e:1:q"), observing(other=9, third=9)], announce(), three),
        Case("a busy process that says it again calls nobody", [known(ME, OTHER, THIRD), busy(ME), observing(other=9, third=9)], announce(at=5), three),
        Case("a process looks for another's jobs", [known(OTHER), busy(OTHER)], announce(0), both),
        Case("a process stands by while two look", [known(OTHER, THIRD), busy(OTHER), observing(other=9, third=9)], announce(0), three),
        Case("a process stands by while its brother looks", [known(OTHER, BROTHER), busy(OTHER), observing(brother=9)], announce(0), subscribed(ME, BROTHER, OTHER)),
        Case("two look whose names are no process's", [raw("ZADD", "busy", NOW, "one", NOW, "two")], announce(0), me),
        Case("an observer that is late loses its seat", [known(OTHER, THIRD), busy(OTHER), observing(other=-300_000, third=-299_999)], announce(0), three),
        Case("an observer that promises too much loses its seat", [known(OTHER, THIRD), busy(OTHER), observing(other=700_001, third=700_000)], announce(0), three),
        Case("an observer that is dead loses its seat", [known(OTHER, THIRD), busy(OTHER), observing(other=9, third=9)], announce(0), both),
        Case("of a crowd some stand by", [crowd(), known(OTHER, THIRD), busy(OTHER), observing(other=9, third=9)], announce(0, at=-NOW % 27), three),
        Case("of a crowd most need not stand by", [crowd(), known(OTHER, THIRD), busy(OTHER), observing(other=9, third=9)], announce(0, at=(20 - NOW) % 27), three),
        Case("an unknown process withdraws", [], withdraw()),
        Case("a process withdraws", [known(ME, OTHER), busy(ME, OTHER), observing(me=9, other=9), asked], withdraw()),
        Case("an unknown process is not forgotten", [], withdraw(1)),
        Case("a process that is missed is not forgotten", [known(ME, misses=2), busy(ME)], withdraw(1)),
        Case("a process that is absent is forgotten", [known(ME, misses=3), busy(ME)], withdraw(1)),
    ]  # fmt: skip


def cases_of_looks_for_holders() -> list[Case]:
    """An observer, which is subscribed, looks for another process."""

    def look(at: int = SECOND) -> Step:
        return step("holders/find_absent", ME, CHANNELS, at=at)

    def of(*before: Step, at: int = SECOND, others: tuple[str, ...] = ()) -> tuple[list[Step], Step, list[str]]:
        return [*before, busy(OTHER)], look(at), subscribed(ME, *others)

    asked = raw("RPUSH", f"holder:{OTHER}", 1)
    two = [known(ME, OTHER, THIRD), observing(other=SECOND, third=SECOND + 100_000)]
    return [
        Case("nobody is to be looked for", [], look(), subscribed(ME)),
        Case("nobody is to be looked for any more", [observing(me=SECOND)], look(), subscribed(ME)),
        Case("a process lives", *of(known(ME, OTHER), others=(OTHER,))),
        Case("a process lives that was missed", *of(known(ME), known(OTHER, misses=2), others=(OTHER,))),
        Case("a process lives that another server has seen", *of(known(ME), known(OTHER, server="x"), others=(OTHER,))),
        Case("a process lives of which there is no record", *of(known(ME), others=(OTHER,))),
        Case("a process of the same parent lives", [known(ME, BROTHER), busy(BROTHER)], look(), subscribed(ME, BROTHER)),
        Case("a process is missed that this server never saw", *of(known(ME), known(OTHER, server="x"), at=MINUTE)),
        Case("a process is missed that this server never saw, for a minute", *of(known(ME), known(OTHER, server="x"), at=MINUTE + 1)),
        Case("a process is missed for the first time", *of(known(ME, OTHER))),
        Case("a process is missed again at once", *of(known(ME), known(OTHER, misses=1, last=SECOND - 299_999))),
        Case("a process is missed for the second time", *of(known(ME), known(OTHER, misses=1, last=SECOND - 300_000))),
        Case("a process is missed for the second time, and an old question is there", *of(known(ME), known(OTHER, misses=1), asked)),
        Case("a process is missed of which there is no record", *of(known(ME))),
        Case("a process is missed for the second time, by a clock set back", *of(known(ME), known(OTHER, misses=1, last=2 * SECOND))),
        Case("a process is absent", *of(known(ME), known(OTHER, misses=2, first=5, last=100), asked)),
        Case("a process is absent still", *of(known(ME), known(OTHER, misses=3, first=5, last=100), asked)),
        Case("a process has answered", *of(known(ME), known(OTHER, misses=2, first=5, last=100))),
        Case("one of two processes is missed", [known(ME, OTHER, THIRD), busy(OTHER, THIRD)], look(), subscribed(ME, THIRD)),
        Case("two others look", *of(*two, others=(OTHER, THIRD))),
        Case("two others look, one is nearly late", *of(known(ME), observing(other=SECOND - 300_000, third=SECOND + 700_000), others=(OTHER, THIRD))),
        Case("two others look, one is late", *of(known(ME), observing(other=SECOND - 300_001, third=SECOND), others=(OTHER, THIRD))),
        Case("two others look, one promises too much", *of(known(ME), observing(other=SECOND + 700_001, third=SECOND), others=(OTHER, THIRD))),
        Case("two others look, one is dead", *of(*two, others=(OTHER,))),
        Case("the caller and another look", *of(known(ME), observing(me=SECOND, other=SECOND), others=(OTHER,))),
        Case("one of a crowd stands by", *of(crowd(), *two, at=SECOND + 1, others=(OTHER, THIRD))),
        Case("one of twenty stands by", *of(crowd(17), *two, others=(OTHER, THIRD))),
        Case("one of a crowd need not stand by", *of(crowd(), *two, others=(OTHER, THIRD))),
    ]  # fmt: skip


def cases_of_partitions() -> list[Case]:
    def find(wanted: int = 1, called_before: int = 0) -> Step:
        return step("partitions/find", wanted, called_before)

    three = [find(3)]
    return [
        Case("an unused topic is a plain one", [], find()),
        Case("an unused topic gets partitions", [], find(3)),
        Case("an unused topic gets two partitions", [], find(2)),
        Case("an unused topic with a token gets partitions", [raw("RPUSH", "wake", 1)], find(3)),
        Case("a topic with jobs gets no partitions", [add("a")], find(3)),
        Case("a topic with settings gets no partitions", [settings(ttr=5)], find(3)),
        Case("a topic with jobs is a plain one", [add("a")], find()),
        Case("a topic has partitions", [*three, raw("DEL", "wake")], find()),
        Case("a topic has partitions, and another number is wanted", three, find(5)),
        Case("a consumer that was called calls the next", [*three, raw("DEL", "wake")], find(1, 1)),
        Case("another program's key is no topic with partitions", [raw("SET", "meta", "x")], find()),
        Case("a newer version's partitions are refused", [raw("SET", "meta", "3 new")], find()),
    ]  # fmt: skip
