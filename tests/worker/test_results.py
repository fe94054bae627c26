"""What a handler returns is the result of its job, where the topic or the handler keeps finished jobs."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

import tarry
from tarry.worker import settler as settler_module


class Receipt(msgspec.Struct):
    order: int
    paid: bool = True


def made(url: str, namespace: str, *registries: tarry.Registry) -> tarry.Worker:
    worker = tarry.Worker("shop", url=url, namespace=namespace)
    worker.include(*registries)
    return worker


def test_a_task_returns_a_result(client: tarry.Client, valkey_url: str, namespace: str) -> None:
    tasks, seen = tarry.Registry(), list[Any]()

    @tasks.task(keep_finished="1h")
    async def pay(order: int) -> Receipt:
        return Receipt(order)

    @tasks.task(keep_finished="1h")
    def add_up(numbers: list[int]) -> int:
        return sum(numbers)

    @tasks.task(keep_finished="1h")
    async def nothing() -> None: ...

    @tasks.task
    def forget() -> int:
        return 1

    @tasks.task(topic="checks")
    async def check() -> None:
        seen.append(await pay.result_async(paid.id, wait=30))
        seen.append(await asyncio.to_thread(add_up.result, summed.id, wait=30))
        seen.append(await asyncio.to_thread(paid.result, wait=30))
        seen.append(await nothing.result_async(done.id, wait=30))

    worker = made(valkey_url, namespace, tasks)
    paid, summed, done, forgotten = pay.add(7), add_up.add([1, 2, 3]), nothing.add(), forget.add()
    with pytest.raises(tarry.NoResult) as refused:
        pay.result(paid.id)
    assert refused.value.reason == "unfinished"
    check.add()
    asyncio.run(worker.run_until_idle())
    assert seen == [Receipt(7), 6, Receipt(7), None], "as the functions are annotated"
    topic = client.topic("shop")
    assert (topic.stats().finished, topic.stats().finished_kept) == (4, 3)
    with pytest.raises(tarry.NoResult) as refused:
        topic.result(forgotten.id)
    assert refused.value.reason == "unknown"


def test_the_topic_decides_for_handlers_without_an_own_keep(
    client: tarry.Client, valkey_url: str, namespace: str
) -> None:
    client.topic("orders").configure(keep_finished="1h")
    worker = tarry.Worker("shop", url=valkey_url, namespace=namespace)

    @worker.on("orders")
    async def handle(body: dict[str, Any]) -> Any:
        return object() if body["strange"] else {"order": 7}

    @worker.on("mails")
    def mail(body: dict[str, Any]) -> str:
        return "sent"

    topic, mails = client.topic("orders"), client.topic("mails")
    topic.add_many([tarry.NewJob({"strange": False}, id="good"), tarry.NewJob({"strange": True}, id="strange")])
    mails.add({}, id="m")
    asyncio.run(worker.run_until_idle())
    assert topic.result("good") == {"order": 7}
    assert "cannot be encoded" in topic.get("strange").result_not_kept  # type: ignore[union-attr]
    assert topic.stats().finished == 2, "a result that cannot be kept does not make the job run again"
    assert mails.get("m") is None


@pytest.mark.parametrize("keep", [0, "0s", timedelta()])
def test_a_handler_keeps_none_in_a_topic_that_keeps_its_finished_jobs(
    client: tarry.Client, valkey_url: str, namespace: str, keep: Any
) -> None:
    topic, mails = client.topic("shop"), client.topic("mails")
    topic.configure(keep_finished="1h")
    mails.configure(keep_finished="1h")
    worker = tarry.Worker("shop", url=valkey_url, namespace=namespace)

    @worker.task(keep_finished=keep)
    async def forget(order: int) -> int:
        return order

    @worker.task(keep_finished=keep)
    async def nothing() -> None: ...

    @worker.task
    async def keeps() -> int:
        return 7

    @worker.on("mails", keep_finished=keep)
    def mail(body: Any) -> str:
        return "sent"

    gone, empty, kept = forget.add(7), nothing.add(), keeps.add()
    mails.add({}, id="m")
    asyncio.run(worker.run_until_idle())
    assert (topic.get(gone.id), topic.get(empty.id), mails.get("m")) == (None, None, None)
    assert (topic.result(kept.id), topic.stats().finished_kept, topic.stats().finished) == (7, 1, 3)


@pytest.mark.parametrize("keep", ["10ms", 0.5, -1])
def test_a_keep_that_is_too_short_is_refused(keep: Any) -> None:
    with pytest.raises(tarry.BadInput, match=r"^keep_finished: "):
        tarry.Registry().on("mails", keep_finished=keep)


def test_an_awaited_handle_returns_the_result_as_the_function_is_annotated(valkey_url: str, namespace: str) -> None:
    tasks = tarry.Registry()

    @tasks.task(keep_finished="1h")
    def pay(order: int) -> Receipt:
        return Receipt(order)

    async def story() -> Receipt:
        async with made(valkey_url, namespace, tasks):
            job = await pay.options(delay="1ms").add_async(8)
            return await job.result(wait=30)

    assert asyncio.run(story()) == Receipt(8)


def test_a_worker_encodes_no_result_that_is_not_kept(
    client: tarry.Client, valkey_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[Any] = []
    monkeypatch.setattr(settler_module, "encode_result", lambda result, keep: encoded.append(result) or b"")
    worker = tarry.Worker("shop", url=valkey_url, namespace=namespace)

    @worker.on("orders")
    async def handle(body: Any) -> int:
        return 7

    client.topic("orders").add(1)
    asyncio.run(worker.run_until_idle())
    assert client.topic("orders").stats().finished == 1
    assert encoded == []


def test_a_job_that_failed_first_has_the_result_of_its_last_attempt(
    client: tarry.Client, valkey_url: str, namespace: str
) -> None:
    worker = tarry.Worker("shop", url=valkey_url, namespace=namespace)

    @worker.on("orders", keep_finished="1h", retry="1ms")
    def handle(job: tarry.Job[Any]) -> int:
        if job.attempt == 1:
            raise ValueError("not yet")
        return job.attempt

    topic = client.topic("orders")
    topic.add(1, id="7")
    asyncio.run(worker.run_until_idle())
    if topic.get("7").state != "finished":  # type: ignore[union-attr]
        asyncio.run(worker.run_until_idle())
    job = topic.get("7")
    assert job is not None
    assert (job.result, job.attempts) == (2, 2)
    assert "not yet" in job.failed_attempts[0].error
