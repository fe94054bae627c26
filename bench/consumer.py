"""Consumers of a shared queue: ``python -m bench.consumer URL QUEUE PROCESSES``; each is a process with a client of its own.

They take elements until stdin closes; then it prints as JSON which element was received when.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

from tarry.clients.blocking.client import Client  # before the fork, so that the processes share it


def consume(url: str, queue: str, output: int) -> None:
    """One process: until its stdin closes, which it shares with its parent."""
    seen: list[tuple[str, float]] = []

    def take() -> None:
        with Client(url) as client:
            place = client.blocking_queue(queue, codec="string")
            while True:
                seen.append((place.take(), time.time()))

    threading.Thread(target=take, daemon=True).start()
    sys.stdin.read()
    with os.fdopen(output, "w") as out:
        json.dump(seen, out)
    os._exit(0)


def main() -> None:
    url, queue, processes = sys.argv[1], sys.argv[2], int(sys.argv[3])
    ears: list[int] = []
    for _ in range(processes):
        ear, mouth = os.pipe()
        if os.fork() == 0:
            consume(url, queue, mouth)
        os.close(mouth)
        ears.append(ear)
    seen = [entry for ear in ears for entry in json.loads(os.fdopen(ear).read())]
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
