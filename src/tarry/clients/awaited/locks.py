"""Locks, awaited: the names of their verbs."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import UNSET, UnsetType

from tarry.clients.awaited.concurrency import Event, Holder, Signal, cancelled_by, current_holder
from tarry.clients.awaited.interfaces import SharedPartHost
from tarry.clients.awaited.lock_watchdog import LockWatchdog
from tarry.clients.awaited.pubsub import PubSub
from tarry.clients.lock_options import LockOptions, ReleaseChannels, held_by_parent, not_acquired, not_held
from tarry.connections.clock import now
from tarry.core.requests import Batch
from tarry.errors import LockLost
from tarry.values.durations import SECOND, Duration, as_timedelta
from tarry.values.other_words import refuse_other_with
from tarry.verbs.locks import lock_steps
from tarry.verbs.locks.lock_table import Hold, LockTable
from tarry.verbs.locks.lock_values import LockId, LockState
from tarry.verbs.locks.redis_backend import RedisBackend, Subscribe

logger = logging.getLogger("tarry")


class RedisLocks(LockWatchdog):
    """The locks of a client on Redis."""

    def __init__(self, engine: SharedPartHost) -> None:
        self._engine = engine
        self._channels = ReleaseChannels()
        cluster = engine.config.cluster
        mapped, namespace = engine.config.redisson_name, engine.config.namespace

        def make_backend(table: LockTable) -> RedisBackend:
            return RedisBackend(table, self._channels.leave, namespace, mapped, cluster=cluster)

        super().__init__(make_backend, self._perform)

    async def _perform(self, step: Any) -> Any:
        if isinstance(step, Subscribe):
            if self._channels.join(step.channel, step.wake):
                listening = self._engine.shared_part(PubSub).subscribe(
                    step.channel, (step.channel,), self._channels.on_message, wait=False
                )
                if (spare := self._channels.keep(step.channel, await listening)) is not None:
                    self._engine.shared_part(PubSub).unsubscribe(spare)
            return None
        if isinstance(step, Batch):
            return await self._engine.runner.send_batch(step.requests)  # once: the watchdog asks again itself
        return await self._engine.runner.perform(step)

    def _check(self) -> None:
        super()._check()
        for subscriber in self._channels.idle():
            self._engine.shared_part(PubSub).unsubscribe(subscriber)


class AsyncLockLostEvent:
    """Tells whether a lock was lost, and can be waited for. It is set at the latest when the lease ends by the clock of this process."""

    def __init__(self, table: LockTable, hold: Hold) -> None:
        self._table = table
        self._hold = hold
        self._event = Event()
        table.listen(hold, self._event.set)

    def is_set(self) -> bool:
        """Whether the lock was lost."""
        return self._table.expired(self._hold)

    async def wait(self, within: Duration | None = None) -> bool:
        """Waits until the lock is lost, or for the given time. Returns whether it was lost."""
        until = now() + LockOptions(within, None).wait_s
        while not self.is_set() and not self._hold.released:
            left = min(until, self._hold.until) - now()
            if await self._event.wait(left) or now() >= until:
                break
        return self.is_set()


class AsyncGrant:
    """An acquired lock: one grant for each acquisition. As a context manager it releases the lock at the end of the block.

    Pass its ``token`` to the system that the lock protects. That system must refuse a token that is lower than the highest it has seen.
    """

    def __init__(self, locks: LockWatchdog, hold: Hold) -> None:
        self._locks = locks
        self._hold = hold
        self._released = False
        self._lost: AsyncLockLostEvent | None = None
        self.name: str = hold.name
        """The lock's name."""
        self.token: int = hold.token
        """The fencing token: a number that is higher each time the lock is acquired."""
        hold.grants.add(self)

    def __repr__(self) -> str:
        over = (
            f", lost: {self._hold.lost_reason}"
            if self._hold.lost_reason
            else ", released"
            if self._hold.released
            else ""
        )
        return f"<{type(self).__name__} {self.name!r}, token {self.token}{over}>"

    async def __aenter__(self) -> AsyncGrant:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.release()
        except LockLost as lost:
            if fault is None:
                raise
            logger.warning("%s", lost)

    @property
    def remaining(self) -> timedelta:
        """How much longer the lock is held if it is not renewed, by the clock of this process. ``timedelta.max`` on ZooKeeper
        without a lease, because the lock is held as long as the session."""
        left = self._hold.until - now()
        if self._hold.released or self._locks.table.expired(self._hold):
            return timedelta(0)
        return timedelta.max if left == float("inf") else as_timedelta(max(int(left * SECOND), 0))

    @property
    def lost(self) -> AsyncLockLostEvent:
        """Tells whether the lock was lost: ``lost.is_set()``, ``lost.wait(within)``."""
        if self._lost is None:
            self._lost = AsyncLockLostEvent(self._locks.table, self._hold)
        return self._lost

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Calls ``callback()`` when the lock is lost, or at once if it is lost already. The call is in a thread of the client;
        awaited, it is in the event loop."""
        self._locks.table.listen(self._hold, callback)

    async def check(self) -> None:
        """Asks the server whether the lock is still held. Call it before an action that must not happen twice.

        Raises ``LockLost`` if it is not held, ``Unavailable`` if the server does not answer.
        """
        if self._locks.acquisition_ids.pid != os.getpid():
            raise held_by_parent(self.name)
        await self._locks.run(lock_steps.check(self._locks.table, self._locks.backend, self._hold))

    async def release(self) -> None:
        """Releases the lock; a second call does nothing.

        Raises ``LockLost`` if the lock was lost before, because another holder may have run at the same time. Raises
        ``NotAcquired`` in another thread or task than the one that acquired the lock, unless that one has ended.
        """
        if self._released:
            return
        if self._locks.acquisition_ids.pid != os.getpid():
            raise held_by_parent(self.name)
        lock_steps.require_holder(self._locks.table, self._hold, current_holder())
        self._released = True
        await self._locks.run(lock_steps.release(self._locks.table, self._locks.backend, self._hold))

    @asynccontextmanager
    async def guard(self) -> AsyncGenerator[AsyncGrant]:
        """A context manager for a block that needs the lock. It raises ``LockLost`` at the beginning of the block if the lock is
        not held, and at the end if the lock was lost meanwhile.

        Awaited, the block is cancelled as soon as the lock is lost.
        """
        await self.check()
        with cancelled_by(
            lambda cancel: self._locks.table.listen(self._hold, cancel),
            f"The lock {self.name} was lost.",
            lambda: lock_steps.lock_lost(self._hold),
        ):
            yield self
        lock_steps.require_held(self._locks.table, self._hold)


@refuse_other_with
class AsyncLock:
    """A lock with a name, for threads, processes and machines. As a context manager it is acquired, and gives a grant with the fencing token.

    Made by ``client.lock(name)``; all objects with the same name and namespace are the same lock. The thread or task that
    holds it may acquire it again, and must release it as many times.
    """

    def __init__(
        self, locks: Callable[[], LockWatchdog], lock: LockId, options: LockOptions, *, kept_in: str, place: str
    ) -> None:
        self._locks = locks
        self._id = lock
        self._options = options
        self.kept_in = kept_in
        """The kind of the lock and its namespace. By this a guarded queue distinguishes locks that have the same name."""
        self._place = place
        self._entered: WeakKeyDictionary[Holder, list[AsyncGrant]] = WeakKeyDictionary()
        self.name: str = lock.name
        """The lock's name."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} {self._place}>"

    async def __aenter__(self) -> AsyncGrant:
        grant = await self.acquire()
        if grant is None:
            raise not_acquired(self.name, self._options.wait_s)
        self._entered.setdefault(current_holder(), []).append(grant)
        return grant

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        grant: AsyncGrant = self._entered[current_holder()].pop()
        await grant.__aexit__(kind, fault, trace)

    async def acquire(
        self, *, wait: Duration | UnsetType | None = UNSET, lease: Duration | UnsetType | None = UNSET
    ) -> AsyncGrant | None:
        """Acquires the lock. Returns a grant, or ``None`` if the lock is not free within ``wait``.

        ``wait``  0 tries once, ``None`` waits forever; by default the ``wait`` that was given to ``client.lock``
        ``lease``  the time after which the grant ends; with ``None`` it is renewed as long as this process lives; by default the ``lease`` that was given to ``client.lock``

        Raises ``BadInput`` for a bad argument, ``Unavailable`` if the server does not answer. The latter may take longer than
        ``wait``.
        """
        terms, locks, wake_event = self._options.replaced(wait, lease), self._locks(), Signal()
        locks.start()
        acquisition = terms.acquisition(self._id, current_holder(), locks.acquisition_ids, wake_event.set)
        hold = await locks.run(lock_steps.acquire(locks.table, locks.backend, acquisition, terms.wait_s), wake_event)
        return None if hold is None else AsyncGrant(locks, hold)

    async def release(self) -> None:
        """Releases the lock once. A thread or task that has acquired it several times must release it as often.

        Raises ``NotAcquired`` if this thread or task does not hold the lock, ``LockLost`` if the lock was lost before.
        """
        locks = self._locks()
        hold = locks.table.hold_of(self._id, current_holder())
        if hold is None:
            raise not_held(self.name)
        await locks.run(lock_steps.release(locks.table, locks.backend, hold))

    def held(self) -> bool:
        """Whether this thread or task holds the lock, as far as this process knows."""
        return self._locks().table.hold_of(self._id, current_holder()) is not None

    async def state(self) -> LockState:
        """The lock's holder, the remaining time, and the number of waiters. Changes nothing."""
        locks = self._locks()
        return await locks.run(locks.backend.state(self._id))

    async def force_release(self) -> bool:
        """Takes the lock from its holder. The holder is notified at once, but may still be working. Returns whether there was a
        holder."""
        locks = self._locks()
        return await locks.run(locks.backend.force_release(self._id))
