"""The checker itself: a history that is right passes, and the same with one planted fault is named by that fault."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos import history
from chaos.checker import Verdict, check
from chaos.environment import elections
from chaos.faults import Faults
from chaos.history import (
    ADD,
    BURY,
    DEAD,
    DELETE,
    DUE,
    EXISTS,
    FINISH,
    HANDED,
    KEPT,
    KICK,
    LOCKED,
    MAYBE,
    OK,
    POLL,
    POLLED,
    PUSH,
    REFUSED,
    RELEASE,
    RESCHEDULE,
    RESERVED,
    RETURNED,
    TOUCH,
    History,
)  # fmt: skip
from chaos.judge import BREACHES, Rules

SECOND = 1_000_000
START = 1_790_000_000 * SECOND
TTR = 4 * SECOND


class World:
    """A server that is always right, and the histories of its clients."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.now = START
        self.entries: list[dict[str, Any]] = []
        monkeypatch.setattr(history, "clock", lambda: self.now)
        self.books = [History(str(folder), who) for who in (1, 2, 3)]
        self.receipts = START

    def call(self, kind: int, *row: int, status: int = OK, by: int = 0, takes: int = 1000) -> None:
        """A verb about one job, asked and answered."""
        number = self.books[by].intend(kind, 0, row)
        self.now += takes
        self.books[by].ended(number, status)

    def add(self, id: int, delay: int = 0, most: int = 0, status: int = OK) -> int:
        """Answers when it was added, by the server."""
        created = self.now + 500
        self.call(ADD, id, delay, most, 0, status=status)
        return created

    def hand(self, id: int, created: int, attempt: int = 1, due: int = 0, by: int = 1, receipt: int = 0) -> int:
        """Answers the receipt."""
        self.receipts += 10
        asked, at = self.now, self.now + 500
        self.now += 1000
        row = (id, receipt or self.receipts, attempt, due or min(created, at), at, created, TTR)
        self.books[by].saw(HANDED, 0, asked, row)
        return receipt or self.receipts

    def keep(self, id: int, created: int, place: int = DUE) -> None:
        self.books[2].saw(KEPT, 0, self.now, (id, place, self.now, created))

    def sleep(self, us: int) -> None:
        self.now += us

    def fault(self, what: str, **said: Any) -> None:
        self.entries.append({"what": what, **said})

    def verdict(self, **rules: Any) -> Verdict:
        return check(self.folder, Faults(self.entries), Rules(**rules))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def a_right_history(world: World) -> None:
    """Something of everything, as it is promised."""
    for id in range(100, 120):
        created = world.add(id)
        world.call(FINISH, id, world.hand(id, created), by=1)
    created = world.add(1, delay=SECOND)
    world.sleep(SECOND)
    world.call(FINISH, 1, world.hand(1, created, due=created + SECOND), by=1)
    created = world.add(2)  # released, then its time runs out, then touched and finished
    receipt = world.hand(2, created)
    world.call(RELEASE, 2, receipt, 2 * SECOND, 1, by=1)
    world.sleep(2 * SECOND)
    receipt = world.hand(2, created, 2, world.now)
    world.sleep(TTR)
    late, receipt = receipt, world.hand(2, created, 3, world.now, by=0)
    world.call(FINISH, 2, late, status=REFUSED, by=1)
    world.call(TOUCH, 2, receipt, TTR)
    world.sleep(TTR - SECOND)
    world.call(FINISH, 2, receipt)
    created = world.add(3)  # buried and kicked
    world.call(BURY, 3, world.hand(3, created), by=1)
    world.call(KICK, 3)
    world.call(FINISH, 3, world.hand(3, created), by=1)
    world.add(4, delay=9 * SECOND)  # deleted
    world.call(DELETE, 4)
    created = world.add(5, delay=9 * SECOND)  # hastened
    world.call(RESCHEDULE, 5, 0)
    world.call(FINISH, 5, world.hand(5, created, due=world.now), by=1)
    created = world.add(6, most=1)  # dead after its last attempt
    world.call(RELEASE, 6, world.hand(6, created), 0, 1, by=1)
    world.keep(6, created, DEAD)
    created = world.add(7, delay=9 * SECOND)
    world.keep(7, created)
    world.books[0].intend(ADD, 0, (8, 0, 0, 0))  # killed in the middle of it
    created = world.add(9)
    world.hand(9, created)
    world.books[1].saw(RETURNED, 0, 0, (9, world.receipts))


def test_an_add_without_an_answer_may_be_read_later(world: World) -> None:
    """Two seconds after its client gave up; while connections are broken, whenever that ends."""
    world.call(ADD, 1, 0, 0, 0, status=MAYBE)
    world.sleep(2 * SECOND)
    world.call(FINISH, 1, world.hand(1, world.now), by=1)
    began = world.now
    world.call(ADD, 2, 0, 0, 0, status=MAYBE)
    world.sleep(100 * SECOND)
    world.call(FINISH, 2, world.hand(2, world.now), by=1)
    world.fault("broken", since=began, until=world.now)
    verdict = world.verdict()
    assert verdict.tally.breaches == {}, verdict.excerpt()


def test_a_correct_history_passes(world: World) -> None:
    a_right_history(world)
    verdict = world.verdict()
    assert verdict.tally.breaches == {}, verdict.excerpt()
    assert verdict.tally.counts["again: time to run over"] == verdict.tally.counts["again: released"] == 1
    assert verdict.tally.counts["again: kicked"] == verdict.tally.counts["refused, its time to run over"] == 1
    assert verdict.acknowledged == 28
    assert verdict.events == 91


PLANTED: dict[str, list[Callable[[World], None]]] = {name: [] for name in BREACHES}


def planted(name: str) -> Callable[[Callable[[World], None]], Callable[[World], None]]:
    def remember(plant: Callable[[World], None]) -> Callable[[World], None]:
        PLANTED[name].append(plant)
        return plant

    return remember


@planted("lost")
def an_add_that_is_nowhere(world: World) -> None:
    world.add(50)


@planted("lost")
def a_job_that_was_given_back_and_is_nowhere(world: World) -> None:
    world.call(RELEASE, 50, world.hand(50, world.add(50)), 0, 1, by=1)


@planted("lost")
def a_refused_finish_is_no_finish(world: World) -> None:
    receipt = world.hand(50, world.add(50))
    world.sleep(TTR)
    world.call(FINISH, 50, receipt, status=REFUSED, by=1)


@planted("early")
def handed_out_before_it_was_due_by_the_servers_own_words(world: World) -> None:
    world.call(FINISH, 50, world.hand(50, world.add(50), due=world.now + 3 * SECOND), by=1)


@planted("early")
def handed_out_before_the_delay_was_over(world: World) -> None:
    created = world.add(50, delay=2 * SECOND)
    world.sleep(SECOND)
    world.call(FINISH, 50, world.hand(50, created, due=world.now), by=1)


@planted("early")
def handed_out_before_the_moment_it_was_moved_to(world: World) -> None:
    created = world.add(50, delay=SECOND)
    world.call(RESCHEDULE, 50, 9 * SECOND)
    world.sleep(2 * SECOND)
    world.call(FINISH, 50, world.hand(50, created, due=world.now), by=1)


@planted("early")
def handed_out_before_the_back_off_was_over(world: World) -> None:
    created = world.add(50)
    world.call(RELEASE, 50, world.hand(50, created), -1, 1, by=1)
    world.call(FINISH, 50, world.hand(50, created, 2, world.now), by=1)


@planted("after finish")
def handed_out_after_its_finish(world: World) -> None:
    created = world.add(50)
    world.call(FINISH, 50, world.hand(50, created), by=1)
    world.sleep(TTR)
    world.hand(50, created, 2, by=0)


@planted("after finish")
def there_at_the_end_though_finished(world: World) -> None:
    created = world.add(50)
    world.call(FINISH, 50, world.hand(50, created), by=1)
    world.keep(50, created)


@planted("after delete")
def handed_out_after_its_delete(world: World) -> None:
    created = world.add(50)
    world.call(DELETE, 50)
    world.sleep(5000)
    world.hand(50, created)


@planted("after delete")
def there_at_the_end_though_deleted(world: World) -> None:
    created = world.add(50, delay=9 * SECOND)
    world.call(DELETE, 50)
    world.keep(50, created)


@planted("twice accepted")
def two_receipts_are_accepted(world: World) -> None:
    created = world.add(50)
    one = world.hand(50, created)
    world.sleep(TTR)
    other = world.hand(50, created, 2, by=0)
    world.call(FINISH, 50, one, by=1)
    world.call(FINISH, 50, other)


@planted("stale accepted")
def a_receipt_of_yesterday_is_accepted(world: World) -> None:
    created = world.add(50)
    one = world.hand(50, created)
    world.sleep(TTR)
    world.hand(50, created, 2, by=0)
    world.sleep(5000)
    world.call(FINISH, 50, one, by=1)


@planted("stale accepted")
def a_receipt_is_accepted_after_the_delete(world: World) -> None:
    receipt = world.hand(50, world.add(50))
    world.call(DELETE, 50)
    world.sleep(5000)
    world.call(RELEASE, 50, receipt, 0, 1, by=1)


@planted("late accepted")
def a_receipt_is_accepted_after_its_time(world: World) -> None:
    receipt = world.hand(50, world.add(50))
    world.sleep(TTR + 5000)
    world.call(FINISH, 50, receipt, by=1)


@planted("receipt fell")
def a_later_receipt_is_lower(world: World) -> None:
    created = world.add(50)
    world.hand(50, created)
    world.sleep(TTR)
    world.hand(50, created, 2, receipt=START - 5, by=0)
    world.keep(50, created, RESERVED)


@planted("attempts above")
def handed_out_once_more_than_allowed(world: World) -> None:
    created = world.add(50, most=1)
    world.call(RELEASE, 50, world.hand(50, created), 0, 1, by=1)
    world.call(FINISH, 50, world.hand(50, created, 2), by=1)


@planted("attempt fell")
def an_attempt_that_counted_is_forgotten(world: World) -> None:
    created = world.add(50)
    world.call(RELEASE, 50, world.hand(50, created), 0, 1, by=1)
    world.call(FINISH, 50, world.hand(50, created, 1), by=1)


@planted("attempt skipped")
def an_attempt_that_nobody_saw(world: World) -> None:
    created = world.add(50)
    world.call(RELEASE, 50, world.hand(50, created), 0, 1, by=1)
    world.call(FINISH, 50, world.hand(50, created, 3), by=1)


@planted("doubled")
def in_two_hands_at_once(world: World) -> None:
    created = world.add(50)
    world.hand(50, created)
    world.call(FINISH, 50, world.hand(50, created, 2, by=0))


@planted("doubled")
def in_two_hands_though_it_was_touched(world: World) -> None:
    created = world.add(50)
    receipt = world.hand(50, created)
    world.sleep(3 * SECOND)
    world.call(TOUCH, 50, receipt, TTR, by=1)
    world.sleep(2 * SECOND)
    world.call(FINISH, 50, world.hand(50, created, 2, by=0))


@planted("ran anew")
def added_by_nobody_at_that_moment(world: World) -> None:
    created = world.add(50)
    world.call(FINISH, 50, world.hand(50, created), by=1)
    world.sleep(SECOND)
    world.call(FINISH, 50, world.hand(50, world.now, 1), by=1)


@planted("ran anew")
def added_long_after_its_client_gave_up(world: World) -> None:
    world.call(ADD, 50, 0, 0, 0, status=MAYBE)
    world.sleep(40 * SECOND)
    world.call(FINISH, 50, world.hand(50, world.now, 1), by=1)


@planted("refused")
def a_receipt_that_holds_is_refused(world: World) -> None:
    created = world.add(50)
    world.call(FINISH, 50, world.hand(50, created), status=REFUSED, by=1)
    world.keep(50, created, RESERVED)


@planted("existing")
def a_new_id_is_refused_as_existing(world: World) -> None:
    world.call(ADD, 50, 0, 0, 0, status=EXISTS)


@planted("never added")
def handed_out_and_nobody_added_it(world: World) -> None:
    world.hand(50, world.now)


@planted("two places")
def there_twice(world: World) -> None:
    created = world.add(50)
    world.keep(50, created, DUE)
    world.keep(50, created, DEAD)


@planted("two places")
def there_in_no_place(world: World) -> None:
    world.keep(50, world.add(50), history.PLACELESS)


@planted("two holders")
def two_hold_one_lock(world: World) -> None:
    world.books[1].saw(LOCKED, 0, world.now, (7, 1, world.now, world.now + SECOND, 0))
    world.books[2].saw(LOCKED, 0, world.now, (7, 2, world.now + 1000, world.now + SECOND, 0))


@planted("token fell")
def a_later_token_is_lower(world: World) -> None:
    world.books[1].saw(LOCKED, 0, world.now, (7, 5, world.now, world.now + 1000, 0))
    world.sleep(5000)
    world.books[2].saw(LOCKED, 0, world.now, (7, 5, world.now + 1000, world.now + SECOND, 0))


@planted("lost")
def a_pushed_item_that_no_lost_poll_can_have_taken(world: World) -> None:
    world.call(PUSH, 60, 0)


@planted("doubled")
def an_item_that_was_polled_twice(world: World) -> None:
    world.call(PUSH, 60, 0)
    for by in (0, 1):
        world.books[by].saw(POLLED, 0, world.now, (60, START, world.now))


@planted("early")
def an_item_that_was_polled_early(world: World) -> None:
    world.call(PUSH, 60, SECOND)
    world.books[1].saw(POLLED, 0, world.now, (60, START, world.now))


def two_workers(world: World) -> None:
    """The processes 2 and 3 are workers, and 2 is killed soon."""
    for who in (2, 3):
        world.fault("known", who=who, at=world.now)


def killed(world: World, who: int = 2) -> None:
    world.fault("ended", who=who, at=world.now, how="killed", role="worker", name="killed")


def lose(world: World) -> int:
    """A job is handed out to a worker that is killed, and its time to run ends. Returns when it was added."""
    two_workers(world)
    created = world.add(50)
    world.hand(50, created)
    killed(world)
    world.sleep(TTR)
    return created


@planted("late back")
def a_killed_workers_job_is_back_after_its_time_to_run(world: World) -> None:
    created = lose(world)
    world.call(FINISH, 50, world.hand(50, created, 2, due=world.now - 1000, by=2), by=2)


@planted("late back")
def a_killed_workers_job_is_never_back(world: World) -> None:
    world.keep(50, lose(world), RESERVED)


def reserved_at_once(world: World, count: int) -> None:
    """Jobs of one key."""
    ids = [1003 + 4 * n for n in range(count)]
    held = [(id, world.hand(id, created)) for id, created in [(id, world.add(id)) for id in ids]]
    for id, receipt in held:
        world.call(FINISH, id, receipt, by=1)


@planted("over the key")
def three_of_a_key_that_has_two_places(world: World) -> None:
    reserved_at_once(world, 3)


BY_THE_ENVIRONMENT = {"stuck", "key left", "damaged", "client"}
"""What no history tells: the environment finds these itself."""


TWO_PLACES = {"keys": 2, "key_concurrency": 2}


def test_each_breach_has_a_planted_fault() -> None:
    assert {name for name, plants in PLANTED.items() if not plants} == BY_THE_ENVIRONMENT


@pytest.mark.parametrize(
    ("name", "plant"), [(n, p) for n, ps in PLANTED.items() for p in ps], ids=lambda it: getattr(it, "__name__", it)
)
def test_the_checker_names_a_planted_fault(world: World, name: str, plant: Callable[[World], None]) -> None:
    """Promise: Lost; Early; Again; Stale; Attempts; Keys; Places; Locks."""
    a_right_history(world)
    world.sleep(SECOND)
    plant(world)
    verdict = world.verdict(**TWO_PLACES)
    assert name in verdict.tally.breaches, verdict.tally.breaches
    assert set(verdict.tally.breaches) <= {name, *ALSO.get(plant.__name__, ())}
    assert BREACHES[name] in verdict.excerpt()


ALSO = {
    "two_receipts_are_accepted": ["stale accepted", "late accepted"],
    "a_receipt_of_yesterday_is_accepted": ["late accepted"],
    "in_two_hands_at_once": ["stale accepted"],
    "added_by_nobody_at_that_moment": ["after finish"],
    "a_job_that_was_given_back_and_is_nowhere": ["refused"],
}
"""One fault may break two promises."""


# ── what may be, by its reason ───────────────────────────────────────────────────────────────────────────────────────


def counted(world: World, **rules: Any) -> dict[str, int]:
    verdict = world.verdict(**rules)
    assert verdict.tally.breaches == {}, verdict.excerpt()
    return dict(verdict.tally.counts)


def test_an_add_in_the_everysec_window_may_be_lost(world: World) -> None:
    world.add(50)
    world.fault("undone", since=START, until=world.now + SECOND, name="everysec")
    assert counted(world) == {"lost: everysec": 1}


def test_a_finish_in_the_everysec_window_may_be_undone(world: World) -> None:
    created = world.add(50)
    world.call(FINISH, 50, world.hand(50, created), by=1)
    world.fault("undone", since=START, until=world.now + SECOND, name="everysec")
    world.sleep(5000)
    world.call(FINISH, 50, world.hand(50, created, 1), by=1)
    assert counted(world) == {"undone: everysec": 1, "again: undone, everysec": 1}


def test_a_call_acknowledged_before_the_everysec_window_may_not_be_lost(world: World) -> None:
    world.add(50)
    world.fault("undone", since=world.now + SECOND, until=world.now + 2 * SECOND, name="everysec")
    assert dict(world.verdict().tally.breaches) == {"lost": 1}


def test_an_add_sent_twice_may_run_twice(world: World) -> None:
    call = world.books[0].intend(ADD, 0, (50, 0, 0, 0))
    created = world.now + 500
    world.sleep(1000)
    world.call(FINISH, 50, world.hand(50, created), by=1)
    world.sleep(5000)
    again = world.now
    world.sleep(500)
    world.books[0].ended(call)
    world.call(FINISH, 50, world.hand(50, again), by=1)
    assert counted(world) == {"add repeated": 1}


def test_jobs_of_a_killed_process_come_again(world: World) -> None:
    created = world.add(50)
    world.hand(50, created)
    world.fault("ended", who=2, at=world.now, how="killed")
    world.sleep(5000)
    world.call(FINISH, 50, world.hand(50, created, 2, by=0))
    assert counted(world) == {"again: its process ended": 1}


def test_a_finish_sent_twice_may_succeed_late(world: World) -> None:
    created = world.add(50)
    one = world.hand(50, created)
    world.sleep(TTR)
    other = world.hand(50, created, 2, by=0)
    world.call(FINISH, 50, other)
    world.sleep(5000)
    world.fault("broken", since=world.now, until=world.now + SECOND)
    world.call(FINISH, 50, one, by=1)
    assert counted(world) == {"again: time to run over": 1, "late told ok": 1}
    assert set(world.verdict(late_is_told_ok=False).tally.breaches) == {"stale accepted", "twice accepted"}


def test_a_delete_sent_twice_may_find_nothing(world: World) -> None:
    world.add(50)
    world.call(DELETE, 50, status=REFUSED)
    assert dict(world.verdict().tally.breaches) == {"lost": 1}
    world.fault("broken", since=START, until=world.now)
    assert counted(world) == {"told refused, sent twice": 1}


def test_a_release_sent_twice_may_be_refused(world: World) -> None:
    created = world.add(50)
    world.call(RELEASE, 50, world.hand(50, created), 0, 0, by=1, status=REFUSED)
    world.call(FINISH, 50, world.hand(50, created, 1, by=0))
    assert set(world.verdict().tally.breaches) == {"doubled"}
    world.fault("broken", since=START, until=world.now)
    assert counted(world) == {"told refused, sent twice": 1, "again: released": 1}


def test_a_finish_sent_twice_may_be_refused_when_an_add_sent_twice_added_its_job_again(world: World) -> None:
    world.fault("broken", since=START, until=START + SECOND)
    producer, worker, other = world.books
    add = producer.intend(ADD, 0, (50, 0, 0, 0))
    receipt = world.hand(50, world.now)
    finish = worker.intend(FINISH, 0, (50, receipt))
    again = world.now
    world.sleep(1000)
    producer.ended(add, OK)
    worker.ended(finish, REFUSED)
    world.sleep(1000)
    other.saw(
        HANDED, 0, world.now, (50, receipt + 10, 1, again, again + 500, again, TTR)
    )  # it reads it after the refusal
    world.call(FINISH, 50, receipt + 10, by=2)
    assert counted(world)["refused, settled or deleted before"] == 1


def test_a_lost_answer_may_use_up_an_attempt(world: World) -> None:
    world.fault("broken", since=START, until=START + SECOND)
    world.call(FINISH, 50, world.hand(50, world.add(50), 2), by=1)
    assert counted(world) == {"attempts nobody saw": 1}


def test_a_poll_with_a_lost_answer_may_take_items(world: World) -> None:
    world.call(PUSH, 60, 0)
    world.call(POLL, 0, 10, by=1, status=MAYBE)
    assert counted(world) == {"taken by who did not live to tell": 1}


def test_recovery_is_the_time_from_the_end_of_a_fault_to_the_next_job(world: World) -> None:
    world.fault("healed", at=world.now, name="server killed")
    world.call(FINISH, 50, world.hand(50, world.add(50)), by=1)
    assert world.verdict().recovery == {"server killed": [1500]}


def back_after(world: World, us: int) -> None:
    """A job of a worker that is killed is ready again after so long."""
    created = world.add(50)
    world.hand(50, created)
    killed(world)
    world.sleep(us)
    world.call(FINISH, 50, world.hand(50, created, 2, due=world.now, by=2), by=2)


def test_a_killed_workers_job_is_back_in_time(world: World) -> None:
    """Promise: When a worker is killed."""
    two_workers(world)
    back_after(world, 2 * SECOND)
    assert counted(world) == {"again: its process ended": 1}
    assert world.verdict().recovery == {"killed: jobs ready again": [2 * SECOND]}


def test_the_two_seconds_begin_with_the_first_worker_that_runs(world: World) -> None:
    two_workers(world)
    world.fault("frozen", who=3, since=world.now, until=world.now + 3 * SECOND)
    world.fault("known", who=4, at=world.now + SECOND)
    back_after(world, 3 * SECOND - 1000)
    assert counted(world) == {"again: its process ended": 1}


def turns(world: World, each_s: float) -> None:
    world.fault("turns", moments=[world.now + int(n * each_s * SECOND) for n in range(1, 100)])


def test_two_seconds_are_longer_on_a_busy_machine(world: World) -> None:
    two_workers(world)
    turns(world, 0.14)
    back_after(world, 3 * SECOND)
    assert counted(world) == {"again: its process ended": 1}
    assert list(world.verdict().recovery) == ["killed: jobs ready again"]


def test_nothing_is_judged_on_a_machine_that_is_too_busy(world: World) -> None:
    two_workers(world)
    turns(world, 0.2)
    back_after(world, TTR)
    assert counted(world) == {"again: time to run over": 1}
    assert list(world.verdict().recovery) == ["killed: jobs ready again, not judged"]


@pytest.mark.parametrize("kinds", [["subscribed", "blocked", "commands"], ["subscribed", "blocked"]])
def test_a_worker_is_overtaken_only_if_all_its_connections_have_ended(world: World, kinds: list[str]) -> None:
    created = world.add(50)
    world.fault("half-open", who=2, since=world.now, until=world.now + SECOND, kinds=kinds)
    world.hand(50, created)
    world.sleep(SECOND)
    world.call(FINISH, 50, world.hand(50, created, 2, due=world.now, by=2), by=2)
    found = world.verdict().tally
    assert found.counts["again: its worker was cut off"] == (len(kinds) == 3)
    assert dict(found.breaches) == ({} if len(kinds) == 3 else {"doubled": 1})


def test_a_worker_that_was_cut_off_may_be_refused(world: World) -> None:
    """Who had its job next was killed before it wrote that down."""
    created = world.add(50)
    receipt = world.hand(50, created)
    since = world.now
    world.call(FINISH, 50, receipt, status=REFUSED, by=1)
    world.sleep(SECOND)
    world.call(FINISH, 50, world.hand(50, created, 3, due=world.now, by=2), by=2)
    world.fault("half-open", who=2, since=since, until=world.now, kinds=["subscribed", "blocked"])
    assert "refused" in world.verdict().tally.breaches
    world.fault("half-open", who=2, since=since, until=world.now, kinds=["subscribed", "blocked", "commands"])
    assert "refused" not in world.verdict().tally.breaches


def test_a_clock_that_is_set_forth_ends_the_time_to_run(world: World) -> None:
    two_workers(world)
    created = world.add(50)
    world.hand(50, created)
    over, since = world.now - 500 + TTR, world.now
    killed(world)
    world.sleep(SECOND)
    shown = world.now + 600 * SECOND
    world.fault("stepped", at=since, until=world.now + SECOND, by=600)
    world.books[2].saw(HANDED, 0, world.now, (50, world.receipts + 10, 2, over, shown, created, TTR))
    world.call(FINISH, 50, world.receipts + 10, by=2)
    assert counted(world, server_clock=False) == {"again: time to run over": 1}


# ── how it reads ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_truncated_frame_is_left_out(world: World) -> None:
    a_right_history(world)
    path = world.folder / "1.history"
    before = list(history.events(path))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:41])
    assert list(history.events(path)) == before


def test_the_chunk_size_does_not_change_the_events(world: World) -> None:
    a_right_history(world)
    path = world.folder / "2.history"
    assert list(history.events(path, piece=64)) == list(history.events(path))


def a_long_history(world: World, jobs: int) -> None:
    """Batches, as most of a run is."""
    draw = random.Random(7)
    for first in range(1 << 24, (1 << 24) + jobs, 500):
        ids = range(first, first + 500)
        call = world.books[0].intend(ADD, 0, [cell for id in ids for cell in (id, 0, 0, 0)])
        created = world.now + 500
        world.sleep(1000)
        world.books[0].ended(call)
        world.receipts += 1
        row = [cell for id in ids for cell in (id, world.receipts, 1, created, world.now + 500, created, TTR)]
        asked = world.now
        world.sleep(draw.randrange(1000, 2000))
        world.books[1].saw(HANDED, 0, asked, row)
        call = world.books[1].intend(FINISH, 0, [cell for id in ids for cell in (id, world.receipts)])
        world.sleep(1000)
        world.books[1].ended(call)


def test_checking_in_buckets_finds_the_same_breaches(world: World) -> None:
    a_right_history(world)
    a_long_history(world, 10_000)
    in_two_hands_at_once(world)
    whole = check(world.folder, Faults(), bucket_bytes=1 << 40)
    parted = check(world.folder, Faults(), bucket_bytes=50_000)
    assert whole.as_json() == parted.as_json()
    assert whole.tally.breaches["doubled"] == 1


def peak_memory(world: World, bucket_bytes: int) -> int:
    tracemalloc.start()
    check(world.folder, Faults(), bucket_bytes=bucket_bytes)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def test_checking_in_buckets_uses_less_memory(world: World) -> None:
    a_long_history(world, 5000)
    check(world.folder, Faults())  # what is made once in a process, such as compiled patterns, counts for neither
    assert peak_memory(world, 1 << 16) < peak_memory(world, 1 << 30) / 2


@pytest.mark.long
def test_memory_does_not_grow_with_the_run(world: World) -> None:
    a_long_history(world, 40_000)
    small = peak_memory(world, 1 << 20)
    a_long_history(world, 80_000)
    assert peak_memory(world, 1 << 20) < 1.5 * small


def a_server_whose_clock_was_behind(world: World, by: int, takes: int) -> tuple[int, int]:
    """Its clock was set back between two moments: answers when it was added, and its first receipt."""
    created = world.add(50)
    receipt = world.hand(50, created)
    since = world.now
    world.call(TOUCH, 50, receipt, TTR, by=1)
    world.sleep(takes)
    world.fault("stepped", at=since, until=world.now, by=-by / SECOND)
    return created, since


def test_a_touch_under_a_clock_set_back_ends_when_the_clock_is_corrected(world: World) -> None:
    created, since = a_server_whose_clock_was_behind(world, 600 * SECOND, SECOND)
    world.call(FINISH, 50, world.hand(50, created, 2, due=since + 500 - 600 * SECOND + TTR, by=0))
    assert counted(world, server_clock=False) == {"again: time to run over, by a clock that was set": 1}


def test_a_changed_clock_excuses_no_other_deadline(world: World) -> None:
    created, since = a_server_whose_clock_was_behind(world, 600 * SECOND, SECOND)
    world.call(FINISH, 50, world.hand(50, created, 2, due=since - 500 * SECOND, by=0))
    assert "doubled" in world.verdict(server_clock=False).tally.breaches


def test_a_handler_starting_after_a_delete_may_have_got_its_job_before(world: World) -> None:
    created, shown = world.add(50), world.now - 2 * SECOND
    since = world.now
    world.call(DELETE, 50)
    world.sleep(SECOND)
    world.fault("stepped", at=since - SECOND, until=world.now, by=-2)
    world.books[1].saw(HANDED, 0, world.now, (50, world.receipts, 1, shown, shown, created - 2 * SECOND, TTR))
    assert "after delete" not in world.verdict(server_clock=False).tally.breaches


def test_a_job_popped_after_its_delete_is_a_breach_under_any_clock(world: World) -> None:
    created = world.add(50)
    since = world.now
    world.call(DELETE, 50)
    world.sleep(SECOND)
    world.fault("stepped", at=since - 3 * SECOND, until=world.now, by=-2)
    shown = world.now - 2 * SECOND
    world.books[1].saw(HANDED, 0, world.now, (50, world.receipts, 1, shown, shown, created - 2 * SECOND, TTR))
    assert "after delete" in world.verdict(server_clock=False).tally.breaches


def test_elections_are_read_from_a_server_log() -> None:
    log = (
        "9:S 22 Nov 2026 10:06:50.100 * Start of election delayed for 700 milliseconds\n"
        "9:S 22 Nov 2026 10:06:51.250 * Failover election won: I'm the new primary.\n"
        "9:S 22 Nov 2026 10:07:51.000 * Manual failover user request accepted.\n"
        "9:S 22 Nov 2026 10:07:51.500 * Failover election won: I'm the new master.\n"
    )
    (first, asked), (second, asked_then) = elections(log)
    assert (asked, asked_then, second - first) == (False, True, 60_250_000)
    assert time.localtime(first // SECOND)[:6] == (2026, 11, 22, 10, 6, 51)


def test_as_many_jobs_of_a_key_as_its_limit_are_none(world: World) -> None:
    reserved_at_once(world, 2)
    tally = world.verdict(**TWO_PLACES).tally
    assert (tally.counts["places of keys"], dict(tally.breaches)) == (2, {})


def test_a_place_that_the_server_forgot_does_not_count(world: World) -> None:
    reserved_at_once(world, 3)
    world.fault("undone", since=0, until=world.now, name="everysec")
    assert not world.verdict(**TWO_PLACES).tally.breaches
