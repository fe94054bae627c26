"""Tubes are topics of one namespace, and a job's number is its id.

number = counter × 4096 + 12 bits of the tube's hash         the id is the number as text

A number says among which few tubes its job is, so no table of jobs is kept. The counter is on the server; a process takes a
thousand numbers at a time. 2^53, beyond which JavaScript's numbers end, is reached after 2 × 10^12 jobs.

A job that another program has added under an id that is not such a number is given a number when it is first seen here. This
process remembers it, for the last 10,000 such jobs.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar
from zlib import crc32

from tarry import AsyncJob, AsyncTopic
from tarry.internal import NamespaceVerbs, perform
from tarry.programs.beanstalk.commands import TUBE_NAME
from tarry.programs.beanstalk.tube_order import TubeOrder
from tarry.programs.serving.namespace_clients import NamespaceClients
from tarry.wire.bodies import Body

DEFAULT = "default"
HASH_BITS = 12
BLOCK = 1000
"""How many numbers a process takes at a time."""
MOST_ALIASES = 10_000
MOST_RECENT = 4
"""How many tubes of one hash a process remembers; the server's list has the others."""
T = TypeVar("T")
Tube = AsyncTopic[Body]
Act = Callable[[Tube, str], Awaitable[T | None]]


class Tubes:
    """The tubes of a namespace."""

    def __init__(self, clients: NamespaceClients, namespace: str) -> None:
        self.namespace = namespace
        self.order = TubeOrder(DEFAULT)
        self._clients = clients
        self._recent: dict[int, list[str]] = {}
        """The tubes that jobs were last put into, by hash."""
        self._next, self._end = 1, 0
        self._refilling: asyncio.Future[int] | None = None
        self._aliases: OrderedDict[int, tuple[str, str]] = OrderedDict()
        self._numbers: dict[tuple[str, str], int] = {}

    def tube(self, name: str) -> Tube:
        """A tube by its name."""
        return self._clients.topic(self.namespace, name)

    async def pop(self, names: Sequence[str], wait: float | None) -> list[AsyncJob[Body]]:
        """A job of the first of the tubes that has one ready within ``wait``, or none."""
        return await self._clients[self.namespace].pop_many(*map(self.tube, names), limit=1, wait=wait)

    async def names(self) -> list[str]:
        """The names of all topics that can be tubes. A hint: a tube without jobs stays in it."""
        return [name for name in await self._clients[self.namespace].topics() if is_tube(name)]

    def _note_recent(self, hash: int, name: str) -> None:
        recent = self._recent.get(hash)
        if recent is None:
            self._recent[hash] = [name]
        elif name not in recent:
            self._recent[hash] = [name, *recent[: MOST_RECENT - 1]]

    # ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def new_number(self, tube: str) -> int:
        """A number for a new job of a tube."""
        while self._next > self._end:
            if self._refilling is None or self._refilling.done():
                call = NamespaceVerbs(self.namespace).reserve_numbers(BLOCK)
                self._refilling = asyncio.ensure_future(perform(self._clients[self.namespace], call))
                self._refilling.add_done_callback(self._refill)
            await asyncio.shield(self._refilling)
        number, self._next = self._next, self._next + 1
        hash = _hash_of(tube)
        self._note_recent(hash, tube)
        return number << HASH_BITS | hash

    def _refill(self, last: asyncio.Future[int]) -> None:
        if not last.cancelled() and last.exception() is None:
            self._next, self._end = last.result() - BLOCK + 1, last.result()

    def forget_numbers(self) -> None:
        """Takes new numbers from the server: one of these is taken, because a fail-over lost the counter's last step."""
        self._end = 0

    async def number_of(self, tube: str, id: str) -> int:
        """The number of a job that is there."""
        if id.isascii() and id.isdigit() and id[0] != "0":
            number = int(id)
            if number < 2**64 and number & ((1 << HASH_BITS) - 1) == _hash_of(tube):
                return number
        known = self._numbers.get((tube, id))
        if known is None:
            known = self._numbers[tube, id] = await self.new_number(tube)
            self._aliases[known] = (tube, id)
            if len(self._aliases) > MOST_ALIASES:
                del self._numbers[self._aliases.popitem(last=False)[1]]
        return known

    async def by_number(self, number: int, act: Act[T]) -> T | None:
        """The first answer of ``act`` that is not ``None``, called with each tube and id that the number may mean."""
        alias = self._aliases.get(number)
        if alias is not None:
            return await act(self.tube(alias[0]), alias[1])
        hash = number & ((1 << HASH_BITS) - 1)
        recent = self._recent.get(hash, [])
        found = await self._first_of(recent, number, act)
        if found is not None:
            return found
        others = [name for name in await self.names() if _hash_of(name) == hash and name not in recent]
        return await self._first_of(others, number, act)

    async def _first_of(self, names: Sequence[str], number: int, act: Act[T]) -> T | None:
        for name in names:
            found = await act(self.tube(name), str(number))
            if found is not None:
                self._note_recent(_hash_of(name), name)
                return found
        return None


def is_tube(topic: str) -> bool:
    """Whether beanstalkd's clients can name the topic."""
    return TUBE_NAME.fullmatch(topic) is not None and topic not in (".", "..")


def _hash_of(tube: str) -> int:
    return crc32(tube.encode()) & ((1 << HASH_BITS) - 1)
