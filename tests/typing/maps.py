"""Map caches as users write them. Read by type checkers, never run."""

from __future__ import annotations

from collections.abc import MutableMapping
from datetime import timedelta
from typing import Any, assert_type

import tarry


def of_a_client(client: tarry.Client) -> None:
    assert_type(client.map_cache("m", codec="string"), tarry.redisson.MapCache[Any, Any])


def blocking(cache: tarry.redisson.MapCache[str, int]) -> None:
    assert_type(cache.put("a", 1, ttl="5m", max_idle=timedelta(seconds=3)), int | None)
    assert_type(cache.fast_put("a", 1, keep_ttl=True), bool)
    assert_type(cache.put_if_absent("a", 1), int | None)
    assert_type(cache.get("a"), int | None)
    assert_type(cache.get_all(["a"]), dict[str, int])
    assert_type(cache.replace("a", 1), int | None)
    assert_type(cache.replace("a", 1, 2), bool)
    assert_type(cache.remove("a"), int | None)
    assert_type(cache.remove("a", 1), bool)
    assert_type(cache.remaining_ttl("a"), timedelta | None)
    assert_type(cache.stats(), tarry.redisson.MapStats)
    assert_type(cache.compute_if_absent("a", len, ttl=5), int | None)
    with cache.listen(
        lambda event: assert_type(event, tarry.redisson.MapEvent[str, int]), "created", "expired"
    ) as listener:
        assert_type(listener, tarry.redisson.MapListener)
    cache.get("a", 5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    cache["a"]  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
    len(cache)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    cache.put(1, 1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    cache.set_max_size(5, mode="FIFO")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def as_a_dictionary(cache: tarry.redisson.MapCache[str, int]) -> None:
    entries = cache.as_dict()
    assert_type(entries, tarry.redisson.MapDict[str, int])
    mapping: MutableMapping[str, int] = entries
    assert_type(mapping["a"], int)
    assert_type(entries["a"], int)
    assert_type(entries.get("a"), int | None)
    assert_type(entries.get("a", 5), int)
    assert_type(entries.get("a", None), int | None)
    assert_type(entries.pop("a"), int)
    assert_type(entries.pop("a", None), int | None)
    assert_type(entries.popitem(), tuple[str, int])
    assert_type(entries.setdefault("a", 1), int)
    assert_type(list(entries.items()), list[tuple[str, int]])
    assert_type(list(entries), list[str])
    entries.update({"a": 1})
    entries.update([("a", 1)], b=2)
    entries["a"] = 1
    entries["a"] = "1"  # type: ignore[assignment]  # pyright: ignore[reportArgumentType]
    entries.update({"a": "1"})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def awaiting(cache: tarry.redisson.AsyncMapCache[str, int]) -> None:
    async def load(key: str) -> int:
        return len(key)

    assert_type(await cache.get("a"), int | None)
    assert_type(await cache.replace("a", 1, 2), bool)
    assert_type(await cache.compute_if_absent("a", load), int | None)
    entries = cache.as_dict()
    assert_type(entries, tarry.redisson.AsyncMapDict[str, int])
    assert_type(await entries.get("a", 5), int)
    assert_type(await entries.pop("a", None), int | None)
    assert_type([key async for key in entries], list[str])
    assert_type([pair async for pair in entries.items()], list[tuple[str, int]])
    async with await cache.listen(print, "removed") as listener:
        assert_type(listener, tarry.redisson.AsyncMapListener)
