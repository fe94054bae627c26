"""The table of the vectors of delayed queues that are shared with Redisson. Every mark of an element is given here."""

from __future__ import annotations

import struct
from typing import Any

from vectors.calls import Case, Step
from vectors.table import HOUR, NOW, SECOND, raw, step

NOW_MS = NOW // 1000
NEW, OLD = "Bc0Lc0", "dLc0"
SHORT, WRONG = "short", "a length that is wrong"


def head(payload: str, form: str, mark: int = 0) -> str:
    """What stands before a payload."""
    length = struct.pack("<Q", len(payload))
    packed = b"\x08" + b"mark%04d" % mark + length if form == NEW else struct.pack("<d", mark + 0.5) + length
    return packed.decode("latin-1")


def new(payload: str, mark: int = 0) -> str:
    return head(payload, NEW, mark) + payload


def old(payload: str, mark: int = 0) -> str:
    return head(payload, OLD, mark) + payload


def queue(*elements: tuple[str, int]) -> list[Step]:
    """In the order of offers, each with the seconds until it is due."""
    due = (word for element, seconds in elements for word in (NOW_MS + 1000 * seconds, element))
    return [raw("RPUSH", "order", *(element for element, _ in elements)), raw("ZADD", "timeouts", *due)]


def stored(text: str) -> Step:
    return raw("SET", "format", text)


def seats(**promised: int) -> Step:
    """Names and µs from now on; a deputy's name begins with `deputy_`."""
    named = ((NOW + at, name.replace("deputy_", "~")) for name, at in promised.items())
    return raw("ZADD", "movers", *(word for seat in named for word in seat))


def offer(*payloads: str, given: str = "", delay: int = 5 * SECOND, at: int = 0) -> Step:
    items = ((delay, head(one, NEW), head(one, OLD), one) for one in payloads)
    return step("redisson/delayed/offer", given, *(word for item in items for word in item), at=at)


def transfer(*places: int, most: int = 100, limit: int = 0, waiter: str = "", keeps_running: int = 1, ahead: int = 0, final: Any = "", first: str = "", last: str = "", at: int = 0) -> Step:  # fmt: skip
    args = (most, limit, waiter, keeps_running, ahead, final, first, last, *places)
    return step("redisson/delayed/transfer", *args, at=at)


def claim(limit: int = 100, nonce: str = "random@dst", overtaken: str = "", above: int = 0) -> Step:
    return step("redisson/delayed/claim", limit, nonce, overtaken, above)


def drop(*elements: str) -> Step:
    return step("redisson/delayed/drop", *elements)


def find(*payloads: str, begin: int = 0, limit: int = 100, inverse: int = 0) -> Step:
    return step("redisson/delayed/find", begin, limit, inverse, *payloads)


A, B, C, D = new("a"), new("b"), old("c"), new("dd", 1)
SOME = queue((A, 5), (B, -1), (C, -2), (D, -9))
DAMAGED = queue((SHORT, -3), (A, -2), (WRONG, -1))
QUEUES: dict[str, list[Step]] = {
    "an empty one": [],
    "elements of both formats": SOME,
    "damaged elements": DAMAGED,
    "damaged elements only": queue((WRONG, -1), (SHORT, -1)),
    "elements with the least that there can be": queue(
        (new(""), -1), (old(""), -2), ("sixteen bytes, n", -3), ("y" + new("y")[1:], -4)
    ),
    "another format was seen": [stored(f"{OLD} seen"), *queue((A, -1))],
    "the same format was seen": [stored(f"{OLD} seen"), *queue((C, -1))],
    "another format was said": [stored(f"{NEW} said"), *queue((C, -1))],
    "the format is of a newer version": [stored("Xc0 seen"), *queue((C, -1))],
    "the format is no text": [raw("RPUSH", "format", "x"), *queue((C, -1))],
    "the poison is no hash": [raw("SET", "poison", "x"), *DAMAGED],
    "elements without due times": [raw("RPUSH", "order", A, SHORT)],
    "elements without a place": [raw("ZADD", "timeouts", NOW_MS - 5, A, NOW_MS - 4, SHORT)],
    "the ready list is no list": [raw("SET", "ready", "x"), *SOME],
    "the order is no list": [raw("SET", "order", "x")],
    "the timeouts are no set": [raw("SET", "timeouts", "x"), raw("RPUSH", "order", A)],
}
"""What a call meets."""
ON_QUEUES: dict[str, Step] = {
    "all are claimed": claim(),
    "two are dropped": drop(A, C),
    "a payload is found": find("a", "c"),
    "a page is read": step("redisson/delayed/page", 0, 100),
    "one is passed on": step("redisson/delayed/pass_on"),
    "all are polled": step("redisson/delayed/poll", 100),
    "two are put back": step("redisson/delayed/put_back", A, NOW_MS - 7, old("z"), NOW_MS + 7),
    "numbers are read": step("redisson/delayed/queue_stats"),
    "due ones are moved": transfer(),
    "one is offered": offer("n"),
}  # fmt: skip


def cases() -> list[Case]:
    return [
        *(
            Case(f"{name}: {state}", before, call, ("channel",))
            for name, call in ON_QUEUES.items()
            for state, before in QUEUES.items()
        ),
        *cases_of_offers(),
        *cases_of_reads(),
        *cases_of_claims(),
        *cases_of_transfers(),
        *cases_of_seats(),
    ]


def cases_of_offers() -> list[Case]:
    heard = ("channel",)
    formats = {"nothing": [], **{text: [stored(text)] for text in (NEW, *(f"{form} {how}" for form in (NEW, OLD) for how in ("seen", "said", "set")), "Xc0 set")}}  # fmt: skip
    elements = {"nothing": [], "an old element": queue((C, 9)), "a damaged and a new element": queue((A, 9), (SHORT, 9))}  # fmt: skip
    return [
        *(
            Case(f"an offer as {given or 'the queue has it'}: {form} is stored, {what} is there", [*before, *there], offer("n", given=given), heard)
            for form, before in formats.items()
            for what, there in elements.items()
            for given in ("", OLD)
        ),
        Case("two elements are offered", [], offer("n", "m", given=NEW), heard),
        Case("an element is not the first that is due", SOME, offer("n", delay=HOUR, given=NEW), heard),
        Case("a delay is rounded up", [], offer("n", delay=1001, given=NEW), heard),
        Case("an element is due at once", [], offer("n", delay=0, given=OLD), heard),
        Case("an offer is repeated", [offer("n", given=NEW)], offer("n", given=NEW, at=SECOND), heard),
        Case("an offer of the old format is repeated", [offer("n", given=OLD), stored(NEW)], offer("n", given=NEW, at=SECOND), heard),
        Case("nothing is put back", [], step("redisson/delayed/put_back"), heard),
        Case("an element is put back that is there", SOME, step("redisson/delayed/put_back", A, NOW_MS), heard),
        Case("payloads are set aside", [], step("redisson/delayed/add_poison", "p", "no JSON", "q", "no text")),
        Case("a payload is set aside between two milliseconds", [], step("redisson/delayed/add_poison", "p", "no JSON", at=1)),
        Case("a payload is set aside again", [raw("HSET", "poison", "p", "1 x", "r", "2 y")], step("redisson/delayed/add_poison", "p", "no JSON")),
        Case("no payload is set aside", [], step("redisson/delayed/add_poison")),
    ]  # fmt: skip


def cases_of_reads() -> list[Case]:
    """And of removals by the element."""
    long = raw("RPUSH", "order", *"x" * 1050, A, *"x" * 1050, B, D, "x")
    return [
        Case("a payload is found that is not there", SOME, find("z")),
        Case("all payloads but one are found", DAMAGED, find("z", inverse=1)),
        Case("a payload is found before the last one", SOME, find("a", "b", "c", "dd", begin=1, limit=2)),
        Case("the second page", SOME, step("redisson/delayed/page", 1, 2)),
        Case("a page beyond the end", SOME, step("redisson/delayed/page", 9, 2)),
        Case("two are polled", SOME, step("redisson/delayed/poll", 2)),
        Case("one is passed on to a list", [*SOME, raw("RPUSH", "target", "first")], step("redisson/delayed/pass_on")),
        Case("one is passed on to what is no list", [*SOME, raw("SET", "target", "x")], step("redisson/delayed/pass_on")),
        Case("an empty queue by due times", [], step("redisson/delayed/preview", 0, 9)),
        Case("elements by due times", [raw("ZADD", "elements", 1, C, 2, A, 3, WRONG)], step("redisson/delayed/preview", 0, 9)),
        Case("one element by its due time", [raw("ZADD", "elements", 1, A, 2, C, 3, D)], step("redisson/delayed/preview", 1, 1)),
        Case("numbers of all that there is", [*SOME, raw("RPUSH", "ready", "x"), raw("HSET", "poison", "p", "1 x"), raw("ZADD", "leaving", 1, A), stored(NEW), seats(v=5, w=-SECOND, x=-SECOND - 1)], step("redisson/delayed/queue_stats")),
        Case("numbers between two milliseconds", [raw("ZADD", "timeouts", NOW_MS, A, NOW_MS + 1, B)], step("redisson/delayed/queue_stats", at=1)),
        Case("one without a due time is polled between two milliseconds", [raw("RPUSH", "order", A)], step("redisson/delayed/poll", 1, at=1)),
        Case("the last is dropped", SOME, drop(D)),
        Case("one is dropped that is not there", SOME, drop("z")),
        Case("no element is dropped", [], drop()),
        Case("one near the beginning is dropped", SOME, drop(B)),
        Case("some in the middle and near the end are dropped", [long], drop(A, B, D)),
        Case("no more are dropped than one script may", [], drop(*("z" * 180))),
    ]  # fmt: skip


def cases_of_claims() -> list[Case]:
    many = raw("ZADD", "timeouts", *(word for n in range(180) for word in (n, f"e{n}")))
    left = raw("ZADD", "leaving", 5, A)
    name = f"src.{NOW + 5}.y@dst"
    return [
        Case("two are claimed, those due first", SOME, claim(2)),
        Case("no more are claimed than one script may", [many], claim(1000)),
        Case("elements that were left there come first", [*SOME, left, raw("SET", "departed", name)], claim()),
        Case("elements that were left there, and their name is lost", [left], claim()),
        Case("a departure that was overtaken gets another number", [left, raw("SET", "departed", name)], claim(overtaken=name, above=NOW + 99)),
        Case("another departure was overtaken", [left, raw("SET", "departed", name)], claim(overtaken="src.1.y@dst", above=NOW + 99)),
        Case("the number rises", [*SOME, raw("SET", "departed", name)], claim()),
        Case("the name before it is not ours", [*SOME, raw("SET", "departed", "odd")], claim(above=7)),
    ]  # fmt: skip


def cases_of_transfers() -> list[Case]:
    many = raw("ZADD", "timeouts", *(word for n in range(180) for word in (n, f"e{n}")))
    mixed = queue((A, 5), (B, -3), (SHORT, -2), (C, -1), (D, 9))
    known: dict[str, Any] = {"final": 4, "first": A, "last": D}
    ready = raw("RPUSH", "ready", "r")
    early = raw("ZADD", "timeouts", NOW_MS, A, NOW_MS + 1, B)
    return [
        Case("a payload is taken", [*SOME, ready], transfer(limit=2)),
        Case("more payloads are asked for than there are", [], transfer(limit=2)),
        Case("one due element is moved, two are next", SOME, transfer(most=1, ahead=2)),
        Case("one due element is moved, and nobody asks for the next", SOME, transfer(most=1)),
        Case("the next are asked for, and none is left", SOME, transfer(ahead=2)),
        Case("the next have no place", QUEUES["elements without a place"], transfer(most=1, ahead=2)),
        Case("no more are moved than one script may", [many], transfer(most=1000)),
        Case("positions are right", mixed, transfer(1, 2, 3, **known)),
        Case("a position is right, two are next", mixed, transfer(1, most=1, ahead=9, **known)),
        Case("more positions than due elements", mixed, transfer(1, 2, 3, 4, **known)),
        Case("fewer positions than due elements", mixed, transfer(1, **known)),
        Case("one is moved by its position, the last that is known", queue((B, -3), (C, -1)), transfer(0, most=1, ahead=1, final=0, first=B, last=B)),
        Case("one is moved by its position, the last but one", queue((B, -3), (C, -1)), transfer(0, most=1, ahead=1, final=1, first=B, last=C)),
        Case("the first position is wrong", mixed, transfer(2, 2, 3, **known)),
        Case("the last position is wrong", mixed, transfer(1, 2, 2, **known)),
        Case("the first element is another", mixed, transfer(1, 2, 3, final=4, first=B, last=D)),
        Case("the last element is another", mixed, transfer(1, 2, 3, final=4, first=A, last=C)),
        Case("nothing is due for the positions", queue((A, 5)), transfer(0, final=0, first=A, last=A)),
        Case("an element is due in the next millisecond", [early], transfer(at=1)),
        Case("the seats are no set", [*SOME, raw("SET", "movers", "x")], transfer()),
    ]  # fmt: skip


def cases_of_seats() -> list[Case]:
    taken = {
        "no seat is taken": [],
        "a mover has a seat": [seats(v=5)],
        "a mover and a deputy have seats": [seats(v=5, deputy_w=SECOND)],
        "a deputy has a seat": [seats(deputy_w=SECOND)],
        "a mover is a little late": [seats(v=-100_000)],
        "a mover is late": [seats(v=-100_001)],
        "a mover and its deputy are late": [seats(v=-SECOND, deputy_w=-SECOND)],
        "a promise is too far ahead": [seats(v=5 * SECOND + 1, deputy_w=5 * SECOND + 1)],
        "a promise is at the limit": [seats(v=5 * SECOND)],
        "the caller has the seat": [seats(x=9, deputy_w=SECOND)],
        "the caller is the deputy": [seats(v=9, deputy_x=SECOND)],
    }
    return [
        *(
            Case(f"a mover {what}: {state}", before, transfer(waiter="x", keeps_running=keeps), ("movers",))
            for state, before in taken.items()
            for what, keeps in (("stays", 1), ("leaves", 0))
        ),
        Case("a mover stays, and an element is due soon", queue((A, 0), (B, 1), (C, 2)), transfer(waiter="x"), ("movers",)),
        Case("a mover stays, and due elements are left", SOME, transfer(waiter="x", most=1), ("movers",)),
    ]  # fmt: skip
