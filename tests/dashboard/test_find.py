"""The search over all topics: by name, id, task, error and body, in portions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import httpx
import pytest

import tarry
from dashboard.conftest import Site
from tarry import NewJob
from tarry.programs.dashboard.pages import find_page
from until import LONGEST_S


@pytest.fixture
def http(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.at, timeout=LONGEST_S) as http:
        yield http


def found(text: str) -> list[tuple[str, str]]:
    """The jobs that were found by their contents, and where."""
    return re.findall(
        r'<th scope="row"><a class="id"[^>]*><bdi>([^<]+).*?data-label="Found in"><a [^>]+>(\w+)', text, re.S
    )


@pytest.fixture(autouse=True)
def orders(client: tarry.Client) -> None:
    orders, mail = client.topic("orders"), client.topic("mail")
    orders.add_many([NewJob({"task": "charge", "args": {"n": n}}, id=f"c{n}", max_attempts=1) for n in range(2)])
    orders.release_many(orders.pop_many(2), delay=0, reason="ValueError: the card was declined\nTraceback: parcel.py")
    orders.add({"task": "ship", "args": {"to": "Zürich"}}, id="s0", delay="1h")
    mail.add({"card": 7}, id="m0")


def test_jobs_are_found_by_task_error_and_body(http: httpx.Client) -> None:
    for wanted, jobs in {
        "charge": [("c0", "task"), ("c1", "task")],
        "declined": [("c0", "error"), ("c1", "error")],
        "parcel.py": [("c0", "error"), ("c1", "error")],
        "Zürich": [("s0", "body")],
        "card": [("m0", "body"), ("c0", "error"), ("c1", "error")],
    }.items():
        assert found(http.get("/find", params={"q": wanted}).text) == jobs, wanted
    linked = re.findall(r'href="([^"]+)">error', http.get("/find?q=declined").text)[0]
    assert "2 of 2 read" in http.get(unescape(linked)).text


def test_names_and_ids_lead_to_their_pages_at_once(http: httpx.Client) -> None:
    assert http.get("/find?q=orders").headers["location"] == "/topic?topic=orders"
    assert http.get("/find?q=s0").headers["location"] == "/job?topic=orders&id=s0"
    assert http.get("/find?q=").headers["location"] == "/"
    assert "Nothing found for “<bdi>&lt;b&gt;</bdi>”" in http.get("/find?q=%3Cb%3E").text
    assert http.get("/find?q=" + "x" * 1001).status_code == 400


def test_many_topics_of_a_name_are_counted_and_listed_elsewhere(http: httpx.Client, client: tarry.Client) -> None:
    for n in range(102):
        client.topic(f"notify-{n:03}").add(n, delay="1h")
    text = http.get("/find?q=notify").text
    assert text.count('<li><a href="/topic?topic=notify-') == 100
    assert '100 of 102 topics. <a href="/?q=notify&amp;sort=name">List them all</a>' in text
    assert "of 10 topics" not in http.get("/find?q=notify-00").text


def test_a_long_search_goes_on_where_it_ended(
    http: httpx.Client, client: tarry.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.topic("orders").add_many([NewJob({"say": "hello"}, id=f"h{n}", delay="2h") for n in range(7)])
    monkeypatch.setattr(find_page, "SEARCH_S", 0)
    monkeypatch.setattr(find_page, "PAGE", 2)
    path, seen = "/find?q=hello", []
    for _ in range(20):
        text = http.get(path).text
        assert len(found(text)) <= 2
        seen += [id for id, _ in found(text)]
        following = re.findall(r'href="([^"]+)">Search the next ones', text)
        if not following:
            break
        path = unescape(following[0])
    assert sorted(seen) == [f"h{n}" for n in range(7)]


def test_a_search_of_empty_topics_ends_in_time_too(
    http: httpx.Client, client: tarry.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic is read before the time is looked at, so each page goes on."""
    for name in "abc":
        client.topic(name).add(1, id="7")
        client.topic(name).delete("7")
    monkeypatch.setattr(find_page, "SEARCH_S", 0)
    path, pages = "/find?q=hello", 0
    while path:
        text, pages = http.get(path).text, pages + 1
        following = re.findall(r'href="([^"]+)">Search the next ones', text)
        path = unescape(following[0]) if following else ""
    assert pages == len(client.topics())
