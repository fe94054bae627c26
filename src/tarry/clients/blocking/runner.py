"""Performs requests and flows, blocking. Thread-safe and fork-safe; connects at the first request."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any, TypeVar

from tarry.clients.blocking.flow_runner import run_flow
from tarry.clients.blocking.servers import ServerPool
from tarry.clients.config import COMMANDS_ONLY
from tarry.clients.replies import (
    check_confirmation,
    command_of,
    eval_command,
    key_of,
    log_retry,
    refuse_forbidden,
    unavailable_error,
    with_key,
)
from tarry.connections.address import Address
from tarry.connections.blocking import Replies, Server
from tarry.connections.faults import ConfirmationLost, ConnectionLost, Fault, NoScript, TryLater, WrongNode
from tarry.core.patience import Patience, RetryBudget
from tarry.core.requests import Batch, Command, Flow, Request, ScriptCall, Step, Transaction
from tarry.errors import TarryError, Unavailable

T = TypeVar("T")


class Runner(ServerPool):
    """Performs the requests of one client."""

    def __init__(self, address: Address, patience: Patience) -> None:
        super().__init__(address, patience)
        self.clock = b""

    # ── one request ──────────────────────────────────────────────────────────────────────────────────────────────────

    def perform(self, request: ScriptCall[T] | Command[T]) -> T:
        """Sends a request until it is answered, or patience ends. Raises a ``TarryError``."""
        with_source, budget = False, self._patience.start(time.monotonic)
        while True:
            try:
                server = self.server_of(key_of(request), budget)
                if server.forbidden:
                    refuse_forbidden(server.forbidden, request)
                command = eval_command(request, self.clock) if with_source else command_of(request, self.clock)
                confirmation = request.confirmation if type(request) is ScriptCall else None
                commands = (command,) if confirmation is None else (command, confirmation.command)
                rescue = self._undo_on_interrupt(request) if _hands_out(request) else None
                if confirmation is not None:
                    from tarry.clients.blocking.pipelines import probe_confirmation  # only durable jobs are confirmed

                    probe_confirmation(confirmation, server)
                    reply, *confirmation_reply = server.without_timeout.exchange(commands, rescue)
                else:
                    reply, *confirmation_reply = server.exchange(commands, rescue, budget.exchange_timeout)
                if isinstance(reply, Fault):
                    raise with_key(reply, request)
                answer = request.decode(reply)
                check_confirmation(confirmation, confirmation_reply, server.confirms)
                return answer
            except NoScript:
                with_source = True
            except Fault as fault:
                budget.added |= isinstance(fault, ConfirmationLost)
                self._pause_or_raise(fault, budget)
                if isinstance(fault, ConnectionLost) and isinstance(request, ScriptCall):
                    request = request.as_replay()

    def transact(self, transaction: Transaction[T]) -> T:
        """Performs a transaction of plain commands, also on a server that runs no scripts. Raises a ``TarryError``."""
        budget = self._patience.start(time.monotonic)
        while True:
            try:
                self._ensure_open(budget)
                url = self._topology.url_of(transaction.key)
                server = self._servers.get(url) or self._servers.get(COMMANDS_ONLY + url)
                server = server or self._connect(url, budget, scripts=False)
                return server.transact(transaction, budget.exchange_timeout)
            except Fault as fault:
                self._pause_or_raise(fault, budget)

    # ── many requests ────────────────────────────────────────────────────────────────────────────────────────────────

    def send_batch(self, requests: Sequence[ScriptCall[T] | Command[T]]) -> list[T | TarryError]:
        """Sends requests once, in pipelines, to all servers at the same time. Returns the value or the error of each."""
        answers = self._perform_many(requests, retries=False)
        for answer in answers:
            if isinstance(answer, Exception) and not isinstance(answer, TarryError):
                raise answer
        return answers

    def perform_batch(self, requests: Sequence[Request]) -> list[Any]:
        """Sends requests in pipelines, each until it is answered or patience ends. Returns the values, or the errors."""
        return self._perform_many(requests, retries=True)

    def _perform_many(self, requests: Sequence[Request], *, retries: bool) -> list[Any]:
        from tarry.clients.chunks import chunked, is_silent  # only batches need it

        answers: dict[int, Any] = {}
        budget = self._patience.start(time.monotonic)
        by_url = chunked(requests, self._urls_of(requests, budget))
        for chunks in zip_longest(*by_url.values(), fillvalue=()):
            pending = {at: requests[at] for chunk in chunks for at in chunk if at not in answers}
            answers |= self._with_retries(pending, budget) if retries else self._send_once(pending, budget)
            budget = self._patience.start(time.monotonic)
            for chunk, whole in zip(chunks, by_url.values(), strict=True):
                found = [answers[at] for at in chunk]
                if found and is_silent(found, retries=retries):
                    fault = next(answer for answer in found if isinstance(answer, Unavailable))
                    answers |= {at: answers.get(at, fault) for part in whole for at in part}
        return [answers[at] for at in range(len(requests))]

    def _urls_of(self, requests: Sequence[Request], budget: RetryBudget) -> list[str]:
        try:
            return [self.node_url_of(key_of(request), budget) for request in requests]
        except (Fault, TarryError):  # no server is known at the moment
            return [""] * len(requests)

    def _exchange(self, requests: Mapping[int, Request], budget: RetryBudget) -> dict[int, Any]:
        from tarry.clients.blocking.pipelines import Pipelines  # only batches need it

        return Pipelines(self, requests, budget).exchange()

    def _send_once(self, requests: Mapping[int, Request], budget: RetryBudget) -> dict[int, Any]:
        answers = self._exchange(requests, budget)
        faults = {at: answer for at, answer in answers.items() if isinstance(answer, Fault)}
        if any(isinstance(fault, (ConnectionLost, WrongNode)) for fault in faults.values()):
            with suppress(Unavailable, Fault):  # no server yet: the next try raises that
                self.refresh()
        return answers | {at: unavailable_error(fault, self._topology.redacted, 0) for at, fault in faults.items()}

    def _with_retries(self, requests: Mapping[int, Request], budget: RetryBudget) -> dict[int, Any]:
        """Repeats the requests that met a fault, as ``perform`` does; all have the same time."""
        answers: dict[int, Any] = {}
        added: set[int] = set()
        while requests:
            answers |= self._exchange(requests, budget)
            faults = {at: answers[at] for at in requests if isinstance(answers[at], Fault)}
            added |= {at for at, fault in faults.items() if isinstance(fault, ConfirmationLost)}
            retryable = {at: fault for at, fault in faults.items() if isinstance(fault, (ConnectionLost, TryLater))}
            if retryable:
                try:
                    self._pause_or_raise(
                        max(retryable.values(), key=lambda fault: isinstance(fault, WrongNode)), budget
                    )
                except TarryError:
                    retryable = {}
            for at in faults.keys() - retryable.keys():
                answers[at] = unavailable_error(faults[at], self._topology.redacted, budget.elapsed, added=at in added)
            requests = {at: _retried(requests[at], fault) for at, fault in retryable.items()}
        return answers

    # ── flows ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def perform_step(self, step: Step) -> Any:
        """Performs what a flow yields."""
        return self.perform_batch(step.requests) if isinstance(step, Batch) else self.perform(step)

    def run(self, flow: Flow[T], perform_step: Callable[[Step], Any] | None = None) -> T:
        """Performs a flow, step by step, with ``perform_step`` if that is given."""
        return run_flow(flow, perform_step or self.perform_step)

    def perform_in_background(self, request: ScriptCall[Any]) -> None:
        """Performs a request whose failure does no harm: the jobs that it gives back would come back later without it."""
        with suppress(TarryError):
            self.perform(request)

    def ask_all(self, ask: Callable[[Server], T]) -> dict[str, T]:
        """Asks all servers. Returns the answers by address. Raises a ``TarryError``."""
        found: dict[str, T] = {}
        budget = self._patience.start(time.monotonic)
        while True:
            try:
                self._ensure_open(budget)
                for shown, url in self._topology.urls().items():
                    if shown not in found:
                        found[shown] = ask(self._servers.get(url) or self._connect(url, budget))
                return found
            except Fault as fault:
                self._pause_or_raise(fault, budget)

    def _undo_on_interrupt(self, request: Any) -> Any:
        def give_back(replies: Replies) -> None:
            if not isinstance(replies[0], Fault):
                undo = request.undo(request.decode(replies[0]))
                if undo is not None:
                    with suppress(TarryError):  # then they come back after their TTR; what interrupted comes through
                        self.perform(undo)

        return give_back

    def _pause_or_raise(self, fault: Fault, budget: RetryBudget) -> None:
        """Waits before the next try; raises when a retry would not help."""
        pause = budget.next_delay(random.random()) if isinstance(fault, (ConnectionLost, TryLater)) else None
        if pause is None:
            raise unavailable_error(fault, self._topology.redacted, budget.elapsed, added=budget.added) from fault
        log_retry(budget.tries, fault, self._topology.redacted, self._patience.bound)
        time.sleep(pause)
        budget.tries += 1
        if budget.tries > 1 or isinstance(fault, WrongNode):
            with suppress(Unavailable, Fault):  # no server yet: patience decides
                self.refresh(within_s=budget.remaining)


def _hands_out(request: Any) -> bool:
    return type(request) is ScriptCall and request.undo is not None


def _retried(request: Request, fault: Fault) -> Request:
    return request.as_replay() if isinstance(fault, ConnectionLost) and isinstance(request, ScriptCall) else request
