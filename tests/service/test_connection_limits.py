"""How long connections live, in imaginary time on real sockets: a look of the service at its connections takes the time as an argument."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

import tarry
from service.running_service import RunningService, serve
from service.test_connections import Answer, asked, connect_to, rest_of
from service.test_tokens import Make, make, revoke  # noqa: F401  # a fixture
from tarry.programs.dashboard.mount import DashboardMount
from tarry.programs.service.settings import ServiceSettings
from tarry.programs.serving.connection_limits import (
    HEAD_S,
    LAST_S,
    MIN_RATE,
    MOST_SURPLUS,
    REQUEST_S,
    UNREAD_S,
    WHILE_DRAINING_S,
    FileShares,
    PortLimits,
)
from tarry.programs.serving.mounts import Mount
from tarry.programs.sqs import routes as sqs
from until import LONGEST_S, until

VERSION = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
DOCUMENT = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"


class LookedAt:
    """A service of the test's own, whose looks are of the test."""

    def __init__(self, running: RunningService) -> None:
        self.running = running
        [self.limits] = running.app.files.ports
        self.began: float = running.call(running.loop.time)

    def look(self, later: float) -> None:
        """What a look does so many seconds after the last connection was opened."""
        self.running.call(self.limits.look, self.began + later)

    def open(self, sent: bytes = b"") -> socket.socket:
        """A connection, whose first bytes have arrived. The time begins."""
        line = socket.socket()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.settimeout(LONGEST_S)
        before = self.running.call(set, self.limits)
        line.connect(("127.0.0.1", self.running.port))
        line.sendall(sent)
        until(lambda: any(one.received == len(sent) for one in self.running.call(set, self.limits) - before))
        self.began = self.running.call(self.running.loop.time)
        return line


def is_open(line: socket.socket) -> bool:
    """Whether nothing came, not even the end."""
    line.setblocking(False)
    try:
        line.recv(1)
    except BlockingIOError:
        return True
    except ConnectionError:
        pass
    finally:
        line.settimeout(LONGEST_S)
    return False


@pytest.fixture
def own(valkey_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[LookedAt]:
    monkeypatch.setattr(PortLimits, "_look_again", lambda *_: None)
    settings = ServiceSettings(namespaces=(namespace,))
    with serve(lambda name: tarry.AsyncClient(valkey_url, namespace=name), settings) as running:
        yield LookedAt(running)


def post(path: str, size: int, body: bytes = b"", *, more: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{more}Content-Length: {size}\r\n\r\n"
    return head.encode() + body


# ── the first request ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sent", [b"", b"POST / HTTP/1.1\r\nHost: x\r\nA: "])
def test_a_head_has_ten_seconds(own: LookedAt, sent: bytes) -> None:
    with own.open(sent) as line:
        own.look(HEAD_S - 1)
        assert is_open(line)
        line.sendall(b"x" * len(sent))  # also if its bytes go on coming
        own.look(HEAD_S + 1)
        assert rest_of(line).partition(b"\r\n")[0] == (b"HTTP/1.1 408 Request Timeout" if sent else b"")


@pytest.mark.parametrize("size", [10, 8_000_000])
def test_a_first_request_has_thirty_seconds(own: LookedAt, size: int) -> None:
    with own.open(post("/v1/topics/orders/jobs", size, b'{"body')) as line:
        for second in range(round(REQUEST_S)):
            own.look(second)
        assert is_open(line)
        own.look(REQUEST_S + 1)
        answer = Answer(rest_of(line))
        assert (answer.status, answer.code) == (408, "too_slow")


def test_a_request_counts_with_the_status_that_its_client_got(own: LookedAt) -> None:
    """Not as one whose client has gone (499)."""
    path, counted = "/v1/topics/orders/jobs", own.running.app.metrics._observers
    chunked = post(path, 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    for sent, status in ((post(path, 10, b"{"), 408), (chunked + b"no size\r\n", 400), (post(path, 10, b"{"), 499)):
        before = set(counted)
        with own.open(sent) as line:
            own.look(0)
            if status != 499:
                own.look(REQUEST_S + 1)
                assert Answer(rest_of(line)).status == status
        until(lambda before=before: counted.keys() - before)
        assert counted.keys() - before == {("jobs_add", status)}


@pytest.mark.parametrize(("rate", "lives"), [(MIN_RATE + 50, True), (MIN_RATE - 50, False)])
def test_a_body_may_take_longer_while_four_kib_a_second_come(own: LookedAt, rate: int, lives: bool) -> None:
    """Two minutes, second by second; then what is left."""
    body = b'{"body": "' + b"x" * (2 * 120 * rate) + b'"}'
    head = post("/v1/topics/orders/jobs", len(body))
    with own.open(head) as line:
        [connection] = own.limits
        for second in range(120):
            line.sendall(body[second * rate : (second + 1) * rate])
            until(lambda second=second: connection.received == len(head) + (second + 1) * rate)
            own.look(second)
            if not is_open(line):
                break
        assert (second == 119) is lives
        assert lives or second < REQUEST_S + 2
        if lives:
            line.sendall(body[120 * rate :])
            assert line.recv(65536).startswith(b"HTTP/1.1 201 ")


def test_what_came_before_does_not_count_for_a_body_that_stalls(own: LookedAt) -> None:
    with own.open(post("/v1/topics/orders/jobs", 500_000, b"x" * 400_000)) as line:
        for second in range(round(REQUEST_S) + 2):
            own.look(second)
        assert Answer(rest_of(line)).status == 408


def test_the_body_of_a_later_request_has_thirty_seconds_of_its_own(own: LookedAt) -> None:
    with own.open(VERSION) as line:
        assert line.recv(65536).startswith(b"HTTP/1.1 200 ")
        own.look(1000)
        assert is_open(line), "uvicorn ends what is idle"
        [connection] = own.limits
        sent = post("/v1/topics/orders/jobs", 10, b"{")
        line.sendall(sent)
        until(lambda: connection.received == len(VERSION) + len(sent))
        own.look(2000)
        own.look(2000 + REQUEST_S - 1)
        assert is_open(line)
        own.look(2000 + REQUEST_S)
        assert Answer(rest_of(line)).status == 408


def test_the_rest_of_a_body_behind_its_answer_has_ten_seconds(own: LookedAt) -> None:
    with own.open(post("/nowhere", 1000, b"x")) as line:
        assert line.recv(65536).startswith(b"HTTP/1.1 404 ")
        own.look(0)
        own.look(LAST_S)
        until(lambda: not len(own.limits))


# ── held requests ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_pop_that_waits_and_a_silent_stream_have_no_limit(own: LookedAt) -> None:
    """Ten minutes, second by second. The stream's request is not complete: the service holds it all the same."""
    body = b'{"wait": 60}'
    with (
        own.open(post("/v1/topics/orders/pop", len(body), body)) as pop,
        own.open(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n") as stream,
        own.open(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n") as incomplete,
    ):
        until(lambda: own.running.app.held_requests == 3)
        for second in range(600):
            own.look(second)
        assert own.running.app.held_requests == 3
        with own.open(post("/v1/topics/orders/jobs", 13, b'{"body": "x"}')) as add:
            assert add.recv(65536).startswith(b"HTTP/1.1 201 ")
        for line, status in ((pop, b"200"), (stream, b"200"), (incomplete, b"200")):
            assert line.recv(65536).startswith(b"HTTP/1.1 " + status)


# ── answers that nobody reads ────────────────────────────────────────────────────────────────────────────────────────


def unread(own: LookedAt) -> int:
    """How many bytes lie unread."""
    return sum(own.running.call(one.transport.get_write_buffer_size) for one in own.limits)


def test_an_answer_that_nobody_reads_is_ended_after_thirty_seconds(own: LookedAt) -> None:
    with own.open(DOCUMENT * 10) as line:
        until(lambda: unread(own))
        own.look(0)
        own.look(UNREAD_S - 1)
        assert len(own.limits) == 1
        own.look(UNREAD_S)
        until(lambda: not len(own.limits))
        answered = rest_of(line)
        assert 0 < answered.count(b"HTTP/1.1 200 ") < 10


def test_a_client_that_reads_slowly_is_not_ended(own: LookedAt) -> None:
    with own.open(DOCUMENT * 10) as line:
        until(lambda: unread(own))
        for number in range(5):
            own.look(number * (UNREAD_S - 1))
            before = unread(own)
            while unread(own) == before:
                line.recv(65536)
        assert len(own.limits) == 1


def test_a_service_that_stops_waits_three_seconds_for_what_nobody_reads(own: LookedAt) -> None:
    with own.open(DOCUMENT * 10):
        until(lambda: unread(own))
        own.look(0)
        own.limits.is_draining = True
        own.look(WHILE_DRAINING_S)
        until(lambda: not len(own.limits))


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────────


ROOM = 8
HOSTILE = {
    "silent": b"",
    "half a head": b"GET /v1/topics HTTP/1.1\r\nHost: x\r\nA: ",
    "half a body": post("/sign-in", 4000, b"token="),
    "half a body of SQS": post("/sqs", 4000, b"{"),
    "refused, half a body": post("/v1/topics/orders/jobs", 4000, b"{"),
    "idle": VERSION,
    "unread": DOCUMENT * 10,
    "nonsense": b"nonsense\r\n\r\n",
}


@pytest.fixture
def guarded(valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[LookedAt]:
    """A service that needs tokens, with room for eight connections."""
    monkeypatch.setattr(PortLimits, "_look_again", lambda *_: None)
    monkeypatch.setattr(FileShares, "share", ROOM)
    settings = ServiceSettings(namespaces=("guarded",), tokens=True)
    mounts = (Mount(open_pages=DashboardMount), Mount((sqs.routes_of(),)))
    with serve(lambda name: tarry.AsyncClient(valkey_url, namespace=name), settings, mounts) as running:
        running.call(running.app.show_pages)
        yield LookedAt(running)


def topics(token: str) -> bytes:
    return f"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode()


def pop(token: str) -> bytes:
    return post("/v1/topics/orders/pop", 12, b'{"wait": 60}', more=f"Authorization: Bearer {token}\r\n")


def ask(line: socket.socket, request: bytes) -> bytes:
    """The status of an answer whose end can be seen."""
    line.sendall(request)
    said = b""
    while not said.endswith(b"}"):
        some = line.recv(65536)
        if not some:
            break
        said += some
    return said[9:12]


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_connections_make_room_for_a_client_with_a_token(
    guarded: LookedAt,
    make: Make,  # noqa: F811  # a fixture
    kind: str,
) -> None:
    """Fifty of each kind: there are never more than there is room for, and each client with a token is answered at once."""
    token = make("view", "consume")
    with ExitStack() as stack:
        kept, waiting = (stack.enter_context(guarded.open()) for _ in range(2))
        until(lambda: ask(kept, topics(token)) == b"200")
        waiting.sendall(pop(token))
        until(lambda: guarded.running.app.held_requests == 1)
        for number in range(50):
            line = stack.enter_context(connect_to(guarded.running.url))
            with suppress(OSError):  # it may have been closed already
                line.sendall(HOSTILE[kind])
            if number % 10 == 9:
                with connect_to(guarded.running.url) as new:
                    assert ask(new, topics(token)) == b"200"
                assert ask(kept, topics(token)) == b"200"
                assert len(guarded.limits) <= ROOM
        assert guarded.running.app.held_requests == 1


def test_who_makes_room(guarded: LookedAt, make: Make) -> None:  # noqa: F811  # a fixture
    """Of those that never had a valid token the longest silent, then one with an open request; then the longest idle of the others."""
    token = make("view", "consume")
    with ExitStack() as stack:

        def opened(sent: bytes = b"") -> socket.socket:
            return stack.enter_context(guarded.open(sent))

        def look(later: float) -> None:
            guarded.running.call(guarded.limits.look, began + later)

        began = guarded.began
        first_trusted, second_trusted, waiting, unread_answers, first, second, third = (opened() for _ in range(7))
        for line in (first_trusted, second_trusted):
            until(lambda line=line: ask(line, topics(token)) == b"200")
        waiting.sendall(pop(token))
        until(lambda: guarded.running.app.held_requests == 1)
        look(1)
        assert ask(first_trusted, topics(token)) == b"200", "it was idle for less long than the second"
        look(2)
        unread_answers.sendall(DOCUMENT * 10)
        until(lambda: unread(guarded))
        for line in (second, first, third):  # the first was silent for less long than the second
            assert ask(line, VERSION) == b"200"
        last = opened()
        for gone in (second, first, third, last, unread_answers, second_trusted, first_trusted):
            new = opened()
            assert ask(new, topics(token)) == b"200"
            look(3)
            until(lambda gone=gone: gone is unread_answers or not is_open(gone))
        assert guarded.running.app.held_requests == 1
        assert is_open(waiting)


def test_a_connection_whose_token_was_revoked_is_a_stranger_again(
    guarded: LookedAt,
    valkey_url: str,
    make: Make,  # noqa: F811  # a fixture
) -> None:
    """It makes room before one that is silent for longer; and is trusted again with another token."""
    tokens = [make("view", "consume") for _ in range(2)]
    with ExitStack() as stack:
        longest_silent, revoked, other = (stack.enter_context(guarded.open()) for _ in range(3))
        for line, token in ((longest_silent, tokens[0]), (revoked, tokens[1]), (other, tokens[1])):
            until(lambda line=line, token=token: ask(line, topics(token)) == b"200")
            guarded.look(1)
        revoke(valkey_url, tokens[1])
        until(lambda: ask(other, topics(tokens[1])) == b"401")
        guarded.look(2)
        assert ask(other, topics(tokens[0])) == b"200"
        for _ in range(ROOM - 3):
            stack.enter_context(guarded.open(pop(tokens[0])))
        until(lambda: guarded.running.app.held_requests == ROOM - 3)
        stack.enter_context(guarded.open(topics(tokens[0])))
        until(lambda: not is_open(revoked))
        assert is_open(other)
        assert is_open(longest_silent)


def test_a_full_house_answers_503_and_health(guarded: LookedAt, make: Make) -> None:  # noqa: F811  # a fixture
    token = make("consume")
    with ExitStack() as stack:
        for number in range(ROOM):
            line = stack.enter_context(guarded.open())
            until(lambda line=line: line.send(pop(token)))
            until(lambda number=number: guarded.running.app.held_requests == number + 1)
        for _ in range(3):
            answer = asked(guarded.running.url, topics(token))
            assert (answer.status, answer.code) == (503, "too_many_connections")
            assert b"retry-after: 1" in answer.head
            assert b"connection: close" in answer.head
            for path in ("healthz", "readyz"):
                assert (
                    asked(guarded.running.url, f"GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()).status
                    == 200
                )
        silent = [stack.enter_context(connect_to(guarded.running.url)) for _ in range(2 * MOST_SURPLUS)]
        until(lambda: sum(not is_open(line) for line in silent) >= MOST_SURPLUS)
        assert guarded.running.app.held_requests == ROOM


def test_ports_have_equal_shares() -> None:
    files = FileShares(900)
    PortLimits(files, bool, bool)
    assert files.share == 900
    PortLimits(files, bool, bool)
    assert files.share == 450
