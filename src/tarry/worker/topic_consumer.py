"""Consumes one topic: pops jobs for the free slots and runs their handlers.

    slots   ██████████▒▒▒▒▒▒┄┄┄┄        pop ──▶ start ──▶ done ──▶ finish, in the loop turn of the next pop: one pipeline
            running   being  free        ▲                          │
                      popped             └──────────────────────────┘

While there is a backlog (the last pop was full) it pops again at once, half of what it may have in hand at a time (at most 500
jobs, or 200 beside other topics), and sends that pop before it runs the handlers of the last one: server and handlers work at the same time. Otherwise the pop waits (the
watch). Fast handlers have more in hand than slots: the others wait here until a job ends (in_hand.py).

Each async handler runs in a task of its own. Running those that never suspend one after the other in one task was tried:
0.8 instead of 3.0 µs a job on Python 3.11, of 7.5 µs that the process spends while the server, on its own core, spends
6.5. It would hardly be faster, and a handler's context variables would leak into the next job. Plain handlers run in
threads (threads.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
from time import monotonic, perf_counter
from typing import Any

from tarry.clients.awaited.topic import jobs_of
from tarry.clients.blocking.job import Job
from tarry.errors import BadInput, TarryError
from tarry.values.durations import SECOND, Duration
from tarry.values.functions import refuse_unfinished
from tarry.verbs.jobs.job_values import BaseJob
from tarry.verbs.jobs.pop import MOST_JOBS
from tarry.worker import in_hand, log_lines
from tarry.worker.idle_check import IdleCheck
from tarry.worker.in_hand import JobsInHand, LongestTimes
from tarry.worker.outage import Outage, ServerHealth
from tarry.worker.process_pool import NotBegun, ProcessPool
from tarry.worker.settler import Settler
from tarry.worker.slots import JobQuota, SlotGroup, SlotPool, WaitGate, slots_for
from tarry.worker.targets import Target
from tarry.worker.threads import ThreadPool

logger = logging.getLogger("tarry.worker")
CLEAN_UP_TIMEOUT_S = 1.0
"""How long a cancelled handler may take to clean up before its job is released."""
Running = asyncio.Task[None] | ThreadPool[Any] | None
"""The runner of a job: its task or the thread pool; ``None`` before it starts."""


class TopicConsumer:
    """Pops and runs the jobs of one topic. It awaits nothing of tarry's own for a single job."""

    def __init__(
        self,
        settler: Settler,
        pick: Callable[[BaseJob[Any]], Target] | Target,
        *,
        slots: int,
        weight: float = 1.0,
        ttr: Duration,
        outage: Outage,
        most_in_hand: int,
        slot_pool: SlotPool | None = None,
        group: SlotGroup | None = None,
        processes: ProcessPool | None = None,
        threads: ThreadPool[Any] | None = None,
    ) -> None:
        self.settler = settler
        self.topic = settler.topic
        self.blocking = settler.blocking
        self.tally = settler.tally
        self.slots = slots
        self.weight = weight
        self.group = group
        self.ttr = ttr
        self.running: dict[BaseJob[Any], Running] = {}
        """The jobs in hand."""
        self.busy = 0
        """How many of them have begun."""
        self._waiting: deque[BaseJob[Any]] = deque()
        self._in_hand = JobsInHand(slots, most_in_hand)
        self.longest = LongestTimes()
        self._server_ahead_us = 0.0
        """The server's time at the last pop, less this process's."""
        self._wait_check: asyncio.TimerHandle | None = None
        self.only_target = pick if isinstance(pick, Target) else None
        self.batching = self.only_target.batching if self.only_target else None
        self.jobs_a_slot = self.batching.most if self.batching else 1
        self.firsts: dict[BaseJob[Any], BaseJob[Any]] = {}
        """Of the jobs of batches, the first one of their batch: their age is its age (batch_consumer.py)."""
        self._pick = pick
        self._health = ServerHealth(outage)
        self._slot_pool = slot_pool
        self._slots_requested = 0
        self._gate: WaitGate | None = None
        self._processes = processes
        self._threads = threads
        self._shares_threads = threads is not None
        self._freed: asyncio.Future[None] | None = None
        self._enough = 0
        self._idle: asyncio.Future[None] | None = None
        self._backlog = False
        """Whether the last pop was full."""
        self._popping = False
        self._flushing = False
        self._started_at: dict[BaseJob[Any], float] = {}
        self._timers: dict[BaseJob[Any], asyncio.TimerHandle] = {}
        self.overruns = settler.overruns
        self.on_popped: Callable[[Sequence[BaseJob[Any]]], None] = lambda jobs: None
        """Called with the jobs that were popped; the renewal thread sets it (renewal.py)."""
        self.idle_check: IdleCheck | None = None
        """With it, it ends when nothing is due and nothing runs."""
        self.active: dict[TopicConsumer, None] = {}
        """Those of the worker's topics that had jobs, the last ones last."""
        self.quota: JobQuota | None = None
        """How many jobs the process may still take; ``None`` is any number."""
        self.key_limits: Mapping[str, Any] = {}
        """The settings for each key that the topic is given before the first pop."""
        self._pausing = 0
        """How many jobs are pausing the topic now: until the server has answered, nothing is popped and nothing begins."""
        self._may_go_on = asyncio.Event()
        self._may_go_on.set()
        self._in_pop = False
        self._pop_is_old = False
        """Whether the pop that is under way began before a pause was known: its jobs may have been handed out before."""
        self.not_begun = 0
        """How many jobs that lingered went back when its pop was cut off, since it last began to take jobs."""
        self._not_begun: list[BaseJob[Any]] = []
        """Jobs that no child process had begun with when the pause came."""
        settler.on_pausing, settler.on_paused = self._begin_none, self._go_on
        settler.on_answered = self._free
        settler.on_ended = self._note_for_idle_check
        if slot_pool is not None:
            slot_pool.add_user(group)

    @property
    def own_slots(self) -> int:
        """Slots that no other topic of the worker takes."""
        return self.slots if self._slot_pool is None else self._slot_pool.own_slots(self, self.slots)

    @property
    def slots_in_use(self) -> int:
        """Slots with running jobs, or with jobs that were requested."""
        requested = self._slots_requested if self._gate is None else self._gate.slots
        return len(self.running) + requested + self.settler.unanswered

    @property
    def _has_own_slot(self) -> bool:
        """Whether it has fewer jobs in hand than slots: then it lacks one of the worker's."""
        return len(self.running) + self.settler.unanswered < self.slots

    @property
    def has_work(self) -> bool:
        """Whether a job runs or is being settled."""
        return bool(self.running or self.settler.done or self.settler.background)

    @property
    def jobs_begun(self) -> list[BaseJob[Any]]:
        """The jobs whose handlers run. It may be read in another thread: ``list()`` is atomic."""
        return [job for job in list(self.running) if self.running.get(job) is not None]

    def busy_slots(self, jobs: int) -> int:
        """How many slots are busy, when so many jobs have begun."""
        return jobs

    def target_of(self, job: BaseJob[Any]) -> Target:
        """The handler or task that the job is for."""
        return self._pick if isinstance(self._pick, Target) else self._pick(job)

    # ── the loop ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Pops jobs and starts their handlers, forever or until nothing is due and nothing runs. Cancelling it leaves the handlers
        running."""
        loop, idle_check = asyncio.get_running_loop(), self.idle_check
        self._backlog, self.not_begun = False, 0
        await self._limit_keys()
        while True:
            await self._may_go_on.wait()
            wait = None if idle_check is None else idle_check.wait
            # with a short pop it learns whether the server is there
            at_once = self._backlog or not self._health.healthy or wait == 0
            max_jobs = self._granted_jobs(loop.time(), at_once=at_once)
            if max_jobs <= 0:
                self.settler.flush()
                await self._wait_for_slot()
                continue
            self.settler.flush()
            self._popping = self._backlog  # then jobs that are done meanwhile are finished together with the next pop
            happened = 0 if idle_check is None else idle_check.happened
            try:
                jobs = await self._pop(max_jobs, wait, at_once=at_once)
            except TarryError as fault:
                self._popping = self._backlog = False
                self._leave_slots()
                if not self._health.should_retry(fault):
                    raise
                await self._health.back_off(fault)
                continue
            except asyncio.CancelledError:
                self._popping = False
                self._leave_slots()
                self.settler.flush()  # there is no next pop to send it with
                raise
            asked, self._slots_requested, self._popping = self._slots_requested, 0, False
            refused, self._gate = self._gate is not None and self._gate.refused, None
            self._health.succeeded()
            self._backlog = 0 < asked * self.jobs_a_slot == len(jobs)
            if self.quota is not None:
                self.quota.take(len(jobs))
            if jobs:
                self._take(jobs, loop)
            if self._slot_pool is not None and len(jobs) < asked:
                self._slot_pool.slot_freed()
            if refused:
                await self._wait_for_slot()
            elif not jobs and idle_check is not None and await idle_check.found_nothing(self, happened, waits=True):
                self._leave_slots()
                return

    async def _limit_keys(self) -> None:
        """Gives the topic the limits for each key that its handler or its tasks have, once."""
        while self.key_limits:
            try:
                await self.topic.configure(**self.key_limits)
            except TarryError as fault:
                if isinstance(fault, BadInput) and self._shares_threads:  # one topic of a pattern: the others go on
                    logger.warning("✗ %s has no limits for each key: %s", self.topic.name, fault)
                elif self._health.should_retry(fault):
                    await self._health.back_off(fault)
                    continue
                else:
                    raise
            self.key_limits = {}

    def _note_for_idle_check(self) -> None:
        if self.idle_check is not None:
            self.idle_check.note(self)

    def _granted_jobs(self, now: float, *, at_once: bool) -> int:
        """How many jobs to pop now, as far as the worker's slots and the quota allow. A pop that waits takes slots when there are jobs."""
        max_jobs = self._max_jobs(now)
        if self.quota is not None:
            max_jobs = min(max_jobs, self.quota.left)
        slots = slots_for(max(max_jobs, 0), self.jobs_a_slot)
        if self._slot_pool is None or not slots:
            self._slots_requested = slots
        elif at_once:
            self._slots_requested = self._slot_pool.take(self, slots, greedy=self._backlog)
            max_jobs = min(max_jobs, self._slots_requested * self.jobs_a_slot)
        return max_jobs

    async def _pop(self, max_jobs: int, wait: float | None, *, at_once: bool) -> Sequence[BaseJob[Any]]:
        return await self._unless_paused(self._pop_many(max_jobs, wait, at_once=at_once))

    async def _unless_paused(self, pop: Awaitable[Sequence[BaseJob[Any]]]) -> Sequence[BaseJob[Any]]:
        """Returns the jobs that are popped. If a job pauses the topic meanwhile, those that were handed out before go back."""
        self._in_pop, self._pop_is_old = True, False
        try:
            jobs = await pop
        finally:
            self._in_pop = False
        if self._pop_is_old and jobs and jobs[0].popped_us < self.settler.paused_until_us:
            self.settler.spawn(self.settler.put_back(jobs))
            return []
        return jobs

    async def _pop_many(self, max_jobs: int, wait: float | None, *, at_once: bool) -> Sequence[BaseJob[Any]]:
        if self._slot_pool is None or at_once:
            return await self.topic.pop_many(max_jobs, wait=0 if at_once else wait, ttr=self.ttr)
        gate = self._gate = WaitGate(self._slot_pool, self, max_jobs, self.jobs_a_slot)
        engine: Any = self.topic.engine  # a worker has no other than a server's
        taken = await engine.take([self.topic.verbs], max_jobs, wait, self.ttr, gate)
        self._slots_requested = gate.end()
        return [job for _, reply, raws in taken for job in jobs_of(self.topic, reply, raws)]

    def _take(self, jobs: Sequence[BaseJob[Any]], loop: asyncio.AbstractEventLoop) -> None:
        jobs = self._take_in_hand(jobs, loop)
        loop.call_soon(loop.call_soon, self._start, jobs)  # two loop turns later: by then the next pop was sent

    def _take_in_hand(self, jobs: Sequence[BaseJob[Any]], loop: asyncio.AbstractEventLoop) -> Sequence[BaseJob[Any]]:
        """From now on they are in hand. Returns them as the handler is given them."""
        if self.only_target is not None and not self.only_target.is_async:
            jobs = [Job(job.parts, self.blocking) for job in jobs]
        self._in_hand.jobs_came(loop.time())
        self._server_ahead_us = jobs[0].popped_us - monotonic() * SECOND
        self.active.pop(self, None)
        self.active[self] = None
        self.running.update(dict.fromkeys(jobs))
        self._note_for_idle_check()
        self.on_popped(jobs)
        return jobs

    def _leave_slots(self) -> None:
        """The pop was cut off, or it was the last one."""
        self._slots_requested = 0
        if self._gate is not None:
            self._gate.end()
            self._gate = None
        if self._slot_pool is not None:
            self._slot_pool.leave(self)

    def _max_jobs(self, now: float) -> int:
        """How many jobs to pop now; 0 when it has enough."""
        limit = self.slots
        if self._backlog:
            limit = self._in_hand.limit(now)
        else:
            self._in_hand.forget()
        most = min(max(limit // 2, 1), self._most_at_once(now))
        count = len(self.running) + self.settler.unanswered
        self._enough = max(limit - most, self.slots - 1)
        if count >= self.slots and count > self._enough:  # some wait for a slot: no hurry to pop one more
            return 0
        return min(limit - count, most, MOST_JOBS)

    def _most_at_once(self, now: float) -> int:
        if any(consumer is not self and consumer.expects_job for consumer in self._had_jobs_since(now)):
            return in_hand.FEW_AT_ONCE
        return max(self.slots // 2, in_hand.MOST_AT_ONCE if len(self.active) < 2 else in_hand.LESS_AT_ONCE)

    def _had_jobs_since(self, now: float) -> Iterator[TopicConsumer]:
        """Those that had a job a moment ago, the last ones first."""
        for consumer in reversed(self.active):
            if now >= consumer.came_at + in_hand.EXPECTED_S:
                return
            yield consumer

    @property
    def expects_job(self) -> bool:
        """Whether it has no backlog, so that after a job another one may be due at any time."""
        return not self._backlog

    @property
    def came_at(self) -> float:
        """When its last jobs came."""
        return self._in_hand.came_at

    async def _wait_for_slot(self) -> None:
        used_up = self.quota is not None and self.quota.left <= 0
        if self._slot_pool is not None and not used_up and self._has_own_slot:
            await self._slot_pool.wait(self)
            return
        self._freed = asyncio.get_running_loop().create_future()
        try:
            await self._freed
        finally:
            self._freed = None

    # ── handlers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _start(self, jobs: Sequence[BaseJob[Any]]) -> None:
        self.tally.add_taken(jobs)
        if log_lines.debug_enabled():
            log_lines.log_taken(jobs)
        self._waiting.extend(jobs)
        self._start_waiting()
        if self._waiting and self._wait_check is None:
            self._check_waiting_later()

    def _start_waiting(self) -> None:
        """Starts handlers, as many as there are free slots."""
        loop = asyncio.get_running_loop()
        running, waiting, only = self.running, self._waiting, self.only_target
        notes_time = log_lines.debug_enabled()
        while waiting and self.busy < self.slots and not self._pausing:
            job = waiting.popleft()
            if job not in running:
                continue  # it was released before it started
            self.busy += 1
            if notes_time:
                self._started_at[job] = perf_counter()
            target = only or self.target_of(job)
            if target.is_async:
                running[job] = loop.create_task(self._handle(job, target))
            else:
                self._start_in_thread(job, target)

    def _check_waiting_later(self) -> None:
        ttr_s = min(job.ttr_us for job in self._waiting) / SECOND
        pause = min(in_hand.LONGEST_WAIT_S, ttr_s / in_hand.TTR_PARTS)
        last = self._waiting[-1]
        self._wait_check = asyncio.get_running_loop().call_later(pause, self._check_waiting, last)

    def _check_waiting(self, last: BaseJob[Any]) -> None:
        """Releases the jobs that wait for a slot, if ``last``, which waited at the former check, still does: other workers
        may be free."""
        self._wait_check = None
        if last in self.running and self.running[last] is None:
            self.settler.spawn(self.settler.put_back(self._take_waiting()))
            self._free()
        elif self._waiting:
            self._check_waiting_later()

    async def _handle(self, job: BaseJob[Any], target: Target) -> None:
        try:
            result = await target.call(job)
            if result is not None:
                refuse_unfinished(result, is_async=True)
        except BaseException as fault:  # the verdict decides what follows
            self._failed(job, target, fault)
            if isinstance(fault, KeyboardInterrupt):
                raise
        else:
            if not job.settled:
                if result is not None or target.keep_finished is not None:
                    self.settler.note_result(job, target, result)
                self.settler.done.append(job)
        finally:
            self._job_ended(job, target)

    def _start_in_thread(self, job: BaseJob[Any], target: Target) -> None:
        threads = self._threads or self._start_threads()
        if not isinstance(job, Job):  # a plain task among async ones
            del self.running[job]
            job = Job(job.parts, self.blocking)
        self.running[job] = threads
        threads.run(job, self._noting_result(target), self.busy)
        if target.timeout_s is not None and target.process is None:
            loop = asyncio.get_running_loop()
            self._timers[job] = loop.call_later(target.timeout_s, self._timed_out, job, target)

    def _start_threads(self) -> ThreadPool[Any]:
        self._threads = ThreadPool(self.topic.name, self.slots, self.thread_ended)
        return self._threads

    def _noting_result(self, target: Target) -> Callable[[Job[Any]], Any]:
        """The target's function for a thread; where finished jobs are kept, its result is noted before the job ends."""
        if target.keep_finished is None and not self.topic.keeps_finished:
            return target.call

        def call(job: Job[Any]) -> Any:
            result = target.call(job)
            refuse_unfinished(result)
            self.settler.note_result(job, target, result)
            return result

        return call

    def thread_ended(self, ran: Any, fault: BaseException | None) -> None:
        """A job has run in a thread; in a subclass it is what runs there."""
        job: Job[Any] = ran
        if job not in self.running:
            return  # released while it ran
        if job in self._timers:
            self._timers.pop(job).cancel()
        if self.overruns.pop(job, None) is not None:
            job.lost = False  # it was renewed all the time: this attempt is settled now
        try:
            if fault is not None:
                self._failed(job, self.target_of(job), fault)
            elif not job.settled:
                self.settler.done.append(job)
        finally:
            self._job_ended(job, self.only_target or self.target_of(job))

    def _timed_out(self, job: Job[Any], target: Target) -> None:
        """The function of a thread takes too long. It cannot be stopped: its job stays reserved, and fails when it returns."""
        if self._note_overrun(job):
            assert target.timeout_s is not None
            log_lines.log_overrun(job, target.name, target.timeout_s, None)

    def _note_overrun(self, job: Job[Any]) -> bool:
        """Returns whether the job is still this worker's."""
        if job not in self.running or job.settled or job.lost:
            return False
        self.overruns[job] = monotonic()
        job.lost = True  # a function that looks at it can stop
        self.tally.overrun += 1
        return True

    def _failed(self, job: BaseJob[Any], target: Target, fault: BaseException) -> None:
        task = self.running.get(job)
        self._started_at.pop(job, None)
        self.settler.results.pop(job, None)
        stopped = isinstance(fault, asyncio.CancelledError) and isinstance(task, asyncio.Task) and task.cancelling()
        if job.lost and not target.settles:
            self.settler.lost_raised({job: fault})
        if job.lost or (target.settles and job.settled):
            return
        stopped = stopped or (isinstance(fault, asyncio.CancelledError) and target.process is not None)
        if isinstance(fault, NotBegun):
            self._not_begun.append(job)
            self._put_back_unless_pausing()
        elif stopped or isinstance(fault, KeyboardInterrupt):
            self.settler.spawn(self.settler.give_back([job]))
        else:
            self.settler.spawn(self.settler.failed(job, target, fault))

    # ── a job pauses the topic ───────────────────────────────────────────────────────────────────────────────────────

    def _begin_none(self) -> None:
        """Begins with no further job. The others are put back once the server has paused the topic, so that nobody gets them between."""
        self._pausing += 1
        self._may_go_on.clear()
        if self._processes is not None:
            self._processes.leave_waiting(self.topic.name)

    def _go_on(self) -> None:
        self._pausing -= 1
        self._pop_is_old = self._in_pop
        if not self._pausing:
            self._may_go_on.set()
            self._not_begun += self._take_waiting()
            self._put_back_unless_pausing()

    def _put_back_unless_pausing(self) -> None:
        if self._not_begun and not self._pausing:
            jobs, self._not_begun = self._not_begun, []
            self.settler.spawn(self.settler.put_back(jobs))
            self._free()

    def _take_waiting(self) -> list[BaseJob[Any]]:
        """Removes the jobs that have not begun, and returns them."""
        self._waiting.clear()
        found = [job for job, runs in self.running.items() if runs is None]
        for job in found:
            del self.running[job]
        return found

    def _job_ended(self, job: BaseJob[Any], target: Target) -> None:
        self.running.pop(job, None)
        spent_s = (monotonic() * SECOND + self._server_ahead_us - job.popped_us) / SECOND
        if spent_s > self.longest.now.get(target.name, 0.0):
            self.longest.now[target.name] = spent_s
        self.busy -= 1
        self._in_hand.ended += 1
        if self._started_at:
            began = self._started_at.pop(job, None)
            if began is not None and not job.settled:
                log_lines.log_done(job, perf_counter() - began)
        if self._processes is not None and self._processes.keeps_child(job):
            self.settler.spawn(asyncio.to_thread(self._processes.free_child, job))
        if self._waiting:
            self._start_waiting()
        elif not self.running:
            self._in_hand.became_idle(asyncio.get_running_loop().time())
        if not (self._popping or self._flushing):
            self._flush_soon()
        self._free()
        if self._idle is not None and not self.running and not self._idle.done():
            self._idle.set_result(None)

    def _flush_soon(self) -> None:
        """Finishes the done jobs together with the next pop. If that does not come at once, together with those that end in this
        turn of the loop; and while others wait for a slot, with those of the next moments."""
        loop = asyncio.get_running_loop()
        if self._freed is None:
            self._flushing = True
            loop.call_soon(self._flush)
        elif len(self.running) + self.settler.unanswered > self._enough:
            self._flushing = True
            loop.call_later(in_hand.FINISH_WITHIN_S, self._flush)

    def _free(self) -> None:
        """Wakes whatever waits for a slot."""
        count = len(self.running) + self.settler.unanswered
        if self._freed is not None and not self._freed.done() and count <= self._enough:
            self._freed.set_result(None)
        if self._slot_pool is not None:
            self._slot_pool.slot_freed()
        if self.idle_check is not None:
            self.idle_check.note(self)

    def _flush(self) -> None:
        self._flushing = False
        self.settler.flush()

    def reservations_lost(self, jobs: Sequence[BaseJob[Any]], cancelled: Container[BaseJob[Any]] = ()) -> None:
        """Called when the server refused the renewal: logs it, and stops runs that were cancelled, and those of handlers
        registered with ``cancel_when_lost``."""
        held = [job for job in jobs if job in self.running and not job.settled]
        for job in held:
            self.overruns.pop(job, None)
        stopped: dict[str, list[BaseJob[Any]]] = {}
        for job in held:
            if job in cancelled:
                stopped.setdefault(self.target_of(job).name, []).append(job)
        for some in stopped.values():
            log_lines.log_cancelled(some, self.target_of(some[0]))
        if lost := [job for job in held if job not in cancelled]:
            self.tally.lost += len(lost)
            log_lines.log_lost(lost)
        for job in held:
            if job in cancelled or self.target_of(job).cancel_when_lost:
                self._stop_run(job, self.target_of(job))

    def _stop_run(self, job: BaseJob[Any], target: Target) -> None:
        """Stops a run, if it can be stopped: not one in a thread."""
        runs = self.running[job]
        if runs is None:
            del self.running[job]  # it has not started
            self._free()
        elif isinstance(runs, asyncio.Task):
            runs.cancel()
        elif self._processes is not None and target.process is not None:
            self._processes.interrupt(job)

    async def wait_until_idle(self) -> None:
        """Waits until no handler runs."""
        if self.running:
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def stop(self, grace_s: float, stop_now: asyncio.Event) -> tuple[int, int]:
        """Waits for the running handlers, releases the rest, and waits until all jobs are settled.

        A job that overran its timeout is not released, for its function may still run: it comes back after its TTR.
        Returns how many running jobs were cut off, and how many had not started.
        """
        self._popping, self.settler.ending = False, True
        if self._wait_check is not None:
            self._wait_check.cancel()
        not_started = self._take_waiting()
        if self._threads is not None and not self._shares_threads:
            not_started += self._cancel_queued(self._threads)
        self.settler.spawn(self.settler.put_back(not_started))
        if self.running and grace_s:
            await self._wait_for_running(grace_s, stop_now)
        cut_off = len(self.running)
        tasks: dict[asyncio.Task[None], None] = {}
        for job, runs in self.running.items():
            if isinstance(runs, asyncio.Task):
                tasks[runs] = None
            elif self._processes is None or self.target_of(job).process is None:
                job.lost = True
        for task in tasks:  # a batch has one for all of its jobs
            task.cancel()  # it releases them
        if self.running or not self._shares_threads:  # other topics of the pattern may still use the processes
            await self.end_processes()
        if tasks:
            await asyncio.wait(tasks, timeout=CLEAN_UP_TIMEOUT_S)
        left = [job for job in self.running if job not in self.overruns]  # the others come back after their TTR
        self.running.clear()
        await self.settler.give_back(left)
        self.settler.flush()
        await self._send_remaining(stop_now)
        if self._threads is not None:
            self._threads.end()
        return cut_off, len(not_started) + self.not_begun

    def _cancel_queued(self, threads: ThreadPool[Any]) -> list[BaseJob[Any]]:
        """Removes the jobs that no thread has started, and returns them."""
        queued: list[Job[Any]] = threads.cancel_queued()
        for job in queued:
            self.running.pop(job, None)
        return [*queued]

    async def end_processes(self) -> None:
        """Kills the child processes, and waits until their jobs are released."""
        if self._processes is None:
            return
        await asyncio.to_thread(self._processes.close)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + CLEAN_UP_TIMEOUT_S
        while loop.time() < deadline and any(  # noqa: ASYNC110  # their threads are about to end
            self.target_of(job).process for job in self.running
        ):
            await asyncio.sleep(CLEAN_UP_TIMEOUT_S / 100)
        self._processes = None

    async def _send_remaining(self, stop_now: asyncio.Event) -> None:
        """Waits for the requests that are under way; after ``stop_now`` for a second at most."""
        interrupted = asyncio.ensure_future(stop_now.wait())
        while self.settler.background and not stop_now.is_set():
            either: set[asyncio.Future[Any]] = {interrupted, *self.settler.background}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        interrupted.cancel()
        if self.settler.background:
            await asyncio.wait(self.settler.background, timeout=CLEAN_UP_TIMEOUT_S)

    async def _wait_for_running(self, grace_s: float, stop_now: asyncio.Event) -> None:
        interrupted = asyncio.ensure_future(stop_now.wait())
        self._idle = asyncio.get_running_loop().create_future()
        either: set[asyncio.Future[Any]] = {interrupted, self._idle}
        await asyncio.wait(either, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
        interrupted.cancel()
