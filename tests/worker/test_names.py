"""An application with a name has a topic of its own for its tasks, and drains the old one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import tarry


def shop(url: str, namespace: str, seen: list[Any], name: str | None = "shop", **options: Any) -> Any:
    worker = tarry.Worker(url, name=name, namespace=namespace, **options)
    part = tarry.Registry()

    @part.task
    async def charge(n: int) -> None:
        seen.append(n)

    @worker.task(topic="mails")
    async def send(n: int) -> None:
        seen.append(n)

    worker.include(part)
    return worker, charge, send


def test_its_tasks_use_a_topic_of_its_name(valkey_url: str, namespace: str, client: tarry.Client) -> None:
    seen: list[int] = []
    worker, charge, send = shop(valkey_url, namespace, seen)

    async def main() -> None:
        charge.add(1)
        await charge.add_async(2)
        send.add(3)
        assert sorted(client.topics()) == ["mails", "shop"]
        assert client.topic("shop").stats().ready == 2
        await worker.run_until_idle()
        await worker.close()

    asyncio.run(main())
    assert sorted(seen) == [1, 2, 3]


def test_without_a_name_all_is_as_it_was(valkey_url: str, namespace: str, client: tarry.Client) -> None:
    worker, charge, _ = shop(valkey_url, namespace, [], name=None)
    charge.add(1)
    assert client.topics() == ["tasks"]
    assert [route.topic for route in worker.routes()] == ["mails", "tasks"]
    asyncio.run(worker.close())


def test_it_drains_the_old_topic_for_the_tasks_that_it_knows(
    valkey_url: str, namespace: str, client: tarry.Client
) -> None:
    seen: list[int] = []
    old, charge_before, _ = shop(valkey_url, namespace, seen, name=None)
    charge_before.add(1)
    client.topic("tasks").add({"task": "ship"}, id="of another")
    client.topic("tasks").add({"task": "send", "args": {"n": 9}}, id="of another topic")
    worker, charge, _ = shop(valkey_url, namespace, seen)
    charge.add(2)
    asyncio.run(worker.run_until_idle())
    assert sorted(seen) == [1, 2]
    left = list(client.topic("tasks").list())
    assert sorted((job.id, job.attempts) for job in left) == [
        ("of another", 0),
        ("of another topic", 0),
    ]
    for one in (old, worker):
        asyncio.run(one.close())


def test_a_job_of_the_old_topic_can_be_cancelled_by_its_id(
    valkey_url: str, namespace: str, client: tarry.Client
) -> None:
    old, charge_before, _ = shop(valkey_url, namespace, [], name=None)
    worker, charge, _ = shop(valkey_url, namespace, [])
    for id in ("a", "b"):
        charge_before.options(id=id, delay="1h").add(1)
    info = charge.get("a")
    assert info is not None
    assert info.topic == "tasks"
    assert charge.reschedule("a", delay="2h") == charge.cancel("a") == "delayed"

    async def awaited() -> Any:
        try:
            return await charge.cancel_async("b"), await charge.get_async("b"), await charge.cancel_async("nobody")
        finally:
            await worker.close()

    assert asyncio.run(awaited()) == ("delayed", None, None)
    asyncio.run(old.close())


def test_two_named_applications_share_nothing(valkey_url: str, namespace: str, client: tarry.Client) -> None:
    first: list[int] = []
    second: list[int] = []
    one, charge, _ = shop(valkey_url, namespace, first)
    two, charge_too, _ = shop(valkey_url, namespace, second, name="market")
    charge.add(1)
    charge_too.add(2)
    for worker in (two, one):
        asyncio.run(worker.run_until_idle())
        asyncio.run(worker.close())
    assert (first, second) == ([1], [2])
    assert client.topic("shop").stats().released == client.topic("market").stats().released == 0


def test_its_schedules_are_in_its_topic_and_the_old_one_is_named_once(
    valkey_url: str, namespace: str, client: tarry.Client, caplog: pytest.LogCaptureFixture
) -> None:
    for name in (None, "shop"):
        worker = tarry.Worker(valkey_url, name=name, namespace=namespace)

        @worker.every("1h")
        async def tidy() -> None: ...

        asyncio.run(worker.run_until_idle())
        asyncio.run(worker.close())
    assert [one.id for one in client.schedules.list("shop")] == ["tidy"]
    assert caplog.text.count("tarry schedule delete tasks tidy") == 1


def test_a_name_that_a_handler_has_is_refused(valkey_url: str) -> None:
    worker = tarry.Worker(valkey_url, name="shop")

    @worker.on("shop")
    async def handle(job: Any) -> None: ...

    async def charge(n: int) -> None: ...

    with pytest.raises(tarry.BadInput, match="the topic 'shop' has a handler"):
        worker.task(charge)
    with pytest.raises(tarry.BadInput, match="name"):
        tarry.Worker(valkey_url, name="")


def test_by_id_the_jobs_of_other_applications_in_the_old_topic_are_left_alone(
    valkey_url: str, namespace: str, client: tarry.Client
) -> None:
    worker, charge, _ = shop(valkey_url, namespace, [])
    client.topic("tasks").add({"task": "ship"}, id="7", delay="1h")

    async def main() -> None:
        assert await charge.get_async("7") is None
        assert await charge.cancel_async("7") is None
        assert charge.cancel("7") is charge.reschedule("7", delay="2h") is None
        await worker.close()

    asyncio.run(main())
    assert client.topic("tasks").get("7") is not None
