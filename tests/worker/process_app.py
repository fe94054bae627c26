"""Functions that run in child processes. Bodies say what to do; the file that they name tells what was done."""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

import tarry

registry = tarry.Registry()
TOO_LONG = 36_000


class Order(msgspec.Struct):
    diary: str
    act: str = ""
    n: int = 0


class Declined(Exception):
    """It can be pickled, and not be made again from its text."""

    def __init__(self, code: int, *, why: str) -> None:
        super().__init__(f"{code}: {why}")
        self.code = code


class Empty(Exception):
    """The same with nothing special."""


def note(diary: str, *words: object) -> None:
    with Path(diary).open("a") as file:  # one write: O_APPEND keeps the lines of many processes whole
        file.write(" ".join(map(str, words)) + "\n")


def shop_name(name: str) -> str:
    return f"shop:{name}"


def settings_of(config: Any) -> str:
    """A client's settings in one line."""
    return re.sub(" at 0x[0-9a-f]*", "", repr(config.settings()))


@registry.on("results", run="process")
@registry.on("orders-*", run="process")
@registry.on("orders", run="process", concurrency=2, retry={Empty: None, tarry.BodyError: None, BaseException: "1h"})
def close(job: tarry.Job[Order]) -> Any:  # noqa: C901  # one act after the other
    order = job.body
    note(order.diary, "begun", job.id, os.getpid())
    match order.act:
        case "die":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(3)
        case "leave":
            sys.exit("left")
        case "empty":
            raise Empty("no order")
        case "declined":
            raise Declined(7, why="no money")
        case "local":

            class Local(ValueError):
                pass

            raise Local("of nobody")
        case "steps":
            job.step("charge", lambda: note(order.diary, "charged"))
            if job.attempt == 1:
                raise tarry.Retry("no mail server", after=0)
            job.step("mail", lambda: note(order.diary, "mailed"))
        case "snooze":
            raise tarry.Snooze("1h", "not yet")
        case "bury":
            raise tarry.Bury("nobody wants it")
        case "finish":
            job.finish()
        case "flood":
            print("x" * 1_000_000)
        case "lambda":
            return lambda: 7
        case "coroutine":
            return asyncio.sleep(0)
        case "generator":
            return (note(order.diary, "line", line) for line in range(3))
        case "stuck":
            time.sleep(TOO_LONG)
        case "settings":
            note(order.diary, settings_of(job._topic.engine.config))
            note(order.diary, settings_of(registry.registered.including_worker().client.engine.config))
        case "result":
            return {"n": order.n}
    return None


@registry.on("hanging", run="process", timeout="300ms", ttr="10m", max_attempts=1)
def hang(order: Order) -> None:
    """It keeps the interpreter, and has started something that would go on without it."""
    started = subprocess.Popen(["sleep", str(TOO_LONG)])
    note(order.diary, os.getpid(), started.pid)
    ctypes.PyDLL(None).sleep(TOO_LONG)  # unlike CDLL, PyDLL keeps the GIL


lost = tarry.Registry()


@lost.on("lost", run="process", cancel_when_lost=True)
def lose(order: Order) -> None:
    note(order.diary, os.getpid())
    time.sleep(TOO_LONG)


@registry.task(run="process")
def count(diary: str, n: int) -> None:
    note(diary, "counted", n, tarry.current_job().id)
    if n:
        count.add(diary, n - 1)


pausing = tarry.Registry()


@pausing.task(run="process", concurrency=1)
def stop_all(diary: str, n: int) -> None:
    note(diary, "begun", n)
    raise tarry.Pause("1h", "429")


@pausing.task
async def something_else() -> None:
    """With its slots jobs of the other task wait for a child."""


def main(url: str, namespace: str) -> None:
    worker = tarry.Worker("shop", url=url, namespace=namespace)
    worker.include(registry)
    asyncio.run(worker.run())


if __name__ == "__main__":
    main(*sys.argv[1:])


chains = tarry.Registry()


@chains.task(run="process")
def link(n: int, diary: str) -> None:
    """Adds the next link of a chain, from its child process."""
    note(diary, n)
    if n:
        link.add(n - 1, diary)
