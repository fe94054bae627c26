"""A client that has disconnected is handed nothing, or its jobs are put back at once, and the attempt does not count."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from service.running_service import Api, RunningService, serve
from tarry.clients.awaited.client import AsyncClient
from until import until


def asking(api: Api, path: str, said: Any) -> socket.socket:
    """A request, sent by hand: its connection can be closed whenever we like."""
    raw = json.dumps(said).encode()
    head = f"POST {path}?namespace={api.namespace} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(raw)}\r\n\r\n"
    line = socket.create_connection(("127.0.0.1", int(api.url.rpartition(":")[2])))
    line.sendall(head.encode() + raw)
    return line


def test_a_client_that_disconnects_while_waiting_gets_no_job(running_service: RunningService, real: Api) -> None:
    lines = [asking(real, "/v1/topics/orders/pop", {"wait": 60}) for _ in range(5)]
    until(lambda: running_service.app.held_requests == 5)
    for line in lines:
        line.close()
    until(lambda: not running_service.app.held_requests)
    real.post("/v1/topics/orders/jobs", {"body": "tea"}, 201)
    job = real.post("/v1/topics/orders/pop", {"wait": 10})
    assert (job["body"], job["attempt"]) == ("tea", 1)
    assert real.get("/v1/topics/orders/stats")["timed_out"] == 0


VERSION = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
RESET = (socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
"""An end of the connection as of a killed process."""


@pytest.mark.parametrize("end", ["it closes", "it resets", "it stays", "its next request is none"])
def test_a_request_behind_a_waiting_pop_ends_its_wait(running_service: RunningService, real: Api, end: str) -> None:
    """The next request cannot be answered before the pop is; the pop ends as if the client had gone."""
    line = asking(real, "/v1/topics/orders/pop", {"wait": 60})
    until(lambda: running_service.app.held_requests == 1)
    line.sendall(b"no request\r\n\r\n" if end == "its next request is none" else VERSION)
    if end == "it resets":
        line.setsockopt(*RESET)
    if end in ("it closes", "it resets"):
        line.close()
    until(lambda: not running_service.app.held_requests)
    real.post("/v1/topics/orders/jobs", {"body": "tea", "id": "7"}, 201)
    assert real.get("/v1/topics/orders/jobs/7")["attempts"] == 0
    if end not in ("it closes", "it resets"):
        assert line.recv(4096) == b"", "it is closed without an answer"
        line.close()


def test_a_stream_with_a_request_behind_it_ends(
    running_service: RunningService, real: Api, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", running_service.port)) as line:
            line.sendall(
                f"GET /v1/events?namespace={real.namespace} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() + VERSION
            )
            assert b"version" not in b"".join(iter(lambda line=line: line.recv(65536), b""))
    until(lambda: not running_service.app.held_requests)
    assert not [record for record in caplog.records if record.name != "tarry"]


@pytest.mark.slow
def test_disconnecting_as_a_job_arrives_loses_no_job(running_service: RunningService, real: Api) -> None:
    """Whichever comes first, the job or the end of the connection: the next one gets it, as if nothing had been."""
    for number in range(40):
        line = asking(real, "/v1/topics/orders/pop", {"wait": 60, "ttr": "10m"})
        until(lambda: running_service.app.held_requests == 1)
        adding = asking(real, "/v1/topics/orders/jobs", {"body": number})
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, as of a killed process
        line.close()
        adding.recv(4096)
        adding.close()
        until(lambda: not running_service.app.held_requests)
        answer = real("POST", "/v1/topics/orders/pop", {"wait": 1})
        if answer.status_code == 204:  # it was written before the end was heard: only the TTR can tell
            assert real.get("/v1/topics/orders/stats")["reserved"] == 1
            real("POST", "/v1/topics/orders/purge", {})
            continue
        job = answer.json()
        assert (job["body"], job["attempt"]) == (number, 1)
        real.post(f"/v1/topics/orders/jobs/{job['id']}/finish", {"receipt": job["receipt"]}, 204)


def test_a_pop_without_a_wait_notices_a_disconnect_too(running_service: RunningService, api: Api) -> None:
    """The end of the connection was heard while the server answered: nothing is sent, the job lies where it lay."""
    api.post("/v1/topics/orders/jobs", {"body": "tea", "id": "7"}, 201)
    before = api.get("/v1/topics/orders/jobs/7")
    for path in ("/v1/topics/orders/pop", "/v1/topics/orders/many/pop"):
        assert not running_service.run(_called_by_nobody(running_service, api.namespace, path, {}))
        now = api.get("/v1/topics/orders/jobs/7")
        assert {name: now[name] for name in before} == before
    assert api.post("/v1/topics/orders/pop", {})["attempt"] == 1


def test_undelivered_jobs_return_to_their_own_partitions(running_service: RunningService, real: Api) -> None:
    path = "/v1/topics/orders"
    assert real("PUT", path + "/partitions", {"number": 8}).json() == {"partitions": 8}
    real.post(path + "/many/add", {"jobs": [{"body": k, "id": f"j{k}"} for k in range(12)]})
    for pop in (path + "/many/pop", "/v1/pop"):
        said: dict[str, Any] = {"limit": 12} | ({"topics": ["orders"]} if pop == "/v1/pop" else {})
        assert not running_service.run(_called_by_nobody(running_service, real.namespace, pop, said))
        assert real.get(path + "/stats")["ready"] == 12
    jobs = real.post(path + "/many/pop", {"limit": 12})["jobs"]
    assert [job["attempt"] for job in jobs] == [1] * 12
    assert len({job["receipt"] for job in jobs}) > 1


def test_an_incomplete_request_ends_with_its_connection(running_service: RunningService, real: Api) -> None:
    line = socket.create_connection(("127.0.0.1", running_service.port))
    line.sendall(b"POST /v1/topics/orders/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
    line.close()
    assert real.get("/v1/topics") == {"topics": []}


@pytest.mark.parametrize("split", [False, True])
def test_a_request_that_offers_http_2_is_answered(real: Api, split: bool) -> None:
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


# ── what is taken and not acknowledged ───────────────────────────────────────────────────────────────────────────────

QUEUE, GUARDED = "/v1/delayed-queues/{}", "/v1/guarded-queues/{}"


@pytest.fixture
def shared(running_service: RunningService, namespace: str) -> Iterator[tuple[Api, str]]:
    """The service's first namespace, where shared queues are, and a name of one's own."""
    made = Api(running_service.url, running_service.app.settings.namespaces[0])
    yield made, namespace
    made.http.close()


def test_disconnecting_while_waiting_for_an_element_loses_none(
    running_service: RunningService, shared: tuple[Api, str]
) -> None:
    api, name = shared
    path = QUEUE.format(name)
    lines = [asking(api, path + "/take", {"wait": 60, "codec": "string"}) for _ in range(4)]
    lines.append(asking(api, "/v1/take", {"queues": [name], "wait": 60, "codec": "string"}))
    until(lambda: running_service.app.held_requests == 5)
    for line in lines:
        line.close()
    until(lambda: not running_service.app.held_requests)
    api.post(path + "/put", {"values": ["tea"], "codec": "string"}, 204)
    assert api.post(path + "/take", {"wait": 10, "codec": "string"})["values"] == ["tea"]


def test_disconnecting_while_waiting_for_an_item_loses_none(
    running_service: RunningService, shared: tuple[Api, str]
) -> None:
    api, name = shared
    path = GUARDED.format(name)
    lines = [asking(api, path + "/poll", {"wait": 60}) for _ in range(3)]
    until(lambda: running_service.app.held_requests == 3)
    for line in lines:
        line.close()
    until(lambda: not running_service.app.held_requests)
    api.post(path + "/push", {"items": [{"body": "tea"}]})
    assert [item["body"] for item in api.post(path + "/poll", {"wait": 10})["items"]] == ["tea"]


def test_elements_taken_for_a_lost_client_return_to_their_place(
    running_service: RunningService, shared: tuple[Api, str]
) -> None:
    """The end of the connection was heard while the service took: nothing is sent, and the order is as before."""
    api, name = shared
    api.post(QUEUE.format(name) + "/put", {"values": ["a", "b", "c"], "codec": "string"}, 204)
    due = api.post(GUARDED.format(name) + "/push", {"items": [{"body": k} for k in range(3)]})["due"]
    said: dict[str, Any] = {"limit": 2, "codec": "string"}
    for path, body in (
        (QUEUE.format(name) + "/take", said),
        ("/v1/take", {**said, "queues": [name]}),
        (GUARDED.format(name) + "/poll", {"limit": 2}),
    ):
        assert not running_service.run(_called_by_nobody(running_service, api.namespace, path, body))
    assert api.post(QUEUE.format(name) + "/take", {"limit": 3, "codec": "string"})["values"] == ["a", "b", "c"]
    items = api.post(GUARDED.format(name) + "/poll", {"limit": 3})["items"]
    assert [(item["body"], item["due"]) for item in items] == list(enumerate(due))


def test_waiting_requests_are_answered_when_the_service_drains(valkey_url: str, namespace: str) -> None:
    with serve(lambda name: AsyncClient(valkey_url, namespace=name)) as running:
        api = Api(running.url, "default")
        waits = (
            (QUEUE.format(namespace) + "/take", {"wait": 60, "codec": "string"}),
            (GUARDED.format(namespace) + "/poll", {"wait": 60}),
        )
        lines = [asking(api, path, said) for path, said in waits]
        until(lambda: running.app.held_requests == 2)
        running.call(running.app.drain)
        for line in lines:
            assert line.recv(4096).startswith(b"HTTP/1.1 503")
            line.close()
        api.http.close()


async def _called_by_nobody(running_service: RunningService, namespace: str, path: str, said: Any) -> list[Any]:
    """What is sent to a client whose connection ends right behind its request."""
    heard, sent = [{"type": "http.request", "body": json.dumps(said).encode()}], list[Any]()

    async def receive() -> Any:
        return heard.pop(0) if heard else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "headers": [],
        "query_string": f"namespace={namespace}".encode(),
    }  # fmt: skip
    await running_service.app(scope, receive, send)
    return sent
