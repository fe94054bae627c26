"""Workers as processes: killed, told to stop, left without a server."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import tarry
from tarry.connections.embedded.server_process import ServerProcess
from until import until

Hire = Callable[..., Any]


def ids(n: int) -> list[tarry.NewJob[int]]:
    return [tarry.NewJob(i, id=str(i)) for i in range(n)]


def nothing_left(orders: tarry.Topic[Any]) -> bool:
    stats = orders.stats()
    return not stats.delayed + stats.ready + stats.reserved


def test_a_killed_worker_loses_no_job(client: tarry.Client, start_worker: Hire) -> None:
    """Promise: At least once; Lost."""
    orders = client.topic("orders")
    orders.add_many(ids(40))
    victim = start_worker("stuck", ttr="2s")
    until(lambda: len(victim.taken()) == 8, "all slots busy")
    victim.process.kill()
    successor = start_worker("quick", ttr="1h")  # in 2 s a busy machine may not run them, and they would come again
    until(lambda: nothing_left(orders), "all closed")
    assert sorted(successor.closed(), key=int) == [str(i) for i in range(40)]
    assert sum(line.endswith(" 2") for line in successor.taken()) == 8, "those in its hands, and only those, came again"
    assert orders.check().ok


def test_sigterm_lets_running_handlers_end_and_pops_no_new_jobs(client: tarry.Client, start_worker: Hire) -> None:
    orders = client.topic("orders")
    orders.add_many(ids(30))
    worker = start_worker("slow")
    until(worker.taken, "a job taken")
    worker.process.terminate()
    assert worker.process.wait() == 0
    assert len(worker.closed()) == len(worker.taken())
    assert worker.lines[-1] == "left"
    stats = orders.stats()
    assert (stats.finished, stats.ready, stats.reserved) == (len(worker.closed()), 30 - len(worker.closed()), 0)
    assert all(job.attempts == 0 for job in orders.list("ready"))


def test_sigterm_gives_unfinished_jobs_back_uncounted_after_the_grace_period(
    client: tarry.Client, start_worker: Hire
) -> None:
    orders = client.topic("orders")
    orders.add_many(ids(10))
    worker = start_worker("stuck", grace="50ms")
    until(lambda: len(worker.taken()) == 8, "all slots busy")
    worker.process.send_signal(signal.SIGINT)
    assert worker.process.wait() == 0
    stats = orders.stats()
    assert (stats.ready, stats.reserved, stats.timed_out) == (10, 0, 0)
    assert [job.attempts for job in orders.list("ready")] == [0] * 10


def test_a_second_signal_skips_the_grace_period(client: tarry.Client, start_worker: Hire) -> None:
    orders = client.topic("orders")
    orders.add("stuck")
    worker = start_worker("stuck", grace="10h")
    until(worker.taken, "the job taken")
    worker.process.send_signal(signal.SIGTERM)
    worker.process.send_signal(signal.SIGINT)
    assert worker.process.wait() == 0
    assert orders.stats().ready == 1


def test_a_worker_survives_an_outage_of_its_server(
    own_server: Callable[..., ServerProcess], start_worker: Hire, namespace: str
) -> None:
    server = own_server(port=True)
    worker = start_worker("quick", url=server.url)
    until(lambda: worker.lines, "ready")
    with tarry.Client(server.url, namespace=namespace) as client:
        orders = client.topic("orders")
        orders.add(1, id="before")
        until(lambda: worker.closed() == ["before"], "the first closed")
        for _ in range(3):
            client.engine.run(_cut_everybody_off())
        orders.add(2, id="after")
        until(lambda: worker.closed() == ["before", "after"], "the second closed")
    worker.process.terminate()
    assert worker.process.wait() == 0


def _cut_everybody_off() -> Any:
    from tarry.core.requests import Command

    return Command((b"CLIENT", b"KILL", b"TYPE", b"normal"), int)
