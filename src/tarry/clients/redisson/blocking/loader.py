# Made from src/tarry/clients/redisson/awaited/loader.py by tools/blocking.py: change that file, then `make blocking`.
"""Loading a value of a map once for all processes, blocking."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from tarry.clients.blocking.concurrency import Signal, shield
from tarry.clients.blocking.pubsub import PubSub
from tarry.errors import TarryError
from tarry.verbs.redisson.mapcache.load import Load
from tarry.verbs.redisson.mapcache.redisson_layout import LoadReply

if TYPE_CHECKING:
    from tarry.clients.blocking.interfaces import HandleEngine

V = TypeVar("V")
Run = Callable[[Any], Any]


def load(engine: HandleEngine, perform: Run, load_request: Load[V], loader: Callable[[], V | None]) -> V | None:
    """The value, loaded by this caller if nobody else does."""
    leave: LoadReply = perform(load_request.start())
    if leave.value is None and not leave.granted:
        leave = _wait(engine, perform, load_request)
    if leave.value is not None:
        return load_request.read(leave.value)
    try:
        value = loader()
        if value is not None:
            found: V = perform(load_request.finish(value))
            return found
    except BaseException:
        with suppress(TarryError):  # then the lease ends by itself
            shield(perform(load_request.give_up()))
        raise
    perform(load_request.give_up())
    return None


def _wait(engine: HandleEngine, perform: Run, load_request: Load[Any]) -> LoadReply:
    """Waits until there is a value, or the lease is acquired."""
    woken = Signal()

    def on_message(channel: bytes, message: bytes) -> None:
        if load_request.is_relevant(channel, message):
            woken.set()

    pubsub = engine.shared_part(PubSub)
    subscriber = pubsub.subscribe(load_request.layout.context.keys.entries, load_request.channels, on_message)
    try:
        while True:
            leave: LoadReply = perform(load_request.start())
            if leave.value is not None or leave.granted:
                return leave
            woken.wait(leave.wait_ms / 1000 + 0.001)
    finally:
        pubsub.unsubscribe(subscriber)
