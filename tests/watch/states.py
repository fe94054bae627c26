"""The states of the watch's model: consumers, a server, and BLPOP as the server does it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

NEVER = 99  # no alarm, no promise, not paused
FOR_EVER = 98  # paused without end
LOST = 97  # held: the reservation ran out and was put back, the handler still works


class Consumer(NamedTuple):
    life: str = "up"  # up, frozen, dead
    phase: str = "looking"  # looking, answered, waiting, leaving, away
    wants: bool = True  # the process wants jobs
    line: str = ""  # its BLPOP: "" none, "w" on wake, "wr" on wake and relay, "token" (a reply on its way)
    place: int = 0  # in the server's queue of blocked clients
    alarm: int = NEVER
    seat: int = 0  # what its last answer said: 0, 1, 2
    promise: int = NEVER  # its seat at the server
    fires: bool = False  # its answer said that a schedule is due: it reserves it, adds the job, then looks again
    reserves: bool = False  # it may add that job, if nobody did it before
    held: tuple[int, ...] = ()  # reservations: ticks to the end of the TTR, 0 and below: over, -n neglected, or LOST


class State(NamedTuple):
    crew: tuple[Consumer, ...]
    jobs: tuple[int, ...] = ()  # ticks until due; 0 ready; -n: neglected for n ticks
    wake: int = 0
    relay: int = 0
    paused: int = NEVER  # NEVER: not paused; FOR_EVER; else ticks until it ends
    gate: int = 0  # ticks until the rate lets a job go
    fires: int = NEVER  # ticks until the next schedule is due, or due again: while it is reserved
    reserved: int = NEVER  # of a schedule that is reserved: as `fires` was
    occurrences: int = 0  # how many it has left
    adds: int = 0  # budgets left
    changes: int = 0
    faults: int = 0


def _replacing(kind: type[Any]) -> Any:
    """``_replace`` in half the time: a search calls it millions of times."""
    places, new = {field: at for at, field in enumerate(kind._fields)}, tuple.__new__

    def replace(self: Any, **fields: Any) -> Any:
        cells = list(self)
        for field, value in fields.items():
            cells[places[field]] = value
        return new(kind, cells)

    return replace


for _kind in (Consumer, State):
    _kind._replace = _replacing(_kind)  # type: ignore[assignment,attr-defined]

Steps = Iterator[tuple[str, State]]


PLACES = {field: at for at, field in enumerate(Consumer._fields)}


def change(s: State, i: int, **fields: Any) -> State:
    cells = list(s.crew[i])
    for field, value in fields.items():
        cells[PLACES[field]] = value
    return put(s, i, tuple.__new__(Consumer, cells))


def put(s: State, i: int, consumer: Consumer) -> State:
    crew = s.crew
    return tuple.__new__(State, ((*crew[:i], consumer, *crew[i + 1 :]), *s[1:]))


def name(i: int) -> str:
    return "ABCDE"[i]


def block(s: State, i: int, keys: str) -> State:
    place = 1 + max(c.place for c in s.crew)
    return serve(change(s, i, line=keys, place=place))


def unblock(s: State, i: int) -> State:
    return close_ranks(change(s, i, line="", place=0))


def serve(s: State) -> State:
    """After each script: tokens go to the client that has waited longest for their list."""
    if not s.wake and not s.relay:
        return close_ranks(s)
    for key, tokens in (("w", s.wake), ("r", s.relay)):
        for _ in range(tokens):
            waiting = [(c.place, i) for i, c in enumerate(s.crew) if c.place and key in c.line]
            if not waiting:
                break
            s = change(s, min(waiting)[1], line="token", place=0)
            s = s._replace(wake=s.wake - 1) if key == "w" else s._replace(relay=s.relay - 1)
    return close_ranks(s)


def close_ranks(s: State) -> State:
    places = [c.place for c in s.crew if c.place]
    if not places or max(places) == len(places):
        return s
    places.sort()
    return s._replace(crew=tuple(c._replace(place=places.index(c.place) + 1) if c.place else c for c in s.crew))
