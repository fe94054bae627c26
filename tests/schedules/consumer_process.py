"""A process that waits for a topic with a schedule and holds its jobs until it is killed. For the tests."""

from __future__ import annotations

import sys

import tarry


def main() -> None:
    url, namespace = sys.argv[1:3]
    with tarry.Client(url, namespace=namespace) as client:
        topic = client.topic("t")
        print("ready", flush=True)
        while True:
            for job in topic.pop_many(10, wait=None, ttr="1h"):
                topic.bury(job)


if __name__ == "__main__":
    main()
