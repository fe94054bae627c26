"""Performs requests and flows, awaiting. Calls made in the same turn of the loop are sent in one pipeline.

    perform ─▶ outbox ──turn ends──▶ merged requests: calls of one kind become one script ──▶ one exchange a server
       ▲                                                                                            │
       └───────────────────────── futures ◀── each gets its part of the reply ──────────────────────┘

A caller that stops waiting (cancelled, timed out) does not stop the exchange. If the answer then hands out a job that no caller
takes, the job is released.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeVar

from tarry.clients.awaited.flow_runner import run_flow
from tarry.clients.awaited.servers import ServerPool
from tarry.clients.batches import Portions, checked
from tarry.clients.config import COMMANDS_ONLY, UNANSWERED
from tarry.clients.deliveries import Delivery, Pipeline, pipelines_of
from tarry.clients.replies import key_of, log_return, refuse_unconfirmable
from tarry.connections.address import Address
from tarry.connections.awaited import ignore_error
from tarry.connections.faults import ConnectionLost, Fault, WrongNode, with_tls_hint
from tarry.connections.resp import Replies
from tarry.core.patience import Patience, RetryBudget
from tarry.core.requests import Batch, Command, Confirmation, Flow, Request, ScriptCall, Step, Transaction
from tarry.errors import TarryError, Unavailable

T = TypeVar("T")


class PipelineListener(Protocol):
    """A listener that is told of each pipeline when it is sent, and once when it has ended: with the deliveries that have no answer, and why."""

    def sent(self, pipeline: Pipeline) -> None: ...
    def ended(self, pipeline: Pipeline, failed: Sequence[tuple[Delivery, Fault]]) -> None: ...


class Runner(ServerPool):
    """Performs the requests of one client. A runner is its own pool of servers."""

    def __init__(self, address: Address, patience: Patience) -> None:
        super().__init__(address, patience)
        self.clock = b""
        self.listener: PipelineListener | None = None
        self._was_connected = False
        self._reset_loop_state()

    def _reset_loop_state(self) -> None:
        self._outbox: list[Delivery] = []
        self._sent: set[Pipeline] = set()
        """Those that were sent without a task, and are not answered."""
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

    # ── requests ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def perform(self, request: ScriptCall[T] | Command[T]) -> T:
        """Sends a request until it is answered, or patience ends. Raises a ``TarryError``."""
        loop = asyncio.get_running_loop()
        budget = self._patience.start(loop.time)
        if self._owner[0] is not loop or not self._opened:
            await self.ensure_open(budget)
        future: asyncio.Future[T] = loop.create_future()
        self._enqueue(Delivery(request, budget, future), loop)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                # it came in the same turn in which its caller was cancelled
                self.undo_unwanted(request, future.result())
            raise

    async def transact(self, transaction: Transaction[T]) -> T:
        """Performs a transaction of plain commands, also on a server that runs no scripts. Raises a ``TarryError``."""

        async def once(budget: RetryBudget) -> T:
            url = self._topology.url_of(transaction.key)
            server = self._servers.get(url) or self._servers.get(COMMANDS_ONLY + url)
            server = server or await self._connect(url, scripts=False)
            return await server.transact(transaction, budget.exchange_timeout)

        return await self._with_retries(once)

    async def send_batch(self, requests: Sequence[ScriptCall[T] | Command[T]]) -> list[T | TarryError]:
        """Sends requests once, in pipelines, to all servers at the same time. Returns the value or the error of each."""
        return checked(await self._perform_many(requests, once=True))

    async def perform_batch(self, requests: Sequence[Request]) -> list[Any]:
        """Sends requests in pipelines, each until it is answered or patience ends. Returns the values, or the errors."""
        return await self._perform_many(requests, once=False)

    async def _perform_many(self, requests: Sequence[Request], *, once: bool) -> list[Any]:
        loop = asyncio.get_running_loop()
        await self.ensure_open(budget := self._patience.start(loop.time))
        portions = Portions(requests, budget, loop.create_future, once=once)
        urls = [self._topology.url_of(key_of(request)) for request in requests]
        await asyncio.gather(*map(self._perform_in_turn, portions.chains(urls)))
        return portions.answers

    async def _perform_in_turn(self, chain: Iterator[list[Delivery]]) -> None:
        """A portion is enqueued in one turn of the loop. A cancelled caller sends no further portions."""
        for deliveries in chain:
            for delivery in deliveries:
                self._enqueue(delivery)
            await asyncio.gather(*[delivery.result for delivery in deliveries], return_exceptions=True)

    # ── flows ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def perform_step(self, step: Step) -> Any:
        """Performs what a flow yields."""
        return await (self.perform_batch(step.requests) if isinstance(step, Batch) else self.perform(step))

    async def run(self, flow: Flow[T], perform_step: Callable[[Step], Awaitable[Any]] | None = None) -> T:
        """Performs a flow, step by step, with ``perform_step`` if that is given."""
        return await run_flow(flow, perform_step or self.perform_step)

    def perform_if_possible(self, request: ScriptCall[T]) -> asyncio.Future[T]:
        """Performs a request without waiting for its answer. Returns a future of that; its exception may be ignored."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        future.add_done_callback(ignore_error)
        self._enqueue(Delivery(request, self._patience.start(loop.time), future), loop)
        return future

    def undo_unwanted(self, request: Any, answer: Any) -> None:
        """Releases what an answer handed out, when no caller takes it any more."""
        undo = request.undo(answer) if isinstance(request, ScriptCall) and request.undo is not None else None
        if undo is not None:
            self.perform_if_possible(undo)

    # ── from outbox to wire ──────────────────────────────────────────────────────────────────────────────────────────

    def _enqueue(self, delivery: Delivery, loop: asyncio.AbstractEventLoop | None = None) -> None:
        if self._outbox:
            self._outbox.append(delivery)
        else:
            self._outbox = [delivery]
            (loop or asyncio.get_running_loop()).call_soon(self._flush)

    def _flush(self) -> None:
        deliveries, self._outbox = self._outbox, []
        for pipeline in pipelines_of(deliveries, self._topology.url_of, Delivery.fail):
            if self.listener is not None:
                self.listener.sent(pipeline)
            if pipeline.confirmation is not None or not self._send_now(pipeline):
                self._spawn(self._deliver(pipeline))
        if self._all_answered is not None:
            self._note_answered()

    def _send_now(self, pipeline: Pipeline) -> bool:
        """Sends requests without a task, if their server is connected and nothing has to be asked first."""
        if pipeline.url not in self._servers or not self._topology.master_known:
            # The server is connected to first. A retry has a limit and a reason already.
            late = ConnectionLost("no connection in this time")
            for delivery in pipeline.deliveries:
                if not delivery.budget.tries:
                    delivery.fault = late if self._servers else with_tls_hint(late, pipeline.url)
                    self._limit_wait(delivery)
            return False
        server = self._servers[pipeline.url]
        if server.forbidden:
            return False
        try:
            sent = server.send(pipeline.commands(self.clock), partial(self._received_now, pipeline))
        except Exception as fault:  # noqa: BLE001  # whatever it is, the callers get it
            _fail_all(pipeline, fault)
            if self.listener is not None:
                self.listener.ended(pipeline, [])
            return True
        if sent:
            self._sent.add(pipeline)
        return sent

    def _received_now(self, pipeline: Pipeline, replies: Replies) -> None:
        self._sent.discard(pipeline)
        failed = pipeline.received(replies, set(), self.undo_unwanted)
        if self.listener is not None:
            self.listener.ended(pipeline, failed)
        for delivery, fault in failed:
            self._failed(delivery, fault)
        if self._all_answered is not None:
            self._note_answered()

    async def _deliver(self, pipeline: Pipeline) -> None:
        failed: list[tuple[Delivery, Fault]] = []
        try:
            server = await self._surely(pipeline.url, pipeline.key)
            if server.forbidden and not pipeline.refuse(server.forbidden):
                return
            confirms = server.confirms
            commands: list[Any] = pipeline.commands(self.clock)
            if pipeline.confirmation is not None:  # it blocks its connection for a while
                await self._probe_confirmation(pipeline.confirmation, pipeline.url, confirms)
                commands.append(pipeline.confirmation.command)
                server = self._waiting_server(pipeline.url)
            failed = pipeline.received(await server.exchange(commands), confirms, self.undo_unwanted)
        except Fault as fault:
            failed = pipeline.lost(fault)
        except BaseException as error:  # whatever it is, the callers get it
            stopped = isinstance(error, asyncio.CancelledError)
            _fail_all(pipeline, Unavailable(UNANSWERED) if stopped else error)
            if not isinstance(error, Exception):
                raise
            return
        finally:
            if self.listener is not None:
                self.listener.ended(pipeline, failed)
        for delivery, why in failed:
            self._failed(delivery, why)

    async def _probe_confirmation(self, confirmation: Confirmation, url: str, confirms: set[bytes]) -> None:
        """Checks once for each server that it can confirm. Raises a ``Fault``."""
        if confirmation.command[0] not in confirms:
            refuse_unconfirmable(confirmation, (await self._waiting_server(url).exchange([confirmation.probe]))[0])
            confirms.add(confirmation.command[0])

    # ── after a fault ────────────────────────────────────────────────────────────────────────────────────────────────

    def _failed(self, delivery: Delivery, fault: Fault) -> None:
        """Tries the request again after a pause, or gives its caller the error."""
        if delivery.result.done():
            return
        pause = delivery.next_try(fault, self._topology.redacted, self._patience.bound)
        if pause is None:
            if delivery.once and isinstance(fault, (ConnectionLost, WrongNode)):
                self._refresh_in_background()
            self._give_up(delivery)
        elif not pause:
            self._enqueue(delivery)
        else:
            self._limit_wait(delivery)
            self._spawn(self._retry(delivery, pause))

    def _limit_wait(self, delivery: Delivery) -> None:
        """Gives the caller the error when patience ends, however long the next try takes: the last one, if there are several."""
        timer = asyncio.get_running_loop().call_later(delivery.budget.remaining, self._give_up, delivery)
        result: asyncio.Future[Any] = delivery.result
        result.add_done_callback(lambda _: timer.cancel())
        result.add_done_callback(partial(self._note_return, delivery))

    def _note_return(self, delivery: Delivery, result: asyncio.Future[Any]) -> None:
        if result.cancelled() or result.exception() is not None:
            return
        if delivery.budget.tries or self._was_connected:  # a call may only have waited for the next master
            log_return(delivery.budget, self._topology.redacted)
        self._was_connected = True

    def _give_up(self, delivery: Delivery) -> None:
        delivery.fail(delivery.error(self._topology.redacted))

    async def _retry(self, delivery: Delivery, pause: float) -> None:
        try:
            await asyncio.sleep(pause)
            if delivery.needs_refresh:
                with suppress(Unavailable, Fault):  # no server yet: patience decides
                    await self.refresh()
        except asyncio.CancelledError:
            delivery.fail(Unavailable(UNANSWERED))
            raise
        except Exception as fault:  # noqa: BLE001  # whatever it is, the caller gets it
            delivery.fail(fault)
        else:
            self._enqueue(delivery)


def _fail_all(pipeline: Pipeline, fault: BaseException) -> None:
    for delivery in pipeline.deliveries:
        delivery.fail(fault)
