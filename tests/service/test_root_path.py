"""A service below a path of its host: behind a proxy that passes the path on, or takes it away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

import tarry
from service.running_dashboard import serve_dashboard
from service.running_service import Api, RunningService
from tarry.programs.service.settings import ServiceSettings

ROOT = "/internal/tarry"


@pytest.fixture
def below(valkey_url: str, namespace: str) -> Iterator[RunningService]:
    with serve_dashboard(valkey_url, ServiceSettings(namespaces=(namespace,), root_path=ROOT)) as running:
        yield running


@pytest.mark.parametrize("before", [ROOT, ""], ids=["passed on", "taken away"])
def test_the_api_is_below_its_path(below: RunningService, before: str) -> None:
    place = below.url + before
    with tarry.HTTPClient(place) as client:
        added = client.topic("a/b").add({"order": 7}, id="x/y")
        assert (added.id, client.topics()) == ("x/y", ["a/b"])
        job = client.topic("a/b").get("x/y")
        assert job is not None
        assert job.body == {"order": 7}
    assert httpx.get(f"{place}/healthz").status_code == 200
    document = httpx.get(f"{place}/openapi.json").json()
    assert document["servers"] == [{"url": ROOT}]
    wrong = httpx.get(f"{place}/v1/topics/")
    assert (wrong.status_code, wrong.json()["detail"].split()[-1]) == (404, f"{ROOT}/v1/topics")


@pytest.mark.parametrize("path", [ROOT, f"{ROOT}/", "/", f"{ROOT}/workers", "/workers"])
def test_links_of_the_dashboard_are_below_its_path(below: RunningService, path: str) -> None:
    page = httpx.get(below.url + path, headers={"accept": "text/html"})
    assert page.status_code == 200
    links = [part.partition('"')[0] for part in page.text.split('href="')[1:]]
    assert links
    assert [link for link in links if link.startswith("/") and not link.startswith(f"{ROOT}/")] == []
    asset = next(link for link in links if "/assets/" in link)
    assert httpx.get(below.url + asset).status_code == 200


def test_an_unknown_page_is_shown_as_a_page_and_an_unknown_path_of_the_api_as_a_problem(below: RunningService) -> None:
    browser = {"accept": "text/html"}
    page = httpx.get(f"{below.url}{ROOT}/nowhere", headers=browser)
    assert (page.status_code, page.headers["content-type"].partition(";")[0]) == (404, "text/html")
    problem = httpx.get(f"{below.url}{ROOT}/v1/nowhere", headers=browser)
    assert (problem.status_code, problem.headers["content-type"]) == (404, "application/problem+json")
    assert httpx.get(f"{below.url}{ROOT}-2/v1/topics").status_code == 404


@pytest.mark.parametrize("topic", ["50%25", "größe"])
def test_a_path_that_the_http_server_has_decoded_is_not_decoded_again(
    running_service: RunningService, api: Api, topic: str
) -> None:
    """ASGI allows a server to give no ``raw_path``."""
    api.post(f"/v1/topics/{quote(topic)}/jobs", {"body": 1, "id": "7"}, 201)
    scope = {
        "type": "http", "method": "GET", "path": f"/v1/topics/{topic}/jobs/7", "headers": [],
        "query_string": f"namespace={api.namespace}".encode(),
    }  # fmt: skip
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    running_service.run(running_service.app(scope, lambda: None, send))  # type: ignore[arg-type]  # it has no body
    assert sent[0]["status"] == 200
