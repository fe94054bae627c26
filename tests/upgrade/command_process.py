"""A process with one version of tarry. It performs commands, a line of JSON each way: ``command_process.py URL``.

    in    {"do": "topic.add('tea').id"}        an expression, or statements
    out   {"answer": "…"}  or  {"error": "StaleReceipt", "says": "…"}

After ``begin(namespace)``, ``client`` and ``topic`` live by an imaginary ``clock``, ``real`` and ``letters`` by the one on the
wall. Only what both versions have is used here.
"""

from __future__ import annotations

import ast
import json
import sys
from datetime import timedelta
from typing import Any

import tarry
from tarry.clients.testing import Clock, TestClient

SHOWN = ("id", "body", "state", "attempts", "due", "headers", "ttr", "max_attempts", "reason", "error", "holder")


def shown(job: Any) -> dict[str, Any]:
    """A job as it looks, in words that can be compared."""
    return {name: _plain(getattr(job, name)) for name in SHOWN}


def work(topic: Any) -> Any:
    """Pops a job and finishes it; answers its body."""
    with topic.pop() as job:
        return job.body


def counts(topic: Any) -> dict[str, Any]:
    """What stats tells of a topic."""
    names = "delayed ready reserved dead added finished released timed_out died too_late kicked deleted replaced refused popped"
    stats = topic.stats()
    return {name: getattr(stats, name) for name in names.split()}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, (str, int, float, list, dict, type(None))) else str(value)


def perform(told: str, scope: dict[str, Any]) -> dict[str, Any]:
    try:
        tree = ast.parse(told)
        if len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr):
            return {"answer": eval(told, scope)}
        exec(told, scope)
    except Exception as fault:  # noqa: BLE001  # it is told
        return {"error": type(fault).__name__, "says": str(fault)}
    return {"answer": None}


def main(url: str) -> None:
    scope: dict[str, Any] = {
        "tarry": tarry,
        "timedelta": timedelta,
        "shown": shown,
        "counts": counts,
        "work": work,
    }

    def begin(namespace: str, url: str = url) -> None:
        """Starts again, with a clock of its own; ``url`` may name another user."""
        for old in ("client", "real"):
            if old in scope:
                scope[old].close()
        clock = Clock()
        client, real = TestClient(url, clock, namespace=namespace), tarry.Client(url, namespace=namespace)
        scope.update(clock=clock, client=client, real=real, topic=client.topic("orders"), letters=real.topic("letters"))

    scope["begin"] = begin
    print(json.dumps({"answer": tarry.__file__}), flush=True)
    for line in sys.stdin:
        print(json.dumps(perform(json.loads(line)["do"], scope), default=str), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
