"""An HTTP client at the address of another program, or with an invalid address or token."""

from __future__ import annotations

import asyncio
import inspect
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import tarry
from tarry import BadInput, NotAllowed, ServerUnfit, Unavailable
from tarry.clients.http.config import HTTPClientConfig
from tarry.clients.http.requests import HTTPRequest, ServiceAddress, unavailable_error
from tarry.verbs.jobs import durability
from tarry.verbs.jobs.options import JobOptions
from walked import cases

PAGE = b"<html><body>Please log in.</body></html>"
SECRET = "tarry_abc_geheim"
KINDS = [tarry.HTTPClient, tarry.AsyncHTTPClient]


@contextmanager
def stranger(status: int, body: bytes, **headers: str) -> Iterator[str]:
    """Something else that speaks HTTP, and has one answer for all."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def __getattr__(self, name: str) -> Any:
            if name.startswith("do_"):
                return self.answer
            raise AttributeError(name)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def perform(client: Any, *acts: Callable[[Any], Any]) -> list[Exception | None]:
    """What each of some verbs raises, awaited where they are."""

    async def story() -> list[Exception | None]:
        found: list[Exception | None] = []
        for act in acts:
            try:
                answer = act(client)
                if inspect.isawaitable(answer):
                    await answer
            except Exception as fault:  # noqa: BLE001  # each is looked at
                found.append(fault)
            else:
                found.append(None)
        closing = client.close()
        if inspect.isawaitable(closing):
            await closing
        return found

    return asyncio.run(story())


ACTS: list[Callable[[Any], Any]] = [
    lambda c: c.topics(),
    lambda c: c.workers(),
    lambda c: c.pop("orders"),
    lambda c: c.topic("orders").add(1),
    lambda c: c.topic("orders").add_many([1, 2]),
    lambda c: c.topic("orders").pop_many(3),
    lambda c: c.topic("orders").resume(),
    lambda c: c.topic("orders").stats(),
    lambda c: c.topic("orders").get("7"),
    lambda c: c.topic("orders", partitions=4).add(1),
    lambda c: c.schedules.put("orders", "tidy", every="1h"),
    lambda c: c.schedules.pause("orders", "tidy"),
    lambda c: c.schedules.list(),
    lambda c: c.delayed_queue("q", codec="string").offer("tea", 1),
    lambda c: c.blocking_queue("q", codec="string").put("tea"),
    lambda c: c.blocking_queue("q", codec="string").poll(),
    lambda c: c.guarded_queue("g").push({"tea": 1}),
    lambda c: c.guarded_queue("g").poll(),
    lambda c: c.map_cache("m").size(),
    lambda c: c.lock("l").state(),
    lambda c: c.migrate("orders", c.topic("letters")),
]


@cases("kind", KINDS)
@cases(("status", "body"), [(200, PAGE), (200, b'"tea"'), (200, b"\xff"), (200, b"[" * 5000), (301, b""), (404, PAGE)])
def test_a_server_that_is_not_a_tarry_service_is_reported(kind: Any, status: int, body: bytes) -> None:
    with stranger(status, body, location="/") as url:
        for fault in perform(kind(url, patience=60), *ACTS):  # none of them is asked again
            assert isinstance(fault, ServerUnfit), fault
            assert f"at {url} is no tarry service" in str(fault)


@pytest.mark.parametrize("kind", KINDS)
def test_a_badly_compressed_response_raises_server_unfit(kind: Any) -> None:
    with stranger(200, PAGE, content_encoding="gzip") as url:
        (fault,) = perform(kind(url), lambda client: client.topics())
    assert isinstance(fault, ServerUnfit)


@pytest.mark.parametrize("kind", KINDS)
def test_refusals_of_a_proxy_become_the_matching_exceptions(kind: Any) -> None:
    for status, body, expected in (
        (403, PAGE, NotAllowed),
        (413, PAGE, BadInput),
        (502, PAGE, Unavailable),
        (409, b'{"code": "stale_receipt", "reasons": 5}', BadInput),
        (500, b'{"code": "fallen_behind", "lateness_ms": "late"}', Unavailable),
    ):
        with stranger(status, body) as url:
            (fault,) = perform(kind(url, patience=0 if status == 502 else 60), lambda client: client.topics())
        assert isinstance(fault, expected), fault


@cases("kind", KINDS)
@cases(
    "given",
    [
        {"url": 5},
        {"url": b"http://h:1"},
        {"url": "http://h:1/a b"},
        {"url": "http://h\n.example"},
        {"url": "http://\udc80"},
        {"url": "http://h:1?x=1"},
        {"url": "me:geheim@host"},
        {"token": "geheimü"},
        {"token": "geheim\nx-more: yes"},
        {"token": "Bearer geheim"},
        {"token": 5},
        {"namespace": 5},
        {"patience": "soon"},
    ],
)
def test_an_invalid_address_or_token_is_refused_at_once(kind: Any, given: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as told:
        kind(**given)
    assert "geheim" not in str(told.value)


@pytest.mark.parametrize("kind", KINDS)
def test_an_invalid_host_name_is_refused(kind: Any) -> None:
    (fault,) = perform(kind("http://xn--ü.example"), lambda client: client.topics())
    assert isinstance(fault, BadInput)


def test_line_ends_around_urls_and_tokens_are_stripped(monkeypatch: pytest.MonkeyPatch) -> None:
    place = ServiceAddress.find(" http://h:1/ \n", None, SECRET + "\n")
    assert (place.url, place.token) == ("http://h:1", SECRET)
    monkeypatch.setenv("TARRY_SERVICE_URL", "http://there:2\n")
    monkeypatch.setenv("TARRY_TOKEN", SECRET + "\r\n")
    place = ServiceAddress.find(None, None, None)
    assert (place.url, place.token) == ("http://there:2", SECRET)
    assert SECRET not in repr(place)


def test_an_error_never_quotes_a_header() -> None:
    import httpx

    quoting = httpx.LocalProtocolError(f"Illegal header value b'Bearer {SECRET}'")
    told = unavailable_error(ServiceAddress.find("http://h:1", None, SECRET), 1.0, quoting)
    assert SECRET not in str(told)
    assert told.__cause__ is None
    assert told.__suppress_context__
    plain = httpx.ConnectError("Connection refused")
    assert unavailable_error(ServiceAddress.find("http://h:1", None, SECRET), 1.0, plain).__cause__ is plain


def test_a_server_that_does_not_speak_http_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            line, _ = listener.accept()
            with line:
                line.recv(65536)
                line.sendall(b"-ERR unknown command\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with tarry.HTTPClient(url, patience=0, token=SECRET) as client, pytest.raises(Unavailable, match="speak HTTP"):
            client.topics()
        thread.join(10)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_hanging_service_is_awaited_no_longer_than_patience_and_wait(kind: Any) -> None:
    """A listener whose connections nobody accepts: what a stopped process looks like."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        began = time.monotonic()
        faults = perform(
            kind(f"http://127.0.0.1:{listener.getsockname()[1]}", patience=1),
            lambda client: client.topic("orders").add(1),
            lambda client: client.topic("orders").pop(wait=0.2),
        )
        spent = time.monotonic() - began
    assert [type(fault) for fault in faults] == [Unavailable, Unavailable]
    assert spent < 8, "one answer may take no ten seconds"


def test_the_request_timeout_follows_patience_and_wait() -> None:
    origin = HTTPClientConfig(ServiceAddress.find("http://h:1", None, None), 1024, 3)

    def within(tries: int, spent: float, wait: float = 0) -> float:
        clock = iter([0, spent])
        begun = origin.patience.start(lambda: next(clock))
        begun.tries = tries
        timeouts = origin.as_sent(HTTPRequest("GET", "/", bytes.decode, wait=wait), begun).extensions["timeout"]
        [found] = set(timeouts.values())
        return found

    assert (within(0, 0), within(0, 0, wait=60)) == (3, 63)
    assert (within(1, 2), within(1, 2, wait=60)) == (1, 61)
    assert 0 < within(5, 3) < 0.1
    request = tarry.HTTPClient("http://h:1").topic("orders").verbs.add("tea", JobOptions(durability="replicated"), None)
    assert request.wait == durability.WITHIN_MS / 1000


CLIENTS = [
    *((kind, "http://127.0.0.1:1") for kind in KINDS),
    (tarry.Client, "redis://127.0.0.1:1"),
    (tarry.AsyncClient, "redis://127.0.0.1:1"),
]


@pytest.mark.parametrize(("kind", "url"), CLIENTS)
def test_an_argument_that_is_not_a_handle_is_refused_with_a_message(kind: Any, url: str) -> None:
    refused: dict[str, Callable[[Any], Any]] = {
        "a value of type list is no": lambda c: c.pop(["a", "b"]),
        "a value of type NoneType is no": lambda c: c.pop("a", None),
        "to: 'b' is a name": lambda c: c.migrate("a", "b"),
        "queue: 'Q' is a name": lambda c: c.migrate_queue("Q", "t"),
        "to: a value of type int is no": lambda c: c.migrate_queue(c.delayed_queue("Q"), 7),
        "topic: a value of type bytes is no": lambda c: c.migrate(b"a", c.topic("b")),
        "to: a value of type .*DelayedQueue is no": lambda c: c.migrate("a", c.delayed_queue("Q")),
        "at least": lambda c: c.pop(),
    }
    for words, fault in zip(refused, perform(kind(url, patience=0), *refused.values()), strict=True):
        assert isinstance(fault, BadInput), fault
        assert re.search(words, str(fault))


def test_a_topic_of_another_client_is_refused() -> None:
    far, near = tarry.HTTPClient("http://127.0.0.1:1", patience=0), tarry.Client("redis://127.0.0.1:1", patience=0)
    with far, near:
        with pytest.raises(BadInput, match="is of a service"):
            near.pop(far.topic("orders"))
        for other in (near, tarry.HTTPClient("http://127.0.0.1:2")):
            with pytest.raises(BadInput, match="not of this service"):
                far.pop(other.topic("orders"))
