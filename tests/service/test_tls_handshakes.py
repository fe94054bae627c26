"""Handshakes of TLS: those that never end are counted and timed, and those that end serve."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
import trustme

import tarry
from service.running_service import RunningService, serve
from service.test_connection_limits import LookedAt, is_open
from service.test_connections import rest_of
from tarry.programs.service import tls_handshake
from tarry.programs.service.http_server import TlsFiles
from tarry.programs.service.settings import ServiceSettings
from tarry.programs.serving.connection_limits import HEAD_S, WHILE_DRAINING_S, FileShares, PortLimits
from until import LONGEST_S, until

GET = b"GET /version HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class Secured(NamedTuple):
    own: LookedAt
    context: ssl.SSLContext

    @property
    def running(self) -> RunningService:
        return self.own.running

    def connect(self) -> socket.socket:
        """A connection whose client says nothing."""
        before = len(self.own.limits)
        line = socket.create_connection(("127.0.0.1", self.running.port), timeout=LONGEST_S)
        until(lambda: len(self.own.limits) == before + 1)
        self.own.began = self.running.call(self.running.loop.time)
        return line


@pytest.fixture
def secured(valkey_url: str, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Secured]:
    monkeypatch.setattr(PortLimits, "_look_again", lambda *_: None)
    authority, pem = trustme.CA(), tmp_path / "both.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(pem)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    settings = ServiceSettings(namespaces=(namespace,))
    with serve(
        lambda name: tarry.AsyncClient(valkey_url, namespace=name), settings, tls=TlsFiles(str(pem), str(pem))
    ) as running:
        yield Secured(LookedAt(running), context)


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01", GET])
def test_a_handshake_has_ten_seconds(secured: Secured, sent: bytes) -> None:
    """Whatever the client has sent; what is no TLS ends at once."""
    with secured.connect() as line:
        line.sendall(sent)
        if sent != GET:
            secured.own.look(HEAD_S - 1)
            assert is_open(line)
            secured.own.look(HEAD_S + 1)
        rest_of(line)  # it has an end
        until(lambda: not len(secured.own.limits))


def test_a_handshake_makes_room_for_the_next_connection(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileShares, "share", 3)
    lines = [secured.connect() for _ in range(3)]
    for _ in range(3):
        with httpx.Client(verify=secured.context, base_url=f"https://127.0.0.1:{secured.running.port}") as http:
            assert http.get("/version").status_code == 200
    until(lambda: not is_open(lines[0]))
    for line in lines:
        line.close()


@pytest.mark.parametrize("sent", [b"", GET[:20], GET, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")])
def test_a_client_that_does_not_close_tls_makes_room_all_the_same(
    secured: Secured, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """Its file is free at once, whatever it has sent: a farewell, which it would not answer, would keep the file."""
    monkeypatch.setattr(FileShares, "share", 3)
    secured.context.maximum_version = ssl.TLSVersion.TLSv1_2  # whose handshake has nothing behind it
    with ExitStack() as stack:
        lines = list[socket.socket]()
        for _ in range(3):
            line = stack.enter_context(secured.connect())
            client, incoming, outgoing = shake_hands(secured, line)
            if sent:
                client.write(sent)
                line.sendall(outgoing.read())
            if sent.endswith(b"\r\n\r\n"):
                assert read_answer(client, line, incoming).endswith(b"}")
            lines.append(line)
        with httpx.Client(verify=secured.context, base_url=f"https://127.0.0.1:{secured.running.port}") as http:
            assert http.get("/version").status_code == 200
        assert rest_of(lines[0])[:1] in (
            b"",
            b"\x15",
        )  # an alert that closes TLS may come, where the answer was the last


def test_a_service_that_stops_waits_three_seconds_for_the_end_of_tls(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of clients that never end it."""
    monkeypatch.setattr(tls_handshake, "LAST_S", 2 * LONGEST_S)
    with secured.connect() as line:
        client, incoming, outgoing = shake_hands(secured, line)
        client.write(GET)
        line.sendall(outgoing.read())
        read_answer(client, line, incoming)
        [connection] = secured.own.limits
        secured.running.call(connection.shutdown)  # type: ignore[attr-defined]  # as uvicorn does
        for later in (0, WHILE_DRAINING_S):
            assert len(secured.own.limits) == 1
            secured.own.look(later)
        until(lambda: not len(secured.own.limits))


def shake_hands(secured: Secured, line: socket.socket) -> tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
    """A client of TLS over the line that answers nothing by itself."""
    client, incoming, outgoing = begin_handshake(secured, line)
    line.sendall(outgoing.read())
    return client, incoming, outgoing


def begin_handshake(secured: Secured, line: socket.socket) -> tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
    """The same, whose last bytes of the handshake are not sent yet."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = secured.context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    while True:
        try:
            client.do_handshake()
            break
        except ssl.SSLWantReadError:
            line.sendall(outgoing.read())
            incoming.write(line.recv(65536))
    return client, incoming, outgoing


def read_answer(client: ssl.SSLObject, line: socket.socket, incoming: ssl.MemoryBIO) -> bytes:
    answer = b""
    while not (size := re.search(rb"content-length: (\d+)\r\n", answer)) or len(answer.partition(b"\r\n\r\n")[2]) < int(
        size[1]
    ):
        try:
            answer += client.read(65536)
        except ssl.SSLWantReadError:
            incoming.write(line.recv(65536))
    return answer


def test_a_request_that_comes_with_the_end_of_its_handshake_is_answered(secured: Secured) -> None:
    """TLS 1.3 lets the client send both in one segment."""
    with secured.connect() as line:
        client, incoming, outgoing = begin_handshake(secured, line)
        client.write(GET)
        line.sendall(outgoing.read())
        assert read_answer(client, line, incoming).startswith(b"HTTP/1.1 200 OK\r\n")
        [connection] = secured.own.limits
        assert connection.received == len(GET)


def test_a_client_that_leaves_its_handshake_is_not_counted_any_more(secured: Secured) -> None:
    for ends in (lambda line: line.close(), lambda line: line.shutdown(socket.SHUT_WR), reset):
        line = secured.connect()
        ends(line)
        until(lambda: not len(secured.own.limits))
        line.close()


def reset(line: socket.socket) -> None:
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    line.close()
