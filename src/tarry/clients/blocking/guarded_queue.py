# Made from src/tarry/clients/awaited/guarded_queue.py by tools/blocking.py: change that file, then `make blocking`.
"""Guarded queues, blocking: the names of their verbs."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Generic, Never, Protocol, TypeVar

from tarry.clients.blocking.concurrency import Signal, SizedOperators, finish_or_undo
from tarry.clients.blocking.engine import Engine
from tarry.clients.blocking.pubsub import PubSub
from tarry.clients.config import wait_seconds
from tarry.clients.guarded_queues import PollerNames, call_on_late, lock_domain, with_late_policy
from tarry.core.requests import Transaction, split_items
from tarry.errors import LockLost, ServerUnfit, TarryError
from tarry.values.durations import SECOND, Duration, as_datetime
from tarry.values.other_words import MISSING, OF_POLL, OF_POLL_MANY, hide_others, refuse_others
from tarry.verbs.guarded import guarded_scripts, plain_commands
from tarry.verbs.guarded.guarded_context import GuardedContext, GuardedItem, GuardedStats, PollReply, checked_limit

T = TypeVar("T")
RECHECK_S = 1.0
"""How often a waiting client polls: other programs, Java for example, add items without a message."""


class HeldGuard(Protocol):
    """An acquired guard: it has a token that rises, and can be released."""

    @property
    def token(self) -> int: ...
    def release(self) -> None: ...


class Guard(Protocol):
    """Excludes other consumers from a queue: a lock of tarry, or any object with the same ``acquire``."""

    def acquire(self, *, wait: Duration | None) -> HeldGuard | None:
        """Acquires the guard; returns ``None`` if it is not free within ``wait``."""
        ...


class GuardedQueue(SizedOperators, Generic[T]):
    """A guarded queue: values go in with a delay, and come out when they are due, in order, with their lateness.

    Made by ``client.guarded_queue(name)``. A polled item is no longer in the queue: a consumer that dies loses it. Topics
    keep jobs until they are finished.
    """

    _for_modules = ("context",)

    def __init__(
        self,
        engine: Engine,
        context: GuardedContext[T],
        guard: Guard | None,
        on_late: Callable[[timedelta], object] | None,
    ) -> None:
        self.engine = engine
        self._max_lateness_us = context.max_lateness_us
        self.context: GuardedContext[T] = with_late_policy(context, on_late)
        self._guard = guard
        self._poller_names = PollerNames(engine.config.new_waiter_name)
        self._on_late = on_late
        self.name: str = context.name
        """The queue's name."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self.engine.config.redacted}>"

    def push(self, items: Mapping[T, Duration] | Iterable[tuple[T, Duration]]) -> list[datetime]:
        """Adds values, each to be handed out after its delay: ``{value: delay}``, or pairs. Returns the due times.

        Equal values are different items, except with ``layout="java"``: there a new push of a value changes its due time. Raises
        ``BadInput`` before anything is written, also if a value or a delay is ``None``.
        """
        members, scores = self.context.members(items), list[int]()
        if self._guard is None:
            scores = self.engine.run(guarded_scripts.push(self.context, members)) if members else []
        else:
            for part in split_items(members, itemgetter(0)):
                pushed = self.engine.runner.transact(plain_commands.push(self.context, part))
                scores += pushed
        return [as_datetime(score * self.context.unit) for score in scores]

    @hide_others
    def poll(self, *others: Never, wait: Duration | None = 0, **words: Never) -> GuardedItem[T] | None:
        """Removes and returns the item that is due first; ``None`` if none is due within ``wait``. Waiting and errors are as
        for ``poll_many``."""
        if others or words:
            refuse_others(GuardedQueue.poll, self, OF_POLL, others, words)
        items = self.poll_many(1, wait=wait)
        return items[0] if items else None

    @hide_others
    def poll_many(self, limit: int, *others: Never, wait: Duration | None = 0, **words: Never) -> list[GuardedItem[T]]:
        """Removes and returns up to ``limit`` due items (at most 1000) in order, as soon as there is one.

        The list is empty if none is due within ``wait``; ``wait=0`` tries once, ``wait=None`` waits forever. The time to acquire the guard is
        part of ``wait``. Raises ``FallenBehind`` if the first item is later than the queue's ``max_lateness``, and ``LockLost``
        if the guard's token is old. In both cases the items stay in the queue.
        """
        if others or words or limit is MISSING:
            refuse_others(GuardedQueue.poll_many, self, OF_POLL_MANY, others, words)
        return self._poll_up_to(checked_limit(limit), wait_seconds(wait))

    def _poll_up_to(self, limit: int, seconds: float) -> list[GuardedItem[T]]:
        polled = self._poll_until(limit, time.monotonic() + seconds)
        if polled is None:
            return []
        items = self.context.items_of(polled)
        call_on_late(items, self._on_late, self._max_lateness_us)
        return items

    def _poll_until(self, limit: int, until: float) -> PollReply | None:
        # the removed members; ``None`` when none is due in time
        with self._pushes(until) as wake_event:
            while True:
                polled = self._poll(limit, until)
                if polled is not None and polled.members:
                    return polled
                left = until - time.monotonic()
                if left <= 0:
                    return None
                ahead = None if polled is None or polled.next_due is None else (polled.next_due - polled.now) / SECOND
                wake_event.wait(min(left, RECHECK_S if ahead is None else max(min(ahead, RECHECK_S), 0)))

    def _poll(self, limit: int, until: float) -> PollReply | None:
        if self._guard is None:
            with self._poller_names.borrow() as who:
                return self.engine.run(guarded_scripts.poll(self.context, limit, who))
        left = max(until - time.monotonic(), 0)
        held = self._guard.acquire(wait=None if left == float("inf") else left)
        if held is None:
            return None
        try:
            with self._poller_names.borrow() as who:
                poll = plain_commands.poll(self.context, limit, who, lock_domain(self._guard), held.token)
                return self._take(poll)
        finally:
            try:
                held.release()
            except LockLost:
                pass  # the items were removed under a token that was the newest then

    def _take(self, poll: Transaction[PollReply]) -> PollReply:
        """When it is cancelled, the reply is read to its end, and the taken items go back."""
        return finish_or_undo(self.engine.runner.transact(poll), self._give_back, TarryError)

    def _give_back(self, polled: PollReply) -> None:
        if polled.members:
            self.engine.runner.transact(plain_commands.give_back(self.context, polled))

    @contextmanager
    def _pushes(self, until: float) -> Generator[Signal]:
        """A wake event that is set when a client adds an item that is due first, while there is time to wait."""
        wake_event, subscriber = Signal(), None
        pubsub = self.engine.shared_part(PubSub)
        channel = self.context.keys.channel
        if until > time.monotonic():
            try:
                subscriber = pubsub.subscribe(channel, (channel,), lambda _, __: wake_event.set(), wait=False)
            except ServerUnfit:
                pass  # a server without scripts: polling is enough
        try:
            yield wake_event
        finally:
            if subscriber is not None:
                pubsub.unsubscribe(subscriber)

    def stats(self) -> GuardedStats:
        """How many items there are, how many are due, and how late the first is. Changes nothing."""
        return self.engine.runner.transact(plain_commands.stats(self.context))

    def size(self) -> int:
        """How many items there are, due or not."""
        return (self.stats()).size

    def clear(self) -> bool:
        """Removes all items. Returns whether there was one."""
        return self.engine.runner.transact(plain_commands.clear(self.context))
