"""Loading a value once for all processes, awaiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from tarry.clients.aio.hearing import Hearing
from tarry.errors import TarryError
from tarry.verbs.mapcache.load import Load
from tarry.verbs.mapcache.redisson_layout import LoadReply

if TYPE_CHECKING:
    from tarry.clients.aio.engine import Engine

V = TypeVar("V")
Run = Callable[[Any], Awaitable[Any]]


async def load(engine: Engine, run: Run, wish: Load[V], loader: Callable[[], Awaitable[V | None]]) -> V | None:
    """The value, loaded by this caller if nobody else does."""
    leave: LoadReply = await run(wish.start())
    if leave.value is None and not leave.granted:
        leave = await _wait(engine, run, wish)
    if leave.value is not None:
        return wish.read(leave.value)
    try:
        value = await loader()
        if value is not None:
            found: V = await run(wish.finish(value))
            return found
    except BaseException:
        with suppress(TarryError):  # then the lease ends by itself
            await asyncio.shield(asyncio.ensure_future(run(wish.give_up())))
        raise
    await run(wish.give_up())
    return None


async def _wait(engine: Engine, run: Run, wish: Load[Any]) -> LoadReply:
    """Until there is a value, or the lease is had."""
    woken = asyncio.Event()

    def hear(channel: bytes, message: bytes) -> None:
        if wish.is_relevant(channel, message):
            woken.set()

    ears = engine.part(Hearing)
    ear = await ears.hear(wish.layout.context.keys.entries, wish.channels, hear)
    try:
        while True:
            woken.clear()
            leave: LoadReply = await run(wish.start())
            if leave.value is not None or leave.granted:
                return leave
            with suppress(TimeoutError):
                async with asyncio.timeout(leave.wait_ms / 1000 + 0.001):
                    await woken.wait()
    finally:
        ears.close_ear(ear)
