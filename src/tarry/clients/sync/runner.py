"""Performs requests and flows, blocking. Thread-safe and fork-safe; connects at the first request."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
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
from tarry.clients.sync.way import PLAIN, Way
from tarry.errors import TarryError, Unavailable
from tarry.idea.calls import Call, Command, Confirmation, Flow, Request, Transaction
from tarry.idea.patience import Begun, Patience
from tarry.links.address import Address
from tarry.links.blocking import Replies, Server
from tarry.links.faults import Elsewhere, Fault, Later, Lost, NoScript, Unheard

T = TypeVar("T")


class Runner(Way):
    """What one client asks of its servers."""

    def __init__(self, address: Address, patience: Patience, clock: bytes = b"") -> None:
        super().__init__(address, patience)
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


def _try(then: Confirmation, server: Server) -> None:
    """Before a server is first given what it is to confirm. Raises a ``Fault``."""
    if then.words[0] not in server.confirms:
        refuse_unconfirmable(then, server.unhurried.exchange([then.trial])[0])
        server.confirms.add(then.words[0])


def _hands_out(request: Any) -> bool:
    return isinstance(request, Call) and request.undo is not None
