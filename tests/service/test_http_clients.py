"""Both HTTP clients where only the service can be reached, in real time.

Queues, guarded queues and schedules have their stories told over HTTP where they are told of the library, too
(tests/redisson/delayed, tests/guarded, tests/story); here is what is left, and what only HTTP has.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

import tarry
from service.any_client import AnyClient
from tarry import BadInput, ServerUnfit
from tarry.clients.redisson import http_queues as queue_verbs
from tarry.core.requests import Command
from tarry.verbs.jobs import durability
from until import LONGEST_S, until


def test_a_lock_is_viewed_and_force_released(any_client: AnyClient, name: str) -> None:
    lock = any_client.far.lock(name)
    assert not any_client.call(lock.state).held
    with any_client.near.lock(name) as grant:
        now = any_client.call(lock.state)
        assert (now.name, now.held, now.depth, now.token) == (name, True, 1, grant.token)
        assert timedelta(seconds=20) < now.remaining <= timedelta(seconds=30)
        assert any_client.call(lock.force_release)
        with pytest.raises(tarry.LockLost):
            grant.check()
        with pytest.raises(tarry.LockLost):
            grant.release()
    assert not any_client.call(lock.force_release)
    with pytest.raises(ServerUnfit, match="Over HTTP you can inspect"):
        any_client.call(lock.acquire, wait=0)


@pytest.mark.parametrize("codec", ["string", "kryo5"])
def test_a_map_is_viewed_without_change(any_client: AnyClient, name: str, codec: str) -> None:
    with any_client.near.map_cache(name, codec=codec, policy=None) as near:
        near.put("tea", "3", ttl="1h", max_idle="30m")
        near.put("milk", "1")
        near.put_all({f"k{k}": str(k) for k in range(1200)})
        far = any_client.far.map_cache(name, codec=codec)
        left = near.remaining_ttl("tea")
        assert any_client.call(far.size) == 1202
        now, same = any_client.call(far.stats), near.stats()
        assert (now.name, now.size, now.expired, now.next_expiry) == (name, 1202, 0, same.next_expiry)
        assert type(now) is type(same)
        assert any_client.call(far.get_with_ttl_only, "tea") == "3"
        assert any_client.call(far.get_with_ttl_only, "coffee") is None
        assert any_client.call(far.remaining_ttl, "milk") == timedelta.max
        assert any_client.call(far.remaining_ttl, "coffee") is None
        assert timedelta(minutes=29) < any_client.call(far.remaining_ttl, "tea") <= left, "looking was no use of it"
        assert any_client.call(far.contains_value, "1199")
        assert not any_client.call(far.contains_value, "1200")
        assert dict(any_client.walk(far.as_dict().items())) == dict(near.as_dict().items())
        with pytest.raises(ServerUnfit, match="is looked at"):
            any_client.call(far.get, "tea")


def test_many_jobs_of_several_topics_are_those_of_the_first_that_has_any(any_client: AnyClient, name: str) -> None:
    first, second = any_client.far.topic(name, partitions=2), any_client.far.topic(name + "-2")
    any_client.call(second.add_many, list(range(3)))
    got = any_client.call(any_client.far.pop_many, first, second, limit=2, wait=5)
    assert [(job.topic, job.body) for job in got] == [(second.name, 0), (second.name, 1)]
    any_client.call(first.add_many, list(range(9)))
    got += any_client.call(any_client.far.pop_many, name, second.name, limit=1000)
    assert {job.topic for job in got[2:]} == {name}
    assert sorted(job.body for job in got[2:]) == list(range(9))
    for job in got:
        any_client.call(job.finish)
    with pytest.raises(BadInput, match=r"^limit: 1001; it is a whole number from 1 to 1000"):
        any_client.call(any_client.far.pop_many, name, limit=1001)


def test_jobs_migrate_to_another_topic_of_the_service(any_client: AnyClient, name: str) -> None:
    here, there = any_client.far.topic(name), any_client.far.topic(name + "-new", partitions=2)
    any_client.call(here.add_many, list(range(450)), delay="1h")
    any_client.call(here.configure, max_attempts=7)
    any_client.call(any_client.far.schedules.put, here, "tidy", every="1h")
    any_client.call(here.add, "mine", id="held")
    held = any_client.call(here.pop)
    told: list[int] = []
    rehearsed = any_client.call(any_client.far.migrate, here, there, dry_run=True)
    assert (rehearsed.moved, rehearsed.refused, rehearsed.reserved) == (450, 0, 1)
    assert any_client.call(here.stats).delayed == 450
    done = any_client.call(any_client.far.migrate, name, there, limit=1000, progress=told.append)
    assert (done.moved, done.refused, done.reserved, told) == (450, 0, 1, [450])
    assert (done.schedules, done.schedules_refused, done.settings) == (1, 0, ("max_attempts",))
    assert any_client.call(any_client.far.schedules.get, there, "tidy").every == timedelta(hours=1)
    assert any_client.call(there.configure).max_attempts == 7
    assert any_client.call(there.stats).delayed == 450
    any_client.call(here.finish, held)


def test_elements_of_a_queue_move_to_a_topic(any_client: AnyClient, name: str) -> None:
    queue, topic = any_client.far.delayed_queue(name, codec="string"), any_client.far.topic(name)
    due = any_client.call(queue.offer_many, [f"tea {k}" for k in range(5)], "1h")
    assert any_client.call(any_client.far.migrate_queue, queue, topic, dry_run=True) == tarry.Migrated(5)
    told: list[int] = []
    assert any_client.call(any_client.far.migrate_queue, queue, name, progress=told.append) == tarry.Migrated(5)
    assert (told, any_client.call(queue.size)) == ([5], 0)
    jobs = any_client.call(topic.list)
    assert {(job.body, job.due) for job in jobs} == {(f"tea {k}", at) for k, at in enumerate(due)}


def test_a_custom_codec_works_over_http(any_client: AnyClient, name: str) -> None:
    class Upper:
        def encode(self, value: str) -> bytes:
            return value.upper().encode()

        def decode(self, raw: bytes) -> str:
            if raw == b"BAD":
                raise ValueError("what is that?")
            return raw.decode().lower()

    delayed, blocking = (
        any_client.far.delayed_queue(name, codec=Upper()),
        any_client.far.blocking_queue(name, codec=Upper()),
    )
    any_client.call(delayed.offer_many, ["bad", "tea"], 0)
    assert any_client.near.delayed_queue(name, codec="string").read_all() == ["BAD", "TEA"]
    assert any_client.call(blocking.poll, wait=5) == "tea"
    (aside,) = any_client.call(blocking.poison)
    assert (aside.raw, "what is that?" in aside.reason) == (b"BAD", True)
    assert any_client.call(blocking.stats).poison == 1


def test_a_wait_over_http_gets_the_next_due_element(any_client: AnyClient, name: str) -> None:
    delayed, blocking = any_client.far.delayed_queue(name, codec="kryo5"), any_client.far.blocking_queue(name)
    any_client.call(delayed.offer, {"order": 7}, 0.05)
    assert any_client.call(blocking.take) == {"order": 7}
    any_client.call(delayed.offer, [1, "two", None], 0.05)
    assert any_client.call(blocking.poll_from_any, name + "-other", wait=10) == [1, "two", None]
    any_client.call(delayed.offer, "late", 0.05)
    assert any_client.call(blocking.poll_from_any_with_name, name + "-other", wait=10) == (name, "late")


def test_very_many_elements_are_split_into_requests(
    any_client: AnyClient, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_verbs, "MOST", 40)
    queue = any_client.far.delayed_queue(name, codec="long")
    assert len(any_client.call(queue.offer_many, range(100), "1h")) == 100
    assert any_client.call(queue.read_all) == list(range(100))
    assert any_client.call(queue.contains_all, range(100))
    assert not any_client.call(queue.contains_all, range(101))
    assert any_client.call(queue.remove_all, range(5, 100))
    assert any_client.call(queue.read_all) == list(range(5))


def test_a_damaged_schedule_does_not_hide_others(any_client: AnyClient, name: str) -> None:
    schedules = any_client.far.schedules
    for id in ("good", "bad"):
        any_client.call(schedules.put, name, id, {"what": id}, every="1h", max_attempts=None, headers={"by": "ann"})
    keys = any_client.near.topic(name).verbs.keys
    any_client.near.engine.run(Command((b"HSET", keys.due.removesuffix(b"due") + b"plans", b"bad", b"damaged"), int))
    good, bad = sorted(any_client.call(schedules.list, name), key=lambda one: one.damaged)
    assert (good.id, good.body, good.headers, good.damaged) == ("good", {"what": "good"}, {"by": "ann"}, False)
    assert good == any_client.call(schedules.get, name, "good")
    assert (bad.id, bad.damaged) == ("bad", True)
    with pytest.raises(tarry.BodyError):
        _ = bad.body
    assert any_client.call(schedules.delete, name, "bad")
    assert any_client.call(schedules.get, name, "bad") is None


def test_an_add_supports_durability(any_client: AnyClient, name: str) -> None:
    topic = any_client.far.topic(name)
    with pytest.raises(BadInput, match="durability"):
        any_client.call(topic.add, 1, durability="engraved")
    for add, given in ((topic.add, 1), (topic.add_many, [1, 2])):
        with pytest.raises(tarry.ServerUnfit, match=r"Nothing was added: .*appendonly yes"):
            any_client.call(add, given, durability="fsynced")
    assert any_client.call(topic.stats).added == 0


def test_an_unconfirmed_add_raises_at_once(any_client: AnyClient, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durability, "WITHIN_MS", 20)  # a wait of the served process, which is this one
    durability.confirmation_for.cache_clear()
    topic = any_client.far.topic(name)
    for add, given in ((topic.add, 1), (topic.add_many, [1, 2])):
        with pytest.raises(tarry.Unconfirmed, match="Added, but 0 of 97 replicas") as told:
            any_client.call(add, given, durability=97)
        with pytest.raises(tarry.Unconfirmed) as direct:
            any_client.near.topic(name + "-near").add(1, durability=97)
        assert str(told.value) == str(direct.value)
    durability.confirmation_for.cache_clear()
    stats = any_client.call(topic.stats)
    assert (stats.added, stats.repeated) == (3, 0), "nothing was asked again"


def test_a_handler_gets_each_element_and_a_failure_does_not_stop_it(any_client: AnyClient, name: str) -> None:
    queue, seen = any_client.far.blocking_queue(name, codec="string"), list[str]()

    def handle(value: str) -> None:
        if value == "bad":
            raise ValueError("no such order")
        seen.append(value)

    async def subscribed() -> None:
        both = asyncio.Event()

        async def handle_awaited(value: str) -> None:
            handle(value)
            if len(seen) == 2:
                both.set()

        async with queue.subscribe(handle_awaited), asyncio.timeout(LONGEST_S):
            await both.wait()

    for value in ("tea", "bad", "milk"):
        any_client.call(queue.put, value)
    if any_client.kind == "http":
        with queue.subscribe(handle):
            until(lambda: len(seen) == 2)
    else:
        any_client.call(subscribed)
    assert seen == ["tea", "milk"]
    (aside,) = any_client.call(queue.poison)
    assert (aside.raw, aside.reason) == (b"bad", "handler: ValueError: no such order")


@pytest.mark.parametrize("dots", [".", "..", "..."])
def test_java_names_of_dots_are_reached_over_http(any_client: AnyClient, dots: str) -> None:
    assert any_client.call(any_client.far.map_cache(dots).size) == 0
    assert not any_client.call(any_client.far.lock(dots, shared=True).state).held
    assert any_client.call(any_client.far.delayed_queue(dots).size) == 0


def test_three_dots_are_a_name_over_http(any_client: AnyClient, name: str) -> None:
    topic = any_client.far.topic("...")
    any_client.call(topic.add, name)
    assert any_client.call(any_client.far.schedules.put, "...", "...", every="1h").id == "..."
    job = any_client.call(topic.pop)
    assert (job.body, job.topic) == (name, "...")
    any_client.call(job.finish)
    assert any_client.call(any_client.far.schedules.delete, "...", "...")
