"""The settings, the name and the ids of a client, which need no connection. The same for both clients."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from tarry.connections.address import Address, find_address
from tarry.connections.topology import Topology
from tarry.core.patience import Patience
from tarry.core.requests import Operation
from tarry.errors import BadInput
from tarry.values import keys, names, variables
from tarry.values.durations import SECOND, Duration, duration_us
from tarry.verbs import namespaces
from tarry.verbs.codecs import BodyCodec
from tarry.verbs.jobs.partitions import KnownPartitions, PartitionVerbs
from tarry.verbs.jobs.topic import TopicVerbs
from tarry.verbs.jobs.topic_context import Leases, TopicContext

if TYPE_CHECKING:
    from tarry.clients.handle_verbs import HasBlockingQueueVerbs, HasDelayedQueueVerbs, HasMapVerbs, HasTopicVerbs
    from tarry.clients.schedule_verbs import ScheduleVerbs
    from tarry.verbs.redisson.delayed.queue_verbs import BlockingQueueVerbs, DelayedQueueVerbs
    from tarry.verbs.redisson.mapcache.map_verbs import MapVerbs
    from tarry.verbs.redisson.versions import RedissonVersion
    from tarry.verbs.workers import WorkerInfo, WorkerMode

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
COMMANDS_ONLY = "plain "
"""Prefix of the URL of a server that was connected to for plain commands, and may run no scripts."""
MAX_BODY = 1 << 20
LARGEST_BODY = 512 << 20
PATIENCE: Duration = 10
NameMapper = str | Callable[[str], str] | None
"""A prefix, or a function from a name to another: what Redisson's ``NameMapper`` is in Java."""


class NamingConfig(Protocol):
    """The settings for names and bodies of a client's queues, maps and locks."""

    @property
    def namespace(self) -> str: ...
    @property
    def cluster(self) -> bool: ...
    @property
    def redisson(self) -> RedissonVersion | None: ...
    def codec_for(self, kind: Any) -> BodyCodec[Any]: ...
    def redisson_name(self, name: str) -> str: ...


CLOSED = "client: it is closed. Make another one, or close it later."
"""The error of a verb after ``close()``."""
UNANSWERED = "The client was closed before the answer came. The call is safe to repeat."


class ClientConfig:
    """Checked settings; makes the verbs of a topic. Raises ``BadInput`` or ``ServerUnfit``."""

    def __init__(
        self,
        url: str | None,
        namespace: str | None,
        max_body: int,
        patience: Duration,
        name_mapper: NameMapper = None,
        redisson: str | None = None,
    ) -> None:
        self.max_body = check_max_body(max_body)
        if name_mapper is not None and not isinstance(name_mapper, str) and not callable(name_mapper):
            raise BadInput(f"name_mapper: {name_mapper!r}; it is a prefix, or a function from a name to another.")
        self.name_mapper = name_mapper
        self.redisson = redisson_of(redisson)
        variables.warn_of_unknown(os.environ)
        self.namespace = names.find_namespace(namespace, os.environ)
        self.address: Address = find_address(url, os.environ)
        self.patience = Patience(duration_us(patience, "patience") / SECOND)
        self.name = names.random_word(os.urandom)
        self._known_partitions = KnownPartitions()
        self.leases = Leases(time.monotonic)
        self._ids = names.IdGenerator(time.time_ns, os.urandom)

    def settings(self) -> dict[str, Any]:
        """All settings of its client but the URL, as its arguments: for another client of the same server."""
        return {
            "namespace": self.namespace,
            "max_body": self.max_body,
            "patience": self.patience.bound,
            "name_mapper": self.name_mapper,
            "redisson": None if self.redisson is None else self.redisson.text,
        }

    def verbs(self, topic: str, kind: Any = None, partitions: int | None = None) -> TopicVerbs[Any]:
        """The verbs of a topic whose bodies are of a kind."""
        bodies = self.codec_for(kind)
        context = TopicContext(topic, keys.topic_keys(self.namespace, topic), bodies, self._ids, self.leases)
        plain = PartitionVerbs(context, self.name)
        return TopicVerbs(
            plain, partial(keys.partition_keys, self.namespace, topic), self._known_partitions, partitions
        )

    def schedules(self) -> ScheduleVerbs:
        from tarry.clients.schedule_verbs import ScheduleVerbs

        def verbs_of(topic: Any) -> TopicVerbs[Any]:
            return server_verbs(topic) if hasattr(topic, "verbs") else self.verbs(topic)

        return ScheduleVerbs(self.namespace, verbs_of)

    def delayed(self, name: str, codec: Any, format: str | None, redisson: str | None = None) -> DelayedQueueVerbs[Any]:
        from tarry.verbs.redisson.delayed.queue_context import queue_context
        from tarry.verbs.redisson.delayed.queue_verbs import DelayedQueueVerbs

        version = redisson_of(redisson, self.redisson)
        return DelayedQueueVerbs(queue_context(name, codec, format, version, self.queue_keys, os.urandom))

    def blocking(self, name: str, codec: Any, redisson: str | None = None) -> BlockingQueueVerbs[Any]:
        from tarry.verbs.redisson.delayed.queue_context import queue_context
        from tarry.verbs.redisson.delayed.queue_verbs import BlockingQueueVerbs

        version = redisson_of(redisson, self.redisson)
        return BlockingQueueVerbs(queue_context(name, codec, None, version, self.queue_keys, os.urandom, delayed=False))

    def list_topics(self) -> Operation[list[str]]:
        return namespaces.list_topics(self.namespace)

    def list_workers(self) -> Operation[list[WorkerInfo]]:
        from tarry.verbs import workers

        return workers.list_workers(self.namespace)

    def set_worker_mode(self, worker: str, mode: WorkerMode) -> Operation[bool]:
        from tarry.verbs import workers

        return workers.set_worker_mode(self.namespace, worker, mode)

    def refuse_others(self, what: str, *handles: Any) -> None:
        """Raises ``BadInput`` for a handle of a service: a client of a server cannot reach it."""
        for handle in handles:
            if not isinstance(handle.engine.config, ClientConfig):
                raise BadInput(
                    f"{what}: {handle.name} is of a service; open it with a tarry.Client at its server, or let an HTTPClient do it all."
                )

    @property
    def cluster(self) -> bool:
        """Whether the keys of one object must lie in one slot."""
        return self.address.kind == "cluster"

    def codec_for(self, kind: Any) -> BodyCodec[Any]:
        """The codec of a kind, with this client's limit."""
        return kind if isinstance(kind, BodyCodec) else BodyCodec(kind, self.max_body)

    @property
    def redacted(self) -> str:
        """The address, safe to log."""
        return f"{self.namespace} at {self.address.redacted}"

    def redisson_name(self, name: str) -> str:
        """Returns the name that Java's NameMapper makes of the name of a queue, map or lock. Raises ``BadInput`` if it is invalid."""
        if self.name_mapper is None or not isinstance(name, str) or not name:
            return name
        mapped = self.name_mapper + name if isinstance(self.name_mapper, str) else self.name_mapper(name)
        if not isinstance(mapped, str) or not mapped:
            raise BadInput(f"name_mapper: it made {mapped!r} of {name!r}; a name is a text that is not empty.")
        return mapped

    def queue_keys(self, name: str) -> keys.QueueKeys:
        """The keys of a queue by its name in Java. Raises ``BadInput`` for a name that is not allowed."""
        from tarry.verbs.redisson.delayed.queue_context import keys_of

        return keys_of(self.redisson_name(name), cluster=self.cluster)

    def new_waiter_name(self) -> bytes:
        """A name for a waiter, new for each process and connection."""
        return self.name + b"." + names.random_word(os.urandom)[:6]


def check_max_body(given: int) -> int:
    """The bytes that a body may have. Raises ``BadInput``."""
    if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= LARGEST_BODY:
        raise BadInput(f"max_body: {given!r}; it is a number of bytes, at most 512 MiB.")
    return given


def redisson_of(given: str | None, of_client: RedissonVersion | None = None) -> RedissonVersion | None:
    """Returns the Redisson of the Java applications: from the argument, else the client's, else ``TARRY_REDISSON``. Raises ``BadInput``."""
    if given is None and of_client is not None:
        return of_client
    label, value = ("redisson", given) if given is not None else ("TARRY_REDISSON", os.environ.get("TARRY_REDISSON"))
    if not value and given is None:
        return None
    from tarry.verbs.redisson.versions import redisson_version

    return redisson_version(value or "", label)


def wait_seconds(wait: Duration | None) -> float:
    """A wait in seconds; ``None`` is forever."""
    return float("inf") if wait is None else duration_us(wait, "wait") / SECOND


def checked_portion(limit: int | None) -> int | None:
    """How many at most are moved. Raises ``BadInput``."""
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise BadInput(f"limit: {limit!r}; it is a whole number above 0, or None for all.")
    return limit


_logged_default = False


def log_default_server(topology: Topology) -> None:
    """Logs once in a process that no URL was given."""
    global _logged_default
    if topology.address.is_default and not _logged_default:
        _logged_default = True
        logging.getLogger("tarry").warning(
            "No URL was given: using the embedded server in %s, for this user on this machine only. "
            "Set TARRY_URL to share a server.",
            topology.redacted.removesuffix(" (embedded)"),
            extra={"tarry": {"started": topology.started_server}},
        )


class ErrorLog:
    """Logs work in the background that fails. Each error is logged once, and again after a success or another error."""

    def __init__(self) -> None:
        self._reported: dict[str, tuple[type[BaseException], str]] = {}

    def report(self, what: str, done: str, fault: BaseException) -> None:
        """``what`` could not be ``done``: "moved"."""
        if self._reported.get(what) != (type(fault), done):
            self._reported[what] = type(fault), done
            logging.getLogger("tarry").warning("%s could not be %s, trying again: %s", what, done, fault)

    def resolved(self, what: str) -> None:
        _, done = self._reported.pop(what, (None, ""))
        if done:
            logging.getLogger("tarry").warning("%s is %s again.", what, done)


@overload
def server_verbs(handle: HasTopicVerbs[T]) -> TopicVerbs[T]: ...
@overload
def server_verbs(handle: HasDelayedQueueVerbs[T]) -> DelayedQueueVerbs[T]: ...
@overload
def server_verbs(handle: HasBlockingQueueVerbs[T]) -> BlockingQueueVerbs[T]: ...
@overload
def server_verbs(handle: HasMapVerbs[K, V]) -> MapVerbs[K, V]: ...
def server_verbs(handle: Any) -> Any:
    """The verbs of a topic, a queue or a map as scripts. Raises ``BadInput`` for one of a service's client."""
    if isinstance(handle.verbs, TopicVerbs):
        return handle.verbs
    from tarry.verbs.redisson.delayed.queue_verbs import QueueVerbs

    if isinstance(handle.verbs, QueueVerbs):
        return handle.verbs
    from tarry.verbs.redisson.mapcache.map_verbs import MapVerbs

    if type(handle.verbs) is MapVerbs:  # a service's client has a kind of its own
        return handle.verbs
    raise BadInput(f"topic: {handle.name} is one of a service's client; give its name.")
