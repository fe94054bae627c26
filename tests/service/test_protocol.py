"""The bytes on the wire, and when they are sent: an answer at once, a stream's head before its first chunk."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

import tarry
from service.running_service import Api, serve
from tarry.programs.serving import connection_limits
from until import LONGEST_S, until


def connect_to(api: Api) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(api.url.rpartition(":")[2])), timeout=LONGEST_S)


def head_of(line: socket.socket) -> bytes:
    said = b""
    while b"\r\n\r\n" not in said:
        said += line.recv(4096)
    return said


def test_a_response_without_a_body_closes_the_connection(api: Api, namespace: str) -> None:
    path = f"/v1/topics/orders/resume?namespace={namespace}"
    with connect_to(api) as line:
        line.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        assert head_of(line).startswith(b"HTTP/1.1 204 ")
        assert line.recv(4096) == b""


def test_the_head_of_a_stream_is_sent_before_its_first_event(real: Api, namespace: str) -> None:
    with connect_to(real) as line:
        line.sendall(f"GET /v1/events?namespace={namespace} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert head_of(line).startswith(b"HTTP/1.1 200 ")


def test_expect_100_continue_is_answered(real: Api, namespace: str) -> None:
    body = b'{"body": 7}'
    with connect_to(real) as line:
        head = (
            f"POST /v1/topics/orders/jobs?namespace={namespace} HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
        )
        line.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        assert head_of(line).startswith(b"HTTP/1.1 100 ")
        line.sendall(body)
        assert head_of(line).startswith(b"HTTP/1.1 201 ")


JOBS = "/v1/topics/orders/jobs"


def begun(api: Api, *, body: bytes = b'{"bo', size: int = 10, more: str = "") -> socket.socket:
    """A request whose body is not all there."""
    line = connect_to(api)
    said = f"POST {JOBS}?namespace={api.namespace} HTTP/1.1\r\nHost: localhost\r\n{more}Content-Length: {size}\r\n\r\n"
    line.sendall(said.encode() + body)
    return line


def problem_on(line: socket.socket) -> tuple[str, Any]:
    """The head and the problem of an answer after which the connection is closed."""
    said = b""
    while some := line.recv(65536):
        said += some
    line.close()
    head, _, body = said.decode().partition("\r\n\r\n")
    problem = json.loads(body)
    assert head.startswith(f"HTTP/1.1 {problem['status']} ")
    assert "connection: close" in head
    assert "application/problem+json" in head
    return head, problem


def test_a_draining_service_does_not_wait_for_bodies(valkey_url: str) -> None:
    with serve(lambda name: tarry.AsyncClient(valkey_url, namespace=name)) as draining:
        lines = [begun(Api(draining.url, "default")) for _ in range(3)]
        until(lambda: draining.app.held_requests == 3)
        draining.call(draining.app.drain)
        for line in lines:
            head, problem = problem_on(line)
            assert problem["code"] == "draining"
            assert "retry-after: 1" in head


def test_a_stalled_body_times_out(real: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "LOOK_S", 0.05)
    monkeypatch.setattr(connection_limits, "REQUEST_S", 0.05)
    monkeypatch.setattr(connection_limits, "RATE_WINDOW_S", 0.05)
    assert problem_on(begun(real))[1]["code"] == "too_slow"
    assert real.refused("GET", "/v1/topics/orders/stats") == (404, "unknown_topic")


def test_a_body_may_arrive_in_pieces(real: Api) -> None:
    with begun(real, body=b"", size=len(b'{"body": 7}'), more="Content-Type: application/json\r\n") as line:
        for piece in (b'{"bo', b'dy": ', b"7}"):
            line.sendall(piece)
            real.get("/v1/topics")  # another connection is served meanwhile
        assert head_of(line).startswith(b"HTTP/1.1 201 ")


@pytest.mark.parametrize("end", ["", "\r\n\r\n"])
@pytest.mark.parametrize(
    "long", ["GET /{} HTTP/1.1\r\nHost: x", "GET / HTTP/1.1\r\nLong: {}", "GET / HTTP/1.1\r\n{}: x"]
)
def test_a_head_that_is_too_long_is_refused(real: Api, long: str, end: str) -> None:
    line = connect_to(real)
    line.sendall((long.format("x" * 70_000) + end).encode())
    assert problem_on(line)[1]["code"] == "long_head"


def test_a_long_head_may_have_a_longer_body(real: Api) -> None:
    """What comes with the head, a body and another request, is not the head's."""
    body = json.dumps({"body": "x" * 500_000}).encode()
    after = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with begun(real, body=body + after, size=len(body), more=f"Long: {'x' * 60_000}\r\n") as line:
        said = b"".join(iter(lambda: line.recv(65536), b""))
    assert [part[:4] for part in said.split(b"HTTP/1.1 ")] == [b"", b"201 ", b"200 "]


def test_an_invalid_request_is_refused_with_a_problem(real: Api) -> None:
    line = connect_to(real)
    line.sendall(b"good morning\r\n\r\n")
    assert problem_on(line)[1]["code"] == "bad_input"


def answers_to(api: Api, *requests: str) -> bytes:
    """All that is sent for requests on one connection, the last of which closes it."""
    with connect_to(api) as line:
        line.sendall("".join(requests).encode())
        answered = b""
        while said := line.recv(65536):
            answered += said
    return answered


def test_pipelined_answers_and_those_without_a_body(api: Api, namespace: str) -> None:
    api.post("/v1/topics/orders/jobs", {"body": "tea", "id": "7"}, status=201)

    def request(method: str, path: str, version: str = "1.1", more: str = "") -> str:
        return f"{method} /v1/topics/orders{path}?namespace={namespace} HTTP/{version}\r\nHost: localhost\r\n{more}\r\n"

    close = "Connection: close\r\n"
    cases = [
        (request("POST", "/resume"), request("GET", "/jobs"), request("POST", "/resume", more=close)),
        (request("HEAD", "/jobs"), request("GET", "/jobs", more=close)),
        (request("GET", "/jobs", "1.0"),),
        (request("POST", "/resume", "1.0"),),
    ]
    said = [answers_to(api, *case) for case in cases]
    assert [[answer[:3] for answer in each.split(b"HTTP/1.1 ")[1:]] for each in said] == [
        [b"204", b"200", b"204"], [b"200", b"200"], [b"200"], [b"204"],
    ]  # fmt: skip
    assert [each.count(b'"tea"') for each in said] == [1, 1, 1, 0]
