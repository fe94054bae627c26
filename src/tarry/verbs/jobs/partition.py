"""The verbs of one partition, or of a topic that is not divided. They return requests and flows, and perform nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

from tarry.core.requests import Flow, ScriptCall, ask
from tarry.errors import BadInput
from tarry.values.durations import Duration, duration_us
from tarry.verbs.jobs import by_id, options, pop, settings, settle, views
from tarry.verbs.jobs.context import TopicContext
from tarry.verbs.jobs.models import HasReceipt, JobInfo, Page, State, StateFilter
from tarry.verbs.jobs.pop import PopReply
from tarry.verbs.jobs.settings import TopicSettings
from tarry.verbs.jobs.stats import Check, Defaults, Histogram, Minute, Stats

T = TypeVar("T")
TOPIC_DEFAULT = options.TOPIC_DEFAULT
MOST_RESULT_BYTES = 1_000_000
"""Of one script."""


class PartitionVerbs(Generic[T]):
    """The verbs of one partition. ``jitter`` gives numbers from 0 to 1, for back-off; ``share`` says which partition of how
    many it is."""

    def __init__(
        self,
        context: TopicContext[T],
        holder: bytes,
        jitter: Callable[[], float],
        share: settings.Share = settings.WHOLE_TOPIC,
    ) -> None:
        self.context = context
        self.share = share
        self.keys = context.keys
        self.holder = holder
        self.jitter = jitter

    def pop(self, n: int, ttr: Duration | None) -> Flow[pop.PopReply]:
        return pop.pop_now(self.keys, pop.checked_count(n), ttr=pop.ttr_of(ttr), holder=self.holder)

    def finish(self, jobs: Sequence[HasReceipt], results: Sequence[bytes] | None = None) -> Flow[None]:
        """``results``: as ``encode_result`` returns them, one for each job."""
        if results is None:
            return settle_all([settle.finish(self.keys, part) for part in _chunks(jobs)])
        return settle_all([settle.finish(self.keys, *part) for part in _chunks_with_results(jobs, results)])

    def touch(self, jobs: Sequence[HasReceipt], ttr: Duration | None) -> Flow[None]:
        return settle_all([settle.touch(self.keys, part, ttr) for part in _chunks(jobs)])

    def release(self, jobs: Sequence[HasReceipt], delay: Duration | None, count: bool, reason: str = "") -> Flow[None]:
        """Releases jobs. Without a delay: back-off by the job's attempt, or at once if the attempt does not count."""
        if delay is not None:
            whens = [b"%d" % duration_us(delay)] * len(jobs)
        elif not count:
            whens = [b"0"] * len(jobs)
        else:
            whens = [b"%d" % settle.back_off_us(settle.attempt_of(job), self.jitter()) for job in jobs]
        parts = zip(_chunks(jobs), _chunks(whens), strict=True)
        return settle_all([settle.release(self.keys, *part, count=count, fault=reason) for part in parts])

    def bury(self, jobs: Sequence[HasReceipt], reason: str, error: str = "") -> Flow[None]:
        return settle_all([settle.bury(self.keys, part, reason, error) for part in _chunks(jobs)])

    def fail(
        self,
        job: HasReceipt,
        due_time: bytes | None,
        fault: str,
        count: bool,
        max_attempts: int | None = None,
        refund: bool = False,
    ) -> ScriptCall[bool]:
        return settle.fail(self.keys, job, due_time, fault, count=count, max_attempts=max_attempts, refund=refund)

    def pop_by_id(self, id: str, states: Sequence[State]) -> ScriptCall[PopReply | None]:
        return pop.pop_by_id(self.keys, id, states, ttr=pop.ttr_of(None), holder=self.holder)

    def set_headers(self, job: HasReceipt, headers: Mapping[str, str], priority: int | None = None) -> ScriptCall[bool]:
        return settle.set_headers(self.keys, job, headers, priority)

    def cancelled(self, jobs: Sequence[HasReceipt]) -> ScriptCall[list[bool]]:
        return by_id.cancelled(self.keys, jobs)

    def delete_exactly(self, id: str, nonce: bytes) -> ScriptCall[State | None]:
        return by_id.delete_exactly(self.keys, id, nonce)

    def get(self, ids: Sequence[str], history: bool = False) -> ScriptCall[list[JobInfo[T] | None]]:
        require_several(ids, "ids")
        return views.get_jobs(self.context, ids, history=history)

    def list(
        self,
        state: StateFilter | None,
        due_after: datetime | None,
        due_before: datetime | None,
        limit: int,
        cursor: str | None,
    ) -> Flow[Page[T]]:
        return views.list_jobs(
            [self.context], state, due_after=due_after, due_before=due_before, limit=limit, cursor=cursor
        )

    def stats(self) -> ScriptCall[Stats]:
        return views.topic_stats(self.context)

    def histogram(
        self, start: Duration | datetime, span: Duration, buckets: int, past: Duration
    ) -> ScriptCall[Histogram]:
        return views.due_histogram(self.context, start=start, span=span, buckets=buckets, past=past)

    def throughput(self, span: Duration) -> ScriptCall[tuple[Minute, ...]]:
        from tarry.verbs.jobs.throughput import throughput  # no start imports it

        return throughput(self.keys, span)

    def pause(self, for_: Duration | None) -> ScriptCall[datetime | None]:
        return settings.pause(self.keys, for_)

    def resume(self) -> ScriptCall[None]:
        return settings.resume(self.keys)

    def configure(self, given: TopicSettings) -> ScriptCall[Defaults]:
        return settings.configure(self.keys, given, self.share)

    def purge(self, state: StateFilter | None) -> Flow[int]:
        return settings.purge(self.keys, state)

    def check(self) -> Flow[Check]:
        return views.check_topic(self.keys)

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def wait_queue_key(self, ttr: Duration | None) -> tuple[Any, bytes, bytes]:
        """The key of the wait queue for callers that wait for this topic."""
        return self.keys, pop.ttr_of(ttr), self.holder


def settle_all(calls: Sequence[ScriptCall[list[settle.Outcome]]]) -> Flow[None]:
    """Settles all jobs whose receipts hold, in steps; then raises the first refusal."""
    outcomes: list[settle.Outcome] = []
    for call in calls:
        outcomes += yield from ask(call)
    settle.raise_first_fault(outcomes)


def _chunks(whole: Sequence[Any]) -> list[Sequence[Any]]:
    """Splits a sequence into parts that one script takes; of an empty one it makes none."""
    if 0 < len(whole) <= pop.MOST_JOBS:
        return [whole]
    return [whole[at : at + pop.MOST_JOBS] for at in range(0, len(whole), pop.MOST_JOBS)]


def _chunks_with_results(
    jobs: Sequence[HasReceipt], results: Sequence[bytes]
) -> list[tuple[list[HasReceipt], list[bytes]]]:
    """The same for jobs with results: at most a megabyte of them, at least one job."""
    parts: list[tuple[list[HasReceipt], list[bytes]]] = []
    size = 0
    for job, result in zip(jobs, results, strict=True):
        if not parts or len(parts[-1][0]) == pop.MOST_JOBS or size + len(result) > MOST_RESULT_BYTES:
            parts.append(([], []))
            size = 0
        parts[-1][0].append(job)
        parts[-1][1].append(result)
        size += len(result)
    return parts


def outcome_of(verbs: Any, job: Any, fault: BaseException | None) -> Flow[None]:
    """The end of ``with job:`` as a flow: finish, release with back-off, or release at once without counting the attempt."""
    settle_flow: Flow[None]
    if fault is None:
        settle_flow = verbs.finish([job])
    elif isinstance(fault, Exception):
        settle_flow = verbs.release([job], None, True, one_line(fault))
    else:
        settle_flow = verbs.release([job], 0, False)
    return settle_flow


def one_line(fault: BaseException) -> str:
    """An exception in one line: its type, and its message if it has one."""
    text = " ".join(str(fault).split())
    return f"{type(fault).__name__}: {text}" if text else type(fault).__name__


def require_several(value: object, what: str) -> None:
    """Refuses text and maps, which are iterable, but hardly ever meant."""
    if isinstance(value, (str, bytes, bytearray, Mapping)):
        raise BadInput(f"{what}: {type(value).__name__} given; put it into a list.")
