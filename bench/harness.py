"""The measurements of all rows: a private server, alternating turns, and readings with their spread.

    tarry ▶ yardstick ▶ tarry ▶ yardstick ▶ …      one warm-up turn, then as many as --repeat says
      └─ Reading: median, spread ─┘

Rules: both sides take turns within one run, so that a busy machine affects them alike. A ratio is one of medians. The
server is started for the row, with the embedded server's settings, and stopped by its pid; no other server is touched.
"""

from __future__ import annotations

import gc
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from bench.results import Turn
from tarry.connections.embedded import plain_client
from tarry.connections.embedded.server_process import ServerProcess, launch
from tarry.connections.embedded.shared_server import DURABLE_OPTIONS
from tarry.connections.fitness import parse_info

Effort = Literal["full", "quick", "tiny"]
DAY_S = 86400

BODY = {"text": "x" * 189}
"""A body of 200 bytes of JSON; tarry encodes it each time, the yardsticks get the encoded bytes."""
RAW_BODY = msgspec.json.encode(BODY)
assert len(RAW_BODY) == 200

BARE_ADD = """
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
return 1
"""
"""The minimum of an add: the yardstick of the rows that add one by one."""


class Bench:
    """Given to each row: its server, its sizes, its turns."""

    def __init__(self, server: ServerProcess, effort: Effort, repeat: int) -> None:
        self.server = server
        self.url = server.url
        self.effort = effort
        self.repeat = repeat

    @property
    def socket(self) -> str:
        assert isinstance(self.server.address, str)
        return self.server.address

    def size(self, full: int, quick: int, tiny: int) -> int:
        return {"full": full, "quick": quick, "tiny": tiny}[self.effort]

    def flush(self) -> None:
        self.server.ask("FLUSHALL", "SYNC")

    def info(self, section: str) -> dict[str, str]:
        with plain_client.RespConnection.connect(self.socket) as line:
            return parse_info(line.call("INFO", section))

    def calls(self) -> dict[str, tuple[int, float]]:
        """Calls and microseconds of each command since the server started, those inside of scripts included."""
        found: dict[str, tuple[int, float]] = {}
        for name, text in self.info("commandstats").items():
            values = dict(part.split("=") for part in text.split(","))
            found[name.removeprefix("cmdstat_")] = (int(values["calls"]), float(values["usec"]))
        return found

    def settle(self) -> None:
        """Waits until the server has finished rewriting its file and cleaning up."""
        while True:
            about = self.info("persistence")
            if about.get("aof_rewrite_in_progress") == about.get("aof_rewrite_scheduled") == "0":
                break
            time.sleep(0.05)
        time.sleep(0.1 if self.effort == "tiny" else 1.2)

    def network(self) -> tuple[int, int]:
        """Bytes that the server has received and sent since it started."""
        about = self.info("stats")
        return int(about["total_net_input_bytes"]), int(about["total_net_output_bytes"])

    @contextmanager
    def turn(self, jobs: int) -> Iterator[Callable[[], Turn]]:
        """Measures its block; afterwards, call the object that it yields for the turn."""
        gc.collect()
        ended: list[Turn] = []
        server_cpu, client_cpu, began = self.server_cpu(), time.process_time(), time.perf_counter()
        yield lambda: ended[0]
        wall, client = time.perf_counter() - began, time.process_time() - client_cpu
        ended.append(Turn(jobs, wall, client, self.server_cpu() - server_cpu))

    def server_cpu(self) -> float:
        about = self.info("cpu")
        return float(about["used_cpu_user"]) + float(about["used_cpu_sys"])

    def turns(self, *sides: Callable[[], Turn], times: int = 1) -> list[list[Turn]]:
        """Runs all sides in turns, each on an empty server; the first round warms up and does not count.

        ``times`` multiplies the number of turns: a busy machine distorts many short, closely mixed turns least.
        """
        taken: list[list[Turn]] = [[] for _ in sides]
        for number in range(self.repeat * times + 1):
            for side, record in zip(sides, taken, strict=True):
                self.flush()
                turn = side()
                if number:
                    record.append(turn)
        return taken


@contextmanager
def private_server() -> Iterator[ServerProcess]:
    """A private server with the embedded server's settings, in a folder with a short name."""
    folder = Path(tempfile.mkdtemp(prefix="tarry-", dir="/tmp"))
    try:
        running = launch(folder, socket=folder / "s", options=DURABLE_OPTIONS)
        try:
            yield running
        finally:
            running.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
