"""tarry.internal: names of the library for tarry's own programs, besides the public ones. Tarry promises none of them.

The service, the dashboard, the command line, the doors for clients of SQS and beanstalkd, and the integrations with Celery, Django and
OpenTelemetry import public names, `tarry.wire` where they speak HTTP, `tarry.programs.serving`, and this module; nothing else. Two of
them need each name; a name that one needs is moved into it, or made public (decision 0114).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, overload

if TYPE_CHECKING:
    from tarry.clients.awaited.client import AsyncClient
    from tarry.clients.awaited.guarded_queue import AsyncGuardedQueue
    from tarry.clients.awaited.topic import AsyncTopic
    from tarry.clients.blocking.client import Client
    from tarry.clients.config import server_verbs
    from tarry.clients.redisson.awaited.delayed_queue import AsyncDelayedQueue
    from tarry.clients.replays import replaying
    from tarry.connections.address import Address
    from tarry.connections.background import failures, supervise_task
    from tarry.connections.faults import NotPermitted
    from tarry.connections.health import Node, NodeReader
    from tarry.core.patience import RetryDelay
    from tarry.core.requests import Asking, Command, Flow, Operation
    from tarry.values.durations import SECOND, as_datetime, duration_us, moment_us
    from tarry.values.names import IdGenerator, OwnTopic, check_name
    from tarry.values.printable import log_formatter, one_line
    from tarry.verbs.codecs import JSON, JSON_FAULTS, RAW
    from tarry.verbs.jobs.dead_groups import JobSearch, task_call
    from tarry.verbs.jobs.job_values import StoredJob, head_of
    from tarry.verbs.jobs.options import JobOptions
    from tarry.verbs.jobs.records import LONGEST_TTR_MS
    from tarry.verbs.jobs.stats import DueSoon
    from tarry.verbs.namespaces import NamespaceVerbs
    from tarry.verbs.tokens import Token, split_token
    from tarry.worker.log_setup import configure_logging
    from tarry.worker.reload import serve_with_reload
    from tarry.worker.signals import handle_signals, run_in_loop
    from tarry.worker.tasks import parse_envelope
    from tarry.worker.worker import override
    from tarry.worker.worker_process import serve_worker

__all__ = [
    "JSON",  # the codec byte of a body that is JSON
    "JSON_FAULTS",  # what reading JSON raises, where a program has an answer of its own
    "LONGEST_TTR_MS",  # the longest time to run, for other protocols
    "RAW",  # the codec of a body that is bytes
    "SECOND",  # a second in microseconds, the unit of all moments
    "Command",  # one command of the server, where no verb reads what a page shows
    "DueSoon",  # the jobs that are due next, for forecasts
    "IdGenerator",  # makes ids and nonces, where a program has its own
    "JobOptions",  # the options of an add as one value, for programs that pass them on
    "JobSearch",  # a search as one value, for programs that pass it on
    "NamespaceVerbs",  # the verbs of a namespace that no client has: tokens, lists of locks, numbers
    "Node",  # the judgement of a server
    "NodeReader",  # reads and judges the servers of a client
    "NotPermitted",  # the server's user may not do that; a program goes on without it
    "Operation",  # what a verb returns, as a type
    "OwnTopic",  # the topics in which parts of tarry keep what is theirs
    "RetryDelay",  # pauses between tries, longer and longer
    "StoredJob",  # what a popped job and one that was read have in common, as a type
    "Token",  # a token of a service, as a type
    "address_of",  # where a client's servers are, to tell people
    "as_datetime",  # microseconds since 1970 as a moment
    "ask_server",  # asks one server after the other, for a page of a scan
    "ask_servers",  # asks each server behind a client, for what is said about servers
    "check_name",  # refuses names that are not allowed
    "configure_logging",  # sends the logs of a worker process to stderr
    "duration_us",  # a duration as people write it, in microseconds
    "failures",  # where work in the background of this process reports what it raised
    "gather",  # several operations in one round trip
    "handle_signals",  # SIGTERM and SIGINT for a process with a loop
    "head_of",  # the fields of a stored job besides its public properties
    "log_formatter",  # formats log lines, as text in which nothing controls a terminal, or as JSON
    "moment_us",  # a moment as microseconds since 1970
    "on_behalf_of",  # a handle with a holder, ids or marks of the caller's, who is another program's client
    "one_line",  # text in which nothing controls a terminal
    "override",  # what a command line says instead of a worker's arguments
    "parse_envelope",  # the name of a job's task, as the worker reads it
    "perform",  # performs what a verb returned; a handle has no method for these
    "perform_view",  # the same for what is only shown: it may come from a replica
    "replaying",  # a handle whose scripts run as replays, for a request that was perhaps carried out before
    "run_in_loop",  # runs a process that serves for long
    "serve_with_reload",  # restarts a worker when a file changes
    "serve_worker",  # runs a worker's processes
    "server_verbs",  # the verbs of a topic, a queue or a map as scripts, for those that no handle has
    "split_token",  # the parts of a token's text
    "supervise_task",  # keeps a task going, whatever it raises
    "task_call",  # the task of a job and its arguments, if its body is exactly a task's
]
_PLACES = {
    "JSON": "verbs.codecs",
    "LONGEST_TTR_MS": "verbs.jobs.records",
    "JSON_FAULTS": "verbs.codecs",
    "RAW": "verbs.codecs",
    "SECOND": "values.durations",
    "Command": "core.requests",
    "DueSoon": "verbs.jobs.stats",
    "IdGenerator": "values.names",
    "JobOptions": "verbs.jobs.options",
    "JobSearch": "verbs.jobs.dead_groups",
    "NamespaceVerbs": "verbs.namespaces",
    "Node": "connections.health",
    "NodeReader": "connections.health",
    "NotPermitted": "connections.faults",
    "Operation": "core.requests",
    "OwnTopic": "values.names",
    "RetryDelay": "core.patience",
    "StoredJob": "verbs.jobs.job_values",
    "Token": "verbs.tokens",
    "as_datetime": "values.durations",
    "check_name": "values.names",
    "configure_logging": "worker.log_setup",
    "duration_us": "values.durations",
    "failures": "connections.background",
    "handle_signals": "worker.signals",
    "head_of": "verbs.jobs.job_values",
    "log_formatter": "values.printable",
    "moment_us": "values.durations",
    "one_line": "values.printable",
    "override": "worker.worker",
    "parse_envelope": "worker.tasks",
    "replaying": "clients.replays",
    "run_in_loop": "worker.signals",
    "serve_with_reload": "worker.reload",
    "serve_worker": "worker.worker_process",
    "split_token": "verbs.tokens",
    "supervise_task": "connections.background",
    "task_call": "verbs.jobs.dead_groups",
}
T = TypeVar("T")
Q = TypeVar("Q", bound="AsyncTopic[Any] | AsyncDelayedQueue[Any] | AsyncGuardedQueue[Any]")


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


OnAnswer = Callable[[Any, Any], object]
"""A function that is called with each request and its answer."""


@overload
def perform(
    handle: Awaited, operation: Operation[T], *, registers: bool = False, on_answer: OnAnswer | None = None
) -> Coroutine[Any, Any, T]: ...
@overload
def perform(
    handle: Blocking, operation: Operation[T], *, registers: bool = False, on_answer: OnAnswer | None = None
) -> T: ...
def perform(
    handle: Any, operation: Operation[Any], *, registers: bool = False, on_answer: OnAnswer | None = None
) -> Any:
    """Performs what a verb returned: a call, a command or a flow. Never on a replica.

    ``registers``: first writes the handle's topic into the list of known ones, as its own ``add`` does.
    """
    if on_answer is not None:
        operation = _with_answers(operation, on_answer)
    if not registers:
        return handle.engine.run(operation)
    registered = handle.engine.register_topic(handle.name)
    return _after(registered, handle, operation) if inspect.isawaitable(registered) else handle.engine.run(operation)


async def _after(registered: Any, handle: Any, operation: Operation[Any]) -> Any:
    await registered
    return await handle.engine.run(operation)


def _with_answers(operation: Operation[T], on_answer: OnAnswer) -> Flow[T]:
    from tarry.core.flows import intercept
    from tarry.core.requests import flow_of

    def on_reply(requests: Any, answers: Any) -> Any:
        for request, answer in zip(requests, answers, strict=True):
            if not isinstance(answer, Exception):
                on_answer(request, answer)
        return answers

    return intercept(flow_of(cast("Any", operation)), lambda request: request, on_reply)


@overload
def perform_view(handle: Awaited, operation: Operation[T]) -> Coroutine[Any, Any, T]: ...
@overload
def perform_view(handle: Blocking, operation: Operation[T]) -> T: ...
def perform_view(handle: Any, operation: Operation[Any]) -> Any:
    """Performs what is only shown: it may come from a replica."""
    return handle.engine.run_view(operation)


def gather(operations: Iterable[Operation[T]]) -> Flow[list[T]]:
    """Several operations as one, in step."""
    from tarry.core import flows
    from tarry.core.requests import flow_of

    return flows.gather([flow_of(cast("Any", one)) for one in operations])


@overload
def ask_servers(client: AsyncClient, make_steps: Callable[[], Asking[T]]) -> Coroutine[Any, Any, dict[str, T]]: ...
@overload
def ask_servers(client: Client, make_steps: Callable[[], Asking[T]]) -> dict[str, T]: ...
def ask_servers(client: Any, make_steps: Callable[[], Asking[Any]]) -> Any:
    """Takes steps on each server of a client (`ask` in connections/resp.py). Returns the results by address."""
    from tarry.connections import resp

    runner = client.engine.runner
    ask: Any = resp.ask_awaited if inspect.iscoroutinefunction(runner.ask_all) else resp.ask
    return runner.ask_all(partial(_take_steps, ask, make_steps))


def _take_steps(ask: Any, make_steps: Callable[[], Asking[Any]], server: Any) -> Any:
    return ask(server, make_steps())


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


def on_behalf_of(
    handle: Q,
    *,
    holder: str | None = None,
    ids: IdGenerator | None = None,
    marks: Callable[[int], bytes] | None = None,
) -> Q:
    """The same handle: a topic whose reservations have another holder, or whose jobs get other ids; a queue whose elements get other
    marks."""
    from copy import copy
    from dataclasses import replace

    changed: Any = copy(handle)
    if marks is not None:
        if hasattr(changed, "verbs"):
            changed.verbs = type(changed.verbs)(replace(changed.verbs.context, random_marks=marks))
        else:
            changed.context = replace(changed.context, random=marks)
    elif holder is not None or ids is not None:
        changed.verbs = changed.verbs.on_behalf_of(holder=holder, ids=ids)
    return cast("Q", changed)


if not TYPE_CHECKING:  # a type checker refuses unknown names

    def server_verbs(handle: Any) -> Any:
        """The verbs of a handle's server. Here, so that a command may name it before it imports a client."""
        from tarry.clients.config import server_verbs as verbs_of

        return verbs_of(handle)

    def __getattr__(name: str) -> object:
        """Imports a name when it is first used."""
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        return globals().setdefault(name, getattr(import_module(f"tarry.{_PLACES[name]}"), name))


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
