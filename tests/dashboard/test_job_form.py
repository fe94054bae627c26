"""A job is added, edited and duplicated from the dashboard, by admins only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from html import unescape
from typing import Any

import httpx
import pytest

import tarry
from dashboard.conftest import Site, expect
from until import LONGEST_S
from walked import cases

pytestmark = pytest.mark.slow
OURS = {"sec-fetch-site": "same-origin"}


@pytest.fixture
def http(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.at, timeout=LONGEST_S, headers=OURS) as http:
        yield http


def form_of(http: httpx.Client, path: str) -> dict[str, str]:
    """The fields of a page's form, as a browser would send them."""
    answer = http.get(path)
    assert answer.status_code == 200, answer.text
    form = answer.text.split('class="job-form"')[1].split("</form>")[0]
    fields = {}
    for tag in re.findall(r"<input [^>]*>", form):
        name, value = re.search(r'name="([^"]*)"', tag), re.search(r'value="([^"]*)"', tag)
        assert name is not None
        fields[name[1]] = unescape(value[1]) if value else ""
    for name, text in re.findall(r'<textarea name="([^"]*)"[^>]*>\n?(.*?)</textarea>', form, re.DOTALL):
        fields[name] = unescape(text).replace("\n", "\r\n")
    chosen = re.search(r'<option value="([^"]*)" selected', form)
    return {**fields, "kind": chosen[1]} if chosen else fields


def send(http: httpx.Client, fields: dict[str, str], **changes: str) -> str:
    """The note, or the error."""
    answer = http.post("/act", data={**fields, **changes}, follow_redirects=True)
    found = re.search(
        r'class="said" role="status">([^<]*)' if answer.status_code == 200 else r'class="lead">([^<]*)', answer.text
    )
    assert found is not None, answer.text
    return unescape(found[1])


def test_a_job_is_added_once_even_if_its_form_is_sent_twice(http: httpx.Client, client: tarry.Client) -> None:
    fields = form_of(http, "/add?topic=orders")
    body = '{"order": 1152921504606846977,\r\n "n": [1.50]}'
    said = send(http, fields, body=body, headers="trace: 7:8\r\n\r\nby: ada", delay="10m", ttr="90s", max_attempts="3")
    [job] = client.topic("orders").list().jobs
    assert said == f"Job {job.id} was added to orders; it is delayed."
    assert job.raw == b'{"order":1152921504606846977,"n":[1.50]}', "its numbers are as they were typed"
    assert (job.headers, job.ttr, job.max_attempts) == ({"trace": "7:8", "by": "ada"}, timedelta(seconds=90), 3)
    assert "already exists" in send(http, fields, body=body)
    send(http, fields, body="tea\r\nfor two", kind="text", new="mine", max_attempts="no limit")
    mine: Any = client.topic("orders").get("mine")
    assert (mine.body, mine.state) == (b"tea\nfor two", "ready")
    assert len(client.topic("orders").list().jobs) == 2


@cases(
    ("changes", "why"),
    [
        ({"body": '{\r\n "a": 1,\r\n}'}, "body: it is not JSON: line "),
        ({"body": "[NaN]"}, "body: it is not JSON: "),
        ({"body": "[" * 90_000}, "body: it is not JSON: "),
        ({"body": " "}, "body: it is empty; write JSON"),
        ({"body": '"' + "x" * 300_000 + '"', "headers": "x: " + "y" * 300_000}, "more than"),
        ({"kind": "xml"}, "kind: 'xml' is unknown"),
        ({"headers": "trace"}, "headers: line 1 is 'trace'; write a name, a colon and a value."),
        ({"headers": "a: 1\r\na: 2"}, "headers: 'a' is given twice."),
        ({"headers": '{"a": 1}'}, "headers: "),
        ({"delay": "soon"}, "delay"),
        ({"ttr": "-1s"}, "ttr"),
        ({"max_attempts": "0"}, "max_attempts"),
        ({"max_attempts": "many"}, "attempts: 'many' is not a whole number"),
        ({"priority": "high"}, "priority: 'high' is not a whole number of"),
        ({"priority": "4"}, "priority"),
        ({"key": "k" * 201}, "key: 'kkk"),
        ({"priority": "9" * 5000}, "is not a whole number of at most 19 digits."),
        ({"max_attempts": "9" * 5000}, "is not a whole number. Give one of at most 19 digits"),
        ({"delay": "9" * 5000 + "s"}, "has 5001 characters"),
        ({"topic": "\x00"}, "topic"),
        ({"new": "a/../b\n"}, "id"),
    ],
)
def test_what_is_wrong_with_a_form_is_told(
    http: httpx.Client, client: tarry.Client, changes: dict[str, str], why: str
) -> None:
    fields = form_of(http, "/add?topic=orders")
    assert why in send(http, fields, **{"body": "1", **changes})
    assert not client.topics()


def test_an_edited_job_keeps_what_was_not_changed(http: httpx.Client, client: tarry.Client) -> None:
    topic = client.topic("orders")
    headers = {"a": "1", "two\nlines": "b: c"}
    topic.add(
        {"n": 1},
        id="7",
        delay="1h",
        headers=headers,
        ttr=0.25,
        max_lateness="1h 0.000001s",
        max_attempts=None,
        priority=2,
        key="customer-7",
    )
    old: Any = topic.get("7")
    said = send(http, form_of(http, "/edit?topic=orders&id=7"), body='{"n": 2}')
    new: Any = topic.get("7")
    assert said == "Job 7 was replaced; it is delayed."
    assert (new.body, new.due, new.headers, new.priority, new.key) == ({"n": 2}, old.due, headers, 2, "customer-7")
    assert (new.head.ttr_ms, new.head.max_lateness_us, new.head.max_attempts) == (
        250,
        3_600_000_001,
        old.head.max_attempts,
    )
    assert (
        send(http, form_of(http, "/edit?topic=orders&id=7"), delay="0", headers="", key="")
        == "Job 7 was replaced; it is ready."
    )
    job: Any = topic.pop()
    assert (job.headers, job.key) == ({}, None)


def test_a_key_is_given_and_shown_and_so_are_its_limits(http: httpx.Client, client: tarry.Client) -> None:
    client.topic("orders").configure(key_concurrency=2, key_rate="5/s", fair=True)
    send(http, form_of(http, "/add?topic=orders"), body="1", new="7", key="customer-<7>")
    assert client.topic("orders").get("7").key == "customer-<7>"  # type: ignore[union-attr]
    assert '<dt>key</dt><dd class="mono">customer-&lt;7&gt;</dd>' in http.get("/job?topic=orders&id=7").text
    client.topic("orders").add(2, id="8")
    assert "<dt>key</dt>" not in http.get("/job?topic=orders&id=8").text
    page = http.get("/topic?topic=orders").text
    for limit in (
        "rate limit of a key</dt><dd>5/1s",
        "concurrency limit of a key</dt><dd>2",
        "keys</dt><dd>take turns",
    ):
        assert limit in page


def test_a_dead_job_is_repaired(http: httpx.Client, client: tarry.Client) -> None:
    topic = client.topic("orders")
    topic.add({"order": "7x"}, id="7", max_attempts=1)
    topic.release(topic.pop(), reason="ValueError: 7x")  # type: ignore[arg-type]
    assert (
        send(http, form_of(http, "/edit?topic=orders&id=7"), body='{"order": 7}') == "Job 7 was replaced; it is ready."
    )
    job: Any = topic.pop()
    assert (job.body, job.attempt) == ({"order": 7}, 1)
    assert topic.stats().dead == 0


@pytest.mark.parametrize("partitions", [1, 4])
def test_only_the_job_that_was_shown_is_replaced(http: httpx.Client, client: tarry.Client, partitions: int) -> None:
    topic = client.topic("orders", partitions=partitions)
    topic.add(1, id="7", delay="1h")
    fields = form_of(http, "/edit?topic=orders&id=7")
    topic.add(2, id="7", delay="1h", if_exists="replace")
    assert "nothing was done, because the job has changed since you opened it" in send(http, fields, body="3")
    fields = form_of(http, "/edit?topic=orders&id=7")
    topic.reschedule("7", delay=0)
    job: Any = topic.pop()
    assert "not possible for a reserved job" in send(http, fields, body="3")
    assert "not possible for a reserved job" in http.get("/edit?topic=orders&id=7").text
    assert "/edit?" not in http.get("/job?topic=orders&id=7").text
    topic.finish(job)
    assert "no job with this id" in send(http, fields, body="3")
    assert topic.get("7") is None
    added = topic.add(1, delay="1h")  # with an id that tarry made
    send(http, form_of(http, f"/edit?topic=orders&id={added.id}"), body="3")
    assert topic.get(added.id).body == 3  # type: ignore[union-attr]


@cases("body", [{"n": 1}, b"tea\nfor two", b"\r\n", bytes(range(256)), "x" * 200_000, b"[1, 2]", [1.5, None, "ü\n"]])
def test_a_duplicate_has_the_same_body(http: httpx.Client, client: tarry.Client, body: Any) -> None:
    topic = client.topic("orders")
    topic.purge()
    topic.add(body, id="7", headers={"trace": "1"})
    assert topic.pop() is not None
    assert "was added to orders; it is delayed" in send(
        http, form_of(http, "/duplicate?topic=orders&id=7"), delay="1h", new="8"
    )
    copy: Any = topic.get("8")
    assert (copy.body, copy.headers) == (body, {"trace": "1"})
    assert topic.get("7").state == "reserved"  # type: ignore[union-attr]


def test_a_form_shows_what_is_not_printable_as_escapes(http: httpx.Client, client: tarry.Client) -> None:
    """They are JSON's own, so the duplicate is the same."""
    hostile = "fee\u202egnp.exe\x85\x9b\U000e0041 \u2028"
    topic = client.topic("orders")
    topic.add({hostile: [hostile]}, id="7", headers={"note": hostile})
    fields = form_of(http, "/duplicate?topic=orders&id=7")
    assert all(sign.isprintable() or sign in "\r\n" for text in fields.values() for sign in text)
    assert "fee\\u202egnp.exe" in fields["body"]
    assert "fee\\u202egnp.exe" in fields["headers"]
    send(http, fields, new="8")
    made: Any = topic.get("8")
    assert (made.body, made.headers) == ({hostile: [hostile]}, {"note": hostile})


def test_a_viewer_gets_no_form_and_changes_nothing(
    site_of: Callable[..., Site], valkey_url: str, client: tarry.Client
) -> None:
    site = site_of(valkey_url, allow="viewer")
    client.topic("orders").add(1, id="7", delay="1h")
    with httpx.Client(base_url=site.at, headers=OURS) as http:
        for path in ("/add", "/add?topic=orders", "/edit?topic=orders&id=7", "/duplicate?topic=orders&id=7"):
            answer = http.get(path)
            assert (answer.status_code, "job-form" in answer.text) == (403, False)
        for action in ("add", "edit"):
            data = {"action": action, "topic": "orders", "id": "7", "kind": "json", "body": "2", "nonce": ""}
            assert http.post("/act", data=data).status_code == 403
        for path in ("/", "/topic?topic=orders", "/job?topic=orders&id=7"):
            assert not re.search('href="/(add|edit|duplicate)', http.get(path).text)
    assert [job.body for job in client.topic("orders").list().jobs] == [1]


def test_another_site_adds_no_job(site: Site, client: tarry.Client) -> None:
    data = {"action": "add", "topic": "orders", "kind": "json", "body": "1"}
    for headers in ({}, {"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}):
        assert httpx.post(site.at + "/act", data=data, headers=headers).status_code == 403
    assert not client.topics()


def test_a_job_is_added_and_edited_in_a_browser(site: Site, page: Any, client: tarry.Client) -> None:
    page.goto(site.at)
    page.get_by_role("link", name="Add a job").click()
    page.get_by_label("Topic", exact=True).fill("orders")
    page.get_by_label("Id", exact=True).fill("7")
    page.locator("textarea[name=body]").fill('{"order": }')
    page.get_by_label("Due in").fill("1h")
    page.get_by_role("button", name="Add").click()
    expect(page.locator("#ask")).to_contain_text("body: it is not JSON: line 1, column 11: expecting value.")
    page.wrong.clear()  # the browser notes that the answer was 400
    page.get_by_role("button", name="Close").click()
    page.locator("textarea[name=body]").fill('{"order": 7}')
    page.get_by_role("button", name="Add").click()
    expect(page.locator(".said")).to_have_text("Job 7 was added to orders; it is delayed.")
    page.goto(site.at + "/job?topic=orders&id=7")
    page.get_by_role("link", name="Edit").click()
    expect(page.locator("textarea[name=body]")).to_have_value('{\n  "order": 7\n}')
    page.locator("textarea[name=body]").fill('{"order": 8}')
    page.get_by_role("button", name="Replace").click()
    expect(page.locator(".said")).to_have_text("Job 7 was replaced; it is delayed.")
    expect(page.locator("pre")).to_have_text('{\n  "order": 8\n}')
