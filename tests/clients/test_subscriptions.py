"""A client that listens goes on listening, whatever its driver raises and at whatever moment its connection ends."""

from __future__ import annotations

import asyncio
import queue
import threading
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import redis.asyncio.connection
import redis.connection

import tarry
from tarry.clients.awaited.pubsub import PubSub as AsyncPubSub
from tarry.clients.blocking import pubsub_connection
from tarry.clients.blocking.pubsub import PubSub
from tarry.errors import Unavailable
from until import until

LISTENER = "tarry-subscriptions"
CHANNEL, OTHER = b"channel", b"other"


class Listening:
    """A blocking client that listens, and the messages that it has received."""

    def __init__(self, client: tarry.Client) -> None:
        client.topics()
        self.pubsub = client.engine.shared_part(PubSub)
        self.pubsub.longest_delay_s = 0.01
        self.received: queue.Queue[bytes] = queue.Queue()

    def subscribe(self, channel: bytes, *, wait: bool = True) -> Any:
        return self.pubsub.subscribe(channel, (channel,), self._receive, wait=wait)

    def _receive(self, _channel: bytes, message: bytes) -> None:
        if message:
            self.received.put(message)

    def assert_receives(self, server: Any, channel: bytes) -> None:
        until(lambda: server.pubsub_numsub(channel)[0][1], "it is subscribed")
        server.publish(channel, b"news")
        assert self.received.get(timeout=30) == b"news"


def wrap(monkeypatch: pytest.MonkeyPatch, method: str, call: Callable[..., Any]) -> None:
    """Replaces a method of the driver's connections, for the thread that listens. ``call`` gets the method, and its arguments."""
    original = getattr(redis.connection.AbstractConnection, method)

    def wrapped(self: Any, *given: Any, **named: Any) -> Any:
        if threading.current_thread().name == LISTENER:
            return call(original, self, *given, **named)
        return original(self, *given, **named)

    monkeypatch.setattr(redis.connection.AbstractConnection, method, wrapped)


def cut(server: Any) -> None:
    """Ends all subscriptions, and waits until the server has closed their connections."""
    for row in server.client_list(_type="pubsub"):
        server.client_kill_filter(_id=row["id"])
    until(lambda: not server.client_list(_type="pubsub"), "closed")


def test_a_subscription_while_the_connection_ends_leaves_the_thread_alone(
    valkey_url: str, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread that sends at this moment notices the end first. If it closed the connection under the thread that reads,
    that one would die of a socket that is None, or listen on a connection without subscriptions."""
    reads, go_on, armed = threading.Event(), threading.Event(), threading.Event()

    def can_read(original: Any, connection: Any, *given: Any) -> Any:
        if armed.is_set():
            armed.clear()
            reads.set()
            assert go_on.wait(30)
        return original(connection, *given)

    wrap(monkeypatch, "can_read", can_read)
    with tarry.Client(valkey_url) as client:
        listening = Listening(client)
        listening.subscribe(CHANNEL)
        armed.set()
        listening.subscribe(b"it wakes", wait=False)
        assert reads.wait(30)
        cut(server)
        for number in range(3):
            listening.subscribe(b"%d" % number, wait=False)
        listening.subscribe(OTHER, wait=False)
        go_on.set()
        listening.assert_receives(server, OTHER)
        listening.assert_receives(server, CHANNEL)


def test_only_the_thread_that_listens_uses_the_connection(
    valkey_url: str, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    users: set[str] = set()
    with tarry.Client(valkey_url) as client:
        listening = Listening(client)
        listening.subscribe(CHANNEL)
        [mine] = listening.pubsub._connections.values()
        for method in ("send_packed_command", "disconnect"):
            original = getattr(mine._connection, method)

            def noted(*given: Any, original: Any = original, **named: Any) -> Any:
                users.add(threading.current_thread().name)
                return original(*given, **named)

            monkeypatch.setattr(mine._connection, method, noted)
        second = listening.subscribe(OTHER)
        listening.pubsub.unsubscribe(second)
        until(lambda: not server.pubsub_numsub(OTHER)[0][1], "unsubscribed")
    until(lambda: not server.pubsub_numsub(CHANNEL)[0][1], "closed")
    assert users == {LISTENER}


@pytest.mark.parametrize("method", ["can_read", "read_response", "send_packed_command", "disconnect"])
@pytest.mark.parametrize("error", [TypeError, AttributeError, MemoryError, ValueError])
def test_whatever_the_driver_raises_is_a_lost_connection(
    valkey_url: str,
    server: Any,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    error: type[Exception],
    caplog: pytest.LogCaptureFixture,
) -> None:
    raised: list[Exception] = []

    def fail(original: Any, connection: Any, *given: Any, **named: Any) -> Any:
        if armed.is_set() and not raised:
            if method == "disconnect":
                original(connection, *given, **named)  # so that the socket is closed
            raised.append(error("a bug of the driver"))
            raise raised[0]
        return original(connection, *given, **named)

    armed, lost = threading.Event(), threading.Event()
    wrap(monkeypatch, method, fail)
    with tarry.Client(valkey_url) as client:
        listening = Listening(client)
        listening.pubsub.subscribe(OTHER, (OTHER,), lambda *_: None, on_lost=lambda _: lost.set())
        armed.set()
        if method == "disconnect":
            cut(server)
        listening.subscribe(CHANNEL, wait=False)
        assert lost.wait(30)
        listening.assert_receives(server, CHANNEL)
    assert raised
    # the driver disconnects by itself, too, when it fails to send: then the bug is why the connection ended
    passed = {frame.name for frame in traceback.extract_tb(raised[0].__traceback__)}
    assert ("a bug of the driver" in caplog.text) == ("_disconnect" not in passed), "it is logged, if it is the reason"


def test_a_subscriber_that_fails_when_it_learns_of_the_loss_ends_nothing(valkey_url: str, server: Any) -> None:
    def fail(_: object) -> None:
        raise ValueError("not ready")

    with tarry.Client(valkey_url) as client:
        listening = Listening(client)
        listening.pubsub.subscribe(OTHER, (OTHER,), lambda *_: None, on_lost=fail)
        listening.subscribe(CHANNEL)
        cut(server)
        listening.assert_receives(server, CHANNEL)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # it ends a thread on purpose
@pytest.mark.parametrize("supervised", [True, False])
def test_a_thread_that_exits_begins_again_and_else_is_not_given_subscribers(
    valkey_url: str, server: Any, monkeypatch: pytest.MonkeyPatch, *, supervised: bool
) -> None:
    def leave(original: Any, connection: Any, *given: Any) -> Any:
        if armed.is_set():
            armed.clear()
            raise SystemExit  # which ends a thread silently
        return original(connection, *given)

    def leave_again(error: BaseException, _: str) -> Any:
        raise error

    armed = threading.Event()
    wrap(monkeypatch, "can_read", leave)
    lost = threading.Event()
    if not supervised:
        monkeypatch.setattr(pubsub_connection, "lost_by", leave_again)
        monkeypatch.setattr(pubsub_connection, "supervise", lambda work, run, pause: run())
    before = set(threading.enumerate())
    with tarry.Client(valkey_url) as client:
        listening = Listening(client)
        listening.pubsub.subscribe(OTHER, (OTHER,), listening._receive, on_lost=lambda _: lost.set())
        begun = set(threading.enumerate()) - before
        armed.set()
        server.publish(OTHER, b"")  # wakes it
        if supervised:
            assert lost.wait(30)
            until(
                lambda: listening.pubsub._connections and server.publish(OTHER, b"x") and not listening.received.empty()
            )
            server.publish(OTHER, b"the last")
            while listening.received.get(timeout=30) != b"the last":
                pass  # what was sent while it came back
        else:
            until(lambda: not listening.pubsub._connections, "it leaves no trace")
            for thread in begun:
                thread.join()  # what it raised is this test's
        listening.subscribe(CHANNEL)
        listening.assert_receives(server, CHANNEL)


@pytest.mark.anyio
async def test_an_awaited_client_goes_on_listening_whatever_the_driver_raises(
    valkey_url: str, server: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    received: asyncio.Queue[bytes] = asyncio.Queue()
    raised: list[Exception] = []
    original = redis.asyncio.connection.AbstractConnection.read_response

    async def fail(self: Any, *given: Any, **named: Any) -> Any:
        reply = await original(self, *given, **named)
        if isinstance(reply, list) and reply[-1] == b"first":
            raised.append(TypeError("a bug of the driver"))
            raise raised[0]
        return reply

    async with tarry.AsyncClient(valkey_url) as client:
        await client.topics()
        pubsub = client.engine.shared_part(AsyncPubSub)
        pubsub.longest_delay_s = 0.01
        monkeypatch.setattr(redis.asyncio.connection.AbstractConnection, "read_response", fail)
        await pubsub.subscribe(CHANNEL, (CHANNEL,), lambda _, message: received.put_nowait(message))
        async with asyncio.timeout(30):
            assert await received.get() == b""
            server.publish(CHANNEL, b"first")
            assert await received.get() == b"", "it is subscribed again"
            server.publish(CHANNEL, b"second")
            assert await received.get() == b"second"
        [connection] = pubsub._connections.values()
        connection._task.cancel()
        await asyncio.wait({connection._task})
        assert not pubsub._connections, "a task that ends leaves no trace"
    assert raised
    assert "a bug of the driver" in caplog.text, "it is logged"


@pytest.mark.anyio
async def test_a_subscriber_that_cannot_move_to_another_server_stays(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It used to leave the lost connection first, and was then subscribed nowhere."""
    async with tarry.AsyncClient(valkey_url) as client:
        await client.topics()
        pubsub = client.engine.shared_part(AsyncPubSub)
        subscriber = await pubsub.subscribe(CHANNEL, (CHANNEL,), lambda *_: None)
        [connection] = pubsub._connections.values()
        answers = [object()]  # another server, and then none

        async def server_of(_: bytes) -> Any:
            if answers:
                return answers.pop()
            raise Unavailable("no server has this slot")

        monkeypatch.setattr(pubsub._runner, "server_of", server_of)
        await pubsub.reassign(connection)
        assert connection.channels.subscribers == [subscriber]
