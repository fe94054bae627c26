"""The live stream of every page: it sends its view; a view that fails is told, logged, and tried again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any

import httpx
import pytest

import tarry
from dashboard.conftest import Site, expect
from tarry.core.requests import Command
from tarry.programs.dashboard import live_updates
from tarry.programs.dashboard.sections import Section, sections
from tarry.values.keys import worker_keys
from tarry.verbs.workers import ReportedJob, WorkerReport, WorkerTopic, report_worker
from until import LONGEST_S, until
from walked import cases

pytestmark = pytest.mark.slow
STREAM = {"accept": "text/event-stream"}
LIVE = [section for section in sections() if section.every_s]
QUERIES = {
    "/topic": "topic=orders",
    "/jobs": "topic=orders",
    "/dead": "topic=orders",
    "/job": "topic=orders&id=7",
    "/find": "q=order",
    "/schedule": "topic=orders&name=daily",
    "/queue": "name=java",
}


def events(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    """The events of a stream: kind and data."""
    for line in lines:
        if line.startswith("event: "):
            yield line.removeprefix("event: "), json.loads(next(lines).removeprefix("data: "))


@pytest.fixture
def full(site: Site, client: tarry.Client) -> Site:
    """Something on each page."""
    orders = client.topic("orders")
    orders.add(0, id="7", delay="1h")
    orders.add(1, max_attempts=1)
    orders.release(orders.pop(), reason="ValueError: no")  # type: ignore[arg-type]
    orders.add(2)
    held = orders.pop()
    assert held is not None
    client.schedules.put("orders", "daily", every="1d")
    client.delayed_queue("java", codec="string").offer("tea", "1h")
    topics = [WorkerTopic("orders", ("close",), 5, 1, overrun=1, max_attempts={"close": 2})]
    job = ReportedJob("orders", held.id, 1, 1, overrun=True)
    client.engine.run(
        report_worker(client.namespace, b"ada", None, WorkerReport("ada", 7, "1", 5, 1, True, topics, [job]))
    )
    return site


@cases("section", LIVE, ids=lambda section: section.path)
def test_every_live_page_receives_its_view(full: Site, section: Section) -> None:
    url = f"{full.at}{section.path}?{QUERIES.get(section.path, '')}"
    with httpx.stream("GET", url, headers=STREAM, timeout=LONGEST_S) as stream:
        stream_of = events(stream.iter_lines())
        assert next(stream_of)[0] == "hello"
        kind, html = next(stream_of)
        assert (kind, "<h1" in html) == ("view", True), html


def test_a_view_is_sent_again_only_after_its_interval(site: Site) -> None:
    [section] = [section for section in LIVE if section.path == "/workers"]
    usual = section.every_s
    object.__setattr__(section, "every_s", 3600.0)
    try:
        with httpx.stream("GET", site.at + "/workers", headers=STREAM, timeout=LONGEST_S) as stream:
            stream_of = events(stream.iter_lines())
            assert [kind for kind, _ in islice(stream_of, 2)] == ["hello", "view"]
            assert httpx.get(site.at + "/workers").status_code == 200  # it had time to send more
            site.stop()
            assert list(stream_of) == []
    finally:
        object.__setattr__(section, "every_s", usual)
        site.start()


def test_a_revoked_token_ends_its_stream_before_the_next_view(
    site_of: Callable[..., Site], valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    [section] = [section for section in LIVE if section.path == "/workers"]
    usual, known = section.every_s, {"look", "other"}
    site = site_of(valkey_url, tokens=lambda token: "viewer" if token in known else None)
    monkeypatch.setattr(live_updates, "MOST_PER_TOKEN", 1)

    def opened(token: str) -> AbstractContextManager[httpx.Response]:
        headers = {**STREAM, "cookie": f"tarry-dashboard={token}"}
        return httpx.stream("GET", site.at + "/workers", headers=headers, timeout=LONGEST_S)

    object.__setattr__(section, "every_s", 3600.0)
    try:
        with opened("look") as stream, opened("look") as surplus, opened("other") as other:
            assert (stream.status_code, surplus.status_code, other.status_code) == (200, 503, 200)
            kept, stream_of = events(other.iter_lines()), events(stream.iter_lines())
            for each in (kept, stream_of):
                assert [kind for kind, _ in islice(each, 2)] == ["hello", "view"]
            known.remove("look")
            assert list(stream_of) == [], "it has an end, an hour before the next view"
        known.add("look")
        until(lambda: httpx_status(opened("look")) == 200, "an ended stream is not counted")
    finally:
        object.__setattr__(section, "every_s", usual)


def httpx_status(opening: AbstractContextManager[httpx.Response]) -> int:
    with opening as stream:
        return stream.status_code


def test_a_view_that_fails_is_told_and_logged_and_the_stream_goes_on(
    site: Site, page: Any, client: tarry.Client, caplog: pytest.LogCaptureFixture
) -> None:
    """A report with a number that no page can draw: that is no outage, and no error that the page expects."""
    workers = worker_keys(client.namespace).workers
    report = report_worker(client.namespace, b"ada", None, WorkerReport("ada", 7, "1", 5, 1, False, (), ()))
    client.engine.run(report)
    sane: Any = client.engine.run(Command((b"HGET", workers, b"ada"), bytes))
    page.goto(site.at + "/workers")
    expect(page.locator(".sign")).to_have_attribute("data-state", "live")
    hostile = sane.replace(b'"busy":1', b'"busy":1' + b"0" * 400)
    client.engine.run(Command((b"HSET", workers, b"ada", hostile), int))
    expect(page.locator("#lost")).to_contain_text("This part could not be loaded. It will be tried again.")
    expect(page.locator("h1")).to_have_text("1 worker, 1 of 5 slots busy")
    fresh = page.context.new_page()
    assert fresh.goto(site.at + "/workers").status == 500
    expect(fresh.locator("h1")).to_have_text("This page could not be loaded.")
    with httpx.stream("GET", site.at + "/workers", headers=STREAM, timeout=LONGEST_S) as stream:
        kinds = [kind for kind, _ in islice(events(stream.iter_lines()), 3)]
        assert kinds == ["hello", "failed", "failed"]
    client.engine.run(report)
    for shown in (page, fresh):
        expect(shown.locator(".sign")).to_have_attribute("data-state", "live")
        expect(shown.locator("#lost")).to_be_hidden()
        expect(shown.locator("h1")).to_have_text("1 worker, 1 of 5 slots busy")
    told = [line for line in caplog.records if "/workers cannot be shown; it is tried again" in line.getMessage()]
    assert len(told) == 3, "one for each stream, not for each try"
    assert all(line.exc_info for line in told)
