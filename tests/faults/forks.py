"""Forks while a thread waits, and lets both processes wait: run by test_waiting.py."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings

import tarry
from tarry.connections import connection_limit


def main(url: str, name: str, most: str) -> None:
    logging.disable()
    warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
    connection_limit.BLOCKED_LIMIT.maximum = connection_limit.UNLIMITED.maximum = int(most)
    client = tarry.Client(url)
    topic = client.topic(name)
    topic.stats()
    said: list[str] = []

    def wait() -> None:
        job = topic.pop(wait=20)
        said.append("parent:job" if job else "parent:nothing")
        if job:
            topic.finish(job)

    thread = threading.Thread(target=wait)
    thread.start()
    while not any(waiter._blocked_until for _, waiter in client.engine._waiters.items()):
        pass
    child = os.fork()
    if child == 0:
        for _ in range(3):
            tarry.Client(url).topic(name).add("tea")
        for _ in range(2):
            job = topic.pop(wait=20)
            print("child:job" if job else "child:nothing", flush=True)
            if job:
                topic.finish(job)
        client.close()
        print("child:closed", flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    thread.join()
    print(*said, flush=True)
    client.close()


main(*sys.argv[1:])
