"""A topic, awaited: the names of its verbs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Never, ParamSpec, TypeVar, overload

from msgspec import UNSET, UnsetType

from tarry.clients.awaited.job import AsyncJob
from tarry.clients.config import wait_seconds
from tarry.errors import BadInput
from tarry.values.durations import Duration
from tarry.values.other_words import (
    MISSING,
    OF_ADD,
    OF_CONFIGURE,
    OF_POP,
    OF_POP_MANY,
    HidesOtherWords,
    OtherWord,
    hide_others,
    refuse_others,
)
from tarry.verbs import jobs as job_verbs
from tarry.verbs.jobs.job_values import (
    Added,
    BaseJob,
    HasReceipt,
    JobInfo,
    JobPage,
    State,
    StateFilter,
    result_of,
    unknown_result,
)
from tarry.verbs.jobs.options import Durability, IfExists, JobOptions, NewJob

if TYPE_CHECKING:
    from tarry.clients.awaited.ends import AsyncEnds
    from tarry.clients.awaited.interfaces import HandleEngine
    from tarry.clients.handle_verbs import TopicHandleVerbs
    from tarry.core.watch import PoppedAt
    from tarry.values.rates import RateLike
    from tarry.verbs.jobs.dead_groups import DeadGroups
    from tarry.verbs.jobs.pop import RawJob
    from tarry.verbs.jobs.settle import SettleVerb
    from tarry.verbs.jobs.stats import CheckReport, Histogram, KeyStats, MinuteCounts, Stats, TopicSettings

T = TypeVar("T")
P = ParamSpec("P")


class AsyncTopic(Generic[T], metaclass=HidesOtherWords):
    """Jobs of one kind. Made by ``client.topic(name)``; costs nothing until a verb is called."""

    def __init__(self, engine: HandleEngine, verbs: TopicHandleVerbs[T]) -> None:
        self.engine = engine
        self.verbs = verbs
        self.keeps_finished: bool = False
        """Whether the topic kept finished jobs when jobs were last popped here."""
        self.name: str = verbs.context.name
        """The topic's name."""

    if not TYPE_CHECKING:
        push = OtherWord("add")
        enqueue = OtherWord("add")
        send = OtherWord("add")
        put = OtherWord("add")
        cancel = OtherWord("delete, such as topic.delete(id), or delete(id, running=True) for a job that runs")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self.engine.config.redacted}>"

    # ── adding ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @hide_others
    async def add(
        self,
        body: T,
        *others: Never,
        delay: Duration | UnsetType = UNSET,
        at: datetime | None = None,
        id: str | None = None,
        if_exists: IfExists = "error",
        latest: Duration | None = None,
        ttr: Duration | None = None,
        max_attempts: int | UnsetType | None = UNSET,
        headers: Mapping[str, str] | None = None,
        max_lateness: Duration | None = None,
        priority: int = 0,
        key: str | None = None,
        durability: Durability = None,
        **words: Never,
    ) -> Added:
        """Puts a job in, to be handed out after ``delay`` or ``at`` a moment (an aware datetime).

        ``id`` is yours or made for you; ``if_exists`` says what happens when it is taken by a living or dead job:
        ``"error"`` raises ``JobExists``, ``"keep"`` leaves the old one, also if it is dead (``state`` of the answer says so),
        ``"once"`` does the same, and also leaves out a job that is finished, for as long as the topic keeps it by its own
        ``keep_finished``; without that it raises ``NotKept``;
        ``"replace"`` puts this one in its place, and with ``latest`` it is due at most so long after the first event that no handler
        has had; ``"update"`` changes the body and the options that are given, and the due time stays. A number is seconds.
        ``ttr``, ``max_attempts`` (``None``: no limit) and ``max_lateness`` (what is later dies as ``too late``) win over the
        consumer's and the topic's. ``priority``, 0 to 3: of the jobs that are due, the highest is handed out first. ``key``, such as a
        customer's name of at most 200 bytes: ``configure`` sets limits for the jobs of each.
        ``durability`` answers only when a replica has it (``"replicated"``, or a number of
        them), or the server's disk (``"fsynced"``).
        Raises ``BadInput`` before anything is written, ``TopicFull`` when no more jobs may wait, ``Unavailable`` when the server does not answer, ``Unconfirmed`` when
        it was added and ``durability`` is not met in two seconds.
        """
        if others or words or body is MISSING:
            refuse_others(AsyncTopic.add, self, OF_ADD, others, words)
        options = JobOptions(
            delay=delay,
            at=at,
            if_exists=if_exists,
            latest=latest,
            ttr=ttr,
            max_attempts=max_attempts,
            headers=headers,
            max_lateness=max_lateness,
            priority=priority,
            key=key,
            durability=durability,
        )
        call = self.verbs.add(body, options, id)
        await self.engine.register_topic(self.name)
        return await self.engine.run(call)

    @hide_others
    async def add_many(
        self,
        bodies: Iterable[T | NewJob[T]],
        *others: Never,
        delay: Duration | UnsetType = UNSET,
        at: datetime | None = None,
        if_exists: IfExists = "error",
        latest: Duration | None = None,
        ttr: Duration | None = None,
        max_attempts: int | UnsetType | None = UNSET,
        headers: Mapping[str, str] | None = None,
        max_lateness: Duration | None = None,
        priority: int = 0,
        key: str | None = None,
        durability: Durability = None,
        atomic: bool = False,
        **words: Never,
    ) -> list[Added]:
        """Puts many jobs in: bodies, or ``NewJob(body, delay=…, id=…)`` where one differs from the rest.

        All are checked before the first is written. They go in scripts of at most 1,000 jobs or 1 MB, each all or
        nothing; ``JobExists``, ``TopicFull``, ``Unavailable`` and ``Unconfirmed`` carry ``done``, how many went in before. ``atomic=True`` refuses more
        than one script takes.
        """
        if others or words or bodies is MISSING:
            refuse_others(AsyncTopic.add_many, self, OF_ADD, others, words)
        options = JobOptions(
            delay=delay,
            at=at,
            if_exists=if_exists,
            latest=latest,
            ttr=ttr,
            max_attempts=max_attempts,
            headers=headers,
            max_lateness=max_lateness,
            priority=priority,
            key=key,
            durability=durability,
        )
        flow = self.verbs.add_many(bodies, options, atomic=atomic)
        await self.engine.register_topic(self.name)
        return await self.engine.run(flow)

    # ── popping ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @hide_others
    async def pop(
        self, *others: Never, wait: Duration | None = 0, ttr: Duration | None = None, **words: Never
    ) -> AsyncJob[T] | None:
        """Returns the job that has been due for longest, reserved for its TTR; ``None`` when none is due within ``wait``.

        ``wait=None`` waits forever. ``ttr`` holds unless the job has its own. If the answer is lost on the way, the job
        comes back after its TTR; a last attempt then does not count.
        """
        if others or words:
            refuse_others(AsyncTopic.pop, self, OF_POP, others, words)
        for _, reply, raws in await self.engine.take([self.verbs], 1, wait, ttr):
            return jobs_of(self, reply, raws)[0]
        return None

    @hide_others
    async def pop_many(
        self, limit: int, *others: Never, wait: Duration | None = 0, ttr: Duration | None = None, **words: Never
    ) -> list[AsyncJob[T]]:
        """Returns up to ``limit`` jobs (at most 1000, and 4 MB of bodies), as soon as there is one."""
        if others or words or limit is MISSING:
            refuse_others(AsyncTopic.pop_many, self, OF_POP_MANY, others, words)
        return await pop_first(self.engine, [self], limit, wait, ttr)

    # ── settling ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def finish(self, job: HasReceipt, *, result: Any = None) -> None:
        """Finishes the job: its work is done, and it is removed. Raises ``StaleReceipt`` when the reservation is over.

        ``result`` is kept with the job if the topic has ``keep_finished``: JSON of up to 64 KB. A result that is larger or cannot be
        encoded is not kept, but the job is still finished.
        """
        results = None if result is None else [job_verbs.settle.encode_result(result)]
        await self._settle(job_verbs.settle.FINISH, [job], results=results)

    async def finish_many(self, jobs: Sequence[HasReceipt]) -> None:
        """Finishes many; those whose receipt holds are done before ``StaleReceipt`` is raised, whose ``reasons`` have each that does not."""
        await self._settle(job_verbs.settle.FINISH, jobs)

    @hide_others
    async def touch(self, job: HasReceipt, *others: Never, ttr: Duration | None = None) -> None:
        """Renews the reservation: it lasts ``ttr`` (or the job's own) from now. Raises ``StaleReceipt``."""
        if others:
            refuse_others(AsyncTopic.touch, self, {}, others)
        await self.engine.run(self.verbs.settle(job_verbs.settle.TOUCH, [job], ttr=ttr))

    @hide_others
    async def touch_many(self, jobs: Sequence[HasReceipt], *others: Never, ttr: Duration | None = None) -> None:
        """Renews the reservations of many jobs, as ``touch`` does."""
        if others:
            refuse_others(AsyncTopic.touch_many, self, {}, others)
        await self.engine.run(self.verbs.settle(job_verbs.settle.TOUCH, jobs, ttr=ttr))

    @hide_others
    async def release(
        self, job: HasReceipt, *others: Never, delay: Duration | None = None, counted: bool = True, reason: str = ""
    ) -> None:
        """Puts the job back, due again after ``delay``; without one after a back-off of 1 s × 2ⁿ ± 20 %, at most an hour.

        The last attempt that counts makes it dead. ``counted=False`` takes the attempt back (and means at once).
        ``reason`` is what ``get`` shows of the failure: one line, then anything.
        """
        if others:
            refuse_others(AsyncTopic.release, self, {}, others)
        await self._settle(job_verbs.settle.RELEASE, [job], delay=delay, counted=counted, reason=reason)

    @hide_others
    async def release_many(
        self,
        jobs: Sequence[HasReceipt],
        *others: Never,
        delay: Duration | None = None,
        counted: bool = True,
        reason: str = "",
    ) -> None:
        """Gives many jobs back to be tried again, as ``release`` does."""
        if others:
            refuse_others(AsyncTopic.release_many, self, {}, others)
        await self._settle(job_verbs.settle.RELEASE, jobs, delay=delay, counted=counted, reason=reason)

    @hide_others
    async def bury(self, job: HasReceipt, *others: Never, reason: str = "") -> None:
        """Sets a job aside as dead, with the reason in one line. ``kick`` brings it back."""
        if others:
            refuse_others(AsyncTopic.bury, self, {}, others)
        await self._settle(job_verbs.settle.BURY, [job], reason=reason)

    @hide_others
    async def bury_many(self, jobs: Sequence[HasReceipt], *others: Never, reason: str = "") -> None:
        """Sets many jobs aside as dead, with one reason. ``kick_many`` brings them back."""
        if others:
            refuse_others(AsyncTopic.bury_many, self, {}, others)
        await self._settle(job_verbs.settle.BURY, jobs, reason=reason)

    async def release_holder(self, holder: str, *, counted: bool = True, limit: int | None = None) -> int:
        """Releases at once all jobs of a process that is certainly dead (``holder`` is what ``get`` shows of a job).

        Their attempts count, because a job may have killed it: the last one makes dead. ``counted=False`` takes the attempts
        back. At most ``limit``, if one is given. Returns how many jobs it had.
        """
        return await self.engine.run(self.verbs.release_holder(holder, counted, limit))

    @hide_others
    async def touch_holder(self, holder: str, *others: Never, ttr: Duration) -> int:
        """Renews all jobs of a process that lives and cannot do it itself. Returns the number of renewed jobs."""
        if others:
            refuse_others(AsyncTopic.touch_holder, self, {}, others)
        return await self.engine.run(self.verbs.touch_holder(holder, ttr))

    # ── by id ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def kick(self, id: str) -> State | None:
        """Makes a dead job ready again; its attempts count from zero. Returns the state it was in, or ``None`` if it is
        unknown: with any other than ``"dead"`` nothing was changed."""
        return (await self.engine.run(self.verbs.by_id(job_verbs.by_id.KICK, [id])))[0]

    async def kick_many(self, ids: Sequence[str]) -> list[State | None]:
        """Makes many dead jobs ready again, as ``kick`` does."""
        return await self.engine.run(self.verbs.by_id(job_verbs.by_id.KICK, ids))

    async def delete(self, id: str, *, running: bool = False, state: State | None = None) -> State | None:
        """Deletes the job, whatever its state; its holder gets an error when it settles. Returns the state it was in.

        With ``running``, a worker that runs the job stops the run, within half of the worker's TTR. With ``state``, a job that is in
        another state by now stays: ``state="dead"`` deletes no job that somebody has kicked meanwhile.
        """
        return (await self.delete_many([id], running=running, state=state))[0]

    async def delete_many(
        self, ids: Sequence[str], *, running: bool = False, state: State | None = None
    ) -> list[State | None]:
        """Deletes many jobs, as ``delete`` does."""
        if running and state is not None:
            raise BadInput("running, state: only reserved jobs run; give one of them.")
        if running:
            return await self.engine.run(self.verbs.by_id(job_verbs.by_id.CANCEL, ids, running=True))
        return await self.engine.run(self.verbs.by_id(job_verbs.by_id.DELETE, ids, state=state))

    async def reschedule(self, id: str, *, delay: Duration | None = None, at: datetime | None = None) -> State | None:
        """Sets another due time for a delayed or ready job. Returns the state it was in: with ``"reserved"`` and ``"dead"`` nothing
        was changed; the holder of a reserved job may ``release`` it with a delay, and ``kick`` revives a dead one."""
        return (await self.engine.run(self.verbs.by_id(job_verbs.by_id.RESCHEDULE, [id], delay=delay, at=at)))[0]

    async def reschedule_many(
        self, ids: Sequence[str], *, delay: Duration | None = None, at: datetime | None = None
    ) -> list[State | None]:
        """Moves many waiting jobs to another due time, as ``reschedule`` does."""
        return await self.engine.run(self.verbs.by_id(job_verbs.by_id.RESCHEDULE, ids, delay=delay, at=at))

    # ── views ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def get(self, id: str, *, wait: Duration | None = 0) -> JobInfo[T] | None:
        """Returns the job as it is now, or ``None`` if it is unknown; with ``wait`` as soon as it is finished or dead, or at the end of that
        time. A finished one is returned as long as it is kept, and no other job has its id."""
        if wait != 0:
            return await self.engine.wait_until_ended(self.verbs, id, wait_seconds(wait))
        return (await self.engine.run_view(self.verbs.get([id], True)))[0]

    async def get_many(self, ids: Sequence[str]) -> list[JobInfo[T] | None]:
        """Looks up many jobs, as ``get`` does."""
        return await self.engine.run_view(self.verbs.get(ids, True))

    async def result(self, id: str, *, wait: Duration | None = 0, type: Any = Any) -> Any:
        """Returns the result of a finished job, as ``type``. The topic or the task needs ``keep_finished``.

        ``wait``: how long to wait for the result; ``None``: without a limit.

        Raises ``NoResult`` when the job is not finished within ``wait``, is dead or unknown, or its result was not kept.
        """
        seconds = wait_seconds(wait)
        job = await self.engine.wait_until_ended(self.verbs, id, seconds)
        if job is None:
            raise unknown_result(id, self.name)
        return result_of(job, type, waited=seconds > 0)

    async def list(
        self,
        state: StateFilter | None = None,
        *,
        due_after: datetime | None = None,
        due_before: datetime | None = None,
        task: str | None = None,
        error: str | None = None,
        text: str | None = None,
        group: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> JobPage[T]:
        """Returns one page of jobs, by due time (reserved: by the end of their TTR; dead: by their death).

        ``"retrying"``: those delayed jobs that have failed before. ``"finished"``: those that are kept, by the end of their keep;
        they are listed only by this name. Empty for an unknown topic. Give the page's ``cursor`` for the next one. ``due_before`` itself is not in it.

        To search, give a ``task``, a text in the reason, ``error`` or note, a ``text`` in the body as it is stored, or the ``group`` of
        dead jobs. A page is then those that match of the next thousand jobs: it may be empty, and not be the last one.
        """
        search = None
        if (task, error, text, group) != (None, None, None, None):
            from tarry.verbs.jobs.dead_groups import JobSearch  # no start imports it

            search = JobSearch(task, error, text, group).check(state)
        return await self.engine.run_view(self.verbs.list(state, due_after, due_before, limit, cursor, search))

    async def dead_groups(
        self,
        *,
        task: str | None = None,
        error: str | None = None,
        text: str | None = None,
        group: str | None = None,
        limit: int = 1000,
        cursor: str | None = None,
    ) -> DeadGroups:
        """Groups dead jobs by what went wrong: the task, the error without numbers, ids, quoted text and addresses, the place.


        One call reads the next ``limit`` dead jobs, those that died first before the others, and searches them as ``list`` does. Give the
        result's ``cursor`` for the next ones and add up the results; ``scanned`` of ``dead`` is the progress. ``list("dead", group=…)``
        has the jobs of a group, ``kick_many`` and ``delete_many`` take their ids.
        """
        from tarry.verbs.jobs.dead_groups import JobSearch

        search = JobSearch(task, error, text, group).check("dead")
        return await self.engine.run_view(self.verbs.dead_groups(search, limit, cursor))

    def ends(self, *, since: str | datetime | None = None, wait: Duration | None = None) -> AsyncEnds[T]:
        """Iterates over the ends of jobs, finished, dead or late, in the order of their moments: those after ``since``, then each as it comes.

        ``since`` is the ``id`` of an end, ``position`` of an earlier iteration, or a moment; without it from now on. The iteration ends
        when none has come within ``wait``; ``None`` never. Each end comes once, in whichever process one goes on behind its id. Where
        something after ``since`` is no longer kept, an ``UnknownEnds`` comes first. The topic needs ``keep_finished``, else ``NotKept`` is
        raised at the first step, and needs it for as long as a reader may be away.
        """
        from tarry.clients.awaited.ends import AsyncEnds  # no start imports it

        return AsyncEnds(self.engine, self.verbs, since, wait_seconds(wait))

    @overload
    async def stats(self, *, key: None = None) -> Stats: ...
    @overload
    async def stats(self, *, key: str) -> KeyStats: ...
    async def stats(self, *, key: str | None = None) -> Stats | KeyStats:
        """Returns the counts by state and of retrying jobs, next due, oldest ready, totals and lateness. Zeros for an unknown topic.

        With ``key`` those of this key: its delayed, ready and reserved jobs, why they wait, and when the next one can go.
        """
        if key is not None:
            return await self.engine.run_view(self.verbs.key_stats(key))
        return await self.engine.run_view(self.verbs.stats())

    async def busiest_keys(self, limit: int = 10) -> tuple[KeyStats, ...]:
        """Returns the keys with the most jobs, delayed, ready and reserved, the most first; at most ``limit``, up to 100.

        At most 1,000 keys are looked at; of more, each that has a thousandth of the jobs.
        """
        return await self.engine.run_view(self.verbs.busiest_keys(limit))

    async def histogram(
        self, *, start: Duration | datetime = 0, span: Duration = "1h", buckets: int = 60, past: Duration = 0
    ) -> Histogram:
        """Counts jobs by due time: ``buckets`` over ``span``, from ``start`` (after now, or a moment) or ``past``
        before now. Zeros for an unknown topic."""
        return await self.engine.run_view(self.verbs.histogram(start, span, buckets, past))

    async def throughput(self, *, span: Duration = "1d") -> tuple[MinuteCounts, ...]:
        """Returns what was added, finished, failed and died in each minute of ``span``, at most a week, until now; what is older than a day
        in each hour. The oldest is first; those without numbers are left out.

        The server keeps the numbers when jobs are popped. Jobs that were added while nobody popped count for the last of those minutes.
        """
        return await self.engine.run_view(self.verbs.throughput(span))

    async def check(self) -> CheckReport:
        """Walks through the whole topic: is every job in exactly one place? For tests and ``doctor``.

        Its ``leaving`` and ``schedules_leaving`` count the jobs and schedules that ``migrate`` is moving to another topic."""
        return await self.engine.run(self.verbs.check())

    # ── settings ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def pause(self, duration: Duration | None = None, *, key: str | None = None) -> datetime | None:
        """Hands out nothing for a time, or until ``resume``; with ``key`` nothing of this key. Returns the end of the pause, ``None`` if it
        has none."""
        return await self.engine.run(self.verbs.pause(duration, key))

    async def resume(self, *, key: str | None = None) -> None:
        """Ends a pause; with ``key`` that of this key."""
        await self.engine.run(self.verbs.resume(key))

    @hide_others
    async def configure(
        self,
        *,
        ttr: Duration | UnsetType | None = UNSET,
        max_attempts: int | UnsetType | None = UNSET,
        keep_dead: Duration | UnsetType | None = UNSET,
        rate: RateLike | UnsetType | None = UNSET,
        burst: int | UnsetType | None = UNSET,
        concurrency: int | UnsetType | None = UNSET,
        max_lateness: Duration | UnsetType | None = UNSET,
        keep_finished: Duration | UnsetType | None = UNSET,
        max_pending: int | UnsetType | None = UNSET,
        max_pending_bytes: int | UnsetType | None = UNSET,
        key_concurrency: int | UnsetType | None = UNSET,
        key_rate: RateLike | UnsetType | None = UNSET,
        fair: bool | UnsetType | None = UNSET,
        **words: Never,
    ) -> TopicSettings:
        """Sets options of the topic, for all clients and at once, and returns all of them.

        For jobs without options of their own: ``ttr`` (``None``: 60 s again), ``max_attempts`` (``None``: no limit),
        ``max_lateness`` (a job that would be handed out later is dead, ``too late``); ``keep_dead``: how long dead jobs stay, ``None``
        forever; ``keep_finished``: how long finished jobs stay, with their results, ``None`` not at all. For all together: ``rate``, the most jobs handed out in a time (``"100/1m"``, ``(100, "1m")``, or a number
        a second), ``burst`` of them at once after a quiet time (``None``: those of a tenth of a second); ``concurrency``, the
        most jobs reserved at a time. ``None`` removes a limit. Jobs that wait for a limit keep their order and their attempts.

        For producers: ``max_pending``, the most jobs that may wait, delayed and ready, and ``max_pending_bytes``, the most bytes of their
        bodies. An add beyond it raises ``TopicFull``: that of jobs at once in this client and within a second in all others, that of bytes
        within a second in all. Of n partitions each takes an n-th, rounded up.

        For jobs with a ``key``, each key on its own: ``key_concurrency``, the most of its jobs reserved at a time; ``key_rate``, the most that
        begin in a time, evenly spread; ``fair``: the keys take turns, one job each. A topic with partitions has none of these.
        """
        if words:
            refuse_others(AsyncTopic.configure, self, OF_CONFIGURE, words=words)
        given = job_verbs.settings.SettingsChange(
            ttr=ttr,
            max_attempts=max_attempts,
            keep_dead=keep_dead,
            rate=rate,
            burst=burst,
            concurrency=concurrency,
            max_lateness=max_lateness,
            keep_finished=keep_finished,
            max_pending=max_pending,
            max_pending_bytes=max_pending_bytes,
            key_concurrency=key_concurrency,
            key_rate=key_rate,
            fair=fair,
        )
        return await self.engine.run(self.verbs.configure(given))

    async def purge(self, state: StateFilter | None = None, *, key: str | None = None) -> int:
        """Deletes all jobs, or all of a state. Returns how many: 0 for an unknown topic. Receipts go on rising.

        With ``key`` those of this key that are delayed, ready or reserved, in steps. Its dead and finished jobs stay, as they are not found
        by their key; its pause stays, too.
        """
        return await self.engine.run(self.verbs.purge(state, key))

    async def _settle(
        self, verb: SettleVerb[P], jobs: Sequence[HasReceipt], *args: P.args, **options: P.kwargs
    ) -> None:
        await self.engine.run(self.verbs.settle(verb, jobs, *args, **options))
        for job in jobs:
            if isinstance(job, BaseJob):
                job.settled = True


def jobs_of(topic: AsyncTopic[T], taken: PoppedAt, raws: Sequence[RawJob]) -> list[AsyncJob[T]]:
    """The jobs of a pop's reply."""
    topic.keeps_finished = taken.keeps_finished
    return [AsyncJob((taken.receipt, taken.now, raw), topic) for raw in raws]


async def pop_first(
    engine: HandleEngine, topics: Sequence[AsyncTopic[T]], limit: int, wait: Duration | None, ttr: Duration | None
) -> list[AsyncJob[T]]:
    """Up to ``limit`` jobs of the first topic that has any."""
    taken = await engine.take([topic.verbs for topic in topics], limit, wait, ttr)
    return [job for at, reply, raws in taken for job in jobs_of(topics[at], reply, raws)]
