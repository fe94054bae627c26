"""The table of the vectors: what is done before, and the call. Every moment, id and random word is given here."""

from __future__ import annotations

import struct
from typing import Any

from vectors.calls import Case, Step, key

NOW = 1_800_000_000_000_000
SECOND = 1_000_000
HOUR = 3600 * SECOND
BEYOND = "@253402300900000000"
NONCE = "nonce."
USUAL = "\x08" + NONCE + '"tea"'
LARGE = "\x08" + NONCE + "x" * 65_600


def step(script: str, *args: Any, at: int = 0) -> Step:
    """A call, ``at`` µs after the table's moment."""
    return Step(script, (str(NOW + at), *map(str, args)))


def raw(command: str, part: str, *args: Any) -> Step:
    """A command of the server, on one key."""
    return Step("", (command, key(part), *map(str, args)))


def settings(**fields: Any) -> Step:
    return raw("HSET", "meta", "ruled", 1, *(one for field in fields.items() for one in field))


def limits(n: int = 0, span: int = 0, burst: int = 0, concurrency: int = 0, max_lateness: int = 0) -> Step:
    """As `topic/configure` writes them."""
    fields: dict[str, Any] = {"limited": f"{n} {span} {burst} {concurrency} {max_lateness}"}
    if concurrency:
        fields["concurrency"] = concurrency
    return settings(**fields)


def value(
    body: str = '"tea"',
    *,
    nonce: str = NONCE,
    priority: int = 0,
    further: int | None = None,
    ttr_ms: int | None = None,
    max_attempts: int | None = None,
    max_lateness: int | None = None,
    first: int | None = None,
    steps: str | None = None,
    key: str | None = None,
    headers: str | None = None,
) -> str:
    """A record without its moment: flags, then what they name in their order."""
    flags, fields = 8 + 2 * priority, nonce.encode("latin-1")
    given = [max_lateness is not None, first is not None, steps is not None, key is not None]
    if any(given):
        further = sum(is_given << at for at, is_given in enumerate(given))
    if further is not None:
        flags, fields = flags + 128, fields + struct.pack("<H", further)
    if ttr_ms is not None:
        flags, fields = flags + 32, fields + struct.pack("<I", ttr_ms)
    if max_attempts is not None:
        flags, fields = flags + 64, fields + struct.pack("<I", max_attempts)
    if max_lateness is not None:
        fields += struct.pack("<d", max_lateness)
    if key is not None:
        fields += bytes([len(key)]) + key.encode("latin-1")
    if first is not None:
        fields += struct.pack("<d", first)
    if steps is not None:
        fields += struct.pack("<I", len(steps)) + steps.encode("latin-1")
    if headers is not None:
        flags, fields = flags + 16, fields + struct.pack("<H", len(headers)) + headers.encode("latin-1")
    return chr(flags) + fields.decode("latin-1") + body


def add(
    *ids: str, due: Any = 0, mark: str = "e", stored: str = USUAL, mode: str = "all", replay: int = 0, at: int = 0
) -> Step:
    return step("topic/add", mode, 0, replay, *(one for id in ids for one in (id, f"{mark}{due}", stored)), at=at)


def soon(id: str, due: Any = 0, *, mark: str = "n", stored: str = USUAL, at: int = 0) -> Step:
    return leased(step("topic/add_soon", id, f"{mark}{due}", stored, at=at))


def later(id: str, due: Any, *, at: int = 0) -> Step:
    return leased(step("topic/add_later", id, f"n{due}", USUAL, at=at))


def leased(call: Step) -> Step:
    """With the lease of its second behind its clock."""
    clock, *args = call.args
    return Step(call.script, (f"{clock} {int(clock) // SECOND}", *args))


def pop(
    *wants: int, ttr: int = 60 * SECOND, holder: str = "w", waiter: str = "", min_jobs: int = 1, at: int = 0
) -> Step:
    return step("topic/pop", min_jobs, ttr, holder, waiter, *(wants or (1,)), at=at)


def finish(*ids: str, receipt: int = 0, result: str = "", replay: int = 0, at: int = SECOND) -> Step:
    """``receipt`` is a moment like ``at``: that of the pop. Without the keys of jobs with a key, as nearly all calls are."""
    return step("topic/finish", replay, *(one for id in ids for one in (id, NOW + receipt, result)), at=at)._replace(
        fewer=4
    )


def release(*ids: str, receipt: int = 0, due: Any = 0, counted: Any = 1, limit: int = 0, fault: str = "oh\nmore", replay: int = 0, at: int = SECOND) -> Step:  # fmt: skip
    items = (one for id in ids for one in (id, NOW + receipt, due, counted, limit, fault))
    return step("topic/release", replay, *items, at=at)


def touch(*ids: str, receipt: int = 0, counted: int = 1, replay: int = 0, at: int = SECOND) -> Step:
    return step("topic/touch", replay, *(one for id in ids for one in (id, NOW + receipt, HOUR, counted)), at=at)


def bury(
    *ids: str, receipt: int = 0, limit: int = 0, fault: str = "oh\nmore", replay: int = 0, at: int = SECOND
) -> Step:
    return step("topic/bury", replay, *(one for id in ids for one in (id, NOW + receipt, limit, fault)), at=at)


def kick(*ids: str, at: int = 2 * SECOND) -> Step:
    return step("topic/kick", *ids, at=at)


def delete(*ids: str, nonce: str = "", only: str = "", at: int = 2 * SECOND) -> Step:
    return step("topic/delete", *(one for id in ids for one in (id, nonce, only)), at=at)


def reschedule(*ids: str, due: Any = HOUR, at: int = 2 * SECOND) -> Step:
    return step("topic/reschedule", *(one for id in ids for one in (id, due)), at=at)


def leaving(place: str, nonce: str = NONCE) -> list[Step]:
    """A job that `migrate` has taken out."""
    at = NOW + HOUR if place == "due" else NOW - HOUR
    return [raw("HSET", "jobs", "a", "1234567" + value(nonce=nonce)), raw("HSET", "leaving", "a", f"{place} {at}")]


PAUSED = settings(paused=NOW + HOUR)
ONE_AT_A_TIME = limits(concurrency=1)
TEN_A_SECOND = limits(n=10, span=SECOND, burst=1)
KEEPS = raw("HSET", "meta", "keep_finished", HOUR)
SIXTEEN = "abcdefghijklmnop"
SEAT = raw("ZADD", "watch", NOW + SECOND, "v")
TWO_SEATS = raw("ZADD", "watch", NOW, "v", NOW + 100, "w")
MISSED = raw("HSET", "meta", "missed", "\x81\xa1w\x94\xcb" + struct.pack(">d", NOW).decode("latin-1") + "\xa11\x00\xc2")
OLD_MISSED = raw("HSET", "meta", "missed", "\x81\xa1w\x94\x01\xa11\x00\xc2")
NO_MISSED = raw("HSET", "meta", "missed", "\xc1")
REFUSED = {
    "a job that nobody has popped": [add("a", "b"), pop()],
    "a job that is gone": [add("b"), pop()],
    "a job whose TTR is over": [add("a", "b"), pop(2, ttr=SECOND // 2)],
    "a job that was released": [add("a", "b"), pop(2), release("a", due=HOUR)],
    "a job that is dead": [add("a", "b"), pop(2), bury("a")],
    "a job that was popped again": [add("a", "b"), pop(2), release("a", at=100), pop(at=200)],
    "a job with a damaged run": [add("a", "b"), pop(2), raw("HSET", "runs", "a", "short")],
}
"""Why the receipt of job a does not hold; b is beside it."""


def cases_of_adds() -> list[Case]:
    taken = {
        "delayed": [add("a", due=HOUR, stored=value(nonce="other."))],
        "ready": [add("a", stored=value(nonce="other."), at=-SECOND)],
        "reserved": [add("a", stored=value(nonce="other."), at=-SECOND), pop(at=-1)],
        "timed out": [add("a", stored=value(nonce="other."), at=-SECOND), pop(ttr=1, at=-10)],
        "dead": [add("a", stored=value(nonce="other."), at=-SECOND), pop(at=-2), bury("a", receipt=-2, at=-1)],
        "lost": [raw("HSET", "jobs", "a", "1234567" + value(nonce="other."))],
        "leaving, delayed": leaving("due", "other."),
        "leaving, dead": leaving("dead", "other."),
        "without a nonce": [raw("HSET", "jobs", "a", "1234567\x00x")],
        "damaged": [raw("HSET", "jobs", "a", "12")],
    }
    cases = [
        Case("a job is added to an empty topic", [], add("a")),
        Case("three jobs keep their order", [], add("c", "a", "b")),
        Case("jobs with a delay keep their order", [], add("c", "a", due=5 * SECOND)),
        Case("a job is added for a moment", [], add("a", due=f"@{NOW + HOUR}")),
        Case("a job beyond the year 9999 refuses all", [], add("a", due=BEYOND)),
        Case("a job beyond the year 9999 is refused among others", [], add("a", due=BEYOND, mode="each")),
        Case("the same id twice", [], add("a", "a", mode="each")),
        Case("the same id twice with other nonces, delayed", [], step("topic/add", "each", 0, 0, "a", "e5", USUAL, "a", "e5", value(nonce="other."))),
        Case("the same id twice with other nonces, ready", [], step("topic/add", "each", 0, 0, "a", "e0", USUAL, "a", "k0", value(nonce="other."))),
        Case("the same id twice, replaced", [], step("topic/add", "each", 0, 0, "a", "r5", value(priority=2), "a", "r5", value(nonce="other."))),
        Case("a new id", [add("b")], add("a", mark="n")),
        Case("a new id, repeated", [add("a", mark="n")], add("a", mark="n", replay=1, at=SECOND)),
        Case("an add is repeated", [add("a", due=5 * SECOND)], add("a", due=5 * SECOND, replay=1, at=SECOND)),
        Case("no job", [], add()),
        Case("jobs of all priorities", [], step("topic/add", "all", 0, 0, *(one for n in (1, 2, 3, 0) for one in (f"p{n}", "n0", value(priority=n))))),
        Case("a second job of a priority", [add("a", stored=value(priority=1))], add("b", stored=value(priority=1))),
        Case("a job that is not the earliest", [add("a")], add("b", due=HOUR)),
        Case("a job to a paused topic", [PAUSED], add("a")),
        Case("a job to a topic with a seat", [SEAT], add("a")),
        Case("a job to a topic with a seat that is late", [raw("ZADD", "watch", NOW - HOUR, "v", NOW + HOUR, "w")], add("a")),
        Case("a job to a topic with two seats and both tokens", [TWO_SEATS, raw("RPUSH", "wake", 1), raw("RPUSH", "relay", 1)], add("a")),
        Case("a job to a topic with both tokens", [raw("RPUSH", "wake", 1), raw("RPUSH", "relay", 1)], add("a")),
        Case("a job to a topic with one token", [raw("RPUSH", "wake", 1)], add("a")),
        Case("a job to a topic with a schedule", [settings(fires=NOW + SECOND)], add("a")),
        Case("a job to a topic that is full", [ONE_AT_A_TIME, add("b"), pop()], add("a")),
        Case("a job to a topic with a rate", [TEN_A_SECOND, add("b"), pop()], add("a")),
        Case("a job to a topic with a newer version's limits", [settings(limited="new")], add("a")),
        Case("a job to a topic with partitions", [raw("SET", "meta", 3), raw("SET", "jobs", 3)], add("a")),
    ]  # fmt: skip
    for state, before in taken.items():
        cases += [
            Case(f"the id of a job is taken: {state}", before, add("b", "a")),
            Case(f"the id of a job is taken, each: {state}", before, add("b", "a", mode="each")),
            Case(f"a job is kept: {state}", before, add("b", "a", mark="k")),
            Case(f"a job is replaced: {state}", before, add("b", "a", mark="r")),
            Case(f"a job is updated: {state}", before, add("b", "a", due=5 * SECOND, mark="u")),
            Case(f"a job is replaced in its window: {state}", before, add("b", "a", due=5 * SECOND, mark=f"l{HOUR} ")),
            Case(f"a job with this nonce is replaced: {state}", before, add("b", "a", mark="sother.")),
            Case(f"a job with another nonce is not replaced: {state}", before, add("b", "a", mark="swrong.")),
        ]
    begun = [add("a", due=SECOND, stored=value(nonce="other."), at=-HOUR + SECOND)]
    second = [*begun, add("a", due=HOUR, mark=f"l{HOUR} ", at=-SECOND)]
    third = value(nonce="third.", ttr_ms=5000, max_lateness=HOUR, headers="{}", priority=1)
    cases += [
        Case("a job is new, and has a window", [], add("a", due=5, mark=f"l{HOUR} ")),
        Case("a job is new, for a moment beyond its window", [], add("a", due=f"@{NOW + HOUR}", mark="l5 ")),
        Case("a job is replaced shortly before its window ends", begun, add("a", due=HOUR, mark=f"l{HOUR} ")),
        Case("a job is replaced after its window", begun, add("a", due=HOUR, mark=f"l{SECOND} ")),
        Case("a job is replaced for the second time", second, add("a", due=HOUR, mark=f"l{HOUR} ", stored=third)),
        Case("a job is replaced without a window", second, add("a", due=HOUR, mark="r", stored=third)),
        Case("a job that replaces one is added again", second, add("a", due=HOUR, mark=f"l{HOUR} ", replay=1)),
        Case("a job that has a window is added again", [add("a", due=5, mark=f"l{HOUR} ")], add("a", due=5, mark=f"l{HOUR} ", replay=1, at=9)),
        Case("a job that was given back uncounted is replaced in its window", [*begun, pop(at=-9), release("a", receipt=-9, due=HOUR, counted=2, fault="", at=-5)], add("a", due=HOUR, mark=f"l{HOUR} ")),
        Case("a job is replaced in its window by one without a nonce", begun, add("a", due=HOUR, mark=f"l{HOUR} ", stored="\x00tea")),
        Case("a job that has failed is replaced in a new window", [*begun, pop(at=-9), release("a", receipt=-9, due=HOUR, at=-5)], add("a", due=HOUR, mark=f"l{HOUR} ")),
        Case("a job whose first moment is damaged is replaced", [raw("HSET", "jobs", "a", "1234567" + value(nonce="other.", first=-1))], add("a", due=5, mark=f"l{HOUR} ")),
        Case("the same id twice in a window", begun, step("topic/add", "each", 0, 0, "a", f"l{HOUR} {HOUR}", USUAL, "a", f"l{HOUR} {HOUR}", third)),
    ]  # fmt: skip
    full = [ONE_AT_A_TIME, add("a", stored=value(nonce="other."), at=-SECOND), pop(at=-1)]
    cases.append(Case("a reserved job is replaced in a full topic", full, add("a", mark="r")))
    ranked = [add("a", stored=value(nonce="other.", priority=3))]
    cases.append(Case("a job with a priority is replaced by one without", ranked, add("a", mark="r")))
    return cases


def once(*ids: str, due: Any = 0, stored: str = USUAL, mode: str = "all", replay: int = 0, at: int = 0) -> Step:
    return step("topic/add_once", mode, 0, replay, *(one for id in ids for one in (id, f"k{due}", stored)), at=at)


def cases_of_once() -> list[Case]:
    other = value(nonce="other.")
    before = [KEEPS, add("a", "b", stored=other, at=-9), pop(2, at=-8)]
    ended = [*before, finish("a", receipt=-8, at=-7)]
    mine = [KEEPS, add("a", due=5, mark="k", stored=USUAL, at=-9), pop(at=-2), finish("a", receipt=-2, at=-1)]
    return [
        Case("a job is added once", [KEEPS], once("a")),
        Case("three jobs are added once, and keep their order", [KEEPS], once("c", "a", "b", due=5)),
        Case("an empty topic keeps none, and refuses", [], once("a")),
        Case("a topic that keeps none refuses", [add("a")], once("a", "b")),
        Case("a topic refuses that keeps only what a task says", [add("a"), pop(), finish("a", result=f"{HOUR}n", at=1)], once("a")),
        Case("a job is there: reserved", before, once("a")),
        Case("a job is there: leaving", [KEEPS, *leaving("due", "other.")], once("a")),
        Case("a job is finished, and kept", ended, once("a")),
        Case("a job is finished, and kept; others are added", ended, once("c", "a", "b", "a", "c", mode="each")),
        Case("a job was finished, and is not kept any more", ended, once("a", at=HOUR - 7)),
        Case("a job was finished, and has been added since", [*ended, add("a", due=HOUR, stored=value(nonce="third."))], once("a")),
        Case("a job is finished that this call added", mine, once("a", due=5, replay=1)),
        Case("jobs are finished that this call added", [KEEPS, once("a", "b", "c", at=-9), pop(3, at=-8), finish("a", "c", receipt=-8, at=-7)], once("a", "b", "c", replay=1)),
        Case("a job is finished, and its body is not kept", [KEEPS, add("a", stored=LARGE, at=-9), pop(at=-8), finish("a", receipt=-8, at=-7)], once("a", stored=LARGE, replay=1)),
        Case("a job is finished, and its record is gone", [*mine, raw("HDEL", "results", "a")], once("a", due=5, replay=1)),
        Case("a job is finished, and its record is short", [*mine, raw("HSET", "results", "a", "\x01short")], once("a", due=5, replay=1)),
        Case("a job is finished, and its record is a newer version's", [*mine, raw("HSET", "results", "a", "\x02" + "x" * 60)], once("a", due=5, replay=1)),
        Case("a job is finished, and the records are another program's", [*mine, raw("DEL", "results"), raw("SET", "results", "x")], once("a")),
        Case("no job", [KEEPS], once()),
        Case("a job beyond the year 9999 refuses all", [KEEPS], once("a", due=BEYOND)),
        Case("a job to a topic with partitions", [raw("SET", "meta", 3), raw("SET", "jobs", 3)], once("a")),
        Case("a finished job cannot be kept, for the records are another program's", [*before, raw("SET", "results", "x")], finish("a", "b", receipt=-8)),
        Case("a finished job cannot be kept, nor can its id", [*before, raw("SET", "finished", "x")], finish("a", "b", receipt=-8)),
    ]  # fmt: skip


def cases_of_small_adds() -> list[Case]:
    return [
        Case("a job is added to an empty topic", [], soon("a")),
        Case("a job is added with a delay", [], soon("a", 5 * SECOND)),
        Case("a job is added at the horizon", [], soon("a", 10_500_000)),
        Case("a job is added beyond the horizon", [], soon("a", 10_500_001)),
        Case("a job is added for a moment", [], soon("a", f"@{NOW - HOUR}")),
        Case("a job of 1970 is not judged", [], soon("a", "@0")),
        Case("a job beyond the year 9999 is not judged", [], soon("a", BEYOND)),
        Case("a job whose id is taken is not judged", [add("a", due=HOUR)], soon("a")),
        Case("a job that is not the earliest", [add("a")], soon("b", SECOND)),
        Case("a job to a topic with a pause", [PAUSED], soon("a")),
        Case("a job to a topic with a seat", [SEAT], soon("a")),
        Case("a job to a topic with two seats", [TWO_SEATS], soon("a")),
        Case("a job to a topic with a rate", [TEN_A_SECOND, add("b"), pop()], soon("a")),
        Case("a job to a topic with a newer version's limits", [settings(limited="new")], soon("a")),
        Case("a job is due after a long delay", [], later("a", HOUR)),
        Case("a job just beyond the horizon", [add("b")], later("a", 10_500_001)),
        Case("a job at the horizon is not judged", [], later("a", 10_500_000)),
        Case("a job beyond the year 9999 is not judged", [], later("a", 253_402_300_900_000_000)),
        Case("a job whose id is taken is not judged", [add("a")], later("a", HOUR)),
    ]


def cases_of_pops() -> list[Case]:
    last = [add("a", stored=value(max_attempts=1)), pop(ttr=SECOND)]
    confirmed = [*last, step("topic/confirm", "a", NOW)]
    ranked = [add("a"), add("b", stored=value(priority=1)), add("c", stored=value(priority=3))]
    noted = [add("a"), pop(), release("a", counted=2, fault="unknown\n\x1dnote")]
    return [
        Case("nothing is popped of an empty topic", [], pop()),
        Case("a consumer waits for an empty topic", [], pop(waiter="v")),
        Case("a consumer waits for a job that is due soon", [add("a", due=5 * SECOND)], pop(waiter="v")),
        Case("a second consumer waits", [add("a", due=5 * SECOND), pop(waiter="v")], pop(waiter="w")),
        Case("a third consumer waits", [add("a", due=5 * SECOND), pop(waiter="v"), pop(waiter="w")], pop(waiter="x")),
        Case("a consumer waits for more jobs", [add("a")], pop(10, waiter="v", min_jobs=5)),
        Case("a consumer has a seat, and gets a job", [SEAT, add("a")], pop(waiter="v")),
        Case("a job is popped", [add("a")], pop()),
        Case("a job is popped late", [add("a")], pop(at=100 * SECOND)),
        Case("two jobs are popped late, one by much", [add("a"), add("b", at=90 * SECOND)], pop(2, at=100 * SECOND)),
        Case("a job is popped with the topic's TTR", [settings(ttr=7 * SECOND), add("a")], pop(ttr=0)),
        Case("a job is popped with the usual TTR", [add("a")], pop(ttr=0)),
        Case("three of five jobs are popped", [add(*"abcde")], pop(3)),
        Case("ten of twelve jobs are popped", [add(*"abcdefghijkl")], pop(10)),
        Case("a job that is due and one that is not", [add("a"), add("b", due=5 * SECOND)], pop(2)),
        Case("two callers share the jobs", [add(*"abc")], pop(2, 5)),
        Case("two callers share no job", [], pop(2, 5)),
        Case("jobs with fields of their own", [add("a", stored=value(ttr_ms=5000)), add("b", stored=value(max_attempts=3)), add("c", stored=value(headers="{}")), add("d", stored=value(max_lateness=HOUR))], pop(4)),
        Case("a job with one attempt is to be confirmed", [add("a", stored=value(max_attempts=1))], pop()),
        Case("the last attempt was never confirmed", last, pop(at=2 * SECOND)),
        Case("the last attempt was confirmed", confirmed, pop(at=2 * SECOND)),
        Case("a topic whose jobs have one attempt", [settings(max_attempts=1), add("a")], pop()),
        Case("a topic whose jobs have any number of attempts", [settings(max_attempts=4294967295), add("a"), add("b", stored=value(headers="{}"))], pop(2)),
        Case("a reservation is over", [add("a"), pop(ttr=SECOND)], pop(at=2 * SECOND)),
        Case("a reservation is over for the second time", [add("a"), pop(ttr=SECOND), pop(at=2 * SECOND), pop(ttr=SECOND, at=2 * SECOND + 1)], pop(at=4 * SECOND)),
        Case("a reservation without a run is over", [add("a"), pop(ttr=SECOND), raw("DEL", "runs")], pop(at=2 * SECOND)),
        Case("a reservation with a damaged run is over", [add("a"), pop(ttr=SECOND), raw("HSET", "runs", "a", "short")], pop(at=2 * SECOND)),
        Case("a reservation of a job with a priority is over", [*ranked, pop(3, ttr=SECOND)], pop(at=2 * SECOND)),
        Case("a job comes for the second time", [add("a"), pop(), release("a")], pop(at=2 * SECOND)),
        Case("a job that was put back with a note", noted, pop(at=2 * SECOND)),
        Case("the highest priority comes first", ranked, pop(2)),
        Case("all priorities are popped", ranked, pop(9)),
        Case("an entry of an index is skipped", [*ranked, raw("ZREM", "due", "c")], pop(2)),
        Case("an entry of an index has another moment", [*ranked, raw("ZADD", "due", NOW - 7, "c")], pop(2)),
        Case("many entries of an index are skipped", [*ranked, *(raw("ZADD", "priority3", 1, f"x{n}") for n in range(8))], pop(2)),
        Case("a priority waits for a schedule", [*ranked, settings(fires=NOW - 1)], pop(2)),
        Case("a paused topic hands out none", [PAUSED, add("a")], pop()),
        Case("the pause of a topic is over", [settings(paused=NOW - 5), add("a", at=-HOUR)], pop()),
        Case("a schedule is to be fired", [settings(fires=NOW - 5)], pop()),
        Case("a schedule is to be fired before a job", [settings(fires=NOW - 5), add("a")], pop()),
        Case("a schedule fires later than a job", [settings(fires=NOW + SECOND), add("a")], pop()),
        Case("a rate allows a job", [TEN_A_SECOND, add(*"abc")], pop(3)),
        Case("a rate allows none", [TEN_A_SECOND, add(*"abc"), pop(3)], pop(3, at=100)),
        Case("a rate allows the next", [TEN_A_SECOND, add(*"abc"), pop(3)], pop(3, at=SECOND // 10)),
        Case("a rate with a burst", [limits(n=3, span=SECOND, burst=2), add(*"abc"), pop()], pop(3, at=10)),
        Case("a rate that rounds", [limits(n=3, span=SECOND, burst=1), settings(spent=f"{NOW - 666_667} 0"), add(*"abc")], pop(3)),
        Case("a rate that is spent for long", [TEN_A_SECOND, settings(spent=f"{NOW + HOUR} 5"), add(*"abc")], pop(3)),
        Case("a concurrency limit", [ONE_AT_A_TIME, add(*"abc")], pop(3)),
        Case("a concurrency limit is reached", [ONE_AT_A_TIME, add(*"abc"), pop(3)], pop(3, at=SECOND)),
        Case("a place is free again", [ONE_AT_A_TIME, add(*"ab"), pop(), finish("a")], pop(3, at=2 * SECOND)),
        Case("a reservation is over in a full topic", [ONE_AT_A_TIME, add(*"ab"), pop(ttr=SECOND)], pop(3, at=2 * SECOND)),
        Case("a job is too late for its topic", [limits(max_lateness=SECOND), add(*"ab")], pop(2, at=9 * SECOND)),
        Case("a job is too late by itself", [add("a", stored=value(max_lateness=SECOND))], pop(at=9 * SECOND)),
        Case("a job comes again, and is too late", [limits(max_lateness=SECOND), add("a"), pop(), release("a")], pop(at=9 * SECOND)),
        Case("limits of a newer version", [settings(limited="new"), add("a")], pop()),
        Case("a job without a record", [raw("ZADD", "due", NOW - 5, "a"), raw("HSET", "runs", "a", "x")], pop()),
        Case("a job with half a head", [raw("ZADD", "due", NOW - 5, "a"), raw("HSET", "jobs", "a", "123")], pop()),
        Case("a job of a moment that nobody wrote", [raw("ZADD", "due", NOW - 5, "a"), raw("HSET", "jobs", "a", "123456\xff" + USUAL)], pop()),
        Case("a job whose headers are cut", [add("a", stored=value(headers="{}")[:-7])], pop()),
        Case("a job whose fields are cut", [add("a", stored=value(ttr_ms=5)[:9])], pop()),
        Case("a job with flags of a newer version", [add("a", stored=value(further=64))], pop()),
        Case("a raw job", [add("a", stored="\x01tea")], pop()),
        Case("dead jobs that are too old", [settings(keep_dead=SECOND), add("a"), pop(), bury("a"), add("b")], pop(at=HOUR)),
        Case("dead jobs that are kept for ever", [settings(keep_dead=0), add("a"), pop(), bury("a")], pop(at=HOUR)),
        Case("a topic that keeps finished jobs", [settings(keep_finished=HOUR), add("a")], pop()),
        Case("the second pop of a minute", [add(*"ab"), pop()], pop(at=SECOND)),
        Case("a pop of the next minute", [add(*"ab"), pop()], pop(at=60 * SECOND)),
        Case("a pop of the next hour", [add(*"ab"), pop()], pop(at=HOUR)),
        Case("a pop of the next day folds the hours", [add(*"ab"), pop(), pop(at=60 * SECOND), pop(at=2 * HOUR)], pop(at=30 * HOUR)),
        Case("a pop of the next month forgets the hours", [add(*"ab"), pop()], pop(at=720 * HOUR)),
        Case("a holder that is missed pops", [MISSED, add("a")], pop()),
        Case("another holder than the missed one pops", [MISSED, add("a")], pop(holder="v")),
        Case("the mark of a missed holder is old", [OLD_MISSED, add("a")], pop()),
        Case("a mark that cannot be read", [NO_MISSED, add("a")], pop()),
        Case("the clock was set back", [add(*"ab"), pop()], pop(at=-HOUR)),
        Case("the last receipt is damaged", [raw("HSET", "meta", "last", "x"), add("a")], pop()),
        Case("a topic with partitions", [raw("SET", "meta", 3)], pop()),
    ]  # fmt: skip


def cases_of_settled() -> list[Case]:
    cases = [
        Case("a job is finished", [add("a"), pop()], finish("a")),
        Case("two jobs are finished", [add(*"ab"), pop(2)], finish("a", "b")),
        Case("ten jobs are finished", [add(*"abcdefghij"), pop(10)], finish(*"abcdefghij")),
        Case("ten jobs are finished, one is over", [add(*"abcdefghi"), pop(9), add("j"), pop(ttr=SECOND // 2, at=1)], finish(*"abcdefghi")),
        Case("sixteen jobs are finished", [add(*SIXTEEN), pop(16)], finish(*SIXTEEN)),
        Case("sixteen jobs are finished, of two pops", [add(*SIXTEEN), pop(8), pop(8, at=1)], finish(*SIXTEEN)),
        Case("sixteen jobs are finished, one with another receipt", [add(*SIXTEEN), pop(16)], step("topic/finish", 0, *(one for id in SIXTEEN for one in (id, NOW + (id == "p"), "")), at=SECOND)._replace(fewer=4)),
        Case("sixteen jobs are finished, one is over", [add(*SIXTEEN[1:]), add("a", stored=value(ttr_ms=500)), pop(16)], finish(*SIXTEEN)),
        Case("sixteen jobs are finished, one was released", [add(*SIXTEEN), pop(16), release("p", counted=0, fault="", at=1)], finish(*SIXTEEN)),
        Case("sixteen jobs are finished, one was released, and is dead", [limits(max_lateness=SECOND), add(*SIXTEEN), pop(16), release("p", counted=0, fault="", at=1), pop(at=9 * SECOND)], finish(*SIXTEEN, at=10 * SECOND)),
        Case("sixteen jobs are finished beside a dead one", [add(*SIXTEEN), pop(16), add("q", at=1), pop(at=1), bury("q", receipt=1, at=2)], finish(*SIXTEEN)),
        Case("sixteen jobs are finished, one of them twice", [add(*SIXTEEN), pop(16)], finish(*SIXTEEN, "p")),
        Case("a job is named twice", [add("a"), pop()], finish("a", "a")),
        Case("a job is named twice beside another reason", [add(*"ab"), pop()], finish("a", "a", "b")),
        Case("no job is finished", [], finish()),
        Case("a job is finished at its second attempt", [add("a"), pop(), release("a", at=1), pop(at=2)], finish("a", receipt=2)),
        Case("a job is finished in a full topic", [ONE_AT_A_TIME, add(*"ab"), pop()], finish("a")),
        Case("a job is finished in a topic that is not full", [limits(concurrency=5), add(*"ab"), pop()], finish("a")),
        Case("a missed holder finishes", [add("a"), pop(), MISSED], finish("a")),
        Case("a topic keeps its finished job", [KEEPS, add("a"), pop()], finish("a", result="j7"), ["finished"]),
        Case("a topic keeps its finished jobs", [KEEPS, add(*"ab"), pop(2)], finish("a", "b", result="n"), ["finished"]),
        Case("a finished job of a second attempt is kept", [KEEPS, add("a"), pop(), release("a", at=1), pop(at=2)], finish("a", receipt=2), ["finished"]),
        Case("a task keeps its job", [add("a"), pop()], finish("a", result=f"{HOUR}xno result"), ["finished"]),
        Case("a task keeps nothing", [KEEPS, add("a"), pop()], finish("a", result="0n"), ["finished"]),
        Case("a result that cannot be read", [KEEPS, add("a"), pop()], finish("a", result="?"), ["finished"]),
        Case("a large record is not kept", [KEEPS, add("a", stored=LARGE), pop()], finish("a", result="j" + "1" * 65_537), ["finished"]),
        Case("history that is over is swept", [KEEPS, add(*"ab"), pop(2, ttr=3 * HOUR), finish("a")], finish("b", at=2 * HOUR), ["finished"]),
        Case("a finish is repeated that was done", [add("a"), pop(), finish("a")], finish("a", replay=1)),
        Case("a finish is repeated that was not done", [add("a"), pop()], finish("a", replay=1)),
        Case("a finish is repeated after the TTR", [add("a"), pop(ttr=SECOND), pop(at=2 * SECOND, ttr=1)], finish("a", replay=1, at=3 * SECOND)),
        Case("a finish is repeated, and the job was put back", [add("a"), pop(), release("a")], finish("a", replay=1)),
        Case("a finish is repeated, and the job is dead", [add("a"), pop(), bury("a")], finish("a", replay=1)),
        Case("a finish is repeated whose receipt was stale", [add("a"), pop(), release("a", at=1), pop(at=2), finish("a", receipt=2, at=3)], finish("a", replay=1, at=4)),
        Case("a finish is repeated, and the entry of the receipt is damaged", [raw("HSET", "stale", "a", "x")], finish("a", replay=1)),
        Case("a finish is repeated, and the job is a new one", [add("a"), pop(), finish("a"), add("a")], finish("a", replay=1)),
        Case("stale receipts of too many jobs are forgotten", [*(raw("HSET", "stale", f"s{n}", "x") for n in range(1000)), add("a"), pop(), release("a", at=1), pop(at=2)], finish("a", receipt=2)),
        Case("a stale receipt ahead of the clock is not noted", [add("a"), pop(), release("a", at=1), pop(at=2)], finish("a", receipt=2, at=-HOUR)),
        Case("a job is released", [add("a"), pop()], release("a")),
        Case("two jobs are released", [add(*"ab"), pop(2)], release("a", "b")),
        Case("no job is released", [], release()),
        Case("a job is released for a moment", [add("a"), pop()], release("a", due=f"@{NOW + HOUR}")),
        Case("a job is released beyond the year 9999", [add("a"), pop()], release("a", due=BEYOND)),
        Case("a job is released for long", [add("a"), pop()], release("a", due=HOUR)),
        Case("a job is released with a back-off", [add("a"), pop(), release("a", at=1), pop(at=2)], release("a", receipt=2, due=f"~{SECOND} {HOUR}")),
        Case("a job is released with the longest back-off", [add("a"), pop()], release("a", due=f"~{HOUR} {SECOND}")),
        Case("a job is released after its last attempt", [add("a", stored=value(max_attempts=1)), pop(), step("topic/confirm", "a", NOW)], release("a")),
        Case("a job is released after its handler's last attempt", [add("a"), pop()], release("a", limit=1)),
        Case("a job is released whose handler has no limit", [add("a", stored=value(max_attempts=1)), pop()], release("a", limit=4294967295)),
        Case("a job is released, not counted", [add("a"), pop()], release("a", counted=0, fault="")),
        Case("a job is released with a reason, not counted", [add("a"), pop()], release("a", counted=0, fault="shutdown")),
        Case("a job is released that nobody saw", [add("a"), pop()], release("a", counted=2, fault="")),
        Case("a job is released that nobody saw, and its rate is refunded", [TEN_A_SECOND, add("a"), pop()], release("a", counted=2, fault="", at=9)),
        Case("a rate is not refunded later", [TEN_A_SECOND, add("a"), pop()], release("a", counted=2, fault="", at=SECOND)),
        Case("a topic without a rate refunds nothing", [PAUSED, raw("HDEL", "meta", "paused"), add("a"), pop()], release("a", counted=2, fault="")),
        Case("a hand-out does not count", [add("a"), pop()], release("a", counted=21, fault="unknown\n\x1dnote")),
        Case("a later hand-out does not count", [add("a"), pop(), release("a", at=3, counted=21, fault="unknown\n\x1dnote"), pop(at=9)], release("a", receipt=9, counted=23, fault="unknown\n\x1dnote")),
        Case("a hand-out after a pause does not count", [settings(paused=NOW - 5), add("a", at=-HOUR), pop()], release("a", counted=f"2{HOUR}", fault="unknown\n\x1dnote")),
        Case("a hand-out that was not counted does not count", [add("a"), pop(), raw("DEL", "meta")], release("a", counted=21, fault="unknown\n\x1dnote")),
        Case("a job with a priority is released", [add("a", stored=value(priority=2)), pop()], release("a")),
        Case("a job without a priority is released among others", [add("a"), add("b", stored=value(priority=2)), pop(2)], release("a")),
        Case("a job without a record is released among priorities", [add("b", stored=value(priority=2)), add("a"), pop(2), raw("HDEL", "jobs", "a")], release("a")),
        Case("a job is released in a full topic", [ONE_AT_A_TIME, add(*"ab"), pop()], release("a", due=HOUR)),
        Case("a job is released that is not the earliest", [add(*"ab"), pop()], release("a", due=5 * SECOND)),
        Case("a release forgets retries of the past", [add(*"ab"), pop(2), release("a", due=SECOND)], release("b", due=HOUR, at=3 * SECOND)),
        Case("a release is repeated that was done", [add("a"), pop(), release("a", due=HOUR)], release("a", due=HOUR, replay=1)),
        Case("a release is repeated that set the job aside", [add("a"), pop(), release("a", limit=1)], release("a", limit=1, replay=1)),
        Case("a release names a job twice", [add("a"), pop()], release("a", "a")),
        Case("a release names a job twice that dies", [add("a"), pop()], release("a", "a", limit=1)),
        Case("a release names a job twice, repeated", [add("a"), pop()], release("a", "a", replay=1)),
        Case("a job has failed ten times", [add("a"), *(one for n in range(11) for one in (pop(at=n * 10), release("a", receipt=n * 10, at=n * 10 + 5))), pop(at=500)], release("a", receipt=500)),
        Case("a reservation is renewed", [add("a"), pop()], touch("a")),
        Case("two reservations are renewed", [add(*"ab"), pop(2)], touch("a", "b")),
        Case("no reservation is renewed", [], touch()),
        Case("a missed holder renews", [add("a"), pop(), MISSED], touch("a")),
        Case("a renewal is repeated after the release", [add("a"), pop(), release("a")], touch("a", replay=1)),
        Case("a refusal is not counted", [add("a"), pop(), release("a")], touch("a", counted=0)),
        Case("a job is set aside", [add("a"), pop()], bury("a")),
        Case("two jobs are set aside", [add(*"ab"), pop(2)], bury("a", "b")),
        Case("no job is set aside", [], bury()),
        Case("a job is set aside as too late", [add("a"), pop()], bury("a", fault="too late\nby an hour")),
        Case("a job is set aside after its last attempt", [add("a"), pop()], bury("a", limit=1, fault="attempts exhausted\noh")),
        Case("a job is set aside at its second attempt", [add("a"), pop(), release("a", at=1), pop(at=2)], bury("a", receipt=2)),
        Case("a job is set aside in a full topic", [ONE_AT_A_TIME, add(*"ab"), pop()], bury("a")),
        Case("a job is set aside in a topic that is not full", [limits(concurrency=5), add("a"), pop()], bury("a")),
        Case("a bury is repeated that was done", [add("a"), pop(), bury("a")], bury("a", replay=1)),
        Case("a bury is repeated, and the job was put back", [add("a"), pop(), release("a")], bury("a", replay=1)),
        Case("a long error is cut", [add("a"), pop()], bury("a", fault="y" * 9000)),
    ]  # fmt: skip
    for why, before in {"a job of an empty server": [], **REFUSED}.items():
        for verb, settle in (("finished", finish), ("released", release), ("renewed", touch), ("set aside", bury)):
            cases.append(Case(f"{why} is not {verb}", before, settle("a", "b")))
    return cases


def cases_by_id() -> list[Case]:
    places = {
        "delayed": [add("a", due=HOUR)],
        "ready": [add("a")],
        "reserved": [add("a"), pop()],
        "timed out": [add("a"), pop(ttr=1)],
        "dead": [add("a"), pop(), bury("a")],
        "gone": [],
        "retrying": [add("a"), pop(), release("a", due=HOUR)],
        "delayed, with a priority": [add("a", due=HOUR, stored=value(priority=2))],
        "dead, with a priority": [add("a", stored=value(priority=2)), pop(), bury("a")],
        "reserved, with a priority": [add("a", stored=value(priority=2)), pop()],
        "leaving, delayed": leaving("due"),
        "leaving, dead": leaving("dead"),
        "dead, and the topic is paused": [PAUSED, raw("HDEL", "meta", "paused"), add("a"), pop(), bury("a"), PAUSED],
    }
    cases = []
    for place, before in places.items():
        cases += [
            Case(f"a job is kicked: {place}", before, kick("a")),
            Case(f"a job is deleted: {place}", before, delete("a")),
            Case(f"a job is deleted by its nonce: {place}", before, delete("a", nonce=NONCE)),
            Case(f"a job is deleted if it is dead: {place}", before, delete("a", only="dead")),
            Case(f"a job gets another due time: {place}", before, reschedule("a")),
        ]
    full = [ONE_AT_A_TIME, add(*"ab"), pop()]
    return [
        *cases,
        Case("two jobs are kicked", [add(*"ab"), pop(2), bury("a", "b")], kick("a", "b")),
        Case("no job is kicked", [], kick()),
        Case("a job with another nonce stays", [add("a")], delete("a", nonce="wrong.")),
        Case("two jobs are deleted", [add(*"ab")], delete("a", "b")),
        Case("no job is deleted", [], delete()),
        Case("a reserved job is deleted in a full topic", full, delete("a")),
        Case("a reserved job is deleted in a topic that is not full", [limits(concurrency=5), add("a"), pop()], delete("a")),
        Case("a job gets a moment", [add("a")], reschedule("a", due=f"@{NOW + HOUR}")),
        Case("a job gets a moment of the past", [add("a", due=HOUR)], reschedule("a", due=f"@{NOW - HOUR}")),
        Case("a retrying job gets a moment of the past", [add("a"), pop(), release("a", due=HOUR)], reschedule("a", due=f"@{NOW}")),
        Case("a job gets a moment beyond the year 9999", [add("a")], reschedule("a", due=BEYOND)),
        Case("no job gets another due time", [], reschedule()),
        Case("retries of the past are forgotten", [add(*"ab"), pop(2), release("a", due=SECOND), release("b", due=HOUR)], reschedule("b", at=5 * SECOND)),
    ]  # fmt: skip


def keep_step(*names: str, ids: str = "a", result: str = '"ch_17"', replay: int = 0, at: int = SECOND) -> Step:
    items = (one for id in ids for name in names for one in (id, NOW, name, result))
    return step("topic/keep_step", replay, *items, at=at)


def cases_of_steps() -> list[Case]:
    """Of jobs whose handlers keep steps, in the scripts that read or write the record."""
    full = value('"old"', nonce="other.", ttr_ms=5000, max_attempts=3, max_lateness=HOUR, headers="{}", priority=2)
    plain = [add("a"), pop()]
    kept = [*plain, keep_step("charge", at=9)]
    rich = [add("a", stored=full), pop()]
    steps = "\x06charge" + struct.pack("<I", 2).decode("latin-1") + "17"
    cut = [add("a", stored=value(steps=steps[:9])), pop()]
    update_of_all = add("a", due=HOUR, mark="u", stored=value('"new"'), at=SECOND)
    cases = [
        Case(f"steps of two jobs, one of {what}", before, keep_step("charge", ids="ab", at=2 * SECOND)) for what, before in REFUSED.items()
    ]  # fmt: skip
    return [
        *cases,
        Case("no step", [], keep_step()),
        Case("a step of a job that is not there", [], keep_step("charge")),
        Case("a job keeps its first step", plain, keep_step("charge")),
        Case("a job keeps a second step", kept, keep_step("mail", result="null")),
        Case("a job keeps two steps at once", plain, keep_step("charge", "mail")),
        Case("a step has a result already", kept, keep_step("charge", result='"other"')),
        Case("a step is kept again", kept, keep_step("charge", replay=1)),
        Case("a step is kept again after the TTR", [add("a"), pop(ttr=SECOND), keep_step("charge", at=9)], keep_step("charge", replay=1, at=2 * SECOND)),
        Case("a step is kept again after a release", [*kept, release("a", due=HOUR)], keep_step("charge", replay=1, at=2 * SECOND)),
        Case("a job with fields of its own keeps a step", rich, keep_step("charge")),
        Case("a job with fields of its own keeps a second step", [*rich, keep_step("charge", at=9)], keep_step("mail")),
        Case("a job without a nonce keeps a step", [add("a", stored="\x00tea"), pop()], keep_step("charge")),
        Case("a job of plain bytes keeps a step", [add("a", stored="\x09" + NONCE + "tea"), pop()], keep_step("charge")),
        Case("a job in a window keeps a step", [add("a", stored=value(first=NOW - HOUR)), pop()], keep_step("charge")),
        Case("a job that was updated meanwhile keeps no step", [*kept, update(at=10)], keep_step("mail")),
        Case("a step that is too large is not kept", plain, keep_step("charge", result="x" * 65_526)),
        Case("a job whose steps are cut keeps a step", cut, keep_step("charge")),
        Case("a job without a record keeps no step", [*plain, raw("DEL", "jobs")], keep_step("charge")),
        Case("a job whose head is cut keeps no step", [*plain, raw("HSET", "jobs", "a", "1234567\x80")], keep_step("charge")),
        Case("a job of a newer version keeps no step", [*plain, raw("HSET", "jobs", "a", "1234567" + value(further=64))], keep_step("charge")),
        Case("a job whose steps have no end keeps no step", [*plain, raw("HSET", "jobs", "a", "1234567" + value(steps=steps)[:-9])], keep_step("charge")),
        Case("a job with steps is popped again", [*kept, release("a")], pop(at=2 * SECOND)),
        Case("a job with steps is popped by its id", [*kept, release("a")], step("topic/pop_by_id", "a", "ready", 0, "w", at=2 * SECOND)),
        Case("a job whose steps have no end is popped", [add("a", stored=value(steps=steps)[:-9])], pop()),
        Case("a job with steps is finished", kept, finish("a")),
        Case("a job with steps is finished in a topic that keeps it", [KEEPS, *kept], finish("a", result="j7")),
        Case("a job with steps gets headers", kept, step("topic/set_headers", "a", NOW, "{}", 3, at=SECOND)),
        Case("a job with steps is updated", [*rich, keep_step("charge", at=9), release("a", due=HOUR, at=10)], update_of_all),
        Case("a job with steps is replaced in its window", [*kept, release("a", due=HOUR, counted=2, at=10)], add("a", due=HOUR, mark=f"l{HOUR} ", stored=value(nonce="second"), at=SECOND)),
        Case("a job with steps is kicked", [*kept, bury("a")], kick("a")),
        Case("a job with steps is checked", kept, step("topic/check", "jobs", 0, 10)),
    ]  # fmt: skip


def update(*, at: int, **fields: Any) -> Step:
    return add("a", due=5 * SECOND, mark="u", stored=value('"new"', **{"nonce": "update", **fields}), at=at)


def cases_of_updates() -> list[Case]:
    """Of jobs that were updated, in all scripts that a run ends with."""
    full = value('"old"', nonce="other.", ttr_ms=5000, max_attempts=3, max_lateness=HOUR, headers="{}", priority=2)
    changed = [add("a", stored=value(nonce="other.")), pop(), update(at=9)]
    urgent = [add("a", stored=value(nonce="other.", priority=2)), pop(), update(at=9)]
    last = [add("a", stored=value(nonce="other.", max_attempts=1)), pop(), update(at=9)]
    confirmed = [*last, step("topic/confirm", "a", NOW, at=10)]
    again = [add("a", stored=value(nonce="other.")), pop(), release("a", at=1), pop(at=2), update(at=9)]
    waits = [add("a", stored=value(nonce="other.")), pop(), release("a", at=1), update(at=9)]
    late = [limits(max_lateness=SECOND), *waits, pop(at=9 * SECOND)]
    anew = [*changed, finish("a")]
    by_id = step("topic/pop_by_id", "a", "ready", 0, "w", at=2 * SECOND)
    return [
        Case("a job is updated that is not there", [], update(at=0)),
        Case("an update is repeated that added a job", [update(at=0)], add("a", due=5 * SECOND, mark="u", stored=value(nonce="update"), replay=1, at=9)),
        Case("an update is repeated that changed a job", [add("a", due=HOUR, stored=full), update(at=0)], add("a", due=5 * SECOND, mark="u", stored=value(nonce="update"), replay=1, at=9)),
        Case("an update is repeated, and the job is dead", [*changed, release("a"), pop(at=2 * SECOND), bury("a", receipt=2 * SECOND, at=3 * SECOND)], update(at=4 * SECOND)),
        Case("a job with fields of its own is updated", [add("a", due=HOUR, stored=full)], update(at=0)),
        Case("a job with fields of its own gets others", [add("a", due=HOUR, stored=full)], update(at=0, ttr_ms=1, max_attempts=4, max_lateness=7, headers="[]", priority=3)),
        Case("a job gets fields", [add("a", due=HOUR, stored=value(nonce="other."))], update(at=0, ttr_ms=1, max_attempts=4, max_lateness=7, headers="[]", priority=3)),
        Case("a job is updated by one of plain bytes", [add("a", due=HOUR, stored=full)], add("a", mark="u", stored="\x09" + NONCE + "tea")),
        Case("a job with a priority is updated while it is reserved", urgent[:2], update(at=9)),
        Case("a job is updated twice while it is reserved", changed, update(at=SECOND, nonce="second")),
        Case("a job is updated while its headers are cut", [add("a", due=HOUR, stored=full[:-7])], update(at=0)),
        Case("a job with flags of a newer version is updated", [add("a", due=HOUR, stored=value(further=64))], update(at=0)),
        Case("a job is updated whose run is damaged", [add("a", stored=full), pop(), raw("HSET", "runs", "a", "x")], update(at=9)),
        Case("a job is updated that was just added", [], step("topic/add", "each", 0, 0, "a", "u5", USUAL, "a", "u5", value(nonce="other.", priority=3), "a", "u5", value(nonce="third."))),
        Case("a job that waits for its next attempt is updated", waits[:3], update(at=9)),
        Case("a job that was given back uncounted is updated", [add("a", stored=value(nonce="other.")), pop(at=5), release("a", receipt=5, counted=0, at=6)], update(at=9)),
        Case("an updated job that nobody has had is replaced in its window", waits, add("a", due=HOUR, mark=f"l{HOUR} ", at=HOUR)),
        Case("an updated job is finished", changed, finish("a")),
        Case("an updated job with a priority is finished", urgent, finish("a")),
        Case("an updated job is finished beside another", [*changed, add("b", at=10), pop(at=11)], step("topic/finish", 0, "a", NOW, "", "b", NOW + 11, "", at=SECOND)._replace(fewer=4)),
        Case("an updated job is finished at its second attempt", again, finish("a", receipt=2)),
        Case("an updated job is finished in a topic that keeps it", [KEEPS, *changed], finish("a", result="j7")),
        Case("an updated job is finished in a full topic", [ONE_AT_A_TIME, *changed], finish("a")),
        Case("an updated job is finished, and a consumer is called", [*changed, SEAT], finish("a")),
        Case("an updated job without a record is finished", [*changed, raw("DEL", "jobs")], finish("a")),
        Case("the finish of an updated job is repeated", anew, finish("a", replay=1, at=2 * SECOND)),
        Case("the finish of an updated job is repeated after the next pop", [*anew, pop(at=2 * SECOND)], finish("a", replay=1, at=2 * SECOND)),
        Case("a late finish of an updated job is repeated after the next pop", [*again, finish("a", receipt=2), pop(at=2 * SECOND)], finish("a", replay=1, at=2 * SECOND)),
        Case("the finish of an updated job is repeated that was not done", waits, finish("a", replay=1)),
        Case("an updated job that was finished is popped", anew, pop(at=2 * SECOND)),
        Case("an updated job with a priority that was finished is popped", [*urgent, finish("a")], pop(at=2 * SECOND)),
        Case("an updated job that was finished is popped by its id", anew, by_id),
        Case("an updated job that was finished is updated", anew, update(at=2 * SECOND, nonce="second")),
        Case("an updated job that was finished is checked", anew, step("topic/check", "reserved", 0, 10, at=2 * SECOND)),
        Case("an updated job is released", changed, release("a")),
        Case("an updated job is released after its last attempt", confirmed, release("a", due=HOUR)),
        Case("an updated job is released, not counted", changed, release("a", counted=0)),
        Case("an updated job that was released is popped", [*changed, release("a")], pop(at=2 * SECOND)),
        Case("an updated job is set aside", changed, bury("a")),
        Case("an updated job with a priority is set aside", urgent, bury("a")),
        Case("an updated job is set aside in a full topic", [ONE_AT_A_TIME, *changed], bury("a")),
        Case("the bury of an updated job is repeated", [*changed, bury("a")], bury("a", replay=1, at=2 * SECOND)),
        Case("the reservation of an updated job is over", changed, pop(at=HOUR)),
        Case("the reservation of an updated job is over after its last attempt", confirmed, pop(at=HOUR)),
        Case("the reservation of an updated job is over that was never confirmed", last, pop(at=HOUR)),
        Case("the last attempt of an updated job is confirmed", last, step("topic/confirm", "a", NOW, at=10)),
        Case("the holder of an updated job died", changed, step("topic/release_holder", "w", 1, "", "", "", "", 0, 10, at=SECOND)),
        Case("the holder of an updated job died at the last attempt", confirmed, step("topic/release_holder", "w", 1, "", "", "", "", 0, 10, at=SECOND)),
        Case("an updated job is too late", late[:-1], late[-1]),
        Case("the finish of an updated job is repeated that was too late", late, finish("a", replay=1, at=10 * SECOND)),
        Case("an updated job that is too late is updated", late, update(at=10 * SECOND, nonce="second")),
        Case("the reservation of an updated job is renewed", changed, touch("a")),
    ]  # fmt: skip


def cases_beside() -> list[Case]:
    """Of the scripts that are called while a job is worked on, or with its id."""
    last = [add("a", stored=value(max_attempts=1)), pop()]
    places: dict[str, list[Step]] = {
        "gone": [],
        "delayed": [add("a", due=HOUR)],
        "ready": [add("a")],
        "reserved": [add("a"), pop()],
        "timed out": [add("a"), pop(ttr=1)],
        "dead": [add("a"), pop(), bury("a")],
        "retrying": [add("a"), pop(), release("a", due=HOUR)],
        "with a priority": [add("a", stored=value(priority=2))],
        "with fields of its own": [
            add("a", stored=value(ttr_ms=5000, max_attempts=3, headers="{}", max_lateness=HOUR))
        ],
        "raw": [add("a", stored="\x01tea")],
        "with any number of attempts": [settings(max_attempts=4294967295), add("a")],
        "with the topic's TTR": [settings(ttr=7 * SECOND), add("a")],
        "finished and kept": [KEEPS, add("a"), pop(), finish("a", result="j7")],
        "without a record": [raw("ZADD", "due", NOW - 5, "a")],
        "with half a head": [raw("ZADD", "due", NOW - 5, "a"), raw("HSET", "jobs", "a", "123")],
        "with flags of a newer version": [add("a", stored=value(further=64))],
        "leaving, delayed": leaving("due"),
        "leaving, dead": leaving("dead"),
        "in a full topic": [ONE_AT_A_TIME, add(*"ab"), pop()],
        "in a topic that is not full": [limits(concurrency=5), add("a"), pop()],
        "reserved, and the last attempt": last,
        "with a damaged last receipt": [raw("HSET", "meta", "last", "x"), add("a")],
    }
    cases = []
    for place, before in places.items():
        cases += [
            Case(f"a job is popped by its id: {place}", before, step("topic/pop_by_id", "a", "delayed ready dead", 0, "w", at=2 * SECOND)),
            Case(f"a job is popped by its id for ten seconds: {place}", before, step("topic/pop_by_id", "a", "ready", 10 * SECOND, "w", at=2 * SECOND)),
            Case(f"a last attempt is confirmed: {place}", before, step("topic/confirm", "a", NOW, "b", NOW, at=SECOND)),
            Case(f"a job is cancelled: {place}", before, step("topic/cancel", "a", at=SECOND)),
            Case(f"a job is read: {place}", before, step("topic/get", 0, "a", "b", at=2 * SECOND)),
            Case(f"a job is read with history: {place}", before, step("topic/get", 1, "a", at=2 * SECOND)),
            Case(f"headers are replaced: {place}", before, step("topic/set_headers", "a", NOW, "{}", "", at=SECOND)),
        ]  # fmt: skip
    reserved = [add("a", stored=value(headers="{}")), pop()]
    cancelled = [add("a"), pop(), step("topic/cancel", "a", at=SECOND)]
    return [
        *cases,
        Case("headers are taken away", reserved, step("topic/set_headers", "a", NOW, "", 0, at=SECOND)),
        Case("a priority is given", reserved, step("topic/set_headers", "a", NOW, "[]", 3, at=SECOND)),
        Case("a priority is changed", [add("a", stored=value(priority=1)), pop()], step("topic/set_headers", "a", NOW, "", 2, at=SECOND)),
        Case("a cancelled run is known", cancelled, step("topic/cancelled", "a", NOW, "a", NOW + 1, at=SECOND)),
        Case("no run was cancelled", [], step("topic/cancelled", "a", NOW)),
        Case("cancelled runs are forgotten", [*cancelled, add("b", at=HOUR), pop(at=HOUR)], step("topic/cancel", "b", at=HOUR + 1)),
        Case("a seat is given back", [SEAT], step("topic/leave", "v")),
        Case("a seat of an empty topic is given back", [], step("topic/leave", "v")),
        Case("a seat is given back, and a job is due", [add("a"), SEAT], step("topic/leave", "v")),
        Case("a topic is paused", [add("a")], step("topic/pause", HOUR, "", "")),
        Case("a topic is paused for ever", [], step("topic/pause", 253_402_300_900_000_000, "", "")),
        Case("a topic is paused for at least a second", [add("a")], step("topic/pause", SECOND, 1, "")),
        Case("a longer pause stays", [PAUSED, add("a")], step("topic/pause", SECOND, 1, "")),
        Case("a shorter pause gets longer", [PAUSED], step("topic/pause", 2 * HOUR, 1, "")),
        Case("a longer pause becomes shorter", [PAUSED], step("topic/pause", SECOND, "", "")),
        Case("a pause ends", [PAUSED, add("a")], step("topic/pause", "", "", "")),
        Case("a pause that is over ends", [settings(paused=NOW - 5)], step("topic/pause", "", "", "")),
        Case("no pause ends", [], step("topic/pause", "", "", "")),
    ]  # fmt: skip


def cases_of_locks() -> list[Case]:
    """And of tokens."""
    me, other = "0a-1b-2c-3d-4e:1", "0f-1b-2c-3d-4e:1"

    def acquire(holder: str = me, depth: int = 1, lease: int = 30_000, at: int = 0) -> Step:
        return step("locks/acquire", holder, depth, lease, 0, at=at)

    def store(record: str) -> Step:
        return step("tokens/store", "id", record)

    states: dict[str, list[Step]] = {
        "it is free": [],
        "it is held": [acquire()],
        "it is held twice": [acquire(), acquire(depth=2)],
        "another holds it": [acquire(other)],
        "it has a mode": [acquire(), raw("HSET", "lock", "mode", "write")],
        "it has nothing but a mode": [raw("HSET", "lock", "mode", "write")],
        "its token is lost": [acquire(), raw("DEL", "token")],
        "it was held before": [raw("SET", "token", NOW - 9)],
        "it was held by a clock ahead": [raw("SET", "token", NOW + HOUR)],
        "the key is a text": [raw("SET", "lock", "x")],
        "the key is another hash": [raw("HSET", "lock", "a", "b")],
    }
    cases = []
    for state, before in states.items():
        cases += [
            Case(f"a lock is read: {state}", before, step("locks/read")),
            Case(f"any holder's lock is released: {state}", before, step("locks/force_release", 1), ["channel"]),
        ]
        if "key is a" not in state:
            cases += [
                Case(f"a lock is acquired: {state}", before, acquire(at=SECOND)),
                Case(f"a lock is acquired again: {state}", before, acquire(depth=2, at=SECOND)),
                Case(f"a lock is renewed: {state}", before, step("locks/renew", me, 60_000)),
                Case(f"a lock is released: {state}", before, step("locks/release", me, 0, 0, 0), ["channel"]),
                Case(f"a lock is released, repeated: {state}", before, step("locks/release", me, 0, 1, 1), ["channel"]),
                Case(f"one hold is released: {state}", before, step("locks/release", me, 1, 0, 0), ["channel"]),
            ]
    return [
        *cases,
        Case("a lock is renewed for less than is left", [acquire()], step("locks/renew", me, 10_000)),
        Case("a token is stored", [], store("record")),
        Case("a token is stored twice", [store("record")], store("other")),
        Case("a token is deleted", [store("record")], store("")),
        Case("a token that is not there is deleted", [], store("")),
    ]


SITUATIONS: dict[str, list[Step]] = {
    "a paused topic": [PAUSED],
    "a topic with a seat in time": [SEAT],
    "a topic with seats that are late": [raw("ZADD", "watch", NOW - HOUR, "v", NOW + HOUR, "w")],
    "a topic with two seats and both tokens": [TWO_SEATS, raw("RPUSH", "wake", 1), raw("RPUSH", "relay", 1)],
    "a topic with both tokens": [raw("RPUSH", "wake", 1), raw("RPUSH", "relay", 1)],
    "a topic with a schedule": [settings(fires=NOW + SECOND)],
    "a topic whose rate is spent": [TEN_A_SECOND, settings(spent=f"{NOW - 5} 9")],
    "a topic whose rate is spent for long": [TEN_A_SECOND, settings(spent=f"{NOW + HOUR} 5")],
    "a topic whose rate is idle": [TEN_A_SECOND, settings(spent=f"{NOW - HOUR} 0")],
    "a full topic": [raw("ZADD", "reserved", NOW + HOUR, "z"), limits(concurrency=2)],
    "a topic with places": [limits(concurrency=9)],
    "a topic with limits of a newer version": [settings(limited="new", concurrency=1)],
    "a topic with priorities": [settings(priorities="13")],
    "a topic whose job is due late": [raw("ZADD", "due", NOW + HOUR, "z")],
    "a topic with partitions": [raw("DEL", "meta"), raw("SET", "meta", 3)],
}
"""What a call meets that could end with the watch."""
IN_SITUATIONS: dict[str, tuple[list[Step], Step]] = {
    "a job is added": ([], add("a")),
    "a job is replaced": ([add("a", stored=value(nonce="other.", priority=1)), pop(at=1)], add("a", mark="r", at=2)),
    "a job with a priority is added": ([], add("a", stored=value(priority=2))),
    "a job is added alone": ([], soon("a")),
    "a job is added alone for later": ([], later("a", HOUR)),
    "a job is popped": ([add("a")], pop()),
    "a consumer waits": ([add("a", due=5 * SECOND)], pop(waiter="x")),
    "a job is finished": ([add("a"), pop()], finish("a")),
    "a job is released": ([add("a"), pop()], release("a")),
    "a job that nobody saw is released": ([add("a"), pop()], release("a", counted=2, fault="", at=9)),
    "a reservation is renewed": ([add("a"), pop()], touch("a")),
    "a job is buried": ([add("a"), pop()], bury("a")),
    "a dead job is kicked": ([add("a"), pop(), bury("a")], kick("a")),
    "a job is deleted while a consumer has it": ([add("a"), pop()], delete("a")),
    "a job gets another due time": ([add("a", stored=value(priority=1))], reschedule("a")),
    "a job gets the moment now": ([add("a", due=HOUR)], reschedule("a", due=0)),
}  # fmt: skip
"""A call of each script, and what is done before."""


def cases_in_situations() -> list[Case]:
    return [
        Case(f"{name}: {situation}", [*before, *further], call)
        for name, (before, call) in IN_SITUATIONS.items()
        for situation, further in SITUATIONS.items()
    ]
