"""Performs requests and flows, awaiting. Calls made in the same turn of the loop are sent in one pipeline.

    perform ─▶ outbox ──turn ends──▶ merged requests: calls of one kind become one script ──▶ one exchange a server
       ▲                                                                                            │
       └───────────────────────── futures ◀── each gets its part of the reply ──────────────────────┘

A caller that stops waiting (cancelled, timed out) does not stop the exchange. If the answer then hands out a job that no caller
takes, the job is given back.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from tarry.clients.awaited.flow_runner import run_flow
from tarry.clients.awaited.merged_requests import MergedRequest, PendingRequest, fail, keep_allowed, merge_pending
from tarry.clients.awaited.pipelines import Pipelines
from tarry.clients.awaited.servers import ServerPool
from tarry.clients.config import COMMANDS_ONLY, UNANSWERED
from tarry.clients.replies import (
    check_confirmation,
    command_of,
    eval_command,
    key_of,
    log_retry,
    refuse_unconfirmable,
    split_reply,
    unavailable_error,
    with_key,
)
from tarry.connections.address import Address
from tarry.connections.awaited import ignore_error
from tarry.connections.blocking import Replies
from tarry.connections.faults import (
    ConfirmationLost,
    ConnectionLost,
    Fault,
    NoScript,
    TryLater,
    WrongNode,
    with_tls_hint,
)
from tarry.core.patience import Patience, RetryBudget
from tarry.core.requests import Batch, Command, Confirmation, Flow, Request, ScriptCall, Step, Transaction
from tarry.errors import TarryError, Unavailable

T = TypeVar("T")
R = TypeVar("R")


class Runner(ServerPool):
    """Performs the requests of one client. A runner is its own pool of servers."""

    def __init__(self, address: Address, patience: Patience) -> None:
        super().__init__(address, patience)
        self.clock = b""
        self._reset_loop_state()

    def _reset_loop_state(self) -> None:
        self._outbox: list[PendingRequest] = []
        self._sent: set[MergedRequest] = set()
        """The first of each group that was sent without a task, and is not answered."""
        self._all_answered: asyncio.Future[None] | None = None

    def _unanswered(self) -> list[asyncio.Future[None]]:
        unanswered = super()._unanswered()
        if not self._outbox and not self._sent:
            return unanswered
        if self._all_answered is None:
            self._all_answered = asyncio.get_running_loop().create_future()
        return [*unanswered, self._all_answered]

    def _note_answered(self) -> None:
        if self._all_answered is not None and not self._outbox and not self._sent:
            self._all_answered.set_result(None)
            self._all_answered = None

    async def perform(self, request: ScriptCall[T] | Command[T]) -> T:
        """Sends a request until it is answered, or patience ends. Raises a ``TarryError``."""
        loop = asyncio.get_running_loop()
        budget = self._patience.start(loop.time)
        if self._owner[0] is not loop or not self._opened:
            await self.ensure_open(budget)
        future: asyncio.Future[T] = loop.create_future()
        self._enqueue(PendingRequest(request, future, budget))
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self.undo_unwanted(
                    request, future.result()
                )  # it came in the same turn in which its caller was cancelled
            raise

    async def transact(self, transaction: Transaction[T]) -> T:
        """Performs a transaction of plain commands, also on a server that runs no scripts. Raises a ``TarryError``."""

        async def once(budget: RetryBudget) -> T:
            url = self._topology.url_of(transaction.key)
            server = self._servers.get(url) or self._servers.get(COMMANDS_ONLY + url)
            server = server or await self._connect(url, scripts=False)
            return await server.transact(transaction, budget.exchange_timeout)

        return await self._with_retries(once)

    # ── many requests ────────────────────────────────────────────────────────────────────────────────────────────────

    async def send_batch(self, requests: Sequence[ScriptCall[T] | Command[T]]) -> list[T | TarryError]:
        """Sends requests once, in pipelines, to all servers at the same time. Returns the value or the error of each."""
        answers = await self._perform_many(requests, retries=False)
        for answer in answers:
            if isinstance(answer, Exception) and not isinstance(answer, TarryError):
                raise answer
        return answers

    async def perform_batch(self, requests: Sequence[Request]) -> list[Any]:
        """Sends requests in pipelines, each until it is answered or patience ends. Returns the values, or the errors."""
        return await self._perform_many(requests, retries=True)

    async def _perform_many(self, requests: Sequence[Request], *, retries: bool) -> list[Any]:
        await self.ensure_open(budget := self._patience.start(asyncio.get_running_loop().time))
        places = [self._topology.url_of(key_of(request)) for request in requests]
        return await Pipelines(self._enqueue, requests, budget, retries=retries).exchange(places)

    # ── flows ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def perform_step(self, step: Step) -> Any:
        """Performs what a flow yields."""
        return await (self.perform_batch(step.requests) if isinstance(step, Batch) else self.perform(step))

    async def run(self, flow: Flow[T], perform_step: Callable[[Step], Awaitable[Any]] | None = None) -> T:
        """Performs a flow, step by step, with ``perform_step`` if that is given."""
        return await run_flow(flow, perform_step or self.perform_step)

    def perform_in_background(self, request: ScriptCall[T]) -> asyncio.Future[T]:
        """Performs a request without waiting for its answer. Returns a future of that; its error need not be looked at."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        future.add_done_callback(ignore_error)
        self._enqueue(PendingRequest(request, future, self._patience.start(loop.time)))
        return future

    # ── from outbox to wire ──────────────────────────────────────────────────────────────────────────────────────────

    def _enqueue(self, pending: PendingRequest) -> None:
        if not self._outbox:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outbox.append(pending)

    def _flush(self) -> None:
        all_pending, self._outbox = self._outbox, []
        by_server: dict[tuple[str, Confirmation | None], list[PendingRequest]] = {}
        for pending in all_pending:
            if pending.future.done():
                continue
            try:
                url = self._topology.url_of(key_of(pending.request))
            except Exception as fault:  # noqa: BLE001  # whatever it is, the caller gets it
                fail(pending.future, fault)
                continue
            confirmation = getattr(pending.request, "confirmation", None)
            # The server is connected to first. A confirmation has its own time limit, and a retry has a limit and a reason already.
            never_met = url in self._servers and self._topology.master_known
            if not never_met and confirmation is None and not pending.budget.tries:
                late = ConnectionLost("no connection in this time")
                self._limit_wait(pending, late if self._servers else with_tls_hint(late, url))
            by_server.setdefault((url, confirmation), []).append(pending)
        for (url, confirmation), group in by_server.items():
            merged_requests = merge_pending(group)
            if confirmation is not None or not self._send_now(url, merged_requests):
                self._spawn(self._deliver(url, merged_requests, confirmation))
        self._note_answered()

    def _send_now(self, url: str, merged_requests: list[MergedRequest]) -> bool:
        """Sends requests without a task, if their server is connected and nothing has to be asked first."""
        server = self._servers.get(url)
        if server is None or server.forbidden or not self._topology.master_known:
            return False
        try:
            commands = [command_of(merged_request.request, self.clock) for merged_request in merged_requests]
            sent = server.send(commands, partial(self._received_now, url, merged_requests))
        except Exception as fault:  # noqa: BLE001  # whatever it is, the callers get it
            _fail_all(merged_requests, fault)
            return True
        if sent:
            self._sent.add(merged_requests[0])
        return sent

    def _received_now(self, url: str, merged_requests: list[MergedRequest], replies: Replies) -> None:
        self._sent.discard(merged_requests[0])
        unknown = self._received(merged_requests, replies)
        if unknown:
            self._spawn(self._deliver(url, unknown, None))
        self._note_answered()

    async def _deliver(self, url: str, merged_requests: list[MergedRequest], confirmation: Confirmation | None) -> None:
        check: Callable[[], None] | None = None
        try:
            server = await self._surely(url, key_of(merged_requests[0].request))
            if server.forbidden and not (merged_requests := keep_allowed(server.forbidden, merged_requests)):
                return
            commands = [(eval_command if p.with_source else command_of)(p.request, self.clock) for p in merged_requests]
            if confirmation is None:
                replies = await server.exchange(commands)
            else:  # the confirmation blocks its connection for a while
                confirms = server.confirms
                await self._probe_confirmation(confirmation, url, confirms)
                *replies, last = await self._waiting_server(url).exchange([*commands, confirmation.command])
                check = partial(check_confirmation, confirmation, [last], confirms)
        except Fault as fault:
            replies = [fault] * len(merged_requests)
        except BaseException as fault:  # whatever it is, the callers get it
            stopped = isinstance(fault, asyncio.CancelledError)
            _fail_all(merged_requests, Unavailable(UNANSWERED) if stopped else fault)
            if not isinstance(fault, Exception):
                raise
            return
        unknown = self._received(merged_requests, replies, check)
        if unknown:
            await self._deliver(url, unknown, confirmation)

    def _received(
        self,
        merged_requests: list[MergedRequest],
        replies: Replies,
        check: Callable[[], None] | None = None,
    ) -> list[MergedRequest]:
        """Gives each caller its part of the replies; ``check`` raises if they are not confirmed. Returns the requests whose scripts the
        server does not know."""
        unknown: list[MergedRequest] = []
        for merged_request, reply in zip(merged_requests, replies, strict=True):
            if not isinstance(reply, Fault):
                try:
                    self._answered(merged_request, reply, check)
                except Exception as fault:  # noqa: BLE001  # whatever it is, the callers get it
                    _fail_all([merged_request], fault)
            elif isinstance(reply, NoScript) and not merged_request.with_source:
                merged_request.with_source = True
                unknown.append(merged_request)
            else:
                for pending in merged_request.pending:
                    self._failed(pending, with_key(reply, pending.request))
        return unknown

    async def _probe_confirmation(self, confirmation: Confirmation, url: str, confirms: set[bytes]) -> None:
        """Checks once for each server that it can confirm. Raises a ``Fault``."""
        if confirmation.command[0] not in confirms:
            refuse_unconfirmable(confirmation, (await self._waiting_server(url).exchange([confirmation.probe]))[0])
            confirms.add(confirmation.command[0])

    def _answered(self, merged_request: MergedRequest, reply: Any, check: Callable[[], None] | None) -> None:
        all_pending = merged_request.pending
        parts = [reply] if len(all_pending) == 1 else split_reply([pending.request for pending in all_pending], reply)
        for pending, part in zip(all_pending, parts, strict=True):
            try:
                answer = pending.request.decode(part)
                if check is not None:
                    check()
            except Fault as fault:
                pending.budget.added |= isinstance(fault, ConfirmationLost)
                self._failed(pending, fault)
                continue
            except Exception as fault:  # noqa: BLE001  # whatever it is, the caller gets it
                fail(pending.future, fault)
                continue
            if not pending.future.done():
                pending.future.set_result(answer)
            else:
                self.undo_unwanted(pending.request, answer)

    def undo_unwanted(self, request: Any, answer: Any) -> None:
        """Gives back what an answer handed out, when no caller takes it any more."""
        undo = request.undo(answer) if isinstance(request, ScriptCall) and request.undo is not None else None
        if undo is not None:
            self.perform_in_background(undo)

    def _failed(self, pending: PendingRequest, fault: Fault) -> None:
        """Tries the request again after a pause, or gives its caller the error."""
        budget = pending.budget
        retryable = isinstance(fault, (ConnectionLost, TryLater)) and not pending.try_once
        pause = budget.next_delay(random.random()) if retryable else None
        if pending.try_once and isinstance(fault, (ConnectionLost, WrongNode)):
            self._refresh_in_background()
        if pause is None:
            pending.fault = fault
            self._give_up(pending)
        elif not pending.future.done():
            if isinstance(fault, ConnectionLost) and isinstance(pending.request, ScriptCall):
                pending.request = pending.request.as_replay()
            log_retry(budget.tries, fault, self._topology.redacted, self._patience.bound)
            budget.tries += 1
            self._limit_wait(pending, fault)
            self._spawn(self._retry(pending, pause, refresh=budget.tries > 1 or isinstance(fault, WrongNode)))

    def _limit_wait(self, pending: PendingRequest, fault: Fault) -> None:
        """Gives the caller the error when patience ends, however long the next try takes: the last one, if there are several."""
        pending.fault = fault
        timer = asyncio.get_running_loop().call_later(pending.budget.remaining, self._give_up, pending)
        pending.future.add_done_callback(lambda _: timer.cancel())

    def _give_up(self, pending: PendingRequest) -> None:
        assert pending.fault is not None
        server, budget = self._topology.redacted, pending.budget
        fail(pending.future, unavailable_error(pending.fault, server, budget.elapsed, added=budget.added))

    async def _retry(self, pending: PendingRequest, pause: float, *, refresh: bool) -> None:
        try:
            await asyncio.sleep(pause)
            if refresh:
                with suppress(Unavailable, Fault):  # no server yet: patience decides
                    await self.refresh()
        except asyncio.CancelledError:
            fail(pending.future, Unavailable(UNANSWERED))
            raise
        except Exception as fault:  # noqa: BLE001  # whatever it is, the caller gets it
            fail(pending.future, fault)
        else:
            self._enqueue(pending)


def _fail_all(merged_requests: list[MergedRequest], fault: BaseException) -> None:
    for merged_request in merged_requests:
        for pending in merged_request.pending:
            fail(pending.future, fault)
