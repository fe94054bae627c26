"""The table of raw inputs, directly and through HAProxy and nginx: each is answered as expected, and each client gets its own answers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate, takewhile

import pytest

from service.echo_service import LOOPS, Echo, echo_service, echoes, proxy, statuses
from service.raw_inputs import BODY, INPUTS, NEXT, POST, RawInput
from service.test_upgrade_offers import Connection
from until import LONGEST_S
from walked import each

PROXIES = ("haproxy", "nginx")
EARLY = b"POST /M/early HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n"
RESET = (socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


@pytest.fixture(scope="module", params=LOOPS)
def service(request: pytest.FixtureRequest) -> Iterator[tuple[int, Echo]]:
    with echo_service(request.param) as running:
        yield running


@pytest.fixture(scope="module", params=PROXIES)
def behind(
    request: pytest.FixtureRequest, service: tuple[int, Echo], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, int]]:
    """A proxy before the service, and its port."""
    with proxy(request.param, tmp_path_factory.mktemp(request.param), service[0]) as port:
        yield request.param, port


class Client:
    """One connection, whose requests and answers carry its mark."""

    def __init__(self, port: int, mark: str) -> None:
        self.mark, self.line = mark, socket.create_connection(("127.0.0.1", port), timeout=LONGEST_S)
        self.said = b""

    def send(self, sent: bytes) -> None:
        with suppress(ConnectionError):  # what came before may have ended it
            self.line.sendall(sent.replace(b"M", self.mark.encode()))

    def read(self, count: int) -> None:
        """Until so many answers came whole, or the connection is closed."""
        with suppress(ConnectionError):
            while len(statuses(self.said)) < count or len(echoes(self.said)) < statuses(self.said).count(200):
                some = self.line.recv(65536)
                self.said += some
                if not some:
                    return

    def read_all(self) -> bytes:
        """Until the connection is closed."""
        self.read(1 << 30)
        self.line.close()
        return self.said

    def has_own_answers(self) -> bool:
        return all(f"/{self.mark}/" in path for path, _ in echoes(self.said))


def ids(one: RawInput) -> str:
    return one.name.replace(" ", "-")


@each(INPUTS, ids)
def test_each_input_is_answered_as_expected(given: RawInput, service: tuple[int, Echo]) -> None:
    port, app = service
    app.got.clear()
    client = Client(port, "A")
    client.send(given.sent + NEXT)
    if given.is_last:
        client.read_all()
    else:
        client.read(len(given.statuses))
        client.line.close()
    assert statuses(client.said) == given.statuses
    answered = [path for path, _ in echoes(client.said)]
    assert [path for _, path, _ in app.got] == answered, "it counts the requests that it answers"
    assert len(answered) == given.statuses.count(200)
    assert client.has_own_answers()


def cuts(number: int, given: RawInput) -> list[int]:
    """Every byte of an input's own. Where it begins as the others do, and in the request behind it, every eighth, from another one for each
    input."""
    alike = sum(1 for _ in takewhile(lambda two: two[0] == two[1], zip(POST, given.sent, strict=False)))
    return [at for at in range(1, len(given.sent + NEXT)) if alike <= at <= len(given.sent) or at % 8 == number % 8]


@each(enumerate(INPUTS), lambda row: ids(row[1]))
def test_each_input_is_the_same_however_it_is_cut(row: tuple[int, RawInput]) -> None:
    """Into two reads, and into reads of one byte. A head is read in one piece or refused, and no body changes.

    The service asks for a body where its head ends a read.
    """
    asyncio.run(compare_all_cuts(*row))


async def compare_all_cuts(number: int, given: RawInput) -> None:
    stream = given.sent + NEXT
    whole = Connection()
    await whole.read(stream)
    got, answers, closed = whole.got, whole.answers, whole.wire.closed
    await whole.end()
    for reads in [[stream[:at], stream[at:]] for at in cuts(number, given)] + [
        [stream[k : k + 1] for k in range(len(stream))]
    ]:
        seen = Connection()
        await seen.read(*reads)
        if given.name == "a pipelined offer":  # it may begin a read
            assert seen.answers in ([b"200", b"400"], [b"200"] * 3), reads
        elif given.name == "an early answer with its body":  # its body may come later
            assert seen.got in (got, got[:1]), reads
        else:
            ends = accumulate(map(len, reads))
            is_asked = given.name == "Expect: 100-continue" and len(given.sent) - len(BODY) in ends
            assert (seen.got, seen.wire.closed) == (got, closed), reads
            assert seen.answers == [b"100"] * is_asked + answers, reads
        await seen.end()


@each(INPUTS, ids)
def test_behind_a_proxy_each_client_gets_its_own_answers(given: RawInput, behind: tuple[str, int]) -> None:
    """Another client's requests go over the same connection of the proxy, before, between and after."""
    kind, port = behind
    client, other = Client(port, "A"), Client(port, "B")
    other.send(NEXT)
    other.read(1)
    client.send(given.sent)
    other.send(NEXT)
    client.send(NEXT)
    other.read(2)
    expected = {"haproxy": given.haproxy, "nginx": given.nginx}[kind]
    client.read(len(expected))
    other.send(NEXT)
    other.read(3)
    for one in (client, other):
        one.line.close()
    assert statuses(client.said) == expected, client.said
    assert len(echoes(client.said)) == expected.count(200), f"an answer without its body: {client.said!r}"
    assert client.has_own_answers()
    assert (statuses(other.said), echoes(other.said)) == ((200,) * 3, [["/B/next", ""]] * 3)


# ── answers before the body ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("late", [BODY, BODY[:1], BODY + NEXT, NEXT, b""])
def test_a_body_after_the_answer_closes_the_connection(service: tuple[int, Echo], late: bytes) -> None:
    client = Client(service[0], "A")
    client.send(EARLY)
    client.read(1)
    client.send(late)
    assert statuses(client.read_all()) == (200,)
    assert echoes(client.said) == [["/A/early", ""]]
    assert b"\r\nconnection: close\r\n" in client.said


def test_behind_a_proxy_a_body_after_the_answer_is_nobodys_request(behind: tuple[str, int]) -> None:
    """The body is a request, in the length of one, too."""
    _, port = behind
    for body in (NEXT, b"GET /v1/evil HTTP/1.1\r\nHost: x\r\n\r\n", EARLY + BODY):
        client, other = Client(port, "A"), Client(port, "B")
        other.send(NEXT)
        other.read(1)
        client.send(EARLY.replace(b": 3", b": %d" % len(body)))
        client.read(1)
        client.send(body + NEXT)
        other.send(NEXT * 2)
        other.read(3)
        client.read(2)
        for one in (client, other):
            one.line.close()
        assert client.has_own_answers()
        assert len(echoes(client.said)) <= 2, "of its two requests"
        assert echoes(other.said) == [["/B/next", ""]] * 3


# ── the end of what the client sends ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("end", ["FIN", "RST", "half"])
@pytest.mark.parametrize("before", [b"", NEXT, NEXT + EARLY, NEXT + EARLY + BODY, NEXT[:20]])
def test_an_end_behind_pipelined_requests(
    service: tuple[int, Echo], end: str, before: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The service takes any end as the client's: it may answer what it has read, closes, and logs nothing."""
    client = Client(service[0], "A")
    client.send(NEXT + before)
    if end == "half":
        client.line.shutdown(socket.SHUT_WR)
        client.read_all()
        assert statuses(client.said) == (200,) * len(statuses(client.said))
    elif end == "RST":
        client.line.setsockopt(*RESET)
    client.line.close()
    check = Client(service[0], "B")
    check.send(NEXT)
    check.read(1)
    check.line.close()
    assert check.has_own_answers()
    assert caplog.records == []


def test_a_client_behind_a_proxy_that_ends_what_it_sends_is_answered(behind: tuple[str, int]) -> None:
    kind, port = behind
    client = Client(port, "A")
    client.send(NEXT)
    client.line.shutdown(socket.SHUT_WR)
    client.read_all()
    assert echoes(client.said) in ([["/A/next", ""]], [] if kind == "nginx" else [["/A/next", ""]])
