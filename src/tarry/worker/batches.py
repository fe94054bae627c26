"""Handlers that take many jobs in one call: their options, and which jobs of a call failed.

@worker.on("events", batch=100, linger="1s")
def store(jobs: list[tarry.Job[Event]]) -> None: ...

returns                         all are finished, in one request
raise Failed({job: error})      these by their errors, the others are finished
raises anything else            all failed, each with its own attempt
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from tarry.errors import BadInput, BodyError
from tarry.values.durations import SECOND, Duration, as_text, duration_us
from tarry.verbs.jobs.job_values import BaseJob
from tarry.verbs.jobs.pop import MOST_JOBS
from tarry.worker.handlers import Handler
from tarry.worker.process_functions import Run
from tarry.worker.verdicts import Failed, Retry, meant


@dataclass(frozen=True, slots=True)
class Batching:
    """How many jobs one call takes, and how long the first one waits for the others."""

    most: int
    linger_us: int = 0

    @staticmethod
    def of(
        batch: int | None, linger: Duration | None, run: Run | None, ttr: Duration | None, *, by_job: dict[str, bool]
    ) -> Batching:
        """Checks the options. ``by_job``: whether one is given that is of handlers for one job. Raises ``BadInput``."""
        if batch is None:
            raise BadInput("linger: it is how long the first job of a batch waits for others; give batch=, too.")
        if not isinstance(batch, int) or isinstance(batch, bool) or not 1 <= batch <= MOST_JOBS:
            raise BadInput(f"batch: {batch!r}; it is a whole number from 1 to {MOST_JOBS}.")
        if run == "process":
            raise BadInput("batch: a child process runs one job at a time; leave run='process' out, or batch=.")
        for name, given in by_job.items():
            if given:
                raise BadInput(f"batch: {name}= is for a handler of one job; {_INSTEAD[name]}.")
        batching = Batching(batch, 0 if linger is None else duration_us(linger, "linger"))
        if ttr is not None:
            batching.check_ttr(ttr)
        return batching

    def check_ttr(self, ttr: Duration) -> None:
        """Raises ``BadInput`` if the wait would take as long as the reservation of the first job."""
        ttr_us = duration_us(ttr, "ttr")
        if self.linger_us >= ttr_us:
            raise BadInput(
                f"linger: {self.linger_us / SECOND:g} s, and the first job of a batch is reserved for {ttr_us / SECOND:g} s; "
                f'write linger="{as_text(ttr_us // 2)}" or another below the TTR, or ttr="{as_text(2 * self.linger_us)}" beside it.'
            )

    @staticmethod
    def make_call(handler: Handler) -> Callable[[JobBatch], Any]:
        """Returns a function that calls the handler with the jobs, or with their bodies."""
        function = handler.function
        if not handler.wants_body:
            return lambda batch: function([*batch.jobs])
        if not handler.is_async:
            return lambda batch: function(bodies) if (bodies := batch.read_bodies()) else None

        async def with_bodies(batch: JobBatch) -> Any:
            bodies = batch.read_bodies()
            return await function(bodies) if bodies else None

        return with_bodies


_INSTEAD = {
    "max_lateness": "give it to the topic, topic.configure(max_lateness=…), or to each job",
    "on_too_late": "a job that is too late for its topic is set aside before the batch",
    "cancel_when_lost": "a lost job is left out when its batch is finished, and job.lost says so",
}


class JobBatch:
    """The jobs of one call."""

    __slots__ = ("jobs", "topic", "unreadable")

    def __init__(self, jobs: Sequence[BaseJob[Any]]) -> None:
        self.jobs = jobs
        self.topic = jobs[0].topic
        self.unreadable: dict[BaseJob[Any], BodyError] = {}
        """The jobs whose bodies a handler of bodies was not given."""

    def read_bodies(self) -> list[Any]:
        """The bodies that can be read."""
        bodies: list[Any] = []
        for job in self.jobs:
            try:
                bodies.append(job.body)
            except BodyError as fault:
                self.unreadable[job] = fault
        return bodies

    def errors(self, fault: BaseException | None) -> dict[BaseJob[Any], BaseException]:
        """The jobs that failed, when the call ended so, each with its error."""
        failed: dict[BaseJob[Any], BaseException] = {}
        fault = fault and meant(fault)
        if isinstance(fault, Failed):
            failed = {job: Retry(error) if isinstance(error, str) else error for job, error in fault.errors.items()}
            if others := failed.keys() - set(self.jobs):
                fault, failed = _refused(others, fault), {}
        if fault is not None and not isinstance(fault, Failed):
            failed = dict.fromkeys(self.jobs, fault)
        return failed | self.unreadable


def _refused(others: Collection[object], fault: Failed) -> BadInput:
    """Names no key by its ``repr``: a key may be a body, which is long, or secret, or an object without one."""
    named = sorted({f"a {type(one).__name__}" for one in others})
    refusal = BadInput(
        f"Failed: {', '.join(named)} among its keys is no job of this batch, so all of its jobs failed; its keys are jobs that the handler "
        "was given, which has a parameter such as jobs: list[tarry.Job]."
    )
    refusal.__cause__ = fault
    return refusal
