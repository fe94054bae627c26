"""A consumer that is killed before or after a chosen exchange with the server, for test_key_races.py.

in    1700000000000000 3 before      the moment, which exchange, and on which side of it SIGKILL comes
out   -9                             how it ended; 0: all of its calls were made
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import Any

from tarry import NewJob
from tarry.clients.testing import Clock, TestClient
from tarry.connections.blocking import RequestConnection


def live(topic: Any) -> None:
    """The calls of one life: each verb that touches a key."""
    topic.add("one", key="k")
    topic.add_many([NewJob("two", key="l"), NewJob("three", key="k"), NewJob("four")])
    jobs = topic.pop_many(4)
    for job, verb in zip(jobs, (topic.finish, topic.release, topic.bury), strict=False):
        verb(job)
    topic.touch_many(jobs[3:])
    topic.kick_many([job.id for job in jobs])
    topic.add("five", id="five", key="l", delay=30, if_exists="replace")
    topic.add("six", id="five", key="k", if_exists="update")
    topic.reschedule("five", delay=0)
    topic.purge("reserved", key="l")
    topic.add("seven", id="seven", key="l", if_exists="keep")
    topic.delete("seven")
    job = topic.pop()
    if job is not None:
        topic.release(job, delay=5)
    topic.purge("delayed", key="k")


def die_after(exchanges: int) -> None:
    """As soon as the server has answered so many; before the next one is the same to the server."""
    read, left = RequestConnection.read, exchanges

    def answered(connection: Any) -> Any:
        nonlocal left
        answer, left = read(connection), left - 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    RequestConnection.read = answered  # type: ignore[method-assign]


def main(url: str, namespace: str) -> None:
    logging.disable()
    live(
        TestClient(url, namespace=namespace + "-before").topic("t")
    )  # what is loaded now need not be loaded in each life
    for line in sys.stdin:
        moment, exchanges = line.split()
        consumer = os.fork()
        if not consumer:
            die_after(int(exchanges))
            live(TestClient(url, Clock(int(moment)), namespace=namespace).topic("t"))
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(consumer, 0)[1]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
