"""A token that is revoked while the service's dashboard has a stream, a download or half a form of it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from itertools import islice

import httpx
import pytest

import tarry
from dashboard.test_live_streams import LIVE, STREAM, events
from service.running_dashboard import serve_dashboard
from service.running_service import RunningService
from tarry.programs.service.settings import ServiceSettings
from tarry.verbs import tokens
from until import LONGEST_S, until

pytestmark = pytest.mark.slow


class Guarded:
    """A service that needs tokens, and its clients."""

    def __init__(self, running: RunningService, client: tarry.Client) -> None:
        self.running, self.client = running, client

    def new_token(self) -> tuple[str, dict[str, str]]:
        """The id of a token, and its cookie."""
        text, id, record = tokens.create_token(os.urandom, ("admin",))
        self.client.engine.run(tokens.store_token(self.client.namespace, id, record))
        until(lambda: self.knows(id))
        return id, {"cookie": f"tarry-dashboard={text}"}

    def revoke(self, id: str) -> None:
        self.client.engine.run(tokens.delete_token(self.client.namespace, id))

    def knows(self, id: str) -> bool:
        return self.running.run(self.running.app.authorizer.find_credential(id)) is not None


@pytest.fixture
def guarded(valkey_url: str, namespace: str) -> Iterator[Guarded]:
    with (
        tarry.Client(valkey_url, namespace=namespace) as client,
        serve_dashboard(valkey_url, ServiceSettings(namespaces=(namespace,), tokens=True)) as running,
    ):
        yield Guarded(running, client)


def test_a_stream_ends_by_the_one_look_that_ends_all_that_is_held(guarded: Guarded) -> None:
    """An hour before its next view; the stream of another token goes on."""
    [section] = [section for section in LIVE if section.path == "/workers"]
    usual, url = section.every_s, f"{guarded.running.url}/workers"
    (id, cookie), (_, other) = guarded.new_token(), guarded.new_token()
    object.__setattr__(section, "every_s", 3600.0)
    try:
        with (
            httpx.stream("GET", url, headers={**STREAM, **cookie}, timeout=LONGEST_S) as stream,
            httpx.stream("GET", url, headers={**STREAM, **other}, timeout=LONGEST_S) as kept,
        ):
            ending, going_on = events(stream.iter_lines()), events(kept.iter_lines())
            for each in (ending, going_on):
                assert [kind for kind, _ in islice(each, 2)] == ["hello", "view"]
            held = guarded.running.app.authorizer._held
            assert len(held) == 2
            guarded.revoke(id)
            assert list(ending) == []
            until(lambda: len(held) == 1)
    finally:
        object.__setattr__(section, "every_s", usual)


def test_a_download_breaks_off(guarded: Guarded) -> None:
    """Its end would pass for the end of the file."""
    topic = guarded.client.topic("orders")
    topic.add_many([tarry.NewJob("x" * 4000, id=f"{n}", max_attempts=1) for n in range(1000)])
    while jobs := topic.pop_many(limit=1000):
        topic.release_many(jobs)
    id, cookie = guarded.new_token()
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.settimeout(LONGEST_S)
        line.connect(("127.0.0.1", guarded.running.port))
        line.sendall(f"GET /dead.jsonl?topic=orders HTTP/1.1\r\nHost: x\r\nCookie: {cookie['cookie']}\r\n\r\n".encode())
        said = line.recv(1000)
        guarded.revoke(id)
        until(lambda: not guarded.knows(id))
        until(lambda: not guarded.running.app.authorizer._held)
        while some := line.recv(1 << 20):
            said += some
    assert said.startswith(b"HTTP/1.1 200 ")
    assert said.count(b'"id":') < 1000
    assert not said.endswith(b"\r\n0\r\n\r\n")


def test_a_form_that_comes_later_does_nothing(guarded: Guarded) -> None:
    guarded.client.topic("orders").add(1, id="7", delay="1h")
    (id, cookie), form = guarded.new_token(), b"action=delete&topic=orders&id=7&sure=1&back=/"
    lines = ["POST /act HTTP/1.1", "Host: x", "Sec-Fetch-Site: same-origin", f"Cookie: {cookie['cookie']}"]
    lines += ["Content-Type: application/x-www-form-urlencoded", f"Content-Length: {len(form)}", "", ""]
    with socket.create_connection(("127.0.0.1", guarded.running.port), LONGEST_S) as line, line.makefile("rb") as said:
        line.sendall("\r\n".join(lines).encode() + form[:-1])
        [port] = guarded.running.app.files.ports
        until(lambda: any(one._open.is_authorized for one in port), "the form is waited for")  # type: ignore[attr-defined]
        guarded.revoke(id)
        until(lambda: not guarded.knows(id))
        line.sendall(form[-1:])
        assert said.readline() == b"HTTP/1.1 403 Forbidden\r\n"
    assert guarded.client.topic("orders").get("7") is not None
