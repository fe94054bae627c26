"""The job that a task added: it can be cancelled, rescheduled and read."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar

from msgspec import structs

from tarry.clients.awaited.topic import AsyncTopic
from tarry.clients.blocking.topic import Topic
from tarry.errors import BadInput
from tarry.values.durations import Duration
from tarry.verbs.jobs.job_values import Added, JobInfo, State

H = TypeVar("H", bound="TaskJob[Any] | AsyncTaskJob[Any]")
R = TypeVar("R")


class TaskJob(Added, Generic[R], frozen=True, dict=True):
    """A job that ``task.add`` added; ``R`` is what the function returns. ``state`` and ``due`` are from the moment of the add; ``get``
    reads the job as it is now."""

    topic: str
    """The name of the job's topic."""

    @property
    def _topic(self) -> Topic[Any]:
        found: Topic[Any] = _topic_of(self)
        return found

    def cancel(self, *, running: bool = False) -> State | None:
        """Deletes the job, so that the task does not run. Returns the state that the job was in, or ``None`` if the job is gone already.

        A run that has begun goes on, but is not repeated. With ``running`` the worker stops the run, within half of the job's time to run.
        """
        return self._topic.delete(self.id, running=running)

    def reschedule(self, *, delay: Duration | None = None, at: datetime | None = None) -> State | None:
        """Sets another due time: a delay from now, or a moment. Returns the state that the job was in. A reserved or dead job is not
        changed."""
        return self._topic.reschedule(self.id, delay=delay, at=at)

    def get(self) -> JobInfo[Any] | None:
        """Returns the job as it is now, or ``None`` if it is gone."""
        return self._topic.get(self.id)

    def result(self, *, wait: Duration | None = 0) -> R:
        """The result of the function, in the type of its annotation. ``wait``: how long to wait for it; ``None``: without a limit.

        Raises ``NoResult``, as ``task.result(id)`` does.
        """
        found: R = self._topic.result(self.id, wait=wait, type=vars(self)["result_type"])
        return found


class AsyncTaskJob(Added, Generic[R], frozen=True, dict=True):
    """A job that ``task.add_async`` added: a ``TaskJob`` whose methods are awaited."""

    topic: str
    """The name of the job's topic."""

    @property
    def _topic(self) -> AsyncTopic[Any]:
        found: AsyncTopic[Any] = _topic_of(self)
        return found

    async def cancel(self, *, running: bool = False) -> State | None:
        """Deletes the job, so that the task does not run. Returns the state that the job was in, or ``None`` if the job is gone already.

        A run that has begun goes on, but is not repeated. With ``running`` the worker stops the run, within half of the job's time to run.
        """
        return await self._topic.delete(self.id, running=running)

    async def reschedule(self, *, delay: Duration | None = None, at: datetime | None = None) -> State | None:
        """Sets another due time: a delay from now, or a moment. Returns the state that the job was in. A reserved or dead job is not
        changed."""
        return await self._topic.reschedule(self.id, delay=delay, at=at)

    async def get(self) -> JobInfo[Any] | None:
        """Returns the job as it is now, or ``None`` if it is gone."""
        return await self._topic.get(self.id)

    async def result(self, *, wait: Duration | None = 0) -> R:
        """Returns what the function returned, as the type of its annotation. ``wait`` is how long to wait for the result; ``None``: without a
        limit.

        Raises ``NoResult`` if there is no result within that time, as ``task.result_async(id)`` does.
        """
        found: R = await self._topic.result(self.id, wait=wait, type=vars(self)["result_type"])
        return found


def task_job(kind: type[H], topic: Topic[Any] | AsyncTopic[Any], added: Added, result_type: Any) -> H:
    """A handle of a job that was added to this topic."""
    made = kind(topic=topic.name, **structs.asdict(added))
    vars(made).update(
        topic=topic, result_type=result_type
    )  # no fields: they are no part of the value that is encoded or compared
    return made


def _topic_of(job: TaskJob[Any] | AsyncTaskJob[Any]) -> Any:
    try:
        return vars(job)["topic"]
    except KeyError:
        raise BadInput(
            f"job {job.id}: this handle is a copy and has no connection; call the task's method with its id."
        ) from None
