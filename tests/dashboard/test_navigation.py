"""The navigation has what is used: no pages of objects that never were, no namespaces of dialects in which nothing was added."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

import tarry
from dashboard.conftest import Service, Site
from tarry.connections.embedded.server_process import ServerProcess
from tarry.verbs import tokens
from until import LONGEST_S, until
from warm import WarmTarry

pytestmark = pytest.mark.slow
ALWAYS = ["Topics", "Schedules", "Workers", "Server"]


def titles(page: str) -> list[str]:
    """The links of the navigation."""
    found = re.search(r'<nav aria-label="Sections">(.*?)</nav>', page, re.DOTALL)
    assert found is not None
    return re.findall(r">([^<]+)</a>", found[1])


@pytest.fixture
def empty(
    own_server: Callable[..., ServerProcess], site_of: Callable[..., Site], namespace: str
) -> Iterator[tuple[tarry.Client, Site]]:
    """A dashboard of a server that has nothing yet."""
    url = own_server().url
    with tarry.Client(url, namespace=namespace) as client:
        yield client, site_of(url, allow="admin")


def test_pages_of_shared_objects_appear_once_there_is_one(empty: tuple[tarry.Client, Site]) -> None:
    client, site = empty
    with httpx.Client(base_url=site.at, timeout=LONGEST_S) as http:
        client.topic("orders").add(1)
        assert titles(http.get("/").text) == ALWAYS
        server = http.get("/server").text
        for path in ("/queues", "/maps", "/locks"):
            assert f'href="{path}"' in server, "they can be reached"
            assert len(titles(http.get(path).text)) == len(ALWAYS) + 1, "and say where one is"
        client.delayed_queue("java", codec="string").offer("tea", "1h")
        until(lambda: "java" in http.get("/queues").text, "it is found")
        assert titles(http.get("/").text) == ["Topics", "Schedules", "Workers", "Delayed queues", "Server"]
        client.delayed_queue("java", codec="string").clear()
        with client.map_cache("prices", codec="string") as prices, client.lock("till"):
            prices.put("tea", "4", ttl="1h")
            until(lambda: ">till<" in http.get("/locks").text, "they are found")
            with client.lock("javas", shared=True):
                until(lambda: ">javas</bdi> (shared with Java)" in http.get("/locks").text, "it is found, too")
            until(lambda: "java" not in http.get("/queues").text, "it is forgotten")
            used = ["Topics", "Schedules", "Workers", "Delayed queues", "Map caches", "Locks", "Server"]
            assert titles(http.get("/").text) == used, "what was used stays"


def test_a_dialect_is_in_the_menu_once_it_is_used(
    own_server: Callable[..., ServerProcess], namespace: str, tarry_command: WarmTarry, tmp_path: Path
) -> None:
    service = Service(own_server().url, namespace, tarry_command, tmp_path)
    service.start("--dialect", "delay-controller", "--dialect", "delay-queue")
    try:
        with httpx.Client(base_url=service.at, timeout=LONGEST_S) as http:
            assert 'aria-label="Namespaces"' not in http.get("/").text
            assert http.get("/ns/delay/").status_code == 200
            with tarry.Client(service._words[service._words.index("--url") + 1], namespace="delay-queue") as client:
                client.topic("orders").add(1)
            page = http.get("/ns/delay-queue/").text
            found = re.search(r'<nav aria-label="Namespaces">(.*?)</nav>', page, re.DOTALL)
            assert found is not None
            assert re.findall(r"<bdi>([^<]+)</bdi>", found[1]) == [namespace, "delay-queue"]
    finally:
        service.stop()


def test_a_dialect_that_is_not_used_asks_for_no_token(
    own_server: Callable[..., ServerProcess], namespace: str, tarry_command: WarmTarry, tmp_path: Path
) -> None:
    url = own_server().url
    text, id, record = tokens.create_token(os.urandom, ["admin"])
    with tarry.Client(url, namespace=namespace) as client:
        client.engine.run(tokens.store_token(namespace, id, record))
    service = Service(url, namespace, tarry_command, tmp_path)
    service.start("--dialect", "delay-controller", "--dialect", "delay-queue")
    try:
        with httpx.Client(base_url=service.at, timeout=LONGEST_S, headers={"sec-fetch-site": "same-origin"}) as http:
            http.post("/sign-in", data={"token": text})
            assert "sign in to another" not in http.get("/").text
    finally:
        service.stop()
