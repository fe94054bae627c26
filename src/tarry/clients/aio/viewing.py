"""Views, awaiting: what only shows reads from a replica where the URL says so, and from the master where none can answer.

Only scripts that say of themselves that they look go there, by EVALSHA_RO: a server refuses to let such a call write.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from tarry.clients.answers import looking, tell_of_the_master
from tarry.idea.calls import Call, Command
from tarry.links.awaiting import Server
from tarry.links.faults import Fault, NoScript
from tarry.links.replicas import STATE, Replicas

if TYPE_CHECKING:
    from tarry.clients.aio.engine import Engine

T = TypeVar("T")


class Viewer:
    """The way of one client's views, in one event loop."""

    def __init__(self, engine: Engine) -> None:
        self._runner = engine.runner
        self._cluster = engine.origin.address.kind == "cluster"
        self._patience_s = engine.origin.patience.longest_s
        self._replicas = Replicas(engine.origin.address)
        self._servers: dict[str, Server] = {}
        self._looking: asyncio.Task[None] | None = None
        self._asking: set[asyncio.Task[Any]] = set()

    async def perform(self, request: Call[T] | Command[T]) -> T:
        """Asks a replica once, else the master as for a verb. Raises a ``TarryError``."""
        if isinstance(request, Call) and request.script.looks:
            url = await self._url_of(request.keys[0])
            if url is not None:
                try:
                    reply = await self._uncancelled(url, request)
                except Fault as fault:
                    self._replicas.drop(url)
                    tell_of_the_master(url, fault)
                else:
                    return request.decode(reply)
        return await self._runner.perform(request)

    async def _url_of(self, key: bytes) -> str | None:
        if self._replicas.is_time:
            if self._looking is None or self._looking.done():
                self._looking = asyncio.ensure_future(asyncio.to_thread(self._replicas.look, self._patience_s))
            await asyncio.shield(self._looking)
        return self._replicas.of(key)

    async def _uncancelled(self, url: str, call: Call[Any]) -> Any:
        """Who stops waiting does not stop the exchange: others read behind it on the same connection."""
        task = asyncio.ensure_future(self._ask(url, call))
        self._asking.add(task)
        task.add_done_callback(self._asked)
        return await asyncio.shield(task)

    def _asked(self, task: asyncio.Task[Any]) -> None:
        self._asking.discard(task)
        if not task.cancelled():
            task.exception()  # seen: perhaps nobody waits any more

    async def _ask(self, url: str, call: Call[Any]) -> Any:
        server = self._servers.get(url)
        if server is None:
            server = self._servers[url] = Server(url, self._patience_s, of_a_replica=self._cluster)
        first = () if self._replicas.is_believed(url) else (STATE,)
        *state, reply = await server.exchange([*first, looking(call, self._runner.clock)])
        for told in state:
            self._replicas.judge(url, told)
        if isinstance(reply, NoScript):
            (reply,) = await server.exchange([looking(call, self._runner.clock, spelled=True)])
        if isinstance(reply, Fault):
            raise reply
        return reply

    async def close(self) -> None:
        for task in [*self._asking, *([self._looking] if self._looking is not None else [])]:
            task.cancel()
            await asyncio.wait({task})
        for server in self._servers.values():
            await server.close()
        self._servers = {}
