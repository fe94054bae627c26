"""Long lists: 200 topics and 2,000 schedules are filtered, sorted and paged by the query alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

import tarry
from dashboard.conftest import Site
from until import LONGEST_S


@pytest.fixture
def http(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.at, timeout=LONGEST_S) as http:
        yield http


def rows(http: httpx.Client, path: str) -> list[str]:
    """The names in the first column, in order."""
    answer = http.get(path)
    assert answer.status_code == 200, answer.text
    text = answer.text.partition("<tbody>")[2].partition("</tbody>")[0]
    return re.findall(r'<th scope="row"><a [^>]*>(?:<bdi>)?([^<]+)', text)


def test_topics_are_filtered_and_sorted(http: httpx.Client, client: tarry.Client) -> None:
    for n in range(60):
        client.topic(f"notify-{n:02}").add_many(range(n % 7 + 1), delay="1h")
    shop = client.topic("shop")
    shop.add_many(range(3), max_attempts=1)
    shop.release_many(shop.pop_many(3), delay=0, reason="no")

    assert len(rows(http, "/")) == 50
    assert rows(http, "/?q=SHO") == ["shop"]
    assert rows(http, "/?q=notify&sort=name")[:3] == ["notify-00", "notify-01", "notify-02"]
    assert rows(http, "/?sort=name&from=50")[-1] == "shop"
    assert rows(http, "/?sort=dead")[0] == "shop"
    assert rows(http, "/?sort=delayed")[:2] == ["notify-06", "notify-13"]
    second = http.get("/?q=notify&sort=delayed&from=50").text
    assert "51 to 60 of 60 topics" in second
    assert 'href="/?q=notify&amp;sort=delayed&amp;from=0">Previous' in second
    assert 'aria-sort="descending"><a href="/?q=notify&amp;sort=delayed">Delayed' in second
    none = http.get("/?q=%3Cscript%3E").text
    assert "No topic has “&lt;script&gt;” in its name." in none
    assert "Show all 61" in none
    assert http.get("/?sort=age").status_code == 400


def test_a_window_of_due_times_is_only_for_jobs_that_have_one(http: httpx.Client, client: tarry.Client) -> None:
    """A state that is chosen later, in a form with a window, leaves the window out and says so."""
    orders = client.topic("orders")
    orders.add_many(range(3), max_attempts=1)
    orders.release_many(orders.pop_many(3), delay=0, reason="no")
    orders.add(3, delay="1h")

    for state in ("", "delayed", "ready", "retrying"):
        assert 'name="after" value="1h ago"' in http.get(f"/jobs?topic=orders&state={state}&after=1h+ago").text
    for state in ("reserved", "dead", "finished"):
        answer = http.get(f"/jobs?topic=orders&state={state}&after=1h+ago&before=in+1h")
        assert answer.status_code == 200, answer.text
        assert f"The due times do not apply: {state} jobs have none." in answer.text
        assert "Due from" not in answer.text
        assert "The due times do not apply" not in http.get(f"/jobs?topic=orders&state={state}").text
    assert len(rows(http, "/jobs?topic=orders&state=dead&before=1h+ago")) == 3


def test_schedules_are_filtered_and_sorted(http: httpx.Client, client: tarry.Client) -> None:
    for n in range(105):
        client.schedules.put(f"tenant-{n % 3}", f"digest-{n:03}", every=f"{n + 1}h")
    client.schedules.put("tenant-1", "report", cron="0 9 * * mon")
    client.schedules.pause("tenant-0", "digest-003")

    assert rows(http, "/schedules")[0] == "digest-000"
    assert len(rows(http, "/schedules")) == 100
    assert rows(http, "/schedules?q=mon") == ["report"]
    assert rows(http, "/schedules?q=tenant-2&sort=id")[:2] == ["digest-002", "digest-005"]
    assert rows(http, "/schedules?sort=id&from=100")[-1] == "report"
    assert rows(http, "/schedules?only=paused") == ["digest-003"]
    assert rows(http, "/schedules?topic=tenant-1&sort=topic&q=rep") == ["report"]
    assert "No schedules match." in http.get("/schedules?q=nothing").text
    assert 'name="topic" value="tenant-1"' in http.get("/schedules?topic=tenant-1").text
    for wrong in ("only=late", "sort=age"):
        assert http.get(f"/schedules?{wrong}").status_code == 400
    acted = http.post(
        "/act",
        data={
            "action": "resume-schedule",
            "topic": "tenant-0",
            "name": "digest-003",
            "back": "/schedules?only=paused&sort=id",
        },
        headers={"sec-fetch-site": "same-origin"},
    )
    assert acted.headers["location"].startswith("/schedules?only=paused&sort=id")
