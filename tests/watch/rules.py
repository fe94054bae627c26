"""The rules of the watch as a pure function: what the Lua is compared with, and what the model does."""

# ruff: noqa: N803  G and R are the design's names; what a mutant may override sees more than the protocol needs
from __future__ import annotations

from typing import Any


def settle(
    now: int,
    next: int | None,
    seats: dict[Any, int],
    wake: int,
    relay: int,
    me: Any,
    stays: bool,
    *,
    G: int,
    R: int,
    H: int | None = None,
) -> tuple[dict[Any, int], int, int, int | None, int]:
    """The lines that end every script, as a pure function: what the Lua is compared with.

    `next` is the topic's earliest deadline (None: none, or paused), `seats` who promised to look by when, `me` the caller
    (None: nobody's seat is dropped; must not stay), `stays` whether it goes on to wait. Any one integer unit.
    Answers the new seats, the tokens that `wake` and `relay` shall hold (0 or 1), the caller's alarm (None: it does not
    stay) and the seat that it took: 1, 2, or 0 for none. The old tokens do not matter: a list is set, not counted.
    """
    # 1. Drop promises overdue by more than G, the caller's own, and what nobody promises: the clock was set back since.
    horizon = now + (R if H is None else H)
    seats = {who: at for who, at in seats.items() if at >= now - G and who != me}
    if any(at > horizon for at in sorted(seats.values())[:2]):
        seats = {who: at for who, at in seats.items() if at <= horizon}

    # 2. Nothing within the longest look-around, R or a little more: no seats are needed; everything is emptied.
    if next is None or next > horizon:
        return {}, 0, 0, now + R if stays else None, 0

    in_time = max(next, now)
    alarm, seat = (now + R if stays else None), 0

    # 3. Nobody has promised to look in time: the caller takes the first seat.
    if stays and not any(at <= in_time for at in seats.values()):
        alarm, seat = min(in_time, now + G), 1
    # 4. Somebody has, but alone: the caller takes the second seat.
    elif stays and len(seats) < 2:
        alarm, seat = now + G, 2
    # 5. Any other caller that stays keeps the alarm now + R.
    if seat and alarm is not None:
        seats[me] = alarm

    # 6. Nobody in time: a token in wake. Fewer than two seats: one in relay. What is not needed is removed.
    wake = int(not any(at <= in_time for at in seats.values()))
    relay = int(len(seats) < 2)
    return seats, wake, relay, alarm, seat


def earliest(
    due: int | None, back: int | None, *, paused: int | None = None, opens: int | None = None, full: bool = False,
    fires: int | None = None,
) -> int | None:  # fmt: skip
    """The topic's earliest deadline. `due` is the first job's, `back` the end of the first reservation, `opens` when the rate
    lets a job go, `full` whether the cap is reached (then only a reservation that ends helps), `fires` the next schedule."""
    ready = [at for at in (None if full else due, back) if at is not None]
    first = [max(min(ready), opens if opens is not None else min(ready))] if ready else []
    first += [fires] if fires is not None else []
    return max(min(first), paused if paused is not None else min(first)) if first else None
