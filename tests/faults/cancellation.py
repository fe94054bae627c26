"""Cancel a coroutine at its k-th suspension, for k = 1, 2, 3, … until it ends before it is cancelled.

AT_ONCE   in the very step that suspends
SOON      one turn of the loop later
TOO_LATE  in the turn in which what it waits for has come
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any

AT_ONCE, SOON, TOO_LATE = "at once", "soon", "too late"
MOMENTS = (AT_ONCE, SOON, TOO_LATE)


class Cut:
    """What came of one run: ``answer``, or ``cancelled``. ``reached``: it had a k-th suspension."""

    answer: Any = None
    cancelled = False
    reached = False


async def cancelled_at(work: Coroutine[Any, Any, Any], k: int, moment: str) -> Cut:
    cut = Cut()
    task: asyncio.Task[Any] | None = None

    def strike(waited_for: Any) -> None:
        assert task is not None
        cut.reached = True
        if moment == AT_ONCE or waited_for is None:
            task.cancel()
        elif moment == SOON:
            asyncio.get_running_loop().call_soon(task.cancel)
        else:
            waited_for.add_done_callback(lambda _: task.cancel())

    task = asyncio.ensure_future(_stepped(work, k, strike))
    try:
        cut.answer = await task
    except asyncio.CancelledError:
        cut.cancelled = True
    return cut


async def _stepped(work: Coroutine[Any, Any, Any], k: int, strike: Any) -> Any:
    return await _steps(work, k, strike)


@types.coroutine
def _steps(work: Coroutine[Any, Any, Any], k: int, strike: Any) -> Generator[Any, Any, Any]:
    suspensions, step, given = 0, work.send, None
    while True:
        try:
            waited_for = step(given)
        except StopIteration as end:
            return end.value
        suspensions += 1
        if suspensions == k:
            strike(waited_for)
        try:
            step, given = work.send, (yield waited_for)
        except BaseException as thrown:  # noqa: BLE001  # as it is, to where it belongs
            step, given = work.throw, thrown  # type: ignore[assignment]
