"""A topic with partitions is shown and handled like any other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import httpx
import pytest

import tarry
from dashboard.conftest import Site
from until import LONGEST_S

OURS = {"sec-fetch-site": "same-origin"}
PARTS = 6


@pytest.fixture
def http(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.at, timeout=LONGEST_S, headers=OURS, follow_redirects=True) as http:
        yield http


@pytest.fixture
def topic(client: tarry.Client) -> tarry.Topic[int]:
    made = client.topic("orders", partitions=PARTS)
    made.add_many([tarry.NewJob(n, id=f"ready-{n}") for n in range(30)])
    made.add_many([tarry.NewJob(n, id=f"later-{n}", delay=60 * (n + 1)) for n in range(40)])
    return made


def words(answer: httpx.Response) -> str:
    """What a page shows, without its markup."""
    assert answer.status_code == 200
    text = re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", answer.text, flags=re.S)
    return " ".join(unescape(text).split())


def act(http: httpx.Client, action: str, **more: str | list[str]) -> str:
    return words(http.post("/act", data={"action": action, "topic": "orders", "back": "/", "sure": "1", **more}))


def test_the_topic_page_sums_all_partitions(http: httpx.Client, client: tarry.Client, topic: tarry.Topic[int]) -> None:
    topic.configure(rate="6000/1m", burst=60, concurrency=48)
    for n in range(10):
        client.schedules.put(topic, f"s{n}", every="1h")
    page = words(http.get("/topic?topic=orders"))
    for shown in ("10 schedules", "Delayed 40", "Ready 30", "70 jobs; the heights", "rate limit 6000/1m, bursts of 60"):
        assert shown in page
    assert "concurrency limit 48" in page
    assert f"partitions {PARTS}" in page
    assert "orders" in words(http.get("/"))
    assert "10 schedules" in words(http.get("/schedules?topic=orders"))
    assert "s3" in words(http.get("/schedule?topic=orders&name=s3"))


def test_the_last_day_is_drawn_from_all_partitions(http: httpx.Client, topic: tarry.Topic[int]) -> None:
    jobs = [job for _ in range(PARTS) for job in topic.pop_many(30)]
    topic.bury_many(jobs[:20], reason="no address")
    assert "70 added, 20 failed attempts, 20 died; at most" in words(http.get("/topic?topic=orders"))


def test_refused_receipts_and_late_jobs_are_in_the_totals(http: httpx.Client, topic: tarry.Topic[int]) -> None:
    job, late = topic.pop_many(2)
    topic.bury(late, reason="too late")
    topic.finish(job)
    with pytest.raises(tarry.StaleReceipt):
        topic.touch(job, ttr="1m")
    page = words(http.get("/topic?topic=orders"))
    assert "died 1 too late 1 kicked 0" in page
    assert "refused 1 not added 0 held 0 time to run" in page


def test_dead_jobs_are_grouped_by_reason_over_all_partitions(http: httpx.Client, topic: tarry.Topic[int]) -> None:
    jobs = [job for _ in range(PARTS) for job in topic.pop_many(30)]
    topic.bury_many(jobs[:20], reason="no address")
    topic.bury_many(jobs[20:25], reason="no name")
    page = words(http.get("/topic?topic=orders"))
    assert "Why 25 jobs are dead" in page
    assert re.search("no address 20 .* no name 5", page)


def test_jobs_are_listed_and_counted_over_all_partitions(http: httpx.Client, topic: tarry.Topic[int]) -> None:
    page = words(http.get("/jobs?topic=orders&state=delayed&before=20m"))
    assert page.index("later-0 in") < page.index("later-7 in") < page.index("later-18 in")
    assert "19 delayed jobs" in page or "20 delayed jobs" in page
    page = words(http.get("/job?topic=orders&id=ready-29"))
    assert "29 jobs are due before it" in page or "This topic has no consumer" in page
    topic.pop_many(30, ttr=0.05)
    assert "ready-7" in words(http.get("/find?q=ready-7"))


def test_an_expired_reservation_is_shown(http: httpx.Client, topic: tarry.Topic[int]) -> None:
    [job] = topic.pop_many(1, ttr=0.02)
    while topic.get(job.id).state == "reserved":  # type: ignore[union-attr]
        pass
    assert "time to run ended" in words(http.get(f"/job?topic=orders&id={job.id}"))


def test_actions_apply_to_all_partitions(http: httpx.Client, topic: tarry.Topic[int]) -> None:
    assert "20 jobs deleted" in act(http, "delete", all="1", state="delayed", before="1240s")
    assert topic.stats().delayed == 20
    assert "3 jobs deleted" in act(http, "delete", id=["ready-0", "ready-1", "ready-2"])
    jobs = [job for _ in range(PARTS) for job in topic.pop_many(30)]
    topic.bury_many(jobs[:9], reason="cold")
    assert "9 jobs kicked" in act(http, "kick", all="1", state="dead")
    topic.release_many(jobs[9:], delay=0)
    assert "20 jobs made due now" in act(http, "run-now", all="1", state="delayed")
    assert (topic.stats().delayed, topic.stats().ready) == (0, 47)
    assert "is paused" in act(http, "pause", duration="1h")
    assert topic.pop() is None
    act(http, "resume")
    assert topic.pop() is not None
    assert "47 jobs deleted" in act(http, "purge", typed="orders")
    assert topic.check().ok
