"""Answers that are compressed, and those that never are: whatever holds a token (serving/compression.py)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import httpx
import pytest

import tarry
from service.running_dashboard import serve_dashboard
from service.running_service import Api, RunningService
from tarry.programs import dashboard
from tarry.programs.service.routes import routes_of
from tarry.programs.service.settings import ServiceSettings
from tarry.programs.serving import compression, documents
from until import LONGEST_S

SECRETS = {"token", "secret", "password"}
"""Names of fields that hold what nobody else may know."""


@pytest.fixture
def pages(valkey_url: str, namespace: str) -> Iterator[RunningService]:
    with serve_dashboard(valkey_url, ServiceSettings(namespaces=(namespace,), tokens=False)) as running:
        yield running


def fields_of(model: Any) -> Iterator[str]:
    """The names of all fields of a model, those of its parts too."""
    if hasattr(model, "__struct_fields__"):
        for name, kind in get_type_hints(model).items():
            yield name
            yield from fields_of(kind)
    for part in get_args(model):
        yield from fields_of(part)


def test_no_route_whose_answer_holds_a_secret_is_compressed() -> None:
    routes = routes_of(())
    with_secret = {route.name for route in routes if SECRETS.intersection(fields_of(route.answer_model))}
    chosen = {route.name for route in routes if route.is_compressed}
    assert {name.partition("_")[0] for name in with_secret} == {"locks"}
    assert with_secret & chosen == set()
    assert {route.method for route in routes if route.is_compressed} == {"GET"}
    streams = {route.name for route in routes if route.media == compression.STREAM.decode()}
    assert streams == {"events_of_topic", "events_of_all", "events_ends_of_topic"}
    assert streams & chosen == set()
    assert {"/v1/topics", "/v1/topics/{topic}/jobs"} <= {route.path for route in routes if route.is_compressed}


def test_no_page_with_a_field_for_a_secret_is_compressed() -> None:
    templates = Path(dashboard.__file__).parent / "templates"
    asks = {file.name for file in templates.iterdir() if re.search(r'name="(token|password)"', file.read_text("utf-8"))}
    assert asks == {"sign_in.html"}
    scope = {"method": "GET"}
    for path in ("/sign-in", "/ns/shop/sign-in", "/sign-out"):
        app = object()
        assert compression.compressed_page(app, path, scope, {b"accept-encoding": b"gzip"}) is app


def test_lists_are_compressed_for_those_that_accept_it(api: Api) -> None:
    for n in range(30):
        api.post("/v1/topics/orders/jobs", {"body": {"order": n}}, 201)
    gzipped, plain = (
        api("GET", "/v1/topics/orders/jobs", headers={"accept-encoding": coding}) for coding in ("gzip", "identity")
    )
    assert gzipped.headers["content-encoding"] == "gzip"
    assert "Accept-Encoding" in gzipped.headers["vary"]
    assert "content-encoding" not in plain.headers
    assert gzipped.json() == plain.json()
    assert int(gzipped.headers["content-length"]) < len(plain.content) / 3
    popped = api("POST", "/v1/topics/orders/many/pop", {"limit": 30}, headers={"accept-encoding": "gzip"})
    assert len(popped.content) > 2 * documents.SHORT
    assert "content-encoding" not in popped.headers, "it is no view"
    small = api("GET", "/v1/topics", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in small.headers
    refused = api("GET", "/v1/topics/orders/jobs", params={"state": "blue"}, headers={"accept-encoding": "gzip"})
    assert (refused.status_code, refused.json()["code"]) == (400, "bad_input")
    assert api("HEAD", "/v1/topics/orders/jobs").status_code == 200


@pytest.mark.parametrize("path", ["/openapi.json", "/assets/dashboard.css"])
def test_what_never_changes_is_compressed_once(pages: RunningService, path: str) -> None:
    """Strangers may ask for it."""
    plain = httpx.get(pages.url + path, headers={"accept-encoding": "identity"})
    gzipped = httpx.get(pages.url + path)
    compressed = documents._compressed.cache_info().misses
    again = httpx.get(pages.url + path)
    assert documents._compressed.cache_info().misses == compressed
    assert plain.content == gzipped.content == again.content
    assert [one.headers.get("content-encoding") for one in (plain, gzipped, again)] == [None, "gzip", "gzip"]
    assert {one.headers["vary"] for one in (plain, gzipped, again)} == {"accept-encoding"}
    assert int(again.headers["content-length"]) < len(plain.content) / 2


def test_pages_and_assets_are_compressed_and_live_updates_are_not(pages: RunningService, client: tarry.Client) -> None:
    client.topic("orders").add(1, delay="1h")
    page = httpx.get(f"{pages.url}/", headers={"accept": "text/html"})
    assert page.headers["content-encoding"] == "gzip"
    [asset] = re.findall(r'href="(/assets/[^"]+\.css[^"]*)"', page.text)[:1]
    style = httpx.get(pages.url + asset)
    assert style.headers["content-encoding"] == "gzip"
    assert int(style.headers["content-length"]) < len(style.content) / 2
    with httpx.stream("GET", f"{pages.url}/", headers={"accept": "text/event-stream"}, timeout=LONGEST_S) as live:
        assert "content-encoding" not in live.headers
        assert next(live.iter_bytes())
