# Made from src/tarry/clients/awaited/replica_reads.py by tools/blocking.py: change that file, then `make blocking`.
"""Views, blocking: they read from a replica where the URL says so, and from the master where no replica can answer.

Only scripts that are marked as read-only go there, by EVALSHA_RO: a server refuses to let such a call write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from tarry.clients.blocking.concurrency import Mutex, SharedCalls, gather, to_thread
from tarry.clients.blocking.interfaces import SharedPartHost
from tarry.clients.portions import portions_of
from tarry.clients.replies import decode_reply, log_master_fallback, read_only_command
from tarry.connections.blocking import Server
from tarry.connections.faults import ConnectionLost, Fault, NoScript
from tarry.connections.replicas import STATE_COMMAND, Replicas
from tarry.connections.resp import Replies
from tarry.core.requests import Batch, Command, Request, ScriptCall, Step

T = TypeVar("T")


class ReplicaReader:
    """Performs the views of one client."""

    def __init__(self, engine: SharedPartHost) -> None:
        self._runner = engine.runner
        self._cluster = engine.config.address.kind == "cluster"
        self._patience_s = engine.config.patience.max_answer_s
        self._replicas = Replicas(engine.config.address)
        self._servers: dict[str, Server] = {}
        self._closed = False
        self._discovery = Mutex()
        self._calls = SharedCalls()

    def perform(self, request: ScriptCall[T] | Command[T]) -> T:
        """Asks a replica once, else the master as for a verb. Raises a ``TarryError``."""
        url = self._url_of(request)
        if url:
            (reply,) = self._ask_shielded(url, [request])
            if not isinstance(reply, Fault):
                return request.decode(reply)
        return self._runner.perform(request)

    def perform_batch(self, requests: Sequence[Request]) -> list[Any]:
        """Performs requests that do not depend on each other. Returns the value or the error of each."""
        answers: dict[int, Any] = {}
        by_place = portions_of(requests, [self._url_of(request) for request in requests])
        for found in gather([self._ask_replica(url, requests, its) for url, its in by_place.items() if url]):
            answers |= found
        left = [at for at in range(len(requests)) if at not in answers]
        if left:
            answers.update(zip(left, self._runner.perform_batch([requests[at] for at in left]), strict=True))
        return [answers[at] for at in range(len(requests))]

    def _ask_replica(self, url: str, requests: Sequence[Request], chunks: Sequence[Sequence[int]]) -> dict[int, Any]:
        """Returns the answers of one replica, as long as it answers."""
        answers: dict[int, Any] = {}
        for chunk in chunks:
            replies = self._ask_shielded(url, [requests[at] for at in chunk])
            for at, reply in zip(chunk, replies, strict=True):
                if not isinstance(reply, Fault):
                    answers[at] = decode_reply(requests[at], reply)
            if any(isinstance(reply, Fault) for reply in replies):
                break
        return answers

    def perform_step(self, step: Step) -> Any:
        """Performs what a flow yields."""
        return self.perform_batch(step.requests) if isinstance(step, Batch) else self.perform(step)

    def _url_of(self, request: Request) -> str:
        """The replica that may answer, if there is one."""
        if isinstance(request, Command):
            key, read_only = request.args[request.key_index], request.read_only
        else:
            key, read_only = request.keys[0], request.script.read_only
        if not read_only:
            return ""
        if self._replicas.is_due:
            self._calls.run("discover", self._discover)
        return self._replicas.url_for(key) or ""

    def _discover(self) -> None:
        with self._discovery:
            if self._replicas.is_due:
                to_thread(self._replicas.discover, self._patience_s)

    def _ask_shielded(self, url: str, calls: Sequence[Any]) -> Replies:
        """A cancelled caller does not stop the exchange: other replies follow on the same connection."""
        return self._calls.run(object(), lambda: self._ask(url, calls))

    def _ask(self, url: str, calls: Sequence[Any]) -> Replies:
        """Returns replies and faults. A replica that does not answer, or not correctly, is not used for a while."""
        try:
            replies = self._exchange(url, calls)
        except Fault as fault:
            replies = [fault] * len(calls)
        for reply in replies:
            if isinstance(reply, Fault):
                self._replicas.distrust(url)
                log_master_fallback(url, reply)
                break
        return replies

    def _exchange(self, url: str, calls: Sequence[Request]) -> Replies:
        server = self._servers.get(url)
        if server is None:
            self._runner.ensure_open()
            if self._closed:
                raise ConnectionLost("the client was closed")
            server = self._servers.setdefault(url, Server(url, self._patience_s, replica_of_cluster=self._cluster))
        first = () if self._replicas.is_trusted(url) else (STATE_COMMAND,)
        answers = server.exchange([*first, *[read_only_command(call, self._runner.clock) for call in calls]])
        state, replies = answers[: len(first)], answers[len(first) :]
        for one in state:
            self._replicas.check_state(url, one)
        unknown = [at for at, reply in enumerate(replies) if isinstance(reply, NoScript)]
        if unknown:
            again = server.exchange(
                [read_only_command(calls[at], self._runner.clock, with_source=True) for at in unknown]
            )
            for at, reply in zip(unknown, again, strict=True):
                replies[at] = reply
        return replies

    def close(self) -> None:
        self._closed = True
        self._calls.close()
        for server in self._servers.values():
            server.close()
        self._servers = {}
