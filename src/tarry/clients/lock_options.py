"""The parts of locks that need no connection, for both clients."""

from __future__ import annotations

import itertools
import logging
import os
import socket
import time
import uuid
from collections.abc import Callable
from typing import Any, TypedDict

from msgspec import UNSET, UnsetType

from tarry.clients.channels import Subscriber
from tarry.clients.config import wait_seconds
from tarry.connections.background import failures
from tarry.connections.faults import CONNECTION_ERRORS
from tarry.errors import LockLost, NotAcquired, TarryError
from tarry.values import names
from tarry.values.durations import MILLISECOND, Duration, duration_us
from tarry.verbs.locks.lock_table import Acquisition, Wake
from tarry.verbs.locks.lock_values import LockId

logger = logging.getLogger("tarry")

CLEAN_UP_EVERY_S = 1.0
LINGER_S = 5.0
LONGEST_SLEEP_S = 10.0


class AcquisitionIds:
    """Names of acquisitions: the client's, new for each process, and a number, as Redisson's holders look."""

    def __init__(self) -> None:
        self._client = str(uuid.uuid4())
        self._numbers = itertools.count(1)
        self.pid = os.getpid()

    def new(self) -> bytes:
        return f"{self._client}:{next(self._numbers)}".encode()


class LockOptions:
    """How long to wait for a lock, and how long to hold it."""

    def __init__(self, wait: Duration | None, lease: Duration | None) -> None:
        self.wait_s = wait_seconds(wait)
        self.lease_us = None if lease is None else duration_us(lease, "lease", minimum=MILLISECOND)

    def replaced(self, wait: Duration | UnsetType | None, lease: Duration | UnsetType | None) -> LockOptions:
        """Returns a copy with the options that are given."""
        if wait is UNSET and lease is UNSET:
            return self
        other = LockOptions(None if wait is UNSET else wait, None if lease is UNSET else lease)
        if wait is UNSET:
            other.wait_s = self.wait_s
        if lease is UNSET:
            other.lease_us = self.lease_us
        return other

    def acquisition(self, lock: LockId, holder: Any, ids: AcquisitionIds, wake: Callable[[], None]) -> Acquisition:
        return Acquisition(lock, holder, ids.new(), self.lease_us, wake)


class LockPlace(TypedDict):
    """Which lock a handle is of, and where that is kept."""

    lock: LockId
    kept_in: str
    place: str


def server_lock(config: Any, name: str, *, shared: bool) -> LockPlace:
    """A lock on Redis: of the client's namespace, or shared with Java. Tokens of locks with one ``kept_in`` and name are compared.

    Raises ``BadInput`` for a name that no lock of a namespace may have.
    """
    if shared:
        return LockPlace(lock=LockId(name, shared=True), kept_in="redis", place=f"at {config.address.redacted}")
    names.check_name(name, "lock")
    return LockPlace(lock=LockId(name), kept_in=f"redis/{config.namespace}", place=f"of {config.redacted}")


class ReleaseChannels:
    """The wake events of each channel. A channel is kept for a while, so that the next waiter need not subscribe again."""

    def __init__(self) -> None:
        self._wakes: dict[bytes, list[Wake]] = {}
        self._subscribers: dict[bytes, Subscriber] = {}
        self._idle: dict[bytes, float] = {}

    def join(self, channel: bytes, wake: Wake) -> bool:
        """Returns whether the channel must be subscribed to first; if not, wakes the waiter at once: a message may have come."""
        self._idle.pop(channel, None)
        self._wakes.setdefault(channel, []).append(wake)
        if channel not in self._subscribers:
            return True
        wake()
        return False

    def keep(self, channel: bytes, subscriber: Subscriber) -> Subscriber | None:
        """Returns the subscriber that is not needed, if two waiters have subscribed at once."""
        kept = self._subscribers.setdefault(channel, subscriber)
        return None if kept is subscriber else subscriber

    def on_message(self, channel: bytes, _: bytes) -> None:
        for wake in list(self._wakes.get(channel, ())):
            wake()

    def leave(self, channel: bytes, wake: Wake) -> None:
        wakes = self._wakes.get(channel, [])
        if wake in wakes:
            wakes.remove(wake)
        if not wakes:
            self._idle[channel] = time.monotonic()

    def idle(self) -> list[Subscriber]:
        """Returns the subscribers that were not used for a while; they are to be closed."""
        long_ago = time.monotonic() - LINGER_S
        gone = [channel for channel, since in list(self._idle.items()) if since < long_ago]
        for channel in gone:
            self._idle.pop(channel, None)
            self._wakes.pop(channel, None)
        return [subscriber for channel in gone if (subscriber := self._subscribers.pop(channel, None)) is not None]


def not_acquired(name: str, wait_s: float) -> NotAcquired:
    waited = f"not free within {wait_s:g} s" if wait_s else "not free"
    return NotAcquired(f"The lock {name} is {waited}: another holds it. Wait longer, or look at its state().")


def not_held(name: str) -> NotAcquired:
    return NotAcquired(f"The lock {name} is not held by this thread or task; only its holder releases it.")


def held_by_parent(name: str) -> LockLost:
    reason = "it is held by the process that this one was forked from"
    return LockLost(f"The lock {name} is not held here: {reason}.", name=name, reason=reason)


def call_listeners(listeners: list[Callable[[], object]]) -> None:
    """Calls the listeners of a loss; one that fails does not stop the others."""
    for listener in listeners:
        try:
            listener()
        except Exception:
            logger.exception("What was to be called when a lock is lost has failed.")


def process_label() -> str:
    """The holder of a lock, for people."""
    return f"{socket.gethostname()}:{os.getpid()}"


def log_watchdog_failure(fault: Exception, work: str) -> None:
    """Logs an outage; any other error is noted as a failure of ``work``."""
    if isinstance(fault, (TarryError, *CONNECTION_ERRORS)):
        logger.warning("Locks could not be looked after, trying again: %s", fault)
    else:
        failures.note(work, fault)
