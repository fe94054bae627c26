"""What the client does next after a token, or a lost line, while its callers go: the watch alone, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tarry.core.watch import BlockStep, Caller, GiveBackStep, LeaveStep, PopStep, Watch
from tarry.values.keys import topic_keys

KEYS = topic_keys("ns", "a")
QUEUE = (KEYS, b"1000", b"")
LONG = 1000.0


@dataclass
class Answer:
    """A pop's."""

    jobs: list[tuple[bytes, Any, int, int, int]] = field(default_factory=list)
    wait: int = 60_000_000
    seat: int = 0
    ask_again: bool = False
    now: int = 0
    receipt: int = 1
    keeps_finished: bool = False


@pytest.fixture
def watch() -> Watch:
    return Watch(b"client")


@pytest.fixture
def blocked(watch: Watch) -> Caller:
    """A caller whose first pop brought nothing: the client waits for tokens."""
    caller = entered(watch)
    assert isinstance(answered(watch, Answer()), BlockStep)
    return caller


def entered(watch: Watch, *, max_jobs: int = 1) -> Caller:
    caller = Caller(max_jobs, LONG, lambda: None)
    watch.enter(caller, [QUEUE])
    return caller


def answered(watch: Watch, answer: Answer) -> object:
    """The pop that comes next is answered; what comes then."""
    step = watch.next_step(0)
    assert isinstance(step, PopStep)
    watch.pop_answered(step, answer, 0, 0)
    return watch.next_step(0)


@pytest.mark.parametrize("token", [KEYS.wake, KEYS.relay])
def test_a_token_is_answered_by_a_pop(watch: Watch, blocked: Caller, token: bytes) -> None:
    watch.token_received(token)
    assert isinstance(watch.next_step(0), PopStep)


@pytest.mark.parametrize("token", [KEYS.wake, KEYS.relay])
def test_a_token_whose_callers_went_before_it_is_given_back(watch: Watch, blocked: Caller, token: bytes) -> None:
    watch.leave(blocked)
    watch.token_received(token)
    assert watch.next_step(0) == LeaveStep(KEYS, b"client:0")


def test_a_token_whose_callers_go_before_the_pop_is_given_back(watch: Watch, blocked: Caller) -> None:
    watch.token_received(KEYS.wake)
    watch.leave(blocked)
    assert watch.next_step(0) == LeaveStep(KEYS, b"client:0")
    assert watch.next_step(0) is None


def test_a_token_of_a_topic_that_nobody_waits_for_any_more_is_given_back(watch: Watch, blocked: Caller) -> None:
    watch.leave(blocked)
    assert isinstance(watch.next_step(0), BlockStep)  # it stops waiting, and forgets the topic
    watch.token_received(KEYS.relay)
    assert watch.next_step(0) == LeaveStep(KEYS, b"")
    assert watch.next_step(0) is None


def test_without_a_token_the_next_pop_is_the_alarms(watch: Watch, blocked: Caller) -> None:
    watch.token_received(None)
    step = watch.next_step(0)
    assert isinstance(step, BlockStep)
    assert 60 <= step.until < 64
    assert isinstance(watch.next_step(step.until), PopStep)


def test_a_lost_line_may_have_had_a_token_so_a_pop_comes_first(watch: Watch, blocked: Caller) -> None:
    watch.connection_lost()
    assert isinstance(answered(watch, Answer()), BlockStep)


def test_the_token_of_a_lost_line_is_given_back_if_its_callers_go(watch: Watch, blocked: Caller) -> None:
    watch.connection_lost()
    watch.leave(blocked)
    assert watch.next_step(0) == LeaveStep(KEYS, b"client:0")


def test_a_seat_is_given_back_when_its_callers_go(watch: Watch) -> None:
    caller = entered(watch)
    step = answered(watch, Answer(seat=9))
    assert step == BlockStep((KEYS.wake,), 60.0)  # who has a seat waits for no relay
    watch.leave(caller)
    assert watch.next_step(0) == LeaveStep(KEYS, b"client:0")


def test_a_pop_that_began_when_its_callers_went_leaves_no_seat_behind(watch: Watch) -> None:
    caller = entered(watch)
    assert isinstance(watch.next_step(0), PopStep)  # its answer never comes
    watch.leave(caller)
    assert watch.next_step(0) == LeaveStep(KEYS, b"client:0")


def test_while_it_waits_for_a_relay_a_pop_takes_no_seat(watch: Watch, blocked: Caller) -> None:
    entered(watch)
    step = watch.next_step(LONG / 2)
    assert isinstance(step, PopStep)
    assert not step.may_take_seat
    watch.token_received(None)
    step = watch.next_step(LONG / 2)
    assert isinstance(step, PopStep)
    assert step.may_take_seat


def test_jobs_that_nobody_waits_for_any_more_are_given_back(watch: Watch) -> None:
    caller = entered(watch)
    step = watch.next_step(0)
    assert isinstance(step, PopStep)
    watch.leave(caller)
    answer = Answer([(b"1", b"", 0, 0, 0)])
    watch.pop_answered(step, answer, 0, 0)
    assert watch.next_step(0) == GiveBackStep(step.queue, answer, answer.jobs)
