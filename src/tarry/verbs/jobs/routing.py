"""A topic's verbs as its handles call them, whether it is one place or many.

The blocking and the awaiting topic have the same methods, and all that these say is the name of one of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from tarry.core.flows import gather
from tarry.core.requests import Flow, ScriptCall, WrongType, ask
from tarry.errors import BadInput
from tarry.values import names
from tarry.values.durations import Duration
from tarry.values.keys import with_departing
from tarry.values.rates import RateLike
from tarry.verbs.jobs import looking, merging, options, putting, ruling, taking
from tarry.verbs.jobs.durable import Durability, confirmed
from tarry.verbs.jobs.face import AS_IT_IS, TopicVerbs, refuse_one
from tarry.verbs.jobs.parting import Operation, Partitions, each, grouped, place_of
from tarry.verbs.jobs.pictures import Check, Defaults, Histogram, Stats
from tarry.verbs.jobs.shapes import Added, Holding, IfExists, JobInfo, NewJob, Page, State

T = TypeVar("T")
R = TypeVar("R")
MOST_RULINGS = 3
"""Two who rule at once may each see the other's; whoever comes next spreads what they left."""


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
        call = putting.add(self.desk, body, opts, id)
        if self.only is None:
            return self.over(lambda parts: self._put(parts, call))
        call.on_wrong_type = (
            self._put_anew
        )  # no closure that holds the call: a cycle for each job would be the collector's
        return call

    def _put_anew(self, call: ScriptCall[Added], fault: WrongType) -> Flow[Added]:
        return self._over_anew(fault, lambda parts: self._put(parts, call))

    def _put(self, parts: Sequence[TopicVerbs[T]], call: ScriptCall[Added]) -> Flow[Added]:
        call.keys = with_departing(parts[place_of(call.items[0], len(parts))].keys)
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
        some = list(bodies)
        if self.only is None and len(self._parts) > 1:
            return self.over(lambda parts: self._spread(parts, some, opts, atomic=atomic))
        plain = putting.add_many(self.desk, some, opts, atomic=atomic)
        if self.only is None:  # nobody has said yet how many partitions there are
            return self.over(lambda parts: plain if len(parts) == 1 else self._spread(parts, some, opts, atomic=atomic))
        return self._or_over(plain, lambda parts: self._spread(parts, some, opts, atomic=atomic))

    def _spread(
        self, parts: Sequence[TopicVerbs[T]], bodies: list[T | NewJob[T]], opts: options.Options, *, atomic: bool
    ) -> Flow[list[Added]]:
        if atomic:
            raise BadInput(f"atomic: {self.desk.name} has {len(parts)} partitions; one script cannot reach them all.")
        fresh = self.desk.ids.new_many(len(bodies))
        flows: list[tuple[list[int], list[Added], Flow[list[Added]]]] = []
        for index, mine in grouped(map(_id_of, bodies, fresh), len(parts)):
            some, ids, done = [bodies[at] for at in mine], [fresh[at] for at in mine], list[Added]()
            flows.append((mine, done, putting.add_many(parts[index].desk, some, opts, fresh=ids, done=done)))
        return merging.added(len(bodies), flows)

    def confirmed(self, operation: Operation[R], durability: Durability) -> Operation[R]:
        """The same, answered when what it adds is where it should be."""
        return confirmed(operation, durability)

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

    def give_back(self, jobs: Sequence[Holding], due: Sequence[int]) -> Operation[Any]:
        """Back to where they were, as if they had not been handed out."""
        if self.only is not None:
            return taking.give_back_held(self.only.keys, jobs, due)

        def give(verbs: TopicVerbs[T], mine: list[int]) -> ScriptCall[Any]:
            return taking.give_back_held(verbs.keys, [jobs[at] for at in mine], [due[at] for at in mine])

        return self.over(self._split(jobs, lambda job: job.id, give))

    def release_holder(self, holder: str, count: bool, limit: int | None = None) -> Operation[int]:
        if limit is None:
            return self._each(lambda verbs: verbs.release_holder(holder, count, None), sum)
        return self._way(
            lambda only: only.release_holder(holder, count, limit),
            lambda parts: self._release_some(parts, holder, count, limit),
        )

    def _release_some(self, parts: Sequence[TopicVerbs[T]], holder: str, count: bool, limit: int) -> Flow[int]:
        """One after the other, until there are enough."""
        released = 0
        for verbs in parts:
            released += yield from verbs.release_holder(holder, count, limit - released)
            if released == limit:
                break
        return released

    def touch_holder(self, holder: str, ttr: Duration) -> Operation[int]:
        return self._each(lambda verbs: verbs.touch_holder(holder, ttr), sum)

    # ── minding, looking, ruling ─────────────────────────────────────────────────────────────────────────────────────

    def kick(self, ids: Sequence[str]) -> Operation[list[State | None]]:
        return self._ids(ids, lambda verbs, mine: verbs.kick(mine))

    def delete(self, ids: Sequence[str]) -> Operation[list[State | None]]:
        return self._ids(ids, lambda verbs, mine: verbs.delete(mine))

    def delete_exactly(self, id: str, nonce: bytes) -> Operation[State | None]:
        """The job that was added with this nonce, and no other of its id."""
        return self._at(id, lambda verbs: verbs.delete_exactly(id, nonce))

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
        return self.over(
            lambda parts: looking.list_jobs(
                [verbs.desk for verbs in parts],
                state,
                due_after=due_after,
                due_before=due_before,
                limit=limit,
                cursor=cursor,
            )
        )

    def stats(self) -> Operation[Stats]:
        return self._each(lambda verbs: verbs.stats(), merging.stats)

    def histogram(
        self, start: Duration | datetime, span: Duration, buckets: int, past: Duration
    ) -> Operation[Histogram]:
        return self._way(
            lambda only: only.histogram(start, span, buckets, past),
            lambda parts: self._histogram(parts, start, span, buckets, past),
        )

    def _histogram(
        self,
        parts: Sequence[TopicVerbs[T]],
        start: Duration | datetime,
        span: Duration,
        buckets: int,
        past: Duration,
    ) -> Flow[Histogram]:
        first, *rest = parts
        found = yield from ask(first.histogram(start, span, buckets, past))
        others = yield from gather(  # from the same moment, whatever their servers' clocks say
            [ask(verbs.histogram(found.start, span, buckets, 0)) for verbs in rest]
        )
        return merging.histogram([found, *others])

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
        """Each partition keeps its share of the limits; what is said, and answered, is of the whole."""
        given = ttr, max_attempts, keep, rate, burst, concurrency, max_lateness
        if any(one != AS_IT_IS for one in given):  # else it only looks
            names.refuse_dots(self.desk.name, "topic")
        return self._way(lambda only: only.configure(*given), lambda parts: self._rule(parts, given))

    def _rule(self, parts: Sequence[TopicVerbs[T]], given: tuple[Any, ...]) -> Flow[Defaults]:
        """The first is told, and the others follow: all that it has, so that nothing stays half-way. One that was told
        something later, because a fail-over lost what the first knew, follows when the first has counted on from there."""
        first, *rest = parts
        ruled = yield from ask(ruling.rule(first.keys, first.share, ruling.said(len(parts), *given)))
        for _ in range(MOST_RULINGS):
            later = (yield from self._follow(rest, ruled)) if rest and ruled.number else 0
            if not later:
                break
            ruled = yield from ask(ruling.rule(first.keys, first.share, (), later))
        return ruled.defaults(len(parts))

    def _follow(self, rest: Sequence[TopicVerbs[T]], ruled: ruling.Ruled) -> Flow[int]:
        return each(rest, lambda verbs: ruling.follow(verbs.keys, verbs.share, ruled), max)

    def purge(self, state: State | None) -> Operation[int]:
        return self._each(lambda verbs: verbs.purge(state), sum)

    def check(self) -> Operation[Check]:
        return self._each(lambda verbs: verbs.check(), merging.checks)


def _id_of(body: Any, fresh: bytes) -> bytes:
    id = body.id if type(body) is NewJob else None
    return fresh if id is None else names.check_name(id, "id")
