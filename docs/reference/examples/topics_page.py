"""The examples of docs/reference/topics.md, a cell for each name. The tests run that page."""

# %% Client
from datetime import datetime, timedelta, timezone

import tarry

client = tarry.Client(namespace="shop", patience="10s")  # one for the process
orders = client.topic("orders")
orders.add({"order": 7}, id="7")
job = client.pop("orders", "parcels")  # of the first topic that has a job
assert job is not None and job.topic == "orders"
job.finish()

orders.add_many([{"order": 8}, {"order": 9}])
for job in client.pop_many("orders", "parcels", limit=10, wait="1s"):
    with job:
        print(job.body)

assert client.topics() == ["orders"]
assert client.workers() == []
assert client.set_worker_mode("web-1:4711", "quiet") is False  # no such worker is alive
assert client.schedules.list() == []

# %% Client.topic
from dataclasses import dataclass


@dataclass
class Payment:
    amount: int


payments = client.topic("payments", type=Payment, partitions=4)  # bodies are checked when they are read
payments.add(Payment(amount=420))

# %% Client.lock
with client.lock("stock", wait="5s") as grant:
    assert grant.token > 0

# %% Client.guarded_queue
client.guarded_queue("reminders").push({"order 7": "30m"})

# %% Client.delayed_queue
client.delayed_queue("mails", redisson="3.50.0").offer("order 7", "30m")

# %% Client.blocking_queue
assert client.blocking_queue("mails", redisson="3.50.0").poll() is None  # it is not due yet

# %% Client.map_cache
client.map_cache("prices", redisson="3.50.0").put("tea", "4.20", ttl="10m")

# %% Client.keep_moving
client.keep_moving("mails")  # until the client is closed

# %% Client.migrate
orders.add({"order": 10}, delay="1h", id="10")
with tarry.Client(namespace="archive") as other:
    moved = client.migrate("orders", other.topic("orders"))
assert moved.moved == 1

# %% Client.migrate_queue
moved = client.migrate_queue(client.delayed_queue("mails", redisson="3.50.0"), "mails")
assert moved.moved == 1

# %% Client.close
client.close()  # or `with tarry.Client() as client:`

# %% HTTPClient sh
# tarry serve --port 7117 > service.log 2>&1 &
# echo $! > service.pid
# until grep -iE 'service at|error' service.log; do sleep 0.2; done

# %% HTTPClient
with tarry.HTTPClient("http://localhost:7117") as remote:
    remote.topic("mails").add({"to": "ada"}, delay="5m", id="1")
    assert remote.lock("stock").state().held is False
    remote.guarded_queue("reminders").push({"order 7": "30m"})
    assert remote.map_cache("prices", redisson="3.50.0").stats().size == 1  # it reads maps
    assert remote.migrate("mails", remote.topic("letters"), dry_run=True).moved == 1
    queue = remote.delayed_queue("mails", redisson="3.50.0")
    assert remote.migrate_queue(queue, "letters", dry_run=True).moved == 0

# %% HTTPClient.keep_moving
try:
    tarry.HTTPClient("http://localhost:7117").keep_moving("mails")
except tarry.ServerUnfit as fault:
    print(fault)

# %% Topic
client = tarry.Client()
orders = client.topic("orders")
orders.add({"order": 7}, delay="30m", id="7")  # close it if it is not paid by then
orders.reschedule("7", delay=0)
job = orders.pop(wait="1s")
assert job is not None and job.body == {"order": 7}
orders.finish(job)

# %% Topic.add
tomorrow = datetime.now(timezone.utc) + timedelta(days=1)
orders.add({"order": 1}, at=tomorrow, id="1", priority=2, headers={"tenant": "7"})
assert orders.add({"order": 1}, id="1", if_exists="keep").is_new is False

# %% Topic.add_many
new = [tarry.NewJob({"order": n}, id=str(n)) for n in (2, 3, 4)]
assert [one.is_new for one in orders.add_many(new, delay="1h")] == [True, True, True]

# %% Topic.get
info = orders.get("2")
assert info is not None and info.state == "delayed"

# %% Topic.get_many
assert [one and one.state for one in orders.get_many(["2", "unknown"])] == ["delayed", None]

# %% Topic.list
page = orders.list("delayed", limit=2)
assert len(page) == 2 and page.cursor is not None
rest = orders.list("delayed", cursor=page.cursor)

# %% Topic.reschedule_many
assert orders.reschedule_many(["2", "3", "4"], delay=0) == ["delayed", "delayed", "delayed"]

# %% Topic.pop_many
taken = orders.pop_many(3, ttr="2m")
assert len(taken) == 3

# %% Topic.touch
orders.touch(taken[0], ttr="5m")  # the reservation ends five minutes from now

# %% Topic.touch_many
orders.touch_many(taken)

# %% Topic.release
orders.release(taken[0], delay=0, counted=False)

# %% Topic.release_many
orders.release_many(taken[1:], delay=0, reason="the printer is out of paper")

# %% Topic.bury
job = orders.pop()
assert job is not None
orders.bury(job, reason="no such customer")

# %% Topic.bury_many
orders.bury_many(orders.pop_many(2), reason="no such customer")

# %% Topic.dead_groups
(group,) = orders.dead_groups()
assert group.count == 3

# %% Topic.kick
dead = [one.id for one in orders.list("dead")]
assert orders.kick(dead[0]) == "dead"  # the state that it was in

# %% Topic.kick_many
assert orders.kick_many(dead[1:]) == ["dead", "dead"]

# %% Topic.finish_many
orders.finish_many(orders.pop_many(3))

# %% Topic.delete
assert orders.delete("1") == "delayed"
assert orders.delete("1") is None

# %% Topic.delete_many
assert orders.delete_many(["2", "3"]) == [None, None]

# %% Topic.touch_holder
assert orders.touch_holder("web-1:4711", ttr="30s") == 0  # so many jobs that it holds

# %% Topic.release_holder
assert orders.release_holder("web-1:4711") == 0

# %% Topic.configure
settings = orders.configure(max_attempts=5, concurrency=100, keep_finished="1d")
assert settings.max_attempts == 5

# %% Topic.result
orders.add({"order": 5}, id="5")
job = orders.pop(wait="1s")
assert job is not None
job.finish(result={"paid": True})
assert orders.result("5", wait="1s") == {"paid": True}

# %% Topic.ends
with_ends = orders.ends(since=datetime.now(timezone.utc) - timedelta(minutes=1))
end = with_ends.next(wait="1s")
with_ends.close()

# %% Topic.stats
now = orders.stats()
assert (now.ready, now.reserved, now.dead) == (0, 0, 0)

# %% Topic.histogram
assert sum(orders.histogram(span="1h", buckets=12).counts) == 0

# %% Topic.throughput
assert sum(minute.finished for minute in orders.throughput(span="1h")) > 0

# %% Topic.pause
until = orders.pause("10m")

# %% Topic.resume
orders.resume()

# %% Topic.check
assert orders.check().ok

# %% Topic.busiest_keys
orders.add_many([{"order": 20}, {"order": 21}], key="customer-7", delay="1h")
assert [found.key for found in orders.busiest_keys(3)] == ["customer-7"]

# %% Topic.purge
assert orders.purge(key="customer-7") == 2
orders.add({"order": 6}, delay="1h")
assert orders.purge("delayed") == 1

# %% IfExists
exists: tarry.types.IfExists = "once"  # also if it has finished, as long as its end is kept
assert orders.add({"order": 5}, id="5", if_exists=exists).is_new is False

# %% NewJob
one = tarry.NewJob({"order": 11}, delay="10m", id="11", ttr="5m", max_attempts=3)
orders.add_many([one, {"order": 12}])

# %% Job
orders.add({"order": 13})
job = orders.pop()
assert job is not None
with job:  # finished at the end, released with a back-off if the block raises
    paid = job.step("charge", lambda: {"paid": True})  # its result is kept: a retry does not charge again
    job.touch(ttr="5m")

# %% Job.finish
orders.add({"order": 14})
job = orders.pop()
assert job is not None
job.finish(result="a small text or JSON")

# %% Job.release
orders.add({"order": 15})
job = orders.pop()
assert job is not None
job.release(delay="1m", reason="try later")

# %% Job.bury
orders.add({"order": 16})
job = orders.pop()
assert job is not None
job.bury(reason="no such customer")

# %% AsyncClient
import asyncio


async def main() -> None:
    async with tarry.AsyncClient() as client:
        await client.topic("letters").add("Dear Ada", delay="1h")
        assert "letters" in await client.topics()


asyncio.run(main())


# %% AsyncClient.close
async def without_a_block() -> None:
    client = tarry.AsyncClient()
    print(await client.topics())
    await client.close()


asyncio.run(without_a_block())


# %% AsyncHTTPClient
async def over_http() -> None:
    async with tarry.AsyncHTTPClient("http://localhost:7117") as client:
        await client.topic("letters").add("Dear Bob")


asyncio.run(over_http())


# %% AsyncHTTPClient.close
async def over_http_without_a_block() -> None:
    client = tarry.AsyncHTTPClient("http://localhost:7117")
    print(await client.topics())
    await client.close()


asyncio.run(over_http_without_a_block())


# %% AsyncTopic
async def add_many() -> None:
    async with tarry.AsyncClient() as client:
        parcels = client.topic("parcels")
        await asyncio.gather(*(parcels.add({"parcel": n}) for n in range(100)))  # in one script


asyncio.run(add_many())


# %% AsyncJob
async def consume() -> None:
    async with tarry.AsyncClient() as client:
        for job in await client.topic("parcels").pop_many(100):
            async with job:
                print(job.body)


asyncio.run(consume())

# %% AsyncJob sh
# kill $(cat service.pid)
