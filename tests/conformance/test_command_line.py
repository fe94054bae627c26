"""Every verb of the command line on each kind of server."""

from __future__ import annotations

import pytest

import tarry
from conformance.cli import VERBS, Cli
from conformance.conftest import ALONE, PLACES

PROCESSES = {"worker", "serve", "demo", "demo-worker", "celery-relay"}
"""They run until they are told to stop: test_programs.py, and tests/frameworks for Celery."""


@pytest.mark.parametrize(
    "place", [*PLACES[:2], pytest.param("sentinels of valkey", marks=[*PLACES[2].marks, pytest.mark.long])]
)
def test_every_verb_of_the_command_line_works(place: str, url: str, namespace: str) -> None:
    cli = Cli(url, namespace)
    jobs_by_hand(cli)
    topics_by_hand(cli)
    shared_by_hand(cli)
    if place == ALONE:
        assert cli.said == VERBS - PROCESSES, "verbs that the story does not say"


def jobs_by_hand(cli: Cli) -> None:
    cli("add", "orders", '{"order": 7}', "--id", "7", "--delay", "1h")
    cli("add", "orders", "--file", "-", stdin='{"body": 1, "id": "a"}\n{"body": 2, "id": "b"}\n')
    [first, second] = cli("pop", "orders", "--limit", "2", "--wait", "10s")
    cli("touch", "orders", "a", str(first["receipt"]))
    cli("configure", "orders", "--keep-finished", "1d")
    cli("finish", "orders", "a", str(first["receipt"]), "--result", '{"sum": 3}')
    assert cli("result", "orders", "a") == [{"id": "a", "result": {"sum": 3}}]
    cli("configure", "orders", "--keep-finished", "none")
    cli("release", "orders", "b", str(second["receipt"]), "--delay", "0")
    [again] = cli("pop", "orders", "--wait", "10s")
    [shown] = cli("get", "orders", "b")
    cli("release-holder", "orders", shown["holder"])
    [again] = cli("pop", "orders", "--wait", "10s")
    cli("bury", "orders", "b", str(again["receipt"]), "--reason", "no use")
    assert [row["state"] for row in cli("list", "orders")] == ["delayed", "dead"]
    assert [row["count"] for row in cli("dead", "orders")] == [1]
    cli("kick", "orders", "b")
    cli("reschedule", "orders", "b", "--delay", "2h")
    cli("delete", "orders", "b")
    [stats] = cli("stats", "orders")
    assert stats["delayed"] == 1
    [found] = cli("histogram", "orders", "--span", "1d", "--buckets", "1")
    assert found["counts"] == [1]
    [found] = cli("throughput", "orders")
    assert sum(minute["added"] for minute in found["minutes"]) == stats["added"]


def topics_by_hand(cli: Cli) -> None:
    cli("configure", "orders", "--rate", "100/1m", "--ttr", "2m")
    cli("pause", "orders")
    cli("resume", "orders")
    cli("add", "calls", "1", "--key", "customer-7", "--delay", "1h")
    assert [row["key"] for row in cli("keys", "calls")] == ["customer-7"]
    cli("purge", "calls", "--key", "customer-7", "--yes")
    cli("schedule", "put", "orders", "tidy", "--every", "1h")
    for verb in ("list", "get", "pause", "resume", "delete"):
        cli("schedule", verb, *(["orders", "tidy"] if verb != "list" else []))
    assert cli("migrate", "orders", "--to", "moved", "--partitions", "3")[-1]["moved"] == 1
    assert [row["topic"] for row in cli("top", "moved")] == ["moved"]
    assert all(len(line) <= 80 for line in cli.shown("top", "--once").splitlines())
    assert cli("workers") == []
    assert cli("worker-mode", "never-there", "quiet", code=1)[0]["alive"] is False
    server, *topics = cli("doctor", code=1)  # without persistence
    assert {row["topic"]: row["ok"] for row in topics} == {"calls": True, "orders": True, "moved": True}
    assert all(node["version"].startswith(("Valkey 9", "Redis 7")) for node in server["nodes"])
    assert [row["topic"] for row in cli("topics")] == ["calls", "moved", "orders"]
    cli("check", "moved")
    cli("purge", "moved", "--yes")
    [made] = cli("token", "create", "--scope", "admin")
    assert [row["id"] for row in cli("token", "list")] == [made["id"]]
    cli("token", "revoke", made["id"])


def shared_by_hand(cli: Cli) -> None:
    name = cli.namespace
    java = ("--codec", "string")
    cli("delayed-queue", "offer", name, '"tea"', *java)
    cli("delayed-queue", "offer", name, '"jam"', "--delay", "1h", *java)
    assert cli("delayed-queue", "format", name)[0]["format"] == "Bc0Lc0"
    assert cli("delayed-queue", "move", name)[0]["moved"] == 1
    assert [row["value"] for row in cli("delayed-queue", "list", name, *java)] == ["jam"]
    assert cli("delayed-queue", "stats", name)[0]["ready"] == 1
    assert cli("delayed-queue", "migrate", name, "taken over", *java)[0]["moved"] == 1
    cli("map-cache", "put", name + " map", "tea", '"green"', "--ttl", "1h", *java)
    assert cli("map-cache", "get", name + " map", "tea", *java)[0]["value"] == "green"
    for verb in ("list", "stats", "evict"):
        assert len(cli("map-cache", verb, name + " map")) == 1
    cli("map-cache", "delete", name + " map", "tea", *java)
    cli("map-cache", "clear", name + " map")
    for layout in ("tarry", "java"):
        cli("guarded-queue", "push", name, '"egg"', "--layout", layout)
        assert cli("guarded-queue", "poll", name, "--layout", layout, "--wait", "10s")[0]["value"] == "egg"
        assert [row["size"] for row in cli("guarded-queue", "stats", name, name, "--layout", layout)] == [0, 0]
        cli("guarded-queue", "clear", name, "--layout", layout)
    with tarry.Client(cli.url, namespace=name) as client:
        grant = client.lock(name + " lock", lease=60).acquire()
        assert grant is not None
        assert name + " lock" in {row["lock"] for row in cli("lock", "list")}
        assert cli("lock", "get", name + " lock")[0]["token"] == grant.token
        assert cli("lock", "force-release", name + " lock")[0]["released"]
