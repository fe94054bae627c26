"""A history: what one process did and saw, in frames of 64-bit integers, each written at once.

    frame    size, kind, call, topic, status, moment, then rows of the kind's width
    intent   before the call: what it asks for, item by item          (ADD, FINISH, …)
    outcome  after it: how it went, and which items went otherwise    (OUTCOME; rows: index, status)
    handed   what a pop handed out; `call` is the moment it was asked (HANDED, POLLED)

A frame is one ``write`` of the operating system, so who is killed loses at most the outcome of the call that was in flight:
its items are then MAYBE. Moments are microseconds of this machine's clock.
"""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ADD, HANDED, FINISH, RELEASE, BURY, TOUCH, DELETE, RESCHEDULE, KICK, RETURNED, RAISED = range(1, 12)
PUSH, POLLED, LOCKED, POLL = 12, 13, 14, 15
OUTCOME, KEPT = 20, 30
NAMES = {
    ADD: "add", HANDED: "handed out", FINISH: "finish", RELEASE: "release", BURY: "bury", TOUCH: "touch", DELETE: "delete",
    RESCHEDULE: "reschedule", KICK: "kick", RETURNED: "handler returned", RAISED: "handler raised", PUSH: "push",
    POLLED: "polled", LOCKED: "locked", POLL: "poll", KEPT: "there at the end",
}  # fmt: skip
WIDTH = {
    ADD: 4,  # id, delay µs, max attempts or 0, 0
    HANDED: 7,  # id, receipt, attempt, due µs, handed out µs, created µs, ttr µs
    FINISH: 2,  # id, receipt
    RELEASE: 4,  # id, receipt, delay µs or -1: a back-off, whether it counts
    BURY: 2,
    TOUCH: 3,  # id, receipt, ttr µs
    DELETE: 1,
    RESCHEDULE: 2,  # id, delay µs
    KICK: 1,
    RETURNED: 2,  # a worker's handler is through: the worker will finish
    RAISED: 2,  # … has raised: the worker will release
    PUSH: 2,  # id, delay µs
    POLLED: 3,  # id, due µs, polled µs
    LOCKED: 5,  # number of the lock, token, moment it was had, moment it was given back, whether it was lost
    POLL: 2,  # 0, how many it may take
    KEPT: 4,  # id, place, moment µs, created µs
}
DUE, RESERVED, DEAD, PLACELESS, BODILESS = 1, 2, 3, 4, 5
PLACES = {DUE: "due", RESERVED: "reserved", DEAD: "dead", PLACELESS: "nowhere", BODILESS: "a place without a job"}
OK, MAYBE, REFUSED, EXISTS = 1, 2, 3, 4
STATUSES = {OK: "ok", MAYBE: "maybe", REFUSED: "refused", EXISTS: "refused as existing"}
HEAD, FIELDS = 6, 14
FOREVER = 1 << 60
WALL = time.time_ns
SKEW_US = int(os.environ.get("CHAOS_SKEW_US", "0"))

Event = tuple[int, ...]
"""id, moment begun, moment ended, kind, status, topic, who, then seven of the row. FOREVER: it never ended."""


def key_of(id: int, keys: int) -> str | None:
    """The key of a job in a run with so many of them: every other job has one."""
    return f"key-{id // 2 % keys}" if keys and id % 2 else None


def clock() -> int:
    """This machine's clock in µs, also in a process that is shown another one."""
    return WALL() // 1000 - SKEW_US


class History:
    """The one that a process writes."""

    def __init__(self, folder: str, who: int = 0) -> None:
        self._file = os.open(f"{folder}/{who or os.getpid()}.history", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._calls = 0

    def _write(self, kind: int, call: int, topic: int, status: int, cells: Iterable[int]) -> None:
        frame = array("q", (0, kind, call, topic, status, clock()))
        frame.extend(cells)
        frame[0] = len(frame)
        os.write(self._file, frame)

    def intend(self, kind: int, topic: int, cells: Iterable[int]) -> int:
        """What will be asked for, all rows one after the other. Answers the number of the call."""
        self._calls += 1
        self._write(kind, self._calls, topic, 0, cells)
        return self._calls

    def ended(self, call: int, status: int = OK, but: Sequence[tuple[int, int]] = ()) -> None:
        """How the call went: for all items, but for these (index, status)."""
        self._write(OUTCOME, call, 0, status, (cell for pair in but for cell in pair))

    def saw(self, kind: int, topic: int, asked: int, cells: Iterable[int], status: int = OK) -> None:
        """What was handed out; ``asked`` is when."""
        self._write(kind, asked, topic, status, cells)

    def close(self) -> None:
        os.close(self._file)


def first_moment(path: Path) -> int:
    """When the process wrote the first time."""
    return next(_frames(path, 1 << 10))[5]


def events(path: Path, piece: int = 1 << 20) -> Iterator[Event]:
    """What a history tells, item by item, as soon as the outcome is known. A frame that was cut off is left out."""
    who = int(path.stem)
    waiting: dict[int, array[int]] = {}
    for frame in _frames(path, piece):
        kind, call, topic, moment = frame[1], frame[2], frame[3], frame[5]
        if kind == OUTCOME:
            intent = waiting.pop(call, None)
            if intent is not None:
                yield from _items(
                    intent, who, moment, frame[4], dict(zip(frame[HEAD::2], frame[HEAD + 1 :: 2], strict=True))
                )
        elif kind in (HANDED, POLLED, KEPT, LOCKED):
            width = WIDTH[kind]
            pad = (0,) * (7 - width)
            for at in range(HEAD, len(frame), width):
                row = frame[at : at + width].tolist()
                yield (row[0], call, moment, kind, frame[4], topic, who, *row, *pad)
        elif kind in (RETURNED, RAISED):
            for at in range(HEAD, len(frame), 2):
                yield (frame[at], moment, FOREVER, kind, MAYBE, topic, who, frame[at], frame[at + 1], 0, 0, 0, 0, 0)
        else:
            waiting[call] = frame
    for intent in waiting.values():
        yield from _items(intent, who, FOREVER, MAYBE, {})


def _items(intent: array[int], who: int, ended: int, status: int, but: dict[int, int]) -> Iterator[Event]:
    kind, topic, began = intent[1], intent[3], intent[5]
    width = WIDTH[kind]
    pad = (0,) * (7 - width)
    for index, at in enumerate(range(HEAD, len(intent), width)):
        row = intent[at : at + width].tolist()
        yield (row[0], began, ended, kind, but.get(index, status), topic, who, *row, *pad)


def _frames(path: Path, piece: int) -> Iterator[array[int]]:
    rest = array("q")
    with path.open("rb") as file:
        while read := file.read(piece):
            rest.frombytes(read[: len(read) // 8 * 8])
            at = 0
            while at < len(rest) and at + rest[at] <= len(rest):
                yield rest[at : at + rest[at]]
                at += rest[at]
            rest = rest[at:]


def as_line(event: Event, since: int = 0) -> str:
    """One event in a line."""
    _, began, ended, kind, status, topic, who, *row = event

    def short(us: int) -> str:
        return "never" if us >= FOREVER else f"{(us - since) / 1e6:.6f}"

    words = {
        ADD: lambda: f"delay {row[1] / 1e6:.3f} attempts {row[2]}",
        HANDED: lambda: (
            f"receipt {row[1]} attempt {row[2]} due {short(row[3])} at {short(row[4])} created {short(row[5])} "
            f"ttr {row[6] / 1e6:.3f}"
        ),
        RELEASE: lambda: f"receipt {row[1]} delay {row[2] / 1e6:.3f} counted {row[3]}",
        RESCHEDULE: lambda: f"delay {row[1] / 1e6:.3f}",
        KEPT: lambda: f"{PLACES[row[1]]} {short(row[2])} created {short(row[3])}",
        PUSH: lambda: f"delay {row[1] / 1e6:.3f}",
        POLLED: lambda: f"due {short(row[1])} at {short(row[2])}",
        LOCKED: lambda: f"token {row[1]} from {short(row[2])} to {short(row[3])}" + (", lost" if row[4] else ""),
        POLL: lambda: f"up to {row[1]}",
    }.get(kind, lambda: f"receipt {row[1]}" if WIDTH[kind] > 1 else "")()
    return (
        f"{short(began):>12} {short(ended):>12}  {NAMES[kind]:16} {STATUSES[status]:8} by {who} topic {topic}  {words}"
    )
