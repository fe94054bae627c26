"""The dashboard of ``tarry serve``: a real process, with and without tokens, drained."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import httpx
import pytest

import tarry
from tarry.verbs import tokens

OURS = {"sec-fetch-site": "same-origin"}
Serve = Callable[..., tuple[str, "subprocess.Popen[str]"]]


@pytest.fixture
def serve(valkey_url: str, namespace: str) -> Iterator[Serve]:
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> tuple[str, subprocess.Popen[str]]:
        line = [sys.executable, "-m", "tarry", "serve", "--port", "0", "--url", valkey_url, "--namespace", namespace]
        process = subprocess.Popen([*line, "--no-dialects", *words], stderr=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stderr is not None
        said = ""
        while "drains it" not in said:
            row = process.stderr.readline()
            assert row, said
            said += row
        found = re.search(r"service at (\S+)", said)
        assert found is not None
        return found[1], process

    yield start
    for process in started:
        process.terminate()
        process.communicate(timeout=20)


def test_a_service_shows_it_and_its_api_goes_on(serve: Serve, client: tarry.Client) -> None:
    client.topic("orders").add(0, id="7", delay="1h")
    place, process = serve()
    with httpx.Client(base_url=place, timeout=10) as http:
        assert "orders" in http.get("/").text
        assert http.get("/healthz").status_code == 200
        unknown = http.get("/v1/unknown")
        assert unknown.headers["content-type"].startswith("application/problem+json")
        assert http.get("/", headers={"host": "evil.example"}).status_code == 421
        data = {"action": "delete", "topic": "orders", "id": "7", "sure": "1", "back": "/"}
        assert http.post("/act", data=data).status_code == 403
        assert http.post("/act", data=data, headers=OURS).status_code == 303
        assert client.topic("orders").get("7") is None
        with http.stream("GET", "/", headers={"accept": "text/event-stream"}) as stream:
            lines = stream.iter_lines()
            assert any("event: view" in line for line in lines)
            os.kill(process.pid, signal.SIGTERM)
            for _ in lines:
                pass  # a stream does not hold up the end
    assert process.wait(15) == 0


def test_a_service_with_tokens_asks_for_one_and_obeys_its_scopes(
    serve: Serve, client: tarry.Client, namespace: str
) -> None:
    made = {scope: tokens.make(os.urandom, [scope]) for scope in ("view", "admin", "produce")}
    for _, id, record in made.values():
        client.engine.run(tokens.keep(namespace, id, record))
    client.topic("orders").add(0, id="7", delay="1h")
    place, _ = serve()
    data = {"action": "delete", "topic": "orders", "id": "7", "sure": "1", "back": "/"}

    def signed_in(scope: str) -> tuple[int, int]:
        with httpx.Client(base_url=place, timeout=10, headers=OURS) as http:
            assert http.get("/").headers["location"] == "/sign-in"
            http.post("/sign-in", data={"token": made[scope][0]})
            return http.get("/").status_code, http.post("/act", data=data).status_code

    assert signed_in("produce") == (303, 303), "asked to sign in, both times"
    assert client.topic("orders").get("7") is not None
    assert signed_in("view") == (200, 403)
    assert signed_in("admin") == (200, 303)
    assert client.topic("orders").get("7") is None


def test_a_service_without_it_has_nothing_there(serve: Serve) -> None:
    place, _ = serve("--no-dashboard")
    assert httpx.get(place + "/").status_code == 404
