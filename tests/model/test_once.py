"""Two producers add a job once while a worker has it, finishes it or loses it: every order of their calls, with answers that are lost.

Whatever happens, one of them added the job, only that body is ever handed out, and after the end neither adds it again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from model.test_two_producers import RUNS, Play, orders
from tarry.clients.testing import Clock, TestClient
from tarry.connections.embedded.server_process import ServerProcess
from tarry.verbs.jobs import add
from tarry.verbs.jobs.options import JobOptions

ONCE = JobOptions(if_exists="once").encode()
PRODUCERS = (("a", "a again"), ("b",))


class PlayOnce(Play):
    """One order of the steps; ``fill`` is called before each verb of the worker, and told afterwards that it is over."""

    def __init__(self, client: TestClient, fill: Callable[[bool], object] = lambda _: None) -> None:
        super().__init__(client, {})
        self.fill = fill
        self.calls = {body: add.add_job(self.topic.verbs.context, body, ONCE, "7") for body in "abc"}
        self.told: defaultdict[str, list[Any]] = defaultdict(list)

    def step(self, name: str) -> None:
        what = name.removesuffix(" again")
        if what in self.calls:
            call = self.calls[what]
            self.told[what].append(self.client.engine.run(call.as_replay() if name.endswith("again") else call))
        else:
            super().step(name)

    def settle(self, verb: str, *, again: bool) -> None:
        self.fill(True)
        super().settle(verb, again=again)
        self.fill(False)

    def pop(self) -> Any:
        job = self.topic.pop(ttr=30)
        if job is not None:
            self.had.add(job.body)
        return job

    def end(self) -> None:
        for _ in range(9):
            self.clock.advance("1h")
            self.job = self.pop()
            if self.job is None:
                break
            self.settle("finish", again=False)
        self.step("c")
        assert {self.told["c"][0].state} <= {"finished", "dead"}
        winners = [body for body, told in self.told.items() if told[0].is_new]
        assert len(winners) == 1
        assert self.had == set(winners)
        for body, told in self.told.items():
            assert {one.is_new for one in told} <= {body in winners, False}
        assert self.topic.purge("finished") + self.topic.purge("dead") == 1


@pytest.mark.parametrize("run", RUNS)
def test_of_two_producers_one_adds_a_job_and_once(client: TestClient, run: str) -> None:
    """Promise: Once."""
    topic = client.topic("t")
    topic.configure(keep_finished="1d", max_attempts=1 if "died" in run else 9)
    for order in orders(*PRODUCERS, RUNS[run]):
        play = PlayOnce(client)
        for name in order:
            play.step(name)
        play.end()
        for told in play.told.values():
            assert len({(one.is_new, one.due if one.is_new else None) for one in told}) == 1, (
                "a repeated call is answered alike"
            )
    assert topic.check().ok


@pytest.mark.slow
def test_of_two_producers_one_adds_a_job_that_ends_in_a_full_memory(
    own_server: Callable[..., ServerProcess],
) -> None:
    """Promise: Once."""
    running = own_server()
    with TestClient(running.url, Clock()) as client:
        topic = client.topic("t")
        topic.configure(keep_finished="1d")
        for run in ("finish", "finish, after it was put back"):
            for order in orders(*PRODUCERS, RUNS[run]):
                play = PlayOnce(client, lambda full: running.ask("CONFIG", "SET", "maxmemory", str(int(full))))
                for name in order:
                    play.step(name)
                play.end()
        assert (topic.check().ok, topic.stats().finished_lost) == (True, 0)
