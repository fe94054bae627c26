"""HTTP's rules, in raw bytes: repeated headers, sizes, timeouts, the number of connections."""

from __future__ import annotations

import json
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

import tarry
from service.running_dashboard import serve_dashboard
from service.running_service import Api, RunningService, serve
from service.test_process import Start, start  # noqa: F401  # a fixture
from service.test_tokens import Make, make  # noqa: F401  # a fixture
from tarry.programs.dashboard import forms
from tarry.programs.service.settings import ServiceSettings
from tarry.programs.serving import connection_limits
from until import LONGEST_S, until

JOBS = "/v1/topics/orders/jobs"
GET = b"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\n"


def connect_to(url: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=LONGEST_S)


class Answer:
    """What came back, until the connection was closed."""

    def __init__(self, said: bytes) -> None:
        self.head, _, self.body = said.partition(b"\r\n\r\n")
        self.status = int(self.head.split(b" ", 2)[1]) if said else 0

    @property
    def code(self) -> Any:
        return json.loads(self.body)["code"]


def rest_of(line: socket.socket) -> bytes:
    """Everything until the service closes."""
    with closing(line):
        said = b""
        try:
            while some := line.recv(65536):
                said += some
        except ConnectionResetError:
            pass
        return said


def asked(url: str, said: bytes) -> Answer:
    """The answer to a request that says to close the connection."""
    line = connect_to(url)
    line.sendall(said)
    return Answer(rest_of(line))


def chunked(api: Api, head: bytes = b"", trailer: bytes = b"") -> bytes:
    place = f"POST {JOBS}?namespace={api.namespace} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n".encode()
    kind = b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    return place + kind + head + b"\r\n" + b'b\r\n{"body": 7}\r\n0\r\n' + trailer + b"\r\n"


# ── what a head says ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "field", [b"origin: http://evil.example", b"host: evil.example", b"sec-fetch-site: cross-site"]
)
def test_trailer_fields_are_not_headers(real: Api, field: bytes) -> None:
    assert asked(real.url, chunked(real, trailer=field + b"\r\n")).status == 201
    assert asked(real.url, chunked(real, head=field + b"\r\n")).status in (400, 403)


@pytest.fixture(scope="module")
def guarded(valkey_url: str) -> Iterator[RunningService]:
    with serve_dashboard(valkey_url, ServiceSettings(namespaces=("guarded",), tokens=True)) as running:
        yield running


def test_a_token_in_a_trailer_is_ignored(guarded: RunningService, make: Make) -> None:  # noqa: F811
    api = Api(guarded.url, "guarded")
    good = b"authorization: Bearer " + make("produce").encode() + b"\r\n"
    until(lambda: asked(api.url, chunked(api, head=good)).status == 201)
    assert asked(api.url, chunked(api, trailer=good)).status == 401
    assert asked(api.url, chunked(api, head=good, trailer=b"authorization: Bearer no\r\n")).status == 201


@pytest.mark.parametrize("field", [b"Authorization: Bearer x", b"Origin: http://localhost", b"Idempotency-Key: k"])
def test_duplicate_singleton_headers_are_refused(real: Api, field: bytes) -> None:
    for other in (field, field[:-1] + b"y", field.lower(), field.upper()):
        answer = asked(real.url, GET + field + b"\r\n" + other + b"\r\nConnection: close\r\n\r\n")
        assert (answer.status, answer.code) == (400, "bad_input"), other


def test_exactly_one_host_header_is_required(real: Api) -> None:
    for hosts, status in ((b"Host: localhost\r\n", 200), (b"Host: localhost\r\n" * 2, 400), (b"", 400)):
        said = b"GET /healthz HTTP/1.1\r\nConnection: close\r\n" + hosts + b"\r\n"
        assert asked(real.url, said).status == status, hosts
    assert asked(real.url, b"GET /healthz HTTP/1.0\r\n\r\n").status == 200
    for path in ("/sign-in", "/"):
        doubled = f"GET {path} HTTP/1.1\r\nConnection: close\r\n" + "Host: localhost\r\n" * 2 + "\r\n"
        assert asked(real.url, doubled.encode()).status == 400


@pytest.mark.parametrize("coding", ["gzip", "br", "identity, gzip", "GZIP", "x"])
def test_an_encoded_body_is_refused(real: Api, coding: str) -> None:
    for media in ("application/json", "text/plain"):
        headers = {"content-encoding": coding, "content-type": media}
        answer = real("POST", JOBS, content=b'{"body": 7}', headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (415, "wrong_coding")
        assert answer.headers["accept-encoding"] == "identity"
    two = b"Content-Encoding: gzip\r\nContent-Encoding: identity\r\n"
    assert asked(real.url, chunked(real, head=two)).status == 415
    plain = {"content-encoding": "Identity", "content-type": "application/json"}
    assert real("POST", JOBS, content=b'{"body": 7}', headers=plain).status_code == 201


def test_an_endless_trailer_is_cut_off(real: Api) -> None:
    line = connect_to(real.url)
    head, _, _ = chunked(real).partition(b"0\r\n\r\n")
    line.sendall(head + b"0\r\nx: ")
    try:
        for _ in range(1000):
            line.sendall(b"x" * 65536)
    except OSError:
        pass
    else:
        pytest.fail("64 MB of one field were read")
    line.close()


# ── how long it takes ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Limits that a test can wait for."""
    monkeypatch.setattr(connection_limits, "LOOK_S", 0.05)

    def limit(**limits: float) -> None:
        for name, seconds in limits.items():
            monkeypatch.setattr(forms if hasattr(forms, name) else connection_limits, name, seconds)

    return limit


def drip(line: socket.socket, piece: bytes) -> Answer:
    """The answer to a client that keeps sending, and never completes its request."""
    line.settimeout(0.05)
    said = b""
    while True:
        try:
            line.sendall(piece)
            some = line.recv(65536)
        except TimeoutError:
            continue
        except OSError:
            some = b""
        said += some
        if not some:
            line.close()
            return Answer(said)


def test_a_slow_head_times_out(real: Api, short_timeouts: Callable[..., None]) -> None:
    short_timeouts(HEAD_S=0.3)
    line = connect_to(real.url)
    line.sendall(GET + b"x: ")
    answer = drip(line, b"x")
    assert (answer.status, answer.code) == (408, "too_slow")


def test_a_silent_connection_is_closed(real: Api, short_timeouts: Callable[..., None]) -> None:
    short_timeouts(HEAD_S=0.1)
    assert rest_of(connect_to(real.url)) == b""


def test_empty_lines_do_not_keep_a_connection_open(real: Api, short_timeouts: Callable[..., None]) -> None:
    short_timeouts(HEAD_S=0.3)
    line = connect_to(real.url)
    line.sendall(GET + b"\r\n")
    assert line.recv(65536).startswith(b"HTTP/1.1 200")
    drip(line, b"\r\n")


def test_a_pipelined_head_times_out_too(real: Api, short_timeouts: Callable[..., None]) -> None:
    """It began in the packet in which the first request ended."""
    short_timeouts(HEAD_S=0.3)
    line = connect_to(real.url)
    line.sendall(GET + b"\r\n" + GET)
    assert [part[:4] for part in rest_of(line).split(b"HTTP/1.1 ")] == [b"", b"200 ", b"408 "]


def test_an_idle_connection_is_closed_after_keep_alive(valkey_url: str, short_timeouts: Callable[..., None]) -> None:
    short_timeouts(IDLE_S=0.2)
    with serve(lambda name: tarry.AsyncClient(valkey_url, namespace=name)) as running:
        line = connect_to(running.url)
        for _ in range(2):
            line.sendall(GET + b"\r\n")
            said = b""
            while not said.endswith(b"}"):
                said += line.recv(65536)
            assert said.startswith(b"HTTP/1.1 200")
        assert rest_of(line) == b""


def test_a_waiting_pop_has_no_request_timeout(
    running_service: RunningService, real: Api, short_timeouts: Callable[..., None]
) -> None:
    """Also when the next request has begun meanwhile."""
    short_timeouts(HEAD_S=0.1, LAST_S=0.1)
    body = b'{"wait": 30}'
    place = f"POST /v1/topics/orders/pop?namespace={real.namespace} HTTP/1.1\r\nHost: localhost\r\n"
    with connect_to(real.url) as line, connect_to(real.url) as stream:
        stream.sendall(f"GET /v1/events?namespace={real.namespace} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert b"200" in stream.recv(65536)
        line.sendall(f"{place}Content-Length: {len(body)}\r\n\r\n".encode() + body + b"GET /heal")
        until(lambda: running_service.app.held_requests >= 2)
        assert rest_of(connect_to(real.url)) == b""  # as long as a head has
        assert rest_of(connect_to(real.url)) == b""
        real.post(JOBS, {"body": "tea"}, 201)
        assert [part[:4] for part in rest_of(line).split(b"HTTP/1.1 ")] == [b"", b"200 ", b"408 "]
        said = b""
        while b"event: stats" not in said:
            said += stream.recv(65536)


@pytest.mark.parametrize("field", [b"Content-Length: 1000000\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_a_slow_body_times_out(real: Api, short_timeouts: Callable[..., None], field: bytes) -> None:
    short_timeouts(REQUEST_S=0.4, RATE_WINDOW_S=0.2)
    line = connect_to(real.url)
    place = f"POST {JOBS}?namespace={real.namespace} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
    line.sendall(place.encode() + field + b"\r\n")
    answer = drip(line, b"1\r\nx\r\n" if b"chunked" in field else b"x")
    assert (answer.status, answer.code) == (408, "too_slow")


def test_the_rest_of_a_refused_body_times_out(real: Api, short_timeouts: Callable[..., None]) -> None:
    short_timeouts(LAST_S=0.3)
    line = connect_to(real.url)
    line.sendall(b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
    assert drip(line, b"x").status == 404


@pytest.mark.parametrize("field", [b"Content-Length: 1000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n3e8\r\n"])
def test_a_body_that_comes_after_the_answer_ends_the_connection(real: Api, field: bytes) -> None:
    """The client gets the whole answer, though it still sends; what comes behind the body is not looked at."""
    line = connect_to(real.url)
    line.sendall(b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\n" + field)
    answer = line.recv(65536)
    line.sendall(b"x" * 1000 + b"\r\n0\r\n\r\n" * (b"chunked" in field) + GET + b"\r\n")
    answer = Answer(answer + rest_of(line))
    assert (answer.status, answer.code) == (404, "unknown_route")


# ── the page that asks for a token ───────────────────────────────────────────────────────────────────────────────────

FORM = (
    b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\nConnection: close\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\n"
)


def test_a_slow_form_times_out(guarded: RunningService, short_timeouts: Callable[..., None]) -> None:
    short_timeouts(FORM_TIMEOUT_S=0.4)
    line = connect_to(guarded.url)
    line.sendall(FORM + b"Content-Length: 1000\r\n\r\n")
    assert drip(line, b"x").status == 408


def test_a_sign_in_form_is_short_and_not_encoded(guarded: RunningService) -> None:
    long = b"token=" + b"x" * 5000
    assert asked(guarded.url, FORM + b"Content-Length: %d\r\n\r\n" % len(long) + long).status == 413
    coded = b"Content-Encoding: gzip\r\nContent-Length: 7\r\n\r\ntoken=x"
    assert asked(guarded.url, FORM + coded).status == 415
    assert asked(guarded.url, FORM + b"Content-Length: 7\r\n\r\ntoken=x").status == 403


def test_a_client_that_disconnects_within_a_form_leaves_no_trace(
    guarded: RunningService, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        line = connect_to(guarded.url)
        line.sendall(FORM + b"Content-Length: 1000\r\n\r\ntoken=")
        until(lambda: guarded.call(requests, guarded))
        line.close()
        until(lambda: not guarded.call(requests, guarded))
    assert caplog.records == []


def requests(running_service: RunningService) -> int:
    """How many requests are being answered."""
    import asyncio

    return sum("run_asgi" in repr(task) for task in asyncio.all_tasks(running_service.loop))


# ── how many there are ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_more_silent_connections_than_files_stop_nobody(start: Start) -> None:  # noqa: F811
    running = start("--namespace", "crowd", files=200)
    url = running.url
    assert resource.prlimit(running.child.pid, resource.RLIMIT_NOFILE) == (200, 200)
    with ExitStack() as stack:
        for number in range(600):
            stack.enter_context(connect_to(url))
            if number % 100 == 99:
                for path in (b"/v1/topics", b"/healthz", b"/readyz"):
                    request = b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                    assert asked(url, request).status == 200
    assert "Traceback" not in running.output
    assert "Too many open files" not in running.output
