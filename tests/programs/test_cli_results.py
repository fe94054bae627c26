"""``tarry result`` and history on the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tarry

Answers = Callable[..., list[Any]]


def test_results_are_kept_listed_and_purged(client: tarry.Client, answers: Answers, cli: Callable[..., Any]) -> None:
    [settings] = answers("configure", "orders", "--keep-finished", "1d")
    assert settings["keep_finished_ms"] == 86_400_000
    assert "keep finished 1d" in cli("configure", "orders").stdout
    answers("add", "orders", '"tea"', "--id", "7")
    [popped] = answers("pop", "orders")
    answers("finish", "orders", "7", str(popped["receipt"]), "--result", '{"sum": 3}')
    assert answers("result", "orders", "7") == [{"id": "7", "result": {"sum": 3}}]
    assert cli("result", "orders", "7", "--wait", "1s").stdout == '{"sum":3}\n'
    [job] = answers("get", "orders", "7")
    assert (job["state"], job["result"]) == ("finished", {"sum": 3})
    assert [row["id"] for row in answers("list", "orders", "--state", "finished")] == ["7"]
    listed = cli("list", "orders", "--state", "finished").stdout
    assert listed == f"7  finished  {job['finished']}  attempts 1\n"
    assert answers("list", "orders") == []
    client.topic("orders").add("coffee", id="7")
    refused = cli("reschedule", "orders", "--state", "finished", "--delay", "0")
    assert refused.returncode == 2
    assert "finished jobs are history" in refused.stderr
    job = client.topic("orders").get("7")
    assert job is not None
    assert job.state == "ready", "a living job with that id stays"
    assert answers("purge", "orders", "--state", "finished", "--yes")[0]["purged"] == 1
    missing = cli("result", "orders", "7")
    assert missing.returncode == 1
    assert "is ready, not finished; give --wait, such as --wait 30s." in missing.stderr
