"""tarry.internal: names of the library for tarry's own programs, besides the public ones. Tarry promises none of them.

The service, the dashboard, the command line, the doors for clients of SQS and beanstalkd, and the integrations with Celery, Django and
OpenTelemetry import public names, `tarry.wire` where they speak HTTP, `tarry.programs.serving`, and this module; nothing else. Two of
them need each name; a name that one needs is moved into it, or made public (decision 0114).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from tarry.clients.awaited.client import AsyncClient
    from tarry.clients.awaited.topic import AsyncTopic
    from tarry.clients.blocking.client import Client
    from tarry.clients.handle_verbs import server_verbs
    from tarry.clients.replays import replaying
    from tarry.connections import faults, fitness, health
    from tarry.connections.address import Address
    from tarry.connections.background import failures, supervise_task
    from tarry.connections.blocking import Server
    from tarry.connections.resp import raise_faults
    from tarry.core.flows import gather
    from tarry.core.patience import RetryDelay
    from tarry.core.requests import Command, Operation, flow_of
    from tarry.values import keys, names, printable
    from tarry.values.durations import MILLISECOND, SECOND, as_datetime, duration_us, moment_us
    from tarry.values.names import IdGenerator
    from tarry.verbs import tokens
    from tarry.verbs.codecs import JSON, RAW
    from tarry.verbs.jobs import filter_counts, job_values, records, views
    from tarry.verbs.jobs.dead_groups import JobSearch, task_call
    from tarry.verbs.jobs.options import JobOptions
    from tarry.verbs.jobs.stats import DueSoon
    from tarry.verbs.locks import lock_scripts
    from tarry.verbs.redisson.delayed import transfer
    from tarry.worker import log_setup, parent_messages, reload, worker_process
    from tarry.worker.signals import handle_signals
    from tarry.worker.tasks import parse_envelope
    from tarry.worker.worker import override

__all__ = [
    "JSON",  # the codec byte of a body that is JSON
    "MILLISECOND",  # a millisecond in microseconds
    "RAW",  # the codec of a body that is bytes
    "SECOND",  # a second in microseconds, the unit of all moments
    "AsyncServer",  # a server, as `ask_servers` gives it to awaited code
    "Command",  # one command of the server, where no verb reads what a page shows
    "DueSoon",  # the jobs that are due next, for forecasts
    "JobOptions",  # the options of an add as one value, for programs that pass them on
    "JobSearch",  # a search as one value, for programs that pass it on
    "Operation",  # what a verb returns, as a type
    "RetryDelay",  # pauses between tries, longer and longer
    "address_of",  # where a client's servers are, to tell people
    "as_datetime",  # microseconds since 1970 as a moment
    "ask_server",  # asks one server after the other, for a page of a scan
    "ask_servers",  # asks each server behind a client, for what is said about servers
    "duration_us",  # a duration as people write it, in microseconds
    "failures",  # where work in the background of this process reports what it raised
    "faults",  # what a server refuses, where a program goes on without it, or has its own words for it
    "filter_counts",  # counts that no handle has: of a window, of a priority
    "fitness",  # what to ask a server, and how its answers are read
    "flow_of",  # a request as a flow, for `gather`
    "gather",  # several operations in one round trip
    "handle_signals",  # SIGTERM and SIGINT for a process with a loop
    "health",  # judges a server by what it says of itself
    "job_values",  # what a stored job has besides its public properties: its nonce, its body as it is stored
    "keys",  # the keys of topics, queues and namespaces, for what no verb reads
    "lock_scripts",  # finds locks by a scan
    "log_setup",  # the logs of a worker process
    "moment_us",  # a moment as microseconds since 1970
    "names",  # which names are allowed, and how ids are made
    "on_behalf_of",  # a topic with a holder or ids of the caller's, who is another program's client
    "override",  # what a command line says instead of a worker's arguments
    "parent_messages",  # exit codes, and what a worker process is told by its environment
    "parse_envelope",  # the name of a job's task, as the worker reads it
    "perform",  # performs what a verb returned; a handle has no method for these
    "perform_view",  # the same for what is only shown: it may come from a replica
    "printable",  # text in which nothing controls a terminal, and log lines of it
    "raise_faults",  # the replies of a server, or its error
    "records",  # bounds of what a job may store, for documents and other protocols
    "register_topic",  # puts a topic into the list of known ones, before jobs that no handle adds
    "reload",  # restarts a worker when a file changes
    "replaying",  # a handle whose scripts run as replays, for a request that was perhaps carried out before
    "server_verbs",  # the verbs of a topic as scripts, for those that no handle has
    "supervise_task",  # keeps a task going, whatever it raises
    "task_call",  # the task of a job and its arguments, if its body is a task's
    "tokens",  # the table of tokens of a service
    "transfer",  # moves elements of a queue that is shared with Java, and gives them back
    "views",  # what is read of a topic without a handle: whether it is known, where a page begins
    "worker_process",  # runs a worker's processes
]
_PLACES = {
    "JSON": "verbs.codecs:JSON",
    "MILLISECOND": "values.durations:MILLISECOND",
    "RAW": "verbs.codecs:RAW",
    "SECOND": "values.durations:SECOND",
    "Command": "core.requests:Command",
    "DueSoon": "verbs.jobs.stats:DueSoon",
    "JobOptions": "verbs.jobs.options:JobOptions",
    "JobSearch": "verbs.jobs.dead_groups:JobSearch",
    "Operation": "core.requests:Operation",
    "RetryDelay": "core.patience:RetryDelay",
    "as_datetime": "values.durations:as_datetime",
    "duration_us": "values.durations:duration_us",
    "failures": "connections.background:failures",
    "faults": "connections.faults",
    "filter_counts": "verbs.jobs.filter_counts",
    "fitness": "connections.fitness",
    "flow_of": "core.requests:flow_of",
    "gather": "core.flows:gather",
    "handle_signals": "worker.signals:handle_signals",
    "health": "connections.health",
    "job_values": "verbs.jobs.job_values",
    "keys": "values.keys",
    "lock_scripts": "verbs.locks.lock_scripts",
    "log_setup": "worker.log_setup",
    "moment_us": "values.durations:moment_us",
    "names": "values.names",
    "override": "worker.worker:override",
    "parent_messages": "worker.parent_messages",
    "parse_envelope": "worker.tasks:parse_envelope",
    "printable": "values.printable",
    "raise_faults": "connections.resp:raise_faults",
    "records": "verbs.jobs.records",
    "reload": "worker.reload",
    "replaying": "clients.replays:replaying",
    "server_verbs": "clients.handle_verbs:server_verbs",
    "supervise_task": "connections.background:supervise_task",
    "task_call": "verbs.jobs.dead_groups:task_call",
    "tokens": "verbs.tokens",
    "transfer": "verbs.redisson.delayed.transfer",
    "views": "verbs.jobs.views",
    "worker_process": "worker.worker_process",
}
T = TypeVar("T")


class _AwaitedEngine(Protocol):
    async def run(self, operation: Operation[T]) -> T: ...
    async def run_view(self, operation: Operation[T]) -> T: ...
    async def register_topic(self, topic: str) -> None: ...


class _BlockingEngine(Protocol):
    def run(self, operation: Operation[T]) -> T: ...
    def run_view(self, operation: Operation[T]) -> T: ...
    def register_topic(self, topic: str) -> None: ...


class Awaited(Protocol):
    """A handle of an awaited client, or the client."""

    @property
    def engine(self) -> _AwaitedEngine: ...


class Blocking(Protocol):
    """A handle of a blocking client, or the client."""

    @property
    def engine(self) -> _BlockingEngine: ...


class AsyncServer(Protocol):
    """A server behind an awaited client."""

    async def exchange(self, commands: Sequence[Sequence[bytes]]) -> list[Any]:
        """Sends commands, and returns their replies."""
        ...


@overload
def perform(handle: Awaited, operation: Operation[T]) -> Coroutine[Any, Any, T]: ...
@overload
def perform(handle: Blocking, operation: Operation[T]) -> T: ...
def perform(handle: Any, operation: Operation[Any]) -> Any:
    """Performs what a verb returned: a call, a command or a flow. Never on a replica."""
    return handle.engine.run(operation)


@overload
def perform_view(handle: Awaited, operation: Operation[T]) -> Coroutine[Any, Any, T]: ...
@overload
def perform_view(handle: Blocking, operation: Operation[T]) -> T: ...
def perform_view(handle: Any, operation: Operation[Any]) -> Any:
    """Performs what is only shown: it may come from a replica."""
    return handle.engine.run_view(operation)


@overload
def register_topic(handle: Awaited, topic: str) -> Coroutine[Any, Any, None]: ...
@overload
def register_topic(handle: Blocking, topic: str) -> None: ...
def register_topic(handle: Any, topic: str) -> Any:
    """Writes a topic into the list of known ones, before its first job."""
    return handle.engine.register_topic(topic)


@overload
def ask_servers(
    client: AsyncClient, ask: Callable[[AsyncServer], Coroutine[Any, Any, T]]
) -> Coroutine[Any, Any, dict[str, T]]: ...
@overload
def ask_servers(client: Client, ask: Callable[[Server], T]) -> dict[str, T]: ...
def ask_servers(client: Any, ask: Any) -> Any:
    """Asks each server of a client. Returns the answers by address."""
    return client.engine.runner.ask_all(ask)


@overload
def address_of(client: AsyncClient) -> Address: ...
@overload
def address_of(client: Client) -> Address: ...
def address_of(client: Any) -> Any:
    """Where a client's servers are."""
    return client.engine.config.address


async def ask_server(client: AsyncClient, index: int, command: tuple[bytes, ...]) -> tuple[int, Any]:
    """Asks one server of a client, by its place in the order of addresses. Returns how many there are, and its reply, ``None`` if it has none."""
    return await client.engine.runner.ask_server(index, command)


def on_behalf_of(topic: AsyncTopic[T], *, holder: str | None = None, ids: IdGenerator | None = None) -> AsyncTopic[T]:
    """The same topic, whose reservations have another holder, or whose jobs get other ids."""
    if holder is None and ids is None:
        return topic
    from tarry.clients.handle_verbs import server_verbs

    return type(topic)(topic.engine, server_verbs(topic).on_behalf_of(holder=holder, ids=ids))


if not TYPE_CHECKING:  # a type checker refuses unknown names

    def __getattr__(name: str) -> object:
        """Imports a name when it is first used."""
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        module, _, attribute = _PLACES[name].partition(":")
        found = import_module(f"tarry.{module}")
        return globals().setdefault(name, getattr(found, attribute) if attribute else found)


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
