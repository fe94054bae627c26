"""Settles the jobs of one topic of a worker: finishes the done ones in batches, releases or buries the failed ones.

done ──▶ finish_many, in the loop turn of the next pop         failed ──▶ verdict ──▶ due again, or dead

A request that the server refuses is retried until it is answered. Its jobs take slots meanwhile: a topic pops no more jobs
than it can settle.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from msgspec import UNSET, UnsetType

from tarry.clients.awaited.topic import AsyncTopic
from tarry.clients.blocking.topic import Topic
from tarry.clients.config import server_verbs
from tarry.connections.background import failures
from tarry.core.requests import Flow, ScriptCall, flow_of
from tarry.errors import BadInput, StaleReceipt, TarryError
from tarry.verbs.jobs import precedence
from tarry.verbs.jobs.job_fields import given_max_attempts
from tarry.verbs.jobs.job_values import BaseJob, JobInfo
from tarry.verbs.jobs.precedence import MAX_ATTEMPTS
from tarry.verbs.jobs.records import pack_fault
from tarry.verbs.jobs.settle import FINISH, NO_RESULT, Failure, encode_result
from tarry.worker import log_lines
from tarry.worker.outage import Outage, ServerHealth
from tarry.worker.targets import Target
from tarry.worker.verdicts import JobDied, Pause, Verdict, decide, meant, pauses_topic, remembered_tracebacks

Job = BaseJob[Any]
T = TypeVar("T")


class Settlement(NamedTuple):
    """The decision about a failed attempt, and its cause. ``max_attempts`` is the handler's, if that counts."""

    verdict: Verdict
    fault: BaseException
    max_attempts: int | UnsetType | None

    def failure(self, job: Job) -> Failure:
        verdict, limit = self.verdict, self.max_attempts
        if verdict.pause_us or verdict.pause_key_us:
            return Failure(job, b"@%d" % job.due_us, pack_fault(verdict.reason), counted=False)
        due_time = None if verdict.delay_us is None else b"%d" % verdict.delay_us
        reason = f"{verdict.reason}\n{verdict.error}" if verdict.error else verdict.reason
        unseen_us = None if verdict.seen else job.popped_us - job.due_us
        return Failure(job, due_time, pack_fault(reason, verdict.note), verdict.counts, limit, unseen_us)


async def finish_with_results(topic: AsyncTopic[Any], jobs: list[Job], results: list[bytes] | None) -> None:
    """Finishes jobs. ``results``: as ``encode_result`` returns them, one for each job."""
    if results is None:
        return await topic.finish_many(jobs)
    await topic.engine.run(topic.verbs.settle(FINISH, jobs, results=results))
    for job in jobs:
        job.settled = True
    return None


def _handlers_limit(job: Job, target: Target) -> int | UnsetType | None:
    """The attempts that the handler allows, if the job says nothing itself."""
    own = given_max_attempts(job.head.max_attempts)
    decided = precedence.decide(MAX_ATTEMPTS, {"job": own, "handler": target.max_attempts})
    return target.max_attempts if decided.level == "handler" else UNSET


class Settler:
    """Settles one topic's jobs in background tasks, which ``TopicConsumer.stop`` awaits."""

    def __init__(self, topic: AsyncTopic[Any], blocking: Topic[Any], outage: Outage) -> None:
        self.topic = topic
        self.blocking = blocking
        self.tally = log_lines.Tally(topic.name)
        self._outage = outage
        self._health = ServerHealth(outage)
        self.unanswered = 0
        """How many jobs wait to be settled because the server refused the request."""
        self.on_answered: Callable[[], None] = lambda: None
        """Called when some of them were settled: their slots are free."""
        self.on_ended: Callable[[], None] = lambda: None
        """Called when a request of the background has ended."""
        self.overruns: dict[Job, float] = {}
        """Jobs whose plain function has taken longer than its timeout and still runs, and when that was noticed (monotonic)."""
        self.done: list[Job] = []
        self.results: dict[Job, bytes] = {}
        """The results of done jobs that will be kept."""
        self.unknown_lines: Callable[[], tuple[str, ...]] = tuple
        self.unknown_names: Callable[[], tuple[str, ...]] = tuple
        """The lines of the worker's report about tasks of this topic that this worker does not know."""
        self.background: set[asyncio.Task[Any]] = set()
        self.ending = False
        self._loop = asyncio.get_running_loop()
        self.on_pausing: Callable[[], None] = lambda: None
        """Called in the event loop when a job pauses the topic, before the server is asked to."""
        self.on_paused: Callable[[], None] = lambda: None
        """Called in the event loop when that is over, whatever came of it."""
        self.paused_until_us = 0
        """The end of the last pause that the server has confirmed, in its time."""
        self._paused_at_us = 0

    def spawn(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.background.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self.background.discard(task)
        self.on_ended()
        failures.task_ended("tarry settling", task)  # its jobs come back after their TTR

    def flush(self) -> None:
        """Finishes the done jobs, in the background."""
        if self.done:
            jobs, self.done = self.done, []
            results = [self.results.pop(job, NO_RESULT) for job in jobs] if self.results else None
            self.spawn(self.finish(jobs, results))

    def note_result(self, job: Job, target: Target, result: Any) -> None:
        """Notes the result of a handler, if the topic or the handler keeps finished jobs."""
        if target.keep_finished is not None or (result is not None and self.topic.keeps_finished):
            self.results[job] = encode_result(result, target.keep_finished)

    async def finish(self, jobs: list[Job], results: list[bytes] | None) -> None:
        """Finishes jobs in one request. ``results``: as ``encode_result`` returns them, one for each."""
        try:
            await self._until_answered(len(jobs), lambda: finish_with_results(self.topic, jobs, results))
        except StaleReceipt as fault:
            log_lines.log_stale(self.topic.name, fault)
            self.tally.lost += len(fault.reasons)
            self.tally.done += len(jobs) - len(fault.reasons)
        except TarryError as fault:
            self._outage.report(fault)  # they come back after their TTR
        else:
            self.tally.done += len(jobs)

    async def _until_answered(self, jobs: int, ask: Callable[[], Awaitable[T]]) -> T:
        """Retries until the server answers, or refuses for good; while the worker stops, tries once. Raises a ``TarryError``."""
        held = 0
        try:
            while True:
                try:
                    answer = await ask()
                except (StaleReceipt, BadInput):
                    self._health.succeeded()
                    raise
                except TarryError as fault:
                    if self.ending:
                        raise
                    if not held:
                        held = jobs
                        self.unanswered += jobs
                    await self._health.back_off(fault)
                else:
                    self._health.succeeded()
                    return answer
        finally:
            if held:
                self.unanswered -= held
                self.on_answered()

    async def read(self, job: Job) -> JobInfo[Any] | None:
        """The job as the last worker left it, not from a replica. Retries until the server answers; while the worker stops, tries once."""
        found = await self._until_answered(1, lambda: self.topic.engine.run(self.topic.verbs.get([job.id], False)))
        return found[0]

    def unsettled(self, error: TarryError) -> None:
        """A job could not be settled: it comes back after its TTR."""
        self._outage.report(error)

    async def put_back(self, jobs: Sequence[Job]) -> None:
        """Puts back jobs that no handler saw to where they were, as if they had not been handed out."""
        if not jobs:
            return
        try:
            await self.topic.engine.run(server_verbs(self.topic).give_back(jobs, [job.due_us for job in jobs]))
        except TarryError as fault:
            self._outage.report(fault)  # they come back after their TTR

    async def give_back(self, jobs: Sequence[Job]) -> None:
        """Releases jobs at once, without counting the attempt."""
        jobs = [job for job in jobs if not job.settled]
        if not jobs:
            return  # no request without a job: the server may be unusable
        try:
            await self.topic.release_many(jobs, delay=0, counted=False)
        except StaleReceipt as fault:
            log_lines.log_stale(self.topic.name, fault)
        except TarryError as fault:
            self._outage.report(fault)  # they come back after their TTR

    # ── failures ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def failed(self, job: Job, target: Target, fault: BaseException) -> Coroutine[Any, Any, bool]:
        """Settles a failed job by its verdict: a coroutine that returns whether the job is dead. From this call on the topic is being
        paused, if that is the verdict."""
        fault = meant(fault)
        return self._while_pausing(pauses_topic(job, fault) and not job.settled, self._settle(job, target, fault))

    def failed_many(self, errors: Mapping[Job, BaseException], target: Target) -> Coroutine[Any, Any, None]:
        """The same for jobs of a batch, each with its error: in few requests, and with few lines in the log."""
        errors = {job: meant(fault) for job, fault in errors.items()}
        pauses = any(pauses_topic(job, fault) and not job.settled for job, fault in errors.items())
        return self._while_pausing(pauses, self._settle_many(errors, target))

    def lost_raised(self, errors: Mapping[Job, BaseException]) -> None:
        """Jobs that are another consumer's by now have raised these: there is nothing to settle, but a pause still holds."""
        said = {job: meant(fault) for job, fault in errors.items() if not job.settled}
        pauses = {
            job: Settlement(decide({}, job, fault, 0.0), fault, UNSET)
            for job, fault in said.items()
            if isinstance(fault, Pause)
        }
        if pauses and not self.ending:
            pauses_all = any(decision.verdict.pause_us for decision in pauses.values())
            self.spawn(self._while_pausing(pauses_all, self._pause_alone(pauses)))

    async def _pause_alone(self, decisions: Mapping[Job, Settlement]) -> None:
        try:
            await self._until_answered(0, lambda: self.topic.engine.run(self._pause(decisions, are_lost=True)))
        except TarryError as error:
            self._outage.report(error)

    def _while_pausing(self, pauses: bool, settling: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Notes that the topic is being paused until this ends, if it is."""
        if not pauses:
            return settling
        self.on_pausing()

        async def pausing() -> T:
            try:
                return await settling
            finally:
                self.on_paused()

        return pausing()

    async def _settle(self, job: Job, target: Target, fault: BaseException) -> bool:
        if job.settled:
            return self._raised_after_settling(job, fault)
        limit = _handlers_limit(job, target)
        return await self.apply(job, decide(target.retry, job, fault, random.random(), limit), fault, limit)

    async def _settle_many(self, errors: Mapping[Job, BaseException], target: Target) -> None:
        text_of, verdicts, settled = remembered_tracebacks(), dict[Job, Settlement](), list[Job]()
        for job, fault in errors.items():
            if job.settled:
                settled.append(job)
                continue
            limit = _handlers_limit(job, target)
            verdicts[job] = Settlement(decide(target.retry, job, fault, random.random(), limit, text_of), fault, limit)
        if settled:
            self.tally.done += len(settled)
            log_lines.log_raised_after_settling(settled, errors[settled[0]])
        pausing = {job: decision for job, decision in verdicts.items() if decision.verdict.pause_us}
        others = {job: decision for job, decision in verdicts.items() if job not in pausing}
        await asyncio.gather(*[self._apply_many(some) for some in (pausing, others) if some])

    async def _apply_many(self, decisions: Mapping[Job, Settlement]) -> None:
        """Pauses the topic, if that is their verdict, and settles the jobs."""
        dead: dict[Job, bool] = {}
        try:
            await self._until_answered(
                len(decisions), lambda: self.topic.engine.run(self._operation_of_many(decisions, dead))
            )
        except StaleReceipt as error:
            for job in decisions.keys() - dead.keys():
                job.lost = True
            self.tally.lost += len(error.reasons)
            log_lines.log_stale(self.topic.name, error)
        except BadInput:  # of one of them, such as a delay beyond the year 9999
            for job, (verdict, fault, limit) in decisions.items():
                if job not in dead:
                    await self.apply(job, verdict, fault, limit)
        except TarryError as error:
            self.unsettled(error)
        self._note_verdicts({job: decisions[job] for job in dead}, dead)

    async def apply(
        self, job: Job, verdict: Verdict, fault: BaseException, max_attempts: int | UnsetType | None = UNSET
    ) -> bool:
        """Releases the job or sets it aside; ``max_attempts`` is its handler's, if that counts. Returns whether it is dead."""
        decision = Settlement(verdict, fault, max_attempts)
        try:
            dead = await self._until_answered(1, lambda: self.topic.engine.run(self._operation(job, decision)))
        except TarryError as error:
            return self._refused(job, error)
        return self._note_verdicts({job: decision}, {job: dead})

    def failed_blocking(self, job: Job, target: Target, fault: BaseException) -> bool:
        """Decides on a job that failed, and settles it from the thread in which it ran. Returns what ``failed`` returns."""
        if job.settled:
            return self._raised_after_settling(job, fault)
        limit, fault = _handlers_limit(job, target), meant(fault)
        decision = Settlement(decide(target.retry, job, fault, random.random(), limit), fault, limit)
        if decision.verdict.pause_us:
            self._call_in_loop(self.on_pausing)
        try:
            dead = self.blocking.engine.run(self._operation(job, decision))
        except TarryError as error:
            return self._refused(job, error)
        finally:
            if decision.verdict.pause_us:
                self._call_in_loop(self.on_paused)
        return self._note_verdicts({job: decision}, {job: dead})

    def _call_in_loop(self, call: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nothing of this worker waits any more
            self._loop.call_soon_threadsafe(call)

    def _raised_after_settling(self, job: Job, fault: BaseException) -> bool:
        """The handler settled its job and then raised: there is nothing to settle, only something to log."""
        self.tally.done += 1
        log_lines.log_raised_after_settling([job], fault)
        return False

    async def settle(self, job: Job, target: Target, fault: BaseException) -> None:
        """Settles a failed job inside its middleware. Raises ``JobDied`` when that was the job's end."""
        if await self.failed(job, target, fault):
            raise JobDied(f"{job.topic}/{job.id} is dead", fault) from fault

    def settle_blocking(self, job: Job, target: Target, fault: BaseException) -> None:
        if self.failed_blocking(job, target, fault):
            raise JobDied(f"{job.topic}/{job.id} is dead", fault) from fault

    def _operation(self, job: Job, decision: Settlement) -> ScriptCall[bool] | Flow[bool]:
        if decision.verdict.pause_us or decision.verdict.pause_key_us:
            return self._pause_first({job: decision}, {})
        return server_verbs(self.topic).fail(*decision.failure(job))

    def _operation_of_many(self, decisions: Mapping[Job, Settlement], dead: dict[Job, bool]) -> Flow[object]:
        if any(one.verdict.pause_us or one.verdict.pause_key_us for one in decisions.values()):
            return self._pause_first(decisions, dead)
        return server_verbs(self.topic).fail_many([decision.failure(job) for job, decision in decisions.items()], dead)

    def _pause_first(self, decisions: Mapping[Job, Settlement], dead: dict[Job, bool]) -> Flow[bool]:
        """Pauses the topic, and then puts the jobs back, so that nobody gets one between the two."""
        yield from self._pause(decisions)
        yield from server_verbs(self.topic).fail_many(
            [decision.failure(job) for job, decision in decisions.items()], dead
        )
        return False

    def _pause(self, decisions: Mapping[Job, Settlement], *, are_lost: bool = False) -> Flow[None]:
        verbs, spans, of_keys = server_verbs(self.topic), dict[str, int](), dict[Job, Settlement]()
        for job, decision in decisions.items():
            if decision.verdict.pause_key_us and job.key is not None:
                of_keys[job] = decision
                spans[job.key] = max(decision.verdict.pause_key_us, spans.get(job.key, 0))
        for key, span_us in spans.items():
            until_us = yield from flow_of(verbs.pause_at_least(span_us, key))
            some = [job for job in of_keys if job.key == key]
            log_lines.log_key_paused(some, key, of_keys[some[0]].verdict.reason, until_us)
        decisions = {job: decision for job, decision in decisions.items() if job not in of_keys}
        if not decisions:
            return
        longest = max((decision.verdict for decision in decisions.values()), key=attrgetter("pause_us"))
        self.paused_until_us = yield from flow_of(verbs.pause_at_least(longest.pause_us))
        is_known = all(job.popped_us <= self._paused_at_us for job in decisions)
        log_lines.log_paused([*decisions], longest.reason, self.paused_until_us, is_known=is_known, are_lost=are_lost)
        self._paused_at_us = self.paused_until_us - longest.pause_us

    def _note_verdicts(self, decisions: Mapping[Job, Settlement], dead: Mapping[Job, bool]) -> bool:
        """Notes and logs what became of jobs. Returns whether the last one is dead."""
        is_dead = False
        by_line: dict[Any, dict[Job, Verdict]] = {}
        for job, (verdict, fault, _) in decisions.items():
            job.settled, is_dead = True, dead[job]
            self.tally.dead += is_dead
            self.tally.retried += not is_dead
            if not verdict.pause_us and not verdict.pause_key_us:
                by_line.setdefault((is_dead, verdict.counts, type(fault)), {})[job] = verdict
        for (died, *_), some in by_line.items():
            log_lines.log_failed(some, decisions[next(iter(some))].fault, dead=died)
        return is_dead

    def _refused(self, job: Job, error: TarryError) -> bool:
        if isinstance(error, StaleReceipt):
            job.lost = True
            self.tally.lost += 1
            log_lines.log_stale(self.topic.name, error)
        elif isinstance(error, BadInput):
            log_lines.log_refused(job, error)  # a delay beyond the year 9999, say: it comes back after its TTR
        else:
            self._outage.report(error)  # it comes back after its TTR
        return False
