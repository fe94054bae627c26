"""Those who want locks, alike for both kinds of client: a user is a thread, or a task in an event loop that runs in a thread.

user.call(lock.acquire, wait=0)          in its thread, or awaited in its task
user.begin(lock.acquire)               the same, answered later: a future
"""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tarry.errors import TarryError
from until import LONGEST_S


class LockUser:
    """A thread that does what it is told."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.ended = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def begin(self, work: Callable[..., Any], *given: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        self._work.put((done, work, given, named))
        return done

    def call(self, work: Callable[..., Any], *given: Any, **named: Any) -> Any:
        return self.begin(work, *given, **named).result(LONGEST_S)

    def enter(self, manager: Any) -> Any:
        return self.call(manager.__enter__)

    def leave(self, manager: Any) -> None:
        self.call(manager.__exit__, None, None, None)

    def end(self) -> None:
        self._work.put(None)

    def _run(self) -> None:
        while (told := self._work.get()) is not None:
            done, work, given, named = told
            try:
                done.set_result(work(*given, **named))
            except BaseException as fault:  # noqa: BLE001  # the test is told
                done.set_exception(fault)
            del done, work, given, named, told
        self.ended.set()


class AsyncLockUser:
    """A task that does what it is told."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._work: asyncio.Queue[Any] = asyncio.Queue()
        self.ended = threading.Event()
        self.task = asyncio.run_coroutine_threadsafe(_task(self._run()), loop).result(LONGEST_S)

    def begin(self, work: Callable[..., Any], *given: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        self._loop.call_soon_threadsafe(self._work.put_nowait, (done, work, given, named))
        return done

    def call(self, work: Callable[..., Any], *given: Any, **named: Any) -> Any:
        return self.begin(work, *given, **named).result(LONGEST_S)

    def enter(self, manager: Any) -> Any:
        return self.call(manager.__aenter__)

    def leave(self, manager: Any) -> None:
        self.call(manager.__aexit__, None, None, None)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._work.put_nowait, None)

    async def _run(self) -> None:
        while (told := await self._work.get()) is not None:
            done, work, given, named = told
            try:
                answer = work(*given, **named)
                done.set_result(await answer if inspect.isawaitable(answer) else answer)
            except BaseException as fault:  # noqa: BLE001  # the test is told
                done.set_exception(fault)
            del done, work, given, named, told
        self.ended.set()


async def _task(work: Any) -> asyncio.Task[Any]:
    return asyncio.ensure_future(work)


async def _end_tasks() -> None:
    """As ``asyncio.run`` ends."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.sleep(0.01)


class LockUsers:
    """Clients of one kind, and threads or tasks that use them."""

    def __init__(self, client_kind: str, make: Callable[..., Any]) -> None:
        self.client_kind = client_kind
        self._make = make
        self._hands: list[Any] = []
        self._clients: list[Any] = []
        self._loop = asyncio.new_event_loop() if client_kind == "async" else None
        if self._loop is not None:
            self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
            self._thread.start()

    def user(self) -> Any:
        user = LockUser() if self._loop is None else AsyncLockUser(self._loop)
        self._hands.append(user)
        return user

    def client(self, *given: Any, **options: Any) -> Any:
        client = self._make(self.client_kind, *given, **options)
        self._clients.append(client)
        return client

    def close(self) -> None:
        last = self.user()
        for client in self._clients:
            try:
                last.call(client.close)
            except TarryError:
                pass  # its server is gone
        for user in self._hands:
            user.end()
        for user in self._hands:
            user.ended.wait(LONGEST_S)
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(_end_tasks(), self._loop).result(LONGEST_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
