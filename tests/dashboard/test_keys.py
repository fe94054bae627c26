"""The busiest keys on a topic's page, why their jobs wait, and one that is paused and resumed from it."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator

import httpx
import pytest

import tarry
from dashboard.conftest import Site
from until import LONGEST_S

pytestmark = pytest.mark.slow
OURS = {"sec-fetch-site": "same-origin"}


@pytest.fixture
def http(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.at, timeout=LONGEST_S, headers=OURS, follow_redirects=True) as http:
        yield http


def rows(http: httpx.Client) -> list[list[str]]:
    """The table of keys: of each row its cells."""
    page = http.get("/topic?topic=orders").text
    table = page.partition('<h2 id="keys">')[2].partition("</table>")[0].partition("<tbody>")[2]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S) for row in table.split("</tr>")[:-1]]
    return [[html.unescape(re.sub(r"<[^>]*>|\s+", " ", cell)).strip() for cell in row] for row in cells]


def test_a_topic_shows_its_busiest_keys_and_why_they_wait(http: httpx.Client, client: tarry.Client) -> None:
    orders = client.topic("orders")
    orders.add_many(range(3))
    assert "Busiest keys" not in http.get("/topic?topic=orders").text, "none has a key"
    orders.purge()
    orders.configure(key_concurrency=2)
    orders.add_many(range(5), key="<b>7")
    orders.add_many(range(2), key="c8", delay="1h")
    orders.add(1, key="c9")
    assert len(orders.pop_many(2)) == 2
    http.post("/act", data={"action": "pause", "topic": "orders", "key": "c9", "back": "/"})
    assert rows(http) == [
        ["<b>7", "0", "3", "2", "2 of 2 are running", "Pause"],
        ["c8", "2", "0", "0", "–", "Pause"],
        ["c9", "0", "1", "0", "paused until it is resumed", "Resume"],
    ]
    assert "4 jobs wait for their keys." in http.get("/topic?topic=orders").text


def test_a_key_is_paused_and_resumed_alone(
    http: httpx.Client, client: tarry.Client, site_of: Callable[..., Site], valkey_url: str
) -> None:
    orders = client.topic("orders")
    orders.add(1, key="c 7")
    orders.add(2, key="c8")
    data = {"topic": "orders", "key": "c 7", "back": "/topic?topic=orders"}
    said = http.post("/act", data={**data, "action": "pause", "duration": "1h"}).text
    assert "Key c 7 of orders is paused until " in said
    shown = rows(http)
    assert [one[4:] for one in shown[1:]] == [["–", "Pause"]]
    assert re.fullmatch("paused for (59 m .*|1 h)", shown[0][4])
    assert orders.stats().paused_until is None
    assert [job.key for job in orders.pop_many(9)] == ["c8"]
    assert "Key c 7 of orders is resumed." in http.post("/act", data={**data, "action": "resume"}).text
    assert [job.key for job in orders.pop_many(9)] == ["c 7"]
    viewer = site_of(valkey_url, allow="viewer")
    seen = httpx.get(f"{viewer.at}/topic?topic=orders").text
    assert "Busiest keys" in seen
    assert "/act" not in seen.partition('<h2 id="keys">')[2]


def test_jobs_with_a_key_are_counted_and_deleted_by_their_due_times(http: httpx.Client, client: tarry.Client) -> None:
    orders = client.topic("orders")
    orders.add_many([1, 2], key="c7", delay="1h")
    orders.add_many([3, 4], delay="1h")
    orders.add(5, key="c7", delay="3h")
    window = {"topic": "orders", "state": "delayed", "before": "in 2h"}
    data = {**window, "action": "delete", "all": "1", "back": "/"}
    assert "Delete 4 " in http.post("/act", data=data).text
    http.post("/act", data={**data, "sure": "1"})
    assert [job.body for job in orders.list()] == [5]
