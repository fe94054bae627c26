"""Performs requests and flows, blocking. Thread-safe and fork-safe; connects at the first request."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any, TypeVar

from tarry.clients.answers import (
    confirm,
    given_up,
    key_of,
    refuse_forbidden,
    spelled_out,
    tell_of_patience,
    with_its_key,
    words_of,
)
from tarry.clients.portions import is_silent, portioned
from tarry.clients.sync.pipelines import Pipelines, try_out
from tarry.clients.sync.way import PLAIN, Way
from tarry.connections.address import Address
from tarry.connections.blocking import Replies, Server
from tarry.connections.faults import ConfirmationLost, ConnectionLost, Fault, NoScript, TryLater, WrongNode
from tarry.core.patience import Patience, RetryBudget
from tarry.core.requests import Batch, Command, Flow, Request, ScriptCall, Step, Transaction
from tarry.errors import TarryError, Unavailable

T = TypeVar("T")


class Runner(Way):
    """What one client asks of its servers."""

    def __init__(self, address: Address, patience: Patience, clock: bytes = b"") -> None:
        super().__init__(address, patience)
        self.clock = clock

    # ── one request ──────────────────────────────────────────────────────────────────────────────────────────────────

    def perform(self, request: ScriptCall[T] | Command[T]) -> T:
        """Sends a request until it is answered, or patience ends. Raises a ``TarryError``."""
        spelled, budget = False, self._patience.start(time.monotonic)
        while True:
            try:
                server = self.server_of(key_of(request), budget)
                if server.forbidden:
                    refuse_forbidden(server.forbidden, request)
                words = spelled_out(request, self.clock) if spelled else words_of(request, self.clock)
                then = request.confirmation if isinstance(request, ScriptCall) else None
                asked = (words,) if then is None else (words, then.command)
                rescue = self._rescue(request) if _hands_out(request) else None
                if then is not None:
                    try_out(then, server)
                    reply, *more = server.without_timeout.exchange(asked, rescue)
                else:
                    reply, *more = server.exchange(asked, rescue, budget.exchange_timeout)
                if isinstance(reply, Fault):
                    raise with_its_key(reply, request)
                answer = request.decode(reply)
                confirm(then, more, server.confirms)
                return answer
            except NoScript:
                spelled = True
            except Fault as fault:
                budget.added |= isinstance(fault, ConfirmationLost)
                self._hold_on(fault, budget)
                if isinstance(fault, ConnectionLost) and isinstance(request, ScriptCall):
                    request = request.as_replay()

    def transact(self, transaction: Transaction[T]) -> T:
        """Performs a transaction of plain commands, also on a server that runs no scripts. Raises a ``TarryError``."""
        budget = self._patience.start(time.monotonic)
        while True:
            try:
                self._begin(budget)
                url = self._topology.url_of(transaction.key)
                server = self._servers.get(url) or self._servers.get(PLAIN + url)
                server = server or self._meet(url, budget, scripts=False)
                return server.transact(transaction, budget.exchange_timeout)
            except Fault as fault:
                self._hold_on(fault, budget)

    # ── many requests ────────────────────────────────────────────────────────────────────────────────────────────────

    def perform_all(self, requests: Sequence[ScriptCall[T] | Command[T]]) -> list[T | TarryError]:
        """Sends requests in pipelines, to all servers at the same time, once; each is answered by its value, or its error."""
        answers = self._all(requests, patient=False)
        for answer in answers:
            if isinstance(answer, Exception) and not isinstance(answer, TarryError):
                raise answer
        return answers

    def together(self, requests: Sequence[Request]) -> list[Any]:
        """The same, each until it is answered, or patience ends."""
        return self._all(requests, patient=True)

    def _all(self, requests: Sequence[Request], *, patient: bool) -> list[Any]:
        answers: dict[int, Any] = {}
        budget = self._patience.start(time.monotonic)
        by_place = portioned(requests, self._places_of(requests, budget))
        for portions in zip_longest(*by_place.values(), fillvalue=()):
            asked = {at: requests[at] for portion in portions for at in portion if at not in answers}
            answers |= self._patiently(asked, budget) if patient else self._once(asked, budget)
            budget = self._patience.start(time.monotonic)
            for portion, whole in zip(portions, by_place.values(), strict=True):
                found = [answers[at] for at in portion]
                if found and is_silent(found, patient=patient):
                    fault = next(answer for answer in found if isinstance(answer, Unavailable))
                    answers |= {at: answers.get(at, fault) for part in whole for at in part}
        return [answers[at] for at in range(len(requests))]

    def _places_of(self, requests: Sequence[Request], budget: RetryBudget) -> list[str]:
        try:
            return [self.node_of(key_of(request), budget) for request in requests]
        except (Fault, TarryError):  # nobody knows at the moment
            return [""] * len(requests)

    def _once(self, asked: Mapping[int, Request], budget: RetryBudget) -> dict[int, Any]:
        answers = Pipelines(self, asked, budget).exchange()
        faults = {at: answer for at, answer in answers.items() if isinstance(answer, Fault)}
        if any(isinstance(fault, (ConnectionLost, WrongNode)) for fault in faults.values()):
            with suppress(Unavailable, Fault):  # still nobody there: the next try says so
                self.refresh()
        return answers | {at: given_up(fault, self._topology.redacted, 0) for at, fault in faults.items()}

    def _patiently(self, asked: Mapping[int, Request], budget: RetryBudget) -> dict[int, Any]:
        """What met a fault is asked again, as ``perform`` does; all have the same time."""
        answers: dict[int, Any] = {}
        added: set[int] = set()
        while asked:
            answers |= Pipelines(self, asked, budget).exchange()
            faults = {at: answers[at] for at in asked if isinstance(answers[at], Fault)}
            added |= {at for at, fault in faults.items() if isinstance(fault, ConfirmationLost)}
            again = {at: fault for at, fault in faults.items() if isinstance(fault, (ConnectionLost, TryLater))}
            if again:
                try:
                    self._hold_on(max(again.values(), key=lambda fault: isinstance(fault, WrongNode)), budget)
                except TarryError:
                    again = {}
            for at in faults.keys() - again.keys():
                answers[at] = given_up(faults[at], self._topology.redacted, budget.elapsed, added=at in added)
            asked = {at: _again(asked[at], fault) for at, fault in again.items()}
        return answers

    # ── flows ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def answer(self, step: Step) -> Any:
        """What a flow asks."""
        return self.together(step.requests) if isinstance(step, Batch) else self.perform(step)

    def run(self, flow: Flow[T], answer: Callable[[Step], Any] | None = None) -> T:
        """Performs a flow, step by step; or somebody else does each."""
        answer = answer or self.answer
        try:
            step = next(flow)
            while True:
                try:
                    found = answer(step)
                except Exception as fault:  # noqa: BLE001  # the flow decides what it means
                    step = flow.throw(fault)
                else:
                    step = flow.send(found)
        except StopIteration as end:
            result: T = end.value
            return result

    def each(self, ask: Callable[[Server], T]) -> dict[str, T]:
        """Asks every server, and answers by the place where it is. Raises a ``TarryError``."""
        found: dict[str, T] = {}
        budget = self._patience.start(time.monotonic)
        while True:
            try:
                self._begin(budget)
                for shown, url in self._topology.urls().items():
                    if shown not in found:
                        found[shown] = ask(self._known(url, budget))
                return found
            except Fault as fault:
                self._hold_on(fault, budget)

    def _rescue(self, request: Any) -> Any:
        def give_back(replies: Replies) -> None:
            if not isinstance(replies[0], Fault):
                undo = request.undo(request.decode(replies[0]))
                if undo is not None:
                    with suppress(TarryError):  # then they come back after their TTR; what interrupted comes through
                        self.perform(undo)

        return give_back

    def _hold_on(self, fault: Fault, budget: RetryBudget) -> None:
        """Waits before the next try; raises when there is no sense in one."""
        pause = budget.next_delay(random.random()) if isinstance(fault, (ConnectionLost, TryLater)) else None
        if pause is None:
            raise given_up(fault, self._topology.redacted, budget.elapsed, added=budget.added) from fault
        tell_of_patience(budget.tries, fault, self._topology.redacted, self._patience.bound)
        time.sleep(pause)
        budget.tries += 1
        if budget.tries > 1 or isinstance(fault, WrongNode):
            with suppress(Unavailable, Fault):  # still nobody there: patience decides
                self.refresh(within_s=budget.remaining)


def _hands_out(request: Any) -> bool:
    return isinstance(request, ScriptCall) and request.undo is not None


def _again(request: Request, fault: Fault) -> Request:
    return request.as_replay() if isinstance(fault, ConnectionLost) and isinstance(request, ScriptCall) else request
