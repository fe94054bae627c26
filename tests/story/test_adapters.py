"""The whole story in short, every verb once, to every client on every server.

It knows no clock: it waits where the next thing is a moment away. So it runs in imaginary time and in real time alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import servers
from embedded import users
from story import adapters
from story.adapters import Adapter, AwaitedAdapter, BlockingAdapter
from tarry import AsyncClient, BadInput, Client, JobExists, NewJob, StaleReceipt
from tarry.clients.testing import Clock

PLACES = [
    "sync on valkey",
    "async on valkey",
    *[
        pytest.param(f"{kind} on {server}", marks=pytest.mark.otherserver)
        for kind, server in [
            ("sync", "redis8"),
            ("async", "redis8"),
            ("sync", "redis7"),
            ("async", "redis7"),
            ("sync", "redis6"),
            ("async", "redis6"),
            ("sync", "cluster"),
            ("async", "cluster"),
            ("sync", "sentinel"),
            ("async", "sentinel"),
        ]
    ],
    "sync on embedded",
    "async on embedded",
]


@pytest.fixture(params=PLACES)
def adapter(request: pytest.FixtureRequest, clock: Clock, namespace: str) -> Iterator[Adapter]:
    kind, _, server = request.param.split(" ")
    if server == "embedded":
        yield from real_time(kind, request)
        return
    if server == "cluster":
        url = "redis+cluster://" + ",".join(f"{host}:{port}" for host, port in request.getfixturevalue("cluster_nodes"))
    else:
        url = request.getfixturevalue(f"{server}_url")
    made = adapters.imaginary(kind, url, clock, namespace)
    yield made
    adapters.end(made)


def real_time(kind: str, request: pytest.FixtureRequest) -> Iterator[Adapter]:
    """The defaults of ``Client()``."""
    patch = request.getfixturevalue("monkeypatch")
    with servers.short_folder() as folder, servers.short_folder() as runtime:
        patch.delenv("TARRY_URL", raising=False)
        patch.delenv("TARRY_EMBEDDED", raising=False)
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        patch.setenv("XDG_DATA_HOME", str(folder))
        patch.setenv("HOME", str(folder))
        made: Adapter = BlockingAdapter(Client()) if kind == "sync" else AwaitedAdapter(AsyncClient())
        try:
            yield made
            adapters.end(made)
        finally:
            for data in {path.parent for path in Path(folder).rglob("*.lock")}:
                users.clean_up(data)


async def test_every_verb_works_once(adapter: Adapter, topic: Any) -> None:
    await a_job_goes_in(topic)
    await it_is_handed_out_and_settled(adapter, topic)
    await it_is_minded_by_its_id(topic)
    await the_topic_is_ruled(topic)
    await several_topics_are_one(adapter, topic)


async def a_job_goes_in(topic: Any) -> None:
    added = await topic.add({"order": 7}, delay="520w", id="七", headers={"trace": "1"}, ttr="1h", max_attempts=2)
    assert (added.id, added.is_new, added.state) == ("七", True, "delayed")
    with pytest.raises(JobExists):
        await topic.add(None, id="七")
    assert not (await topic.add(None, id="七", if_exists="keep")).is_new
    with pytest.raises(BadInput):
        await topic.add(None, delay=-1)
    many = await topic.add_many([NewJob(n, id=n, delay=0.001) for n in "abc"] + [b"\x00"], delay="1h")
    assert [one.id for one in many[:3]] == list("abc")
    info = await topic.get("七")
    assert (info.body, info.headers, info.state) == ({"order": 7}, {"trace": "1"}, "delayed")
    assert await topic.get("unknown") is None


async def it_is_handed_out_and_settled(adapter: Adapter, topic: Any) -> None:
    job = await topic.pop(wait=30)
    assert (job.id, job.body, job.attempt) == ("a", "a", 1)
    assert job.lateness.total_seconds() >= 0
    await topic.touch(job, ttr="1h")
    await adapter.of(job, "touch", ttr=60)
    await topic.finish(job)
    with pytest.raises(StaleReceipt):
        await topic.finish(job)
    jobs = await topic.pop_many(2, wait=30, ttr=600)
    jobs += await topic.pop_many(2 - len(jobs), wait=30, ttr=600) if len(jobs) < 2 else []
    assert sorted(job.id for job in jobs) == ["b", "c"]
    await topic.touch_many(jobs)
    await topic.release_many(jobs, delay=0)
    again = [await topic.pop(wait=30), await topic.pop(wait=30)]
    assert [job.attempt for job in again] == [2, 2]
    await topic.release(again[0], counted=False)
    await topic.bury(again[1], reason="no use")
    async with adapter.inside(await topic.pop(wait=30)) as job:
        assert job.attempt == 2
    lost = await topic.add("lost", id="lost")
    assert lost.state == "ready"
    slow = await topic.pop(wait=30, ttr=0.001)
    quick = await topic.pop(wait=30)
    assert (slow.id, quick.id, quick.attempt) == ("lost", "lost", 2)
    assert quick.receipt > slow.receipt
    for verb in ("finish", "touch", "release", "bury"):
        with pytest.raises(StaleReceipt, match="again"):
            await getattr(topic, verb)(slow)
    await topic.finish_many([quick])


async def it_is_minded_by_its_id(topic: Any) -> None:
    (dead,) = (await topic.list("dead")).jobs
    assert (dead.reason, dead.state) == ("no use", "dead")
    assert [group.count for group in await topic.dead_groups()] == [1]
    assert await topic.kick(dead.id) == "dead"
    assert await topic.kick_many([dead.id, "unknown"]) == ["ready", None]
    job = await topic.pop(wait=30)
    assert (job.id, job.attempt) == (dead.id, 1)
    assert await topic.delete(dead.id) == "reserved"
    with pytest.raises(StaleReceipt):
        await topic.finish(job)
    assert await topic.reschedule("七", delay="1h") == "delayed"
    assert await topic.reschedule_many(["七", "unknown"], delay="2h") == ["delayed", None]
    page = await topic.list(limit=1)
    rest = await topic.list(limit=10, cursor=page.cursor)
    assert (len(page), len(rest), rest.cursor) == (1, 1, None)
    stats = await topic.stats()
    assert (stats.delayed, stats.ready, stats.reserved, stats.dead) == (2, 0, 0, 0)
    shown = await topic.histogram(span="4h", buckets=2)
    assert (shown.before, sum(shown.counts), shown.after) == (0, 2, 0)
    minutes = await topic.throughput(span="1h")
    assert (sum(minute.added for minute in minutes), sum(minute.died for minute in minutes)) == (
        stats.added,
        stats.died,
    )


async def the_topic_is_ruled(topic: Any) -> None:
    assert (await topic.configure(ttr="2m")).ttr.total_seconds() == 120
    await topic.add("paused")
    assert await topic.pause("1h") is not None
    assert await topic.pop() is None
    await topic.resume()
    job = await topic.pop(wait=30)
    assert (job.body, job.ttr.total_seconds()) == ("paused", 120)
    await topic.bury_many([job])
    assert await topic.purge("dead") == 1
    assert await topic.delete_many(["七", "unknown"]) == ["delayed", None]
    assert (await topic.get_many(["七"])) == [None]
    assert (await topic.check()).ok
    assert await topic.purge() == 1


async def several_topics_are_one(adapter: Adapter, topic: Any) -> None:
    other = adapter.topic("other")
    await other.add("other")
    await topic.add("first")
    assert [(await adapter.pop("测试", "other")).body for _ in range(2)] == ["first", "other"]
    await topic.add_many(["a", "b"])
    await other.add("c")
    taken = [await adapter.pop_many("测试", "other", limit=9) for _ in range(3)]
    assert [[job.body for job in jobs] for jobs in taken] == [["a", "b"], ["c"], []]
    await topic.finish_many(taken[0])
    await other.finish_many(taken[1])
    assert await adapter.topics() == ["other", "测试"]
