"""A topic in which nothing ever was has no page, and no button that would empty it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

import tarry
from dashboard.conftest import Site
from tarry.verbs import namespaces
from until import LONGEST_S

OURS = {"sec-fetch-site": "same-origin"}


@pytest.fixture
def http(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.at, timeout=LONGEST_S, headers=OURS) as http:
        yield http


@pytest.mark.parametrize("page", ["topic", "jobs", "schedules"])
def test_it_has_no_page(http: httpx.Client, client: tarry.Client, page: str) -> None:
    client.engine.run(namespaces.register_topic(client.namespace, "typo"))  # a hint, and no proof
    answer = http.get(f"/{page}?topic=typo")
    assert answer.status_code == 404
    assert "Unknown topic typo: nothing was ever added to it, and nothing is configured for it." in answer.text
    assert "Delete everything" not in answer.text
    client.topic("typo").pause()
    assert http.get(f"/{page}?topic=typo").status_code == 200


def test_a_topic_that_ran_empty_has_a_page_without_the_button(http: httpx.Client, client: tarry.Client) -> None:
    client.topic("full").add(1, delay="1h")
    assert "Delete everything" in http.get("/topic?topic=full").text
    client.topic("typo").add(1, id="7", delay="1h")
    client.topic("typo").delete("7")
    answer = http.get("/topic?topic=typo")
    assert answer.status_code == 200
    assert "Delete everything" not in answer.text


def test_a_list_of_jobs_has_errors_and_bodies(http: httpx.Client, client: tarry.Client) -> None:
    shop = client.topic("shop")
    shop.add({"order": 7}, max_attempts=1)
    assert ">Error<" not in http.get("/jobs?topic=shop").text
    job = shop.pop()
    assert job is not None
    shop.release(job, reason="ConnectionError: refused")
    shown = http.get("/jobs?topic=shop&state=dead").text
    assert '<th scope="col">Error</th><th scope="col">Body</th>' in shown
    assert '<td class="mono fault">ConnectionError: refused</td>' in shown
    assert '<td class="mono body">{&#34;order&#34;:7}</td>' in shown


def test_the_settings_of_a_topic_say_how_long_finished_jobs_are_kept(http: httpx.Client, client: tarry.Client) -> None:
    client.topic("mails").add(1)
    client.topic("orders").configure(keep_finished="3h")
    client.topic("orders").add(1)
    assert "finished jobs are kept" not in http.get("/topic?topic=mails").text
    assert "<dt>finished jobs are kept</dt><dd>3 h</dd>" in http.get("/topic?topic=orders").text


def test_it_is_not_emptied(http: httpx.Client, client: tarry.Client) -> None:
    purge = {"action": "purge", "topic": "typo", "back": "/"}
    assert http.post("/act", data=purge).status_code == 404
    client.topic("typo").add(1, id="7")
    client.topic("typo").delete("7")
    assert http.post("/act", data=purge).status_code == 303, "it ran empty, and stays known: done"
