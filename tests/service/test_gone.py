"""A client that has gone is handed nothing, or what it was handed goes back at once, the attempt not counted."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import pytest

from service.served import Api, Served

PATIENCE_S = 20


def asking(api: Api, path: str, said: Any) -> socket.socket:
    """A request, sent by hand: its connection can be closed whenever we like."""
    raw = json.dumps(said).encode()
    head = f"POST {path}?namespace={api.namespace} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(raw)}\r\n\r\n"
    line = socket.create_connection(("127.0.0.1", int(api.url.rpartition(":")[2])))
    line.sendall(head.encode() + raw)
    return line


def until(true: Any) -> None:
    """Waits for something that will be so in a moment."""
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_client_that_goes_while_it_waits_is_handed_nothing(served: Served, real: Api) -> None:
    lines = [asking(real, "/v1/topics/orders/pop", {"wait": 60}) for _ in range(5)]
    until(lambda: served.door.held == 5)
    for line in lines:
        line.close()
    until(lambda: not served.door.held)
    real.post("/v1/topics/orders/jobs", {"body": "tea"}, 201)
    job = real.post("/v1/topics/orders/pop", {"wait": 10})
    assert (job["body"], job["attempt"]) == ("tea", 1)
    assert real.get("/v1/topics/orders/stats")["timed_out"] == 0


def test_whoever_goes_in_the_very_moment_loses_no_job(served: Served, real: Api) -> None:
    """Whichever comes first, the job or the end of the connection: the next one gets it, as if nothing had been."""
    for number in range(40):
        line = asking(real, "/v1/topics/orders/pop", {"wait": 60, "ttr": "10m"})
        until(lambda: served.door.held == 1)
        adding = asking(real, "/v1/topics/orders/jobs", {"body": number})
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, as of a killed process
        line.close()
        adding.recv(4096)
        adding.close()
        until(lambda: not served.door.held)
        answer = real("POST", "/v1/topics/orders/pop", {"wait": 1})
        if answer.status_code == 204:  # it was written before the end was heard: only the TTR can tell
            assert real.get("/v1/topics/orders/stats")["reserved"] == 1
            real("POST", "/v1/topics/orders/purge", {})
            continue
        job = answer.json()
        assert (job["body"], job["attempt"]) == (number, 1)
        real.post(f"/v1/topics/orders/jobs/{job['id']}/finish", {"receipt": job["receipt"]}, 204)


def test_a_pop_that_does_not_wait_looks_too(served: Served, api: Api) -> None:
    """The end of the connection was heard while the server answered: nothing is sent, the job lies where it lay."""
    api.post("/v1/topics/orders/jobs", {"body": "tea", "id": "7"}, 201)
    before = api.get("/v1/topics/orders/jobs/7")
    sent: list[Any] = []

    async def pop(path: str) -> None:
        heard = [{"type": "http.request", "body": b"{}"}]

        async def receive() -> Any:
            return heard.pop(0) if heard else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "headers": [],
            "query_string": f"namespace={api.namespace}".encode(),
        }  # fmt: skip
        await served.door(scope, receive, send)

    for path in ("/v1/topics/orders/pop", "/v1/topics/orders/many/pop"):
        served.run(pop(path))
        assert not sent
        now = api.get("/v1/topics/orders/jobs/7")
        assert {name: now[name] for name in before} == before
    assert api.post("/v1/topics/orders/pop", {})["attempt"] == 1


def test_a_request_that_is_never_finished_ends_with_its_client(served: Served, real: Api) -> None:
    line = socket.create_connection(("127.0.0.1", served.port))
    line.sendall(b"POST /v1/topics/orders/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
    line.close()
    assert real.get("/v1/topics") == {"topics": []}


@pytest.mark.parametrize("split", [False, True])
def test_who_offers_http_2_is_heard_all_the_same(real: Api, split: bool) -> None:
    """Java's HttpClient does, with its first request."""
    body = b'{"body": "\\r\\nUpgrade: h2c\\r\\n"}'
    head = (
        f"POST /v1/topics/orders/jobs?namespace={real.namespace} HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        f"Content-Length: {len(body)}\r\nHost: localhost\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\nUpgrade: h2c\r\n\r\n"
    ).encode()
    with socket.create_connection(("127.0.0.1", int(real.url.rpartition(":")[2]))) as line:
        for part in (head, body) if split else (head + body,):
            line.sendall(part)
            time.sleep(0.02)
        assert line.recv(4096).startswith(b"HTTP/1.1 201")
    assert real.post("/v1/topics/orders/pop", {})["body"] == "\r\nUpgrade: h2c\r\n"
