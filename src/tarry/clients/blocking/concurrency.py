"""Threads. ``tarry.clients.awaited.concurrency`` has the same names for tasks of an event loop.

An operation that is awaited there is done here when it is an argument: ``gather(ask(url) for url in urls)`` asks one after the
other.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from asyncio import _get_running_loop
from collections.abc import (
    Callable,
    Generator,
    Hashable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    MutableMapping,
    ValuesView,
)
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tarry.errors import BadInput

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
V = TypeVar("V")
Key = TypeVar("Key")
Holder = threading.Thread
"""The type of a lock's owner."""
LONGEST_WAIT_S = 1.0
"""For a wait in the background, which nothing can interrupt."""
logger = logging.getLogger("tarry")
CALLED_IN_A_LOOP = (
    "A blocking client is called inside a running event loop, at %s: it holds up the loop. Use tarry.AsyncClient there, or "
    "asyncio.to_thread."
)
Mutex = threading.Lock
ReentrantMutex = threading.RLock
sleep = time.sleep
current_holder = threading.current_thread
is_alive = threading.Thread.is_alive


def shield(answer: T) -> T:
    """Nothing is cancelled here."""
    return answer


def to_thread(function: Callable[..., T], *args: Any) -> T:
    """Calls the function in this thread, which it may block."""
    return function(*args)


def completed(answer: object) -> None:
    """A function of the user has returned: it is done."""


def called(function: Callable[[], Any]) -> Any:
    """Calls a function of the user. Raises ``BadInput`` if it returns work that nobody has done."""
    result = function()
    if hasattr(result, "__await__"):
        if hasattr(result, "close"):  # a coroutine: nobody will await it
            result.close()
        raise BadInput("step: its function is async, and the job is a plain function's; make the handler an async def.")
    return result


def gather(answers: Iterable[T]) -> list[T]:
    """Performs operations."""
    return list(answers)


def thread_safe_caller() -> Callable[[Callable[[], None]], None]:
    """Returns a function that calls another one, in any thread."""
    return lambda function: function()


class Event:
    """Is set once, and wakes all that wait for it."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.set = self._event.set

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Until it is set, or the time is up; answers whether it is set."""
        return self._event.wait(min(max(seconds, 0), threading.TIMEOUT_MAX))


class LoopWarning:
    """Logs a warning, once, when a blocking client is called inside a running event loop: it holds up all tasks of the loop."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done = False

    def check(self) -> None:
        if _get_running_loop() is not None and not self._done:
            self._done = True
            logger.warning(CALLED_IN_A_LOOP, _caller())


def _caller() -> str:
    """The file and line that called tarry."""
    frame = sys._getframe(1)  # noqa: SLF001  # Python's own, documented
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "tarry":
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class Signal:
    """Wakes one waiter; set twice is once. Set before the wait, it is not missed."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        with suppress(RuntimeError):  # it was set already
            self._lock.release()

    set_from_thread = set
    """Like ``set``, from any thread, and from a finalizer."""

    def clear(self) -> None:
        self._lock.acquire(blocking=False)

    def wait(self, seconds: float = float("inf")) -> bool:
        """Until it is set, or the time is up; answers whether it was set."""
        return self._lock.acquire(timeout=min(max(seconds, 0), threading.TIMEOUT_MAX))


class Background:
    """Work of a client in the background."""

    def __init__(self, name: str, run: Callable[[], None]) -> None:
        from tarry.connections.background import start_thread

        self._ending = threading.Event()
        self._thread = start_thread(name, run, self._ending.wait)

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def interrupt(self) -> None:
        """A thread cannot be interrupted: it waits for ``LONGEST_WAIT_S`` at most, and looks whether it was stopped."""

    def join(self, seconds: float) -> None:
        """Waits for its end, or until the time is up. From inside it does nothing."""
        self._ending.set()
        if self._thread is not threading.current_thread():
            self._thread.join(min(seconds, threading.TIMEOUT_MAX))


class BackgroundCalls:
    """Operations in the background. Here they are done when they are started."""

    def __init__(self, name: str) -> None: ...
    def start(self, answer: object) -> None: ...
    def join(self, seconds: float) -> None: ...


class SharedCalls:
    """Calls of the same key at the same time: each thread makes its own."""

    def run(self, key: Hashable, operation: Callable[[], T]) -> T:  # noqa: ARG002  # as the awaited one
        return operation()

    def close(self) -> None: ...


class Local(Generic[K, T]):
    """Values of which each process has its own, by a key."""

    def __init__(self) -> None:
        self._values: dict[int, dict[K, T]] = {}
        self._mutexes: dict[int, threading.Lock] = {}
        """A thread of the parent may have held another one when this process was forked."""

    def get(self, key: K, create: Callable[[], T]) -> T:
        pid = os.getpid()
        values = self._values.setdefault(pid, {})
        if key not in values:
            with self._mutexes.setdefault(pid, threading.Lock()):
                if key not in values:
                    values[key] = create()
        return values[key]

    def items(self) -> list[tuple[K, T]]:
        return list(self._values.get(os.getpid(), {}).items())

    def take_all(self) -> list[T]:
        """Removes and returns the values of this process, the last first."""
        values, self._values = self._values, {}
        return list(reversed(values.get(os.getpid(), {}).values()))


def finish_or_undo(answer: T, undo: Callable[[T], None], ignored: type[Exception]) -> T:  # noqa: ARG001
    """Nothing is cancelled here."""
    return answer


@contextmanager
def cancelled_by(
    listen: Callable[[Callable[[], None]], None],  # noqa: ARG001  # a thread cannot be cancelled
    message: str,  # noqa: ARG001
    error: Callable[[], Exception],  # noqa: ARG001
) -> Generator[None]:
    """A block that nothing cancels."""
    yield


# ── Python's operators on queues and maps ─────────────────────────────────────────────────────────────────────────────


class SizedOperators:
    """``len(queue)``."""

    if TYPE_CHECKING:  # the verbs of the whole

        def size(self) -> int: ...

    def __len__(self) -> int:
        return self.size()


class CollectionOperators(SizedOperators, Generic[V]):
    """``value in queue``."""

    if TYPE_CHECKING:

        def contains(self, value: V, /) -> bool: ...

    def __contains__(self, value: V) -> bool:
        return self.contains(value)


class MappingOperators(MutableMapping[Key, V]):
    """``entries[key]``, and the rest of a ``MutableMapping``."""

    _cache: Any

    if TYPE_CHECKING:  # what the whole has

        def _values(self) -> Iterator[V]: ...
        def _items(self) -> Iterator[tuple[Key, V]]: ...

    def __getitem__(self, key: Key) -> V:
        found: V | None = self._cache.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __setitem__(self, key: Key, value: V) -> None:
        self._cache.fast_put(key, value)

    def __delitem__(self, key: Key) -> None:
        if not self._cache.fast_remove(key):
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return bool(self._cache.contains_key(key))

    def __len__(self) -> int:
        return int(self._cache.size())

    def keys(self) -> KeysView[Key]:
        """The keys, read a page at a time. Each key comes once, expired ones never. Reading them restarts no idle time. An unreadable key
        is ``Opaque``."""
        return super().keys()

    def values(self) -> ValuesView[V]:
        """The values, read in the same way as ``keys``. ``value in entries.values()`` runs in the server, and compares the encoded values."""
        return _MapValues(self, self._cache)

    def items(self) -> ItemsView[Key, V]:
        """The entries, read in the same way as ``keys``."""
        return _MapItems(self)


class _MapValues(ValuesView[V]):
    def __init__(self, entries: MappingOperators[Any, V], cache: Any) -> None:
        super().__init__(entries)
        self._entries, self._cache = entries, cache

    def __iter__(self) -> Iterator[V]:
        return self._entries._values()  # noqa: SLF001  # a view is a part of its mapping

    def __contains__(self, value: object) -> bool:
        return bool(self._cache.contains_value(value))


class _MapItems(ItemsView[Key, V]):
    def __init__(self, entries: MappingOperators[Key, V]) -> None:
        super().__init__(entries)
        self._entries = entries

    def __iter__(self) -> Iterator[tuple[Key, V]]:
        return self._entries._items()  # noqa: SLF001
