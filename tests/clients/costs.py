"""What an add, a pop and a finish cost, in numbers that are the same on every machine, however busy it is:

    calls       functions of tarry that a client calls, and built-in functions that they call
    commands    commands that the server runs, those inside of scripts included

python tests/clients/costs.py     records them in costs.json
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

import tarry
from tarry.connections.embedded import plain_client
from tarry.connections.fitness import parse_info

Costs: TypeAlias = "dict[str, dict[str, int]]"
"""By what is counted, then by operation."""
RECORDED = Path(__file__).with_name("costs.json")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
SOURCE = str(Path(tarry.__file__).parent)
ROUNDS = 12
MANY = 100
COMMANDS = "commands of the server"
BODY = {"order": 7}


class CallCounter:
    """Counts while it is the profile function of this thread. What redis-py and asyncio call is theirs."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:  # noqa: ARG002  # as Python calls it
        if event in ("call", "c_call") and frame.f_code.co_filename.startswith(SOURCE):
            self.calls += 1

    @contextmanager
    def counting(self) -> Iterator[None]:
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)


class CommandCounter:
    """Counts the commands of a server that nobody else uses."""

    def __init__(self, url: str) -> None:
        self._connection = plain_client.RespConnection.connect(url.removeprefix("unix://"))

    def close(self) -> None:
        self._connection.close()

    def all(self) -> int:
        """Commands until now, except the one that asks."""
        stats = parse_info(self._connection.call("INFO", "commandstats"))
        own = "cmdstat_info"
        return sum(int(text.split(",")[0].removeprefix("calls=")) for name, text in stats.items() if name != own)


def operations(topic: Any, number: int) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """The operations of one round, in their order; each gets what the one before it returned."""
    yield "add", lambda _: topic.add(BODY)
    yield "pop", lambda _: topic.pop()
    yield "finish", topic.finish
    yield "add for tomorrow", lambda _: topic.add(BODY, id=f"tomorrow-{number}", delay="1d")
    yield f"add_many of {MANY}", lambda _: topic.add_many([BODY] * MANY)
    yield f"pop_many of {MANY}", lambda _: topic.pop_many(MANY)
    yield f"finish_many of {MANY}", topic.finish_many


def fewest(counted: list[dict[str, int]]) -> dict[str, int]:
    """Of each operation the fewest: the first ones connect, load scripts, and register the topic."""
    return {name: min(one[name] for one in counted) for name in counted[0]}


def blocking_costs(url: str, namespace: str) -> Costs:
    commands = CommandCounter(url)
    calls_of: list[dict[str, int]] = []
    commands_of: list[dict[str, int]] = []
    with tarry.Client(url, namespace=namespace) as client:
        for number in range(ROUNDS):
            found: Any = None
            calls_of.append({})
            commands_of.append({})
            for name, operation in operations(client.topic("orders"), number):
                counter, before = CallCounter(), commands.all()
                with counter.counting():
                    found = operation(found)
                calls_of[-1][name], commands_of[-1][name] = counter.calls, commands.all() - before
    commands.close()
    return {"calls of the blocking client": fewest(calls_of), COMMANDS: fewest(commands_of)}


async def awaited_costs(url: str, namespace: str) -> Costs:
    calls_of: list[dict[str, int]] = []
    async with tarry.AsyncClient(url, namespace=namespace) as client:
        for number in range(ROUNDS):
            found: Any = None
            calls_of.append({})
            for name, operation in operations(client.topic("orders"), number):
                counter = CallCounter()
                with counter.counting():
                    awaited: Awaitable[Any] = operation(found)
                    found = await awaited
                calls_of[-1][name] = counter.calls
    return {"calls of the awaited client": fewest(calls_of)}


def measure(url: str, namespace: str) -> Costs:
    return blocking_costs(url, namespace) | asyncio.run(awaited_costs(url, f"{namespace}-awaited"))


def record(found: Costs) -> None:
    RECORDED.write_text(json.dumps({"python": PYTHON, **found}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import servers

    with servers.server(servers.valkey_binary()) as running:
        record(measure(running.url, "costs"))
    print(f"wrote {RECORDED.name}")
