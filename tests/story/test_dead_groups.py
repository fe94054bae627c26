"""Dead jobs are grouped by what went wrong, and searched by task, error and text in the body."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from story.adapters import Adapter
from story.test_add import US
from tarry import BadInput, DeadGroups
from tarry.clients.testing import Clock

TRACE = 'Traceback (most recent call last):\n  File "/srv/shop/billing.py", line {line}, in charge\n    pay()\n'
LONG = 64 * 1024


async def die(topic: Any, clock: Clock, id: str, error: str, body: Any = 0) -> None:
    """Of its only attempt."""
    await topic.add(body, id=id, max_attempts=1)
    await topic.release(await topic.pop(), delay=0, reason=error)
    clock.advance(US)


def task(name: str, **args: Any) -> dict[str, Any]:
    return {"task": name, "args": args}


async def all_groups(topic: Any, **search: Any) -> DeadGroups:
    found: DeadGroups = await topic.dead_groups(**search)
    while found.cursor is not None:
        found += await topic.dead_groups(**search, cursor=found.cursor)
    return found


async def ids(topic: Any, **search: Any) -> list[str]:
    found, cursor = list[str](), None
    while True:
        page = await topic.list("dead", **search, cursor=cursor)
        found += [job.id for job in page]
        cursor = page.cursor
        if cursor is None:
            return found


async def test_dead_jobs_are_grouped_without_what_differs(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add(0, id="alive")
    await topic.delete("alive")
    for n, user in enumerate(("ada", "bob", "eve"), 1):
        told = f"ConnectionError: can't reach https://bank.example/{n} for '{user}' ({user}@x.example, order A-{n}7)"
        await die(topic, clock, f"c{n}", f"{told}\n{TRACE.format(line=n)}{told}", task("charge", order=n))
    await die(topic, clock, "s1", f"ValueError: no stock\n{TRACE.format(line=8)}", task("ship", order=8))
    await topic.add({"task": "buy milk"}, id="b1")
    await topic.bury(await topic.pop(), reason="no such order: 7")
    found = await topic.dead_groups()
    charge = found.groups[0]
    assert (charge.count, charge.task, charge.error, charge.place) == (
        3,
        "charge",
        "ConnectionError: can't reach … for … (…, order …)",
        "billing.py, charge",
    )
    assert sorted((group.task, group.error) for group in found.groups[1:]) == [
        ("", "no such order: …"),  # a body with a field `task` is no task's
        ("ship", "ValueError: no stock"),
    ]
    assert charge.samples == ("c3", "c2", "c1")
    assert charge.last - charge.first == 2 * US
    assert (found.scanned, found.dead, found.cursor, found.ungrouped) == (5, 5, None, 0)
    assert await ids(topic, group=charge.id) == ["c1", "c2", "c3"]
    assert (await topic.kick_many(await ids(topic, group=charge.id))) == ["dead"] * 3
    assert [group.count for group in await topic.dead_groups()] == [1, 1], "exact after a kick"


async def test_a_job_that_was_kicked_meanwhile_is_not_deleted(adapter: Adapter, topic: Any, clock: Clock) -> None:
    for id in ("1", "2", "3"):
        await die(topic, clock, id, "boom")
    group = (await topic.dead_groups()).groups[0]
    found = await ids(topic, group=group.id)
    await topic.kick("2")
    assert await topic.delete_many([*found, "none"], state="dead") == ["dead", "ready", "dead", None]
    assert [job.id for job in await topic.list()] == ["2"]
    assert await topic.kick_many(found) == [None, "ready", None]
    assert await topic.delete("2", state="dead") == "ready"
    assert await topic.delete("2", state="ready") == "ready"
    assert await topic.get("2") is None
    with pytest.raises(BadInput, match=r"^state: 'lost'"):
        await topic.delete("2", state="lost")
    with pytest.raises(BadInput, match=r"^running, state: "):
        await topic.delete("2", state="reserved", running=True)


async def test_groups_are_read_in_bounded_pages_with_progress(adapter: Adapter, topic: Any, clock: Clock) -> None:
    for n in range(7):
        await die(topic, clock, str(n), f"E{n % 2}rror: odd" if n % 2 else "even")
    page = await topic.dead_groups(limit=3)
    assert (page.scanned, page.dead, len(page)) == (3, 7, 2)
    assert page.cursor
    found = await all_groups(topic, limit=3)
    whole = await topic.dead_groups()
    assert found == whole
    assert [(group.count, group.samples) for group in found] == [(4, ("6", "4", "2")), (3, ("5", "3", "1"))]
    assert (found.scanned, found.dead, found.cursor) == (7, 7, None)
    only = await all_groups(topic, group=found.groups[1].id, limit=2)
    assert ([group.count for group in only], only.scanned) == ([3], 7)


async def test_jobs_are_searched_by_task_error_and_text(adapter: Adapter, topic: Any, clock: Clock) -> None:
    for n in range(1, 5):
        await die(
            topic, clock, f"{n}", f"{'Odd' if n % 2 else 'Even'}Error: {n}", task("odd" if n % 2 else "even", n=n)
        )
    await topic.add({"text": "käse"}, id="waits", delay="1h")
    assert await ids(topic, task="odd") == ["1", "3"]
    assert await ids(topic, error="Error: 4") == ["4"]
    assert await ids(topic, text='"n":2') == ["2"]
    assert await ids(topic, task="odd", error="OddError", text='"n":3') == ["3"]
    assert await ids(topic, task="none") == []
    assert await ids(topic, task="odd", limit=1) == ["1", "3"]
    page = await topic.list("dead", task="odd", limit=1)
    assert ([job.id for job in page], page.scanned) == (["1"], 1)
    assert [job.id for job in await topic.list(text="käse")] == ["waits"], "in any state"
    assert [group.task for group in await topic.dead_groups(text='"n":2')] == ["even"]


@pytest.mark.parametrize("given", [{"task": ""}, {"error": "x" * 1001}, {"text": "\ud800"}, {"group": 7}])
async def test_a_search_that_means_nothing_is_refused(adapter: Adapter, topic: Any, given: dict[str, Any]) -> None:
    [name] = given
    for ask in (topic.dead_groups, partial(topic.list, "dead")):
        with pytest.raises(BadInput, match=f"^{name}: "):
            await ask(**given)


async def test_only_dead_jobs_have_groups(adapter: Adapter, topic: Any) -> None:
    with pytest.raises(BadInput, match="only dead jobs have groups"):
        await topic.list(group="84b1c7f0a3d2")
    with pytest.raises(BadInput, match="cursor"):
        await topic.dead_groups(cursor="x")
    for limit in (0, 1001):
        with pytest.raises(BadInput, match="limit"):
            await topic.dead_groups(limit=limit)


HOSTILE = {
    "blank lines": "boom\n" + "\n" * LONG,
    "tabs": "boom\n" + "\t" * LONG,
    "signs": "'" * LONG,
    "addresses": "@a" * (LONG // 2),
    "dashes": "-" * LONG,
    "letters": "a" * LONG,
    "files": "boom\n" + '  File "' * (LONG // 8),
    "frames": "boom\n" + '  File "a", line 1, in \n' * (LONG // 24),
}


@pytest.mark.parametrize("error", HOSTILE.values(), ids=HOSTILE)
async def test_a_long_error_costs_no_more_than_its_length(
    adapter: Adapter, topic: Any, clock: Clock, error: str
) -> None:
    await die(topic, clock, "1", error)
    [group] = await topic.dead_groups()  # with a pattern of quadratic time it would take minutes
    assert len(group.error) <= 200
    assert await ids(topic, group=group.id) == ["1"]


@pytest.mark.slow
async def test_pages_of_long_errors_stay_small(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add_many(range(300))
    await topic.bury_many(await topic.pop_many(300), reason="boom\n" + "x" * LONG)
    page = await topic.dead_groups()
    assert 0 < page.scanned < 300, "a page has about a megabyte"
    assert [group.count for group in await all_groups(topic)] == [300]


async def test_what_an_error_says_is_shown_without_control_characters(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    await die(topic, clock, "1", "\x1b[KError <b>\u202ebold\r</b>\nT", task("x\x1b[2J"))
    [group] = await topic.dead_groups()
    assert (group.task, group.error) == ("", "…[KError <b>…bold…</b>")


async def test_bodies_that_do_not_decode_are_grouped(adapter: Adapter, clock: Clock) -> None:
    raw = adapter.topic("orders", type=bytes)
    call = json.dumps(task("a" * 201)).encode()
    bodies = (b"\xff\xfe", b"[" * 5000, b'{"task":7}', b'{"task":"a","args":[]}', b'{"task":"a","args":{},"x":1}', call)
    for n, body in enumerate(bodies):
        await raw.add(body, id=str(n), max_attempts=1)
        await raw.release(await raw.pop(), delay=0, reason="boom")
    [group] = await raw.dead_groups(error="boom")
    assert (group.count, group.task, group.error) == (6, "", "boom")
