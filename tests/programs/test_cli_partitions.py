"""The command line over a topic with partitions: limits, schedules, and the way into one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tarry
from tarry.core.requests import Command
from tarry.values.keys import part_key, partition_of_name

Answers = Callable[..., list[Any]]


@pytest.fixture
def topic(client: tarry.Client) -> tarry.Topic[Any]:
    made = client.topic("orders", partitions=5)
    made.add("tea", id="tea", delay="1h")
    return made


def test_schedules_are_put_shown_paused_and_deleted(
    answers: Answers, cli: Callable[..., Any], client: tarry.Client, topic: tarry.Topic[Any]
) -> None:
    for n in range(5):
        [made] = answers("schedule", "put", "orders", f"s{n}", f"{n}", "--every", f"{n + 1}m")
        assert (made["id"], made["body"], "damaged" in made) == (f"s{n}", n, False)
    assert [one["id"] for one in answers("schedule", "list", "orders")] == [f"s{n}" for n in range(5)]
    assert answers("schedule", "get", "orders", "s3")[0]["every_ms"] == 240_000
    answers("schedule", "pause", "orders", "s0")
    answers("schedule", "resume", "orders", "s0")
    assert answers("schedule", "delete", "orders", "s4") == [{"topic": "orders", "id": "s4", "done": "deleted"}]
    assert cli("schedule", "get", "orders", "s4").returncode == 1
    parts = client.engine.run(topic.verbs.partitions())
    client.engine.run(
        Command((b"HSET", part_key(parts[partition_of_name(b"s1", 5)].keys, "plans"), b"s1", b"torn"), int)
    )
    listed = cli("schedule", "list")
    assert listed.returncode == 0
    assert "orders  s1  damaged: put it again, or delete it" in listed.stdout
    assert "orders  s2  every 3m" in listed.stdout


def test_limits_apply_to_the_whole_topic(answers: Answers, cli: Callable[..., Any], topic: tarry.Topic[Any]) -> None:
    [said] = answers("configure", "orders", "--rate", "100/1m", "--burst", "7", "--concurrency", "12")
    assert (said["rate"], said["burst"], said["concurrency"]) == ("100/1m", 7, 12)
    assert answers("configure", "orders") == [said]
    refused = cli("configure", "orders", "--concurrency", "4")
    assert refused.returncode == 2
    assert "4 for 5 partitions, each of which needs one" in refused.stderr


def test_a_plain_topic_migrates_into_partitions(
    answers: Answers, cli: Callable[..., Any], client: tarry.Client
) -> None:
    old = client.topic("letters")
    old.add_many(range(20), delay="1h")
    client.schedules.put("letters", "tidy", every="1h")
    old.configure(rate="100/1m")
    words = ("migrate", "letters", "--to", "letters-parted", "--partitions", "3")
    would = cli(*words, "--dry-run").stdout
    assert would == "letters  20 jobs would move, and 1 schedule; rate would be set there, too\n"
    assert answers(*words) == [
        {"topic": "letters", "moved": 20, "refused": 0, "reserved": 0, "schedules": 1, "schedules_refused": 0, "settings": ["rate"], "poison": 0}
    ]  # fmt: skip
    assert client.topic("letters-parted", partitions=3).stats().delayed == 20
    assert [one.topic for one in client.schedules.list()] == ["letters-parted"]
    assert cli("migrate", "letters-parted", "--to", "wide", "--partitions", "0").returncode == 2
