"""What every row is measured with: a private server, turns, and readings with their spread.

    tarry ▶ yardstick ▶ tarry ▶ yardstick ▶ …      one warm-up turn, then as many as --repeat says
      └─ Reading: median, spread ─┘

Rules: both sides take turns within one run, so that a busy machine hurts them alike; a ratio is one of medians; the
server is started for the row, with the settings of the embedded server, and stopped by its pid; nobody else's is touched.
"""

from __future__ import annotations

import gc
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from tarry.links.embedded import wire
from tarry.links.embedded.launch import Running, launch
from tarry.links.embedded.share import OPTIONS

Effort = Literal["full", "quick", "tiny"]
DAY_S = 86400

BODY = {"text": "x" * 189}
"""A body that is 200 bytes of JSON; the yardsticks are given the bytes ready made, tarry encodes it each time."""
RAW_BODY = msgspec.json.encode(BODY)
assert len(RAW_BODY) == 200

BARE_ADD = """
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
return 1
"""
"""The least that an add can be: the yardstick of the rows that add one by one."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One side's turn: seconds on the clock, and of processor time on both ends, for so many jobs."""

    jobs: int
    wall_s: float
    client_cpu_s: float
    server_cpu_s: float

    @property
    def per_second(self) -> float:
        return self.jobs / self.wall_s


@dataclass(frozen=True, slots=True)
class Reading:
    """The same thing measured several times."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        """From the smallest to the largest, as a share of the median."""
        return (max(self.values) - min(self.values)) / self.median if self.median else 0.0


@dataclass(frozen=True, slots=True)
class Reach:
    """What a row is to reach: at least or at most so much, of the ratio to the yardstick or of the value itself."""

    sign: Literal["≥", "≤"]
    limit: float
    of: Literal["ratio", "value"] = "value"


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table."""

    row: str
    measure: str
    unit: str
    tarry: Reading
    reach: Reach | None = None
    yardstick: Reading | None = None
    details: dict[str, float | str] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        return self.tarry.median / self.yardstick.median if self.yardstick else None

    @property
    def met(self) -> bool | None:
        """Whether the reach was met; ``None`` where there is none."""
        if self.reach is None:
            return None
        value = self.ratio if self.reach.of == "ratio" else self.tarry.median
        if value is None:
            return None
        return value >= self.reach.limit if self.reach.sign == "≥" else value <= self.reach.limit


class Bench:
    """What a row is given: its server, its sizes, its turns."""

    def __init__(self, server: Running, effort: Effort, repeat: int) -> None:
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
        with wire.Line.to(self.socket) as line:
            return wire.info(line, section)

    def calls(self) -> dict[str, tuple[int, float]]:
        """Calls and microseconds of each command since the server started, those inside of scripts included."""
        found: dict[str, tuple[int, float]] = {}
        for name, text in self.info("commandstats").items():
            values = dict(part.split("=") for part in text.split(","))
            found[name.removeprefix("cmdstat_")] = (int(values["calls"]), float(values["usec"]))
        return found

    def settle(self) -> None:
        """Waits until the server has written what it rewrites, and has had time to clean up."""
        while True:
            about = self.info("persistence")
            if about.get("aof_rewrite_in_progress") == about.get("aof_rewrite_scheduled") == "0":
                break
            time.sleep(0.05)
        time.sleep(0.1 if self.effort == "tiny" else 1.2)

    @contextmanager
    def turn(self, jobs: int) -> Iterator[Callable[[], Turn]]:
        """Measures its block; call what it gives, afterwards, for the turn."""
        gc.collect()
        ended: list[Turn] = []
        server_cpu, client_cpu, began = self.server_cpu(), time.process_time(), time.perf_counter()
        yield lambda: ended[0]
        wall, client = time.perf_counter() - began, time.process_time() - client_cpu
        ended.append(Turn(jobs, wall, client, self.server_cpu() - server_cpu))

    def server_cpu(self) -> float:
        about = self.info("cpu")
        return float(about["used_cpu_user"]) + float(about["used_cpu_sys"])

    def turns(self, *sides: Callable[[], Turn]) -> list[list[Turn]]:
        """All sides in turns, on an emptied server each; the first round warms up and does not count."""
        taken: list[list[Turn]] = [[] for _ in sides]
        for number in range(self.repeat + 1):
            for side, record in zip(sides, taken, strict=True):
                self.flush()
                turn = side()
                if number:
                    record.append(turn)
        return taken


def rates(turns: list[Turn]) -> Reading:
    return Reading(tuple(turn.per_second for turn in turns))


def costs(turns: list[Turn], whose: str) -> dict[str, float | str]:
    """Microseconds of processor time a job, on both ends."""
    return {
        f"{whose} client µs": statistics.median(turn.client_cpu_s / turn.jobs * 1e6 for turn in turns),
        f"{whose} server µs": statistics.median(turn.server_cpu_s / turn.jobs * 1e6 for turn in turns),
    }


@contextmanager
def private_server() -> Iterator[Running]:
    """A server of our own, with the embedded server's settings, in a folder with a short name."""
    folder = Path(tempfile.mkdtemp(prefix="tarry-", dir="/tmp"))
    try:
        running = launch(folder, socket=folder / "s", options=OPTIONS)
        try:
            yield running
        finally:
            running.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
