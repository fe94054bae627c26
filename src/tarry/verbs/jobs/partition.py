"""The verbs of one partition, or of a topic that is not divided. They return requests and flows, and perform nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tarry.core.requests import Flow, ScriptCall
from tarry.errors import BadInput
from tarry.values.durations import Duration
from tarry.verbs import jobs as lazy
from tarry.verbs.jobs import options
from tarry.verbs.jobs.context import WHOLE_TOPIC, Share, TopicContext
from tarry.verbs.jobs.models import HasReceipt, JobInfo, State, StateFilter

if TYPE_CHECKING:
    from tarry.verbs.jobs.pop import PopReply
    from tarry.verbs.jobs.settings import TopicSettings
    from tarry.verbs.jobs.settle import Item, Outcome, SettleVerb
    from tarry.verbs.jobs.stats import Check, Defaults, Histogram, Minute, Stats

T = TypeVar("T")
TOPIC_DEFAULT = options.TOPIC_DEFAULT
_last_of = itemgetter(-1)
MOST_RESULT_BYTES = 1_000_000
"""Of one script."""


class PartitionVerbs(Generic[T]):
    """The verbs of one partition. ``share`` says which partition of how many it is."""

    def __init__(self, context: TopicContext[T], holder: bytes, share: Share = WHOLE_TOPIC) -> None:
        self.context = context
        self.share = share
        self.keys = context.keys
        self.holder = holder

    def pop(self, n: int, ttr: Duration | None) -> Flow[PopReply]:
        return lazy.pop.pop_now(self.keys, lazy.pop.checked_count(n), ttr=lazy.pop.ttr_of(ttr), holder=self.holder)

    def settle(self, verb: SettleVerb[...], items: Sequence[Item]) -> Flow[None]:
        """Settles the jobs whose receipts hold, in steps; then raises the first refusal."""
        outcomes: list[Outcome] = []
        for part in _chunks(items):
            outcomes += yield verb.call(self.keys, part)
        lazy.settle.raise_first_fault(outcomes)

    def fail(
        self,
        job: HasReceipt,
        due_time: bytes | None,
        fault: str,
        count: bool,
        max_attempts: int | None = None,
        refund: bool = False,
    ) -> ScriptCall[bool]:
        return lazy.settle.fail(self.keys, job, due_time, fault, count=count, max_attempts=max_attempts, refund=refund)

    def pop_by_id(self, id: str, states: Sequence[State]) -> ScriptCall[PopReply | None]:
        return lazy.pop.pop_by_id(self.keys, id, states, ttr=lazy.pop.ttr_of(None), holder=self.holder)

    def set_headers(self, job: HasReceipt, headers: Mapping[str, str], priority: int | None = None) -> ScriptCall[bool]:
        return lazy.settle.set_headers(self.keys, job, headers, priority)

    def cancelled(self, jobs: Sequence[HasReceipt]) -> ScriptCall[list[bool]]:
        return lazy.by_id.cancelled(self.keys, jobs)

    def delete_exactly(self, id: str, nonce: bytes) -> ScriptCall[State | None]:
        return lazy.by_id.delete_exactly(self.keys, id, nonce)

    def get(self, ids: Sequence[str], history: bool = False) -> ScriptCall[list[JobInfo[T] | None]]:
        require_several(ids, "ids")
        return lazy.views.get_jobs(self.context, ids, history=history)

    def stats(self) -> ScriptCall[Stats]:
        return lazy.views.topic_stats(self.context)

    def histogram(
        self, start: Duration | datetime, span: Duration, buckets: int, past: Duration
    ) -> ScriptCall[Histogram]:
        return lazy.views.due_histogram(self.context, start=start, span=span, buckets=buckets, past=past)

    def throughput(self, span: Duration) -> ScriptCall[tuple[Minute, ...]]:
        from tarry.verbs.jobs.throughput import throughput  # no start imports it

        return throughput(self.keys, span)

    def pause(self, for_: Duration | None) -> ScriptCall[datetime | None]:
        return lazy.settings.pause(self.keys, for_)

    def resume(self) -> ScriptCall[None]:
        return lazy.settings.resume(self.keys)

    def configure(self, given: TopicSettings) -> ScriptCall[Defaults]:
        return lazy.settings.configure(self.keys, given, self.share)

    def purge(self, state: StateFilter | None) -> Flow[int]:
        return lazy.settings.purge(self.keys, state)

    def check(self) -> Flow[Check]:
        return lazy.views.check_topic(self.keys)

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def wait_queue_key(self, ttr: Duration | None) -> tuple[Any, bytes, bytes]:
        """The key of the wait queue for callers that wait for this topic."""
        return self.keys, lazy.pop.ttr_of(ttr), self.holder


def _chunks(items: Sequence[Item]) -> list[Sequence[Item]]:
    """Splits items into parts that one script takes: at most a thousand, and a megabyte of results. Of none it makes none."""
    if 0 < len(items) <= lazy.pop.MOST_JOBS and sum(map(len, map(_last_of, items))) <= MOST_RESULT_BYTES:
        return [items]
    parts: list[Sequence[Item]] = []
    begin = size = 0
    for at, item in enumerate(items):
        added = len(item[-1])
        if at > begin and (at - begin == lazy.pop.MOST_JOBS or size + added > MOST_RESULT_BYTES):
            parts.append(items[begin:at])
            begin, size = at, 0
        size += added
    return [*parts, items[begin:]] if items else []


def outcome_of(verbs: Any, job: Any, fault: BaseException | None) -> Flow[None]:
    """The end of ``with job:`` as a flow: finish, release with back-off, or release at once without counting the attempt."""
    settling: Flow[None]
    if fault is None:
        settling = verbs.settle(lazy.settle.FINISH, [job])
    elif isinstance(fault, Exception):
        settling = verbs.settle(lazy.settle.RELEASE, [job], delay=None, reason=one_line(fault))
    else:
        settling = verbs.settle(lazy.settle.RELEASE, [job], delay=0, count=False)
    return settling


def one_line(fault: BaseException) -> str:
    """An exception in one line: its type, and its message if it has one."""
    text = " ".join(str(fault).split())
    return f"{type(fault).__name__}: {text}" if text else type(fault).__name__


def require_several(value: object, what: str) -> None:
    """Refuses text and maps, which are iterable, but hardly ever meant."""
    if isinstance(value, (str, bytes, bytearray, Mapping)):
        raise BadInput(f"{what}: {type(value).__name__} given; put it into a list.")
