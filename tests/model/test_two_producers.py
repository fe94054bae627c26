"""Two producers add a job of the same id while a worker has it: every order of their calls, each way in which the run ends, answers
that are lost. No event is lost: after each add its body, or that of a later add, is handed out; and none dies that no handler had.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from tarry import StaleReceipt
from tarry.clients.testing import TestClient
from tarry.core.requests import ScriptCall
from tarry.verbs.jobs import add, settle
from tarry.verbs.jobs.options import EncodedOptions, JobOptions

REPLACE = JobOptions(if_exists="replace").encode()
MODES: dict[str, EncodedOptions] = {
    "replace": REPLACE,
    "latest": REPLACE.due_within("5m"),
    "update": JobOptions(if_exists="update").encode(),
}
RUNS: dict[str, tuple[str, ...]] = {
    "finish": ("pop", "finish"),
    "finish, twice": ("pop", "finish", "finish again"),
    "finish, after its TTR": ("pop", "expire", "finish again"),
    "finish, after it was put back": ("pop", "expire", "put back", "finish again"),
    "release": ("pop", "release"),
    "bury": ("pop", "bury"),
    "bury, twice": ("pop", "bury", "bury again"),
    "expire": ("pop", "expire"),
    "its worker died": ("pop", "worker died"),
}
"""The steps of a worker; what is done again is the same call, whose answer was lost."""


def orders(*sequences: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Every order of steps that keeps that of each sequence."""
    if not any(sequences):
        yield ()
    for n, steps in enumerate(sequences):
        if steps:
            for rest in orders(*sequences[:n], steps[1:], *sequences[n + 1 :]):
                yield (steps[0], *rest)


class Play:
    """One order of the steps, on a server."""

    def __init__(self, client: TestClient, modes: dict[str, str]) -> None:
        self.client, self.clock = client, client.clock
        self.topic: Any = client.topic("t")
        self.calls: dict[str, ScriptCall[Any]] = {
            body: add.add_job(self.topic.verbs.context, body, MODES[mode], "7") for body, mode in modes.items()
        }
        self.added: list[str] = []
        """The bodies, in the order in which their adds were answered."""
        self.unseen: set[str] = set()
        """Of these adds nothing was handed out since."""
        self.had: set[str] = set()
        self.job: Any = None

    def step(self, name: str) -> None:
        what = name.removesuffix(" again")
        if what in self.calls:
            call = self.calls[what]
            self.client.engine.run(call.as_replay() if name.endswith("again") else call)
            self.added.append(what)
            if what not in self.had:
                self.unseen.add(what)
        elif what == "pop":
            self.job = self.pop() or self.job
        elif what == "expire":
            self.clock.advance(31)
        elif what == "put back":
            self.topic.pause("1h")
            assert self.topic.pop() is None
            self.topic.resume()
        elif what == "worker died":
            self.topic.release_holder(self.topic.verbs.holder.decode())
        elif self.job is not None:
            self.settle(what, again=name.endswith("again"))

    def pop(self) -> Any:
        job = self.topic.pop(ttr=30)
        if job is not None:
            assert job.body == self.added[-1], "it is what was added last"
            self.had.add(job.body)
            self.unseen.clear()
        return job

    def settle(self, verb: str, *, again: bool) -> None:
        keys, jobs = self.topic.verbs.keys, [self.job]
        call = {
            "finish": lambda: settle.FINISH.call(keys, settle.FINISH.encode(jobs)),
            "release": lambda: settle.RELEASE.call(keys, settle.RELEASE.encode(jobs, delay=0)),
            "bury": lambda: settle.BURY.call(keys, settle.BURY.encode(jobs)),
        }[verb]()
        (refusal,) = self.client.engine.run(call.as_replay() if again else call)
        assert refusal is None or isinstance(refusal, StaleReceipt)

    def end(self) -> None:
        """What is left is done."""
        for _ in range(9):
            self.clock.advance("1h")
            job = self.pop()
            if job is None:
                break
            job.finish()
        left = self.topic.get("7")
        assert left is None or (left.state == "dead" and left.body in self.had)
        assert self.unseen == set()
        if left is not None:
            self.topic.delete("7")


def play_all(client: TestClient, run: str, events: tuple[str, ...], modes: str) -> None:
    """Every order, with every pair of modes, or with three of them in which each has both places: one order after the other has all pairs."""
    for number, order in enumerate(orders(events, ("c",), RUNS[run])):
        shifted = [*MODES][number % 3 :] + [*MODES][: number % 3]
        for first, second in product(MODES, MODES) if modes == "all" else zip(MODES, shifted, strict=True):
            play = Play(client, {"a": first, "b": first, "c": second})
            for name in ("a", *order):
                play.step(name)
            play.end()
    assert client.topic("t").check().ok


SOME_OR_ALL = pytest.mark.parametrize("modes", ["three", pytest.param("all", marks=pytest.mark.long)])


@SOME_OR_ALL
@pytest.mark.parametrize("max_attempts", [1, 9])
@pytest.mark.parametrize("run", RUNS)
def test_no_event_of_two_producers_is_lost(client: TestClient, run: str, max_attempts: int, modes: str) -> None:
    """Promise: The last body is handed out."""
    client.topic("t").configure(max_attempts=max_attempts)
    play_all(client, run, ("b",), modes)


@pytest.mark.slow
@SOME_OR_ALL
@pytest.mark.parametrize("run", RUNS)
def test_no_event_is_lost_with_an_answer(client: TestClient, run: str, modes: str) -> None:
    play_all(client, run, ("b", "b again"), modes)
