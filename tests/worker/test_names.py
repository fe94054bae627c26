"""An application has a name, and its tasks a topic of that name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import tarry


def shop(url: str, namespace: str, seen: list[Any], name: str = "shop", **options: Any) -> Any:
    worker = tarry.Worker(name, url=url, namespace=namespace, **options)
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


UNNAMED = r'^task: give the worker the application\'s name: tarry\.Worker\("shop"\)\.$'


def test_a_worker_without_a_name_consumes_topics_and_has_no_tasks(
    valkey_url: str, namespace: str, client: tarry.Client
) -> None:
    worker, seen = tarry.Worker(url=valkey_url, namespace=namespace), list[int]()

    @worker.on("orders")
    async def close(body: int) -> None:
        seen.append(body)

    async def charge(n: int) -> None: ...

    for decorator in (worker.task, worker.every("1h"), worker.cron("0 9 * * *")):
        refuse: Any = decorator
        with pytest.raises(tarry.BadInput, match=UNNAMED):
            refuse(charge)
    with pytest.raises(tarry.BadInput, match=UNNAMED):
        worker.task(topic="mails")
    client.topic("orders").add(7)
    asyncio.run(worker.run_until_idle())
    asyncio.run(worker.close())
    assert (seen, client.topics()) == ([7], ["orders"])


def test_it_includes_no_registry_with_tasks_and_stays_as_it_was(valkey_url: str) -> None:
    worker, part, inner = tarry.Worker(url=valkey_url), tarry.Registry(), tarry.Registry()

    @part.task
    async def charge(n: int) -> None: ...

    with pytest.raises(tarry.BadInput, match=UNNAMED):
        worker.include(part)
    assert worker.registered.routes() == []
    worker.include(inner)
    with pytest.raises(tarry.BadInput, match=UNNAMED):
        inner.task(name="ship")
    named = tarry.Worker("shop", url=valkey_url)
    named.include(part)
    assert charge.topic_name == "shop"


def test_a_task_of_a_registry_has_no_topic_before_a_worker_includes_it() -> None:
    part = tarry.Registry()

    @part.task
    async def charge(n: int) -> None: ...

    told = r"^task: its registry belongs to no worker; import the module whose worker includes it"
    for use in (lambda: charge.topic_name, lambda: charge.add(7), lambda: charge.cancel("7")):
        with pytest.raises(tarry.BadInput, match=told):
            use()


def test_tasks_meet_others_of_their_name_when_a_worker_gives_them_its_topic(valkey_url: str) -> None:
    """A registry does not know yet that its tasks will share a topic."""

    async def charge(n: int) -> None: ...

    for own, others in ((None, "shop"), ("shop", None), (None, None)):
        worker, part = tarry.Worker("shop", url=valkey_url), tarry.Registry()
        worker.task(topic=own)(charge)
        part.task(topic=others)(charge)
        with pytest.raises(tarry.BadInput, match=r"there already is a handler for \[\('shop', 'charge'\)\]"):
            worker.include(part)
    worker, part = tarry.Worker("shop", url=valkey_url), tarry.Registry()
    part.task(charge)
    part.task(topic="shop")(charge)
    with pytest.raises(tarry.BadInput, match="there already is a handler for"):
        worker.include(part)
    worker, part = tarry.Worker("shop", url=valkey_url), tarry.Registry()
    part.task(charge)
    part.on("shop")(charge)
    with pytest.raises(tarry.BadInput, match=r"there already is a handler for \['shop'\]"):
        worker.include(part)
    assert worker.registered.routes() == []


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


def test_its_schedules_are_in_its_topic(valkey_url: str, namespace: str, client: tarry.Client) -> None:
    worker = tarry.Worker("shop", url=valkey_url, namespace=namespace)

    @worker.every("1h")
    async def tidy() -> None: ...

    asyncio.run(worker.run_until_idle())
    asyncio.run(worker.close())
    assert client.topics() == ["shop"]
    assert [one.id for one in client.schedules.list("shop")] == ["tidy"]


def test_a_name_that_a_handler_has_is_refused(valkey_url: str) -> None:
    worker = tarry.Worker("shop", url=valkey_url)

    @worker.on("shop")
    async def handle(job: Any) -> None: ...

    async def charge(n: int) -> None: ...

    with pytest.raises(tarry.BadInput, match="the topic 'shop' has a handler"):
        worker.task(charge)
    with pytest.raises(tarry.BadInput, match="name"):
        tarry.Worker("", url=valkey_url)
