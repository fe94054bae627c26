"""``tarry lock …`` and ``tarry guarded-queue …``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import tarry
from tarry.errors import LockLost

Cli = Callable[..., Any]


def answers(cli: Cli, *words: str) -> list[Any]:
    done = cli(*words, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_lock_is_listed_shown_and_force_released(cli: Cli, client: tarry.Client, namespace: str) -> None:
    name = f"stock of {namespace}"
    grant = client.lock(name, lease=60).acquire()
    assert grant is not None
    (listed,) = [row for row in answers(cli, "lock", "list") if row["lock"] == name]
    assert listed["token"] == grant.token
    (shown,) = answers(cli, "lock", "get", name)
    assert (shown["held"], shown["depth"], shown["waiting"]) == (True, 1, 0)
    assert 0 < shown["remaining_ms"] <= 60_000
    words = cli("lock", "get", name).stdout
    assert words.startswith(f"{name}  held by {shown['holder']}  token {grant.token}  ends in ")
    (taken,) = answers(cli, "lock", "force-release", name)
    assert taken == {"lock": name, "released": True, "holder": shown["holder"]}
    with pytest.raises(LockLost):
        grant.check()
    assert cli("lock", "force-release", name).stdout == f"{name}  nobody had it\n"
    assert cli("lock", "get", name).stdout == f"{name}  free\n"
    assert name not in cli("lock", "list").stdout
    assert name in cli("lock", "list", "--all").stdout


def test_a_key_of_another_type_is_not_listed_as_a_lock_and_stays(
    cli: Cli, client: tarry.Client, namespace: str
) -> None:
    name = f"stock of {namespace}"
    client.lock(name, lease=60, shared=True).acquire().release()  # type: ignore[union-attr]  # it is free
    cache = client.map_cache(name, codec="string", policy=None)
    cache.put("tea", "green")
    assert name not in cli("lock", "list", "--all", "--shared").stdout
    refused = cli("lock", "force-release", name, "--shared")
    assert refused.returncode != 0
    assert "something else has this name" in refused.stderr
    assert cache.get("tea") == "green"
    cache.clear()


def test_a_lock_shared_with_java_is_another_one(cli: Cli, client: tarry.Client, namespace: str) -> None:
    name = f"stock of {namespace}"
    with client.lock(name, shared=True) as grant:
        assert cli("lock", "get", name).stdout == f"{name}  free\n"
        assert name not in cli("lock", "list", "--all").stdout
        (shown,) = answers(cli, "lock", "get", name, "--shared")
        assert shown["token"] == grant.token
        assert name in cli("lock", "list", "--shared").stdout
        assert cli("lock", "force-release", name).stdout == f"{name}  nobody had it\n"
        grant.check()


def test_shared_locks_of_zookeeper_are_not_listed(cli: Cli) -> None:
    refused = cli("lock", "list", "--shared", "--zookeeper", "127.0.0.1:1")
    assert refused.returncode != 0
    assert "tarry lock get --shared" in refused.stderr


def test_zookeeper_locks_are_listed_and_force_released(cli: Cli, zookeeper: Any, namespace: str) -> None:
    from tarry import zookeeper as on_zookeeper

    with on_zookeeper.Client(zookeeper.hosts, namespace=namespace, session_timeout=4) as client:
        grant = client.lock("stock").acquire()
        assert grant is not None
        (listed,) = answers(cli, "lock", "list", "--zookeeper", zookeeper.hosts, "--namespace", namespace)
        assert (listed["lock"], listed["token"], listed["waiting"]) == ("stock", grant.token, 0)
        (taken,) = answers(cli, "lock", "force-release", "stock", "--zookeeper", zookeeper.hosts)
        assert taken["released"]
        with pytest.raises(LockLost):
            grant.check()


@pytest.mark.parametrize("layout", ["java"])
def test_guarded_queue_commands_work(cli: Cli, namespace: str, layout: str) -> None:
    queue = f"orders of {namespace}"
    where = (queue, "--layout", layout)
    dues = answers(cli, "guarded-queue", "push", *where, '{"order": 7}', '"b"')
    assert len(dues) == 2
    answers(cli, "guarded-queue", "push", *where, "text", "--raw", "--delay", "1h")
    (now,) = answers(cli, "guarded-queue", "stats", *where)
    assert (now["size"], now["overdue"]) == (3, 2)
    several = answers(cli, "guarded-queue", "stats", *where, f"{queue} too")
    assert [(row["queue"], row["size"]) for row in several] == [(queue, 3), (f"{queue} too", 0)]
    assert now["lateness_ms"] > 0
    (first,) = answers(cli, "guarded-queue", "poll", *where, "--guard", f"guard of {queue}", "--shared")
    rest = answers(cli, "guarded-queue", "poll", *where, "--limit", "5", "--wait", "10ms")
    assert sorted(map(str, [first["value"], *(item["value"] for item in rest)])) == ["b", "{'order': 7}"]
    assert first["lateness_ms"] > 0
    assert cli("guarded-queue", "poll", *where).stdout == ""
    assert cli("guarded-queue", "clear", *where).stdout == f"{queue}  cleared\n"
    assert cli("guarded-queue", "clear", *where).stdout == f"{queue}  was empty\n"


def test_the_guard_of_a_queue_is_of_the_namespace_or_javas(cli: Cli, client: tarry.Client, namespace: str) -> None:
    queue, guard = f"orders of {namespace}", f"guard of {namespace}"
    answers(cli, "guarded-queue", "push", queue, "1")
    with client.lock(guard, shared=True):
        assert cli("guarded-queue", "poll", queue, "--guard", guard, "--shared").stdout == "", "Java has it"
        assert cli("guarded-queue", "poll", queue, "--guard", guard).stdout.startswith("1  ")


def test_an_invalid_layout_is_refused(cli: Cli) -> None:
    done = cli("guarded-queue", "push", "q", "1", "--layout", "article")
    assert done.returncode != 0
    assert "--layout: 'article'; it is one of tarry, java" in done.stderr
