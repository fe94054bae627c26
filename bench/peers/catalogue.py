"""The peers: the version of each, how it is set up, and what it does not do."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

ADAPTERS = Path(__file__).parent / "adapters"
ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / "build" / "peers"


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

    @property
    def import_words(self) -> list[str]:
        if self.node:
            return ["node", "--eval", f"require('{ENVIRONMENTS / self.name / 'node_modules' / self.imports}')"]
        return [*self.interpreter, "-c", self.imports]

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
            setup="a socket and hiredis, or redis-py where jobs are added in bulk; one consumer that takes 1,000 at once and knows the next due time",
            lacks="acknowledge, survive a crash or share the work, so it is no job queue",
            own=True,
        ),
        Peer(
            "tarry",
            "tarry",
            imports="import tarry",
            setup="one worker process on uvloop with 100 jobs at once; the blocking client adds jobs, and the 64 tasks use the awaited client",
            lacks="chain or group jobs",
            own=True,
        ),
        Peer(
            "beanstalkd",
            "beanstalkd",
            ("greenstalk==2.1.1",),
            "import greenstalk",
            "Debian's package with a log (`-b`) and greenstalk; a worker reserves, runs, deletes one at a time",
            "add many in a call, replicate, or keep fractions of a second in a delay. So a job is up to 1 s late. The jobs of the burst wait "
            "in a paused tube, because delays in whole seconds would not end at one moment",
            "beanstalkd",
        ),
        Peer(
            "rq",
            "RQ",
            ("rq==3.0.0", "redis==8.1.0", "hiredis==3.5.0"),
            "import rq",
            "one worker with its scheduler; as by default, a process is forked for each job; the job's function is imported before the fork",
            "schedule many in a call, or run a killed worker's job again unless it has retries. Its scheduler looks every second and "
            "rounds due times down, so a job may run early or late",
        ),
        Peer(
            "celery",
            "Celery",
            ("celery[redis]==5.7.0", "kombu==5.7.0", "redis==8.1.0", "hiredis==3.5.0"),
            "import celery",
            "Redis as the broker; the prefork pool, with a process for each core; `acks_late` and `reject_on_worker_lost`; no results",
            "add many in a call, keep waiting tasks out of a worker's memory, or run a killed worker's tasks before the visibility "
            "timeout, an hour by default",
        ),
        Peer(
            "dramatiq",
            "Dramatiq",
            ("dramatiq[redis]==2.2.1", "redis==8.1.0", "hiredis==3.5.0"),
            "import dramatiq",
            "Redis as the broker; its command with the defaults: a process for each core, with 8 threads each",
            "add many in a call, delay for more than 7 days, or keep waiting messages out of a worker's memory",
        ),
        Peer(
            "huey",
            "Huey",
            ("huey==3.5.4", "redis==8.1.0", "hiredis==3.5.0"),
            "import huey",
            "its consumer with four worker processes, as in its documentation; no results",
            "add many in a call, look for due jobs more often than every second, or acknowledge: what a worker took is lost when it is "
            "killed",
        ),
        Peer(
            "arq",
            "arq",
            ("arq==0.28.0", "redis==5.3.1", "hiredis==3.5.0"),
            "import arq",
            "one worker process with 100 jobs at once; no results",
            "add many in a call, or wait for the next due time: it polls every 0.5 s",
        ),
        Peer(
            "saq",
            "saq",
            (
                "saq[redis,hiredis]==0.26.4",
                "typing-extensions==4.16.0",
                "redis==7.4.1",
                "hiredis==3.5.0",
                "uvloop==0.23.0",
            ),
            "import saq",
            "one worker process on uvloop with 100 jobs at once, three tries; no results",
            "add many in a call without waiting for their results, or keep fractions of a second: it schedules every second",
        ),
        Peer(
            "streaq",
            "streaQ",
            ("streaq==7.2.0", "coredis==6.9.0", "uvloop==0.23.0"),
            "import streaq",
            "one worker process on uvloop with 100 jobs at once; no results",
            "wait for the next due time: it looks every 0.5 s",
        ),
        Peer(
            "taskiq",
            "taskiq",
            ("taskiq==0.13.0", "taskiq-redis==1.2.4", "redis==8.1.0", "hiredis==3.5.0", "uvloop==0.23.0"),
            "import taskiq, taskiq_redis",
            "a stream as the broker, a list as the source of schedules; two worker processes and a scheduler that looks every second",
            "add many in a call, or guard against a second scheduler or the loss of the only one",
        ),
        Peer(
            "bullmq",
            "BullMQ",
            ("bullmq@6.7.0", "ioredis@6.0.0"),
            "bullmq",
            "one worker in node with 100 jobs at once; finished jobs are removed",
            "share a language with the others here, so its rows measure Node, too",
            node=True,
        ),
        Peer(
            "redisson",
            "Redisson's scripts",
            imports="import redis",
            setup="`RDelayedQueue`, written in Python as articles describe it: its two scripts, its transfer task, a blocking take",
            lacks="add many in a call, take an element from a list without a search (`LREM`), or acknowledge: what a worker took is "
            "lost when it is killed",
            own=True,
        ),
        Peer(
            "locked",
            "a zset under a lock",
            imports="import redis",
            setup="`push` and `poll` as in an article: at most 100 jobs in a poll, and 0.05 s between two polls that find nothing",
            lacks="acknowledge: what a worker took is lost when it is killed, and the lock that it held stays for 33 minutes",
            own=True,
        ),
        Peer(
            "buckets",
            "zsets polled",
            imports="import redis",
            setup="a job pool as in an article: four buckets, each with a timer, and a ready list; one command after the other; "
            "timers and consumers look every 0.1 s",
            lacks="add many in a call, keep the order, or do several steps as a whole: a crash between two steps may lose a job or double it",
            own=True,
        ),
    )
}
