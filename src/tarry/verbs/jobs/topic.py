"""A topic's verbs as its handles call them, for a topic of one place or of many partitions.

Each method of the blocking and the awaited topic only calls the verb of the same name here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from msgspec import UNSET, UnsetType

from tarry.core.requests import Command, Flow, ScriptCall, WrongType, ask
from tarry.errors import BadInput, StaleReceipt
from tarry.values import names
from tarry.values.durations import Duration, duration_us
from tarry.verbs import jobs as job_verbs
from tarry.verbs.jobs import add, records
from tarry.verbs.jobs.job_values import Added, HasReceipt, JobInfo, JobPage, State, StateFilter
from tarry.verbs.jobs.options import EncodedOptions, JobOptions, NewJob
from tarry.verbs.jobs.partitions import (
    Operation,
    Partitions,
    PartitionVerbs,
    gather,
    group_by_partition,
    on_each,
    partition_of_id,
)
from tarry.verbs.jobs.topic_context import require_several

if TYPE_CHECKING:
    from tarry.verbs.jobs.by_id import ByIdVerb
    from tarry.verbs.jobs.dead_groups import DeadGroups, JobSearch
    from tarry.verbs.jobs.end_values import EndsPage, Position
    from tarry.verbs.jobs.pop import PopReply
    from tarry.verbs.jobs.settings import SettingsChange, StoredSettings
    from tarry.verbs.jobs.settle import Failure, SettleVerb
    from tarry.verbs.jobs.stats import CheckReport, DueSoon, Histogram, KeyStats, MinuteCounts, Stats, TopicSettings

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")
MOST_CONFIGURE_TRIES = 3
"""Two concurrent calls may each see the other's settings; the next call copies what they left."""


class TopicVerbs(Partitions[T]):
    """The verbs of a topic: each goes to the partitions that it concerns."""

    def on_behalf_of(self, *, holder: str | None = None, ids: Any = None) -> TopicVerbs[T]:
        """The same topic for another holder, or with ``ids``, which makes the ids and nonces of new jobs. Raises ``BadInput``."""
        context = self.context if ids is None else replace(self.context, ids=ids)
        plain = PartitionVerbs(context, self.holder if holder is None else job_verbs.holders.encode_holder(holder))
        return TopicVerbs(plain, self._make_partition, self._known_partitions, self._wanted)

    # ── adding ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, body: T, options: JobOptions, id: str | None) -> Operation[Added]:
        added = self.add_with(body, options.encode(), id)
        return added if options.durability is None else job_verbs.durability.with_durability(added, options.durability)

    def add_with(self, body: T, options: EncodedOptions, id: str | None) -> Operation[Added]:
        """Adds a job with encoded options."""
        call = add.add_job(self.context, body, options, id)
        if self.single is None:
            return self.over_partitions(lambda parts: self._add(parts, call, options))
        # no closure that holds the call: a reference cycle for each job would be left to the garbage collector
        call.on_wrong_type = self._add_rediscovered
        return call

    def _add_rediscovered(self, call: ScriptCall[Added], fault: WrongType) -> Flow[Added]:
        return self._over_rediscovered(fault, lambda parts: self._add(parts, call))

    def _add(
        self, parts: Sequence[PartitionVerbs[T]], call: ScriptCall[Added], options: EncodedOptions | None = None
    ) -> Flow[Added]:
        if len(parts) > 1 and records.has_key(call.items[2]):
            add.refuse_in_partitions("key", self.context.name, len(parts))
        add.move_call(call, parts[partition_of_id(call.items[0], len(parts))].context, options)
        return (yield from ask(call))

    def add_many(self, bodies: Iterable[T | NewJob[T]], options: JobOptions, *, atomic: bool) -> Operation[list[Added]]:
        require_several(bodies, "bodies")
        added = self.add_many_with(bodies, options.encode(), atomic=atomic)
        return added if options.durability is None else job_verbs.durability.with_durability(added, options.durability)

    def add_many_with(
        self, bodies: Iterable[T | NewJob[T]], options: EncodedOptions, *, atomic: bool, moves: bool = False
    ) -> Flow[list[Added]]:
        """Adds jobs with encoded options. All jobs are checked before the first script is sent. ``moves``: from another topic, so that
        no limit refuses them."""
        some = list(bodies)
        if self.single is None and len(self._partitions) > 1:
            return self.over_partitions(
                lambda parts: self._add_spread(parts, some, options, atomic=atomic, moves=moves)
            )
        plain = add.add_jobs(self.context, some, options, atomic=atomic, moves=moves)
        if self.single is None:  # the number of partitions is not known yet
            return self.over_partitions(
                lambda parts: (
                    plain if len(parts) == 1 else self._add_spread(parts, some, options, atomic=atomic, moves=moves)
                )
            )
        return self._retry_over_partitions(
            plain, lambda parts: self._add_spread(parts, some, options, atomic=atomic, moves=moves)
        )

    def _add_spread(
        self,
        parts: Sequence[PartitionVerbs[T]],
        bodies: list[T | NewJob[T]],
        options: EncodedOptions,
        *,
        atomic: bool,
        moves: bool,
    ) -> Flow[list[Added]]:
        if atomic:
            raise BadInput(
                f"atomic: {self.context.name} has {len(parts)} partitions; one script cannot reach them all."
            )
        if options.contents.key is not None or any(isinstance(one, NewJob) and one.key is not None for one in bodies):
            add.refuse_in_partitions("key", self.context.name, len(parts))
        fresh = self.context.ids.new_many(len(bodies))
        flows: list[tuple[list[int], list[Added], Flow[list[Added]]]] = []
        for index, own in group_by_partition(map(_id_of, bodies, fresh), len(parts)):
            some, ids, done = [bodies[at] for at in own], [fresh[at] for at in own], list[Added]()
            adding = add.add_jobs(parts[index].context, some, options, new_ids=ids, done=done, moves=moves)
            flows.append((own, done, adding))
        return job_verbs.merge.merge_added(len(bodies), flows)

    # ── reserved ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def settle(self, verb: SettleVerb[P], jobs: Sequence[HasReceipt], *args: P.args, **options: P.kwargs) -> Flow[None]:
        return self._settle_items(verb, verb.encode(jobs, *args, **options))

    def fail(
        self,
        job: HasReceipt,
        due_time: bytes | None,
        fault: str,
        counted: bool,
        max_attempts: int | UnsetType | None = UNSET,
        unseen_us: int | None = None,
    ) -> Operation[bool]:
        """Settles a failed job: the fields of a ``Failure``. Returns whether it is dead now."""
        failure = job_verbs.settle.Failure(job, due_time, fault, counted, max_attempts, unseen_us)
        return self._on_partition_of(job.id, lambda part: job_verbs.settle.fail(part.keys, failure))

    def fail_many(self, failures: Sequence[Failure], dead: dict[Any, bool]) -> Flow[None]:
        """The same for many, in steps: adds to ``dead`` those that are settled, with whether they are dead now; then raises the first
        refusal. Those that ``dead`` has are left out: after an error the rest may be tried again."""
        left = [one for one in failures if one.job not in dead]
        if self.single is not None:
            return job_verbs.settle.fail_many(self.single.keys, left, dead)
        return self._settle_by_partition(
            [one.job.id for one in left],
            lambda part, own: job_verbs.settle.fail_many(part.keys, [left[at] for at in own], dead),
        )

    def pop_by_id(self, id: str, states: Sequence[State]) -> Operation[PopReply | None]:
        """Pops one job by its id, past the topic's pause and limits."""
        return self._on_partition_of(
            id,
            lambda part: job_verbs.pop.pop_by_id(
                part.keys, id, states, ttr=job_verbs.pop.ttr_of(None), holder=part.holder
            ),
        )

    def set_headers(self, job: HasReceipt, headers: Mapping[str, str], priority: int | None = None) -> Operation[bool]:
        """Replaces the headers of a reserved job, and its priority if one is given. Returns whether the receipt holds."""
        return self._on_partition_of(
            job.id, lambda part: job_verbs.settle.set_headers(part.keys, job, headers, priority)
        )

    def keep_step(self, job: HasReceipt, name: str, result: bytes) -> Operation[bytes]:
        """Keeps the result of a step. Returns the one that the step has."""
        return self._on_partition_of(job.id, lambda part: job_verbs.steps.keep_step(part.keys, job, name, result))

    def give_back(self, jobs: Sequence[HasReceipt], due: Sequence[int]) -> Flow[None]:
        """Releases jobs to where they were, as if they had not been handed out, in steps. Those whose receipts do not hold are left."""
        items = job_verbs.settle.items_to_give_back(jobs, due)
        with suppress(StaleReceipt):
            yield from self._settle_items(job_verbs.settle.RELEASE, items)

    def release_holder(self, holder: str, counted: bool, limit: int | None = None) -> Operation[int]:
        if limit is None:
            return self._on_each(
                lambda verbs: job_verbs.holders.release_holder(verbs.keys, holder, counted=counted), sum
            )
        return self._dispatch(
            lambda only: job_verbs.holders.release_holder(only.keys, holder, counted=counted, limit=limit),
            lambda parts: self._release_up_to(parts, holder, counted, limit),
        )

    def ask_absent(self, holder: str, since: bytes) -> Operation[int]:
        return self._on_each(
            lambda verbs: job_verbs.holders.ask_absent(verbs.keys, holder, since), job_verbs.holders.worst_of
        )

    def release_absent(self, holder: str, since: bytes) -> Operation[int]:
        return self._on_each(
            lambda verbs: job_verbs.holders.release_absent(verbs.keys, holder, since), job_verbs.holders.worst_of
        )

    def _release_up_to(self, parts: Sequence[PartitionVerbs[T]], holder: str, counted: bool, limit: int) -> Flow[int]:
        """Releases jobs of one partition after the other, until there are enough."""
        released = 0
        for verbs in parts:
            released += yield from job_verbs.holders.release_holder(
                verbs.keys, holder, counted=counted, limit=limit - released
            )
            if released == limit:
                break
        return released

    def touch_holder(self, holder: str, ttr: Duration) -> Operation[int]:
        return self._on_each(lambda verbs: job_verbs.holders.touch_holder(verbs.keys, holder, ttr), sum)

    # ── by id, views, settings ─────────────────────────────────────────────────────────────────────────────────────────

    def by_id(
        self, verb: ByIdVerb[P], ids: Sequence[str], *args: P.args, **options: P.kwargs
    ) -> Operation[list[State | None]]:
        return self._by_id(ids, lambda partition, own: verb.call(partition.keys, own, *args, **options))

    def cancelled(self, job: HasReceipt) -> Operation[list[bool]]:
        """Whether this run was cancelled."""
        return self._on_partition_of(job.id, lambda part: job_verbs.by_id.cancelled(part.keys, [job]))

    def delete_exactly(self, id: str, nonce: bytes) -> Operation[State | None]:
        """Deletes the job that was added with this nonce, and no other with its id."""
        return self._on_partition_of(id, lambda part: job_verbs.by_id.delete_exactly(part.keys, id, nonce))

    def get(self, ids: Sequence[str], history: bool = False) -> Operation[list[JobInfo[T] | None]]:
        """``history``: of an id without a living or dead job, also the finished one that is kept."""
        return self._by_id(ids, lambda part, own: job_verbs.views.get_jobs(part.context, own, history=history))

    def list(
        self,
        state: StateFilter | None,
        due_after: datetime | None,
        due_before: datetime | None,
        limit: int,
        cursor: str | None,
        search: JobSearch | None = None,
    ) -> Flow[JobPage[T]]:
        return self.over_partitions(
            lambda parts: job_verbs.views.list_jobs(
                [verbs.context for verbs in parts],
                state,
                due_after=due_after,
                due_before=due_before,
                limit=limit,
                cursor=cursor,
                search=search,
            )
        )

    def ends(self, position: Position, limit: int) -> Flow[EndsPage]:
        """The ends of jobs behind a position, in their order."""
        return self.over_partitions(
            lambda parts: job_verbs.ends.read_ends([verbs.context for verbs in parts], position, limit)
        )

    def cursor_after(self, due: datetime, id: str) -> str:
        """The cursor of a page of delayed jobs that begins behind this one, whether it is there or not."""
        return job_verbs.views.cursor_after(due, id)

    def check_filter(self, state: StateFilter | None, due_after: datetime | None, due_before: datetime | None) -> None:
        """Raises ``BadInput`` for what ``list`` refuses."""
        job_verbs.views.page_args(state, due_after, due_before, 1, None)

    def dead_groups(self, search: JobSearch | None, limit: int, cursor: str | None) -> Flow[DeadGroups]:
        return self.over_partitions(lambda parts: self._dead_groups(parts, search, limit, cursor))

    def _dead_groups(
        self, parts: Sequence[PartitionVerbs[T]], search: JobSearch | None, limit: int, cursor: str | None
    ) -> Flow[DeadGroups]:
        from tarry.verbs.jobs.dead_groups import group_jobs  # no start imports it

        contexts = [verbs.context for verbs in parts]
        page = yield from job_verbs.views.list_jobs(
            contexts, "dead", limit=limit, cursor=cursor, search=search, reads=limit
        )
        counts = yield from gather([ask(job_verbs.views.count_dead(verbs.keys)) for verbs in parts])
        return group_jobs(page, sum(counts), page.scanned, page.cursor)

    def is_known(self) -> Command[bool]:
        """Whether anything was ever added to the topic, or configured for it."""
        return job_verbs.views.is_known(self.keys)

    def is_held(self, id: str) -> Operation[bool]:
        """Whether a job is in ``reserved``. Its reservation may be over."""
        from tarry.verbs.jobs import filter_counts

        return filter_counts.is_held(self, id)

    def count_due_between(
        self, now: datetime, state: StateFilter | None, after: datetime | None, before: datetime | None
    ) -> Operation[int]:
        """The number of jobs that ``list`` would return at ``now`` for a window of due times; they are counted, not read."""
        from tarry.verbs.jobs import filter_counts

        return filter_counts.due_between(self, now, state, after, before)

    def count_ready_of_priority(self, now: datetime, least: int) -> Operation[int]:
        """The number of jobs with at least this priority, above 0, that are ready at ``now``; without those whose TTR has just ended."""
        from tarry.verbs.jobs import filter_counts

        return filter_counts.ready_of_priority(self, now, least)

    def stats(self) -> Operation[Stats]:
        return self._on_each(lambda part: job_verbs.views.topic_stats(part.context), job_verbs.merge.merge_stats)

    def key_stats(self, key: str) -> Operation[KeyStats]:
        """The numbers of a key."""
        job_verbs.by_key.raw_key(key)
        return self._on_each_or_key(
            key,
            lambda part: _first(job_verbs.by_key.key_stats(part.context, [key])),
            lambda found: found[0],
        )

    def busiest_keys(self, limit: int) -> Operation[tuple[KeyStats, ...]]:
        """The keys with the most jobs."""
        most = job_verbs.by_key.checked_limit(limit)
        return self._on_each(
            lambda part: job_verbs.by_key.busiest_keys(part.context, most), lambda found: found[0]
        )  # a topic with partitions has no keys

    def histogram(
        self, start: Duration | datetime, span: Duration, buckets: int, past: Duration
    ) -> Operation[Histogram]:
        def of_partition(part: PartitionVerbs[T], start: Duration | datetime, past: Duration) -> ScriptCall[Histogram]:
            return job_verbs.views.due_histogram(part.context, start=start, span=span, buckets=buckets, past=past)

        def of_all(parts: Sequence[PartitionVerbs[T]]) -> Flow[Histogram]:
            first, *rest = parts
            found = yield from ask(of_partition(first, start, past))
            # all from the same moment, although their servers' clocks differ
            others = yield from gather([ask(of_partition(part, found.start, 0)) for part in rest])
            return job_verbs.merge.merge_histograms([found, *others])

        return self._dispatch(lambda only: of_partition(only, start, past), of_all)

    def due_soon(self, span: Duration, limit: int) -> Flow[Sequence[DueSoon[T]]]:
        """The jobs that are due within a time, of each partition."""
        us = duration_us(span, "span")
        return self.over_partitions(
            lambda parts: gather(ask(job_verbs.views.due_soon(part.context, us, limit, part.share)) for part in parts)
        )

    def throughput(self, span: Duration) -> Operation[tuple[MinuteCounts, ...]]:
        return self._on_each(
            lambda part: job_verbs.throughput.throughput(part.keys, span), job_verbs.merge.merge_minutes
        )

    def pause(self, duration: Duration | None, key: str | None = None) -> Operation[datetime | None]:
        return self._on_each_or_key(
            key, lambda part: job_verbs.settings.pause(part.keys, duration, key), lambda ends: ends[0]
        )

    def pause_at_least(self, us: int, key: str | None = None) -> Operation[int]:
        """Pauses for a time in µs, and shortens no pause. Returns its end in server µs, of partitions the earliest."""
        return self._on_each_or_key(key, lambda part: job_verbs.settings.pause_at_least(part.keys, us, key), min)

    def resume(self, key: str | None = None) -> Operation[None]:
        return self._on_each_or_key(key, lambda part: job_verbs.settings.resume(part.keys, key), lambda ends: None)

    def _on_each_or_key(
        self, key: str | None, verb: Callable[[PartitionVerbs[T]], Operation[R]], merge: Callable[[Sequence[R]], R]
    ) -> Operation[R]:
        """On each partition; a topic with partitions has no keys."""

        def on_all(parts: Sequence[PartitionVerbs[T]]) -> Flow[R]:
            if key is not None and len(parts) > 1:
                add.refuse_in_partitions("key", self.context.name, len(parts))
            return on_each(parts, verb, merge)

        return self._dispatch(verb, on_all)

    def configure(self, given: SettingsChange) -> Operation[TopicSettings]:
        """Sets what is given. Each partition keeps its share of the limits; settings and answer are of the whole topic."""
        return self._dispatch(
            lambda only: self._configure_only(only, given), lambda parts: self._configure(parts, given)
        )

    def _configure_only(self, only: PartitionVerbs[T], given: SettingsChange) -> ScriptCall[TopicSettings]:
        self.context.leases.forget(only.keys)
        return job_verbs.settings.configure(only.keys, given, only.share)

    def _configure(self, partitions: Sequence[PartitionVerbs[T]], given: SettingsChange) -> Flow[TopicSettings]:
        """Sets the options of the first partition, and copies all that it has to the others, so that nothing stays half done. A
        partition with a later change, because a fail-over lost the first one's, is overwritten once the first has counted past
        it."""
        for verbs in partitions:
            self.context.leases.forget(verbs.keys)
        if len(partitions) > 1 and (what := given.of_keys) is not None:
            add.refuse_in_partitions(what, self.context.name, len(partitions))
        first, *rest = partitions
        items = given.encode(len(partitions))
        stored = yield from ask(job_verbs.settings.configure_first(first.keys, first.share, items))
        for _ in range(MOST_CONFIGURE_TRIES):
            later = (yield from self._copy_settings(rest, stored)) if rest and stored.number else 0
            if not later:
                break
            stored = yield from ask(job_verbs.settings.configure_first(first.keys, first.share, (), later))
        return stored.settings(len(partitions))

    def _copy_settings(self, others: Sequence[PartitionVerbs[T]], stored: StoredSettings) -> Flow[int]:
        return on_each(others, lambda verbs: job_verbs.settings.copy_first(verbs.keys, verbs.share, stored), max)

    def purge(self, state: StateFilter | None, key: str | None = None) -> Operation[int]:
        if key is None:
            return self._on_each(lambda part: job_verbs.settings.purge(part.keys, state), sum)
        job_verbs.by_key.raw_key(key)
        job_verbs.by_key.place_of(state)
        return self._on_each_or_key(key, lambda part: job_verbs.by_key.purge_key(part.keys, state, key), sum)

    def check(self) -> Operation[CheckReport]:
        return self._on_each(lambda part: job_verbs.views.check_topic(part.keys), job_verbs.merge.merge_checks)


def _first(request: ScriptCall[list[R]]) -> Flow[R]:
    """The first value of an answer."""
    return (yield from ask(request))[0]


def _id_of(body: Any, new_id: bytes) -> bytes:
    id = body.id if type(body) is NewJob else None
    return new_id if id is None else names.check_name(id, "id")
