"""Tasks of an event loop. ``tarry.clients.blocking.concurrency`` has the same names for threads."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Hashable, Iterable
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tarry.connections.background import failures, supervise_task

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
V = TypeVar("V")
Key = TypeVar("Key")
Holder = asyncio.Task[Any]
"""The type of a lock's owner."""
LONGEST_WAIT_S = float("inf")
"""For a wait in the background."""
Mutex = ReentrantMutex = nullcontext
"""Tasks change state only between awaits."""
sleep = asyncio.sleep
shield = asyncio.shield
"""The operation goes on when its caller is cancelled."""
to_thread = asyncio.to_thread
"""For a function that blocks."""


def current_holder() -> Holder:
    task = asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    return task


def is_alive(holder: Holder) -> bool:
    return not holder.done()


async def completed(answer: Any) -> None:
    """Awaits what a function of the user returned, if it is awaitable."""
    if inspect.isawaitable(answer):
        await answer


async def called(function: Callable[[], Any]) -> Any:
    """Calls a function of the user, and awaits what it returns if it is awaitable."""
    result = function()
    return await result if inspect.isawaitable(result) else result


async def gather(operations: Iterable[Awaitable[T]]) -> list[T]:
    """Performs operations at the same time."""
    return list(await asyncio.gather(*operations))


def thread_safe_caller() -> Callable[[Callable[[], None]], None]:
    """Returns a function that calls another one in this event loop, from any thread."""
    loop = asyncio.get_running_loop()

    def call(function: Callable[[], None]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(function)

    return call


class Event:
    """Is set once, and wakes all that wait for it."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.set = self._event.set

    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self, seconds: float) -> bool:
        """Until it is set, or the time is up; returns whether it is set."""
        with suppress(TimeoutError):
            async with asyncio.timeout(None if seconds == float("inf") else max(seconds, 0)):
                await self._event.wait()
        return self._event.is_set()


class LoopWarning:
    """An awaited client belongs into an event loop."""

    def check(self) -> None: ...


class Signal:
    """Wakes one waiter; set twice is once. Set before the wait, it is not missed."""

    __slots__ = ("_event", "_loop")

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def set(self) -> None:
        self._event.set()

    def set_from_thread(self) -> None:
        """Like ``set``, from any thread, and from a finalizer."""
        with suppress(RuntimeError):  # the loop is closed, and no task waits
            self._loop.call_soon_threadsafe(self._event.set)

    def clear(self) -> None:
        self._event.clear()

    async def wait(self, seconds: float = float("inf")) -> bool:
        """Until it is set, or the time is up; returns whether it was set."""
        with suppress(TimeoutError):
            async with asyncio.timeout(None if seconds == float("inf") else max(seconds, 0)):
                await self._event.wait()
        was_set = self._event.is_set()
        self._event.clear()
        return was_set


class Background:
    """Work of a client in the background."""

    def __init__(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._task = asyncio.ensure_future(supervise_task(name, run))
        self._task.set_name(name)

    @property
    def ended(self) -> bool:
        return self._task.done()

    def interrupt(self) -> None:
        """Cancels its wait."""
        self._task.cancel()

    async def join(self, seconds: float) -> None:
        """Waits for its end, and cancels it when the time is up. From inside it does nothing."""
        if self._task is not asyncio.current_task():
            await asyncio.wait({self._task}, timeout=None if seconds == float("inf") else seconds)
            self._task.cancel()
            await asyncio.wait({self._task})


class BackgroundCalls:
    """Operations in the background."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, operation: Coroutine[Any, Any, object]) -> None:
        task = asyncio.ensure_future(operation)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        failures.watch_task(self._name, task)

    async def join(self, seconds: float) -> None:
        """Waits for all, and cancels them when the time is up."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        for task in self._tasks:
            task.cancel()


class SharedCalls:
    """Calls of the same key at the same time share one operation, which goes on when a caller is cancelled."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[asyncio.AbstractEventLoop, Hashable], asyncio.Task[Any]] = {}

    async def run(self, key: Hashable, operation: Callable[[], Coroutine[Any, Any, T]]) -> T:
        place = (asyncio.get_running_loop(), key)
        task = self._tasks.get(place)
        if task is None or task.done():
            task = self._tasks[place] = asyncio.ensure_future(operation())
            task.add_done_callback(lambda done: self._end(place, done))
        return await asyncio.shield(task)

    def _end(self, place: tuple[asyncio.AbstractEventLoop, Hashable], task: asyncio.Task[Any]) -> None:
        if self._tasks.get(place) is task:
            del self._tasks[place]
        if not task.cancelled():
            task.exception()  # perhaps no task waits any more

    async def close(self) -> None:
        for task in list(self._tasks.values()):
            task.cancel()
            await asyncio.wait({task})


class Local(Generic[K, T]):
    """Values of which each event loop of each process has its own."""

    def __init__(self) -> None:
        self._values: dict[tuple[asyncio.AbstractEventLoop, int, K], T] = {}

    def get(self, key: K, create: Callable[[], T]) -> T:
        place = (asyncio.get_running_loop(), os.getpid(), key)
        if place not in self._values:
            self._values = {where: one for where, one in self._values.items() if not where[0].is_closed()}
            self._values[place] = create()
        return self._values[place]

    def items(self) -> list[tuple[K, T]]:
        return [(place[-1], value) for place, value in list(self._values.items())]

    def take_all(self) -> list[T]:
        """Removes and returns the values of this event loop, the last first."""
        home = (asyncio.get_running_loop(), os.getpid())
        return [self._values.pop(place) for place in reversed(list(self._values)) if place[:2] == home]


async def finish_or_undo(
    operation: Coroutine[Any, Any, T], undo: Callable[[T], Coroutine[Any, Any, None]], ignored: type[Exception]
) -> T:
    """Performs an operation. If it is cancelled, it is completed and then undone; ``ignored`` errors of that are dropped."""
    task = asyncio.ensure_future(operation)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(ignored):
            await asyncio.wait({task})
            await undo(task.result())
        raise


@contextmanager
def cancelled_by(
    listen: Callable[[Callable[[], None]], None], message: str, error: Callable[[], Exception]
) -> Generator[None]:
    """Cancels the block, and raises the error, when the function that ``listen`` receives is called."""
    task, open = current_holder(), True
    cancelled = False

    def cancel() -> None:
        nonlocal cancelled
        if open and not task.done():
            cancelled = task.cancel(message)

    listen(cancel)
    try:
        yield
    except asyncio.CancelledError as fault:
        if cancelled and task.uncancel() == 0:
            raise error() from fault
        raise
    finally:
        open = False


# ── Python's operators on queues and maps; an awaited client has none, because they cannot be awaited ─────────────────


class SizedOperators:
    """No ``len(queue)``: ``await queue.size()``."""


class CollectionOperators(SizedOperators, Generic[V]):
    """No ``value in queue``: ``await queue.contains(value)``."""


class MappingOperators(Generic[Key, V]):
    """No ``entries[key]``, ``in`` and ``len``: ``await cache.get(key)``, ``contains_key``, ``size``. Nothing is read before the iteration."""

    if TYPE_CHECKING:  # what the whole has

        def __aiter__(self) -> AsyncIterator[Key]: ...
        def _values(self) -> AsyncIterator[V]: ...
        def _items(self) -> AsyncIterator[tuple[Key, V]]: ...

    def keys(self) -> AsyncIterator[Key]:
        """The keys, read a page at a time. Each key comes once, expired ones never. Reading them restarts no idle time. An unreadable key
        is ``Opaque``."""
        return self.__aiter__()

    def values(self) -> AsyncIterator[V]:
        """The values, read in the same way as ``keys``."""
        return self._values()

    def items(self) -> AsyncIterator[tuple[Key, V]]:
        """The entries, read in the same way as ``keys``."""
        return self._items()
