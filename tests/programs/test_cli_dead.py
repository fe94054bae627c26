"""``tarry dead``: groups of dead jobs by what went wrong."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

import tarry

Answers = Callable[..., list[Any]]


@pytest.fixture
def orders(client: tarry.Client, valkey_url: str, namespace: str) -> tarry.Topic[Any]:
    """Twelve dead jobs: of two tasks, with three kinds of error."""
    worker = tarry.Worker("shop", url=valkey_url, namespace=namespace)

    @worker.task(topic="orders", max_attempts=1)
    async def charge(order: int) -> None:
        if order % 2:
            raise ConnectionError(f"503 from https://bank.example/{order} for 'ada-{order}'")
        raise ValueError(f"order {order} at {object()!r} is not paid")

    @worker.task(topic="orders", retry={Exception: None})
    async def ship(order: int) -> None:
        raise ValueError(f"order {order} at {object()!r} is not paid")

    for order in range(1, 9):
        charge.options(id=f"c{order}").add(order)
    for order in range(1, 5):
        ship.options(id=f"s{order}").add(order)
    asyncio.run(worker.run_until_idle())
    return client.topic("orders")


def test_a_group_is_listed_exported_kicked_and_deleted_as_one(orders: tarry.Topic[Any], answers: Answers) -> None:
    groups = answers("dead", "orders")
    assert sorted((one["count"], one["task"], one["error"]) for one in groups) == [
        (4, "charge", "ConnectionError: … from … for …"),
        (4, "charge", "ValueError: order … at <object object at …> is not paid"),
        (4, "ship", "ValueError: order … at <object object at …> is not paid"),
    ]
    assert {one["place"] for one in groups} == {"test_cli_dead.py, charge", "test_cli_dead.py, ship"}
    keys = {(one["task"], one["error"].partition(":")[0]): one["id"] for one in groups}
    shown = answers("dead", "orders", "--group", keys["ship", "ValueError"], "--jobs")
    assert sorted(job["id"] for job in shown) == ["s1", "s2", "s3", "s4"]
    assert all(job["error"] for job in shown)
    kicked = answers("dead", "orders", "--group", keys["charge", "ConnectionError"], "--kick")
    assert sorted(one["id"] for one in kicked) == ["c1", "c3", "c5", "c7"]
    gone = answers("dead", "orders", "--group", keys["charge", "ValueError"], "--delete", "--yes", "--limit", "3")
    assert len(gone) == 3
    stats = orders.stats()
    assert (stats.ready, stats.dead) == (4, 5)
    assert sorted(one["count"] for one in answers("dead", "orders")) == [1, 4], "exact after a kick and a deletion"
    assert answers("dead", "orders", "--group", "none") == []


def test_dead_jobs_are_searched_by_task_error_and_text(orders: tarry.Topic[Any], answers: Answers) -> None:
    def found(*words: str) -> list[str]:
        return sorted(job["id"] for job in answers("dead", "orders", "--jobs", *words))

    assert found("--task", "ship") == ["s1", "s2", "s3", "s4"]
    assert found("--error", "bank.example/5") == ["c5"]
    assert found("--text", '"order":7') == ["c7"]
    assert found("--task", "charge", "--error", "ValueError", "--text", '"order":2') == ["c2"]


def test_deleting_without_a_terminal_needs_yes(
    orders: tarry.Topic[Any], cli: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    for words in ("--delete", "--delete --yes", "--kick", "--delete --kick", "--task ship --delete"):
        assert cli("dead", "orders", *words.split()).returncode == 2, words
    assert orders.stats().dead == 12
    assert "4 jobs" in cli("dead", "orders").stdout


def test_an_error_that_is_the_reason_is_listed_once(
    client: tarry.Client, valkey_url: str, namespace: str, cli: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """The reason has the exception's name, the traceback's last line its module too."""
    worker = tarry.Worker("shop", url=valkey_url, namespace=namespace)

    @worker.task(topic="bodies", retry={tarry.BodyError: None})
    def charge(order: int) -> None: ...

    client.topic("bodies").add({"task": "charge", "args": {"order": "seven"}}, id="7")
    asyncio.run(worker.run_until_idle())
    for words in (["list", "bodies"], ["dead", "bodies", "--jobs"]):
        line = cli(*words).stdout
        assert line.count("BodyError: the arguments do not fit charge") == 1, line
        assert "tarry.errors" not in line
