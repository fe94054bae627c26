"""Waiting on several slots of a Cluster at once, awaiting: a task for each, and the first that is served wins.

Each slot has its own waiter and its own blocked connection, so a node that does not answer delays no other wait. A job that
came for a loser at the same moment goes back, its attempt not counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tarry.clients.awaited.runner import Runner
from tarry.clients.awaited.waiter import Waiter
from tarry.core.watch import Caller, Gate
from tarry.verbs.jobs import pop
from tarry.verbs.jobs.watch_steps import WaitQueueKey


async def race(
    runner: Runner,
    entries: Sequence[tuple[Waiter, Sequence[WaitQueueKey]]],
    max_jobs: int,
    seconds: float,
    gate: Gate | None = None,
) -> Caller:
    """Returns the first caller that is served, else one that was not. Raises a ``TarryError``."""
    tasks = [asyncio.ensure_future(waiter.wait(max_jobs, seconds, keys, gate)) for waiter, keys in entries]
    winner: asyncio.Task[Caller] | None = None
    try:
        pending = set(tasks)
        while pending and winner is None:
            _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            ended = [task for task in tasks if task.done()]
            winner = next((task for task in ended if task.exception() or _decides(task.result())), None)
        return (winner or tasks[0]).result()
    finally:
        for task in tasks:
            task.cancel()  # a caller that was served and has not returned yet releases its jobs
        for task in tasks:
            if task is not winner and task.done() and not task.cancelled() and task.exception() is None:
                _give_back(runner, task.result())


def _decides(caller: Caller) -> bool:
    """Whether it was served, or may take nothing; then the others may not, either."""
    return caller.result is not None or caller.refused


def _give_back(runner: Runner, caller: Caller) -> None:
    if caller.result is not None:
        queue, found, jobs = caller.result
        runner.perform_if_possible(pop.give_back_reply(queue.keys, found.receipt, jobs))
