"""A Celery app on its own SQS transport. Run by test_peers.py."""

import os
from pathlib import Path

from celery import Celery

app = Celery("celery_app", broker=os.environ["BROKER"])
app.conf.update(
    broker_transport_options={"region": "eu-central-1", "is_secure": False, "wait_time_seconds": 2},
    worker_enable_remote_control=False,
)


@app.task
def write(word: str) -> None:
    with Path(os.environ["DONE"]).open("a") as file:
        file.write(f"{word}\n")
