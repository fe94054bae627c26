"""The examples of docs/reference/workers.md, a cell for each name. The tests run that page."""

# %% Worker
import asyncio

import tarry

worker = tarry.Worker("shop", grace="20s")


@worker.task
async def remind(order: int) -> str:
    return f"order {order} is not paid"


@worker.on("payments", concurrency=10)
def pay(payment: dict[str, int]) -> None:  # a plain function runs in a thread
    print("paid", payment["amount"])


worker.client.topic("payments").add({"amount": 420})
remind.add(7)
asyncio.run(worker.run_until_idle())  # in production `tarry worker shop:worker`, which calls `run`


# %% Worker.run
async def serve_for_a_moment() -> int:
    asyncio.get_running_loop().call_later(0.1, worker.stop)
    return await worker.run(signals=False)


assert asyncio.run(serve_for_a_moment()) == 0  # no running job had to be released


# %% Worker.stop
async def beside_an_application() -> None:
    async with worker:
        await remind.add_async(8)
        worker.stop()  # leaving the block does it, too
    await worker.close()  # before the loop ends


asyncio.run(beside_an_application())

# %% Worker.using
with tarry.Client(namespace="test") as client, worker.using(client, start=False):
    remind.add(9)
    asyncio.run(worker.run_until_idle())

# %% Worker.keep_moving
worker.keep_moving("mails")  # a queue whose consumers are in Java

# %% Worker.close
asyncio.run(worker.close())

# %% Registry
registry = tarry.Registry()  # in a module of its own


@registry.task(keep_finished="1d", max_attempts=3, retry=tarry.BackOff(first="5s"))
async def close_order(order: int) -> bool:
    return order == 7


@registry.on("letters", batch=100, linger="50ms")
async def send(letters: list[str]) -> None:
    print("sending", len(letters))


worker = tarry.Worker("orders")
worker.include(registry)

# %% Registry.around
from collections.abc import Awaitable, Callable
from typing import Any


@registry.around
async def timed(job: tarry.types.BaseJob[Any], handle: Callable[[tarry.types.BaseJob[Any]], Awaitable[Any]]) -> Any:
    try:
        return await handle(job)
    except tarry.JobDied as death:
        print("dead:", death.error)
        raise


# %% Registry.stamp
@registry.stamp
def tenant() -> dict[str, str]:
    return {"tenant": "7"}  # a header of each job that a task of this registry adds


# %% Registry.every
@registry.every("5m")
async def ping() -> None: ...


# %% Registry.cron
@registry.cron("0 9 * * 1-5", tz="Europe/Berlin", args={"kind": "sales"})
async def report(kind: str) -> None: ...


# %% Registry.on_queue
@registry.on_queue("mails", redisson="3.50.0")
async def mail(address: str) -> None: ...


# %% Task
assert close_order.name == "close_order" and close_order.topic_name == "orders"
added = close_order.add(7)
assert close_order.get(added.id) is not None
assert close_order.reschedule(added.id, delay="1h") == "ready"
assert close_order.cancel(added.id) == "delayed"
assert asyncio.run(close_order(7)) is True  # calls the function, here and now

# %% Task.options
close_order.options(delay="30m", id="close-7", priority=1).add(7)

# %% Task.new_job
worker.client.topic("orders").add_many([close_order.new_job(order) for order in (8, 9)])

# %% Task.body
worker.client.topic("orders").add(close_order.body(10))  # what a program without this task would add

# %% Task.result
added = close_order.add(11)
asyncio.run(worker.run_until_idle())
assert close_order.result(added.id) is False

# %% Task.add_async
loop = asyncio.Runner()  # your program has one loop
later = loop.run(close_order.add_async(12))

# %% Task.get_async
assert loop.run(close_order.get_async(later.id)) is not None

# %% Task.reschedule_async
assert loop.run(close_order.reschedule_async(later.id, delay="1h")) == "ready"

# %% Task.cancel_async
assert loop.run(close_order.cancel_async(later.id)) == "delayed"

# %% Task.result_async
later = loop.run(close_order.add_async(7))
loop.run(worker.run_until_idle())
assert loop.run(close_order.result_async(later.id)) is True
loop.run(worker.close())  # its connections are of this loop
loop.close()

# %% TaskJob
added = close_order.options(delay="30m").add(7)
assert added.get() is not None and added.topic == "orders"
assert added.reschedule(delay=0) == "delayed"
asyncio.run(worker.run_until_idle())
assert added.result(wait="5s") is True
assert added.cancel() is None  # it has finished


# %% AsyncTaskJob
async def add_and_wait() -> None:
    added = await close_order.add_async(7)
    await worker.run_until_idle()
    assert await added.result(wait="5s") is True
    await worker.close()


asyncio.run(add_and_wait())


# %% current_job
@registry.task
def audit(order: int) -> None:
    job = tarry.current_job()
    print(order, "is looked at in attempt", job.attempt, "of", job.id)


audit.add(7)
asyncio.run(worker.run_until_idle())

# %% BackOff
slow = tarry.BackOff(first="2s", factor=3, longest="10m", jitter=0.1)  # 2 s, 6 s, 18 s, … ± 10 %


@registry.task(retry={ConnectionError: slow, ValueError: None})  # None: dead at once
def charge(order: int) -> None: ...


# %% Retry
@registry.task
def wait_for_the_bank(order: int) -> None:
    raise tarry.Retry("the bank is closed", after="5m")  # counts as an attempt


# %% Snooze
@registry.task
def when_it_is_quiet(order: int) -> None:
    raise tarry.Snooze("1h", "too busy")  # does not count


# %% Pause
@registry.on("provider")
def call_provider(body: Any) -> None:
    raise tarry.Pause("30s", "the provider said 429")  # the whole topic waits


# %% Bury
@registry.task
def close_unknown(order: int) -> None:
    raise tarry.Bury("no such order")  # no attempt is left: dead


# %% Failed
@registry.on("imports", batch=10)
async def insert(jobs: list[tarry.AsyncJob[Any]]) -> None:
    raise tarry.Failed({job: ValueError("no order") for job in jobs if "order" not in job.body})


# %% JobDied
@registry.around
async def tell(job: tarry.types.BaseJob[Any], handle: Callable[[tarry.types.BaseJob[Any]], Awaitable[Any]]) -> Any:
    try:
        return await handle(job)
    except tarry.JobDied as death:
        print(job.id, "is dead:", death, death.error)
        raise


# These run as they say:
for task in (wait_for_the_bank, when_it_is_quiet, close_unknown):
    task.add(7)
worker.client.topic("imports").add_many([{"order": 1}, {"customer": 2}])
worker.client.topic("provider").add("a call")
asyncio.run(worker.run_until_idle())
assert worker.client.topic("orders").stats().dead == 1


# %% WorkerInfo
async def look() -> list[tarry.types.WorkerInfo]:
    async with worker:
        while not (found := await worker.async_client.workers()):
            await asyncio.sleep(0.01)  # until its first report
    await worker.close()
    return found


(info,) = asyncio.run(look())
print(info.name, "has", info.free, "free slots, and takes jobs:", info.takes_jobs)

# %% WorkerTopic
for topic in info.topics:
    print(topic.name, topic.handlers, topic.busy, "of", topic.slots, topic.max_attempts_of("close_order"))

# %% HeldJob
for job in info.jobs:  # the ten that it has had for longest
    print(job.topic, job.id, job.attempt, job.taken, job.overrun)

# %% WorkerMode
mode: tarry.types.WorkerMode = "quiet"
assert worker.client.set_worker_mode(info.name, mode) is False  # it has ended
asyncio.run(worker.close())
