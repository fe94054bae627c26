"""The names of decision 0089 that are gone: mypy and basedpyright refuse each use, or say that its comment is not needed.

The classes and modules first, then attributes and methods, then arguments.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=error
from __future__ import annotations

from typing import Any

import tarry
import tarry.redisson
import tarry.types
from tarry.redisson import BlockingQueue, DelayedQueue, MapCache, MapStats
from tarry.types import GuardedQueue, LimitStatus, WorkerInfo, WorkerTopic


def classes() -> None:
    _ = tarry.Lost  # type: ignore[attr-defined]
    _ = tarry.AsyncLost  # type: ignore[attr-defined]
    _ = tarry.Item  # type: ignore[attr-defined]
    _ = tarry.SetAside  # type: ignore[attr-defined]
    _ = tarry.Dead  # type: ignore[attr-defined]
    _ = tarry.Page  # type: ignore[attr-defined]
    _ = tarry.Limited  # type: ignore[attr-defined]
    _ = tarry.Minute  # type: ignore[attr-defined]
    _ = tarry.Defaults  # type: ignore[attr-defined]
    _ = tarry.Check  # type: ignore[attr-defined]
    _ = tarry.MovedOver  # type: ignore[attr-defined]
    _ = tarry.UNCHANGED  # type: ignore[attr-defined]
    _ = tarry.TOPIC_DEFAULT  # type: ignore[attr-defined]
    _ = tarry.types.Why  # type: ignore[attr-defined]
    _ = tarry.types.Lost  # type: ignore[attr-defined]
    _ = tarry.types.Item  # type: ignore[attr-defined]
    _ = tarry.redisson.SetAside  # type: ignore[attr-defined]


def members(
    job: tarry.Job[Any],
    client: tarry.Client,
    added: tarry.Added,
    stats: tarry.Stats,
    info: tarry.JobInfo[Any],
    topic: WorkerTopic,
    limit: LimitStatus,
    moved: tarry.Migrated,
    settings: tarry.TopicSettings,
    worker: tarry.Worker,
    report: WorkerInfo,
    of_map: MapStats,
    cache: MapCache[str, str],
    refused: tarry.StaleReceipt,
    task: tarry.Task[[], None, None],
) -> None:
    _ = job.keep  # type: ignore[attr-defined]
    _ = added.created  # type: ignore[attr-defined]
    _ = stats.stale  # type: ignore[attr-defined]
    _ = info.attempt_limit  # type: ignore[attr-defined]
    _ = topic.attempt_limit  # type: ignore[attr-defined]
    _ = limit.why  # type: ignore[attr-defined]
    _ = moved.options  # type: ignore[attr-defined]
    _ = moved.aside  # type: ignore[attr-defined]
    _ = settings.keep  # type: ignore[attr-defined]
    _ = client.move_to_topic  # type: ignore[attr-defined]
    _ = worker.blocking  # type: ignore[attr-defined]
    _ = report.heard  # type: ignore[attr-defined]
    _ = of_map.keepers  # type: ignore[attr-defined]
    _ = cache.contains  # type: ignore[attr-defined]
    _ = refused.ids  # type: ignore[attr-defined]
    _ = task.job  # type: ignore[attr-defined]
    _ = cache["a"]  # type: ignore[index]


def arguments(
    client: tarry.Client,
    topic: tarry.Topic[Any],
    job: tarry.Job[Any],
    worker: tarry.Worker,
    blocking: BlockingQueue[Any],
    delayed: DelayedQueue[Any],
    guarded: GuardedQueue[Any],
    schedule: tarry.Schedule,
) -> None:
    topic.configure(keep="1d")  # type: ignore[arg-type]
    topic.release(job, count=False)  # type: ignore[call-arg]
    topic.release_holder("me", count=False)  # type: ignore[call-arg]
    topic.pop_many(n=5)  # type: ignore[call-arg, arg-type]
    topic.pause(for_="1h")  # type: ignore[call-arg]
    job.release(count=False)  # type: ignore[call-arg]
    client.pop_many(topic, n=5)  # type: ignore[call-arg, arg-type]
    blocking.drain_to([], n=5)  # type: ignore[call-arg]
    blocking.poll(n=3)  # type: ignore[arg-type]
    delayed.poll(n=3)  # type: ignore[arg-type]
    guarded.poll(count=3)  # type: ignore[arg-type]
    schedule.following(count=3)  # type: ignore[call-arg]
    tarry.Worker("shop", blocked="1s")  # type: ignore[call-arg]
    tarry.Worker("shop", bury_unknown="1d")  # type: ignore[call-arg]
    worker.using("redis://localhost", beside=True)  # type: ignore[call-arg]
    worker.on("mails", on_stale=print)  # type: ignore[arg-type]
    worker.on("mails", run="loop")  # type: ignore[arg-type]
