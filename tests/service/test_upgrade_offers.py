"""Requests that offer an upgrade to HTTP/2, as Java's HttpClient does: no byte of a body changes, and nobody gets another's answer."""

from __future__ import annotations

import asyncio
import math
import re
import shutil
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

import tarry
from service.echo_service import proxy
from service.running_service import Api, RunningService
from service.test_protocol import connect_to, head_of
from service.test_tokens import Make, guarded, make  # noqa: F401  # fixtures
from tarry.programs.service.heads import LONGEST_HEAD
from tarry.programs.service.protocol import HTTPProtocol
from tarry.programs.serving import request as requests
from tarry.programs.serving.connection_limits import HEAD_S, FileShares, PortLimits
from tarry.programs.serving.request import MOST_DROPPED
from until import LONGEST_S

HERE = Path(__file__).parent
OFFER = b"\r\nUpgrade: h2c"
CONNECTION = b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB"
JAVA = ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""It runs for a second: a better compiler, and a collector with threads of its own, cost more than they save."""
Requests = list[tuple[str, str, bytes]]


def request(method: str, path: str, body: bytes = b"", *, more: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
    return head + more + b"Content-Length: %d\r\n\r\n" % len(body) + body


def statuses(answered: bytes) -> list[bytes]:
    return re.findall(rb"HTTP/1.1 (\d+) ", answered)


# ── the protocol, read by read ───────────────────────────────────────────────────────────────────────────────────────


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.sent, self.paused, self.is_closed, self.ended = b"", False, False, asyncio.Event()

    def write(self, data: Any) -> None:
        self.sent += data

    def writelines(self, parts: Any) -> None:
        self.sent += b"".join(parts)

    def close(self) -> None:
        self.is_closed = True
        self.ended.set()

    def is_closing(self) -> bool:
        return self.is_closed

    @property
    def closed(self) -> bool:
        return self.ended.is_set()

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended.set()

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


@cache
def configured() -> uvicorn.Config:
    """Each connection puts its own application in: to load one anew would be a tenth of what a connection costs."""
    config = uvicorn.Config(lambda: None, interface="asgi3", ws="none", log_config=None, proxy_headers=False)
    config.load()
    return config


class Connection:
    """One connection of the service's protocol, to an application that notes what it gets. ``/early`` is answered before its body."""

    def __init__(self, limits: PortLimits | None = None) -> None:
        self.got: Requests = []
        self.gone: list[str] = []
        self.wire = Wire()
        self._state = ServerState()
        self.limits = PortLimits(FileShares(math.inf), bool, bool) if limits is None else limits
        self.protocol = HTTPProtocol(config=configured(), server_state=self._state, app_state={}, limits=self.limits)
        self.protocol.app = self._app
        self.protocol.connection_made(self.wire)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", scope["path"] != "/early"
        while more:
            message = await receive()
            if message["type"] != "http.request":
                self.gone.append(scope["path"])
                return
            body, more = body + message["body"], message["more_body"]
        self.got.append((scope["method"], scope["path"], body))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def read(self, *parts: bytes) -> None:
        """What a client sends, read by read. Between them all is done that can be."""
        for part in parts:
            if part and not self.wire.closed:
                self.protocol.data_received(part)
            left = 3
            for _ in range(40):
                await asyncio.sleep(0)
                is_waiting = bool(self.protocol._input._kept)  # bytes that wait for their turn
                left = 3 if is_waiting else left - 1
                if not left or not (is_waiting or self._state.tasks):
                    break

    async def end(self) -> None:
        self.protocol.connection_lost(None)
        await asyncio.gather(*self._state.tasks)

    @property
    def answers(self) -> list[bytes]:
        return statuses(self.wire.sent)


def judge(seen: Connection, expected: Requests, where: Any) -> None:
    """All requests came as they were sent, or the first ones did, and then the connection ended with a refusal."""
    assert seen.got == expected[: len(seen.got)], where
    refused = seen.answers[len(seen.got) :]
    assert seen.answers[: len(seen.got)] == [b"200"] * len(seen.got), where
    if refused:
        assert (refused, seen.wire.closed) == ([b"400"], True), where
    elif not seen.wire.closed:
        assert seen.got == expected, where


BODIES = (b'{"a": 1}', b"two", b"")
PATHS = (("POST", "/early"), ("POST", "/b"), ("GET", "/c"))


def head(number: int, size: int) -> bytes:
    method, path = (word.encode() for word in PATHS[number])
    return b"%s %s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nContent-Length: %d\r\n\r\n" % (method, path, size)


def pipelined() -> Iterator[tuple[list[bytes], list[bytes]]]:
    """The heads and bodies of three requests, with an offer at every byte of one of them."""
    for number in range(3):
        heads, body = [head(k, len(BODIES[k])) for k in range(3)], BODIES[number]
        for at in range(len(heads[number])):
            inside = heads[number][:at] + OFFER + heads[number][at:]
            yield [*heads[:number], inside, *heads[number + 1 :]], list(BODIES)
        for at in range(len(body) + 1):
            bodies = [*BODIES[:number], body[:at] + OFFER + b"\r\n" + body[at:], *BODIES[number + 1 :]]
            yield [head(k, len(bodies[k])) for k in range(3)], bodies


def is_valid(head: bytes, body: bytes) -> bool:
    """Whether it still is a head: an offer in its midst may have made two lines of one, or have ended it."""
    lines = rb"(GET|POST) /\w+ HTTP/1\.1(\r\n[\w-]+:[^\r\n]*)+\r\n\r\n"
    return re.fullmatch(lines, head) is not None and b"\r\nContent-Length: %d\r\n" % len(body) in head


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("step", [32, pytest.param(1, marks=pytest.mark.long)])
async def test_an_offer_at_every_byte_of_pipelined_requests_changes_no_body(step: int) -> None:
    """Cut into two reads, at each byte in and beside the offer, or at each fourth, and elsewhere at each ``step``th, from another one for each
    offer. Once per offer: each request as a read of its own, and, for every 16th or for all, in reads of one byte."""
    tried: Counter[str] = Counter()
    for number, (heads, bodies) in enumerate(pipelined()):
        requests = [head + body for head, body in zip(heads, bodies, strict=True)]
        says = [(*PATHS[k], b"" if k == 0 else bodies[k]) for k in range(3)]
        stream = b"".join(requests)
        offered = stream.index(OFFER)
        near = range(max(offered - 4, 0), offered + len(OFFER) + 4)[number % min(step, 4) :: min(step, 4)]
        ways = [[stream[:at], stream[at:]] for at in range(len(stream)) if at in near or at % step == number % step]
        ways += [requests]
        if number % min(step, 16) == 0:
            ways += [[stream[k : k + 1] for k in range(len(stream))]]
        for reads in ways:
            seen = Connection()
            await seen.read(*reads)
            if not all(map(is_valid, heads, bodies)):
                assert all(b"\r\n\r\n" + body in stream for _, _, body in seen.got), reads
            elif reads is requests:
                assert seen.got == says, "an offer at the begin of a read is ignored"
            else:
                judge(seen, says, reads)
                tried["all" if seen.got == says else "refused"] += 1
            await seen.end()
    assert min(tried["all"], tried["refused"]) > (1000 if step == 1 else 250)


@pytest.mark.anyio
async def test_an_offer_behind_an_open_response_is_refused_after_it() -> None:
    seen = Connection()
    offering = request("POST", "/b", b"12", more=CONNECTION + OFFER + b"\r\n")
    await seen.read(request("POST", "/a", b"1") + offering + request("POST", "/c", b"3"))
    assert seen.got == [("POST", "/a", b"1")]
    assert seen.answers == [b"200", b"400"]
    assert seen.wire.closed
    assert b"leave out the line Upgrade" in seen.wire.sent
    await seen.end()


@pytest.mark.anyio
@pytest.mark.parametrize(
    "line",
    [b"Upgrade: h2c", b"UPGRADE:h2c", b"upgrade: \t h2c ", b"Upgrade: TLS/1.2", b"Upgrade: h2c\r\nUpgrade: websocket"],
)
async def test_any_upgrade_that_a_request_begins_a_read_with_is_ignored(line: bytes) -> None:
    seen = Connection()
    for _ in range(3):
        whole = request("POST", "/b", OFFER + b"\r\n\r\n", more=CONNECTION + b"\r\n" + line + b"\r\n")
        for reads in ((whole,), (whole[:-9], whole[-9:]), tuple(whole[k : k + 1] for k in range(len(whole)))):
            await seen.read(*reads)
    assert seen.got == [("POST", "/b", OFFER + b"\r\n\r\n")] * 9
    assert not seen.wire.closed
    await seen.end()


@pytest.mark.anyio
async def test_nothing_is_read_behind_a_body_that_comes_after_an_early_answer() -> None:
    body = OFFER + b"\r\n\r\n"
    early, after = (request("POST", path, body, more=CONNECTION + OFFER + b"\r\n") for path in ("/early", "/b"))
    for size in range(len(body) + 1):
        seen = Connection()
        await seen.read(early[: len(early) - size], early[len(early) - size :] + after)
        assert (seen.got, seen.wire.closed) == (
            [("POST", "/early", b"")] + [("POST", "/b", body)] * (not size),
            size > 0,
        )
        await seen.end()


@pytest.mark.anyio
async def test_a_line_that_is_continued_is_not_removed() -> None:
    """What continues it would be part of the line before."""
    seen = Connection()
    await seen.read(request("POST", "/b", b"1", more=CONNECTION + OFFER + b"\r\n 7\r\n"))
    assert (seen.got, seen.answers, seen.wire.closed) == ([], [b"400"], True)
    await seen.end()


@pytest.mark.anyio
async def test_a_head_that_is_kept_back_has_the_limits_of_others() -> None:
    long = Connection()
    await long.read(b"GET / HTTP/1.1\r\nHost: x\r\n", b"Long: " + b"x" * LONGEST_HEAD)
    assert (long.answers, long.wire.closed) == ([b"431"], True)
    await long.end()
    slow = Connection()
    await slow.read(request("GET", "/c"), b"GET / HTT")
    now = asyncio.get_running_loop().time()
    slow.limits.look(now)
    slow.limits.look(now + HEAD_S)
    assert slow.wire.ended.is_set()
    assert slow.answers == [b"200", b"408"]
    await slow.end()


# ── the service ──────────────────────────────────────────────────────────────────────────────────────────────────────


def all_of(line: socket.socket) -> bytes:
    return b"".join(iter(lambda: line.recv(65536), b""))


def swallowing(size: int) -> bytes:
    """Lines of offers, as a body, of which a filter that reads bodies would remove as many bytes."""
    parts: list[bytes] = []
    while size:
        taken = size if 14 <= size < 28 else 14
        parts.append(b"\r\nupgrade:" + b" " * (taken - 13) + b"h2c")
        size -= taken
    return b"".join(parts) + b"\r\n"


def test_a_body_after_an_early_answer_hides_no_request(real: Api) -> None:
    """The second request's body is a request: nobody answers it, also if the first one's body has many offers."""
    hidden = request("GET", f"/v1/topics?namespace={real.namespace}")
    second = request("POST", "/nothing", hidden, more=b"Connection: close\r\n")
    body = swallowing(len(second) - len(hidden))
    with connect_to(real) as line:
        line.sendall(request("POST", "/nothing", body)[: -len(body)])
        assert head_of(line).startswith(b"HTTP/1.1 404 ")
        line.sendall(body)
        real.get("/v1/topics")  # it was read
        line.sendall(second)
        assert statuses(all_of(line)) == [], "the connection ended with the early answer"


@pytest.mark.parametrize("late", [0, 1, 2, 3, 4])
def test_a_head_whose_end_comes_with_the_body_changes_no_body(real: Api, late: int) -> None:
    body = b'{"id": "split", "body": "' + OFFER.replace(b"\r\n", b"\\r\\n") + b'"' + OFFER[:2] + b"\t}" + b" " * 20
    whole = request("POST", f"/v1/topics/orders/jobs?namespace={real.namespace}", body)
    at = len(whole) - len(body) - late
    with connect_to(real) as line:
        line.sendall(whole[:at])
        real.get("/v1/topics")
        line.sendall(whole[at:])
        assert head_of(line).startswith(b"HTTP/1.1 201 ")
    assert real.post("/v1/topics/orders/pop", {})["body"] == OFFER.decode()


@pytest.mark.slow
def test_java_adds_jobs_over_one_connection(
    guarded: RunningService,  # noqa: F811  # a fixture
    make: Make,  # noqa: F811  # a fixture
    namespace: str,
    valkey_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its HttpClient offers HTTP/2 with each request; some have a late body, some come after a 401 or a 413. The service waits for a
    body that is refused for as long as a busy machine may take; a longer one's answer, every second 413, ends the connection."""
    if shutil.which("javac") is None:
        pytest.skip("needs openjdk-17-jdk-headless (apt install openjdk-17-jdk-headless)")
    path, connections, read_head = (
        f"/v1/topics/{namespace}/jobs",
        list[HTTPProtocol](),
        HTTPProtocol.on_headers_complete,
    )

    def noted(self: HTTPProtocol) -> None:
        if self.url == path.encode():
            connections.append(self)
        read_head(self)

    monkeypatch.setattr(HTTPProtocol, "on_headers_complete", noted)
    monkeypatch.setattr(requests, "DROP_S", LONGEST_S)
    monkeypatch.setattr(guarded.app, "settings", replace(guarded.app.settings, max_request_body=MOST_DROPPED - 1))
    words = [*JAVA, str(HERE / "java" / "Offers.java"), guarded.url, path, make("produce")]
    words += [str(MOST_DROPPED), str(MOST_DROPPED + 1)]
    told = subprocess.run(words, check=False, capture_output=True, text=True, timeout=300)
    assert (told.returncode, told.stderr) == (0, "")
    assert Counter(told.stdout.split()) == {"201": 100, "401": 10, "413": 10}
    assert len(connections) == 120
    refused = accumulate(status == "413" for status in told.stdout.split())
    for (one, other), status, count in zip(pairwise(connections), told.stdout.split()[:-1], refused, strict=False):
        assert one is other or (status == "413" and count % 2 == 0)
    with tarry.Client(valkey_url, namespace="guarded") as client:
        jobs = client.topic(namespace).pop_many(101)
        assert {job.id: job.body for job in jobs} == {str(k): f"{OFFER.decode()}\r\n{k}" for k in range(100)}
        client.topic(namespace).purge()


def size_from_haproxy(folder: Path, said: bytes) -> int:
    """How long the head of a request is when HAProxy sends it on."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        proxy("haproxy", folder, listener.getsockname()[1]) as port,
        socket.create_connection(("127.0.0.1", port), timeout=LONGEST_S) as line,
    ):
        line.sendall(said)
        with listener.accept()[0] as accepted:
            return len(head_of(accepted).partition(b"\r\n\r\n")[0]) + 4


@pytest.mark.slow
def test_nobody_behind_haproxy_gets_the_answer_of_another(real: Api, tmp_path: Path) -> None:
    hidden = request("GET", f"/v1/topics?namespace={real.namespace}")
    second = request("POST", "/nothing", hidden, more=b"Connection: close\r\n")
    body = swallowing(size_from_haproxy(tmp_path, second))
    with proxy("haproxy", tmp_path, int(real.url.rpartition(":")[2])) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=LONGEST_S) as line:
            line.sendall(request("POST", "/nothing", body)[: -len(body)])
            assert head_of(line).startswith(b"HTTP/1.1 404 ")
            line.sendall(body)
            for _ in range(5):
                real.get("/v1/topics")  # it was read
            line.sendall(second)
            answered = all_of(line)
        assert b'"topics"' not in answered, "HAProxy forbids it"
        with socket.create_connection(("127.0.0.1", port), timeout=LONGEST_S) as line:
            line.sendall(request("GET", "/version", more=b"Connection: close\r\n"))
            answer = all_of(line)
        assert statuses(answer) == [b"200"]
        assert b'"version"' in answer, "the next visitor's answer is its own"
