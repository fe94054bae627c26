# pyright: strict, reportUnknownMemberType=true, reportUnknownVariableType=true, reportUnknownArgumentType=true
"""What type checkers must know about workers and tasks. Checked by mypy and basedpyright, never run."""

from __future__ import annotations

from typing import Any, assert_type

import msgspec

import tarry
import tarry.otel


class Order(msgspec.Struct):
    number: int


worker = tarry.Worker("shop", ttr="10s", concurrency=100, warn_blocked_after="2s", unknown_tasks_die_after=None)
registry = tarry.Registry()
worker.include(registry)


@worker.on(
    "orders",
    concurrency=50,
    weight=3,
    key_concurrency=1,
    key_rate="5/s",
    fair=True,
    timeout="1m",
    retry={OSError: "5m", ValueError: None},
)
async def close(job: tarry.AsyncJob[Order]) -> None:
    assert_type(job.body, Order)
    assert_type(job.lost, bool)
    raise tarry.Retry(after="5m")


@registry.on("parcels", retry="2s")
def pack(body: Order) -> None: ...


@registry.task(retry=5, run="thread")
def weigh(number: int) -> None: ...


@registry.task(retry=ConnectionError)
def ask(number: int) -> None: ...


@registry.task(retry=(ConnectionError, TimeoutError))
def ask_again(number: int) -> None: ...


@registry.on("letters", retry=tarry.BackOff("1s", factor=3))
def send(body: Order) -> int:
    raise tarry.Snooze("1h")


@registry.task(run=None)
async def remind(user: int, text: str = "") -> bool:
    return bool(text) and user > 0


@registry.task(name="sum", topic="numbers", max_attempts=3)
def add_up(numbers: list[int], *, twice: bool = False) -> int:
    return sum(numbers) * (1 + twice)


@worker.cron("0 9 * * *", args={"number": 7})
@worker.every("5m", args={"number": 8}, id="eight")
@worker.task
async def rank(number: int) -> Order:
    return Order(number)


@worker.every("5m")
def sweep() -> list[int]:
    return []


@worker.stamp
def tenant() -> dict[str, str]:
    return tarry.otel.headers({"tenant": "7"})


tarry.otel.instrument(worker)
tarry.otel.instrument(registry)


async def well() -> None:
    assert_type(await close(tarry.AsyncJob.__new__(tarry.AsyncJob[Order])), None)
    assert_type(send(Order(7)), int)
    assert_type(remind.add(7), tarry.TaskJob[bool])
    added: tarry.Added = remind.add(7)
    assert_type(added.id, str)
    assert_type(remind.add(7).topic, str)
    assert_type(remind.add(7).cancel(), tarry.types.State | None)
    assert_type(remind.add(7).reschedule(delay="1h"), tarry.types.State | None)
    assert_type(remind.add(7).get(), tarry.JobInfo[Any] | None)
    assert_type(remind.cancel("u7"), tarry.types.State | None)
    assert_type(remind.cancel("u7", running=True), tarry.types.State | None)
    assert_type(remind.add(7).cancel(running=True), tarry.types.State | None)
    assert_type(await remind.cancel_async("u7", running=True), tarry.types.State | None)
    assert_type(await remind.cancel_async("u7"), tarry.types.State | None)
    assert_type(remind.reschedule("u7", delay=0), tarry.types.State | None)
    assert_type(await remind.get_async("u7"), tarry.JobInfo[Any] | None)
    assert_type(await (await remind.add_async(7)).cancel(), tarry.types.State | None)
    assert_type(await remind.add_async(7, "hi"), tarry.AsyncTaskJob[bool])
    assert_type(remind.options(delay="1h", id="u7").add(7, text="hi"), tarry.TaskJob[bool])
    assert_type(await remind.options(if_exists="keep").add_async(7), tarry.AsyncTaskJob[bool])
    assert_type(await remind(7), bool)
    assert_type(add_up([1, 2], twice=True), int)
    assert_type(add_up.add([1, 2], twice=True), tarry.TaskJob[int])
    assert_type(add_up.new_job([1]), tarry.NewJob[Any])
    assert_type(remind.result("u7"), bool)
    assert_type(await remind.result_async("u7", wait="1s"), bool)
    assert_type(remind.add(7).result(), bool)
    assert_type(await (await remind.add_async(7)).result(), bool)
    assert_type(add_up.add([1]).result(wait=None), int)
    assert_type(add_up.options(delay="1h").add([1]).result(), int)
    assert_type(await add_up.result_async("7"), int)
    assert_type(rank.add(7).result(), Order)
    assert_type(await rank(7), Order)
    assert_type(sweep.add().result(), list[int])
    assert_type(sweep(), list[int])
    assert_type(worker.client, tarry.Client)
    assert_type(worker.async_client, tarry.AsyncClient)
    assert_type(await worker.run(), int)
    async with worker as same:
        assert_type(same, tarry.Worker)


async def refused() -> None:
    """Each of these is a mistake that a type checker finds."""
    remind.add("7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    remind.add()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    remind.add(7, delay="1h")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    remind.options(delay="1h").add(7, txt="hi")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    remind.delay(7)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    remind.apply_async((7,))  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    remind.options(countdown=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    remind.options(eta=None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    _ = worker.blocking  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    tarry.Worker(blocked="1s")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    tarry.Worker(bury_unknown="1d")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    worker.using("redis://localhost", beside=False)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    worker.on("pictures", run="loop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    worker.on("codes", on_stale=print)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    worker.task(queue="mails")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    worker.on("mails", queue="mails")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    worker.every("5m", countdown=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    tarry.Queue("mails")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    remind.options(if_exists="overwrite")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await add_up.add_async([1], True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    tarry.otel.instrument(remind)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    _number: int = remind.add(7).result()
    _number = add_up.add([1]).result() + "x"  # type: ignore[operator]  # pyright: ignore[reportOperatorIssue, reportUnknownVariableType]
    add_up.add(["x"])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
