"""A topic's verbs as requests to a service: the names, options and checks of ``PartitionVerbs``, which are asked first.

What the library refuses is so refused here, in the same words, before anything is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar, cast

from msgspec import UNSET

from tarry.clients.http.asking import Ask, Asking, ask
from tarry.clients.http.verbs.saying import (
    all_confirmed,
    all_of,
    cut,
    given,
    new_key,
    nothing,
    one_after_the_other,
    options_of,
    reader,
    said_of,
    segment,
    span_of,
    to_be_confirmed,
)
from tarry.clients.http.wire import answers, models, topic_answers, topic_models
from tarry.clients.http.wire.reading import added, check, defaults, histogram, info, page, stats
from tarry.errors import BadInput
from tarry.values import rates
from tarry.values.durations import Duration
from tarry.values.rates import RateLike
from tarry.verbs.jobs import add, options
from tarry.verbs.jobs.add import MOST_BYTES, MOST_JOBS
from tarry.verbs.jobs.durability import Durability, confirmation_for
from tarry.verbs.jobs.models import Added, Holding, IfExists, JobInfo, NewJob, Page, State
from tarry.verbs.jobs.partition import UNCHANGED, PartitionVerbs, require_several
from tarry.verbs.jobs.partitions import check_count
from tarry.verbs.jobs.stats import Check, Defaults, Histogram, Stats

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")


class HTTPVerbs(Generic[T]):
    """One topic's verbs. ``local`` are the same for a server that is not there: they check, and encode. ``numbers`` are those
    of partitions that this client's user has said of any topic."""

    def __init__(
        self, local: PartitionVerbs[T], random: Callable[[int], bytes], numbers: dict[str, int], partitions: int | None
    ) -> None:
        self.local = local
        self.context = local.context
        self.keys = local.keys
        self.holder = local.holder
        self._random = random
        self._path = f"/v1/topics/{segment(local.context.name)}"
        self._numbers = numbers
        self._wanted = check_count(partitions)
        if partitions is not None:
            numbers[self.context.name] = partitions

    @property
    def first(self) -> Ask[int] | None:
        """What is to be asked before anything else, where a number of partitions was said: through this handle, or through
        another one, and then the topic may have become what it is otherwise."""
        number = self._wanted or self._numbers.get(self.context.name)
        if number is None:
            return None
        read = reader(topic_answers.PartitionsShown, lambda found: found.partitions)
        otherwise = ("", None) if self._wanted else (BadInput.code, None)
        return Ask("PUT", self._path + "/partitions", read, topic_models.PutPartitions(number), absent=otherwise)

    def request(self, method: str, path: str, read: Callable[[bytes], S], said: Any = None, **more: Any) -> Ask[S]:
        """A request about this topic, after what must be asked first."""
        return Ask(method, self._path + path, read, said, **more, first=self.first)

    # ── putting in ───────────────────────────────────────────────────────────────────────────────────────────────────

    def add(
        self,
        body: T,
        delay: Duration,
        at: datetime | None,
        id: str | None,
        if_exists: IfExists,
        ttr: Duration | None,
        max_attempts: int | None,
        headers: Mapping[str, str] | None,
        max_lateness: Duration | None = None,
    ) -> Ask[Added]:
        opts = options.job_options(delay, at, if_exists, ttr, max_attempts, headers, max_lateness)
        add.add_job(self.context, body, opts, id)
        said = models.Add(
            **said_of(self.context.codec, body),
            **options_of(None if at is not None else delay, at, ttr, max_attempts, headers, max_lateness),
            id=self._new_id() if id is None else id,
            if_exists=if_exists,
        )
        return self.request("POST", "/jobs", reader(answers.AddedJob, added), said, key=new_key(self._random))

    def add_many(
        self,
        bodies: Iterable[T | NewJob[T]],
        delay: Duration,
        at: datetime | None,
        if_exists: IfExists,
        ttr: Duration | None,
        max_attempts: int | None,
        headers: Mapping[str, str] | None,
        atomic: bool,
        max_lateness: Duration | None = None,
    ) -> Asking[list[Added]]:
        require_several(bodies, "bodies")
        entries = list(bodies)
        opts = options.job_options(delay, at, if_exists, ttr, max_attempts, headers, max_lateness)
        add.add_jobs(self.context, entries, opts, atomic=atomic)
        said_of_all = options_of(None if at is not None else delay, at, ttr, max_attempts, headers, max_lateness)
        requests = []
        for part in self._parts([self._one(entry) for entry in entries]):
            said = models.AddMany(jobs=part, **said_of_all, if_exists=if_exists, atomic=atomic)
            read = reader(answers.AddedJobs, lambda found: [added(job) for job in found.jobs])
            requests.append(self.request("POST", "/many/add", read, said, key=new_key(self._random)))
        return one_after_the_other(requests)

    def _one(self, entry: T | NewJob[T]) -> models.OneOfMany:
        if not isinstance(entry, NewJob):
            return models.OneOfMany(**said_of(self.context.codec, entry), id=self._new_id())
        own = options_of(entry.delay, entry.at, entry.ttr, entry.max_attempts, entry.headers, entry.max_lateness)
        return models.OneOfMany(
            **said_of(self.context.codec, entry.body), **own, id=self._new_id() if entry.id is None else entry.id
        )

    def _parts(self, jobs: list[models.OneOfMany]) -> list[list[models.OneOfMany]]:
        """As many as one script takes."""
        parts: list[list[models.OneOfMany]] = []
        size = 0
        for job in jobs:
            own = len(job.body_base64 or "") + (len(bytes(job.body)) if job.body is not UNSET else 0)
            if not parts or len(parts[-1]) == MOST_JOBS or size + own > MOST_BYTES:
                parts.append([])
                size = 0
            parts[-1].append(job)
            size += own
        return parts

    def _new_id(self) -> str:
        return self.context.ids.new().decode()

    def confirmed(self, operation: Ask[R] | Asking[R], durability: Durability) -> Ask[R] | Asking[R]:
        """The same, answered when what it adds is where it should be."""
        if durability is None:
            return operation
        confirmation_for(durability)
        if isinstance(operation, Ask):
            return to_be_confirmed(operation, durability)
        return all_confirmed(operation, durability)

    # ── settling ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def finish(self, jobs: Sequence[Holding]) -> Asking[None]:
        self.local.finish(jobs)
        return self._settle("finish", models.FinishMany, jobs)

    def touch(self, jobs: Sequence[Holding], ttr: Duration | None) -> Asking[None]:
        self.local.touch(jobs, ttr)
        by_ttr: dict[str, list[Holding]] = {}
        for job in jobs:
            by_ttr.setdefault(cast("str", span_of(ttr if ttr is not None else cast("Any", job).ttr)), []).append(job)
        return all_of([self._settle("touch", models.TouchMany, group, ttr=own) for own, group in by_ttr.items()])

    def release(self, jobs: Sequence[Holding], delay: Duration | None, count: bool, reason: str = "") -> Asking[None]:
        self.local.release(jobs, delay, count, reason)
        return self._settle("release", models.ReleaseMany, jobs, delay=span_of(delay), count=count, reason=reason)

    def bury(self, jobs: Sequence[Holding], reason: str, error: str = "") -> Asking[None]:
        self.local.bury(jobs, reason, error)
        return self._settle("bury", models.BuryMany, jobs, reason=reason)

    def _settle(self, verb: str, model: Any, jobs: Sequence[Holding], **said: Any) -> Asking[None]:
        held = [models.OneHeld(id=job.id, receipt=job.receipt, attempt=getattr(job, "attempt", None)) for job in jobs]
        path = f"/many/{verb}"
        return all_of([ask(self.request("POST", path, nothing, model(jobs=part, **said))) for part in cut(held)])

    def release_holder(self, holder: str, count: bool, limit: int | None = None) -> Ask[int]:
        next(self.local.release_holder(holder, count, limit))
        return self._counted(f"/holders/{segment(holder)}/release", models.HolderRelease(count=count, limit=limit))

    def touch_holder(self, holder: str, ttr: Duration) -> Ask[int]:
        next(self.local.touch_holder(holder, ttr))
        return self._counted(f"/holders/{segment(holder)}/touch", models.HolderTouch(ttr=given(ttr)))

    # ── by id ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def kick(self, ids: Sequence[str]) -> Asking[list[State | None]]:
        self.local.kick(ids)
        return self._were("kick", [models.Several(ids=list(part)) for part in cut(ids)])

    def delete(self, ids: Sequence[str]) -> Asking[list[State | None]]:
        self.local.delete(ids)
        return self._were("delete", [models.Several(ids=list(part)) for part in cut(ids)])

    def reschedule(self, ids: Sequence[str], delay: Duration | None, at: datetime | None) -> Asking[list[State | None]]:
        self.local.reschedule(ids, delay, at)
        said = [models.RescheduleMany(ids=list(part), delay=span_of(delay), at=at) for part in cut(ids)]
        return self._were("reschedule", said)

    def _were(self, verb: str, said: Sequence[Any]) -> Asking[list[State | None]]:
        read = reader(answers.WereMany, lambda found: found.was)
        return one_after_the_other([self.request("POST", f"/many/{verb}", read, part) for part in said])

    def get(self, ids: Sequence[str]) -> Asking[list[JobInfo[T] | None]]:
        self.local.get(ids)
        bodies = self.context.codec
        read = reader(answers.JobsShown, lambda found: [job and info(job, bodies) for job in found.jobs])
        path = "/many/get"
        return one_after_the_other(
            [self.request("POST", path, read, models.Several(ids=list(part))) for part in cut(ids)]
        )

    # ── looking and ruling ───────────────────────────────────────────────────────────────────────────────────────────

    def list(
        self,
        state: State | None,
        due_after: datetime | None,
        due_before: datetime | None,
        limit: int,
        cursor: str | None,
    ) -> Ask[Page[T]]:
        next(self.local.list(state, due_after, due_before, limit, cursor))
        moments = {"due_after": due_after, "due_before": due_before}
        said = {name: at.isoformat() for name, at in moments.items() if at is not None}
        named = {name: text for name, text in (("state", state), ("cursor", cursor)) if text is not None}
        query = {**named, **said, "limit": str(limit)}
        bodies = self.context.codec
        read = reader(answers.JobPage, lambda found: page(found, bodies))
        return self.request("GET", "/jobs", read, query=query)

    def stats(self) -> Ask[Stats]:
        return self.request("GET", "/stats", reader(topic_answers.TopicStats, stats))

    def histogram(self, start: Duration | datetime, span: Duration, buckets: int, past: Duration) -> Ask[Histogram]:
        self.local.histogram(start, span, buckets, past)
        begin = start.isoformat() if isinstance(start, datetime) else given(start)
        query = {"start": begin, "span": given(span), "past": given(past), "buckets": str(buckets)}
        return self.request("GET", "/histogram", reader(topic_answers.TopicHistogram, histogram), query=query)

    def check(self) -> Ask[Check]:
        return self.request("GET", "/check", reader(topic_answers.TopicCheck, check))

    def pause(self, for_: Duration | None) -> Ask[datetime | None]:
        self.local.pause(for_)
        read = reader(topic_answers.Paused, lambda found: found.until)
        return self.request("POST", "/pause", read, topic_models.Pause(for_=span_of(for_)))

    def resume(self) -> Ask[None]:
        return self.request("POST", "/resume", nothing)

    def configure(
        self,
        ttr: Duration | None,
        max_attempts: int | None,
        keep: Duration | None,
        rate: RateLike | None = UNCHANGED,
        burst: int | None = UNCHANGED,
        concurrency: int | None = UNCHANGED,
        max_lateness: Duration | None = UNCHANGED,
    ) -> Ask[Defaults]:
        self.local.configure(ttr, max_attempts, keep, rate, burst, concurrency, max_lateness)
        spans = {"ttr": ttr, "keep": keep, "max_lateness": max_lateness}
        others: dict[str, Any] = {
            "max_attempts": max_attempts,
            "burst": burst,
            "concurrency": concurrency,
            "rate": rate,
        }
        if rate is not None and rate != UNCHANGED:
            count, us = rates.parse_rate(rate)
            others["rate"] = f"{count}/{us}us"
        said: dict[str, Any] = {name: span_of(span) for name, span in spans.items() if span != UNCHANGED}
        said |= {name: value for name, value in others.items() if value != UNCHANGED}
        model = topic_models.Configure(**said)
        return self.request("PATCH", "/defaults", reader(topic_answers.TopicDefaults, defaults), model)

    def purge(self, state: State | None) -> Ask[int]:
        self.local.purge(state)
        return self._counted("/purge", topic_models.Purge(state=state))

    def _counted(self, path: str, said: Any) -> Ask[int]:
        return self.request("POST", path, reader(answers.Count, lambda found: found.count), said)
