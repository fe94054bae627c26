"""Requests that are refused before their body has come: a short body is waited for, and its connection is used again."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Self

import pytest

from service.running_service import RunningService
from service.test_tokens import Make, guarded, make  # noqa: F401  # fixtures
from tarry.programs.serving import request as requests
from until import LONGEST_S, until

MOST = 1000
"""The longest body that the service takes."""
VERSION = b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def service(guarded: RunningService, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningService]:  # noqa: F811  # a fixture
    """It waits for as long as a busy machine may take."""
    monkeypatch.setattr(requests, "DROP_S", LONGEST_S)
    with monkeypatch.context() as patch:
        patch.setattr(guarded.app, "settings", replace(guarded.app.settings, max_request_body=MOST))
        yield guarded


def refused(path: str, more: str) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{more}\r\n\r\n".encode()


class Client:
    """A connection whose first bytes have been read."""

    def __init__(self, service: RunningService, head: bytes) -> None:
        [limits] = service.app.files.ports
        before = service.call(set, limits)
        self.line = socket.create_connection(("127.0.0.1", service.port), LONGEST_S)
        self.line.sendall(head)
        until(lambda: any(one.received == len(head) for one in service.call(set, limits) - before))
        self._answers = self.line.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.close()
        self.line.close()

    def answer(self) -> tuple[bytes, bool]:
        """The status of the next answer, and whether it says that the connection ends."""
        status, *fields = iter(lambda: self._answers.readline().lower().strip(), b"")
        said = dict(field.split(b": ") for field in fields)
        self._answers.read(int(said[b"content-length"]))
        return status.split()[1], said.get(b"connection") == b"close"

    def has_ended(self) -> bool:
        return self._answers.read() == b""


@pytest.fixture
def token(service: RunningService, make: Make) -> str:  # noqa: F811  # a fixture
    """The header of a token that the service has learned of."""
    header = f"Authorization: Bearer {make('produce', 'view')}\r\n"

    def is_known() -> bool:
        with Client(service, f"GET /v1/topics HTTP/1.1\r\nHost: x\r\n{header}\r\n".encode()) as client:
            return client.answer()[0] == b"200"

    until(is_known)
    return header


@pytest.mark.parametrize(
    ("path", "more", "body", "status"),
    [
        ("/nowhere", "Content-Length: 9", b'{"a": 12}', b"404"),
        ("/v1/topics/a/jobs", "Content-Length: 9", b'{"a": 12}', b"401"),
        ("/v1/topics/a/jobs", f"TOKENContent-Length: {2 * MOST}", b"x" * 2 * MOST, b"413"),
        ("/v1/topics/a/jobs", "Transfer-Encoding: chunked", b"9\r\n{'a': 12}\r\n0\r\n\r\n", b"401"),
    ],
)
def test_a_short_body_behind_its_head_is_waited_for(
    service: RunningService, token: str, path: str, more: str, body: bytes, status: bytes
) -> None:
    with Client(service, refused(path, more.replace("TOKEN", token))) as client:
        for part in (body[:4], body[4:] + VERSION):
            client.line.sendall(part)
        assert client.answer() == (status, False)
        assert client.answer() == (b"200", False)
        client.line.sendall(VERSION)
        assert client.answer() == (b"200", False)


@pytest.mark.parametrize(
    "more",
    [
        f"Content-Length: {requests.MOST_DROPPED + 1}",
        "Expect: 100-continue\r\nContent-Length: 9",
    ],
)
def test_a_long_body_or_one_that_is_asked_for_is_not_waited_for(service: RunningService, more: str) -> None:
    with Client(service, refused("/nowhere", more)) as client:
        assert client.answer() == (b"404", True)
        assert client.has_ended()


def test_of_chunks_as_much_is_waited_for(service: RunningService) -> None:
    head = refused("/nowhere", "Transfer-Encoding: chunked")
    with Client(service, head + b"%x\r\n" % (2 * requests.MOST_DROPPED)) as client:
        client.line.sendall(b"x" * (requests.MOST_DROPPED + 1))
        assert client.answer() == (b"404", True)


def test_a_body_that_comes_after_the_wait_ends_the_connection(
    service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "DROP_S", 0)
    with Client(service, refused("/nowhere", "Content-Length: 9")) as client:
        assert client.answer() == (b"404", True)
        client.line.sendall(b"123456789" + VERSION)
        assert client.has_ended()


def test_a_body_that_was_read_is_not_waited_for(service: RunningService, token: str) -> None:
    with Client(service, refused("/v1/topics/a/jobs", f"{token}Content-Length: 8") + b"nonsense") as client:
        assert client.answer() == (b"400", False)
