"""A blocking client's way to its servers: found, connected to and checked at the first request, in each process."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

from tarry.clients.blocking.concurrency import LoopWarning
from tarry.clients.config import CLOSED, COMMANDS_ONLY, log_default_server
from tarry.connections import fitness
from tarry.connections.address import Address
from tarry.connections.blocking import Server
from tarry.connections.faults import ConnectionLost, with_tls_hint
from tarry.connections.topology import Topology
from tarry.core.patience import Patience, RetryBudget
from tarry.errors import BadInput
from tarry.values import names

UNLIMITED = -1.0


class ServerPool:
    """Servers by their keys. Thread-safe and fork-safe."""

    def __init__(self, address: Address, patience: Patience) -> None:
        self._topology = Topology(address)
        self._patience = patience
        self._lock = threading.Lock()
        self._servers: dict[str, Server] = {}
        self._open = False
        self._refreshed_at = 0.0
        self._forks = names.forks
        self._loop_warning = LoopWarning()
        self.closed = False
        """Whether it was closed for good: every later request is refused."""

    def server_of(self, key: bytes, budget: RetryBudget | None = None) -> Server:
        """Returns the server of a key. At the first request, connects to it and checks it."""
        budget = budget or self._patience.start(time.monotonic)
        self._ensure_open(budget)
        url = self._topology.url_of(key)
        return self._servers.get(url) or self._connect(url, budget, key)

    def ensure_open(self) -> None:
        """Nothing to do: each request opens what it needs."""

    @property
    def shown(self) -> str:
        """The address, as it may be shown."""
        return self._topology.redacted

    def group_of(self, key: bytes) -> int:
        return self._topology.group_of(key)

    def node_url_of(self, key: bytes, budget: RetryBudget | None = None) -> str:
        """Returns the URL of the server that has a key at the moment. Raises a ``Fault``."""
        self._ensure_open(budget or self._patience.start(time.monotonic))
        return self._topology.url_of(key)

    def refresh(self, since: float | None = None, within_s: float | None = None) -> None:
        """Looks for the servers again, unless another thread has done so ``since`` then; at most for the time that is left of
        patience. Raises a ``Fault``."""
        within_s = self._patience.max_answer_s if within_s is None else within_s
        until = time.monotonic() + within_s
        with self._lock_within(within_s):
            if since is None or self._refreshed_at <= since:
                self._refreshed_at = time.monotonic()
                self._topology.refresh(until - time.monotonic())

    @contextmanager
    def _lock_within(self, within_s: float) -> Generator[None]:
        """One thread looks for the servers, and the others wait for it, each within its own time."""
        lock = self._lock
        if not lock.acquire(timeout=within_s):
            raise ConnectionLost("another thread still looks for the servers")
        try:
            yield
        finally:
            lock.release()

    def _ensure_open(self, budget: RetryBudget) -> None:
        self._loop_warning.check()
        if self._open and self._forks == names.forks and self._topology.master_known:
            return
        if self.closed:
            raise BadInput(CLOSED)
        if self._forks != names.forks:
            self._lock = threading.Lock()  # a thread of the parent may have held it when this process was forked
        embedded = self._topology.address.kind == "embedded"
        if self._forks != names.forks or not self._open:
            with self._lock_within(UNLIMITED if embedded else budget.remaining):
                if self._forks != names.forks:
                    self._forks = names.forks
                    for server in self._servers.values():
                        server.forget()
                if not self._open:
                    self._topology.open(budget.remaining)
                    self._open = True
                    log_default_server(self._topology)
        self._topology.ensure_master_known(budget.remaining)
        if embedded:
            budget.restart()  # the start of the embedded server has its own time limit

    def _connect(self, url: str, budget: RetryBudget, key: bytes = b"", *, scripts: bool = True) -> Server:
        server = Server(url, self._patience.max_answer_s, master_check=self._topology.master_check)
        cluster = self._topology.address.kind == "cluster"
        try:
            replies = server.exchange(fitness.probe_commands(key), within_s=budget.exchange_timeout)
            if fitness.wants_save(replies):
                replies += server.exchange((fitness.SAVE,), within_s=budget.exchange_timeout)
            server.forbidden = fitness.check_fitness(
                replies, self._topology.redacted_url(url), cluster=cluster, scripts=scripts
            )
            known = self._servers.setdefault(url if scripts else COMMANDS_ONLY + url, server)
        except BaseException as fault:
            server.close()
            if isinstance(fault, ConnectionLost) and not self._servers:
                raise with_tls_hint(fault, url) from fault
            raise
        if known is not server:  # another thread was first
            server.close()
        return known

    def close(self) -> None:
        """Closes for good."""
        self.closed = True
        self.disconnect()

    def disconnect(self) -> None:
        """Closes the connections. The next request opens new ones."""
        if self._forks == names.forks:
            for server in self._servers.values():
                server.close()
        self._servers = {}
        self._topology.close()
        self._open = False
