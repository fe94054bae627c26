"""Many reserved jobs on one connection, and many tubes in one process."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, islice
from typing import Any

from beanstalk.beans import Bean
from beanstalk.conftest import Beanstalk
from tarry.programs.beanstalk.reserved_jobs import SMALL, ReservedJobs, TubeJob
from tarry.programs.beanstalk.tubes import MOST_RECENT, _hash_of

Connect = Callable[[], Bean]
NOTHING: Any = None


class Moment(float):
    """A time that counts how often it is compared."""

    compared = 0

    def __lt__(self, other: float) -> bool:
        Moment.compared += 1
        return super().__lt__(other)

    def __eq__(self, other: object) -> bool:
        Moment.compared += 1
        return super().__eq__(other)

    __hash__ = float.__hash__

    def __gt__(self, other: float) -> bool:
        Moment.compared += 1
        return super().__gt__(other)


def held(count: int) -> ReservedJobs:
    reserved = ReservedJobs()
    for number in range(count):
        reserved[number] = TubeJob(NOTHING, NOTHING, Moment(1000 + number))
    return reserved


def test_the_first_deadline_is_found_without_a_look_at_every_reserved_job() -> None:
    reserved = held(10_000)
    Moment.compared = 0
    assert reserved.first_deadline(1.0) == 1000
    assert Moment.compared < 10


def test_the_first_deadline_is_of_a_job_that_is_still_held() -> None:
    reserved = held(4)
    reserved.pop(0)
    reserved.renew(1, 5000.0)
    assert reserved.first_deadline(1.0) == 1002
    assert reserved.first_deadline(1002.0) == 1003
    assert [reserved.get(number) is not None for number in range(4)] == [False, True, False, True]
    assert reserved.first_deadline(1003.0) == 5000
    assert reserved.first_deadline(5000.0) == float("inf")
    assert not len(reserved)


def test_a_job_that_is_touched_for_ever_takes_no_memory() -> None:
    reserved = held(1)
    for number in range(10 * SMALL):
        reserved.renew(0, 2000.0 + number)
    assert len(reserved._deadlines) <= SMALL + 3
    assert reserved.first_deadline(1.0) == 2000 + 10 * SMALL - 1


def test_tubes_that_are_used_once_take_no_memory_and_their_jobs_are_found(service: Beanstalk, connect: Connect) -> None:
    client = connect()
    same = _hash_of("reply-0")
    names = list(islice((f"reply-{n}" for n in count() if _hash_of(f"reply-{n}") == same), MOST_RECENT + 2))
    numbers = []
    for name in names:
        client(b"use %s" % name.encode())
        numbers.append(client.put(name.encode()))
    [session] = service.server.sessions
    assert len(session.tubes._recent[same]) == MOST_RECENT
    for name, number in zip(names, numbers, strict=True):
        assert client(b"peek %d" % number).endswith(name.encode())
        assert client(b"delete %d" % number) == b"DELETED"
        assert client(b"delete %d" % number) == b"NOT_FOUND"
