"""tarry: delayed jobs on Redis and Valkey. Put a job in now, get it out when it is due.

    client = tarry.Client()                              # or tarry.AsyncClient(), the same with await
    orders = client.topic("orders")
    orders.add({"order": 7}, delay="30m", id="7")        # close it in half an hour
    orders.delete("7")                                   # it was paid

In another process, what was not paid is closed:

    for job in orders.pop_many(10, wait=60):
        with job:                                        # finished at the end, tried again later if it raises
            close(job.body)
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarry import errors as errors
    from tarry.clients.awaited.client import AsyncClient as AsyncClient
    from tarry.clients.awaited.guarded_queue import AsyncGuard as AsyncGuard
    from tarry.clients.awaited.guarded_queue import AsyncGuardedQueue as AsyncGuardedQueue
    from tarry.clients.awaited.job import AsyncJob as AsyncJob
    from tarry.clients.awaited.locks import AsyncGrant as AsyncGrant
    from tarry.clients.awaited.locks import AsyncLock as AsyncLock
    from tarry.clients.awaited.locks import AsyncLockLostEvent as AsyncLockLostEvent
    from tarry.clients.awaited.schedules import AsyncSchedules as AsyncSchedules
    from tarry.clients.awaited.topic import AsyncTopic as AsyncTopic
    from tarry.clients.blocking.client import Client as Client
    from tarry.clients.blocking.guarded_queue import Guard as Guard
    from tarry.clients.blocking.guarded_queue import GuardedQueue as GuardedQueue
    from tarry.clients.blocking.job import Job as Job
    from tarry.clients.blocking.locks import Grant as Grant
    from tarry.clients.blocking.locks import Lock as Lock
    from tarry.clients.blocking.locks import LockLostEvent as LockLostEvent
    from tarry.clients.blocking.schedules import Schedules as Schedules
    from tarry.clients.blocking.topic import Topic as Topic
    from tarry.clients.http.awaited import AsyncHTTPClient as AsyncHTTPClient
    from tarry.clients.http.blocking import HTTPClient as HTTPClient
    from tarry.clients.migration import MovedOver as MovedOver
    from tarry.clients.redisson.awaited.blocking_queue import AsyncBlockingQueue as AsyncBlockingQueue
    from tarry.clients.redisson.awaited.blocking_queue import AsyncSubscription as AsyncSubscription
    from tarry.clients.redisson.awaited.delayed_queue import AsyncDelayedQueue as AsyncDelayedQueue
    from tarry.clients.redisson.awaited.map_listener import AsyncMapListener as AsyncMapListener
    from tarry.clients.redisson.awaited.mapcache import AsyncMapCache as AsyncMapCache
    from tarry.clients.redisson.blocking.blocking_queue import BlockingQueue as BlockingQueue
    from tarry.clients.redisson.blocking.blocking_queue import Subscription as Subscription
    from tarry.clients.redisson.blocking.delayed_queue import DelayedQueue as DelayedQueue
    from tarry.clients.redisson.blocking.map_listener import MapListener as MapListener
    from tarry.clients.redisson.blocking.mapcache import MapCache as MapCache
    from tarry.errors import BadInput as BadInput
    from tarry.errors import BodyError as BodyError
    from tarry.errors import FallenBehind as FallenBehind
    from tarry.errors import JobExists as JobExists
    from tarry.errors import LockLost as LockLost
    from tarry.errors import MissingExtra as MissingExtra
    from tarry.errors import NoResult as NoResult
    from tarry.errors import NotAcquired as NotAcquired
    from tarry.errors import NotAllowed as NotAllowed
    from tarry.errors import ServerUnfit as ServerUnfit
    from tarry.errors import StaleReceipt as StaleReceipt
    from tarry.errors import TarryError as TarryError
    from tarry.errors import Unavailable as Unavailable
    from tarry.errors import Unconfirmed as Unconfirmed
    from tarry.errors import UnknownTopic as UnknownTopic
    from tarry.values.durations import Duration as Duration
    from tarry.values.rates import Rate as Rate
    from tarry.values.version import __version__ as __version__
    from tarry.verbs.codecs import Codec as Codec
    from tarry.verbs.guarded.guarded_context import GuardedItem as GuardedItem
    from tarry.verbs.guarded.guarded_context import GuardedStats as GuardedStats
    from tarry.verbs.jobs.dead_groups import DeadGroup as DeadGroup
    from tarry.verbs.jobs.dead_groups import DeadGroups as DeadGroups
    from tarry.verbs.jobs.job_fields import FailedAttempt as FailedAttempt
    from tarry.verbs.jobs.job_values import Added as Added
    from tarry.verbs.jobs.job_values import BaseJob as BaseJob
    from tarry.verbs.jobs.job_values import HasReceipt as HasReceipt
    from tarry.verbs.jobs.job_values import JobInfo as JobInfo
    from tarry.verbs.jobs.job_values import JobPage as JobPage
    from tarry.verbs.jobs.job_values import Reservation as Reservation
    from tarry.verbs.jobs.job_values import State as State
    from tarry.verbs.jobs.job_values import StateFilter as StateFilter
    from tarry.verbs.jobs.options import IfExists as IfExists
    from tarry.verbs.jobs.options import NewJob as NewJob
    from tarry.verbs.jobs.schedule_info import Schedule as Schedule
    from tarry.verbs.jobs.stats import CheckReport as CheckReport
    from tarry.verbs.jobs.stats import Histogram as Histogram
    from tarry.verbs.jobs.stats import Lateness as Lateness
    from tarry.verbs.jobs.stats import LimitStatus as LimitStatus
    from tarry.verbs.jobs.stats import MinuteCounts as MinuteCounts
    from tarry.verbs.jobs.stats import Stats as Stats
    from tarry.verbs.jobs.stats import TopicSettings as TopicSettings
    from tarry.verbs.jobs.topic_migration import Migrated as Migrated
    from tarry.verbs.locks.lock_values import LockState as LockState
    from tarry.verbs.redisson.delayed.stats import QueueStats as QueueStats
    from tarry.verbs.redisson.delayed.transfer import PoisonElement as PoisonElement
    from tarry.verbs.redisson.mapcache.eviction import AdaptivePolicy as AdaptivePolicy
    from tarry.verbs.redisson.mapcache.map_values import MapEvent as MapEvent
    from tarry.verbs.redisson.mapcache.map_values import MapStats as MapStats
    from tarry.verbs.workers import WorkerInfo as WorkerInfo
    from tarry.worker.registry import Registry as Registry
    from tarry.worker.targets import current_job as current_job
    from tarry.worker.task_jobs import AsyncTaskJob as AsyncTaskJob
    from tarry.worker.task_jobs import TaskJob as TaskJob
    from tarry.worker.tasks import Task as Task
    from tarry.worker.verdicts import BackOff as BackOff
    from tarry.worker.verdicts import Bury as Bury
    from tarry.worker.verdicts import JobDied as JobDied
    from tarry.worker.verdicts import Retry as Retry
    from tarry.worker.verdicts import Snooze as Snooze
    from tarry.worker.worker import Worker as Worker


_NAMES_BY_MODULE = {
    "values.version": "__version__",
    "clients.awaited.client": "AsyncClient",
    "clients.awaited.guarded_queue": "AsyncGuard AsyncGuardedQueue",
    "clients.awaited.locks": "AsyncGrant AsyncLock AsyncLockLostEvent",
    "clients.redisson.awaited.blocking_queue": "AsyncBlockingQueue AsyncSubscription",
    "clients.redisson.awaited.delayed_queue": "AsyncDelayedQueue",
    "clients.redisson.blocking.blocking_queue": "BlockingQueue Subscription",
    "clients.redisson.blocking.delayed_queue": "DelayedQueue",
    "clients.awaited.job": "AsyncJob",
    "clients.awaited.schedules": "AsyncSchedules",
    "clients.awaited.topic": "AsyncTopic",
    "clients.http.awaited": "AsyncHTTPClient",
    "clients.http.blocking": "HTTPClient",
    "clients.migration": "MovedOver",
    "verbs.jobs.topic_migration": "Migrated",
    "clients.blocking.client": "Client",
    "clients.blocking.guarded_queue": "Guard GuardedQueue",
    "clients.blocking.locks": "Grant Lock LockLostEvent",
    "clients.blocking.job": "Job",
    "verbs.jobs.schedule_info": "Schedule",
    "clients.blocking.schedules": "Schedules",
    "clients.blocking.topic": "Topic",
    "errors": "BadInput BodyError FallenBehind JobExists LockLost MissingExtra NoResult NotAcquired NotAllowed ServerUnfit StaleReceipt TarryError "
    "Unavailable Unconfirmed UnknownTopic",
    "worker.registry": "Registry",
    "worker.targets": "current_job",
    "worker.task_jobs": "AsyncTaskJob TaskJob",
    "worker.tasks": "Task",
    "worker.verdicts": "BackOff Bury JobDied Retry Snooze",
    "worker.worker": "Worker",
    "verbs.codecs": "Codec",
    "verbs.redisson.delayed.transfer": "PoisonElement",
    "verbs.redisson.delayed.stats": "QueueStats",
    "verbs.jobs.stats": "CheckReport TopicSettings Histogram Lateness LimitStatus MinuteCounts Stats",
    "verbs.jobs.job_values": "Added BaseJob HasReceipt JobInfo JobPage Reservation State StateFilter",
    "verbs.jobs.options": "IfExists NewJob",
    "verbs.jobs.job_fields": "FailedAttempt",
    "verbs.jobs.dead_groups": "DeadGroup DeadGroups",
    "verbs.guarded.guarded_context": "GuardedStats GuardedItem",
    "verbs.workers": "WorkerInfo",
    "verbs.locks.lock_values": "LockState",
    "clients.redisson.awaited.map_listener": "AsyncMapListener",
    "clients.redisson.awaited.mapcache": "AsyncMapCache",
    "clients.redisson.blocking.map_listener": "MapListener",
    "clients.redisson.blocking.mapcache": "MapCache",
    "verbs.redisson.mapcache.eviction": "AdaptivePolicy",
    "verbs.redisson.mapcache.map_values": "MapEvent MapStats",
    "values.durations": "Duration",
    "values.rates": "Rate",
}
_MODULE_OF = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}


if not TYPE_CHECKING:  # a type checker refuses unknown names

    def __getattr__(name: str) -> object:
        """Imports a name when it is first used, so that ``tarry --help`` imports no client."""
        if name == "errors":
            return import_module("tarry.errors")
        if name not in _MODULE_OF:
            words = import_module("tarry.values.other_words")
            raise words.no_attribute("module 'tarry'", name, words.TOPIC if name == "Queue" else None)
        value: object = getattr(import_module(f"tarry.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*_MODULE_OF, "errors", *(name for name in globals() if name.startswith("__"))])
