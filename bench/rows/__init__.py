"""The rows, in the order of the table. Each is a function from a ``Bench`` to lines of the table."""

from collections.abc import Callable

from bench.harness import Bench
from bench.results import Result
from bench.rows.add import add
from bench.rows.add_many import add_many
from bench.rows.add_script import add_script
from bench.rows.add_tasks import add_tasks
from bench.rows.beanstalk import beanstalk
from bench.rows.burst import burst
from bench.rows.cluster import cluster
from bench.rows.dashboard import dashboard
from bench.rows.doctor import doctor
from bench.rows.firing import firing
from bench.rows.hostile import hostile
from bench.rows.idle import idle
from bench.rows.keys import keys
from bench.rows.lateness import lateness
from bench.rows.limited import limited
from bench.rows.locks import locks
from bench.rows.map_cache import map_cache
from bench.rows.memory import memory
from bench.rows.noise import noise
from bench.rows.pop import pop
from bench.rows.queue_drain import queue_drain
from bench.rows.queue_movers import queue_movers
from bench.rows.scheduled import scheduled
from bench.rows.service import service
from bench.rows.tracking import tracking
from bench.rows.worker import worker

Row = Callable[[Bench], list[Result]]

ROWS: dict[str, Row] = {
    "noise": noise,
    "add": add,
    "add_script": add_script,
    "add_many": add_many,
    "add_tasks": add_tasks,
    "burst": burst,
    "lateness": lateness,
    "idle": idle,
    "scheduled": scheduled,
    "firing": firing,
    "memory": memory,
    "pop": pop,
    "limited": limited,
    "keys": keys,
    "worker": worker,
    "queue_drain": queue_drain,
    "queue_movers": queue_movers,
    "map_cache": map_cache,
    "locks": locks,
    "cluster": cluster,
    "hearing": tracking,
    "dashboard": dashboard,
    "doctor": doctor,
    "service": service,
    "beanstalk": beanstalk,
    "hostile": hostile,
}
