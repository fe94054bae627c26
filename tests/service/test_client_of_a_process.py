"""``HTTPClient`` and ``AsyncHTTPClient`` pass the same story as ``Client``: with a token, while the service drains, is killed and
started again, and while connections break. The service is a process, and the connections are real."""

from __future__ import annotations

import asyncio
import inspect
import os
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any

import httpx
import pytest

import tarry
from service.test_process import Process, Start, start  # noqa: F401  # a fixture
from tarry.verbs import tokens
from until import LONGEST_S, until

pytestmark = pytest.mark.slow
Connect = Callable[..., AbstractContextManager[Any]]
PATIENCE = "60s"
"""A service that starts on a busy machine takes seconds."""


def story(client: Any, between: Callable[[], object] = lambda: None) -> list[Any]:
    """What a job goes through, and what its client is told of it."""
    topic, told = client.topic("orders"), list[Any]()
    added = topic.add({"order": 7}, id="7", headers={"from": "shop"})
    told.append((added.id, added.is_new, added.state))
    between()
    told.append([one.state for one in topic.add_many([8, 9], delay="1h")])
    job = topic.pop(wait="30s")
    told.append((job.id, job.body, job.headers, job.attempt))
    between()
    topic.touch(job, ttr="5m")
    topic.release(job, delay=0, reason="not yet")
    job = topic.pop(wait="30s")
    told.append((job.id, job.attempt))
    between()
    topic.bury(job, reason="no such order")
    told += [topic.get("7").reason, topic.kick("7"), topic.kick("unknown")]
    job = client.pop("empty", topic, wait="30s")
    between()
    with pytest.raises(tarry.JobExists):
        topic.add("another", id="7")
    topic.finish(job)
    with pytest.raises(tarry.StaleReceipt):
        topic.touch(job, ttr="5m")
    told += [[job.body for job in topic.list()], topic.purge()]
    stats = topic.stats()
    told.append((stats.added, stats.popped, stats.finished, stats.released, stats.died, stats.kicked, stats.lost))
    return told


@pytest.fixture
def expected(valkey_url: str, namespace: str) -> list[Any]:
    """The story of a client of the server itself."""
    with tarry.Client(valkey_url, namespace=f"{namespace}-near") as client:
        return story(client)


class OnLoop:
    """An awaited client, topic or job on a loop of another thread: its verbs answer at once, to any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, plain: Any) -> None:
        self.loop = loop
        self.plain = plain

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.plain, name)
        if not callable(found):
            return found

        def answered(*given: Any, **named: Any) -> Any:
            plain = [one.plain if isinstance(one, OnLoop) else one for one in given]

            async def awaited() -> Any:
                answer = found(*plain, **named)
                return await answer if inspect.isawaitable(answer) else answer

            answer = asyncio.run_coroutine_threadsafe(awaited(), self.loop).result()
            return OnLoop(self.loop, answer) if isinstance(answer, (tarry.AsyncTopic, tarry.AsyncJob)) else answer

        return answered


@contextmanager
def blocking(url: str, **options: Any) -> Iterator[Any]:
    with tarry.HTTPClient(url, **options) as client:
        yield client


@contextmanager
def awaited(url: str, **options: Any) -> Iterator[Any]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    client = OnLoop(loop, tarry.AsyncHTTPClient(url, **options))
    try:
        yield client
    finally:
        client.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


DRAINED, KILLED = signal.SIGTERM, signal.SIGKILL
ENDS = [
    pytest.param(blocking, KILLED, id="http-killed"),
    pytest.param(awaited, DRAINED, id="async http-drained"),
    pytest.param(blocking, DRAINED, id="http-drained", marks=pytest.mark.long),
    pytest.param(awaited, KILLED, id="async http-killed", marks=pytest.mark.long),
]
"""A client does not see how its service ended: each client once, each end once."""


@pytest.fixture(params=[blocking, awaited], ids=["http", "async http"])
def connect(request: pytest.FixtureRequest) -> Connect:
    """Makes clients of a service, all of one kind."""
    made: Connect = request.param
    return made


class Service:
    """A service that is stopped, and started again at the same port."""

    def __init__(self, start: Start, namespace: str) -> None:  # noqa: F811
        self._start = start
        self._words = ("--namespace", namespace, "--drain", "200ms")
        self.process: Process = start(*self._words)
        self.url = self.process.url
        self.starts = 1

    def stop(self, sent: signal.Signals) -> None:
        self.process.child.send_signal(sent)
        self.process.ended()

    def start_again(self) -> None:
        self.starts += 1
        self.process = self._start(*self._words, "--port", self.url.rpartition(":")[2])
        assert self.process.url == self.url

    def held_requests(self) -> float:
        """How many requests wait at the service."""
        text = httpx.get(f"{self.url}/metrics", timeout=LONGEST_S).text
        return float(text.split("\ntarry_http_requests_held ")[1].split("\n")[0])


@pytest.fixture
def service(start: Start, namespace: str) -> Service:  # noqa: F811
    return Service(start, namespace)


@pytest.mark.parametrize(("connect", "sent"), ENDS, indirect=["connect"])
def test_the_story_goes_on_while_the_service_is_restarted(
    service: Service, connect: Connect, expected: list[Any], sent: signal.Signals
) -> None:
    """Stopped in the background, at any step of the story, and started again: the client sends its request again."""
    with connect(service.url, patience=PATIENCE) as client, ThreadPoolExecutor(1) as elsewhere:

        def restart() -> None:
            service.stop(sent)
            elsewhere.submit(service.start_again)  # while the next verb is sent already

        assert story(client, restart) == expected
    assert service.starts == 5


@pytest.mark.parametrize(("connect", "sent"), ENDS, indirect=["connect"])
def test_a_waiting_pop_outlives_a_restart_of_the_service(
    service: Service, connect: Connect, sent: signal.Signals
) -> None:
    with connect(service.url, patience=PATIENCE) as client, ThreadPoolExecutor(1) as elsewhere:
        topic = client.topic("orders")
        waiting = elsewhere.submit(topic.pop, wait="2m")
        until(lambda: service.held_requests() == 1)
        service.stop(sent)
        service.start_again()
        until(lambda: service.held_requests() == 1)
        topic.add("tea")
        job = waiting.result(LONGEST_S)
        assert job is not None
        assert (job.body, job.attempt) == ("tea", 1)
        job.finish()
        assert topic.stats().popped == 1


class Cutter:
    """Passes connections on to a service, until they are cut."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._threads.append(threading.Thread(target=self._pass_on, args=(client,)))
                self._threads[-1].start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._to)) as service, suppress(OSError):
            self._ends += [client, service]
            ends = {client: service, service: client}
            while True:
                for end in select.select(list(ends), [], [])[0]:
                    part = end.recv(65536)
                    if not part:
                        return
                    ends[end].sendall(part)

    def cut(self) -> None:
        """Breaks every connection, at both ends before it returns."""
        ends, self._ends = self._ends, []
        for end in ends:
            with suppress(OSError):  # it may have ended already
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)


@pytest.fixture
def cutter(service: Service) -> Iterator[Cutter]:
    made = Cutter(int(service.url.rpartition(":")[2]))
    yield made
    made.close()


def test_the_story_goes_on_while_connections_break(cutter: Cutter, connect: Connect, expected: list[Any]) -> None:
    with connect(cutter.url, patience=PATIENCE) as client:
        assert story(client, cutter.cut) == expected


def test_a_waiting_pop_outlives_its_connection(service: Service, cutter: Cutter, connect: Connect) -> None:
    """What the service handed out to the lost connection comes back: the job is there once, and its attempt is the first."""
    with (
        connect(cutter.url, patience=PATIENCE) as client,
        connect(service.url) as direct,
        ThreadPoolExecutor(1) as elsewhere,
    ):
        waiting = elsewhere.submit(client.topic("orders").pop, wait="2m")
        until(lambda: service.held_requests() == 1)
        cutter.cut()
        direct.topic("orders").add("tea")
        job = waiting.result(LONGEST_S)
        assert job is not None
        assert (job.body, job.attempt) == ("tea", 1)
        direct.topic("orders").finish(job)


def test_the_story_with_a_token(
    start: Start,  # noqa: F811
    connect: Connect,
    valkey_url: str,
    namespace: str,
    expected: list[Any],
) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(tarry.Client(valkey_url))

        def token(*scopes: Any) -> tuple[str, str]:
            text, id, record = tokens.create_token(os.urandom, scopes)
            server.engine.run(tokens.store_token(namespace, id, record))
            stack.callback(lambda: server.engine.run(tokens.delete_token(namespace, id)))
            return text, id

        def client(token: str | None) -> Any:
            return stack.enter_context(connect(url, token=token))

        (full, id), (produce, _), (view, _) = token("admin"), token("produce"), token("view")
        url = start("--namespace", namespace).url
        admin, producer, viewer, stranger = map(client, (full, produce, view, None))
        assert story(admin) == expected
        assert producer.topic("orders").add("tea", id="1").is_new
        assert viewer.topic("orders").stats().ready == 1
        for refused in (
            producer.topic("orders").pop,
            lambda: viewer.topic("orders").add("milk"),
            lambda: producer.topic("orders").purge(),
            stranger.topics,
        ):
            with pytest.raises(tarry.NotAllowed):
                refused()
        server.engine.run(tokens.delete_token(namespace, id))

        def is_refused() -> bool:
            try:
                admin.topics()
            except tarry.NotAllowed:
                return True
            return False

        until(is_refused)
