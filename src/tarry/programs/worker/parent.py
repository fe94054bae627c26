"""Several worker processes and their parent.

    parent ──spawn──▶ child, with a holder's name     SIGTERM, SIGINT ──▶ to each child; a second one too; then SIGKILL
       ▲                │ ▲
       └── beats ◀──────┘ └─── end of the socket: the parent is gone, the child stops

A child that dies is replaced, after a pause that grows while it keeps dying; what it held is given back at once, by its
holder's name. If it was killed the attempt counts, for a job may have killed it. A child that lives and does not beat has
its interpreter held (C code that keeps the GIL): the parent renews by holder what it has in hand.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import time
from collections.abc import Sequence
from typing import Any

from tarry.errors import TarryError
from tarry.programs.worker.outage import Outage
from tarry.programs.worker.process import CLEAN, FAILED, HOLDER, NO_SERVER, SOCKET, WORKED, WRONG
from tarry.programs.worker.signals import GIVEN_BACK
from tarry.programs.worker.worker import Worker
from tarry.values import names
from tarry.values.durations import SECOND, duration_us
from tarry.verbs import workers

logger = logging.getLogger("tarry.worker")
FIRST_PAUSE_S, LONGEST_PAUSE_S, SETTLED_S = 0.1, 30.0, 10.0
"""Between a death and the next start; a child that lived so long begins anew with the shortest."""
KILL_MARGIN_S = 5.0
"""What a child has beyond its grace to leave, before it is killed."""
MUTE, LOOKS = 4, 12
"""Parts of a TTR: silent for a quarter is mute; the parent looks every twelfth."""
EXIT_CODES_BY_WEIGHT = (FAILED, WRONG, NO_SERVER, GIVEN_BACK)


class Child:
    """One process, alive or dead."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.holder = f"{socket.gethostname()[:60]}:{os.getpid()}.{number}:{names.random_word(os.urandom).decode()}"
        self.started_at = self.beat = time.monotonic()
        self.silent = False
        self.worked = False
        """Whether the server has ever answered it."""
        self.process: asyncio.subprocess.Process

    async def start(self, command: Sequence[str]) -> None:
        mine, its = socket.socketpair()
        with its:
            self.process = await asyncio.create_subprocess_exec(
                *command,
                env={**os.environ, HOLDER: self.holder, SOCKET: str(its.fileno())},
                pass_fds=[its.fileno()],
                start_new_session=True,  # a Ctrl-C of the terminal reaches it by its parent alone, once
            )
        mine.setblocking(False)
        self._parent_pid = mine
        asyncio.get_running_loop().add_reader(mine, self._read_heartbeat)

    def _read_heartbeat(self) -> None:
        try:
            heard = self._parent_pid.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            heard = b""
        self.beat = time.monotonic()
        self.worked = self.worked or WORKED in heard
        if not heard:
            self.close()

    def close(self) -> None:
        if self._parent_pid.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._parent_pid)
            self._parent_pid.close()

    def signal(self, number: int) -> None:
        if self.process.returncode is None:
            self.process.send_signal(number)


class Parent:
    """Keeps so many children, until it is told to stop."""

    def __init__(self, worker: Worker, command: Sequence[str], processes: int) -> None:
        self._client = worker.blocking
        self._topics = [route.topic for route in worker.routes()]
        ttrs = [worker.ttr if route.ttr is None else route.ttr for route in worker.routes()] or [worker.ttr]
        self._ttr_s = min(duration_us(ttr) / SECOND for ttr in ttrs)
        self._grace_s = worker.grace_s
        self._command = command
        self._processes = processes
        self._children: dict[int, Child] = {}
        self._codes: list[int] = []
        self._worked = False
        """Whether the server has ever answered a child: then it is no reason to end that it refuses the next one."""
        self._outage = Outage()
        self._renewing = self._outage.part()
        self._stopping = asyncio.Event()
        self._stop_now = asyncio.Event()

    def stop(self) -> None:
        """Children stop, and are not replaced; a second call gives them no more time."""
        again = self._stopping.is_set()
        self._stopping.set()
        if again:
            self._stop_now.set()
        for child in self._children.values():
            child.signal(signal.SIGINT if again else signal.SIGTERM)  # two of a kind may arrive as one

    async def run(self) -> int:
        """Until all children are gone; answers the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        looking = asyncio.ensure_future(self._renew_for_silent())
        ending = asyncio.ensure_future(self._stop_children())
        try:
            await asyncio.gather(*[self._keep_alive(number) for number in range(1, self._processes + 1)])
        finally:
            looking.cancel()
            ending.cancel()
            self._client.close()
        return next((code for code in EXIT_CODES_BY_WEIGHT if code in self._codes), CLEAN)

    async def _keep_alive(self, number: int) -> None:
        """One place: a child, and another when it dies."""
        pause = FIRST_PAUSE_S
        while not self._stopping.is_set():
            child = self._children[number] = Child(number)
            await child.start(self._command)
            if self._stopping.is_set():
                child.signal(signal.SIGTERM)
            code = await child.process.wait()
            self._worked = self._worked or any(one.worked for one in self._children.values())
            child.close()
            del self._children[number]
            crashed = code < 0 and not self._stopping.is_set()
            given_back = await self._give_back(child, counts=crashed)
            if code == WRONG or (code == NO_SERVER and not self._worked):  # another one would end like this one
                self._codes.append(code)
                self.stop()
            elif self._stopping.is_set():  # what a crash gave back, a moment before, says nothing of how it stopped
                self._codes.append(code if code >= 0 else GIVEN_BACK if given_back and not crashed else CLEAN)
            else:
                pause = (
                    FIRST_PAUSE_S
                    if time.monotonic() - child.started_at > SETTLED_S
                    else min(2 * pause, LONGEST_PAUSE_S)
                )
                _log_exit(child, code, given_back, pause)
                await _wait_either(self._stopping, pause)

    async def _give_back(self, child: Child, *, counts: bool) -> int:
        """What it held. A server that does not answer is no reason to wait: the jobs come back after their TTR."""
        try:
            return await asyncio.to_thread(self._release_jobs_of, child.holder, counts)
        except TarryError as fault:
            logger.warning("✗ The jobs of worker %d come back after their TTR: %s", child.number, fault)
            return 0

    def _release_jobs_of(self, holder: str, counts: bool) -> int:
        """Jobs first: that it is known no more is for people."""
        given_back = sum(self._client.topic(topic).release_holder(holder, count=counts) for topic in self._topics)
        self._client.engine.run(workers.forget_worker(self._client.namespace, holder.encode()))
        return given_back

    async def _renew_for_silent(self) -> None:
        """Renews for those who cannot."""
        while True:
            await asyncio.sleep(self._ttr_s / LOOKS)
            mute = False
            for child in list(self._children.values()):
                silent = time.monotonic() - child.beat
                if silent < self._ttr_s / MUTE:
                    child.silent = False
                    continue
                mute = True
                try:
                    await asyncio.to_thread(self._touch_holder, child.holder)
                except TarryError as fault:
                    self._renewing.tell(fault)
                else:
                    self._renewing.over()
                if (
                    not child.silent
                    and child.process.returncode is None
                    and time.monotonic() - child.started_at > SETTLED_S
                ):
                    child.silent = True
                    logger.warning(
                        "✗ worker %d (pid %d) has been silent for %.1f s; its jobs are renewed for it.",
                        child.number, child.process.pid, silent,
                    )  # fmt: skip
            if not mute:
                self._renewing.rested()

    def _touch_holder(self, holder: str) -> None:
        for topic in self._topics:
            self._client.topic(topic).touch_holder(holder, self._ttr_s)

    async def _stop_children(self) -> None:
        """Those who do not leave in time are killed."""
        await self._stopping.wait()
        await _wait_either(self._stop_now, self._grace_s + KILL_MARGIN_S)
        await asyncio.sleep(KILL_MARGIN_S)
        for child in self._children.values():
            logger.warning("✗ worker %d (pid %d) does not leave; it is killed.", child.number, child.process.pid)
            child.signal(signal.SIGKILL)


def _log_exit(child: Child, code: int, given_back: int, pause: float) -> None:
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
    more: dict[str, Any] = {"worker": child.number, "pid": child.process.pid, "code": code, "given_back": given_back}
    logger.error(
        "✗ worker %d (pid %d) %s; %d jobs given back, another one starts in %.1f s",
        child.number, child.process.pid, how, given_back, pause,
        extra={"tarry": more},
    )  # fmt: skip


async def _wait_either(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        pass
