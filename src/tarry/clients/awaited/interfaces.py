"""The interfaces between the handles of an awaited client, its engine, and the engine's parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tarry.clients.awaited.runner import Runner
from tarry.clients.config import ClientConfig
from tarry.core.requests import Operation
from tarry.core.watch import PoppedAt
from tarry.values.durations import Duration
from tarry.values.keys import QueueKeys
from tarry.verbs.jobs.job_values import JobInfo
from tarry.verbs.jobs.pop import RawJob

if TYPE_CHECKING:
    from tarry.clients.handle_verbs import (
        BlockingQueueHandleVerbs,
        DelayedQueueHandleVerbs,
        ScheduleHandleVerbs,
        TopicHandleVerbs,
    )
    from tarry.verbs.jobs.end_values import EndsPage, Position
    from tarry.verbs.workers import WorkerInfo, WorkerMode

T = TypeVar("T")
Popped = tuple[int, PoppedAt, Sequence[RawJob]]
"""Jobs of one topic: its index among those that were asked for, and when they were popped."""
Pair = tuple[bytes, bytes]
"""A ready list, and the payload that came from it."""


class SharedPart(Protocol):
    """A part of a client that works for all its handles: subscriptions, duties, locks. There is one of a kind."""

    async def close(self) -> None: ...


P = TypeVar("P", bound=SharedPart)


class SharedPartHost(Protocol):
    """The engine, as far as its parts know it."""

    config: ClientConfig
    runner: Runner

    def shared_part(self, kind: Callable[[SharedPartHost], P]) -> P: ...


class EndsSource(Protocol):
    """Where the ends of a topic's jobs come from."""

    async def read(self, position: Position, seconds: float) -> EndsPage:
        """Reads those behind a position; waits for one if there is none yet."""
        ...

    def close(self) -> None: ...


class HandleAddress(Protocol):
    """Where the handles of a client are."""

    @property
    def redacted(self) -> str:
        """Safe to log."""
        ...


class HandleConfig(HandleAddress, Protocol):
    """Where a client is: a namespace at an address."""

    @property
    def namespace(self) -> str: ...
    @property
    def address(self) -> HandleAddress: ...


class HandleEngine(Protocol):
    """The engine, as far as the handles know it: that of a server, or of a service."""

    @property
    def config(self) -> HandleConfig: ...
    @property
    def keeps_maps(self) -> bool: ...
    async def run(self, operation: Operation[T]) -> T: ...
    async def run_view(self, operation: Operation[T]) -> T: ...
    async def register_topic(self, topic: str) -> None: ...
    async def take(
        self, topics: Sequence[Any], limit: int, wait: Duration | None, ttr: Duration | None
    ) -> Sequence[Popped]: ...
    async def wait_until_ended(self, topic: Any, id: str, seconds: float) -> JobInfo[Any] | None: ...
    async def open_ends(self, topic: Any) -> EndsSource: ...
    async def take_payload(self, queues: Sequence[QueueKeys], seconds: float) -> Pair | None: ...
    def shared_part(self, kind: Callable[[SharedPartHost], P]) -> P: ...


class OriginConfig(HandleConfig, Protocol):
    """The settings of a client. They make the verbs of its handles: those of a server, or those of a service."""

    def verbs(self, topic: str, kind: Any, partitions: int | None) -> TopicHandleVerbs[Any]: ...
    def schedules(self) -> ScheduleHandleVerbs: ...
    def delayed(
        self, name: str, codec: Any, format: str | None, redisson: str | None = None
    ) -> DelayedQueueHandleVerbs[Any]: ...
    def blocking(self, name: str, codec: Any, redisson: str | None = None) -> BlockingQueueHandleVerbs[Any]: ...
    def list_topics(self) -> Operation[list[str]]: ...
    def list_workers(self) -> Operation[list[WorkerInfo]]: ...
    def set_worker_mode(self, worker: str, mode: WorkerMode) -> Operation[bool]: ...
    def refuse_others(self, what: str, *handles: Any) -> None: ...


class OriginEngine(HandleEngine, Protocol):
    """The engine of a client."""

    @property
    def config(self) -> OriginConfig: ...
    async def close(self) -> None: ...
