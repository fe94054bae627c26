# Made from src/tarry/clients/awaited/zookeeper.py by tools/blocking.py: change that file, then `make blocking`.
"""``tarry.zookeeper.Client``: locks kept in ZooKeeper, blocking. kazoo's threads talk to it."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from tarry.clients.blocking.concurrency import Local, Signal, thread_safe_caller, to_thread
from tarry.clients.blocking.lock_watchdog import LockWatchdog
from tarry.clients.blocking.locks import Lock
from tarry.clients.config import CLOSED, wait_seconds
from tarry.clients.lock_options import LockOptions, process_label
from tarry.connections.zookeeper_session import ANSWER_TIMEOUT_S, ZooKeeperSession, result_of
from tarry.errors import BadInput
from tarry.values import names
from tarry.values.durations import Duration
from tarry.verbs.locks.lock_table import LockTable
from tarry.verbs.locks.lock_values import LockId
from tarry.verbs.locks.zookeeper_backend import ZooKeeperBackend
from tarry.verbs.locks.zookeeper_requests import ConnectionInterrupted, SessionState, ZooKeeperBatch


class ZooKeeperLocks(LockWatchdog):
    """The locks of a client on ZooKeeper."""

    def __init__(self, hosts: str, namespace: str, session_timeout_s: float, patience_s: float) -> None:
        self._patience_s = patience_s
        self._session = ZooKeeperSession(hosts, session_timeout_s, thread_safe_caller())

        def make_backend(table: LockTable) -> ZooKeeperBackend:
            return ZooKeeperBackend(table, SessionState(session_timeout_s), namespace, process_label(), patience_s)

        super().__init__(make_backend, self._perform)
        assert isinstance(self.backend, ZooKeeperBackend)
        self.zookeeper_backend = self._session.listener = self.backend

    def _perform(self, step: Any) -> Any:
        assert isinstance(step, ZooKeeperBatch)
        if not self._session.reached:
            live = self._session.connect()
            if not to_thread(live.wait, min(self._patience_s, ANSWER_TIMEOUT_S)):
                raise ConnectionInterrupted("there is no connection")
        answers = [(op, self._session.start_request(op)) for op in step.ops]
        by = time.monotonic() + ANSWER_TIMEOUT_S
        for _, answer in answers:
            if not _ready(answer, by - time.monotonic()):
                raise ConnectionInterrupted(f"no answer for {ANSWER_TIMEOUT_S:g} s")
        return [result_of(op, answer) for op, answer in answers]

    def close(self) -> None:
        """Releases all held locks, and ends the session."""
        super().close()
        to_thread(self._session.close)


def _ready(answer: Any, seconds: float) -> bool:
    """Whether kazoo's thread has the answer within the time."""
    if answer.ready():
        return True
    ended = Signal()

    def end(_: Any) -> None:
        ended.set_from_thread()

    answer.rawlink(end)
    return ended.wait(seconds)


class Client:
    """Locks on ZooKeeper. Thread-safe, fork-safe, a context manager. Make it once; it connects when it is first used.

    ``hosts``            ``"host:port,host:port"``
    ``namespace``        keeps applications apart on one ZooKeeper: the locks are below ``/tarry/NAMESPACE``
    ``session_timeout``  how long this process may be silent before ZooKeeper gives the process's locks to others: two
                         to twenty ticks of the server (4 s to 40 s by default)
    ``patience``         how long a request is repeated after a lost answer, before ``Unavailable`` is raised
    """

    def __init__(
        self,
        hosts: str = "127.0.0.1:2181",
        *,
        namespace: str = "default",
        session_timeout: Duration = 10,
        patience: Duration = 10,
    ) -> None:
        names.check_namespace(namespace)
        if not isinstance(hosts, str) or not hosts:
            raise BadInput(f"hosts: {hosts!r}; write host:port,host:port.")
        self.namespace = namespace
        """The namespace of its locks."""
        self._settings = (hosts, namespace, wait_seconds(session_timeout), wait_seconds(patience))
        self._locks: Local[str, ZooKeeperLocks] = Local()
        self._closed = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.namespace} at {self._settings[0]}>"

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def lock(
        self, name: str, *, wait: Duration | None = None, lease: Duration | None = None, shared: bool = False
    ) -> Lock:
        """The lock of this name in the namespace. Waiters are served in the order in which they came.

        ``wait``  how long to wait for it; ``None``: forever
        ``lease``  the time after which the lock ends, even if its holder does not notice; ``None``: as long as this process and its
                 connection live
        ``shared``  with ``True`` the lock is the ``InterProcessMutex`` of a Java program with Curator, and ``name`` is its path, such as ``/locks/stock``.
                 The lock is then the same in every namespace
        """
        return Lock(
            self._part,
            LockId(name, shared),
            LockOptions(wait, lease),
            kept_in="zookeeper" if shared else f"zookeeper/{self.namespace}",
            place=f"at {self._settings[0]}" if shared else f"of {self.namespace} at {self._settings[0]}",
        )

    def locks(self) -> list[str]:
        """The names of all locks of the namespace that were ever acquired, whether they are held now or not."""
        locks = self._part()
        return locks.run(locks.zookeeper_backend.list_names())

    def close(self) -> None:
        """Releases all held locks, and ends the session. A later verb raises ``BadInput``."""
        self._closed = True
        for locks in self._locks.take_all():
            locks.close()

    def _part(self) -> ZooKeeperLocks:
        if self._closed:
            raise BadInput(CLOSED)
        return self._locks.get(self.namespace, lambda: ZooKeeperLocks(*self._settings))
