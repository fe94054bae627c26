"""The watch keeps its promises in every order of events.

    nothing fails                      a job is handed out at once                              late 0
    one consumer killed or frozen      the second seat, or the second token, covers for it      late G
    anything worse                     everybody looks around                                   late R

The tests marked `slow` explore the larger bounds (minutes).
"""

# ruff: noqa: ARG002  G and R are the design's names; mutants ignore what they forget
from __future__ import annotations

import itertools
from typing import Any

import pytest

from watch.everything import everything
from watch.model import Watch
from watch.rules import settle
from watch.search import Report
from watch.states import LOST, NEVER, Consumer, State, change

pytestmark = pytest.mark.model


def assert_kept(report: Report) -> None:
    assert report.finding is None, f"\n{report.finding}"
    assert report.states > 100  # it did explore


def assert_kept_with_few_changes(watch: Watch, adds: int, **bounds: int) -> None:
    """Two consumers: all adds without a change, and a change with one add less. Both together are ten times as many states: `long`."""
    assert_kept(everything(watch, 2, adds=adds, late=0, **bounds))
    assert_kept(everything(watch, 2, adds=adds - 1, changes=1, late=0, **bounds))


@pytest.mark.parametrize("consumers", [1, 2])
def test_without_faults_a_job_is_handed_out_at_once(consumers: int) -> None:
    assert_kept(everything(Watch(delays=(0, 3)), consumers, adds=3 - consumers, changes=1, late=0))


def test_a_distant_job_and_an_overtaking_one_are_on_time() -> None:
    assert_kept(everything(Watch(delays=(0, 3, 8)), 2, adds=2, late=0))


@pytest.mark.parametrize("consumers", [1, 2, 3, 4])
def test_an_event_causes_at_most_three_checks(consumers: int) -> None:
    """Promise: Idle costs nothing; Waiting: the watch."""
    delays = (0, 3) if consumers < 4 else (3,)
    report = everything(Watch(delays=delays), consumers, adds=2 if consumers < 3 else 1, late=0, looks=3)
    assert_kept(report)
    assert report.looks == min(consumers, 3)


@pytest.mark.parametrize("fault", ["kill", "ghost", "freeze"])
@pytest.mark.parametrize("consumers", [1, 2])
def test_one_killed_or_frozen_consumer_costs_the_grace_at_most(consumers: int, fault: str) -> None:
    """Promise: No process is special; Waiting: the watch."""
    watch = Watch(delays=(0, 3), fault_kinds=(fault,))
    assert_kept(everything(watch, consumers, adds=1 if fault == "freeze" else 2, faults=1, late=watch.G))


def test_one_killed_consumer_of_three_costs_the_grace_at_most() -> None:
    watch = Watch(delays=(0, 3), fault_kinds=("kill", "ghost"))
    assert_kept(everything(watch, 3, adds=1, faults=1, late=watch.G))


def test_the_grace_can_be_configured() -> None:
    watch = Watch(G=2, delays=(0, 3), fault_kinds=("kill",))
    report = everything(watch, 2, adds=2, faults=1, late=watch.G)
    assert_kept(report)
    assert report.latest == watch.G


def test_an_expiring_reservation_is_watched_like_a_job() -> None:
    watch = Watch(ttr=2, delays=(0, 3), fault_kinds=("kill", "ghost"))
    assert_kept(everything(watch, 2, adds=1, faults=1, changes=0, late=watch.G))


def test_a_consumer_with_two_slots_waits_and_works_at_once() -> None:
    watch = Watch(R=4, ttr=5, slots=2, delays=(0,), fault_kinds=("kill",))
    assert_kept(everything(watch, 2, adds=2, faults=1, late=watch.G))


def test_worse_faults_cost_the_recheck_interval_at_most() -> None:
    """Promise: A wake-up is a hint, never the truth; Waiting: the watch."""
    watch = Watch(R=4, ttr=5, delays=(0, 3), fault_kinds=("kill", "ghost", "freeze", "lose"))
    assert_kept(everything(watch, 2, adds=1, faults=2, late=watch.R))


@pytest.mark.long
@pytest.mark.parametrize("fault", ["kill", "ghost", "freeze"])
def test_larger_search_with_one_fault_among_three_consumers(fault: str) -> None:
    watch = Watch(delays=(0, 8), fault_kinds=(fault,))  # now, and beyond R: it comes into sight by itself
    assert_kept(everything(watch, 3, adds=2, faults=1, late=watch.G))


@pytest.mark.long
@pytest.mark.parametrize("fault", ["kill", "ghost", "freeze"])
def test_larger_search_with_one_fault_and_one_change(fault: str) -> None:
    watch = Watch(delays=(0, 3, 8), fault_kinds=(fault,))
    assert_kept(everything(watch, 2, adds=2, changes=1, faults=1, late=watch.G))


@pytest.mark.long
def test_larger_search_with_two_adds_a_change_or_three_consumers() -> None:
    assert_kept(everything(Watch(delays=(0, 3)), 2, adds=2, changes=1, late=0))
    assert_kept(everything(Watch(delays=(0, 3)), 3, adds=2, late=0, looks=3))


@pytest.mark.long
def test_larger_search_with_two_changes_and_no_fault() -> None:
    assert_kept(everything(Watch(delays=(0, 3, 8)), 2, adds=1, changes=2, late=0))
    assert_kept(everything(Watch(delays=(0, 3)), 3, adds=1, changes=1, late=0))


@pytest.mark.long
def test_larger_search_with_worse_faults() -> None:
    watch = Watch(delays=(0, 3, 8), fault_kinds=("kill", "ghost", "freeze", "lose"))
    assert_kept(everything(watch, 2, adds=2, faults=2, late=watch.R))


@pytest.mark.long
def test_larger_search_five_consumers_cause_no_more_checks_than_three() -> None:
    assert_kept(everything(Watch(delays=(0, 3)), 5, adds=1, late=0, looks=3))


class AddsAndFinishesThatSettleRarely(Watch):
    """An add settles only when it is the new head and due within R; a finish never does."""

    def add_may_skip(self, s: State, delay: int) -> bool:
        deadlines = [*s.jobs, *(h for c in s.crew for h in c.held if h != LOST)]
        return delay > self.R or (bool(deadlines) and delay >= min(deadlines))

    def finish(self, s: State, i: int, h: int) -> State:
        held = list(s.crew[i].held)
        held.remove(h)
        return change(s, i, held=tuple(held))


def test_adds_behind_the_head_and_finishes_may_skip_settle() -> None:
    assert_kept(everything(AddsAndFinishesThatSettleRarely(delays=(0, 3, 8)), 2, adds=2, late=0))
    assert_kept(everything(AddsAndFinishesThatSettleRarely(delays=(0, 3)), 2, adds=1, changes=1, late=0))
    watch = AddsAndFinishesThatSettleRarely(delays=(0, 3, 8), fault_kinds=("kill",))
    assert_kept(everything(watch, 2, adds=2, faults=1, late=watch.G))


@pytest.mark.long
def test_larger_search_with_rare_settles() -> None:
    watch = AddsAndFinishesThatSettleRarely(delays=(0, 3, 8))
    assert_kept(everything(watch, 2, adds=2, changes=1, late=0))
    assert_kept(everything(watch, 2, adds=2, changes=1, faults=1, late=watch.G))
    watch = AddsAndFinishesThatSettleRarely(delays=(0, 8), fault_kinds=("kill", "ghost"))
    assert_kept(everything(watch, 3, adds=2, faults=1, late=watch.G))
    assert_kept(everything(AddsAndFinishesThatSettleRarely(delays=(0, 3)), 3, adds=2, late=0, looks=3))


class NamelessLooks(Watch):
    """The other way round a BLPOP open on relay, and what tarry does: it stays open, the look takes no seat. If one is
    free, a token calls."""

    def closes_before_looking(self, c: Consumer) -> bool:
        return False

    def pop(self, s: State, i: int) -> State:
        if s.crew[i].line != "wr":
            return super().pop(s, i)
        n = self.slots - len(s.crew[i].held)
        s, got = self.put_back_and_take(s, n)
        s = change(s, i, held=tuple(sorted(s.crew[i].held + (self.ttr,) * got)))
        s, _, _ = self.settled(s)
        fires = got == 0 and s.fires <= 0 and s.paused == NEVER
        return change(s, i, phase="answered", alarm=self.R if got < n else NEVER, seat=0, fires=fires)


def test_an_anonymous_check_may_leave_the_blpop_open() -> None:
    assert_kept(everything(NamelessLooks(delays=(0, 3)), 2, adds=1, changes=1, late=0))
    watch = NamelessLooks(delays=(0, 8), fault_kinds=("kill", "ghost"))
    assert_kept(everything(watch, 2, adds=1, faults=1, late=watch.G))


@pytest.mark.long
def test_larger_search_with_anonymous_checks() -> None:
    assert_kept(everything(NamelessLooks(period=2), 2, adds=0, changes=1, fires=3, late=0))
    watch = NamelessLooks(delays=(0, 8), fault_kinds=("kill", "ghost"))
    assert_kept(everything(watch, 3, adds=2, faults=1, late=watch.G))
    assert_kept(everything(NamelessLooks(delays=(0, 3, 8)), 2, adds=2, changes=1, faults=1, late=watch.G))
    assert_kept(everything(NamelessLooks(delays=(0, 3)), 3, adds=2, late=0, looks=3))


class SettlesWhenPlacesAreScarce(Watch):
    """What tarry does: a finish settles only when all places under the cap were taken."""

    def finish(self, s: State, i: int, h: int) -> State:
        full = sum(held != LOST for c in s.crew for held in c.held) >= self.cap
        held = list(s.crew[i].held)
        held.remove(h)
        s = change(s, i, held=tuple(held))
        return self.settled(s)[0] if full and h != LOST else s


def test_a_free_place_under_a_concurrency_limit_is_used_at_once() -> None:
    assert_kept_with_few_changes(SettlesWhenPlacesAreScarce(cap=1, delays=(0, 3)), adds=2)
    assert_kept(everything(SettlesWhenPlacesAreScarce(cap=1, ttr=2, delays=(0,)), 3, adds=2, late=0, looks=3))
    watch = SettlesWhenPlacesAreScarce(cap=1, ttr=3, delays=(0, 3), fault_kinds=("kill",))
    assert_kept(everything(watch, 2, adds=2, faults=1, late=watch.G))


@pytest.mark.parametrize("every", [2, pytest.param(7, marks=pytest.mark.long)])
def test_a_rate_releases_the_next_job_on_time(every: int) -> None:
    assert_kept_with_few_changes(Watch(every=every, delays=(0, 3)), adds=2)
    assert_kept(everything(Watch(every=every, delays=(0,)), 3, adds=2, late=0, looks=3))
    for fault, adds in (("kill", 2), ("freeze", 1)):
        watch = Watch(every=every, delays=(0,), fault_kinds=(fault,))
        assert_kept(everything(watch, 2, adds=adds, faults=1, late=watch.G))


@pytest.mark.parametrize("period", [2, pytest.param(8, marks=pytest.mark.long)])
def test_a_schedule_fires_on_time_despite_a_killed_consumer(period: int) -> None:
    assert_kept_with_few_changes(Watch(period=period, delays=(0, 3)), adds=1, fires=3)
    watch = Watch(period=period, delays=(0, 3), fault_kinds=("kill",))
    assert_kept(everything(watch, 2, adds=0, faults=1, fires=3, late=watch.G))
    watch = NamelessLooks(period=period, fault_kinds=("kill",))
    assert_kept(everything(watch, 2, adds=0, faults=1, fires=3, late=watch.G))


def test_a_schedule_causes_few_checks_with_many_consumers() -> None:
    report = everything(Watch(), 3, adds=0, fires=3, late=0, looks=6)
    assert_kept(report)


@pytest.mark.long
@pytest.mark.parametrize("some", [2, 7])
def test_larger_search_with_limits_schedules_and_one_change(some: int) -> None:
    assert_kept(everything(SettlesWhenPlacesAreScarce(cap=1, delays=(0, 3)), 2, adds=2, changes=1, late=0))
    assert_kept(everything(Watch(every=some, delays=(0, 3)), 2, adds=2, changes=1, late=0))
    assert_kept(everything(Watch(period=some, delays=(0, 3)), 2, adds=1, changes=1, fires=3, late=0))


@pytest.mark.long
def test_larger_search_with_limits_schedules_and_a_fault() -> None:
    watch = SettlesWhenPlacesAreScarce(cap=1, every=2, ttr=3, delays=(0, 3), fault_kinds=("kill", "ghost", "freeze"))
    assert_kept(everything(watch, 2, adds=2, faults=1, fires=3, late=watch.G))
    watch = SettlesWhenPlacesAreScarce(cap=2, delays=(0, 3), fault_kinds=("kill",))
    assert_kept(everything(watch, 3, adds=2, faults=1, late=watch.G))
    watch = SettlesWhenPlacesAreScarce(period=8, delays=(0, 3), fault_kinds=("kill", "ghost", "freeze"))
    assert_kept(everything(watch, 2, adds=1, faults=1, fires=3, late=watch.G))


def all_small_calls() -> Any:
    promises = [None, -3, -2, 0, 1, 2, 5]
    for next_, a, b, stays in itertools.product([None, -4, 0, 1, 2, 5, 9], promises, promises, [False, True]):
        seats = {who: at for who, at in (("a", a), ("b", b)) if at is not None}
        for me in ("a", "c") if stays else ("a", "c", None):
            yield next_, seats, me, stays


def test_settle_is_idempotent_for_all_small_inputs() -> None:
    for next_, seats, me, stays in all_small_calls():
        before = dict(seats)
        after, wake, relay, alarm, seat = settle(0, next_, seats, 1, 1, me, stays, G=2, R=6)
        assert seats == before, "its arguments stay as they are"
        assert (alarm is not None) is stays
        assert all(-2 <= at <= 6 for at in after.values())
        assert (me in after) == bool(seat)
        assert after.get(me) == (alarm if seat else None)
        again = settle(0, next_, after, wake, relay, None, False, G=2, R=6)
        assert again == (after, wake, relay, None, 0), "settling once more changes nothing"
        if stays:
            assert wake == 0, "who stays answers for the head"
            assert alarm <= 6
