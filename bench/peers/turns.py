"""A turn of one peer: its server, its producer, its workers, and what the workers report."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from bench.peers.catalogue import ADAPTERS, ENVIRONMENTS, ROOT, Peer
from bench.peers.processes import PeerFailed, Session
from bench.peers.servers import KINDS, Server

START_S = 40.0
"""So long a program may take to start, on a busy machine."""
RECORD = 45
"""Bytes of a line of the report: number, due, time of the run."""
DAY_S = 86_400.0
NEVER = 1 << 60


class Run(NamedTuple):
    """A run of a job, as its worker reported it."""

    number: int
    due: float
    at: float

    @property
    def lateness_ms(self) -> float:
        return (self.at - self.due) * 1000


class Added:
    """The answer of a producer: how many jobs it added, in which time."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.jobs: int = answer["jobs"]
        self.wall_s: float = answer["wall_s"]
        self.cpu_s: float = answer["cpu_s"]

    @property
    def per_second(self) -> float:
        return self.jobs / self.wall_s if self.wall_s else 0.0


class Turn:
    """A context manager: everything that it started has ended when it is left."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self._stack = ExitStack()
        self._number = 0

    def __enter__(self) -> Turn:
        with ExitStack() as stack:
            self.folder = Path(tempfile.mkdtemp(prefix="peers-", dir="/tmp"))
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self.server: Server = KINDS[self.peer.server](self.folder)
            stack.callback(self.server.session.close)
            self._report = self.folder / "report"
            self._report.touch(mode=0o600)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, role: str, *given: object) -> Session:
        self._number += 1
        session = Session(
            self.peer.words(role, self.server.url, *given),
            self.folder / f"{role}-{self._number}.log",
            {
                "PYTHONPATH": f"{ADAPTERS}:{ROOT}" if self.peer.own else str(ADAPTERS),
                "PYTHONWARNINGS": "ignore",
                "PEERS_URL": self.server.url,
                "PEERS_REPORT": str(self._report),
                "PEERS_ENVIRONMENT": str(ENVIRONMENTS / self.peer.name),
            },
            talks=role == "produce",
        )
        self._stack.callback(session.close)
        return session

    def import_s(self) -> float:
        """How long an interpreter takes that only imports the peer."""
        words = self.peer.import_words
        began = time.perf_counter()
        with Session(words, self.folder / "import.log", {}) as session:
            if session.wait(START_S):
                raise PeerFailed(f"cannot be imported: {session.last_words()}")
            return time.perf_counter() - began

    def producer(self) -> Producer:
        producer = Producer(self.start("produce"))
        producer.answer(START_S)
        return producer

    def worker(self, slots: int = 0) -> Session:
        return self.start("work", slots, self._report)

    def ready_worker(self, producer: Producer) -> Session:
        """A worker that has run a first job."""
        worker = self.worker()
        before = self.count()
        producer.add(1, due_in=0)
        self.wait_for(before + 1, START_S, worker)
        return worker

    def pause(self, seconds: float) -> None:
        """Waits, if the server lives."""
        self.wait_for(NEVER, seconds)

    def count(self) -> int:
        return self._report.stat().st_size // RECORD

    def runs(self) -> list[Run]:
        lines = self._report.read_text().splitlines()
        return [Run(int(number), float(due), float(at)) for number, due, at in map(str.split, lines)]

    def wait_for(self, count: int, within_s: float, worker: Session | None = None) -> bool:
        """Waits until so many runs are reported; if a worker is given, raises when they do not come."""
        by = time.monotonic() + within_s
        while self.count() < count:
            if not self.server.session.alive:
                raise PeerFailed(f"the server ended: {self.server.session.last_words()}")
            if worker is not None and not worker.alive:
                raise PeerFailed(f"the worker ended: {worker.last_words()}")
            if time.monotonic() > by:
                if worker is not None:
                    raise PeerFailed(f"the worker did not run a job within {within_s:.0f} s: {worker.last_words()}")
                return False
            time.sleep(0.01)
        return True


class Producer:
    """The program that adds jobs, and answers when it has."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._next = 0

    def answer(self, within_s: float) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.session.hear(within_s))
        if "error" in found:
            raise PeerFailed(found["error"][:200])
        return found

    def skip(self, count: int) -> None:
        """Leaves out so many numbers: another producer has them."""
        self._next += count

    def begin(self, do: str, count: int, within_s: float, **given: object) -> int:
        """Sends a command, and answers the number of its first job; ``answer`` has the rest."""
        first = self._next
        self._next += count
        self.session.tell(json.dumps({"do": do, "first": first, "count": count, "within_s": within_s, **given}))
        return first

    def perform(self, do: str, count: int, within_s: float = 60, **given: object) -> Added:
        self.begin(do, count, within_s, **given)
        return Added(self.answer(within_s + START_S))

    def add(self, count: int, due_in: float = DAY_S, within_s: float = 60, word: str = "done") -> Added:
        return self.perform("add", count, within_s, due_in=due_in, word=word)

    def fill(self, count: int, within_s: float) -> Added:
        """Adds jobs for tomorrow, by the fastest call that there is."""
        added = self.perform("many", count, within_s, due_in=DAY_S)
        return added if added.jobs else self.perform("add", count, within_s, due_in=DAY_S)
