"""The bench of ten million pending jobs runs, with few: what it makes in the servers is a topic like any other."""

from __future__ import annotations

import pytest

import tarry
from bench import pending

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def few(monkeypatch):
    for name in ("ONES", "BATCHES", "VIEWS", "PAGES"):
        monkeypatch.setattr(pending, name, 2)


def test_one_server_is_measured_at_two_sizes_and_restarted():
    with pending.one_server() as site:
        taken = pending.run(site, (500, 5_000))
    text = pending.as_markdown({"one server": taken})
    assert [one.pending for one in taken] == [500, 5_000]
    assert "| `pop` |" in text
    assert "| s from kill -9 until the server has loaded its file, on the slowest server | – | " in text


@pytest.mark.long
def test_several_masters_are_measured():
    with pending.several_masters(3, 4) as site:
        assert len(pending.run(site, (400, 4_000))) == 2


@pytest.mark.parametrize(
    "place", [pending.one_server, pytest.param(lambda: pending.several_masters(3, 4), marks=pytest.mark.long)]
)
def test_a_topic_filled_by_the_server_is_sound(place):
    with place() as site, tarry.Client(site.url) as client:
        topic = client.topic("orders", partitions=site.partitions)
        pending.fill(client, topic, site, 0, 2_000)
        patterns = site.partitions or 1
        assert topic.check().ok
        assert topic.stats().delayed == 2_000 + patterns
        page = topic.list("delayed", limit=100)
        assert None not in topic.get_many([job.id for job in page.jobs])
        assert [topic.delete(job.id) for job in page.jobs] == ["delayed"] * 100
