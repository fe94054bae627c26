"""The clients that are blocked on a server; waits until there are some."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import tarry
from tarry.connections.embedded.server_process import ServerProcess
from until import LONGEST_S


def blocked(running: ServerProcess) -> list[str]:
    """The ids of connections that wait."""
    listed = running.ask("CLIENT", "LIST")
    assert isinstance(listed, bytes)
    rows = [dict(word.split("=", 1) for word in row.split()) for row in listed.decode().splitlines()]
    return [row["id"] for row in rows if "b" in row["flags"]]


def async_story(url: str, story: Callable[[Any], Any]) -> Any:
    async def run() -> Any:
        async with tarry.AsyncClient(url) as client, asyncio.timeout(LONGEST_S):
            return await story(client)

    return asyncio.run(run())


async def until_blocked(running: ServerProcess) -> None:
    while not blocked(running):  # noqa: ASYNC110  # the server tells nobody when somebody waits
        await asyncio.sleep(0.002)


def waiting(client: Any) -> int:
    return sum(len(list(waiter._watch)) for _, waiter in client.engine._waiters.items())


def calls(running: ServerProcess) -> int:
    run = running.ask("INFO", "commandstats")
    assert isinstance(run, bytes)
    rows = [
        row
        for row in run.decode().splitlines()
        if row.startswith(("cmdstat_evalsha", "cmdstat_eval:", "cmdstat_blpop"))
    ]
    return sum(int(row.split("calls=")[1].split(",")[0]) for row in rows)
