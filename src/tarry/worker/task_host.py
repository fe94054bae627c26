"""The registry and the worker of a task, or of a function in a child process, as far as it uses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tarry.clients.awaited.client import AsyncClient
    from tarry.clients.blocking.client import Client


class TaskWorker(Protocol):
    """A worker, as far as tasks use it: its two clients."""

    @property
    def async_client(self) -> AsyncClient: ...
    @property
    def client(self) -> Client: ...


class TaskHost(Protocol):
    """A registry, as far as tasks use it."""

    @property
    def tasks_topic(self) -> str:
        """The topic of tasks that are given none: a worker's; empty for a registry. Raises ``BadInput`` for a worker without a name."""
        ...

    @property
    def root(self) -> TaskHost:
        """The last of those that include it: a worker, once it belongs to one."""
        ...

    def including_worker(self) -> TaskWorker:
        """The worker that includes it. Raises ``BadInput`` when none does."""
        ...

    def worker_topic(self) -> str:
        """The same of the worker that includes it. Raises ``BadInput`` when none does, or it has no name."""
        ...

    def stamped_headers(self, own: Mapping[str, str] | None) -> Mapping[str, str] | None: ...
