"""The verbs of one place, a topic or a partition of one: each answers what to do, and nothing here does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

from tarry.core.requests import Flow, ScriptCall, ask
from tarry.errors import BadInput
from tarry.values.durations import Duration, duration_us
from tarry.values.rates import RateLike
from tarry.verbs.jobs import holding, looking, minding, options, ruling, settling, taking
from tarry.verbs.jobs.pictures import Check, Defaults, Histogram, Stats
from tarry.verbs.jobs.shapes import Holding, JobInfo, Page, State
from tarry.verbs.jobs.topic import TopicDesk

T = TypeVar("T")
TOPICS_OWN = options.TOPICS_OWN
AS_IT_IS = ruling.AS_IT_IS


class TopicVerbs(Generic[T]):
    """One place's verbs. ``jitter`` gives numbers from 0 to 1, for the jitter of back-off; ``share`` says which place of how
    many it is."""

    def __init__(
        self, desk: TopicDesk[T], holder: bytes, jitter: Callable[[], float], share: ruling.Share = ruling.WHOLE
    ) -> None:
        self.desk = desk
        self.share = share
        self.keys = desk.keys
        self.holder = holder
        self.luck = jitter

    def pop(self, n: int, ttr: Duration | None) -> Flow[taking.Taken]:
        return taking.pop_now(self.keys, taking.want_of(n), ttr=taking.ttr_of(ttr), holder=self.holder)

    def finish(self, jobs: Sequence[Holding]) -> Flow[None]:
        return settled([settling.finish(self.keys, part) for part in _parts(jobs)])

    def touch(self, jobs: Sequence[Holding], ttr: Duration | None) -> Flow[None]:
        return settled([settling.touch(self.keys, part, ttr) for part in _parts(jobs)])

    def release(self, jobs: Sequence[Holding], delay: Duration | None, count: bool, reason: str = "") -> Flow[None]:
        """Without a delay: back-off by the job's attempt, or at once when the attempt does not count."""
        if delay is not None:
            whens = [b"%d" % duration_us(delay)] * len(jobs)
        elif not count:
            whens = [b"0"] * len(jobs)
        else:
            whens = [b"%d" % settling.back_off(_attempt(job), self.luck()) for job in jobs]
        parts = zip(_parts(jobs), _parts(whens), strict=True)
        return settled([settling.release(self.keys, *part, count=count, fault=reason) for part in parts])

    def bury(self, jobs: Sequence[Holding], reason: str, error: str = "") -> Flow[None]:
        return settled([settling.bury(self.keys, part, reason, error) for part in _parts(jobs)])

    def fail(self, job: Holding, when: bytes | None, fault: str, count: bool) -> ScriptCall[bool]:
        return settling.fail(self.keys, job, when, fault, count=count)

    def release_holder(self, holder: str, count: bool, limit: int | None = None) -> Flow[int]:
        return holding.release_holder(self.keys, holder, count=count, limit=limit)

    def touch_holder(self, holder: str, ttr: Duration) -> Flow[int]:
        return holding.touch_holder(self.keys, holder, ttr)

    def kick(self, ids: Sequence[str]) -> ScriptCall[list[State | None]]:
        refuse_one(ids, "ids")
        return minding.kick(self.keys, ids)

    def delete(self, ids: Sequence[str]) -> ScriptCall[list[State | None]]:
        refuse_one(ids, "ids")
        return minding.delete(self.keys, ids)

    def delete_exactly(self, id: str, nonce: bytes) -> ScriptCall[State | None]:
        return minding.delete_exactly(self.keys, id, nonce)

    def reschedule(
        self, ids: Sequence[str], delay: Duration | None, at: datetime | None
    ) -> ScriptCall[list[State | None]]:
        refuse_one(ids, "ids")
        return minding.reschedule(self.keys, ids, delay, at)

    def get(self, ids: Sequence[str]) -> ScriptCall[list[JobInfo[T] | None]]:
        refuse_one(ids, "ids")
        return looking.get(self.desk, ids)

    def list(
        self,
        state: State | None,
        due_after: datetime | None,
        due_before: datetime | None,
        limit: int,
        cursor: str | None,
    ) -> Flow[Page[T]]:
        return looking.list_jobs(
            [self.desk], state, due_after=due_after, due_before=due_before, limit=limit, cursor=cursor
        )

    def stats(self) -> ScriptCall[Stats]:
        return looking.stats(self.desk)

    def histogram(
        self, start: Duration | datetime, span: Duration, buckets: int, past: Duration
    ) -> ScriptCall[Histogram]:
        return looking.histogram(self.desk, start=start, span=span, buckets=buckets, past=past)

    def pause(self, for_: Duration | None) -> ScriptCall[datetime | None]:
        return ruling.pause(self.keys, for_)

    def resume(self) -> ScriptCall[None]:
        return ruling.resume(self.keys)

    def configure(
        self,
        ttr: Duration | None,
        max_attempts: int | None,
        keep: Duration | None,
        rate: RateLike | None = AS_IT_IS,
        burst: int | None = AS_IT_IS,
        concurrency: int | None = AS_IT_IS,
        max_lateness: Duration | None = AS_IT_IS,
    ) -> ScriptCall[Defaults]:
        return ruling.configure(self.keys, ttr, max_attempts, keep, rate, burst, concurrency, max_lateness, self.share)

    def purge(self, state: State | None) -> Flow[int]:
        return ruling.purge(self.keys, state)

    def check(self) -> Flow[Check]:
        return looking.check(self.keys)

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def post(self, ttr: Duration | None) -> tuple[Any, bytes, bytes]:
        """Where a caller that waits for this topic queues."""
        return self.keys, taking.ttr_of(ttr), self.holder


def settled(calls: Sequence[ScriptCall[list[settling.Outcome]]]) -> Flow[None]:
    """All that hold are settled, in steps; then the first that does not is told."""
    outcomes: list[settling.Outcome] = []
    for call in calls:
        outcomes += yield from ask(call)
    settling.first_fault(outcomes)


def _parts(whole: Sequence[Any]) -> list[Sequence[Any]]:
    """As many as one script takes; of nothing, nothing."""
    if 0 < len(whole) <= taking.MOST:
        return [whole]
    return [whole[at : at + taking.MOST] for at in range(0, len(whole), taking.MOST)]


def _attempt(job: Any) -> int:
    attempt = getattr(job, "attempt", None)
    if attempt is None:
        raise BadInput("release: a bare Reservation does not know its attempt; give delay=.")
    return int(attempt)


def way_out(verbs: Any, job: Any, fault: BaseException | None) -> Flow[None]:
    """What leaving ``with job:`` does: finish, release with back-off, or release at once and uncounted."""
    way: Flow[None]
    if fault is None:
        way = verbs.finish([job])
    elif isinstance(fault, Exception):
        way = verbs.release([job], None, True, in_a_line(fault))
    else:
        way = verbs.release([job], 0, False)
    return way


def in_a_line(fault: BaseException) -> str:
    """An exception as people read it: its type, and its message if it has one."""
    text = " ".join(str(fault).split())
    return f"{type(fault).__name__}: {text}" if text else type(fault).__name__


def refuse_one(several: object, what: str) -> None:
    """Text is a sequence of letters, and a map one of its keys: hardly ever what was meant."""
    if isinstance(several, (str, bytes, bytearray, Mapping)):
        raise BadInput(f"{what}: {type(several).__name__} given; put it into a list.")
