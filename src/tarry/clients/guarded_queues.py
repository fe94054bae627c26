"""The parts of guarded queues that need no connection, for both clients."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from tarry.clients.config import NamingConfig
from tarry.errors import BadInput
from tarry.values.durations import Duration, as_timedelta, duration_us
from tarry.verbs.guarded.guarded_context import GuardedContext, GuardedItem, keys_of


def guarded_context(
    config: NamingConfig, name: str, layout: str, kind: Any, max_lateness: Duration | None, on_late: object
) -> GuardedContext[Any]:
    """Returns the queue's context. Raises ``BadInput`` for invalid arguments."""
    if on_late is not None and max_lateness is None:
        raise BadInput("on_late: it is called when max_lateness is exceeded; give that too.")
    keys = keys_of(config.namespace, name, layout, cluster=config.cluster)
    bound = None if max_lateness is None else duration_us(max_lateness, "max_lateness")
    return GuardedContext(name, keys, config.codec_for(kind), os.urandom, layout == "java", bound)


def with_late_policy(context: GuardedContext[Any], on_late: object) -> GuardedContext[Any]:
    """With a callback no poll is refused."""
    return context if on_late is None else context.without_max_lateness()


def lock_domain(guard: Any) -> bytes:
    """Returns the domain of a guard: tokens of one domain, that is of one lock, are compared with one another."""
    kind = getattr(guard, "kept_in", type(guard).__qualname__)
    return f"{kind} {getattr(guard, 'name', '')}".encode()


def call_on_late(
    items: list[GuardedItem[Any]], on_late: Callable[[timedelta], object] | None, max_lateness_us: int | None
) -> None:
    """Calls back when the first item is later than it may be."""
    if on_late is not None and max_lateness_us is not None and items[0].lateness > as_timedelta(max_lateness_us):
        on_late(items[0].lateness)


class PollerNames:
    """Names for polls that are on their way: one for each at a time, so that a repeated one finds its own last answer."""

    def __init__(self, new: Callable[[], bytes]) -> None:
        self._new = new
        self._idle: deque[bytes] = deque()
        self._pid = os.getpid()

    @contextmanager
    def borrow(self) -> Generator[bytes]:
        if self._pid != os.getpid():
            self._pid, self._idle = os.getpid(), deque()  # they belong to the parent
        try:
            name = self._idle.pop()
        except IndexError:
            name = self._new()
        yield name
        self._idle.append(name)  # not after a failure: its answer may have reached no caller
