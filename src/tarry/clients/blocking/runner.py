"""Performs requests and flows, blocking. Thread-safe and fork-safe; connects at the first request.

To several servers everything is sent before the first answer is read: they work at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from tarry.clients.blocking.flow_runner import run_flow
from tarry.clients.blocking.servers import ServerPool
from tarry.clients.config import COMMANDS_ONLY
from tarry.clients.deliveries import Delivery, Pipeline, pipelines_of
from tarry.clients.replies import (
    check_confirmation,
    command_of,
    eval_command,
    judged,
    key_of,
    log_return,
    refuse_forbidden,
    refuse_unconfirmable,
    with_key,
)
from tarry.connections.address import Address
from tarry.connections.blocking import RequestConnection, Server
from tarry.connections.faults import ConnectionLost, Fault, WrongNode
from tarry.connections.resp import BUFFERED_TIMEOUT_S, Replies
from tarry.core.patience import Patience, RetryBudget
from tarry.core.requests import Batch, Command, Confirmation, Flow, Request, ScriptCall, Step, Transaction
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
        delivery: Delivery | None = None  # made after a fault: most requests meet none
        budget, source = self._patience.start(time.monotonic), 0
        while True:
            try:
                answer: T = self._try(request, source, budget)
                if budget.tries:
                    log_return(budget, self._topology.redacted)
                return answer
            except Fault as fault:
                delivery = delivery or Delivery(request, budget)
                self._wait_or_raise(delivery, fault)
                request, source = delivery.request, delivery.source

    def _try(self, request: Any, source: int, budget: RetryBudget) -> Any:
        server = self.server_of(key_of(request), budget)
        if server.forbidden:
            refuse_forbidden(server.forbidden, request)
        command = eval_command(request, self.clock) if source else command_of(request, self.clock)
        is_call = type(request) is ScriptCall
        rescue = self._undo_on_interrupt(request) if is_call and request.undo is not None else None
        if is_call and request.confirmation is not None:
            waiting, commands = _confirmed(server, [command], request.confirmation)
            reply, *more = waiting.exchange(commands, rescue)
        else:
            reply, *more = server.exchange((command,), rescue, budget.exchange_timeout)
        if isinstance(fault := judged(request, reply), Fault):
            raise with_key(fault, request)
        answer = request.decode(reply)
        if more:
            check_confirmation(request.confirmation, more, server.confirms)
        return answer

    def transact(self, transaction: Transaction[T]) -> T:
        """Performs a transaction of plain commands, also on a server that runs no scripts. Raises a ``TarryError``."""

        def once(budget: RetryBudget) -> T:
            url = self._topology.url_of(transaction.key)
            server = self._servers.get(url) or self._servers.get(COMMANDS_ONLY + url)
            server = server or self._connect(url, budget, scripts=False)
            return server.transact(transaction, budget.exchange_timeout)

        return self._with_retries(once)

    # ── many requests ────────────────────────────────────────────────────────────────────────────────────────────────

    def send_batch(self, requests: Sequence[ScriptCall[T] | Command[T]]) -> list[T | TarryError]:
        """Sends requests once, in pipelines, to all servers at the same time. Returns the value or the error of each."""
        from tarry.clients.batches import checked

        return checked(self._perform_many(requests, once=True))

    def perform_batch(self, requests: Sequence[Request]) -> list[Any]:
        """Sends requests in pipelines, each until it is answered or patience ends. Returns the values, or the errors."""
        return self._perform_many(requests, once=False)

    def _perform_many(self, requests: Sequence[Request], *, once: bool) -> list[Any]:
        from concurrent.futures import Future

        from tarry.clients import batches  # only batches need them

        budget = self._patience.start(time.monotonic)
        portions = batches.Portions(requests, budget, Future, once=once)
        chains: list[tuple[Iterator[list[Delivery]], list[Delivery]]] = [
            (chain, []) for chain in portions.chains(self._urls_of(requests, budget))
        ]
        ready: list[Delivery] = []
        while True:
            for at, (chain, sent) in enumerate(chains):
                if all(delivery.result.done() for delivery in sent):
                    chains[at] = chain, next(chain, [])
                    ready += chains[at][1]
            if not ready:
                return portions.answers
            ready = self._round(ready)

    def _urls_of(self, requests: Sequence[Request], budget: RetryBudget) -> list[str]:
        try:
            return [self.node_url_of(key_of(request), budget) for request in requests]
        except (Fault, TarryError):  # no server is known at the moment
            return [""] * len(requests)

    def _round(self, deliveries: list[Delivery]) -> list[Delivery]:
        """Sends them and reads what the servers answer. Returns those to be sent again, after the pause for that."""
        failed: list[tuple[Delivery, Fault]] = []

        def no_server(delivery: Delivery, error: Exception) -> None:
            failed.append((delivery, error)) if isinstance(error, Fault) else delivery.fail(error)

        pipelines = pipelines_of(deliveries, lambda key: self.node_url_of(key, deliveries[0].budget), no_server)
        failed += self._exchange(pipelines)
        again: list[Delivery] = []
        pauses: list[float] = []
        refresh = False
        for delivery, fault in failed:
            pause = delivery.next_try(fault, self._topology.redacted, self._patience.bound)
            refresh |= isinstance(fault, (ConnectionLost, WrongNode)) if delivery.once else delivery.needs_refresh
            if pause is None:
                delivery.fail(delivery.error(self._topology.redacted))
            else:
                again.append(delivery)
                pauses.append(pause)
        if any(pauses) or (refresh and not again):
            budget = (again or deliveries)[0].budget
            self._pause(max(pauses, default=0.0), budget, refresh=refresh)
        return again

    def _exchange(self, pipelines: Sequence[Pipeline]) -> list[tuple[Delivery, Fault]]:
        failed: list[tuple[Delivery, Fault]] = []
        sent: dict[Pipeline, tuple[Server, RequestConnection, int]] = {}
        sent_at, any_lost = time.monotonic(), False
        try:
            for pipeline in pipelines:
                try:
                    if any_lost and pipeline.budget.next_delay(0) is None:
                        raise failed[-1][1]  # patience is over: no further server is connected to
                    if (one := self._send(pipeline)) is not None:
                        sent[pipeline] = one
                except Fault as fault:
                    any_lost = True
                    failed += pipeline.lost(fault)
                except TarryError as error:
                    for delivery in pipeline.deliveries:
                        delivery.fail(error)
            for pipeline in list(sent):
                server, connection, expected = sent.pop(pipeline)
                left_s = max(sent_at + server.answer_timeout_s - time.monotonic(), BUFFERED_TIMEOUT_S)
                try:
                    replies = server.read(connection, expected, left_s=left_s if any_lost else None)
                    failed += pipeline.received(replies, server.confirms)
                except Fault as fault:
                    any_lost = True  # the other servers get no more time than they have had already
                    failed += pipeline.lost(fault)
        finally:
            for _, connection, _ in sent.values():  # not read: an exception came between
                connection.disconnect()
        return failed

    def _send(self, pipeline: Pipeline) -> tuple[Server, RequestConnection, int] | None:
        server = self.server_of(pipeline.key, pipeline.budget)
        if server.forbidden and not pipeline.refuse(server.forbidden):
            return None
        commands, within_s = pipeline.commands(self.clock), pipeline.budget.exchange_timeout
        if pipeline.confirmation is None:
            return server, server.send(commands, within_s), len(commands)
        waiting, commands = _confirmed(server, commands, pipeline.confirmation)
        return waiting, waiting.send(commands), len(commands)

    # ── flows ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def perform_step(self, step: Step) -> Any:
        """Performs what a flow yields."""
        return self.perform_batch(step.requests) if isinstance(step, Batch) else self.perform(step)

    def run(self, flow: Flow[T], perform_step: Callable[[Step], Any] | None = None) -> T:
        """Performs a flow, step by step, with ``perform_step`` if that is given."""
        return run_flow(flow, perform_step or self.perform_step)

    def perform_if_possible(self, request: ScriptCall[Any]) -> None:
        """Performs a request whose failure does no harm: the jobs that it releases would come back later without it."""
        with suppress(TarryError):
            self.perform(request)

    def ask_all(self, ask: Callable[[Server], T]) -> dict[str, T]:
        """Asks all servers. Returns the answers by address. Raises a ``TarryError``."""
        found: dict[str, T] = {}

        def once(budget: RetryBudget) -> None:
            for shown, url in self._topology.urls().items():
                if shown not in found:
                    found[shown] = ask(self._servers.get(url) or self._connect(url, budget))

        self._with_retries(once)
        return found

    def _with_retries(self, once: Callable[[RetryBudget], T]) -> T:
        """Repeats ``once`` until it succeeds, or patience ends. Raises a ``TarryError``."""
        delivery = Delivery(None, self._patience.start(time.monotonic))
        while True:
            try:
                self._ensure_open(delivery.budget)
                answer = once(delivery.budget)
                if delivery.budget.tries:
                    log_return(delivery.budget, self._topology.redacted)
                return answer
            except Fault as fault:
                self._wait_or_raise(delivery, fault)

    def _wait_or_raise(self, delivery: Delivery, fault: Fault) -> None:
        """Waits before the next try; raises when a retry would not help."""
        pause = delivery.next_try(fault, self._topology.redacted, self._patience.bound)
        if pause is None:
            raise delivery.error(self._topology.redacted) from fault
        if pause:
            self._pause(pause, delivery.budget, refresh=delivery.needs_refresh)

    def _undo_on_interrupt(self, request: Any) -> Any:
        def give_back(replies: Replies) -> None:
            if not isinstance(replies[0], Fault):
                undo = request.undo(request.decode(replies[0]))
                if undo is not None:
                    with suppress(TarryError):  # then they come back after their TTR; what interrupted comes through
                        self.perform(undo)

        return give_back

    def _pause(self, seconds: float, budget: RetryBudget, *, refresh: bool) -> None:
        time.sleep(seconds)
        if refresh:
            with suppress(Unavailable, Fault):  # no server yet: patience decides
                self.refresh(within_s=budget.remaining)


def _confirmed(server: Server, commands: Sequence[Any], confirmation: Confirmation) -> tuple[Server, list[Any]]:
    """The server without a time limit, and the commands with their confirmation, which blocks its connection for a while. Checks
    once for each server that it can confirm; raises a ``Fault`` if not."""
    waiting = server.without_timeout
    waiting.confirms = server.confirms
    if confirmation.command[0] not in server.confirms:
        refuse_unconfirmable(confirmation, waiting.exchange([confirmation.probe])[0])
        server.confirms.add(confirmation.command[0])
    return waiting, [*commands, confirmation.command]
