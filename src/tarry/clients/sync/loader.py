"""Loading a value once for all processes, blocking."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from tarry.clients.sync.hearing import Hearing
from tarry.errors import TarryError
from tarry.verbs.mapcache.load import Load
from tarry.verbs.mapcache.redisson_layout import LoadReply

if TYPE_CHECKING:
    from tarry.clients.sync.engine import Engine

V = TypeVar("V")


def load(engine: Engine, run: Callable[[Any], Any], wish: Load[V], loader: Callable[[], V | None]) -> V | None:
    """The value, loaded by this caller if nobody else does."""
    leave: LoadReply = run(wish.start())
    if leave.value is None and not leave.granted:
        leave = _wait(engine, run, wish)
    if leave.value is not None:
        return wish.read(leave.value)
    try:
        value = loader()
        if value is not None:
            found: V = run(wish.finish(value))
            return found
    except BaseException:
        with suppress(TarryError):  # then the lease ends by itself
            run(wish.give_up())
        raise
    run(wish.give_up())
    return None


def _wait(engine: Engine, run: Callable[[Any], Any], wish: Load[Any]) -> LoadReply:
    """Until there is a value, or the lease is had."""
    woken = threading.Event()

    def hear(channel: bytes, message: bytes) -> None:
        if wish.is_relevant(channel, message):
            woken.set()

    ears = engine.part(Hearing)
    ear = ears.hear(wish.layout.context.keys.entries, wish.channels, hear)
    try:
        while True:
            woken.clear()
            leave: LoadReply = run(wish.start())
            if leave.value is not None or leave.granted:
                return leave
            woken.wait(leave.wait_ms / 1000 + 0.001)
    finally:
        ears.close_ear(ear)
