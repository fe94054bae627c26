"""The checker notices when a rule of the watch is left out."""

# ruff: noqa: N803, ARG002, ARG004  G and R are the design's names; mutants ignore what they forget
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from watch.everything import everything
from watch.model import Watch
from watch.rules import settle
from watch.states import NEVER, Consumer, State, change

pytestmark = pytest.mark.model


class OneTokenAtATime(Watch):
    """The design as first written: relay only when the first seat is taken. The token's taker dies: nobody knows."""

    @staticmethod
    def settle(*args: Any, **constants: int) -> Any:
        seats, wake, relay, alarm, seat = settle(*args, **constants)
        return seats, wake, relay and not wake, alarm, seat


class PromisesForTheFarFuture(Watch):
    """The design as first written: alarms at next and next + G. Once something comes before next, the consumer that sits there
    does not know that its seat does not count any more, and does not listen to relay."""

    @staticmethod
    def settle(
        now: int, next: int | None, seats: Any, wake: int, relay: int, me: Any, stays: bool, *, G: int, R: int
    ) -> Any:
        seats = {who: at for who, at in seats.items() if at >= now - G and who != me}
        if next is None or next > now + R:
            return {}, 0, 0, now + R if stays else None, 0
        in_time = max(next, now)

        def first() -> bool:
            return any(at <= in_time for at in seats.values())

        def second() -> bool:
            return sum(at <= in_time + G for at in seats.values()) >= 2

        alarm, seat = (now + R if stays else None), 0
        if stays and not first():
            seats[me], seat = in_time, 1
        elif stays and not second():
            seats[me], seat = min(in_time + G, now + R), 2
        return seats, int(not first()), int(not second()), seats.get(me, alarm), seat


class NoSecondSeat(Watch):
    """One watchman, as in the prototype."""

    @staticmethod
    def settle(*args: Any, **constants: int) -> Any:
        seats, wake, _, alarm, seat = settle(*args, **constants)
        if seat == 2:
            del seats[args[5]]
            return seats, wake, 0, args[0] + constants["R"], 0
        return seats, wake, 0, alarm, seat


class ForgetsTheCallersOwnPromise(Watch):
    """Who leaves to work keeps its seat."""

    @staticmethod
    def settle(now: int, next: Any, seats: Any, wake: int, relay: int, me: Any, stays: bool, **constants: int) -> Any:
        return settle(now, next, seats, wake, relay, me if stays else None, stays, **constants)


class RelayWhileSeated(Watch):
    """The first takes the token that asks for a second, again and again."""

    def keys(self, c: Consumer) -> str:
        return "wr"


class LooksWithRelayOpen(Watch):
    """A look takes a seat while its owner's BLPOP still waits for relay: one consumer takes what two should have."""

    def closes_before_looking(self, c: Consumer) -> bool:
        return False


class TokenWithoutAnswer(Watch):
    """A token that comes when no slot is free is dropped."""

    def token_arrives(self, s: State, i: int) -> tuple[str, State]:
        if self.free(s.crew[i]):
            return super().token_arrives(s, i)
        return "a busy consumer drops its token", change(s, i, line="")


class BlpopOutlivesAFullPop(Watch):
    """Nobody reads the BLPOP that is still open while its owner works."""

    def step(self, s: State, i: int) -> tuple[str, State] | None:
        c = s.crew[i]
        if c.phase == "away" and c.line and not self.free(c):
            return None
        return super().step(s, i)


class StopsWithoutLeaving(Watch):
    """Who no longer wants jobs keeps seat and silence."""

    def step(self, s: State, i: int) -> tuple[str, State] | None:
        c = s.crew[i]
        if c.phase == "waiting" and not self.free(c):
            return "stops without a word", change(s, i, phase="away", alarm=NEVER)
        return super().step(s, i)


class AlarmCountsFromTheReply(Watch):
    """A process frozen between question and answer counts the whole wait from when it thaws."""

    def alarm_after_a_tick(self, c: Consumer) -> int:
        return c.alarm if c.life == "frozen" and c.phase == "answered" else c.alarm - 1


class APauseEndsUnseen(Watch):
    """A pause that ends by itself is not a deadline."""

    def next(self, s: State) -> int | None:
        return super().next(s) if s.paused == NEVER else None


class AFreePlaceIsNotTold(Watch):
    """A finish never settles, under a cap too."""

    def finish(self, s: State, i: int, h: int) -> State:
        held = list(s.crew[i].held)
        held.remove(h)
        return change(s, i, held=tuple(held))


class LooksBeforeTheRateAllowsIt(Watch):
    """A job that is ready is a deadline, whatever the rate says."""

    def next(self, s: State) -> int | None:
        return super().next(s._replace(gate=0))


class ASchedulePassesUnseen(Watch):
    """The next occurrence is no deadline."""

    def next(self, s: State) -> int | None:
        return super().next(s._replace(fires=NEVER))


@dataclass(frozen=True)
class Mutant:
    watch: Watch
    consumers: int
    adds: int
    changes: int = 0
    faults: int = 0
    late: int = 0
    looks: int | None = None
    fires: int = NEVER
    finds: str = "late"

    def __str__(self) -> str:
        return type(self.watch).__name__


MUTANTS = [
    Mutant(OneTokenAtATime(delays=(0, 3), fault_kinds=("kill",)), 2, adds=1, faults=1, late=1),
    Mutant(PromisesForTheFarFuture(delays=(0, 3), fault_kinds=("kill",)), 2, adds=2, faults=1, late=1),
    Mutant(NoSecondSeat(delays=(0, 3), fault_kinds=("kill",)), 2, adds=1, faults=1, late=1),
    Mutant(ForgetsTheCallersOwnPromise(delays=(0, 3)), 2, adds=2, finds="holds a seat"),
    Mutant(RelayWhileSeated(delays=(0, 3)), 1, adds=1, looks=3, finds="endless"),
    Mutant(LooksWithRelayOpen(R=3, delays=(0, 4), ttr=9, fault_kinds=("kill",)), 3, adds=2, faults=1, late=1),
    Mutant(TokenWithoutAnswer(delays=(0,), change_kinds=("stop",)), 3, adds=1, changes=2),
    Mutant(BlpopOutlivesAFullPop(delays=(0, 3)), 2, adds=2),
    Mutant(StopsWithoutLeaving(delays=(0, 3), change_kinds=("stop",)), 2, adds=1, changes=1, finds="holds a seat"),
    Mutant(
        AlarmCountsFromTheReply(delays=(3,), fault_kinds=("freeze",)), 1, adds=1, faults=1, late=1, finds="its alarm"
    ),
    Mutant(AFreePlaceIsNotTold(cap=1, delays=(0,), change_kinds=("stop",)), 2, adds=2, changes=1),
    Mutant(LooksBeforeTheRateAllowsIt(every=3, delays=(0,)), 2, adds=2, looks=3, finds="endless"),
    Mutant(ASchedulePassesUnseen(), 2, adds=0, fires=3),
    Mutant(APauseEndsUnseen(delays=(0, 3), change_kinds=("pause",)), 1, adds=1, changes=1),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_the_checker_finds_every_mutant(mutant: Mutant) -> None:
    m = mutant
    report = everything(
        m.watch, m.consumers, adds=m.adds, changes=m.changes, faults=m.faults, late=m.late, looks=m.looks, fires=m.fires
    )
    assert report.finding is not None, f"nothing found in {report.states} states"
    assert m.finds in report.finding.what, f"\n{report.finding}"
    print(report.finding)
