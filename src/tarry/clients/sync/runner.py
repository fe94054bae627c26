"""Performs requests and flows, blocking. Thread-safe and fork-safe; connects at the first request."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from tarry.clients.answers import (
    confirm,
    first_in_full,
    given_up,
    key_of,
    refuse_forbidden,
    refuse_unconfirmable,
    spelled_out,
    tell_of_patience,
    with_its_key,
    words_of,
)
from tarry.errors import TarryError, Unavailable
from tarry.idea.calls import Call, Command, Confirmation, Flow, Request, Transaction
from tarry.idea.patience import Begun, Patience
from tarry.links import fitness
from tarry.links.address import Address
from tarry.links.blocking import Replies, Server
from tarry.links.faults import Elsewhere, Fault, Later, Lost, NoScript, Unheard, of_tls
from tarry.links.topology import Topology

T = TypeVar("T")
PLAIN = "plain "
"""Before the URL of a server that was met for plain commands, and may run no scripts."""
UNLIMITED = -1.0
logger = logging.getLogger("tarry")


class Runner:
    """One client's way to its servers."""

    def __init__(self, address: Address, patience: Patience, clock: bytes = b"") -> None:
        self._topology = Topology(address)
        self._patience = patience
        self._lock = threading.Lock()
        self._servers: dict[str, Server] = {}
        self._open = False
        self._refreshed_at = 0.0
        self._pid = os.getpid()
        self.clock = clock

    # ── one request ──────────────────────────────────────────────────────────────────────────────────────────────────

    def perform(self, request: Call[T] | Command[T]) -> T:
        """Sends a request until it is answered, or patience ends. Raises a ``TarryError``."""
        spelled, begun = False, self._patience.begin(time.monotonic)
        while True:
            try:
                server = self.server_of(key_of(request), begun)
                if server.forbidden:
                    refuse_forbidden(server.forbidden, request)
                words = spelled_out(request, self.clock) if spelled else words_of(request, self.clock)
                then = request.then if isinstance(request, Call) else None
                asked = (words,) if then is None else (words, then.words)
                rescue = self._rescue(request) if _hands_out(request) else None
                if then is not None:
                    _try(then, server)
                    reply, *more = server.unhurried.exchange(asked, rescue)
                else:
                    reply, *more = server.exchange(asked, rescue, begun.hurry)
                if isinstance(reply, Fault):
                    raise with_its_key(reply, request)
                answer = request.decode(reply)
                confirm(then, more, server.confirms)
                return answer
            except NoScript:
                spelled = True
            except Fault as fault:
                begun.added |= isinstance(fault, Unheard)
                self._hold_on(fault, begun)
                if isinstance(fault, Lost) and isinstance(request, Call):
                    request = request.repeated()

    def transact(self, transaction: Transaction[T]) -> T:
        """Performs a transaction of plain commands, also on a server that runs no scripts. Raises a ``TarryError``."""
        begun = self._patience.begin(time.monotonic)
        while True:
            try:
                self._begin(begun)
                url = self._topology.url_of(transaction.key)
                server = self._servers.get(url) or self._servers.get(PLAIN + url)
                server = server or self._meet(url, begun, scripts=False)
                return server.transact(transaction, begun.hurry)
            except Fault as fault:
                self._hold_on(fault, begun)

    def perform_all(self, requests: Sequence[Call[T] | Command[T]]) -> list[T | TarryError]:
        """Sends requests in one pipeline a server, once; each is answered by its value, or by its error."""
        answers: list[Any] = [None] * len(requests)
        by_server: dict[Server, list[int]] = {}
        begun = self._patience.begin(time.monotonic)
        for at, request in enumerate(requests):
            try:
                server = self.server_of(key_of(request), begun)
                if server.forbidden:
                    refuse_forbidden(server.forbidden, request)
                by_server.setdefault(server, []).append(at)
            except Fault as fault:
                answers[at] = given_up(fault, self._topology.shown, 0)
            except TarryError as fault:
                answers[at] = fault
        for server, places in by_server.items():
            replies = self._exchange(server, [requests[at] for at in places])
            for at, reply in zip(places, replies, strict=True):
                refused = isinstance(reply, Fault)
                answers[at] = given_up(reply, self._topology.shown, 0) if refused else requests[at].decode(reply)
        return answers

    def _exchange(self, server: Server, requests: Sequence[Request]) -> Replies:
        """Replies and faults; a script that is not known is sent in full once, then the others by its name."""
        try:
            replies = server.exchange([words_of(request, self.clock) for request in requests])
            unknown = [at for at, reply in enumerate(replies) if isinstance(reply, NoScript)]
            if unknown:
                again = server.exchange(first_in_full([requests[at] for at in unknown], self.clock))
                for at, reply in zip(unknown, again, strict=True):
                    replies[at] = reply
        except Fault as fault:
            replies = [fault] * len(requests)
        if any(isinstance(reply, (Lost, Elsewhere)) for reply in replies):
            with suppress(Unavailable, Fault):  # still nobody there: the next try says so
                self.refresh()
        return replies

    def run(self, flow: Flow[T], perform: Callable[[Request], Any] | None = None) -> T:
        """Performs a flow, request by request; or somebody else does each."""
        perform = perform or self.perform
        try:
            request = next(flow)
            while True:
                try:
                    answer = perform(request)
                except Exception as fault:  # noqa: BLE001  # the flow decides what it means
                    request = flow.throw(fault)
                else:
                    request = flow.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    def _rescue(self, request: Any) -> Any:
        def give_back(replies: Replies) -> None:
            if not isinstance(replies[0], Fault):
                undo = request.undo(request.decode(replies[0]))
                if undo is not None:
                    with suppress(TarryError):  # then they come back after their TTR; what interrupted comes through
                        self.perform(undo)

        return give_back

    def _hold_on(self, fault: Fault, begun: Begun) -> None:
        """Waits before the next try; raises when there is no sense in one."""
        pause = begun.pause(random.random()) if isinstance(fault, (Lost, Later)) else None
        if pause is None:
            raise given_up(fault, self._topology.shown, begun.spent, added=begun.added) from fault
        tell_of_patience(begun.tries, fault, self._topology.shown, self._patience.bound)
        time.sleep(pause)
        begun.tries += 1
        if begun.tries > 1 or isinstance(fault, Elsewhere):
            with suppress(Unavailable, Fault):  # still nobody there: patience decides
                self.refresh(within_s=begun.left)

    # ── servers ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def server_of(self, key: bytes, begun: Begun | None = None) -> Server:
        """The server that has a key; found, and judged, when it is first asked for."""
        begun = begun or self._patience.begin(time.monotonic)
        self._begin(begun)
        return self._known(self._topology.url_of(key), begun, key)

    def each(self, ask: Callable[[Server], T]) -> dict[str, T]:
        """Asks every server, and answers by the place where it is. Raises a ``TarryError``."""
        found: dict[str, T] = {}
        begun = self._patience.begin(time.monotonic)
        while True:
            try:
                self._begin(begun)
                for shown, url in self._topology.urls().items():
                    if shown not in found:
                        found[shown] = ask(self._known(url, begun))
                return found
            except Fault as fault:
                self._hold_on(fault, begun)

    def _known(self, url: str, begun: Begun, key: bytes = b"") -> Server:
        server = self._servers.get(url)
        return server if server is not None else self._meet(url, begun, key)

    def group_of(self, key: bytes) -> int:
        return self._topology.group_of(key)

    def node_of(self, key: bytes) -> str:
        """The same for keys that lie on one server at the moment. Raises a ``Fault``."""
        self._begin(self._patience.begin(time.monotonic))
        return self._topology.url_of(key)

    def refresh(self, since: float | None = None, within_s: float | None = None) -> None:
        """Looks where the servers are, unless somebody else has looked ``since`` then; for no longer than patience, or than
        is left of it. Raises a ``Fault``."""
        within_s = self._patience.longest_s if within_s is None else within_s
        until = time.monotonic() + within_s
        with self._in_turn(within_s):
            if since is None or self._refreshed_at <= since:
                self._refreshed_at = time.monotonic()
                self._topology.refresh(until - time.monotonic())

    @contextmanager
    def _in_turn(self, within_s: float) -> Generator[None]:
        """One thread looks for the servers, and others wait for it no longer than they may."""
        lock = self._lock
        if not lock.acquire(timeout=within_s):
            raise Lost("another thread still looks for the servers")
        try:
            yield
        finally:
            lock.release()

    def _begin(self, begun: Begun) -> None:
        if self._open and self._pid == os.getpid():
            return
        if self._pid != os.getpid():
            self._lock = threading.Lock()  # a thread of the parent may have held it when this process was forked
        embedded = self._topology.address.kind == "embedded"
        with self._in_turn(UNLIMITED if embedded else begun.left):
            if self._pid != os.getpid():
                self._pid = os.getpid()
                for server in self._servers.values():
                    server.forget()
            if not self._open:
                self._topology.open(begun.left)
                self._open = True
                announce(self._topology)
        if embedded:
            begun.anew()  # it was started, which has limits of its own

    def _meet(self, url: str, begun: Begun, key: bytes = b"", *, scripts: bool = True) -> Server:
        server = Server(url, self._patience.longest_s)
        cluster = self._topology.address.kind == "cluster"
        try:
            replies = server.exchange(fitness.probe(key), within_s=begun.hurry)
            server.forbidden = fitness.check(replies, self._topology.shown_of(url), cluster=cluster, scripts=scripts)
            met = self._servers.setdefault(url if scripts else PLAIN + url, server)
        except BaseException as fault:
            server.close()
            if isinstance(fault, Lost) and not self._servers:
                raise of_tls(fault, url) from fault
            raise
        if met is not server:  # another thread was first
            server.close()
        return met

    def close(self) -> None:
        if self._pid == os.getpid():
            for server in self._servers.values():
                server.close()
        self._servers = {}
        self._topology.close()
        self._open = False


_announced = False


def announce(topology: Topology) -> None:
    """Says once a process that nobody gave a URL."""
    global _announced
    if topology.address.by_default and not _announced:
        _announced = True
        logger.warning(
            "No URL was given: using the embedded server in %s, for this user on this machine only. "
            "Set TARRY_URL to share a server.",
            topology.shown.removesuffix(" (embedded)"),
        )


def _try(then: Confirmation, server: Server) -> None:
    """Before a server is first given what it is to confirm. Raises a ``Fault``."""
    if then.words[0] not in server.confirms:
        refuse_unconfirmable(then, server.unhurried.exchange([then.trial])[0])
        server.confirms.add(then.words[0])


def _hands_out(request: Any) -> bool:
    return isinstance(request, Call) and request.undo is not None
