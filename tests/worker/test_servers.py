"""A worker on other servers than the embedded one: of Redis, and a Cluster whose topics lie in different slots."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import tarry
from until import LONGEST_S, until

pytestmark = pytest.mark.otherserver


def works(url: str, namespace: str) -> None:
    worker = tarry.Worker("shop", url=url, namespace=namespace, concurrency=9)
    seen: list[Any] = []

    async def story() -> None:
        over = asyncio.Event()

        def note(job: Any) -> None:
            seen.append(job.body)
            if len(seen) == 90:
                over.set()

        async def awaited(job: Any) -> None:
            note(job)

        for topic in ("a", "b", "c"):
            worker.on(topic)(awaited)

        @worker.task
        async def hello(name: str) -> None:
            seen.append(name)

        async with worker, tarry.AsyncClient(url, namespace=namespace) as client:
            await hello.add_async("ada")
            for number in range(30):
                for topic in ("a", "b", "c"):
                    await client.topic(topic).add(number, delay=0.001 * number)
            async with asyncio.timeout(LONGEST_S):
                await over.wait()
            await asyncio.to_thread(until, blocking.workers, "it is known")
            [known] = await client.workers()
            assert [topic.name for topic in known.topics] == ["a", "b", "c", "shop"]

    with tarry.Client(url, namespace=namespace) as blocking:
        asyncio.run(story())
    assert "ada" in seen
    with tarry.Client(url, namespace=namespace) as client:
        assert client.workers() == []
        for topic in ("a", "b", "c"):
            place = client.topic(topic)
            assert place.check().ok
            place.add_many(range(300))
            holder = place.pop_many(300)[0] and place.list("reserved").jobs[0].holder
            assert place.touch_holder(str(holder), ttr="10m") == 300
            assert place.release_holder(str(holder)) == 300
            assert place.check().ok


@pytest.mark.parametrize("url", ["redis6_url", "redis7_url", "redis8_url"])
def test_a_worker_works_on_redis(url: str, request: pytest.FixtureRequest, namespace: str) -> None:
    works(request.getfixturevalue(url), namespace)


def test_a_worker_works_on_a_cluster(cluster_nodes: list[tuple[str, int]], namespace: str) -> None:
    nodes = ",".join(f"{host}:{port}" for host, port in cluster_nodes)
    works(f"redis+cluster://{nodes}", namespace)
