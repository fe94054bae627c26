"""The page of dead jobs, grouped by what went wrong: search, actions on a group, export, the progress of a long scan."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any

import httpx
import pytest

import tarry
from dashboard.conftest import Site, expect
from tarry.programs.dashboard import dead_scans
from until import LONGEST_S

OURS = {"sec-fetch-site": "same-origin"}
CARD = "ConnectionError: can't charge <b>card</b>"


@pytest.fixture
def http(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.at, timeout=LONGEST_S, headers=OURS, follow_redirects=True) as http:
        yield http


@pytest.fixture
def topic(client: tarry.Client) -> tarry.Topic[Any]:
    """Thirty dead jobs of one group, one of another, and one that is alive."""
    topic = client.topic("orders")
    topic.add_many([tarry.NewJob({"task": "charge", "args": {"n": n}}, id=f"c{n}", max_attempts=1) for n in range(30)])
    for n, job in enumerate(topic.pop_many(30)):
        error = f"{CARD} of order {n} for 'user {n}'\n  File \"/srv/billing.py\", line {n}, in charge"
        topic.release(job, delay=0, reason=error)
    topic.add("x", id="other")
    topic.bury(topic.pop(), reason="no such order")  # type: ignore[arg-type]
    topic.add("alive", id="alive")
    return topic


def words(answer: httpx.Response) -> str:
    """What a page shows, without its markup."""
    assert answer.status_code == 200
    text = re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", answer.text, flags=re.S)
    return " ".join(unescape(text).split())


def group_of(topic: tarry.Topic[Any], error: str) -> str:
    [group] = topic.dead_groups(error=error)
    return group.id


def act(http: httpx.Client, action: str, **more: str) -> str:
    form = {"action": action, "topic": "orders", "back": "/dead?topic=orders", "all": "1", "state": "dead", **more}
    return words(http.post("/act", data=form))


def test_groups_are_shown_and_searched(http: httpx.Client, topic: tarry.Topic[Any]) -> None:
    answer = http.get("/dead?topic=orders")
    assert "31 dead jobs" in words(answer)
    assert f"{CARD} of order … for … charge · billing.py, charge 30" in words(answer)
    assert "no such order 1" in words(answer)
    assert "<b>card</b>" not in answer.text
    for query in ("task=charge", "error=card", "text=%22n%22"):
        found = words(http.get(f"/dead?topic=orders&{query}"))
        assert ("30 of 31 jobs match" in found, "no such order" in found) == (True, False), query
    assert "No jobs match." in words(http.get("/dead?topic=orders&error=nothing"))
    assert http.get("/dead?topic=typo").status_code == 404
    assert http.get("/dead?topic=orders&error=" + "x" * 1001).status_code == 400
    assert f"{CARD} of order … for …" in words(http.get("/topic?topic=orders"))


def test_the_jobs_of_a_group_are_listed(http: httpx.Client, topic: tarry.Topic[Any]) -> None:
    found = words(http.get(f"/jobs?topic=orders&state=dead&group={group_of(topic, 'such')}"))
    assert "Dead jobs that match 1 of 31 read." in found
    assert " other " in found
    assert "Jobs that match 1 of 32 read." in words(http.get("/jobs?topic=orders&text=alive"))
    assert "No jobs." in words(http.get("/jobs?topic=orders&state=dead&text=alive"))
    assert http.get("/jobs?topic=orders&group=3f9a1c0284b1").status_code == 400


def test_a_group_is_kicked_and_deleted_as_one(
    http: httpx.Client, topic: tarry.Topic[Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tarry.audit")
    group = group_of(topic, "card")
    asked = act(http, "kick", group=group)
    assert "Kick all 30 matching dead jobs of orders?" in asked
    assert topic.stats().dead == 31
    topic.kick("c7")  # meanwhile
    assert "29 jobs kicked." in act(http, "kick", group=group, sure="1")
    assert (topic.stats().dead, topic.stats().ready) == (1, 31)
    assert f"kick orders/all dead/group {group}: 29 jobs kicked." in caplog.text
    assert "1 dead job " in words(http.get("/dead?topic=orders")), "exact after the action"
    assert "There are no matching dead jobs in orders." in act(http, "kick", group=group, sure="1")
    assert "1 job deleted." in act(http, "delete", group=group_of(topic, "such"), sure="1")
    assert (topic.stats().dead, topic.stats().ready) == (0, 31)


def test_a_group_is_exported(http: httpx.Client, topic: tarry.Topic[Any]) -> None:
    answer = http.get(f"/dead.jsonl?topic=orders&state=dead&group={group_of(topic, 'card')}")
    jobs = [json.loads(line) for line in answer.text.splitlines()]
    assert (len(jobs), jobs[0]["id"], jobs[0]["body"]) == (30, "c0", {"task": "charge", "args": {"n": 0}})
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert http.get("/dead.jsonl?topic=typo").status_code == 404
    assert http.get("/dead.jsonl?topic=orders&error=" + "x" * 1001).status_code == 400


def test_a_viewer_looks_and_exports_only(
    site_of: Callable[..., Site], valkey_url: str, topic: tarry.Topic[Any]
) -> None:
    site = site_of(valkey_url, allow="viewer")
    with httpx.Client(base_url=site.at, timeout=LONGEST_S, headers=OURS) as http:
        text = http.get("/dead?topic=orders").text
        assert ("Export" in text, "Kick" in text, "/act" in text) == (True, False, False)
        assert http.get("/dead.jsonl?topic=orders").status_code == 200
        form = {"action": "kick", "topic": "orders", "all": "1", "state": "dead", "group": group_of(topic, "card")}
        assert http.post("/act", data=form).status_code == 403
    nobody = site_of(valkey_url, allow=lambda _: None)
    assert httpx.get(nobody.at + "/dead.jsonl?topic=orders").status_code == 403
    assert topic.stats().dead == 31


def test_a_long_scan_shows_its_progress(
    http: httpx.Client, topic: tarry.Topic[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.add_many(range(1000))
    topic.bury_many(topic.pop_many(1000), reason="boom")
    monkeypatch.setattr(dead_scans, "LOOK_S", 0)
    dead = topic.stats().dead
    first = words(http.get("/dead?topic=orders&text=n&look=1"))
    assert f"500 of {dead:,} jobs read so far, 30 match." in first
    assert f"1,000 of {dead:,} jobs read so far" in words(http.get("/dead?topic=orders&text=n&look=2"))
    assert f"30 of {dead:,} jobs match." in words(http.get("/dead?topic=orders&text=n&look=3"))


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_a_group_is_kicked_in_a_browser(
    site: Site, browser: Any, client: tarry.Client, topic: tarry.Topic[Any], width: int
) -> None:
    page = browser.new_context(viewport={"width": width, "height": 844}, reduced_motion="reduce").new_page()
    page.goto(site.at + "/topic?topic=orders")
    page.get_by_role("link", name="Search, kick, delete or export groups").click()
    expect(page.locator("h1")).to_have_text("31 dead jobs")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is cut"
    row = page.locator("tr", has_text="billing.py")
    with page.expect_download() as download:
        row.get_by_role("link", name="Export").click()
    assert len(download.value.path().read_bytes().splitlines()) == 30
    row.get_by_role("button", name="Kick").click()
    expect(page.locator("#ask h1")).to_have_text("Kick all 30 matching dead jobs of orders?")
    page.locator("#ask").get_by_role("button", name="Kick 30 jobs").click()
    expect(page.locator(".said")).to_have_text("30 jobs kicked.")
    expect(page.locator("h1")).to_have_text("1 dead job")
    assert topic.stats().ready == 31
    page.context.close()
