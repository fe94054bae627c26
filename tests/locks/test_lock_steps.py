"""The steps of a lock without a server, for moments at which a real one cannot be held."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from tarry.errors import ServerUnfit, TarryError, Unavailable
from tarry.verbs.locks.lock_steps import Acquired, Sleep, Steps, acquire, clean_up
from tarry.verbs.locks.lock_table import Acquisition, LockTable
from tarry.verbs.locks.lock_values import LockId
from tarry.verbs.locks.zookeeper_backend import ZooKeeperBackend
from tarry.verbs.locks.zookeeper_requests import NodeStat, SessionState

NOW = 10.0


@pytest.fixture
def table() -> LockTable:
    return LockTable(lambda: NOW, nullcontext(), lambda: None, lambda holder: True)


@pytest.fixture
def acquisition() -> Acquisition:
    return Acquisition(LockId("a"), "me", b"1", None, lambda: None)


class TooLate:
    """A server whose answer comes after the lease."""

    given_up = False

    def prepare(self, _: Any) -> None: ...

    def try_acquire(self, _: Any) -> Steps[Acquired]:
        yield Sleep(0)
        return Acquired(1, until=NOW - 1)

    def give_up(self, _: Any) -> Steps[None]:
        yield Sleep(0)
        self.given_up = True

    stop_waiting = prepare


def test_a_lock_whose_answer_comes_after_its_lease_is_not_held(table: LockTable, acquisition: Acquisition) -> None:
    backend: Any = TooLate()
    steps = acquire(table, backend, acquisition, 0.0)
    assert [type(next(steps)) for _ in range(2)] == [Sleep, Sleep]
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert (end.value.value, backend.given_up) == (None, True)


@pytest.mark.parametrize(("fault", "certain"), [(Unavailable("gone"), False), (ServerUnfit("no"), True)])
def test_a_clean_up_is_repeated_until_a_server_has_answered(
    acquisition: Acquisition, fault: TarryError, certain: bool
) -> None:
    class Answering:
        def remove(self, _: Any) -> Steps[None]:
            yield Sleep(0)
            raise fault

    backend: Any = Answering()
    steps = clean_up(backend, acquisition)
    next(steps)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value is certain


def test_a_node_is_watched_once_its_lock_has_been_held_for_a_while(table: LockTable, acquisition: Acquisition) -> None:
    """A lock that is held for a moment costs no watch."""
    backend = ZooKeeperBackend(table, SessionState(10.0), "tests", "me", 10.0)
    backend.prepare(acquisition)
    steps = backend.try_acquire(acquisition)
    next(steps)
    node = "me-lock-0000000000"
    with pytest.raises(StopIteration) as end:
        steps.send([(f"/tarry/tests/a/{node}", NodeStat(7, 42, 0)), [node]])
    assert end.value.value == Acquired(7, float("inf"), check_at=NOW + 0.25)
