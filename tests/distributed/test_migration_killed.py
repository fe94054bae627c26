"""The process that moves a topic under load is killed, again and again, and every handler counts its jobs."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import tarry
from tarry.connections.embedded.server_process import ServerProcess
from until import until
from warm import WarmTarry

JOBS = 400
MOVERS = """
import os, random, signal, sys
import tarry
from tarry.verbs.jobs import topic_migration as migration

migration.STEP = 20  # more moments to die in
deaths = 0

def die_soon(_):  # counts calls, not time: a busy machine changes nothing
    left = random.randrange(1000)
    def count(*_):
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    if not sys.getprofile():
        sys.setprofile(count)

while True:
    mover = os.fork()
    if not mover:
        old, new = map(tarry.Client, sys.argv[1:])
        to = new.topic("orders")
        while (done := old.migrate("orders", to, progress=die_soon)).moved:
            pass
        os._exit(0)
    if os.waitpid(mover, 0)[1] == 0:
        break
    deaths += 1
print(deaths, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [None, 4], ids=["plain", "parted"])
def test_a_migration_killed_at_any_point_duplicates_nothing(
    own_server: Callable[..., ServerProcess], tarry_command: WarmTarry, tmp_path: Path, partitions: int | None
) -> None:
    (program := tmp_path / "movers.py").write_text(MOVERS)
    urls = own_server().url, own_server().url
    taken, over = Counter[tuple[int, int]](), threading.Event()
    with tarry.Client(urls[0]) as old, tarry.Client(urls[1]) as new:
        here, there = old.topic("orders"), new.topic("orders", partitions=partitions)
        here.add_many([tarry.NewJob(n, id=f"{n}", delay=n % 2) for n in range(JOBS)])
        there.stats()

        def consume(topic: tarry.Topic[int]) -> None:
            while not over.is_set():
                for job in topic.pop_many(20, wait="20ms"):
                    with job:
                        taken[job.body, job.attempt] += 1

        workers = [threading.Thread(target=consume, args=(topic,)) for topic in (there, there)]
        for worker in workers:
            worker.start()
        with tarry_command.talk_to(program, *urls) as (movers, _, stdout):
            deaths = int(stdout.readline())
            assert movers.wait() == 0
        until(lambda: sum(taken.values()) >= JOBS, "all are handed out")
        over.set()
        for worker in workers:
            worker.join()
        assert deaths > 2
        assert taken == Counter((n, 1) for n in range(JOBS))
        assert here.stats().finished + there.stats().finished == JOBS
        assert (here.check().ok, there.check().ok, here.check().leaving) == (True, True, 0)
