"""Views, blocking: what only shows reads from a replica where the URL says so, and from the master where none can answer.

Only scripts that say of themselves that they look go there, by EVALSHA_RO: a server refuses to let such a call write.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeVar

from tarry.clients.answers import looking, tell_of_the_master
from tarry.idea.calls import Call, Command
from tarry.links.blocking import Server
from tarry.links.faults import Fault, NoScript
from tarry.links.replicas import STATE, Replicas

if TYPE_CHECKING:
    from tarry.clients.sync.engine import Engine

T = TypeVar("T")


class Viewer:
    """The way of one client's views."""

    def __init__(self, engine: Engine) -> None:
        self._runner = engine.runner
        self._cluster = engine.origin.address.kind == "cluster"
        self._patience_s = engine.origin.patience.longest_s
        self._replicas = Replicas(engine.origin.address)
        self._servers: dict[str, Server] = {}
        self._lock = threading.Lock()

    def perform(self, request: Call[T] | Command[T]) -> T:
        """Asks a replica once, else the master as for a verb. Raises a ``TarryError``."""
        if isinstance(request, Call) and request.script.looks:
            url = self._url_of(request.keys[0])
            if url is not None:
                try:
                    reply = self._ask(url, request)
                except Fault as fault:
                    self._replicas.drop(url)
                    tell_of_the_master(url, fault)
                else:
                    return request.decode(reply)
        return self._runner.perform(request)

    def _url_of(self, key: bytes) -> str | None:
        if self._replicas.is_time:
            with self._lock:
                if self._replicas.is_time:
                    self._replicas.look(self._patience_s)
        return self._replicas.of(key)

    def _ask(self, url: str, call: Call[Any]) -> Any:
        server = self._servers.get(url)
        if server is None:
            server = self._servers.setdefault(url, Server(url, self._patience_s, of_a_replica=self._cluster))
        first = () if self._replicas.is_believed(url) else (STATE,)
        *state, reply = server.exchange([*first, looking(call, self._runner.clock)])
        for told in state:
            self._replicas.judge(url, told)
        if isinstance(reply, NoScript):
            (reply,) = server.exchange([looking(call, self._runner.clock, spelled=True)])
        if isinstance(reply, Fault):
            raise reply
        return reply

    def close(self) -> None:
        for server in self._servers.values():
            server.close()
        self._servers = {}
