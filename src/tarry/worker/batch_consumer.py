"""Consumes a topic whose handler takes many jobs (batches.py): one call, one slot and one finish for a batch.

    a free slot ──pop──▶ the first jobs ──linger──▶ handler(jobs) ──▶ finish ──answer──▶ the slot is free
                                  pops that wait for more, until it is full or the time over

Jobs that linger are in hand and have not begun: they are renewed, and a worker that takes no more jobs puts them back, uncounted. A
slot is free when the server has answered the finish, not before: a process that is killed leaves no more than one batch of each slot
to be done again.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any

from tarry.clients.blocking.job import Job
from tarry.errors import TarryError
from tarry.values.durations import SECOND
from tarry.values.functions import refuse_unfinished
from tarry.verbs.jobs.job_values import BaseJob
from tarry.verbs.jobs.settle import encode_result
from tarry.worker import log_lines
from tarry.worker.batches import JobBatch
from tarry.worker.targets import Target, timeout_text
from tarry.worker.threads import ThreadPool
from tarry.worker.topic_consumer import TopicConsumer
from tarry.worker.verdicts import SAID, meant


class BatchConsumer(TopicConsumer):
    """Pops the jobs of one topic, and gives many of them to one call of its handler."""

    _batches = 0
    """How many have begun and are not settled yet: each has a slot."""

    @property
    def slots_in_use(self) -> int:
        """Slots with batches, or with one that is requested or lingers."""
        return self._batches + self._slots_requested + (0 if self._gate is None else self._gate.slots)

    @property
    def _has_own_slot(self) -> bool:
        return self._batches < self.slots

    @property
    def has_work(self) -> bool:
        """Whether a batch runs or is being settled. One that lingers is no reason for another topic to wait."""
        return bool(self._batches or self.settler.background)

    def busy_slots(self, jobs: int) -> int:  # noqa: ARG002  # here a slot is busy with many
        return self._batches

    # ── gathering ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _max_jobs(self, now: float) -> int:  # noqa: ARG002  # it takes none ahead
        self._enough = sys.maxsize  # whatever ends, it looks again
        return self.jobs_a_slot if self._has_own_slot else 0

    async def _pop(self, max_jobs: int, wait: float | None, *, at_once: bool) -> Sequence[BaseJob[Any]]:
        """A batch: its first jobs, and those that come until it is full or has lingered."""
        assert self.batching is not None
        self.firsts = {job: first for job, first in self.firsts.items() if job in self.running}
        batch = self._gather(await super()._pop(max_jobs, wait, at_once=at_once), [])
        engine: Any = self.topic.engine  # a worker has no other than a server's
        seconds: Callable[[], float] = engine.seconds
        until = seconds() + self.batching.linger_us / SECOND
        waits = self.idle_check is None or self.idle_check.in_real_time
        try:
            while 0 < len(batch) < max_jobs and (left := until - seconds()) > 0:
                more = await self._pop_more(max_jobs - len(batch), left if waits else 0)
                if not more:
                    break
                batch = self._gather(more, batch)
        except asyncio.CancelledError:
            lingered = self._take_waiting()
            self.not_begun += len(lingered)
            self.settler.spawn(self.settler.put_back(lingered))
            raise
        return batch

    async def _pop_more(self, max_jobs: int, wait: float) -> Sequence[BaseJob[Any]]:
        with suppress(TarryError):  # the batch begins with what there is, and the next pop says what is wrong
            return await self._unless_paused(self.topic.pop_many(max_jobs, wait=wait, ttr=self.ttr))
        return []

    def _gather(self, jobs: Sequence[BaseJob[Any]], batch: Sequence[BaseJob[Any]]) -> list[BaseJob[Any]]:
        """The batch, and jobs that came for it; without those that were lost or put back meanwhile."""
        if not jobs:
            return [*batch]
        held = [job for job in batch if job in self.running]
        whole = [*held, *self._take_in_hand(jobs, asyncio.get_running_loop())]
        self.firsts.update(dict.fromkeys(whole, whole[0]))
        return whole

    # ── running ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _take(self, jobs: Sequence[BaseJob[Any]], loop: asyncio.AbstractEventLoop) -> None:
        """Gives a batch to the handler, without the jobs that were lost meanwhile."""
        for job in jobs:
            if job.lost:
                self.running.pop(job, None)
        jobs = [job for job in jobs if job in self.running]
        if not jobs or self._pausing:
            return  # they are put back once the topic is paused
        batch, target = JobBatch(jobs), self.target_of(jobs[0])
        self._batches += 1
        self.busy += len(jobs)
        self._note_for_idle_check()
        self.tally.add_taken(jobs)
        if log_lines.debug_enabled():
            log_lines.log_taken(jobs)
            self._started_at.update(dict.fromkeys(jobs, perf_counter()))
        if target.is_async:
            self.running.update(dict.fromkeys(jobs, loop.create_task(self._run_batch(batch, target))))
            return
        threads = self._threads or self._start_threads()
        self.running.update(dict.fromkeys(jobs, threads))
        threads.run(batch, target.call, self._batches)
        if target.timeout_s is not None:
            self._timers[jobs[0]] = loop.call_later(target.timeout_s, self._batch_timed_out, batch, target)

    async def _run_batch(self, batch: JobBatch, target: Target) -> None:
        fault: BaseException | None = None
        try:
            refuse_unfinished(await target.call(batch), is_async=True)
        except BaseException as raised:  # the verdicts decide what follows
            fault = raised
            if isinstance(raised, KeyboardInterrupt):
                raise
        finally:
            task = asyncio.current_task()
            stopped = isinstance(fault, asyncio.CancelledError) and task is not None and task.cancelling() > 0
            self._batch_ended(batch, target, fault, stopped=stopped)

    def thread_ended(self, ran: JobBatch, fault: BaseException | None) -> None:
        target = self.target_of(ran.jobs[0])
        if ran.jobs[0] in self._timers:
            self._timers.pop(ran.jobs[0]).cancel()
        overran = [job for job in ran.jobs if self.overruns.pop(job, None) is not None]
        for job in overran:
            job.lost = False  # it was renewed all the time: this attempt is settled now
        said = fault is not None and isinstance(meant(fault), SAID)  # what happens to its jobs, even after its timeout
        if overran and (fault is None or isinstance(fault, Exception)) and not said:
            assert target.timeout_s is not None
            late = TimeoutError(timeout_text(target.name, target.timeout_s))
            late.__cause__, fault = fault, late
        self._batch_ended(ran, target, fault, stopped=False)

    def _batch_timed_out(self, batch: JobBatch, target: Target) -> None:
        overran = [job for job in batch.jobs if isinstance(job, Job) and self._note_overrun(job)]
        if overran:
            assert target.timeout_s is not None
            log_lines.log_overrun(overran[0], target.name, target.timeout_s, len(overran))

    def _batch_ended(self, batch: JobBatch, target: Target, fault: BaseException | None, *, stopped: bool) -> None:
        held = [job for job in batch.jobs if job in self.running]
        if not held:
            self._batches -= 1
            return  # released while it ran
        errors = batch.errors(fault)
        for job in held:
            if job in errors:
                self._started_at.pop(job, None)
            self._job_ended(job, target)
        self.settler.lost_raised({job: errors[job] for job in held if job.lost and job in errors})
        held = [job for job in held if not job.lost]
        if stopped or isinstance(fault, KeyboardInterrupt):
            self.settler.spawn(self._settle_batch(self.settler.give_back(held)))
            return
        done = [job for job in held if job not in errors and not job.settled]
        settling: list[Coroutine[Any, Any, object]] = []
        if failed := {job: errors[job] for job in held if job in errors}:
            settling.append(self.settler.failed_many(failed, target))
        if done:
            keep = target.keep_finished
            results = None if keep is None else [encode_result(None, keep)] * len(done)
            settling.append(self.settler.finish(done, results))
        self.settler.spawn(self._settle_batch(*settling))

    async def _settle_batch(self, *settling: Coroutine[Any, Any, object]) -> None:
        try:
            await asyncio.gather(*settling)
        finally:
            self._batches -= 1
            self._free()

    # ── stopping ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _stop_run(self, job: BaseJob[Any], target: Target) -> None:
        """A job was cancelled. The others of its batch go on."""
        if self.running[job] is None:
            super()._stop_run(job, target)

    def _cancel_queued(self, threads: ThreadPool[Any]) -> list[BaseJob[Any]]:
        queued: list[JobBatch] = threads.cancel_queued()
        jobs = [job for batch in queued for job in batch.jobs]
        for job in jobs:
            self.running.pop(job, None)
        return jobs
