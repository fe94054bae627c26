# Made from src/tarry/clients/awaited/finished_jobs.py by tools/blocking.py: change that file, then `make blocking`.
"""Waiting for a job to be finished: a subscription, and a read after each message that names the job.

finish ──▶ message with the ids ──▶ read          a read every ten seconds too: a message may be lost, and a job may die
"""

from __future__ import annotations

import time
from typing import Any

from tarry.clients.blocking.concurrency import Signal
from tarry.clients.blocking.interfaces import SharedPartHost
from tarry.clients.blocking.pubsub import PubSub
from tarry.core.requests import flow_of
from tarry.values import keys
from tarry.verbs.jobs.job_values import ENDED, JobInfo
from tarry.verbs.jobs.partitions import partition_of_id
from tarry.verbs.jobs.topic import TopicVerbs

READ_EVERY_S = 10.0


def wait_until_ended(host: SharedPartHost, topic: TopicVerbs[Any], id: str, seconds: float) -> JobInfo[Any] | None:
    """Waits until a job is finished or dead, or unknown. Returns the job as it is then, or at the end of the time."""
    until = time.monotonic() + seconds
    parts = host.runner.run(topic.partitions())
    channel = keys.finished_channel(parts[partition_of_id(id, len(parts))].keys)
    wanted, news = id.encode(), Signal()

    def on_message(_: bytes, message: bytes) -> None:
        if not message or wanted in message.split(b"\n"):  # an empty one: it is subscribed, again perhaps
            news.set()

    pubsub = host.shared_part(PubSub)
    subscriber = pubsub.subscribe(channel, (channel,), on_message)
    try:
        while True:
            news.clear()
            job = (host.runner.run(flow_of(topic.get([id], True))))[0]
            left = until - time.monotonic()
            if job is None or job.state in ENDED or left <= 0:
                return job
            news.wait(min(left, READ_EVERY_S))
    finally:
        pubsub.unsubscribe(subscriber)
