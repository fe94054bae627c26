"""Several namespaces of one service: each has its addresses, and its tokens."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator

import httpx
import pytest

import tarry
from dashboard.conftest import Service
from tarry.verbs import tokens
from until import LONGEST_S, until

OURS = {"sec-fetch-site": "same-origin"}
DELETE = {"action": "delete", "topic": "orders", "id": "7", "sure": "1", "back": "/"}


@pytest.fixture
def other(valkey_url: str, namespace: str) -> Iterator[tarry.Client]:
    """Another namespace of the service."""
    with tarry.Client(valkey_url, namespace=f"{namespace} für B") as client:
        yield client


@pytest.fixture
def http(service: Service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.at, timeout=LONGEST_S, headers=OURS) as http:
        yield http


def namespace_links(page: str) -> list[str]:
    """Where the names of namespaces lead to."""
    found = re.search(r'<nav aria-label="Namespaces">(.*?)</nav>', page, re.DOTALL)
    return re.findall(r'href="([^"]+)"', found[1]) if found else []


def place(client: tarry.Client) -> str:
    return "/ns/" + client.namespace.replace(" ", "%20").replace("ü", "%C3%BC")


def test_each_namespace_has_its_own_urls(
    service: Service, http: httpx.Client, client: tarry.Client, other: tarry.Client
) -> None:
    client.topic("orders").add(0, id="7", delay="1h")
    other.topic("bills").add(0, id="8", delay="1h")
    service.start("--other-namespace", other.namespace)
    at = place(other)
    first, second = http.get("/").text, http.get(at + "/").text
    assert ("orders" in first, "bills" in first) == (True, False)
    assert ("orders" in second, "bills" in second) == (False, True)
    assert namespace_links(first) == namespace_links(second) == ["/", at + "/"]
    assert namespace_links(http.get(at + "/schedules").text) == ["/schedules", at + "/schedules"]
    assert namespace_links(http.get(at + "/job?topic=bills&id=8").text) == ["/", at + "/"], "a job is of its namespace"
    for link in re.findall(r'(?:href|src|action)="(/[^"]*)"', second):
        assert link.startswith(at + "/") or link in namespace_links(second), link
    assert http.get(re.findall(r'href="(/[^"]*dashboard.css[^"]*)"', second)[0]).status_code == 200
    assert http.get(at).headers["location"] == at + "/"
    assert http.get("/ns/nowhere/").status_code == 404
    assert http.post(at + "/act", data=DELETE).status_code in (303, 404)
    assert client.topic("orders").get("7") is not None, "it was another's orders/7 that was to go"
    with http.stream("GET", at + "/", headers={"accept": "text/event-stream"}) as stream:
        assert any("bills" in line for line in stream.iter_lines())


def test_a_single_namespace_shows_no_namespace_menu(service: Service, http: httpx.Client) -> None:
    service.start()
    assert 'aria-label="Namespaces"' not in http.get("/").text


def test_a_token_opens_only_its_own_namespace(
    service: Service, http: httpx.Client, client: tarry.Client, other: tarry.Client
) -> None:
    made = {}
    for name, one, scope in (("look", client, "view"), ("act", other, "admin")):
        made[name], id, record = tokens.create_token(os.urandom, [scope])
        one.engine.run(tokens.store_token(one.namespace, id, record))
        one.topic("orders").add(0, id="7", delay="1h")
    service.start("--other-namespace", other.namespace)
    at = place(other)
    assert http.get("/").headers["location"] == "/sign-in"
    assert http.get(at + "/").headers["location"] == at + "/sign-in"

    assert http.post("/sign-in", data={"token": made["look"]}).headers["location"] == "/"
    page = http.get("/").text
    assert other.namespace not in page
    assert namespace_links(page) == ["/", "/sign-in"]
    assert http.get(at + "/").status_code == 303

    assert http.post("/sign-in", data={"token": made["act"]}).headers["location"] == at + "/"
    assert namespace_links(http.get("/").text) == namespace_links(http.get(at + "/").text) == ["/", at + "/"]
    assert (http.post("/act", data=DELETE).status_code, http.post(at + "/act", data=DELETE).status_code) == (403, 303)
    assert client.topic("orders").get("7") is not None
    assert other.topic("orders").get("7") is None

    http.post(at + "/sign-out")
    assert (http.get("/").status_code, http.get(at + "/").status_code) == (200, 303)


def test_only_the_first_namespace_has_what_is_shared_with_java(
    service: Service, http: httpx.Client, client: tarry.Client, other: tarry.Client
) -> None:
    """It has no namespace, so a token of another one may neither see nor change it; as in the API."""
    for one in (client, other):
        made, id, record = tokens.create_token(os.urandom, ["admin"])
        one.engine.run(tokens.store_token(one.namespace, id, record))
    queue = client.delayed_queue("javas-queue", codec="string")
    queue.offer("javas secret", "1h")
    service.start("--other-namespace", other.namespace)
    at = place(other)
    http.post("/sign-in", data={"token": made})  # of the other namespace
    with client.lock("javas-lock", shared=True):
        for path in ("/queues", "/queue?name=javas-queue", "/maps?name=javas", "/locks?name=javas-lock&shared=yes"):
            answer = http.get(at + path)
            assert (answer.status_code, "javas secret" in answer.text) == (404, False), path
            assert "the service's first one" in html.unescape(answer.text)
        for action in (
            {"action": "clear-queue", "name": "javas-queue", "typed": "javas-queue", "sure": "1"},
            {"action": "force-release", "name": "javas-lock", "shared": "yes", "sure": "1"},
        ):
            assert http.post(at + "/act", data=action).status_code == 404
        assert client.lock("javas-lock", shared=True).state().held
    assert queue.size() == 1
    with other.lock("own"):
        until(lambda: ">own</bdi>" in http.get(at + "/locks").text, "its own locks it has")
    assert "javas-lock" not in http.get(at + "/locks").text
    assert "Java" not in http.get(at + "/server").text
