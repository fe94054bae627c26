"""Held requests, waits and streams: each ends within a second after its token was revoked, and has taken nothing.

The requests are found: each route is sent its example, with a wait where the document has one, and those that are held then are
tested. A route that is written tomorrow is, too.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import msgspec
import pytest
import redis

import tarry
from service.running_service import RunningService, serve
from tarry.clients.awaited.client import AsyncClient
from tarry.connections.embedded.server_process import ServerProcess
from tarry.programs.cli.composition import Composition
from tarry.programs.dialects.mounts import Dialects
from tarry.programs.service.settings import ServiceSettings
from tarry.programs.serving import authorization
from tarry.programs.serving.router import Route
from tarry.values import keys
from tarry.verbs import tokens
from until import LONGEST_S, until

NAMESPACE = "guarded"
EVENTS = "text/event-stream"
QUEUE = {"redisson": "3.20", "codec": "json"}


class Token(NamedTuple):
    id: str
    headers: Mapping[str, str]


class Held:
    """A service that asks for tokens, on a server of its own, with every dialect."""

    def __init__(self, running: RunningService, server: ServerProcess) -> None:
        self.running, self.server = running, server
        self.raw = redis.Redis.from_url(server.url)
        self.client = tarry.Client(server.url, namespace=NAMESPACE)
        self.pool = ThreadPoolExecutor()
        self.document = json.loads(running.app.document)

    def close(self) -> None:
        self.pool.shutdown()
        self.client.close()
        self.raw.close()

    @property
    def count(self) -> int:
        """How many requests wait or stream."""
        return len(self.running.app.authorizer._held)

    def new_token(self) -> Token:
        """A token for everything, which the service knows."""
        text, id, record = tokens.create_token(os.urandom, ("view", "produce", "consume", "admin"))
        self.client.engine.run(tokens.store_token(NAMESPACE, id, record))
        until(lambda: self.knows(id), "the token is known")
        return Token(id, {"authorization": f"Bearer {text}"})

    def revoke(self, token: Token) -> None:
        self.client.engine.run(tokens.delete_token(NAMESPACE, token.id))

    def knows(self, id: str) -> bool:
        return self.running.run(self.running.app.authorizer.find_credential(id)) is not None

    def waits(self, route: Route) -> bool:
        """Whether the document says that a request may wait."""
        operation = self.document["paths"][route.path][route.method.lower()]
        schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        if reference := schema.get("$ref"):
            schema = self.document["components"]["schemas"][reference.rpartition("/")[2]]
        return "wait" in schema.get("properties", {}) or any(one["name"] == "wait" for one in operation["parameters"])

    def send(self, route: Route, token: Token) -> Future[httpx.Response]:
        """Sends the example of a route from another thread, with a wait if it takes one."""
        path = route.path
        for name in route.path_names:
            path = path.replace("{" + name + "}", quote(route.example.path.get(name, "orders"), safe=""))
        body, query = json.loads(msgspec.json.encode(route.example.request)), dict[str, Any]()
        if self.waits(route):
            if route.body_model is None:
                query["wait"] = "60"
            else:
                body = {**(body or {}), "wait": 60}
        sent = {} if body is None else {"json": body}
        url = self.running.url + path
        return self.pool.submit(
            httpx.request, route.method, url, params=query, headers=token.headers, timeout=LONGEST_S, **sent
        )

    def forget(self) -> None:
        """Removes everything but the tokens."""
        for key in self.raw.scan_iter(count=1000):
            if key != keys.tokens_key(NAMESPACE):
                self.raw.delete(key)


@pytest.fixture
def held(own_server: Callable[..., ServerProcess]) -> Iterator[Held]:
    server = own_server()
    settings = ServiceSettings(namespaces=(NAMESPACE,), tokens=True)
    mounts = Composition(Dialects(NAMESPACE, NAMESPACE, "orders"), True, False, None).mounts(NAMESPACE)
    with serve(lambda name: AsyncClient(server.url, namespace=name, redisson="3.20"), settings, mounts) as running:
        made = Held(running, server)
        yield made
        made.close()


@pytest.mark.slow
def test_every_request_that_is_held_ends_when_its_token_is_revoked(held: Held) -> None:
    """A request that outlived its token would end with 200 or 404 after its wait."""
    ended = dict[str, Route]()
    token = held.new_token()
    for route in held.running.app.routes:
        held.forget()
        if {"topic", "id"} <= {*route.path_names}:
            named = route.example.path
            held.client.topic(named.get("topic", "orders")).add(1, id=named.get("id", "orders"), delay="1h")
        if route.path.endswith("/ends"):
            settings = f"{held.running.url}/v1/topics/orders/settings"
            httpx.patch(settings, json={"keep_finished": "1d"}, headers=token.headers).raise_for_status()
        answered = held.send(route, token)
        until(lambda answered=answered: answered.done() or held.count)
        if not answered.done():
            ended[route.path] = route
            held.revoke(token)
            check_refused(route, answered.result(LONGEST_S))
            token = held.new_token()
        until(lambda: not held.count)
    must = {route.path for route in held.running.app.routes if held.waits(route) or EVENTS in str(route.media)}
    assert ended.keys() == must | {"/pop"}, "of Youzan's design, which says nothing of its wait"
    assert len(must) > 7


def check_refused(route: Route, answer: httpx.Response) -> None:
    if answer.headers["content-type"].startswith(EVENTS):
        return  # it has an end
    if route.problem_answer is not None:
        assert "revoked" in answer.json()["message"], route.path
        return
    assert (answer.status_code, answer.json()["code"]) == (401, "not_allowed"), route.path
    assert "revoked" in answer.json()["detail"]


# ── what is taken in the moment in which the token is revoked ────────────────────────────────────────────────────────────


class Place(NamedTuple):
    """Where a request takes from."""

    add: Callable[[Held], Any]
    look: Callable[[Held], Any]
    """What is there, as it was added."""


TOPIC = Place(
    lambda held: held.client.topic("orders").add("tea", id="tea"),
    lambda held: [(job.state, job.attempts) for job in held.client.topic("orders").get_many(["tea"]) if job],
)
LIST = Place(lambda held: held.raw.rpush("orders", b'"tea"'), lambda held: held.raw.lrange("orders", 0, -1))
ITEMS = Place(
    lambda held: held.client.guarded_queue("orders").push({"tea": 0}),
    lambda held: [member[-5:] for member in held.raw.zrange(f"tarry:{{{NAMESPACE}/orders}}:items", 0, -1)],
)
TAKERS: dict[str, tuple[Any, Place, Any]] = {
    "/v1/topics/orders/pop": ({"wait": 60}, TOPIC, [("ready", 0)]),
    "/v1/topics/orders/many/pop": ({"wait": 60}, TOPIC, [("ready", 0)]),
    "/v1/pop": ({"wait": 60, "topics": ["others", "orders"]}, TOPIC, [("ready", 0)]),
    "/v1/delayed-queues/orders/take": ({"wait": 60, **QUEUE}, LIST, [b'"tea"']),
    "/v1/take": ({"wait": 60, "queues": ["others", "orders"], **QUEUE}, LIST, [b'"tea"']),
    "/v1/guarded-queues/orders/poll": ({"wait": 60}, ITEMS, [b'"tea"']),
    "/pop": ({"topic": "orders"}, TOPIC, [("ready", 0)]),
}
"""Requests that take, by their path: the body, the place, and what is there afterwards."""


def test_the_takers_are_all(held: Held) -> None:
    paths = {route.path: route for route in held.running.app.routes}
    takers = {path for path, route in paths.items() if held.waits(route) and route.method == "POST"}
    assert {one.replace("/orders/", "/{topic}/").replace("guarded-queues/{topic}", "guarded-queues/{queue}").replace("delayed-queues/{topic}", "delayed-queues/{queue}") for one in TAKERS} == takers | {"/pop"}  # fmt: skip


@pytest.mark.parametrize("path", TAKERS)
def test_what_comes_when_the_token_has_been_revoked_goes_back(
    held: Held, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The element comes before the next look at the tokens."""
    held.running.stop_looking(monkeypatch)
    body, place, expected = TAKERS[path]
    token = held.new_token()
    answered = held.pool.submit(
        httpx.post, held.running.url + path, json=body, headers=token.headers, timeout=LONGEST_S
    )
    until(lambda: held.count)
    held.revoke(token)
    until(lambda: not held.knows(token.id))
    assert not answered.done()
    place.add(held)
    answer = answered.result(LONGEST_S)
    assert "revoked" in answer.text
    assert place.look(held) == expected


@pytest.mark.parametrize("framing", ["content-length: 22", "transfer-encoding: chunked"])
def test_a_request_whose_body_comes_after_its_token_was_revoked_is_refused(held: Held, framing: str) -> None:
    token = held.new_token()
    with socket.create_connection(("127.0.0.1", held.running.port)) as sock, sock.makefile("rb") as answer:
        lines = ["POST /v1/topics/orders/jobs HTTP/1.1", "host: localhost", framing, *fields(token.headers), "", ""]
        sock.sendall("\r\n".join(lines).encode())
        until(lambda: held.running.app.held_requests)
        held.revoke(token)
        until(lambda: not held.knows(token.id))
        body = b'{"body":1,"id":"late"}'
        sock.sendall(body if "length" in framing else b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        assert answer.readline() == b"HTTP/1.1 401 Unauthorized\r\n"
    assert held.client.topic("orders").get("late") is None


def fields(headers: Mapping[str, str]) -> list[str]:
    return [f"{name}: {value}" for name, value in headers.items()]


def test_a_wait_without_a_token_ends_when_tokens_are_required(own_server: Callable[..., ServerProcess]) -> None:
    server = own_server()
    settings = ServiceSettings(namespaces=(NAMESPACE,), tokens_later=True)
    with serve(lambda name: AsyncClient(server.url, namespace=name), settings) as running:
        made = Held(running, server)
        url = f"{running.url}/v1/topics/orders/pop"
        answered = made.pool.submit(httpx.post, url, json={"wait": 60}, timeout=LONGEST_S)
        until(lambda: made.count)
        made.new_token()
        assert answered.result(LONGEST_S).status_code == 401
        made.close()


def test_one_look_is_for_all_that_is_held(held: Held) -> None:
    """Each would be four timers a second."""
    token = held.new_token()
    waits = [
        held.send(route, token) for route in held.running.app.routes if held.waits(route) and "{id}" not in route.path
    ]
    until(lambda: held.count == len(waits) > 3)

    def looks() -> int:
        return sum(task.get_name() == authorization.WORK for task in asyncio.all_tasks())

    assert held.running.call(looks) == 1
    held.revoke(token)
    assert {wait.result(LONGEST_S).status_code for wait in waits} == {401}
