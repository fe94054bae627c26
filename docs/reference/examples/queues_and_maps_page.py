"""The examples of docs/reference/queues-and-maps.md, a cell for each name. The tests run that page."""

# %% DelayedQueue
import tarry
from tarry import redisson

client = tarry.Client(redisson="3.50.0")  # the version in the Java application
delayed: redisson.DelayedQueue[str] = client.delayed_queue("mails")
delayed.offer("order 7", "30m")
delayed.offer_many(["order 8", "order 9"], "1h")
assert delayed.size() == len(delayed) == 3 and "order 7" in delayed
assert delayed.contains("order 7") and delayed.contains_all(["order 8", "order 9"])
assert delayed.peek() == "order 7" and delayed.read_all() == [*delayed]
assert delayed.remove("order 7")
assert delayed.remove_all(["order 8", "order 1"])
assert delayed.retain_all(["order 1"])
assert delayed.clear() is False  # nothing was left
assert delayed.poison() == [] and delayed.stats().waiting == 0

# %% DelayedQueue.poll
delayed.offer("order 10", "30m")
assert delayed.poll() == "order 10"  # whenever it is due

# %% DelayedQueue.poll_many
assert delayed.poll_many(10) == []

# %% DelayedQueue.poll_last_and_offer_first_to
delayed.offer("order 11", "30m")
assert delayed.poll_last_and_offer_first_to("urgent") == "order 11"

# %% DelayedQueue.set_format
delayed.set_format("Bc0Lc0")  # Redisson from 3.21.1

# %% DelayedQueue.destroy
delayed.destroy()

# %% QueueStats
now = delayed.stats()
assert (now.waiting, now.ready, now.format) == (0, 0, "Bc0Lc0")

# %% BlockingQueue
mails: redisson.BlockingQueue[str] = client.blocking_queue("mails")
delayed.offer("order 12", 0)
assert mails.take() == "order 12"  # waits until there is one
mails.put("order 13")
assert mails.offer("order 14")
assert mails.size() == len(mails) == 2 and mails.contains("order 14") and mails.peek() == "order 13"
assert mails.poll(wait="1s") == "order 13"
assert mails.poll_many(10) == ["order 14"]
assert mails.stats().ready == 0 and mails.poison() == []

# %% BlockingQueue.poll_from_any
assert mails.poll_from_any("urgent", wait="1s") == "order 11"

# %% BlockingQueue.poll_from_any_with_name
mails.put("order 15")
assert mails.poll_from_any_with_name("urgent") == ("mails", "order 15")

# %% BlockingQueue.drain_to
mails.put("order 16")
taken: list[str] = []
assert mails.drain_to(taken, 100) == 1

# %% BlockingQueue.subscribe
from threading import Event

done = Event()
subscription = mails.subscribe(lambda mail: done.set())
mails.put("order 17")
assert done.wait(30)

# %% Subscription
subscription.stop()  # or `with mails.subscribe(handler):`

# %% PoisonElement
with mails.subscribe(lambda mail: 1 / 0):  # a handler that fails
    mails.put("order 18")
    while not mails.poison():
        done.wait(0.01)
(element,) = mails.poison()
assert isinstance(element, redisson.PoisonElement)
print(element.raw, element.reason)

# %% Opaque
unread = redisson.Opaque(element.raw)  # bytes that another codec wrote: given back as they are
mails.put(unread)  # type: ignore[arg-type]

# %% MapCache
prices: redisson.MapCache[str, str] = client.map_cache("prices", codec="string")
assert prices.put("tea", "4.20", ttl="10m", max_idle="5m") is None
assert prices.get("tea") == "4.20" and prices.contains_key("tea") and prices.contains_value("4.20")
assert prices.replace("tea", "4.20", "4.50") is True
assert prices.put_if_absent("tea", "5.00") == "4.50"
prices.put_all({"milk": "1.10", "water": "0.20"})
assert prices.get_all(["milk", "beer"]) == {"milk": "1.10"}
assert prices.remove("milk") == "1.10"
assert prices.size() == 2 and prices.stats().expired == 0

# %% MapCache.fast_put
assert prices.fast_put("coffee", "3.80", ttl="1h") is True  # it is new

# %% MapCache.fast_put_if_absent
assert prices.fast_put_if_absent("coffee", "3.90") is False

# %% MapCache.fast_remove
assert prices.fast_remove("coffee", "beer") == 1

# %% MapCache.get_with_ttl_only
assert prices.get_with_ttl_only("tea") == "4.50"

# %% MapCache.remaining_ttl
left = prices.remaining_ttl("tea")
assert left is not None and left.total_seconds() <= 300  # the shorter of its two times

# %% MapCache.expire_entry
assert prices.expire_entry("tea", ttl="1h")

# %% MapCache.expire_entries
assert prices.expire_entries(["tea", "beer"], ttl="1h") == 1

# %% MapCache.expire
assert prices.expire("1d")

# %% MapCache.clear_expire
assert prices.clear_expire()

# %% MapCache.set_max_size
prices.set_max_size(1000, mode="LFU")

# %% MapCache.try_set_max_size
assert prices.try_set_max_size(2000) is False  # it has one

# %% MapCache.evict
assert prices.evict() == 0  # nothing has expired

# %% MapCache.add_and_get
visits: redisson.MapCache[str, int] = client.map_cache("visits", codec="long", key_codec="string")
assert visits.add_and_get("ada", 2) == 2

# %% MapCache.compute_if_absent
assert prices.compute_if_absent("juice", lambda key: "2.90", ttl="10m") == "2.90"  # one process loads

# %% MapCache.listen
seen: list[redisson.MapEvent[str, str]] = []
created = Event()


def handle(event: redisson.MapEvent[str, str]) -> None:
    seen.append(event)
    created.set()


listener = prices.listen(handle, "created")
prices.put("wine", "9.00")
assert created.wait(30)

# %% MapCache.as_dict
entries = prices.as_dict()
entries["bread"] = "2.00"

# %% MapCache.clear
assert prices.clear()

# %% MapCache.close
prices.close()

# %% MapEvent
event = seen[0]
assert (event.kind, event.key, event.value) == ("created", "wine", "9.00")

# %% MapListener
listener.stop()  # or `with prices.listen(handler):`

# %% MapStats
prices.put_all({"tea": "4.20", "milk": "1.10"})
stats = prices.stats()
assert (stats.size, stats.max_size, stats.mode) == (2, 1000, "LFU")

# %% MapDict
entries["bread"] = "2.00"
assert entries["bread"] == "2.00" and "bread" in entries and len(entries) == 3
assert entries.get("beer", "none") == "none" and entries.setdefault("bread", "1.00") == "2.00"
entries.update({"beer": "3.00"})
assert sorted(entries.keys()) == sorted(key for key, _ in entries.items())
assert "3.00" in entries.values()
assert entries.pop("beer") == "3.00"
key, value = entries.popitem()
entries.clear()

# %% AdaptivePolicy
policy = redisson.AdaptivePolicy(minimum="5s", maximum="10m", amount=300)
with client.map_cache("sessions", codec="string", policy=policy) as sessions:
    sessions.put("ada", "1", ttl="30m")
client.close()

# %% AsyncDelayedQueue
import asyncio


async def offer() -> None:
    async with tarry.AsyncClient(redisson="3.50.0") as client:
        queue: redisson.AsyncDelayedQueue[str] = client.delayed_queue("mails")
        await queue.offer("order 19", 0)


asyncio.run(offer())


# %% AsyncBlockingQueue
async def take() -> None:
    async with tarry.AsyncClient(redisson="3.50.0") as client:
        queue: redisson.AsyncBlockingQueue[str] = client.blocking_queue("mails")
        await queue.put("order 20")
        print(await queue.take())


asyncio.run(take())


# %% AsyncSubscription
async def subscribe() -> None:
    async with tarry.AsyncClient(redisson="3.50.0") as client:
        done = asyncio.Event()

        async def handle(mail: str) -> None:
            done.set()

        async with client.blocking_queue("letters").subscribe(handle) as subscription:
            assert isinstance(subscription, redisson.AsyncSubscription)
            await client.blocking_queue("letters").put("Dear Ada")
            await done.wait()


asyncio.run(subscribe())


# %% AsyncMapCache
async def put() -> None:
    async with tarry.AsyncClient() as client:
        cache: redisson.AsyncMapCache[str, str] = client.map_cache("prices", codec="string")
        await cache.put("tea", "4.20", ttl="10m")
        assert await cache.get("tea") == "4.20"


asyncio.run(put())


# %% AsyncMapDict
async def walk() -> None:
    async with tarry.AsyncClient() as client:
        entries: redisson.AsyncMapDict[str, str] = client.map_cache("prices", codec="string").as_dict()
        await entries.update({"milk": "1.10"})
        assert [price async for price in entries.values()]
        async for product in entries:
            print(product, await entries.get(product))


asyncio.run(walk())


# %% AsyncMapListener
async def listen() -> None:
    async with tarry.AsyncClient() as client:
        cache = client.map_cache("prices", codec="string")
        removed = asyncio.Event()
        listener = await cache.listen(lambda event: removed.set(), "removed")
        async with listener:
            await cache.remove("tea")
            await removed.wait()


asyncio.run(listen())
