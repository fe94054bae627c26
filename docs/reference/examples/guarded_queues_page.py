"""The examples of docs/reference/guarded-queues.md, a cell for each name. The tests run that page."""

# %% GuardedQueue
import tarry

client = tarry.Client()
reminders = client.guarded_queue("reminders")
reminders.push([("order 7", 0), ("order 8", "30m")])  # or {value: delay}
item = reminders.poll(wait="1s")
assert item is not None and item.value == "order 7"
assert reminders.poll_many(10) == []  # the other one is not due yet
assert reminders.size() == len(reminders) == 1
assert reminders.stats().overdue == 0
assert reminders.clear()

# %% GuardedItem
reminders.push([("order 9", 0)])
for item in reminders.poll_many(10):
    print(item.value, item.due, item.lateness)

# %% GuardedStats
now = reminders.stats()
assert now.size == 0 and now.next_due is None

# %% Guard
guard: tarry.types.Guard = client.lock("reminders")  # anything with such an `acquire`; for servers without scripts
grant = guard.acquire(wait=0)
assert grant is not None
grant.release()
print(client.guarded_queue("reminders", guard=guard).stats())
client.close()

# %% AsyncGuardedQueue
import asyncio


async def main() -> None:
    async with tarry.AsyncClient() as client:
        reminders = client.guarded_queue("reminders")
        await reminders.push({"order 7": 0})
        print(await reminders.poll(wait="1s"))


asyncio.run(main())


# %% AsyncGuard
async def under_a_lock() -> None:
    async with tarry.AsyncClient() as client:
        guard: tarry.types.AsyncGuard = client.lock("reminders")
        print(await client.guarded_queue("reminders", guard=guard).stats())


asyncio.run(under_a_lock())
