"""A topic's verbs as its handles call them, whether it is one place or many.

The blocking and the awaiting topic have the same methods, and all that these say is the name of one of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from tarry.errors import BadInput
from tarry.idea.calls import Call, Flow, ask
from tarry.verbs.jobs import looking, merging, options, putting, taking
from tarry.verbs.jobs.face import AS_IT_IS, TopicVerbs, refuse_one
from tarry.verbs.jobs.parting import Operation, Partitions, place_of
from tarry.verbs.jobs.pictures import Check, Defaults, Histogram, Stats
from tarry.verbs.jobs.shapes import Added, Holding, IfExists, JobInfo, NewJob, Page, State
from tarry.words import names
from tarry.words.durations import Duration
from tarry.words.rates import RateLike

T = TypeVar("T")


class RoutedVerbs(Partitions[T]):
    """The verbs of a topic: each goes to the partitions that it concerns."""

    def like(self, *, holder: bytes | None = None, ids: Any = None) -> RoutedVerbs[T]:
        """The same topic in somebody else's name, or with ids from elsewhere."""
        desk = self.desk if ids is None else replace(self.desk, ids=ids)
        plain = TopicVerbs(desk, self.holder if holder is None else holder, self._plain.luck)
        return RoutedVerbs(plain, self._place, self._known, self._wanted)

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
    ) -> Operation[Added]:
        opts = options.options(delay, at, if_exists, ttr, max_attempts, headers, max_lateness)
        return self.put(body, opts, id)

    def put(self, body: T, opts: options.Options, id: str | None) -> Operation[Added]:
        """The same, with options that are ready."""
        if self.only is not None:
            return putting.add(self.only.desk, body, opts, id)
        fresh = self.desk.ids.new() if id is None else names.name(id, "id")
        return self._put(putting.add(self.desk, body, opts, id, fresh), fresh)

    def _put(self, call: Call[Added], id: bytes) -> Flow[Added]:
        parts = yield from self.parts()
        call.keys = parts[place_of(id, len(parts))].keys
        return (yield from ask(call))

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
    ) -> Flow[list[Added]]:
        refuse_one(bodies, "bodies")
        opts = options.options(delay, at, if_exists, ttr, max_attempts, headers, max_lateness)
        return self.put_many(bodies, opts, atomic=atomic)

    def put_many(self, bodies: Iterable[T | NewJob[T]], opts: options.Options, *, atomic: bool) -> Flow[list[Added]]:
        """The same, with options that are ready. All is checked before the first script goes."""
        if self.only is not None:
            return putting.add_many(self.only.desk, bodies, opts, atomic=atomic)
        some = list(bodies)
        if len(self._parts) > 1:
            return self._spread(self._parts, some, opts, atomic=atomic)
        return self._put_many(putting.add_many(self.desk, some, opts, atomic=atomic), some, opts, atomic=atomic)

    def _put_many(
        self, plain: Flow[list[Added]], bodies: list[T | NewJob[T]], opts: options.Options, *, atomic: bool
    ) -> Flow[list[Added]]:
        """The first time: nobody has said yet how many partitions there are."""
        parts = yield from self.parts()
        return (yield from plain if len(parts) == 1 else self._spread(parts, bodies, opts, atomic=atomic))

    def _spread(
        self, parts: Sequence[TopicVerbs[T]], bodies: list[T | NewJob[T]], opts: options.Options, *, atomic: bool
    ) -> Flow[list[Added]]:
        if atomic:
            raise BadInput(f"atomic: {self.desk.name} has {len(parts)} partitions; one script cannot reach them all.")
        fresh = self.desk.ids.many(len(bodies))
        places = [place_of(_id_of(body, mine), len(parts)) for body, mine in zip(bodies, fresh, strict=True)]
        flows: list[tuple[list[int], Flow[list[Added]]]] = []
        for index, verbs in enumerate(parts):
            mine = [at for at, place in enumerate(places) if place == index]
            some, ids = [bodies[at] for at in mine], [fresh[at] for at in mine]
            if mine:
                flows.append((mine, putting.add_many(verbs.desk, some, opts, fresh=ids)))
        return merging.added(len(bodies), flows)

    # ── in hand ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def finish(self, jobs: Sequence[Holding]) -> Flow[None]:
        return self._jobs(jobs, lambda verbs, mine: verbs.finish(mine))

    def touch(self, jobs: Sequence[Holding], ttr: Duration | None) -> Flow[None]:
        return self._jobs(jobs, lambda verbs, mine: verbs.touch(mine, ttr))

    def release(self, jobs: Sequence[Holding], delay: Duration | None, count: bool, reason: str = "") -> Flow[None]:
        return self._jobs(jobs, lambda verbs, mine: verbs.release(mine, delay, count, reason))

    def bury(self, jobs: Sequence[Holding], reason: str, error: str = "") -> Flow[None]:
        return self._jobs(jobs, lambda verbs, mine: verbs.bury(mine, reason, error))

    def fail(self, job: Holding, when: bytes | None, fault: str, count: bool) -> Operation[bool]:
        return self._at(job.id, lambda verbs: verbs.fail(job, when, fault, count))

    def give_back(self, receipt: int, jobs: Sequence[taking.RawJob]) -> Operation[Any]:
        """Back to where they were, as if they had not been handed out."""
        if self.only is not None:
            return taking.give_back(self.only.keys, receipt, jobs)
        return self._split(
            jobs,
            lambda job: job[0],
            lambda verbs, mine: taking.give_back(verbs.keys, receipt, [jobs[at] for at in mine]),
        )

    def release_holder(self, holder: str, count: bool, limit: int | None = None) -> Operation[int]:
        return self._each(lambda verbs: verbs.release_holder(holder, count, limit), sum)

    def touch_holder(self, holder: str, ttr: Duration) -> Operation[int]:
        return self._each(lambda verbs: verbs.touch_holder(holder, ttr), sum)

    # ── minding, looking, ruling ─────────────────────────────────────────────────────────────────────────────────────

    def kick(self, ids: Sequence[str]) -> Operation[list[State | None]]:
        return self._ids(ids, lambda verbs, mine: verbs.kick(mine))

    def delete(self, ids: Sequence[str]) -> Operation[list[State | None]]:
        return self._ids(ids, lambda verbs, mine: verbs.delete(mine))

    def reschedule(
        self, ids: Sequence[str], delay: Duration | None, at: datetime | None
    ) -> Operation[list[State | None]]:
        return self._ids(ids, lambda verbs, mine: verbs.reschedule(mine, delay, at))

    def get(self, ids: Sequence[str]) -> Operation[list[JobInfo[T] | None]]:
        return self._ids(ids, lambda verbs, mine: verbs.get(mine))

    def list(
        self,
        state: State | None,
        due_after: datetime | None,
        due_before: datetime | None,
        limit: int,
        cursor: str | None,
    ) -> Flow[Page[T]]:
        parts = yield from self.parts()
        desks = [verbs.desk for verbs in parts]
        page = looking.list_jobs(desks, state, due_after=due_after, due_before=due_before, limit=limit, cursor=cursor)
        return (yield from page)

    def stats(self) -> Operation[Stats]:
        return self._each(lambda verbs: verbs.stats(), merging.stats)

    def histogram(
        self, start: Duration | datetime, span: Duration, buckets: int, past: Duration
    ) -> Operation[Histogram]:
        if self.only is not None:
            return self.only.histogram(start, span, buckets, past)
        return self._histogram(start, span, buckets, past)

    def _histogram(self, start: Duration | datetime, span: Duration, buckets: int, past: Duration) -> Flow[Histogram]:
        first, *rest = yield from self.parts()
        found = [(yield from ask(first.histogram(start, span, buckets, past)))]
        for verbs in rest:  # from the same moment, whatever their servers' clocks say
            other = yield from ask(verbs.histogram(found[0].start, span, buckets, 0))
            found.append(other)
        return merging.histogram(found)

    def pause(self, for_: Duration | None) -> Operation[datetime | None]:
        return self._each(lambda verbs: verbs.pause(for_), lambda ends: ends[0])

    def resume(self) -> Operation[None]:
        return self._each(lambda verbs: verbs.resume(), lambda ends: None)

    def configure(
        self,
        ttr: Duration | None,
        max_attempts: int | None,
        keep: Duration | None,
        rate: RateLike | None = AS_IT_IS,
        burst: int | None = AS_IT_IS,
        concurrency: int | None = AS_IT_IS,
        max_lateness: Duration | None = AS_IT_IS,
    ) -> Operation[Defaults]:
        """Limits are refused where there are partitions: each would have to know what the others do."""
        if self.only is not None:
            return self.only.configure(ttr, max_attempts, keep, rate, burst, concurrency, max_lateness)
        return self._configure(ttr, max_attempts, keep, rate, burst, concurrency, max_lateness)

    def _configure(self, *given: Any) -> Flow[Defaults]:
        parts = yield from self.parts()
        if len(parts) > 1 and any(limit not in (AS_IT_IS, None) for limit in given[3:6]):
            raise BadInput(f"rate, concurrency: {self.desk.name} has partitions; a limit needs a topic of one place.")
        found = yield from self._all(lambda verbs: verbs.configure(*given), lambda answers: answers[0])
        return found

    def purge(self, state: State | None) -> Operation[int]:
        return self._each(lambda verbs: verbs.purge(state), sum)

    def check(self) -> Operation[Check]:
        return self._each(lambda verbs: verbs.check(), merging.checks)


def _id_of(body: Any, fresh: bytes) -> bytes:
    id = body.id if type(body) is NewJob else None
    return fresh if id is None else names.name(id, "id")
