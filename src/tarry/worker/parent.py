"""Several worker processes and their parent.

    parent ──spawn──▶ child, with a holder's name     SIGTERM, SIGINT ──▶ to each child; a second one too; then SIGKILL
       ▲                │ ▲
       └─ heartbeats ◀──┘ └─── end of the socket: the parent is gone, the child stops

A child that dies is replaced, after a pause that grows while it keeps dying. One that was asked to stop, over the server, is not;
when no child is left the parent ends. The parent releases its jobs at once, by the
holder's name. If the child was killed the attempt counts, for a job may have killed it. A child that lives and sends no
heartbeats has its interpreter blocked (C code that keeps the GIL): the parent renews its reservations by holder.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from tarry.connections.background import failures, supervise_task
from tarry.core.patience import RetryDelay
from tarry.errors import TarryError
from tarry.values import names
from tarry.values.durations import SECOND, duration_us
from tarry.verbs import workers
from tarry.worker.outage import Outage, ServerHealth
from tarry.worker.parent_messages import (
    ANSWERED,
    BAD_ARGUMENTS,
    FAILED,
    HOLDER,
    NO_SERVER,
    SOCKET,
    STOPPED,
    TOLD_TO_STOP,
)
from tarry.worker.signals import RELEASED
from tarry.worker.worker import Worker, topics_of

logger = logging.getLogger("tarry.worker")
FIRST_PAUSE_S, LONGEST_PAUSE_S, STABLE_AFTER_S = 0.1, 30.0, 10.0
"""Pauses between a death and the next start. After a child that lived for ``STABLE_AFTER_S`` the pause is the shortest again."""
KILL_MARGIN_S = 5.0
"""How long beyond its grace period a child may take to exit before it is killed."""
SILENT_PARTS, CHECK_PARTS = 4, 12
"""In fractions of a TTR: a child is silent after a quarter without a heartbeat; the parent checks every twelfth."""
EXIT_CODES_BY_WEIGHT = (FAILED, BAD_ARGUMENTS, NO_SERVER, RELEASED)


class Child:
    """One process, alive or dead."""

    def __init__(self, number: int, parent: str, start: int) -> None:
        self.number = number
        self.holder = f"{socket.gethostname()[:60]}:{os.getpid()}.{number}:{parent}:{start}"
        """``parent`` is a random word of the parent's: all with one are a group (lua/lib/observers.lua)."""
        self.started_at = self.last_heartbeat = time.monotonic()
        self.silent = False
        self.server_answered = False
        """Whether the server has ever answered it."""
        self.told_to_stop = False
        """Whether it stops because somebody asked it to, over the server."""
        self.process: asyncio.subprocess.Process

    async def start(self, command: Sequence[str]) -> None:
        parent_end, child_end = socket.socketpair()
        with child_end:
            try:
                self.process = await asyncio.create_subprocess_exec(
                    *command,
                    env={**os.environ, HOLDER: self.holder, SOCKET: str(child_end.fileno())},
                    pass_fds=[child_end.fileno()],
                    start_new_session=True,  # a Ctrl-C of the terminal reaches it by its parent alone, once
                )
            except BaseException:  # no memory, no files
                parent_end.close()
                raise
        parent_end.setblocking(False)
        self._socket = parent_end
        asyncio.get_running_loop().add_reader(parent_end, self._read_heartbeat)

    def _read_heartbeat(self) -> None:
        try:
            received = self._socket.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        self.last_heartbeat = time.monotonic()
        self.server_answered = self.server_answered or ANSWERED in received
        self.told_to_stop = self.told_to_stop or TOLD_TO_STOP in received
        if not received:
            self.close()

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._read_rest()
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()

    def _read_rest(self) -> None:
        """The heartbeats that the event loop has not read yet."""
        with suppress(OSError):
            while received := self._socket.recv(4096):
                self.told_to_stop = self.told_to_stop or TOLD_TO_STOP in received

    def signal(self, number: int) -> None:
        if self.process.returncode is None:
            self.process.send_signal(number)


class Parent:
    """Keeps ``processes`` children running until ``stop`` is called."""

    def __init__(self, worker: Worker, command: Sequence[str], processes: int) -> None:
        self._client = worker.client
        self._worker = worker
        ttrs = [route.ttr_in(worker.inner.ttr) for route in worker.registered.routes()] or [worker.inner.ttr]
        self._ttr_s = min(duration_us(ttr) / SECOND for ttr in ttrs)
        self._grace_s = worker.inner.grace_s
        self._command = command
        self._processes = processes
        self._max_jobs = worker.inner.max_jobs_per_child
        self._name, self._starts = names.random_word(os.urandom).decode(), itertools.count(1)
        self._children: dict[int, Child] = {}
        self._codes: list[int] = []
        self._server_answered = False
        """Whether the server has ever answered a child. If so, the parent goes on when it refuses the next child."""
        self._outage = Outage()
        self._health = ServerHealth(self._outage)
        self._stopping = asyncio.Event()
        self._stop_now = asyncio.Event()

    def stop(self) -> None:
        """Stops the children and starts no new ones; a second call ends their grace period."""
        again = self._stopping.is_set()
        self._stopping.set()
        if again:
            self._stop_now.set()
        for child in self._children.values():
            child.signal(signal.SIGINT if again else signal.SIGTERM)  # two signals of one number may be merged

    async def run(self) -> int:
        """Runs until all children have exited; returns the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        renewal = asyncio.ensure_future(supervise_task("tarry renewal for children", self._renew_for_silent_children))
        stopping = asyncio.ensure_future(supervise_task("tarry stop", self._stop_children))
        end_listening = failures.listen(self._on_failure)
        try:
            numbers = range(1, self._processes + 1)
            keepers = [partial(self._keep_child_running, number) for number in numbers]
            await asyncio.gather(*[supervise_task("tarry children", keep, self._pause) for keep in keepers])
        finally:
            end_listening()
            renewal.cancel()
            stopping.cancel()
            self._client.close()
        return next((code for code in EXIT_CODES_BY_WEIGHT if code in self._codes), STOPPED)

    def _on_failure(self, _work: str, unfit: str) -> None:
        """Ends with the children when its own work fails again and again, so that its supervisor sees it."""
        if unfit:
            self._codes.append(NO_SERVER)
            if not self._stopping.is_set():
                logger.error("✗ The workers stop, because their parent is not fit to work: %s", unfit)
                self.stop()

    async def _pause(self, seconds: float) -> bool:
        """Returns whether it was stopped."""
        await _wait_either(self._stopping, seconds)
        return self._stopping.is_set()

    async def _keep_child_running(self, number: int) -> None:
        """Starts child ``number``, and another one when it dies."""
        restart_delay = RetryDelay(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while not self._stopping.is_set():
            child = Child(number, self._name, next(self._starts))
            await child.start(self._command)
            self._children[number] = child
            if self._stopping.is_set():
                child.signal(signal.SIGINT if self._stop_now.is_set() else signal.SIGTERM)
            code = await child.process.wait()
            self._server_answered = self._server_answered or any(one.server_answered for one in self._children.values())
            child.close()
            del self._children[number]
            on_its_own = not self._stopping.is_set()
            crashed = code < 0 and on_its_own
            released = await self._give_back(child, counts=crashed)  # meanwhile the parent may be told to stop
            if code == BAD_ARGUMENTS or (
                code == NO_SERVER and not self._server_answered
            ):  # another one would end like this one
                self._codes.append(code)
                self.stop()
            elif self._stopping.is_set():  # jobs released after a crash do not change the exit code
                self._codes.append(code if code >= 0 else RELEASED if released and not crashed else STOPPED)
                if on_its_own and code != STOPPED:
                    _log_exit(child, code, released)
            elif child.told_to_stop and code in (STOPPED, RELEASED):
                self._codes.append(code)
                logger.info("■ worker %d (pid %d) was asked to stop; no other one starts", number, child.process.pid)
                return
            elif code == STOPPED and self._max_jobs is not None:  # it has run as many jobs as it may
                restart_delay.reset()
                logger.info("■ worker %d (pid %d) is replaced by another one", number, child.process.pid)
            else:
                if time.monotonic() - child.started_at > STABLE_AFTER_S:
                    restart_delay.reset()
                pause = restart_delay.next_delay()
                _log_exit(child, code, released, f", another one starts in {pause:.1f} s")
                await _wait_either(self._stopping, pause)

    async def _give_back(self, child: Child, *, counts: bool) -> int:
        """Releases the child's jobs, in one try: without it they come back after their TTR."""
        try:
            return await asyncio.to_thread(self._release_jobs_of, child.holder, counts)
        except TarryError as fault:
            logger.warning("✗ The jobs of worker %d come back after their TTR: %s", child.number, fault)
            return 0
        except Exception as fault:  # noqa: BLE001  # whatever it is, another child is started
            failures.note_once("tarry children", fault)
            return 0

    def _topics(self) -> list[str]:
        return topics_of(self._worker, self._client.topics)

    def _release_jobs_of(self, holder: str, counts: bool) -> int:
        """The jobs first; the worker's record is only for people."""
        released = sum(self._client.topic(topic).release_holder(holder, counted=counts) for topic in self._topics())
        self._client.engine.run(workers.forget_worker(self._client.namespace, holder.encode()))
        return released

    async def _renew_for_silent_children(self) -> None:
        """Renews the reservations of children that send no heartbeats."""
        while True:
            await asyncio.sleep(self._ttr_s / CHECK_PARTS)
            any_silent = False
            for child in list(self._children.values()):
                silent = time.monotonic() - child.last_heartbeat
                if silent < self._ttr_s / SILENT_PARTS:
                    child.silent = False
                    continue
                any_silent = True
                try:
                    await asyncio.to_thread(self._touch_holder, child.holder)
                except TarryError as fault:
                    self._health.failed(fault)
                else:
                    self._health.succeeded()
                if (
                    not child.silent
                    and child.process.returncode is None
                    and time.monotonic() - child.started_at > STABLE_AFTER_S
                ):
                    child.silent = True
                    logger.warning(
                        "✗ worker %d (pid %d) has been silent for %.1f s; its jobs are renewed for it.",
                        child.number, child.process.pid, silent,
                    )  # fmt: skip
            if not any_silent:
                self._health.idle()

    def _touch_holder(self, holder: str) -> None:
        for topic in self._topics():
            self._client.topic(topic).touch_holder(holder, ttr=self._ttr_s)

    async def _stop_children(self) -> None:
        """Kills the children that do not exit in time."""
        await self._stopping.wait()
        await _wait_either(self._stop_now, self._grace_s + KILL_MARGIN_S)
        await asyncio.sleep(KILL_MARGIN_S)
        for child in self._children.values():
            logger.warning("✗ worker %d (pid %d) does not exit; it is killed.", child.number, child.process.pid)
            child.signal(signal.SIGKILL)


def _log_exit(child: Child, code: int, released: int, then: str = "") -> None:
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
    more: dict[str, Any] = {"worker": child.number, "pid": child.process.pid, "code": code, "released": released}
    logger.error(
        "✗ worker %d (pid %d) %s; %d jobs released%s", child.number, child.process.pid, how, released, then,
        extra={"tarry": more},
    )  # fmt: skip


async def _wait_either(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        pass
