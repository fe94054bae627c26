"""An awaited client's way to its servers: found, connected to and checked once, in any event loop that uses it."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from tarry.clients.config import CLOSED, COMMANDS_ONLY, UNANSWERED, log_default_server
from tarry.clients.deliveries import Delivery
from tarry.clients.replies import log_retry, log_return, unavailable_error
from tarry.connections import fitness
from tarry.connections.address import ASK_TIMEOUT_S, Address
from tarry.connections.awaited import Server, ignore_error
from tarry.connections.faults import ConnectionLost, Fault, ServerRefused, with_tls_hint
from tarry.connections.resp import raise_faults
from tarry.connections.topology import Topology
from tarry.core.patience import Patience, RetryBudget
from tarry.core.requests import Reply
from tarry.errors import BadInput, Unavailable

R = TypeVar("R")
CLOSING_S = 5.0


class ServerPool:
    """Servers by their keys. Closing it awaits the tasks that it has started."""

    def __init__(self, address: Address, patience: Patience) -> None:
        self._topology = Topology(address)
        self._patience = patience
        self._owner: tuple[asyncio.AbstractEventLoop | None, int] = (None, 0)
        self._opening: asyncio.Task[None] | None = None
        self._opened = False
        self._servers: dict[str, Server] = {}
        self._waiting_servers: dict[str, Server] = {}
        self._connecting: dict[str, asyncio.Task[Server]] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._ensuring_master: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._in_callers_tasks: set[asyncio.Future[None]] = set()
        """The calls of ``_with_retries``."""
        self.closed = False
        """Whether it was closed for good: every later request is refused."""

    def _reset_loop_state(self) -> None:
        """Forgets the state of the last loop or process, when another one uses the client."""

    def _unanswered(self) -> list[asyncio.Future[None]]:
        """Done when the requests that no task of its own performs are answered; empty if there are none."""
        return list(self._in_callers_tasks)

    def _spawn(self, work: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def ensure_open(self, budget: RetryBudget | None = None) -> None:
        """Finds the servers, if that is not done yet in this loop and this process."""
        home = (asyncio.get_running_loop(), os.getpid())
        if self.closed:
            raise BadInput(CLOSED)
        if self._owner != home:
            loop, pid = self._owner
            if loop is not None and loop.is_running() and pid == home[1]:
                raise BadInput("client: another event loop uses it, and runs; make one AsyncClient for each loop.")
            self._owner, self._opening, self._refreshing, self._ensuring_master = home, None, None, None
            self._servers, self._waiting_servers, self._connecting, self._tasks = {}, {}, {}, set()
            self._in_callers_tasks = set()
            self._reset_loop_state()
        if not self._opened:
            if self._opening is None or self._opening.done():
                self._opening = asyncio.ensure_future(self._open())
                self._opening.add_done_callback(ignore_error)
            await asyncio.shield(self._opening)
            if self.closed:  # meanwhile
                raise Unavailable(UNANSWERED)
            if budget is not None and self._topology.address.kind == "embedded":
                budget.restart()  # the start of the embedded server has its own time limit

    async def _open(self) -> None:
        budget = self._patience.start(asyncio.get_running_loop().time)
        while self._topology.address.kind != "server":  # that one need not be found
            try:
                await asyncio.to_thread(self._topology.open, budget.remaining)
                break
            except Fault as fault:  # no node of the Cluster, or no Sentinel, answers
                pause = budget.next_delay(random.random())
                if pause is None:
                    raise unavailable_error(fault, self._topology.redacted, budget.elapsed) from fault
                log_retry(budget.tries, fault, self._topology.redacted, self._patience.bound)
                budget.tries += 1
                await asyncio.sleep(pause)
        self._opened = True
        log_default_server(self._topology)

    async def _surely(self, url: str, key: bytes) -> Server:
        """Returns the server of a URL, after asking the Sentinels unless they answered just now."""
        if not self._topology.master_known:
            await self.ensure_master_known()
        return self._servers.get(url) or await self._connected_server(url, key)

    async def _connected_server(self, url: str, key: bytes = b"") -> Server:
        """Returns the server of a URL. If necessary, connects first: once for all callers, in a task that no caller can cancel."""
        server = self._servers.get(url)
        if server is None:
            meeting = self._connecting.get(url)
            if meeting is None or meeting.done():
                meeting = self._connecting[url] = self._spawn(self._connect(url, key))
                meeting.add_done_callback(ignore_error)
            server = await asyncio.shield(meeting)
        return server

    async def _connect(self, url: str, key: bytes = b"", *, scripts: bool = True) -> Server:
        self._refuse_if_left()
        server = Server(url, self._patience.max_answer_s, master_check=self._topology.master_check)
        cluster = self._topology.address.kind == "cluster"
        try:
            replies = await server.exchange(fitness.probe_commands(key))
            if fitness.wants_save(replies):
                replies += await server.exchange((fitness.SAVE,))
            server.forbidden = fitness.check_fitness(
                replies, self._topology.redacted_url(url), cluster=cluster, scripts=scripts
            )
            self._refuse_if_left()
        except BaseException as fault:
            server.close()
            if isinstance(fault, ConnectionLost) and not self._servers:
                raise with_tls_hint(fault, url) from fault
            raise
        met = self._servers.setdefault(url if scripts else COMMANDS_ONLY + url, server)
        if met is not server:  # another task was first
            server.close()
        return met

    def _refuse_if_left(self) -> None:
        """Raises a ``Fault`` if it was closed meanwhile, or another loop uses it: a new server would never be closed."""
        if not self.is_own:
            raise ServerRefused(Unavailable(UNANSWERED))

    def _waiting_server(self, url: str) -> Server:
        """A second connection, for confirmations, which wait for replicas or disks."""
        self._refuse_if_left()
        if url not in self._waiting_servers:
            self._waiting_servers[url] = Server(url, master_check=self._topology.master_check)
        return self._waiting_servers[url]

    async def server_of(self, key: bytes) -> Server:
        await self.ensure_open()
        await self.ensure_master_known()
        return await self._connected_server(self._topology.url_of(key), key)

    @property
    def shown(self) -> str:
        """The address, as it may be shown."""
        return self._topology.redacted

    def group_of(self, key: bytes) -> int:
        return self._topology.group_of(key)

    async def refresh(self, within_s: float | None = None) -> None:
        """Looks for the servers again: once for all callers. Each waits at most ``within_s``. Raises a ``Fault``, or a
        ``TarryError``."""
        task = self._refresh_in_background()
        await asyncio.wait({task}, timeout=within_s)
        if task.done():
            task.result()

    async def ensure_master_known(self) -> None:
        """Asks the Sentinels for the master, unless they answered just now: once for all callers. Raises a ``Fault`` during a
        fail-over."""
        if self._topology.master_known:
            return
        if self._ensuring_master is None or self._ensuring_master.done():
            within_s = min(self._patience.max_answer_s, ASK_TIMEOUT_S)
            self._ensuring_master = self._spawn(asyncio.to_thread(self._topology.ensure_master_known, within_s))
            self._ensuring_master.add_done_callback(ignore_error)
        await asyncio.shield(self._ensuring_master)

    def _refresh_in_background(self) -> asyncio.Task[None]:
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = self._spawn(asyncio.to_thread(self._topology.refresh, self._patience.max_answer_s))
            self._refreshing.add_done_callback(ignore_error)
        return self._refreshing

    async def ask_server(self, index: int, args: tuple[bytes, ...]) -> tuple[int, Reply]:
        """Asks the server with this index, in the order of addresses. Returns the number of servers, and the reply or ``None``."""

        async def once(_: RetryBudget) -> tuple[int, Reply]:
            urls = sorted(self._topology.urls().values())
            if index >= len(urls):
                return len(urls), None
            server = await self._connected_server(urls[index])
            return len(urls), raise_faults(await server.exchange([args]))[0]

        return await self._with_retries(once)

    async def ask_all(self, ask: Callable[[Server], Awaitable[R]]) -> dict[str, R]:
        """Asks all servers at the same time. Returns the answers by address. Raises a ``TarryError``."""
        found: dict[str, R] = {}

        async def ask_one(shown: str, url: str) -> None:
            found[shown] = await ask(await self._connected_server(url))

        async def once(_: RetryBudget) -> None:
            left = [ask_one(shown, url) for shown, url in self._topology.urls().items() if shown not in found]
            for fault in await asyncio.gather(*left, return_exceptions=True):
                if fault is not None:
                    raise fault

        await self._with_retries(once)
        return found

    async def _with_retries(self, once: Callable[[RetryBudget], Awaitable[R]]) -> R:
        """Repeats ``once`` until it succeeds, or patience ends. Raises a ``TarryError``."""
        loop = asyncio.get_running_loop()
        delivery = Delivery(None, self._patience.start(loop.time))
        await self.ensure_open(delivery.budget)
        self._in_callers_tasks.add(ended := loop.create_future())
        try:
            return await self._repeat(once, delivery)
        finally:
            self._in_callers_tasks.discard(ended)
            ended.set_result(None)

    async def _repeat(self, once: Callable[[RetryBudget], Awaitable[R]], delivery: Delivery) -> R:
        while True:
            try:
                await self.ensure_master_known()
                answer = await once(delivery.budget)
                if delivery.budget.tries:
                    log_return(delivery.budget, self._topology.redacted)
                return answer
            except Fault as fault:
                pause = delivery.next_try(fault, self._topology.redacted, self._patience.bound)
                if pause is None:
                    raise delivery.error(self._topology.redacted) from fault
                await asyncio.sleep(pause)
                if delivery.needs_refresh:
                    with suppress(Unavailable, Fault):  # no server yet: patience decides
                        await self.refresh(delivery.budget.remaining)

    @property
    def is_own(self) -> bool:
        """Whether its connections are this loop's and this process's."""
        return self._owner == (asyncio.get_running_loop(), os.getpid())

    async def close(self) -> None:
        """Waits for unanswered requests, a few seconds at most, then closes for good."""
        self.closed = True
        await self.disconnect()

    async def disconnect(self) -> None:
        """Waits for unanswered requests, a few seconds at most, then closes the connections. The next request opens new ones."""
        loop = asyncio.get_running_loop()
        if self.is_own:
            try:
                await self._await_tasks(loop, loop.time() + CLOSING_S)
            finally:
                for task in self._tasks:
                    task.cancel()
                for server in (*self._servers.values(), *self._waiting_servers.values()):
                    server.close(ServerRefused(Unavailable(UNANSWERED)))
                self._owner = (None, 0)  # at once: a request of this moment does not connect again
        self._servers, self._waiting_servers, self._connecting, self._opened, self._owner = {}, {}, {}, False, (None, 0)
        self._topology.close()

    async def _await_tasks(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        if self._opening is not None:
            await asyncio.wait({self._opening})
        while loop.time() < deadline and (waiting := {*self._tasks, *self._unanswered()}):
            await asyncio.wait(waiting, timeout=deadline - loop.time())
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
