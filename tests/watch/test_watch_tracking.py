"""The watch with tracking consumers (docs/decisions/0022-tracking-beyond-sixteen.md): a token stays in its list until a consumer
that was notified of it claims it; one that comes too late finds nothing, and goes on tracking.

    blocks    connection and place: the server hands the token over
    tracks    connection without a place: the claim is a step of its own, in whatever phase the consumer is, and before or after
              anything that others do; a consumer that dies before its claim leaves the token for the next
"""

from __future__ import annotations

import pytest

from watch.everything import everything
from watch.model import Watch
from watch.states import NEVER, State, Steps, change, close_ranks, name
from watch.test_watch_model import NamelessLooks, assert_kept

pytestmark = pytest.mark.model


class TracksTokens(NamelessLooks):
    """No consumer blocks."""

    def begins(self, s: State, i: int) -> State:
        return change(s, i, line=self.keys(s.crew[i]))

    def claimed(self, s: State, i: int) -> State | None:
        """LPOP brings a token, of wake first."""
        c = s.crew[i]
        if c.life != "up" or c.place or c.line not in ("w", "wr"):
            return None
        if s.wake:
            return change(s._replace(wake=0), i, line="token")
        if s.relay and "r" in c.line:
            return change(s._replace(relay=0), i, line="token")
        return None

    def step(self, s: State, i: int) -> tuple[str, State] | None:
        c = s.crew[i]
        if c.life == "up" and c.line == "broken" and c.phase in ("waiting", "away"):
            return f"{name(i)} reads that its connection broke", self.read_of_the_break(s, i)
        claimed = self.claimed(s, i)
        return super().step(s, i) or (claimed and (f"{name(i)} takes the token", claimed))

    def events(self, s: State) -> Steps:
        yield from super().events(s)
        for i in range(len(s.crew)):
            if (claimed := self.claimed(s, i)) is not None:
                yield f"{name(i)} takes the token", claimed

    def faults(self, s: State) -> Steps:
        yield from super().faults(s)
        for i in range(len(s.crew)):
            if "lost" in self.fault_kinds and (claimed := self.claimed(s, i)) is not None:
                yield f"{name(i)} takes the token, its connection breaks", change(claimed, i, line="broken")

    def read_of_the_break(self, s: State, i: int) -> State:
        """No answer in hand: it looks, as after a BLPOP that broke off, or leaves."""
        phase = "looking" if s.crew[i].phase == "waiting" else "leaving"
        return change(s, i, line="", phase=phase, alarm=NEVER)


class SomeTrackTokens(TracksTokens):
    """Who waits blocks, or hears: as the budget of its process has it at the moment."""

    def begins(self, s: State, i: int) -> State:
        return Watch.begins(self, s, i)

    def lives(self, s: State) -> Steps:
        yield from super().lives(s)
        for i, c in enumerate(s.crew):
            if c.life == "up" and c.place and c.line in ("w", "wr"):
                yield f"{name(i)} hears from now on", close_ranks(change(s, i, place=0))


@pytest.mark.parametrize("kind", [TracksTokens, SomeTrackTokens])
def test_without_faults_a_tracking_consumer_gets_jobs_at_once(kind: type[TracksTokens]) -> None:
    assert_kept(everything(kind(delays=(0, 3)), 2, adds=1, changes=1, late=0))


def test_a_token_lost_with_its_connection_is_made_up_for_by_a_check() -> None:
    assert_kept(everything(TracksTokens(delays=(0, 3), fault_kinds=("lost",)), 2, adds=2, faults=2, late=0))


@pytest.mark.parametrize("kind", [TracksTokens, SomeTrackTokens])
def test_one_killed_tracking_consumer_costs_the_grace_at_most(kind: type[TracksTokens]) -> None:
    watch = kind(delays=(0, 3), fault_kinds=("kill", "freeze"))
    assert_kept(everything(watch, 2, adds=1, faults=1, late=watch.G))


@pytest.mark.long
def test_larger_search_with_tracking_consumers() -> None:
    watch = SomeTrackTokens(delays=(0, 3), fault_kinds=("kill", "ghost", "freeze", "lost"))
    assert_kept(everything(watch, 2, adds=2, faults=1, late=watch.G))
    assert_kept(everything(TracksTokens(delays=(0, 3), fault_kinds=("kill",)), 3, adds=1, faults=1, late=watch.G))
    watch = SomeTrackTokens(delays=(0, 3), fault_kinds=("kill", "ghost", "lose", "lost"))
    assert_kept(everything(watch, 2, adds=1, faults=2, late=watch.R))
    assert_kept(everything(TracksTokens(delays=(0, 3)), 3, adds=1, late=0, looks=3))


class TakesBothTokens(TracksTokens):
    """Two claims at once: the token for one's own seat, and the one that calls somebody else."""

    def claimed(self, s: State, i: int) -> State | None:
        claimed = super().claimed(s, i)
        return claimed._replace(relay=0) if claimed is not None and "r" in s.crew[i].line else claimed


class GoesOnAfterABreak(TracksTokens):
    """A connection that broke after its LPOP is made again, and nothing else: the token was somebody's call."""

    def read_of_the_break(self, s: State, i: int) -> State:
        return change(s, i, line="")


@pytest.mark.parametrize(
    ("mutant", "late"),
    [(TakesBothTokens(delays=(0,), fault_kinds=("kill",)), 1), (GoesOnAfterABreak(fault_kinds=("lost",)), 0)],
)
def test_the_checker_finds_faulty_tracking_consumers(mutant: TracksTokens, late: int) -> None:
    report = everything(mutant, 2, adds=2, faults=1, late=late)
    assert report.finding is not None
