"""A child process that runs plain functions, one job after the other (process_pool.py starts it).

    parent ──setup──▶                       once: the server, the log's format
           ──job────▶  ──started──▶  ──done, or failed with the exception──▶
           ──end of the socket──▶           the child exits; also in the middle of a function, for its parent is gone

Everything travels over a socket of its own: what a function prints goes where the worker's output goes.
"""

from __future__ import annotations

import ctypes
import importlib
import multiprocessing.spawn
import os
import pickle
import select
import signal
import socket
import sys
import threading
import traceback
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from tarry.clients.blocking.client import Client
from tarry.clients.blocking.job import Job
from tarry.values.functions import refuse_unfinished
from tarry.worker import log_setup, process_functions
from tarry.worker.child_messages import Request, RunResult, Setup, Started, receive, send
from tarry.worker.process_functions import Entry, ProcessFunction
from tarry.worker.registry import Registrations
from tarry.worker.verdicts import VERDICTS, meant
from tarry.worker.worker import Worker, WorkerRegistrations, adopt

PR_SET_PDEATHSIG = 1


@dataclass(slots=True)
class JobRunner:
    """The child's end of the connection."""

    connection: socket.socket
    setup: Setup
    busy: bool = False
    client: Client | None = None
    settings: dict[str, Any] | None = None
    prepared: set[object] = field(default_factory=set)

    def serve(self) -> None:
        threading.Thread(target=self._exit_with_parent, daemon=True).start()
        while True:
            try:
                request: Request = receive(self.connection)
            except (EOFError, OSError):
                return
            self.busy = True
            answer = self._answer(request)
            self.busy = False
            send(self.connection, answer)

    def _exit_with_parent(self) -> None:
        """Ends a function whose worker is gone. Linux does the same for code that keeps the interpreter."""
        watch = select.poll()
        watch.register(self.connection, select.POLLHUP)
        watch.poll()
        if self.busy:
            os._exit(1)

    def _answer(self, request: Request) -> RunResult:
        job: Job[Any] | None = None
        try:
            entry = self._find(request.function)
            if self.client is None:
                self.client = Client(self.setup.url, **self._settings())
            topic = self.client.topic(request.topic, type=entry.type)
            job = Job(request.job, topic)
            send(self.connection, Started())
            result = entry.call(job)
            refuse_unfinished(result)
            return RunResult(job.settled, _pickled(result) if request.wants_result else b"")
        except BaseException as raised:  # noqa: BLE001  # the worker decides what follows
            fault = meant(raised)
            text = "".join(traceback.format_exception_only(fault)).strip()
            cause = fault.__cause__ if isinstance(fault, VERDICTS) else fault
            trace = "" if cause is None else "".join(traceback.format_exception(cause)).rstrip()
            return RunResult(job is not None and job.settled, b"", portable(fault), text, trace)

    def _find(self, function: ProcessFunction) -> Entry:
        """Imports the function's module, whose decorators register it."""
        entries = process_functions.entries = process_functions.entries if process_functions.entries is not None else {}
        if function not in entries:
            self._import(function.module)
        if function not in entries:
            raise ImportError(
                f"a child process has imported {function.module}, and {function.qualname} was not registered by that; "
                "define it, with its decorator, at the top level of the module"
            )
        entry = entries[function]
        root = entry.registry.root
        if not isinstance(root, WorkerRegistrations) and self.setup.app is not None:
            self._import(self.setup.app)  # it includes the registry
            root = entry.registry.root
        if root not in self.prepared:  # so that tasks are added where the worker adds them
            if isinstance(root, WorkerRegistrations):
                worker = root.worker
            else:
                worker = Worker(self.setup.name, url=self.setup.url)
                assert isinstance(root, Registrations)
                worker.registered.include(root)
            adopt(worker, self.setup.url, self._settings())
            self.prepared.add(worker.registered)
        return entry

    def _settings(self) -> dict[str, Any]:
        """The settings of the worker's client."""
        if self.settings is None:
            try:
                self.settings = self._unpickled()
            except (AttributeError, ImportError):  # a function of the script that was started
                self._import("__main__")
                self.settings = self._unpickled()
        return self.settings

    def _unpickled(self) -> dict[str, Any]:
        settings: dict[str, Any] = pickle.loads(self.setup.client)  # noqa: S301  # from the worker
        return settings

    def _import(self, module: str) -> None:
        """Imports a module, or the script that was started."""
        if module == "__main__":
            multiprocessing.spawn.prepare(dict(self.setup.main))
        else:
            importlib.import_module(module)


def _pickled(result: Any) -> bytes:
    """The function's result for middleware; nothing if it cannot be pickled."""
    try:
        return pickle.dumps(result)
    except Exception:  # noqa: BLE001  # a user's object may raise anything
        return b""


def portable(fault: BaseException) -> bytes:
    """The exception, pickled; if that does not work, one of the nearest base class that it works for, with the same text."""
    text = "".join(traceback.format_exception_only(fault)).strip()
    for kind in type(fault).__mro__:
        try:
            made = fault if kind is type(fault) else kind(text)
            found = pickle.dumps(made)
            again = pickle.loads(found)  # noqa: S301  # what it has just pickled
            if type(again) is kind and str(again) == str(made):
                return found
        except Exception:  # noqa: BLE001, S112  # a user's class may raise anything
            continue
    return b""


def _ignore(number: int, frame: FrameType | None) -> None:
    """A signal handler that does nothing."""


def main(number: int) -> None:
    """The whole life of a child, whose end of the socket has this number."""
    with socket.socket(fileno=number) as connection:
        setup: Setup = receive(connection)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != setup.parent:
                return
        for one in (signal.SIGTERM, signal.SIGINT):
            signal.signal(one, _ignore)  # the worker decides when a run ends; unlike SIG_IGN not inherited
        if setup.logging is not None:
            log_setup.configure_logging(*setup.logging)
        process_functions.entries = {}
        JobRunner(connection, setup).serve()
