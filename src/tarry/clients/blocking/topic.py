# Made from src/tarry/clients/awaited/topic.py by tools/blocking.py: change that file, then `make blocking`.
"""A topic, blocking: the names of its verbs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Never, ParamSpec, TypeVar, overload

from msgspec import UNSET, UnsetType

from tarry.clients.blocking.job import Job
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
    from tarry.clients.blocking.ends import Ends
    from tarry.clients.blocking.interfaces import HandleEngine
    from tarry.clients.handle_verbs import TopicHandleVerbs
    from tarry.core.watch import PoppedAt
    from tarry.values.rates import RateLike
    from tarry.verbs.jobs.dead_groups import DeadGroups
    from tarry.verbs.jobs.pop import RawJob
    from tarry.verbs.jobs.settle import SettleVerb
    from tarry.verbs.jobs.stats import CheckReport, Histogram, KeyStats, MinuteCounts, Stats, TopicSettings

T = TypeVar("T")
P = ParamSpec("P")


class Topic(Generic[T], metaclass=HidesOtherWords):
    """Jobs of one kind. Made by ``client.topic(name)``; nothing is sent until you call a method."""

    def __init__(self, engine: HandleEngine, verbs: TopicHandleVerbs[T]) -> None:
        self.engine = engine
        self.verbs = verbs
        self.keeps_finished: bool = False
        """Whether the topic kept finished jobs when this object last popped jobs."""
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
    def add(
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
        """Adds a job, which is handed out when it is due: after ``delay``, or at a moment.

        ``delay``  how long until it is due, such as ``"10m"``; a number is seconds
        ``at``  the moment when it is due, instead of ``delay``: a datetime with a time zone
        ``id``  its id, unique in the topic; without one tarry makes one
        ``if_exists``  what happens if the topic has a job with this id already. ``"error"``: the call raises ``JobExists``. ``"keep"``: the old job
                 stays as it is, even if it is dead. ``"once"``: like ``"keep"``, but finished jobs that the topic keeps count, too; a topic without
                 ``keep_finished`` raises ``NotKept``. ``"replace"``: the new job takes the place of the old one. ``"update"``: the old job gets the
                 new body and the options that are given, and keeps its due time
        ``latest``  for ``if_exists="replace"``, which postpones the job each time: the job is due at most this long after the first of
                 these adds. Once the job was handed out, the next add counts as the first
        ``ttr``  its time to run. ``ttr``, ``max_attempts`` and ``max_lateness`` win over those of the consumer and of the topic
        ``max_attempts``  how often it may be handed out; ``None``: without a limit
        ``max_lateness``  how late it may be handed out; if it is later, it dies as ``too late``
        ``headers``  a map of strings that is stored beside the body
        ``priority``  0 to 3: of the jobs that are due, those with the highest priority are handed out first
        ``key``  a word, such as the customer's name, by which the topic's limits for keys count jobs; at most 200 bytes
        ``durability``  what must have the job before the call returns: a number of replicas, one replica (``"replicated"``), or the server's
                 disk (``"fsynced"``)

        Raises ``BadInput`` before anything is written, ``TopicFull`` if no more jobs may wait, ``Unavailable`` if the server
        does not answer, and ``Unconfirmed`` if the job was added, but ``durability`` was not reached within two seconds.
        """
        if others or words or body is MISSING:
            refuse_others(Topic.add, self, OF_ADD, others, words)
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
        self.engine.register_topic(self.name)
        return self.engine.run(call)

    @hide_others
    def add_many(
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
        """Adds many jobs. Each is a body, or a ``NewJob(body, delay=…, id=…)`` with options of its own.

        All jobs are checked before the first is written. They are sent in scripts of at most 1,000 jobs (250 if some have keys) or 1 MB, and
        each script adds all of its jobs or none. If a later script fails, the error (``JobExists``, ``TopicFull``, ``Unavailable`` or
        ``Unconfirmed``) says in ``done`` how many jobs were added before. ``atomic=True`` adds all jobs or
        none, and refuses more jobs than fit into one script.
        """
        if others or words or bodies is MISSING:
            refuse_others(Topic.add_many, self, OF_ADD, others, words)
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
        self.engine.register_topic(self.name)
        return self.engine.run(flow)

    # ── popping ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @hide_others
    def pop(
        self, *others: Never, wait: Duration | None = 0, ttr: Duration | None = None, **words: Never
    ) -> Job[T] | None:
        """Returns the job that is due first, reserved for its time to run; ``None`` if no job is due within ``wait``.

        ``wait=None`` waits forever. ``ttr`` is the time to run of jobs without one of their own. If the answer is lost on the
        way, the job comes back after its time to run. If this attempt was the job's last one, it does not count.
        """
        if others or words:
            refuse_others(Topic.pop, self, OF_POP, others, words)
        for _, reply, raws in self.engine.take([self.verbs], 1, wait, ttr):
            return jobs_of(self, reply, raws)[0]
        return None

    @hide_others
    def pop_many(
        self, limit: int, *others: Never, wait: Duration | None = 0, ttr: Duration | None = None, **words: Never
    ) -> list[Job[T]]:
        """Returns up to ``limit`` jobs, as soon as there is one.

        ``limit`` is at most 1000, or 250 for a topic with keys. The bodies of the jobs have at most 4 MB together.
        """
        if others or words or limit is MISSING:
            refuse_others(Topic.pop_many, self, OF_POP_MANY, others, words)
        return pop_first(self.engine, [self], limit, wait, ttr)

    # ── settling ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def finish(self, job: HasReceipt, *, result: Any = None) -> None:
        """Finishes the job: its work is done, and it is removed. Raises ``StaleReceipt`` when the reservation is over.

        ``result`` is kept with the job if the topic has ``keep_finished``: JSON of up to 64 KB. A result that is larger or cannot be
        encoded is not kept, but the job is still finished.
        """
        results = None if result is None else [job_verbs.settle.encode_result(result)]
        self._settle(job_verbs.settle.FINISH, [job], results=results)

    def finish_many(self, jobs: Sequence[HasReceipt]) -> None:
        """Finishes many jobs. If some receipts are not valid any more, the other jobs are finished, and then ``StaleReceipt``
        is raised.

        The error's ``reasons`` say for each refused job why it was refused.
        """
        self._settle(job_verbs.settle.FINISH, jobs)

    @hide_others
    def touch(self, job: HasReceipt, *others: Never, ttr: Duration | None = None) -> None:
        """Renews the reservation: it lasts ``ttr`` from now, by default the job's time to run. Raises ``StaleReceipt`` if the reservation
        is over already."""
        if others:
            refuse_others(Topic.touch, self, {}, others)
        self.engine.run(self.verbs.settle(job_verbs.settle.TOUCH, [job], ttr=ttr))

    @hide_others
    def touch_many(self, jobs: Sequence[HasReceipt], *others: Never, ttr: Duration | None = None) -> None:
        """Renews the reservations of many jobs, as ``touch`` does."""
        if others:
            refuse_others(Topic.touch_many, self, {}, others)
        self.engine.run(self.verbs.settle(job_verbs.settle.TOUCH, jobs, ttr=ttr))

    @hide_others
    def release(
        self, job: HasReceipt, *others: Never, delay: Duration | None = None, counted: bool = True, reason: str = ""
    ) -> None:
        """Puts the job back. It is due again after ``delay``; by default after a back-off that doubles with each attempt,
        from 1 s to 1 h.

        If this was its last attempt, the job is dead. With ``counted=False`` the attempt does not count, and the job is due
        at once unless you give a ``delay``. ``get`` shows the first line of ``reason`` as the job's reason, the rest as its error.
        """
        if others:
            refuse_others(Topic.release, self, {}, others)
        self._settle(job_verbs.settle.RELEASE, [job], delay=delay, counted=counted, reason=reason)

    @hide_others
    def release_many(
        self,
        jobs: Sequence[HasReceipt],
        *others: Never,
        delay: Duration | None = None,
        counted: bool = True,
        reason: str = "",
    ) -> None:
        """Puts many jobs back, as ``release`` does."""
        if others:
            refuse_others(Topic.release_many, self, {}, others)
        self._settle(job_verbs.settle.RELEASE, jobs, delay=delay, counted=counted, reason=reason)

    @hide_others
    def bury(self, job: HasReceipt, *others: Never, reason: str = "") -> None:
        """Sets a job aside as dead, with the reason in one line. ``kick`` brings it back."""
        if others:
            refuse_others(Topic.bury, self, {}, others)
        self._settle(job_verbs.settle.BURY, [job], reason=reason)

    @hide_others
    def bury_many(self, jobs: Sequence[HasReceipt], *others: Never, reason: str = "") -> None:
        """Sets many jobs aside as dead, with one reason. ``kick_many`` brings them back."""
        if others:
            refuse_others(Topic.bury_many, self, {}, others)
        self._settle(job_verbs.settle.BURY, jobs, reason=reason)

    def release_holder(self, holder: str, *, counted: bool = True, limit: int | None = None) -> int:
        """Releases all jobs of a process that is certainly dead. ``holder`` is its name, as ``get`` shows it for a job.

        The attempt counts, because a job may have killed the process: a job that has no attempt left is dead. With ``counted=False`` it does
        not count. ``limit`` is the most jobs that are released. Returns how many jobs were released.
        """
        return self.engine.run(self.verbs.release_holder(holder, counted, limit))

    @hide_others
    def touch_holder(self, holder: str, *others: Never, ttr: Duration) -> int:
        """Renews the reservations of all jobs of a living process that cannot renew them itself. Returns how many were renewed."""
        if others:
            refuse_others(Topic.touch_holder, self, {}, others)
        return self.engine.run(self.verbs.touch_holder(holder, ttr))

    # ── by id ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def kick(self, id: str) -> State | None:
        """Makes a dead job ready again; its attempts count from zero.

        Returns the state that the job was in, or ``None`` if there is no such job. Only a ``"dead"`` job is changed.
        """
        return (self.engine.run(self.verbs.by_id(job_verbs.by_id.KICK, [id])))[0]

    def kick_many(self, ids: Sequence[str]) -> list[State | None]:
        """Makes many dead jobs ready again, as ``kick`` does."""
        return self.engine.run(self.verbs.by_id(job_verbs.by_id.KICK, ids))

    def delete(self, id: str, *, running: bool = False, state: State | None = None) -> State | None:
        """Deletes the job, whatever its state is. A consumer that has the job gets an error when it settles the job.

        Returns the state that the job was in, or ``None`` if there is no such job. With ``running``, a worker that runs the job
        stops the run, within half of the job's time to run. With ``state``, the job is deleted only if it is in this
        state: ``state="dead"`` spares a job that was kicked meanwhile.
        """
        return (self.delete_many([id], running=running, state=state))[0]

    def delete_many(
        self, ids: Sequence[str], *, running: bool = False, state: State | None = None
    ) -> list[State | None]:
        """Deletes many jobs, as ``delete`` does."""
        if running and state is not None:
            raise BadInput("running, state: only reserved jobs run; give one of them.")
        if running:
            return self.engine.run(self.verbs.by_id(job_verbs.by_id.CANCEL, ids, running=True))
        return self.engine.run(self.verbs.by_id(job_verbs.by_id.DELETE, ids, state=state))

    def reschedule(self, id: str, *, delay: Duration | None = None, at: datetime | None = None) -> State | None:
        """Sets another due time for a delayed or ready job. Returns the state that the job was in, or ``None`` if
        there is no such job.

        A reserved or dead job is not changed: its holder may ``release`` a reserved job with a delay, and ``kick`` revives a
        dead one.
        """
        return (self.engine.run(self.verbs.by_id(job_verbs.by_id.RESCHEDULE, [id], delay=delay, at=at)))[0]

    def reschedule_many(
        self, ids: Sequence[str], *, delay: Duration | None = None, at: datetime | None = None
    ) -> list[State | None]:
        """Moves many waiting jobs to another due time, as ``reschedule`` does."""
        return self.engine.run(self.verbs.by_id(job_verbs.by_id.RESCHEDULE, ids, delay=delay, at=at))

    # ── views ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, id: str, *, wait: Duration | None = 0) -> JobInfo[T] | None:
        """Returns the job as it is now, or ``None`` if there is no such job. A finished job is returned as long as it is kept.

        With ``wait`` the call returns when the job is finished or dead, at the latest after this time.
        """
        if wait != 0:
            return self.engine.wait_until_ended(self.verbs, id, wait_seconds(wait))
        return (self.engine.run_view(self.verbs.get([id], True)))[0]

    def get_many(self, ids: Sequence[str]) -> list[JobInfo[T] | None]:
        """Looks up many jobs, as ``get`` does."""
        return self.engine.run_view(self.verbs.get(ids, True))

    def result(self, id: str, *, wait: Duration | None = 0, type: Any = Any) -> Any:
        """Returns the result of a finished job, decoded as ``type``. The topic or the task must have ``keep_finished``.

        ``wait``: how long to wait for the result; ``None``: without a limit.

        Raises ``NoResult`` when the job is not finished within ``wait``, is dead or unknown, or its result was not kept.
        """
        seconds = wait_seconds(wait)
        job = self.engine.wait_until_ended(self.verbs, id, seconds)
        if job is None:
            raise unknown_result(id, self.name)
        return result_of(job, type, waited=seconds > 0)

    def list(
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
        """Returns one page of jobs in the order of their due times. Reserved jobs are ordered by the end of their time to run, dead
        jobs by their death.

        ``state`` is a state of jobs, or ``"retrying"``: the delayed jobs that have failed before. Finished jobs are listed only with
        ``state="finished"``, in the order in which they will be forgotten. Give the page's ``cursor`` to get the
        next page. ``due_before`` leaves out jobs that are due at that moment or later. An unknown topic has no jobs.

        These search among the jobs: ``task`` by the task's name, ``error`` by a text in the reason, error or note, ``text`` by a text in the stored
        body, ``group`` by a group of dead jobs. A page of a search has the matches among the next thousand jobs, so it may be empty although
        more pages follow.
        """
        search = None
        if (task, error, text, group) != (None, None, None, None):
            from tarry.verbs.jobs.dead_groups import JobSearch  # no start imports it

            search = JobSearch(task, error, text, group).check(state)
        return self.engine.run_view(self.verbs.list(state, due_after, due_before, limit, cursor, search))

    def dead_groups(
        self,
        *,
        task: str | None = None,
        error: str | None = None,
        text: str | None = None,
        group: str | None = None,
        limit: int = 1000,
        cursor: str | None = None,
    ) -> DeadGroups:
        """Groups the dead jobs by their cause: jobs of a group have the same task, the same place in the code, and the same error, apart from
        numbers, ids, quoted text and addresses.

        One call reads up to ``limit`` dead jobs, in the order in which they died. ``task``, ``error``, ``text`` and ``group`` select jobs as for
        ``list``. The result says how many jobs are ``dead``, and how many of these were ``scanned``. To read on, call again with its ``cursor``, and
        add up the results. ``list("dead", group=…)`` returns the jobs of a group.
        """
        from tarry.verbs.jobs.dead_groups import JobSearch

        search = JobSearch(task, error, text, group).check("dead")
        return self.engine.run_view(self.verbs.dead_groups(search, limit, cursor))

    def ends(self, *, since: str | datetime | None = None, wait: Duration | None = None) -> Ends[T]:
        """Iterates over the ends of jobs in their order: each job that was finished, died, or was too late, and when.

        ``since`` says where to begin: after the end with this ``id``, at the ``position`` of an earlier iteration, or at a
        moment. The default is now. With ``wait`` the iteration stops when no job has ended for that time; with ``None`` it never stops.
        Each end comes once. To go on later, in any process, give the ``id`` of the last end. If ends after ``since`` are no longer kept, an
        ``UnknownEnds`` comes first, so ``keep_finished`` must be longer than a reader may be away. Raises ``NotKept`` if the topic has no
        ``keep_finished``.
        """
        from tarry.clients.blocking.ends import Ends  # no start imports it

        return Ends(self.engine, self.verbs, since, wait_seconds(wait))

    @overload
    def stats(self, *, key: None = None) -> Stats: ...
    @overload
    def stats(self, *, key: str) -> KeyStats: ...
    def stats(self, *, key: str | None = None) -> Stats | KeyStats:
        """Returns the numbers of the topic: jobs by state, due times, totals and lateness. An unknown topic has zeros.

        With ``key`` it returns the numbers of this key: its delayed, ready and reserved jobs, why they wait, and when the next job
        can be handed out.
        """
        if key is not None:
            return self.engine.run_view(self.verbs.key_stats(key))
        return self.engine.run_view(self.verbs.stats())

    def busiest_keys(self, limit: int = 10) -> tuple[KeyStats, ...]:
        """Returns the keys with the most jobs, in descending order. ``limit`` is at most 100.

        The call looks at 1,000 keys only. If there are more, keys with fewer than a thousandth of the jobs may be missing.
        """
        return self.engine.run_view(self.verbs.busiest_keys(limit))

    def histogram(
        self, *, start: Duration | datetime = 0, span: Duration = "1h", buckets: int = 60, past: Duration = 0
    ) -> Histogram:
        """Counts jobs by their due times: ``buckets`` of equal width over ``span``.

        The first bucket begins at ``start``: a moment, or a time from now. With ``past="1h"`` it begins an hour before now instead. An unknown
        topic has zeros.
        """
        return self.engine.run_view(self.verbs.histogram(start, span, buckets, past))

    def throughput(self, *, span: Duration = "1d") -> tuple[MinuteCounts, ...]:
        """Returns how many jobs were added, finished and dead, and how many attempts failed, in each minute of ``span`` until
        now, the oldest first.

        ``span`` is a week at most. For times more than a day ago, the numbers are per hour. Minutes and hours without numbers are left
        out. The server stores the numbers when jobs are popped, so jobs that were added while nobody popped count for the minute of
        the next pop.
        """
        return self.engine.run_view(self.verbs.throughput(span))

    def check(self) -> CheckReport:
        """Walks through the whole topic and reports jobs that are stored in no place, or in several. For tests, and for ``tarry
        doctor``.

        ``leaving`` and ``schedules_leaving`` of the report count the jobs and schedules that ``migrate`` is moving to another
        topic.
        """
        return self.engine.run(self.verbs.check())

    # ── settings ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def pause(self, duration: Duration | None = None, *, key: str | None = None) -> datetime | None:
        """Stops handing out jobs for ``duration``, or until ``resume``. With ``key`` it stops only jobs with this key.

        Returns the end of the pause; ``None`` if only ``resume`` ends it.
        """
        return self.engine.run(self.verbs.pause(duration, key))

    def resume(self, *, key: str | None = None) -> None:
        """Ends the pause of the topic; with ``key``, the pause of this key."""
        self.engine.run(self.verbs.resume(key))

    @hide_others
    def configure(
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
        retry_holds_key: bool | UnsetType | None = UNSET,
        **words: Never,
    ) -> TopicSettings:
        """Sets options of the topic and returns all of them. The change applies to all clients at once. An option that is not given stays
        as it is.

        For jobs without such an option of their own:

        ``ttr``  the time to run; ``None``: 60 s again
        ``max_attempts``  how often a job may be handed out; ``None``: without a limit
        ``max_lateness``  how late a job may be handed out; if it is later, it dies as ``too late``; ``None``: without a limit
        ``keep_dead``  how long dead jobs are kept; ``None``: forever
        ``keep_finished``  how long finished jobs are kept, with their results; ``None``: not at all

        For all jobs together; ``None`` removes a limit. Jobs that wait for a limit keep their order and their attempts:

        ``rate``  the most jobs that are handed out in a span of time: ``"100/1m"``, ``(100, "1m")``, or a number per second
        ``burst``  the most jobs that the rate allows at once after a quiet time; ``None``: as many as the rate allows in a tenth of a second
        ``concurrency``  the most jobs that are reserved at a time

        For producers. An ``add`` beyond one of these limits raises ``TopicFull``. A new limit of this kind applies to this client at once, and to
        others within a second:

        ``max_pending``  the most jobs that may wait, delayed and ready together
        ``max_pending_bytes``  the most bytes that the bodies of these jobs may have

        For jobs with a ``key``. A topic with partitions cannot have these options:

        ``key_concurrency``  the most jobs of one key that are reserved at a time
        ``key_rate``  the most jobs of one key that begin in a span of time, evenly spread
        ``fair``  whether the keys take turns, with one job each
        ``retry_holds_key``  whether the other jobs of a key wait while one of them waits for its retry, so that they keep their order
        """
        if words:
            refuse_others(Topic.configure, self, OF_CONFIGURE, words=words)
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
            retry_holds_key=retry_holds_key,
        )
        return self.engine.run(self.verbs.configure(given))

    def purge(self, state: StateFilter | None = None, *, key: str | None = None) -> int:
        """Deletes all jobs, or all jobs in a state. Returns how many jobs were deleted. Later receipts are still higher than those of the deleted
        jobs.

        ``key``  deletes only the delayed, ready and reserved jobs of this key. Dead and finished jobs stay, because they are not found by
                 their key. A pause of the key stays, too
        """
        return self.engine.run(self.verbs.purge(state, key))

    def _settle(self, verb: SettleVerb[P], jobs: Sequence[HasReceipt], *args: P.args, **options: P.kwargs) -> None:
        self.engine.run(self.verbs.settle(verb, jobs, *args, **options))
        for job in jobs:
            if isinstance(job, BaseJob):
                job.settled = True


def jobs_of(topic: Topic[T], taken: PoppedAt, raws: Sequence[RawJob]) -> list[Job[T]]:
    """The jobs of a pop's reply."""
    topic.keeps_finished = taken.keeps_finished
    return [Job((taken.receipt, taken.now, raw), topic) for raw in raws]


def pop_first(
    engine: HandleEngine, topics: Sequence[Topic[T]], limit: int, wait: Duration | None, ttr: Duration | None
) -> list[Job[T]]:
    """Up to ``limit`` jobs of the first topic that has any."""
    taken = engine.take([topic.verbs for topic in topics], limit, wait, ttr)
    return [job for at, reply, raws in taken for job in jobs_of(topics[at], reply, raws)]
