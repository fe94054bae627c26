"""The peers: the version of each, how it is set up, and what it does not do."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

ADAPTERS = Path(__file__).parent / "adapters"
ENVIRONMENTS = Path("build/peers").absolute()


@dataclass(frozen=True, slots=True)
class Peer:
    """A job queue that is measured; ``name`` is also the name of its environment and of its adapter."""

    name: str
    title: str
    packages: tuple[str, ...] = ()
    """What pip or npm installs, with versions. None: it runs in tarry's own environment."""
    imports: str = ""
    """What a program imports to use it."""
    setup: str = ""
    """How it is set up, with the peer's documentation as the guide."""
    lacks: str = ""
    """What it does not do."""
    server: str = "valkey"
    own: bool = False
    """It runs in tarry's own environment."""
    node: bool = False

    @property
    def adapter(self) -> Path:
        return ADAPTERS / f"with_{self.name}.{'mjs' if self.node else 'py'}"

    @property
    def interpreter(self) -> list[str]:
        if self.node:
            return ["node"]
        return [sys.executable if self.own else str(ENVIRONMENTS / self.name / "bin" / "python")]

    def words(self, *given: object) -> list[str]:
        """The command of its adapter."""
        return [*self.interpreter, str(self.adapter), *map(str, given)]


PEERS = {
    peer.name: peer
    for peer in (
        Peer(
            "raw",
            "bare commands",
            imports="import redis",
            setup="a socket and hiredis, in bulk redis-py; one consumer that takes 1,000 at once and knows the next due time",
            lacks="acknowledge, survive a crash, share the work; it is what the server and a bare client can do, and no queue",
            own=True,
        ),
        Peer(
            "tarry",
            "tarry",
            imports="import tarry",
            setup="one worker process on uvloop, 100 jobs in hand; the blocking client adds, 64 tasks use the awaited one",
            lacks="chain or group jobs, rank them by priority",
            own=True,
        ),
        Peer(
            "beanstalkd",
            "beanstalkd",
            ("greenstalk==2.1.1",),
            "import greenstalk",
            "Debian's package with a log (`-b`) and greenstalk; a worker reserves, runs, deletes one at a time",
            "fractions of a second in a delay, so a job is up to 1 s late (the burst waits in a paused tube, because whole "
            "seconds would spread it); add many in a call; replicate",
            "beanstalkd",
        ),
        Peer(
            "rq",
            "RQ",
            ("rq==3.0.0", "redis==8.1.0", "hiredis==3.5.0"),
            "import rq",
            "one worker with its scheduler; a process is forked for each job, as by default; the function is imported before",
            "run a job within its second, since its scheduler looks every second and rounds due times down; schedule many in a "
            "call; run a killed worker's job again, unless it has retries",
        ),
        Peer(
            "celery",
            "Celery",
            ("celery[redis]==5.7.0", "kombu==5.7.0", "redis==8.1.0", "hiredis==3.5.0"),
            "import celery",
            "Redis as the broker; prefork, a process a core; `acks_late` and `reject_on_worker_lost`, no results",
            "keep waiting tasks out of a worker's memory; add many in a call; run a killed worker's tasks before the visibility "
            "timeout, an hour by default",
        ),
    )
}
