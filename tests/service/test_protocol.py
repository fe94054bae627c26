"""What goes over the wire, and when: an answer at once, a stream's head before its first piece."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from service.served import Api
from tarry.programs.service.protocol import Whole


class Counted:
    """A transport that notes what is sent in one call."""

    def __init__(self, transport: Any, sent: list[bytes]) -> None:
        self._transport = transport
        self._sent = sent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        self._sent.append(data)
        self._transport.write(data)

    def writelines(self, parts: Any) -> None:
        self._sent.append(b"".join(parts))
        self._transport.writelines(parts)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What new connections of the service send, call by call."""
    calls: list[bytes] = []
    begin = Whole.__init__
    monkeypatch.setattr(Whole, "__init__", lambda self, transport: begin(self, Counted(transport, calls)))
    return calls


def line_to(api: Api) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(api.url.rpartition(":")[2])), timeout=20)


def head_of(line: socket.socket) -> bytes:
    said = b""
    while b"\r\n\r\n" not in said:
        said += line.recv(4096)
    return said


def test_an_answer_leaves_in_one_call(api: Api, sent: list[bytes]) -> None:
    job = api.post("/v1/topics/orders/jobs", {"body": "x" * 500_000}, status=201)
    found = api.get(f"/v1/topics/orders/jobs/{job['id']}")
    assert api.refused("GET", "/v1/topics/orders/jobs/unknown") == (404, "unknown_job")
    assert found["body"] == "x" * 500_000
    assert [each.count(b"HTTP/1.1 ") for each in sent] == [1, 1, 1]
    assert [each.endswith(b"}") for each in sent] == [True] * 3


def test_the_head_of_a_stream_comes_before_its_first_piece(real: Api, namespace: str) -> None:
    with line_to(real) as line:
        line.sendall(f"GET /v1/events?namespace={namespace} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert head_of(line).startswith(b"HTTP/1.1 200 ")


def test_who_waits_to_be_told_to_continue_is_told(real: Api, namespace: str) -> None:
    body = b'{"body": 7}'
    with line_to(real) as line:
        head = (
            f"POST /v1/topics/orders/jobs?namespace={namespace} HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
        )
        line.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        assert head_of(line).startswith(b"HTTP/1.1 100 ")
        line.sendall(body)
        assert head_of(line).startswith(b"HTTP/1.1 201 ")
