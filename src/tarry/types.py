"""tarry.types: what one only writes into annotations.

    from tarry.types import Duration, WorkerInfo

    def busy(worker: WorkerInfo, longest: Duration) -> bool: ...

Verbs take and return these; users do not make them.
"""

from typing import TYPE_CHECKING

from tarry import values

if TYPE_CHECKING:
    from tarry.clients.awaited.ends import AsyncEnds
    from tarry.clients.awaited.guarded_queue import AsyncGuard, AsyncGuardedQueue
    from tarry.clients.awaited.locks import AsyncLockLostEvent
    from tarry.clients.blocking.ends import Ends
    from tarry.clients.blocking.guarded_queue import Guard, GuardedQueue
    from tarry.clients.blocking.locks import LockLostEvent
    from tarry.values.durations import Duration
    from tarry.values.rates import Rate
    from tarry.verbs.codecs import Codec
    from tarry.verbs.guarded.guarded_context import GuardedItem, GuardedStats
    from tarry.verbs.jobs.dead_groups import DeadGroup
    from tarry.verbs.jobs.end_values import EndState
    from tarry.verbs.jobs.job_fields import FailedAttempt
    from tarry.verbs.jobs.job_values import BaseJob, HasReceipt, JobState, State, StateFilter
    from tarry.verbs.jobs.options import IfExists
    from tarry.verbs.jobs.stats import Lateness, LimitStatus
    from tarry.verbs.workers import HeldJob, WorkerInfo, WorkerMode, WorkerTopic

__all__ = [
    "AsyncEnds",
    "AsyncGuard",
    "AsyncGuardedQueue",
    "AsyncLockLostEvent",
    "BaseJob",
    "Codec",
    "DeadGroup",
    "Duration",
    "EndState",
    "Ends",
    "FailedAttempt",
    "Guard",
    "GuardedItem",
    "GuardedQueue",
    "GuardedStats",
    "HasReceipt",
    "HeldJob",
    "IfExists",
    "JobState",
    "Lateness",
    "LimitStatus",
    "LockLostEvent",
    "Rate",
    "State",
    "StateFilter",
    "WorkerInfo",
    "WorkerMode",
    "WorkerTopic",
]
_NAMES_BY_MODULE = {
    "clients.awaited.ends": "AsyncEnds",
    "clients.awaited.guarded_queue": "AsyncGuard AsyncGuardedQueue",
    "clients.awaited.locks": "AsyncLockLostEvent",
    "clients.blocking.ends": "Ends",
    "clients.blocking.guarded_queue": "Guard GuardedQueue",
    "clients.blocking.locks": "LockLostEvent",
    "values.durations": "Duration",
    "values.rates": "Rate",
    "verbs.codecs": "Codec",
    "verbs.guarded.guarded_context": "GuardedItem GuardedStats",
    "verbs.jobs.dead_groups": "DeadGroup",
    "verbs.jobs.end_values": "EndState",
    "verbs.jobs.job_fields": "FailedAttempt",
    "verbs.jobs.job_values": "BaseJob HasReceipt JobState State StateFilter",
    "verbs.jobs.options": "IfExists",
    "verbs.jobs.stats": "Lateness LimitStatus",
    "verbs.workers": "HeldJob WorkerInfo WorkerMode WorkerTopic",
}
_MODULE_OF = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}


if not TYPE_CHECKING:  # a type checker refuses unknown names

    def __getattr__(name: str) -> object:
        """Imports a name when it is first used."""
        return values.find_name(__name__, _MODULE_OF, name)


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
