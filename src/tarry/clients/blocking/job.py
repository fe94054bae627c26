# Made from src/tarry/clients/awaited/job.py by tools/blocking.py: change that file, then `make blocking`.
"""A job in your hands, blocking: it settles itself, or by the names of its verbs."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Never, TypeVar

from tarry.clients.blocking.concurrency import called, shield
from tarry.errors import StaleReceipt
from tarry.values.durations import Duration
from tarry.values.other_words import HidesOtherWords, OtherWord, hide_others, refuse_other_with, refuse_others
from tarry.verbs import jobs as job_verbs
from tarry.verbs.jobs.job_values import BaseJob, JobParts

if TYPE_CHECKING:
    from tarry.clients.blocking.topic import Topic

T = TypeVar("T")


@refuse_other_with
class Job(BaseJob[T], metaclass=HidesOtherWords):
    """A job that you have reserved until its time to run is over. As a context manager it settles itself.

    The end of the block finishes the job. An ``Exception`` releases it with a back-off. Ctrl-C releases it at once, and the attempt
    does not count. If you settle the job inside the block, the end of the block does nothing.
    """

    if not TYPE_CHECKING:
        ack = OtherWord("finish")
        nack = OtherWord("release")
        retry = OtherWord("release")
        fail = OtherWord("release, or bury for a job that is not retried")
        data = OtherWord("body")
        args = OtherWord("body")
        payload = OtherWord("body")

    __slots__ = ("_topic",)
    _topic: Topic[T]

    def __init__(self, parts: JobParts, topic: Topic[T]) -> None:
        # the job that has been handed out with these parts; this topic settles it
        context = topic.verbs.context
        super().__init__(context.name, context.codec, *parts)
        self._topic = topic

    def __reduce__(self) -> Never:
        raise TypeError(
            f"job {self.id}: it is not pickled, for it has the connections of this process; send job.id and job.body, and "
            "tarry.Reservation(job.id, job.receipt) to a process that settles it."
        )

    def __enter__(self) -> Job[T]:
        self._enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        if not self.settled:
            try:
                self._topic.engine.run(job_verbs.settle.outcome_of(self._topic.verbs, self, fault))
                self.settled = True
            except StaleReceipt:
                if fault is None:
                    raise
        return False

    def finish(self, *, result: Any = None) -> None:
        """Finishes the job. The same as ``topic.finish(job)``; the other verbs of a job are like those of the topic, too."""
        self._topic.finish(self, result=result)

    @hide_others
    def release(self, *others: Never, delay: Duration | None = None, counted: bool = True, reason: str = "") -> None:
        """Puts the job back, due again after ``delay``, or by default after a back-off. With ``counted=False`` the attempt does not count."""
        if others:
            refuse_others(Job.release, self, {}, others)
        self._topic.release(self, delay=delay, counted=counted, reason=reason)

    @hide_others
    def bury(self, *others: Never, reason: str = "") -> None:
        """Sets the job aside as dead, with the reason in one line."""
        if others:
            refuse_others(Job.bury, self, {}, others)
        self._topic.bury(self, reason=reason)

    @hide_others
    def touch(self, *others: Never, ttr: Duration | None = None) -> None:
        """Renews the reservation: it lasts ``ttr`` from now, by default the job's own time to run."""
        if others:
            refuse_others(Job.touch, self, {}, others)
        self._topic.touch(self, ttr=ttr)

    def step(self, name: str, function: Callable[[], Any], *, type: Any = Any) -> Any:
        """Calls the function, and keeps its result with the job under this name. When the job runs again, the function is not
        called, and the kept result is returned, as ``type``.

        The function has no arguments; an ``AsyncJob`` also takes an async function. The result must be JSON, and the steps of a job
        together have at most 64 KB. All runs, even the first, get the result as it comes back from JSON. If the function raises,
        nothing is kept. If the process dies before the result is kept, the next run calls the function again.

        Raises ``BadInput`` for a bad argument before it calls the function, ``StaleReceipt`` if another consumer has the job by now,
        ``StepNotKept`` for a result that cannot be kept, ``Unavailable`` if the server does not answer.
        """
        steps = job_verbs.steps
        kept = steps.find_step(self, name, function)
        if kept is None:
            with steps.only_call(self, name):
                kept = steps.find_step(self, name, function)  # another thread may have kept it meanwhile
                if kept is None:
                    result = steps.encode_step(self, name, called(function))
                    # it was done, so it is kept also if this task is cancelled now
                    kept = shield(self._topic.engine.run(self._topic.verbs.keep_step(self, name, result)))
                    self.kept_steps[name] = kept
        return steps.decode_step(self, name, kept, type)
