"""tarry: delayed jobs on Redis and Valkey. Put a job in now, get it out when it is due.

    client = tarry.Client()                              # or tarry.AsyncClient(), the same with await
    orders = client.topic("orders")
    orders.add({"order": 7}, delay="30m", id="7")        # close it in half an hour
    orders.delete("7")                                   # it was paid

In another process, what was not paid is closed:

    for job in orders.pop_many(10, wait=60):
        with job:                                        # finished at the end, tried again later if it raises
            close(job.body)

``tarry.types`` has what one only writes into annotations, ``tarry.redisson`` what is shared with Java, ``tarry.errors`` all errors.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarry import errors as errors
    from tarry import redisson as redisson
    from tarry import types as types
    from tarry.clients.awaited.client import AsyncClient
    from tarry.clients.awaited.job import AsyncJob
    from tarry.clients.awaited.locks import AsyncGrant, AsyncLock
    from tarry.clients.awaited.schedules import AsyncSchedules
    from tarry.clients.awaited.topic import AsyncTopic
    from tarry.clients.blocking.client import Client
    from tarry.clients.blocking.job import Job
    from tarry.clients.blocking.locks import Grant, Lock
    from tarry.clients.blocking.schedules import Schedules
    from tarry.clients.blocking.topic import Topic
    from tarry.clients.http.awaited import AsyncHTTPClient
    from tarry.clients.http.blocking import HTTPClient
    from tarry.errors import (
        BadInput,
        BodyError,
        JobExists,
        LockLost,
        MissingExtra,
        NoResult,
        NotAcquired,
        NotAllowed,
        ServerUnfit,
        StaleReceipt,
        StepNotKept,
        TarryError,
        TopicFull,
        Unavailable,
        Unconfirmed,
    )
    from tarry.values.version import __version__ as __version__
    from tarry.verbs.jobs.dead_groups import DeadGroups
    from tarry.verbs.jobs.end_values import End, UnknownEnds
    from tarry.verbs.jobs.job_values import Added, JobInfo, JobPage, Reservation
    from tarry.verbs.jobs.options import NewJob
    from tarry.verbs.jobs.schedule_info import Schedule
    from tarry.verbs.jobs.stats import CheckReport, Histogram, KeyStats, MinuteCounts, Stats, TopicSettings
    from tarry.verbs.jobs.topic_migration import Migrated
    from tarry.verbs.locks.lock_values import LockState
    from tarry.worker.registry import Registry
    from tarry.worker.targets import current_job
    from tarry.worker.task_jobs import AsyncTaskJob, TaskJob
    from tarry.worker.tasks import Task
    from tarry.worker.verdicts import BackOff, Bury, Failed, JobDied, Pause, Retry, Snooze
    from tarry.worker.worker import Worker

__all__ = [
    "Added",
    "AsyncClient",
    "AsyncGrant",
    "AsyncHTTPClient",
    "AsyncJob",
    "AsyncLock",
    "AsyncSchedules",
    "AsyncTaskJob",
    "AsyncTopic",
    "BackOff",
    "BadInput",
    "BodyError",
    "Bury",
    "CheckReport",
    "Client",
    "DeadGroups",
    "End",
    "Failed",
    "Grant",
    "HTTPClient",
    "Histogram",
    "Job",
    "JobDied",
    "JobExists",
    "JobInfo",
    "JobPage",
    "KeyStats",
    "Lock",
    "LockLost",
    "LockState",
    "Migrated",
    "MinuteCounts",
    "MissingExtra",
    "NewJob",
    "NoResult",
    "NotAcquired",
    "NotAllowed",
    "Pause",
    "Registry",
    "Reservation",
    "Retry",
    "Schedule",
    "Schedules",
    "ServerUnfit",
    "Snooze",
    "StaleReceipt",
    "Stats",
    "StepNotKept",
    "TarryError",
    "Task",
    "TaskJob",
    "Topic",
    "TopicFull",
    "TopicSettings",
    "Unavailable",
    "Unconfirmed",
    "UnknownEnds",
    "Worker",
    "current_job",
]
_NAMES_BY_MODULE = {
    "clients.awaited.client": "AsyncClient",
    "clients.awaited.job": "AsyncJob",
    "clients.awaited.locks": "AsyncGrant AsyncLock",
    "clients.awaited.schedules": "AsyncSchedules",
    "clients.awaited.topic": "AsyncTopic",
    "clients.blocking.client": "Client",
    "clients.blocking.job": "Job",
    "clients.blocking.locks": "Grant Lock",
    "clients.blocking.schedules": "Schedules",
    "clients.blocking.topic": "Topic",
    "clients.http.awaited": "AsyncHTTPClient",
    "clients.http.blocking": "HTTPClient",
    "errors": "BadInput BodyError JobExists LockLost MissingExtra NoResult NotAcquired NotAllowed ServerUnfit StaleReceipt StepNotKept TarryError TopicFull Unavailable Unconfirmed",
    "values.version": "__version__",
    "verbs.jobs.dead_groups": "DeadGroups",
    "verbs.jobs.end_values": "End UnknownEnds",
    "verbs.jobs.job_values": "Added JobInfo JobPage Reservation",
    "verbs.jobs.options": "NewJob",
    "verbs.jobs.schedule_info": "Schedule",
    "verbs.jobs.stats": "CheckReport Histogram KeyStats MinuteCounts Stats TopicSettings",
    "verbs.jobs.topic_migration": "Migrated",
    "verbs.locks.lock_values": "LockState",
    "worker.registry": "Registry",
    "worker.targets": "current_job",
    "worker.task_jobs": "AsyncTaskJob TaskJob",
    "worker.tasks": "Task",
    "worker.verdicts": "BackOff Bury Failed JobDied Pause Retry Snooze",
    "worker.worker": "Worker",
}
_MODULE_OF = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}
_MODULES = ("errors", "redisson", "types")


if not TYPE_CHECKING:  # a type checker refuses unknown names

    def __getattr__(name: str) -> object:
        """Imports a name when it is first used, so that ``tarry --help`` imports no client."""
        if name in _MODULES:
            return import_module(f"tarry.{name}")
        return import_module("tarry.values").find_name(__name__, _MODULE_OF, name)


def __dir__() -> list[str]:
    return sorted([*_MODULE_OF, *_MODULES, *(name for name in globals() if name.startswith("__"))])
