"""beanstalkd with greenstalk: its delays are whole seconds; a worker reserves one job, runs it, deletes it."""

from __future__ import annotations

import math
import time

import greenstalk
import side

TUBE = "orders"
TTR_S = 60


def connect(url: str) -> greenstalk.Client:
    host, _, port = url.rpartition(":")
    return greenstalk.Client((host, int(port)), use=TUBE, watch=TUBE)


class Beanstalkd(side.Adder):
    def __init__(self, url: str) -> None:
        self._client = connect(url)

    def add(self, body: str, due: float) -> None:
        self._client.put(body, delay=max(0, math.ceil(due - time.time())), ttr=TTR_S)

    def add_burst(self, bodies: list[str], due: float) -> None:
        """Whole seconds would spread them over one: puts them into a tube that is paused until they are due."""
        left = due - time.time()
        time.sleep(left % 1)
        self._client.pause_tube(TUBE, round(due - time.time()))
        for body in bodies:
            self._client.put(body, ttr=TTR_S)


def work(url: str, _slots: int) -> None:
    client = connect(url)
    while True:
        job = client.reserve()
        assert isinstance(job.body, str)
        side.ran(job.body)
        client.delete(job)


if __name__ == "__main__":
    side.main(Beanstalkd, work)
