"""Functions on handles for tarry's own programs, besides the public verbs. They are imported from ``tarry.internal``."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from tarry.clients.awaited.client import AsyncClient
    from tarry.clients.awaited.topic import AsyncTopic
    from tarry.clients.blocking.client import Client
    from tarry.connections.address import Address
    from tarry.connections.blocking import Server
    from tarry.core.requests import Operation
    from tarry.values.keys import QueueKeys
    from tarry.values.names import IdGenerator

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


async def take_payload(client: AsyncClient, queues: Sequence[QueueKeys], seconds: float) -> tuple[bytes, bytes] | None:
    """The first payload of any of the queues that are shared with Java, and the list it came from."""
    return await client.engine.take_payload(queues, seconds)


def started_server(client: Client) -> bool:
    """Whether this client has started the embedded server."""
    return client.engine.runner.started_server


def on_behalf_of(topic: AsyncTopic[T], *, holder: str | None = None, ids: IdGenerator | None = None) -> AsyncTopic[T]:
    """The same topic, whose reservations have another holder, or whose jobs get other ids."""
    if holder is None and ids is None:
        return topic
    from tarry.clients.handle_verbs import server_verbs

    return type(topic)(topic.engine, server_verbs(topic).on_behalf_of(holder=holder, ids=ids))
