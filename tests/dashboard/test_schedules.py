"""Schedules as the dashboard shows them, and what can be done with them: a real HTTP server, real workers' declarations."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from html import unescape
from typing import Any

import httpx
import pytest

import tarry
from dashboard.conftest import Site
from tarry.clients.testing import Clock, TestClient
from tarry.core.requests import Command
from tarry.programs.dashboard import filters
from tarry.values.keys import part_key
from until import LONGEST_S

OURS = {"sec-fetch-site": "same-origin"}
AN_HOUR_US = 3_600_000_000
HOSTILE = "\"><img/src=x\u202eonerror='x()'>"


@pytest.fixture
def http(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.at, timeout=LONGEST_S, headers=OURS, follow_redirects=True) as http:
        yield http


@pytest.fixture
def past(valkey_url: str, namespace: str) -> Iterator[TestClient]:
    """A client for which it is an hour ago, until its clock is advanced."""
    with TestClient(valkey_url, Clock(time.time_ns() // 1000 - AN_HOUR_US), namespace=namespace) as made:
        yield made


def declare(client: TestClient, name: str, period: str) -> None:
    """A worker with one schedule in its code runs until there is nothing more to do."""
    worker = tarry.Worker("shop", client=client)

    @worker.every(period, id=name)
    async def task() -> None: ...

    asyncio.run(worker.run_until_idle())


def act(http: httpx.Client, action: str, topic: str, name: str, **more: str) -> httpx.Response:
    data = {"action": f"{action}-schedule", "topic": topic, "name": name, "back": "/schedules", **more}
    return http.post("/act", data=data)


def row(http: httpx.Client, name: str, path: str = "/schedules") -> str:
    """What the list shows of one, without its markup."""
    text = http.get(path).text
    found = [part for part in text.split("<tr>") if f"<bdi>{name}</bdi>" in part]
    assert len(found) == 1, text
    return unescape(found[0])


def test_each_schedule_shows_its_next_occurrence_and_origin(http: httpx.Client, client: tarry.Client) -> None:
    news = client.schedules.put("mail", "daily", {"list": "all"}, cron="0 9 * * 1-5", tz="Europe/Berlin", missed="skip")
    often = client.schedules.put("chores", "tidy", every="1h30m")
    assert news.next is not None
    assert often.next is not None
    page = http.get("/schedules").text
    assert "<h1>2 schedules</h1>" in page
    daily, tidy = row(http, "daily"), row(http, "tidy")
    for part in ("0 9 * * 1-5", "Europe/Berlin", "from a client", "topic=mail", filters.iso(news.next)):
        assert part in daily, part
    for part in ("every 1 h 30 m", filters.iso(often.next), "topic=chores"):
        assert part in tidy, part
    for topic, name, missed in (("mail", "daily", "skipped"), ("chores", "tidy", "only the latest adds a job")):
        page = unescape(http.get(f"/schedule?topic={topic}&name={name}").text)
        assert f"<dt>missed occurrences</dt><dd>{missed}</dd>" in page

    only = http.get("/schedules?topic=mail").text
    assert ("<bdi>daily" in only, "<bdi>tidy" in only) == (True, False)
    assert 'href="/schedules?topic=mail">1 schedule</a>' in http.get("/topic?topic=mail").text
    assert "/schedules?" not in http.get("/topic?topic=none").text


def test_a_schedule_shows_next_and_last_occurrences_and_its_job_options(
    http: httpx.Client, client: tarry.Client, past: TestClient
) -> None:
    past.schedules.put("mail", "news", {"list": "all"}, every="20m", headers={"x-kind": "short"})
    past.clock.advance("25m")
    job = past.topic("mail").pop()
    assert job is not None
    found = client.schedules.get("mail", "news")
    assert found is not None
    assert found.last is not None
    page = unescape(http.get("/schedule?topic=mail&name=news").text)
    for part in ("every 20 m", '"list": "all"', "x-kind", "short", "A client added it"):
        assert part in page, part
    assert found.next is not None
    for at in (found.last, *[found.next + n * timedelta(minutes=20) for n in range(2, 7)]):
        assert filters.iso(at) in page
    assert f"/job?topic=mail&id={job.id.replace('@', '%40').replace(':', '%3A')}" in page
    assert "no consumer of its topic has popped since. The next pop adds its job." in page, (
        "it was due twenty minutes ago"
    )
    assert "overdue" in row(http, "news")
    client.topic("mail").pause()
    assert "topic paused" in http.get("/schedules?topic=mail").text
    assert http.get("/schedule?topic=mail&name=none").status_code == 404
    assert http.get("/schedule?topic=mail&name=a%20b").status_code == 400


def test_a_schedule_that_waits_for_room_says_so(http: httpx.Client, past: TestClient) -> None:
    past.topic("mail").configure(max_pending=1)
    past.topic("mail").add("in the way", delay="9h")
    past.schedules.put("mail", "news", "all", every="20m")
    past.clock.advance("1h")
    past.topic("mail").pop()
    assert "topic full" in row(http, "news")
    assert "It waits, because its topic is full" in http.get("/schedule?topic=mail&name=news").text


def test_declared_and_orphaned_schedules_are_distinguished(http: httpx.Client, past: TestClient) -> None:
    declare(past, "old", "10h")
    past.clock.advance("10m")
    declare(past, "new", "10h")
    old, new = past.schedules.get("shop", "old"), past.schedules.get("shop", "new")
    assert old is not None
    assert new is not None
    assert old.version is not None
    assert new.version is not None
    assert "<h1>2 schedules, 1 orphaned</h1>" in http.get("/schedules").text
    assert "orphaned" in row(http, "old")
    assert "orphaned" not in row(http, "new")
    assert new.version[:8] in row(http, "new")
    page = unescape(http.get("/schedule?topic=shop&name=old").text)
    assert f"no longer declares it. Version {old.version} did, last " in page
    assert "Orphaned" not in http.get("/schedule?topic=shop&name=new").text
    assert "comes back within a minute" in act(http, "delete", "shop", "new").text
    assert "comes back" not in act(http, "delete", "shop", "old").text


def test_a_schedule_is_paused_resumed_and_deleted_after_confirmation(http: httpx.Client, client: tarry.Client) -> None:
    client.schedules.put("mail", "news", every="1h")

    def is_there() -> Any:
        found = client.schedules.get("mail", "news")
        return found and (found.paused, found.next is not None)

    assert "news is paused." in act(http, "pause", "mail", "news").text
    assert is_there() == (True, False)
    assert ">paused</span>" in row(http, "news")
    assert "news of mail is paused already." in act(http, "pause", "mail", "news").text
    assert "news is resumed." in act(http, "resume", "mail", "news").text
    assert is_there() == (False, True)
    assert "Delete news of mail?" in act(http, "delete", "mail", "news").text
    assert is_there() == (False, True), "nobody has said that they are sure"
    assert "news is deleted" in act(http, "delete", "mail", "news", sure="1").text
    assert is_there() is None
    assert act(http, "delete", "mail", "news", sure="1").status_code == 404


@pytest.mark.slow
@pytest.mark.parametrize("action", ["pause", "resume", "delete"])
def test_other_sites_and_viewers_cannot_change_schedules(
    site: Site, site_of: Callable[..., Site], valkey_url: str, client: tarry.Client, action: str
) -> None:
    client.schedules.put("mail", "news", every="1h")
    if action == "resume":
        client.schedules.pause("mail", "news")
    before = client.schedules.get("mail", "news")
    viewers = site_of(valkey_url, allow="viewer")
    for at, headers in ((site.at, {"sec-fetch-site": "cross-site"}), (site.at, {}), (viewers.at, OURS)):
        with httpx.Client(base_url=at, headers=headers, timeout=LONGEST_S) as http:
            assert act(http, action, "mail", "news", sure="1").status_code == 403
    assert client.schedules.get("mail", "news") == before


def test_a_damaged_schedule_hides_no_others_and_can_be_deleted(http: httpx.Client, client: tarry.Client) -> None:
    client.schedules.put("mail", "news", every="1h")
    client.schedules.put("chores", "tidy", every="1h")
    raw: Any = client.topic("mail").verbs
    plans = part_key(raw.keys, "plans")
    client.engine.run(Command((b"HSET", plans, b"news", b"damaged"), int))
    page = unescape(http.get("/schedules").text)
    assert '<bdi>news</bdi></a> <span class="chip">damaged</span>' in page
    assert "It cannot be read" in unescape(http.get("/schedule?topic=mail&name=news").text)
    assert "It cannot be read" in unescape(act(http, "pause", "mail", "news").text)
    assert "<bdi>tidy</bdi>" in page
    assert "1 schedule<" in http.get("/topic?topic=mail").text
    assert "Delete news of mail?" in act(http, "delete", "mail", "news").text
    assert "news is deleted" in act(http, "delete", "mail", "news", sure="1").text
    assert client.schedules.list("mail") == []


def test_hostile_names_are_escaped(http: httpx.Client, client: tarry.Client) -> None:
    client.schedules.put(HOSTILE, HOSTILE, HOSTILE, every="1h", headers={HOSTILE: HOSTILE})
    query = httpx.QueryParams({"topic": HOSTILE, "name": HOSTILE})
    pages = ["/schedules", f"/schedules?{query}", f"/schedule?{query}", f"/topic?{query}"]
    shown = [http.get(path) for path in pages] + [act(http, "delete", HOSTILE, HOSTILE)]
    for answer in shown:
        assert answer.status_code == 200
        assert "<img" not in answer.text
        assert "⟨RIGHT-TO-LEFT OVERRIDE⟩" in answer.text
    assert "is deleted" in act(http, "delete", HOSTILE, HOSTILE, sure="1").text


def test_a_long_list_is_paged(http: httpx.Client, client: tarry.Client) -> None:
    for n in range(103):
        client.schedules.put("mail", f"s-{n:03}", every=timedelta(hours=1, seconds=60 * n))
    first, second = http.get("/schedules").text, http.get("/schedules?from=100").text
    assert ("1 to 100 of 103" in first, "101 to 103 of 103" in second) == (True, True)
    assert ("s-000" in first, "s-102" in first, "s-102" in second) == (True, False, True)
    assert http.get("/schedules?from=-1&topic=mail").status_code == 200


@pytest.mark.parametrize(
    ("of", "told"),
    [
        (timedelta(minutes=5), "5 m"),
        (timedelta(days=1, hours=2, minutes=3, seconds=4.5), "1 d 2 h 3 m 4.5 s"),
        (timedelta(milliseconds=100), "0.1 s"),
        (timedelta(days=400), "400 d"),
        (timedelta(), "0 s"),
    ],
)
def test_an_interval_is_shown_exactly(of: timedelta, told: str) -> None:
    assert filters.exact_span(of) == told


def test_a_schedule_is_run_now_besides_its_occurrences(http: httpx.Client, client: tarry.Client) -> None:
    client.schedules.put(
        "mail", "news", {"list": "all"}, every="20m", headers={"x-kind": "short"}, ttr="5m", max_attempts=3, priority=2
    )
    client.schedules.pause("mail", "news")
    before = client.schedules.get("mail", "news")
    told = [act(http, "run", "mail", "news").text for _ in range(2)]
    jobs = client.topic("mail").list("ready").jobs
    assert {job.id for job in jobs} == {re.findall(r"Job (news@now:[^ ]+Z) was added", text)[0] for text in told}
    job = jobs[0]
    assert (job.body, job.headers, job.priority) == ({"list": "all"}, {"x-kind": "short"}, 2)
    assert (job.ttr, job.max_attempts) == (timedelta(minutes=5), 3)
    assert client.schedules.get("mail", "news") == before, "also while it is paused, and its rhythm stays"
    assert "Run now" in http.get("/schedule?topic=mail&name=news").text
    assert "Run now" in row(http, "news")
    client.schedules.put("mail", "raw", b"\xff\x00", every="1h")
    act(http, "run", "mail", "raw")
    assert b"\xff\x00" in [job.raw for job in client.topic("mail").list("ready")]
    assert act(http, "run", "mail", "none").status_code == 404
