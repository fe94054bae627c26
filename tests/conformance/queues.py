"""Stories of the objects that are shared with Java: queues, maps and locks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import tarry
from conformance.environment import Environment
from until import LONGEST_S


async def delayed_queues(world: Environment) -> None:
    client, name = world.client, world.name
    delayed, ready = client.delayed_queue(name, codec="string"), client.blocking_queue(name, codec="string")
    far = [f"far {number}" for number in range(6)]
    await delayed.offer_many(far, "1h")
    assert await delayed.walk() == await delayed.read_all() == far
    assert (await delayed.peek(), await delayed.size(), await delayed.contains("far 3")) == ("far 0", 6, True)
    assert await delayed.contains_all(far)
    assert await delayed.poll() == "far 0"
    assert await delayed.poll_many(1) == ["far 1"]
    await delayed.offer("far 1", "1h")
    assert await delayed.remove("far 1")
    assert await delayed.remove_all(["far 2", "none"])
    assert await delayed.retain_all(["far 4", "far 5"])
    other = f"{name} other:{{{name}}}"  # in the slot of the queue, as Redisson wants it, too
    assert await delayed.poll_last_and_offer_first_to(other) == "far 5"
    assert await client.blocking_queue(other, codec="string").take() == "far 5"
    due = await delayed.offer("near", "20ms")
    assert (await delayed.stats()).waiting == 2
    assert await ready.poll(wait=LONGEST_S) == "near"
    assert due is not None
    await blocking_queues(world, delayed, ready)
    assert await delayed.poison() == []
    assert await client.migrate_queue(delayed, "taken over", dry_run=True) is not None
    assert (await client.migrate_queue(delayed, "taken over")).moved == 1
    assert [job.body for job in await client.topic("taken over").list()] == ["far 4"]
    assert (await delayed.stats()).format == "Bc0Lc0"
    await delayed.set_format("Bc0Lc0")
    await delayed.offer("last", "1h")
    assert await delayed.clear()
    await delayed.destroy()
    assert (await delayed.size(), await ready.size()) == (0, 0)


async def blocking_queues(world: Environment, delayed: Any, ready: Any) -> None:
    await ready.put("a")
    assert await ready.offer("b")
    assert (await ready.peek(), await ready.size(), await ready.contains("b")) == ("a", 2, True)
    taken: list[str] = []
    assert (await ready.take(), await ready.drain_to(taken), taken) == ("a", 1, ["b"])
    assert await ready.poll_many(2) == []
    await ready.put("c")
    assert await ready.poll_many(2, wait=LONGEST_S) == ["c"]
    another = f"{world.name} more:{{{world.name}}}"
    await world.client.delayed_queue(another, codec="string").offer("there", "20ms")
    assert await ready.poll_from_any(another, wait=LONGEST_S) == "there"
    assert await ready.poll_from_any_with_name(another) is None
    heard: list[str] = []
    subscription = await ready.subscribe(world.function(heard.append))
    await delayed.offer_many(["c", "d"], "20ms")

    async def both() -> bool:
        return heard == ["c", "d"]

    await world.until(both)
    await subscription.stop()
    assert await ready.poison() == []
    assert (await ready.stats()).ready == 0


async def movers(world: Environment) -> None:
    """One client only moves, in several slots, and another one only waits."""
    client, other = world.client, world.another()
    names = [f"{world.name} {number}" for number in range(5)]
    await client.keep_moving(*names)
    for name in names:
        await other.delayed_queue(name, codec="string").offer(name, "50ms")
    for name in names:
        queue = other.blocking_queue(name, codec="string")

        async def moved(queue: Any = queue) -> bool:
            return bool(await queue.size())

        await world.until(moved)
        assert await queue.poll() == name
        assert (await queue.stats()).movers >= 1


async def map_caches(world: Environment) -> None:
    client = world.client
    cache = client.map_cache(world.name, codec="json")
    seen: list[tarry.redisson.MapEvent[Any, Any]] = []
    async with (await cache.listen(seen.append)).inside() as listener:
        assert await cache.put("tea", "green", ttl="1h", max_idle="1h") is None
        assert await cache.replace("tea", "black") == "green"
        assert await cache.expire_entry("tea", ttl="50ms")  # nothing is asked of it any more

        async def expired() -> bool:
            return [event.kind for event in seen] == ["created", "updated", "expired"]

        await world.until(expired)
        await listener.stop()
    assert await cache.fast_put("a", 1)
    assert await cache.put_if_absent("a", 2) == 1
    assert await cache.fast_put_if_absent("b", 2, ttl="1h", max_idle="1h")
    await cache.put_all({f"k{number}": number for number in range(300)}, ttl="1h")
    assert await cache.size() == 302
    assert await cache.add_and_get("n", 5) == 5
    assert (await cache.get("a"), await cache.get("none")) == (1, None)
    assert await cache.get_all(["a", "b", "none"]) == {"a": 1, "b": 2}
    assert await cache.get_with_ttl_only("b") == 2
    assert await cache.contains_key("b")
    assert await cache.contains_value(299)
    assert timedelta(minutes=59) < await cache.remaining_ttl("b") <= timedelta(hours=1)
    assert (await cache.stats()).size == 303
    assert await cache.remove("a") == 1
    assert await cache.fast_remove(*[f"k{number}" for number in range(300)], "none") == 300
    assert await cache.expire_entry("b", ttl="2h")
    assert await cache.expire_entries(["b", "n", "none"], ttl="3h") == 2
    assert await cache.compute_if_absent("load", world.function(lambda key: f"{key}ed")) == "loaded"
    assert sorted(await cache.as_dict().walk("keys")) == ["b", "load", "n"]
    assert len(await cache.as_dict().walk("values")) == 3
    assert dict(await cache.as_dict().walk("items")) == {"b": 2, "n": 5, "load": "loaded"}
    entries = cache.as_dict()
    assert await entries.setdefault("once", 1) == await entries.setdefault("once", 2) == 1
    assert (await entries.pop("once"), await entries.pop("once", 0)) == (1, 0)
    await entries.update({"n": 6})
    other = client.map_cache(f"{world.name}-other", codec="json", policy=None).as_dict()
    await other.update([("x", 1), ("y", 2)])
    assert await other.popitem() in (("x", 1), ("y", 2))
    assert len(await other.walk("keys")) == 1
    await other.clear()
    assert await other.walk() == []
    assert await entries.get("none", 0) == 0
    assert await cache.get("n") == 6
    assert await cache.expire("1h")
    assert await cache.clear_expire()
    await cache.set_max_size(2)
    assert not await cache.try_set_max_size(3)
    await cache.put("one more", 1)
    assert await cache.size() == 2
    quiet = client.map_cache(world.name, codec="json", policy=None)
    await cache.close()
    await quiet.put("gone", 1, ttl="1ms")

    async def evicted() -> bool:
        await quiet.evict()  # unless the handle that was closed did so at the last moment
        return await quiet.get("gone") is None and not (await quiet.stats()).expired

    await world.until(evicted)
    assert await cache.clear()
    await cache.close()


async def native_maps(world: Environment) -> None:
    cache = world.client.map_cache(world.name, codec="json", backend="native")
    try:
        await cache.put("tea", "green", ttl="1h")
    except tarry.ServerUnfit as unfit:
        assert "Valkey 9 or Redis" in str(unfit)  # noqa: PT017  # one clear word, where the server cannot
        return
    assert await cache.fast_put_if_absent("brief", 1, ttl="20ms")
    assert await cache.add_and_get("n", 5) == 5
    assert await cache.put_if_absent("n", 6) == 5
    await cache.put_all({"a": 1, "b": 2}, ttl="1h")

    async def gone() -> bool:
        return not await cache.contains_key("brief")

    await world.until(gone)
    assert sorted(await cache.as_dict().walk("keys")) == ["a", "b", "n", "tea"]
    assert await cache.remaining_ttl("tea") <= timedelta(hours=1)
    assert await cache.size() >= 4  # the server counts fields that have expired a moment ago
    assert await cache.get_all(["a", "b"]) == {"a": 1, "b": 2}
    assert await cache.expire_entry("a", ttl="2h")
    assert await cache.replace("a", 3) == 1
    assert await cache.remove("a") == 3
    assert await cache.compute_if_absent("load", world.function(lambda key: f"{key}ed")) == "loaded"
    assert await cache.expire("1h")
    assert await cache.clear_expire()
    assert await cache.clear()


async def locks(world: Environment) -> None:
    mine, theirs = world.client.lock(world.name), world.another().lock(world.name)
    async with mine.inside() as grant:
        assert await mine.held()
        assert not await theirs.held()
        assert await theirs.acquire(wait=0) is None
        again = await mine.acquire(wait=0)
        assert again.token == grant.token
        await mine.release()
        await grant.check()
        async with await guarded(grant):
            assert timedelta(0) < grant.remaining <= timedelta(seconds=30)
        state = await theirs.state()
        assert (state.held, state.token) == (True, grant.token)
        lost: list[str] = []
        await grant.on_lost(lambda: lost.append("lost"))
        assert not await grant.lost.is_set()
        assert not await grant.lost.wait("10ms")
    assert not (await mine.state()).held
    await who_waits_is_counted_and_served(world, mine, theirs)
    brief = await mine.acquire(lease="100ms")
    other = await theirs.acquire(wait=LONGEST_S)
    assert other.token > brief.token
    assert await brief.lost.wait(LONGEST_S)
    assert await mine.force_release()
    with pytest.raises(tarry.LockLost):
        await other.check()
    with pytest.raises(tarry.LockLost):
        await other.release()
    assert not lost


async def who_waits_is_counted_and_served(world: Environment, mine: Any, theirs: Any) -> None:
    grant = await mine.acquire(wait=0)

    async def wait_for_it() -> int:
        got = await theirs.acquire(wait=LONGEST_S)
        await got.release()
        token: int = got.token
        return token

    waiting = world.begin(wait_for_it)

    async def counted() -> bool:
        return (await mine.state()).waiting == 1

    await world.until(counted)
    await grant.release()
    assert await waiting > grant.token


async def guarded(grant: Any) -> Any:
    """The block that needs the lock, in either client."""
    block = await grant.guard()
    return _Block(block)


class _Block:
    def __init__(self, block: Any) -> None:
        self._block = block

    async def __aenter__(self) -> Any:
        return await self._block.__aenter__() if hasattr(self._block, "__aenter__") else self._block.__enter__()

    async def __aexit__(self, *why: Any) -> Any:
        return await self._block.__aexit__(*why) if hasattr(self._block, "__aexit__") else self._block.__exit__(*why)


async def guarded_queues(world: Environment) -> None:
    """In both layouts; by scripts, and by plain commands under a lock."""
    for layout in ("tarry", "java"):
        for guard in (None, world.client.lock(f"{world.name} guard")):
            await one_guarded_queue(world, layout, guard)


async def one_guarded_queue(world: Environment, layout: str, guard: Any) -> None:
    name = f"{world.name} {layout} {guard is None}"
    queue = world.client.guarded_queue(name, layout=layout, guard=guard and guard.plain, max_lateness="10m")
    other = world.another().guarded_queue(name, layout=layout)
    assert not await queue.clear()
    assert len(await queue.push([("now", 0), ("soon", "30ms"), ("later", "1h")])) == 3
    now = await queue.poll(wait=LONGEST_S)
    [soon] = await queue.poll_many(9, wait=LONGEST_S)
    assert (now.value, soon.value) == ("now", "soon")
    assert soon.lateness >= timedelta(0)
    stats = await queue.stats()
    assert (stats.size, stats.overdue, await other.size()) == (1, 0, 1)
    await other.push({"told of": "20ms"})
    assert (await queue.poll(wait=LONGEST_S)).value == "told of"
    assert await queue.clear()
