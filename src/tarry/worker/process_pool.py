"""The child processes of one topic, for functions with ``run="process"``: each runs one job after the other.

    thread of the job ──▶ an idle child, or a new one ──▶ started ──▶ done      the child is idle again
                                                            └──▶ timeout ──▶ SIGKILL, to all that the function started

A child is spawned, not forked: it shares no lock and no connection with the worker. It dies with its worker.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.spawn import get_executable
from typing import Any

from tarry.clients.blocking.client import Client
from tarry.errors import BadInput
from tarry.verbs.jobs.job_values import BaseJob
from tarry.worker import log_setup
from tarry.worker.child_messages import Request, RunResult, Setup, Started, receive, send
from tarry.worker.process_functions import ProcessFunction, main_module
from tarry.worker.targets import Target, timeout_text
from tarry.worker.verdicts import pauses_topic

START_TIMEOUT_S = 60.0
"""How long a child may take to start and to import the function's module."""
WORKER_S_OWN = "TARRY_WORKER_"
"""Environment variables by which a worker is known to its own parent (process.py)."""
EXIT_TIMEOUT_S = 1.0
"""How long an idle child may take to exit before it is killed."""


class ChildTraceback(Exception):
    """The traceback of an exception that was raised in a child process, as text."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}\n"""'


class DiedIdle(ChildProcessError):
    """A child that had run other jobs died before it began with this one."""


class NotBegun(asyncio.CancelledError):
    """No child had begun with the job when its topic was paused."""


class ChildProcess:
    """One child, seen from the worker."""

    def __init__(self, setup: Setup) -> None:
        self.connection, theirs = socket.socketpair()
        self.cancelled = False
        self.jobs = 0
        """How many it has run."""
        number = theirs.fileno()
        start = f"import sys; sys.path[:] = {sys.path!r}; from tarry.worker.run_child import main; main({number})"
        with theirs:
            self._process = subprocess.Popen(
                [os.fsdecode(get_executable()), "-c", start],
                stdin=subprocess.DEVNULL,
                pass_fds=[number],
                start_new_session=True,  # a Ctrl-C of the terminal does not reach it, and all that it starts is killed with it
                env={name: value for name, value in os.environ.items() if not name.startswith(WORKER_S_OWN)},
            )
        with suppress(OSError):  # it is dead already: the first job says so
            send(self.connection, setup)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def run(self, request: Request, target: Target) -> RunResult:
        """Runs one job. Raises what the function raised, ``TimeoutError``, or ``ChildProcessError`` when the child died: ``DiedIdle``
        if that has nothing to do with the job."""
        started = False
        try:
            self.connection.settimeout(START_TIMEOUT_S)
            send(self.connection, request)
            answer: RunResult | Started = receive(self.connection)
            if not isinstance(answer, RunResult):
                started = True
                self.connection.settimeout(target.timeout_s)
                answer = receive(self.connection)
        except TimeoutError:
            self.kill()
            if started and target.timeout_s is not None:
                raise TimeoutError(timeout_text(target.name, target.timeout_s)) from None
            raise ChildProcessError(
                f"{target.name}: its process has not started within {START_TIMEOUT_S:g} s"
            ) from None
        except (EOFError, OSError, pickle.UnpicklingError):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(EXIT_TIMEOUT_S)  # it has died: keep its exit code
            self.kill()
            if self.cancelled:
                raise asyncio.CancelledError from None
            died = ChildProcessError if started or not self.jobs else DiedIdle
            raise died(f"{target.name}: its process {self._how_it_ended()}") from None
        assert isinstance(answer, RunResult)
        return answer

    def _how_it_ended(self) -> str:
        code = self._process.returncode
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"

    def end(self) -> None:
        """Lets an idle child exit."""
        self.connection.close()
        try:
            self._process.wait(EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def interrupt(self) -> None:
        """Kills it from another thread than the one that waits for its answer."""
        self.cancelled = True
        self._signal_all()

    def kill(self) -> None:
        """Kills it, and whatever it started and left in its process group."""
        self._signal_all()
        self._process.wait()
        self.connection.close()

    def _signal_all(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


class ProcessPool:
    """At most ``size`` children, each started when it is first needed."""

    def __init__(self, client: Client, size: int, name: str | None, app: str | None, max_jobs: int | None) -> None:
        config = client.engine.config
        self._setup = Setup(
            parent=os.getpid(),
            url=config.address.full_url,
            client=_pickled(config.settings()),
            main=main_module(),
            logging=log_setup.configured,
            name=name,
            app=app,
        )
        self._size = size
        self._max_jobs = max_jobs
        self._idle: list[ChildProcess] = []
        self._running: dict[BaseJob[Any], ChildProcess | None] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._interrupted: set[BaseJob[Any]] = set()
        """Runs that were interrupted before their child was there."""
        self._waiting: set[BaseJob[Any]] = set()
        self._left: set[BaseJob[Any]] = set()
        """Those that wait for a child and shall not wait any longer."""
        self._kept: dict[BaseJob[Any], ChildProcess] = {}

    def bind(self, target: Target, wants_result: Callable[[], bool]) -> Callable[[BaseJob[Any]], Any]:
        """Returns a function that runs the target's function in a child; it is called in a thread of its own. ``wants_result``: whether
        what the function returns is needed here."""
        function = target.process
        assert function is not None

        def run(job: BaseJob[Any]) -> Any:
            return self._run(job, target, function, wants_result())

        return run

    def _run(self, job: BaseJob[Any], target: Target, function: ProcessFunction, wants_result: bool) -> Any:
        request = Request(function, job.topic, job.parts, wants_result)
        answer: RunResult | None = None
        fault: BaseException | None = None
        while answer is None:
            child = self._take(job)
            try:
                answer = child.run(request, target)
                fault = _fault_of(answer) if answer.fault_text else None
            except DiedIdle:
                continue  # with another idle child, or with a new one
            finally:
                if fault is not None and pauses_topic(job, fault):
                    self._kept[job] = child  # else the next job would begin
                else:
                    self._put_back(job, child)
        job.settled = job.settled or answer.settled
        if fault is not None:
            raise fault
        with suppress(Exception):  # a user's class may raise anything
            return pickle.loads(answer.result) if answer.result else None  # noqa: S301  # from a process of our own
        return None

    def _take(self, job: BaseJob[Any]) -> ChildProcess:
        with self._changed:
            self._waiting.add(job)
            self._changed.wait_for(
                lambda: self._closed or job in self._interrupted or job in self._left or len(self._running) < self._size
            )
            self._waiting.discard(job)
            if job in self._left:
                self._left.discard(job)
                raise NotBegun
            if self._closed or job in self._interrupted:
                self._interrupted.discard(job)
                raise asyncio.CancelledError
            self._running[job] = None
            found = None
            while self._idle and found is None:
                child = self._idle.pop()
                if child.is_alive:
                    found = child
                else:
                    child.kill()
        try:
            child = found or ChildProcess(self._setup)
        except BaseException:
            with self._changed:
                del self._running[job]
                self._changed.notify()
            raise
        with self._changed:
            self._running[job] = child
            interrupted = self._closed or job in self._interrupted
            self._interrupted.discard(job)
        if interrupted:
            child.interrupt()
        return child

    def _put_back(self, job: BaseJob[Any], child: ChildProcess) -> None:
        child.jobs += 1
        usable = child.is_alive and not child.cancelled and child.connection.fileno() >= 0
        worn = usable and self._max_jobs is not None and child.jobs >= self._max_jobs
        if worn:
            child.end()
        with self._changed:
            self._running.pop(job, None)
            if usable and not worn:
                self._idle.append(child)
            self._changed.notify()

    def leave_waiting(self, topic: str) -> None:
        """Lets the jobs of a topic that wait for a child wait no longer: their calls raise ``NotBegun``."""
        with self._changed:
            self._left |= {job for job in self._waiting if job.topic == topic}
            self._changed.notify_all()

    def keeps_child(self, job: BaseJob[Any]) -> bool:
        """Whether the job paused its topic, and its child is not free for others yet."""
        return job in self._kept

    def free_child(self, job: BaseJob[Any]) -> None:
        """From now on other jobs may have the child of this one."""
        self._put_back(job, self._kept.pop(job))

    def interrupt(self, job: BaseJob[Any]) -> None:
        """Kills the child that runs the job, whose call raises ``CancelledError`` then."""
        with self._changed:
            child = self._running.get(job)
            if child is None:
                self._interrupted.add(job)
                self._changed.notify_all()
        if child is not None:
            child.interrupt()

    def close(self) -> None:
        """Ends the idle children, and kills the others."""
        with self._changed:
            self._closed = True
            idle, self._idle = self._idle, []
            for child in self._running.values():
                if child is not None:
                    child.interrupt()
            self._changed.notify_all()
        for child in idle:
            child.connection.close()
        for child in idle:
            child.end()


def _pickled(settings: dict[str, Any]) -> bytes:
    """The settings of a client, for a child. Raises ``BadInput`` for a function that a child cannot import."""
    try:
        return pickle.dumps(settings)
    except Exception as error:  # whatever a user's object raises
        raise BadInput(
            "name_mapper: a child process imports it by name; define it at the top level of a module, or give a prefix."
        ) from error


def _fault_of(answer: RunResult) -> BaseException:
    """The exception of a child, caused by its traceback as text."""
    try:
        fault = pickle.loads(answer.fault)  # noqa: S301  # from a process of our own
    except Exception:  # noqa: BLE001  # a user's class may raise anything
        fault = RuntimeError(answer.fault_text)
    assert isinstance(fault, BaseException)
    if answer.trace:
        fault.__cause__ = ChildTraceback(answer.trace)
    return fault
