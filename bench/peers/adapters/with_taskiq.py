"""taskiq: a stream as broker, which acknowledges; its command's two worker processes, and its scheduler, which looks every second."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime

import side
from taskiq import TaskiqScheduler
from taskiq_redis import ListRedisScheduleSource, RedisStreamBroker

URL = os.environ[side.URL]
broker = RedisStreamBroker(url=URL)
source = ListRedisScheduleSource(URL)
scheduler = TaskiqScheduler(broker, [source])


@broker.task
async def run(body: str) -> None:
    await side.ran_async(body)


class Taskiq(side.Adder):
    async def add(self, body: str, due: float) -> None:
        await run.schedule_by_time(source, datetime.fromtimestamp(due, UTC), body)


async def produce(_url: str) -> Taskiq:
    await broker.startup()
    await source.startup()
    return Taskiq()


def work(_url: str, slots: int) -> None:
    command = [sys.executable, "-m", "taskiq"]
    subprocess.Popen([*command, "scheduler", "with_taskiq:scheduler", "--update-interval", "1"])
    words = [*command, "worker", "with_taskiq:broker", "--log-level", "WARNING"]
    some = ["--workers", str(slots), "--max-async-tasks", str(slots), "--max-prefetch", str(slots)]
    os.execv(sys.executable, [*words, *some] if slots else words)


if __name__ == "__main__":
    import with_taskiq  # its worker knows the task by this module's name

    side.main(with_taskiq.produce, with_taskiq.work)
