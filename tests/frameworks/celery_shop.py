"""The Celery application of the tests: what its tasks do stands in a file, a line a run."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from celery import Celery
from kombu import Exchange, Queue

import tarry.celery

app = Celery("shop", broker=os.environ["SHOP_BROKER"], backend=os.environ["SHOP_BACKEND"], set_as_current=False)
app.conf.update(
    task_default_queue=os.environ["SHOP_NAME"],
    control_exchange=os.environ["SHOP_NAME"],
    broker_connection_retry_on_startup=True,
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=True,
)
if app.conf.broker_url.startswith("redis"):
    # shorter than the tasks wait: Celery alone would deliver each again and again
    app.conf.broker_transport_options = {"visibility_timeout": 1, "polling_interval": 0.1}
if os.environ["SHOP_QUEUES"] == "quorum":
    name = app.conf.task_default_queue
    app.conf.task_queues = [Queue(name, Exchange(name, type="topic"), name, queue_arguments={"x-queue-type": "quorum"})]
if os.environ["SHOP_TARRY"]:  # else Celery alone
    tarry.celery.install(app, os.environ["SHOP_TARRY"], namespace=os.environ["SHOP_NAME"])
RUNS = Path(os.environ["SHOP_RUNS"])


def runs() -> list[dict[str, Any]]:
    """What has run so far."""
    return [json.loads(line) for line in RUNS.read_text().splitlines()] if RUNS.exists() else []


def _write(task: Any, number: int) -> None:
    run = {
        "number": number,
        "at": time.time(),
        "eta": task.request.eta,
        "retries": task.request.retries,
        "pid": os.getppid(),
    }
    with RUNS.open("a") as file:
        file.write(json.dumps(run) + "\n")


@app.task(bind=True, shared=False)
def close(self: Any, number: int) -> int:
    _write(self, number)
    return number


@app.task(bind=True, shared=False)
def add(self: Any, *numbers: Any) -> int:
    _write(self, -1)
    return sum(numbers[0]) if isinstance(numbers[0], list) else sum(numbers)


@app.task(bind=True, shared=False)
def retried(self: Any, number: int) -> str:
    """Fails three times, and is due again at once: while the relay may still hold its message."""
    _write(self, number)
    if self.request.retries < 3:
        raise self.retry(countdown=0.001)
    return "done"
