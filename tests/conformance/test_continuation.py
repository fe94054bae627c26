"""A master stops or is killed while everything waits or works in the background: all of it continues by itself.

Each has a client of its own, which does nothing else: nobody else's verb finds the new master for it.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from redis.crc import key_slot

import tarry
from conformance.environment import Environment
from server_groups import MASTER, BigCluster, Sentinels, ask_fields, big_cluster, port_of, replicated, sentinels, until
from servers import binary_of, short_folder
from tarry.core.requests import Command
from tarry.values.keys import guarded_keys, topic_keys
from until import LONGEST_S

pytestmark = [pytest.mark.otherserver, pytest.mark.slow]
FACES = ("sync", "async")
_numbers = itertools.count()


class Names:
    """Names of a story, all on the server that goes."""

    def __init__(self, goes: Callable[[bytes], bool], namespace: str) -> None:
        self._goes = goes
        self.namespace = namespace

    def shared(self, what: str) -> str:
        """Of what has Redisson's keys, or its rule for braces."""
        return next(f"{what}:{{{tag}}}" for tag in self._tags(what) if self._goes(f"{{{tag}}}".encode()))

    def topic(self, what: str) -> str:
        return next(tag for tag in self._tags(what) if self._goes(topic_keys(self.namespace, tag).due))

    def guarded(self, what: str) -> str:
        return next(tag for tag in self._tags(what) if self._goes(guarded_keys(self.namespace, tag).items))

    def _tags(self, what: str) -> Iterator[str]:
        return (f"{self.namespace} {what} {number}" for number in itertools.count())


@contextmanager
def working(url: str, namespace: str, topic: str) -> Iterator[list[Any]]:
    """A worker, in a thread and a loop of its own; what it has closed."""
    worker, closed, loops = tarry.Worker(url=url, namespace=namespace), list[Any](), list[asyncio.AbstractEventLoop]()

    @worker.on(topic)
    async def close(job: tarry.AsyncJob[Any]) -> None:
        closed.append(job.body)

    async def live() -> None:
        loops.append(asyncio.get_running_loop())
        await worker.run(signals=False)

    thread = threading.Thread(target=lambda: asyncio.run(live()), daemon=True)
    thread.start()
    try:
        yield closed
    finally:
        loops[0].call_soon_threadsafe(worker.stop)
        thread.join(LONGEST_S)


async def everything_goes_on(world: Environment, names: Names, change: Callable[[], Coroutine[Any, Any, None]]) -> None:
    topic = names.topic("work")
    with working(world.url, world.name, topic) as closed:

        async def works(body: str) -> None:
            async def done() -> bool:
                return body in closed

            await world.client.topic(topic).add(body)
            await world.until(done)

        await works("before")
        await everything_else_goes_on(world, names, change)
        await works("after")


async def everything_else_goes_on(
    world: Environment, names: Names, change: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    fresh = world.client
    moved, cached, heard, held, wanted, taken, scheduled, pushed = (
        names.shared("moved"), names.shared("cached"), names.shared("heard"), names.shared("held"),
        names.shared("wanted"), names.shared("taken"), names.topic("scheduled"), names.guarded("pushed"),
    )  # fmt: skip
    await world.another().keep_moving(moved)
    kept = world.another().map_cache(cached, codec="json")
    await kept.put("stays", 1)
    events: list[tarry.redisson.MapEvent[Any, Any]] = []
    listener = await world.another().map_cache(heard, codec="json", policy=None).listen(events.append)
    grant = await world.another().lock(held, shared=True).acquire(wait=0)
    mine = await world.another().lock(wanted, shared=True).acquire(wait=0)
    soon = datetime.now(timezone.utc) + timedelta(seconds=5)
    await fresh.schedules.put(scheduled, "often", {"kind": "often"}, every="1h", first=soon)
    waiters = [world.another() for _ in range(4)]
    waiting = [
        world.begin(lambda: acquired_and_released(waiters[0].lock(wanted, shared=True))),
        world.begin(waiters[1].blocking_queue(taken, codec="string").take),
        world.begin(lambda: waiters[2].guarded_queue(pushed).poll(wait=LONGEST_S)),
        world.begin(lambda: waiters[3].pop(scheduled, wait=LONGEST_S)),
    ]

    async def known() -> bool:
        return bool((await fresh.lock(wanted, shared=True).state()).waiting)

    await world.until(known)

    await change()

    await fresh.delayed_queue(moved, codec="string").offer("tea", "20ms")

    async def arrived() -> bool:
        return bool(await fresh.blocking_queue(moved, codec="string").size())

    await world.until(arrived)

    quiet = fresh.map_cache(cached, codec="json", policy=None)
    await quiet.put("goes", 1, ttl="50ms")

    async def evicted() -> bool:
        stats = await quiet.stats()
        return bool((stats.size, stats.expired) == (1, 0))

    await world.until(evicted)

    async def told_again() -> bool:
        await fresh.map_cache(heard, codec="json", policy=None).put("tea", "green")
        return bool(events)

    await world.until(told_again)
    await listener.stop()

    await fresh.plain_run(Command((b"PEXPIRE", held.encode(), b"9000"), int))

    async def renewed() -> bool:
        return bool(await fresh.plain_run(Command((b"PTTL", held.encode()), int)) > 20_000)

    await world.until(renewed)
    assert not await grant.lost.is_set()
    await grant.check()
    await grant.release()

    await mine.release()
    await fresh.delayed_queue(taken, codec="string").offer("jam", "20ms")
    await fresh.guarded_queue(pushed).push({"egg": 0})
    token, jam, egg, job = await asyncio.wait_for(asyncio.gather(*waiting), LONGEST_S)
    assert token > mine.token
    assert (jam, egg.value, job.body) == ("jam", "egg", {"kind": "often"})
    await fresh.topic(scheduled).finish(job)
    await fresh.schedules.delete(scheduled, "often")


async def acquired_and_released(lock: Any) -> int:
    grant = await lock.acquire(wait=LONGEST_S)
    await grant.release()
    token: int = grant.token
    return token


def assert_continues(url: str, goes: Callable[[bytes], bool], change: Callable[[], None]) -> None:
    """Both clients at once, through one change."""
    number = next(_numbers)
    before, after = threading.Barrier(len(FACES) + 1), threading.Event()
    faults: list[BaseException] = []

    async def changed() -> None:
        await asyncio.to_thread(before.wait)
        await asyncio.to_thread(after.wait)

    def live(client_kind: str) -> None:
        namespace = f"goes-on-{client_kind}-{number}"
        world = Environment(client_kind, url, namespace, patience="60s")
        try:
            asyncio.run(world.run_story(lambda world: everything_goes_on(world, Names(goes, namespace), changed)))
        except BaseException as fault:  # noqa: BLE001  # the test is told
            faults.append(fault)
            before.abort()

    threads = [threading.Thread(target=live, args=(client_kind,), name=f"story-{client_kind}") for client_kind in FACES]
    for thread in threads:
        thread.start()
    try:
        before.wait(LONGEST_S)
        change()
    except threading.BrokenBarrierError:
        pass  # one of them says why
    finally:
        after.set()
        for thread in threads:
            thread.join()
    if faults:
        raise faults[0]


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Held locks are renewed while the test looks."""
    for client_kind in ("blocking", "awaited"):
        monkeypatch.setattr(f"tarry.clients.{client_kind}.lock_watchdog.RENEWED_EVERY_S", 0.3)
        monkeypatch.setattr(f"tarry.clients.{client_kind}.lock_watchdog.LONGEST_SLEEP_S", 0.3)


@pytest.fixture(scope="module")
def binary(request: pytest.FixtureRequest) -> Iterator[Path]:
    with short_folder() as folder:
        yield binary_of(request.param, folder)


@pytest.fixture(scope="module")
def cluster(binary: Path) -> Iterator[BigCluster]:
    with big_cluster(binary) as made:
        yield made


@pytest.fixture(scope="module")
def sentinel_group(binary: Path) -> Iterator[Sentinels]:
    with sentinels(binary) as made:
        yield made


@pytest.mark.parametrize("binary", ["valkey", pytest.param("redis8", marks=pytest.mark.long)], indirect=True)
@pytest.mark.parametrize("how", ["told", "killed"])
def test_everything_works_on_a_cluster(cluster: BigCluster, how: str) -> None:
    victim = cluster.owner_of(b"any")
    slots = cluster.slots_of(victim)
    replica = next(node for node in cluster.nodes if node.alive and cluster.follows(node, victim))

    def change() -> None:
        if how == "told":
            replica.ask("CLUSTER", "FAILOVER")
        else:
            until("a replica that has everything", lambda: replicated(ask_fields(victim, "INFO", "replication")))
            victim.kill()
        until("another master", lambda: cluster.owner_of(b"any") is not victim)

    assert_continues(cluster.url, lambda key: key_slot(key) in slots, change)


@pytest.mark.parametrize(
    ("binary", "how"),
    [("valkey", "told"), ("valkey", "killed"), pytest.param("redis8", "killed", marks=pytest.mark.long)],
    indirect=["binary"],
    scope="module",
)
def test_everything_continues_after_a_sentinel_failover(sentinel_group: Sentinels, how: str) -> None:
    victim = sentinel_group.master()

    def change() -> None:
        sentinel_group.until_replicated()
        if how == "told":
            sentinel_group.watchers[0].ask("SENTINEL", "FAILOVER", MASTER)
        else:
            victim.kill()
        until("another master", lambda: sentinel_group.master() is not victim)
        if how == "told":  # the Sentinels do it seconds later; what the old master takes until then may be lost
            victim.ask("REPLICAOF", "127.0.0.1", str(port_of(sentinel_group.master())))

    assert_continues(sentinel_group.url, lambda _: True, change)
    if how == "told":
        sentinel_group.until_replicated()


@pytest.mark.parametrize("client_kind", FACES)
def test_a_client_that_finds_a_replica_looks_for_the_master(
    constellation: Callable[[str], Any], client_kind: str
) -> None:
    """A mover asks once and goes on to the next look: it must find the master by itself all the same."""
    made = constellation("sentinels of valkey")
    master = made.master()
    replica = next(one for one in made.data if one is not master)
    name = f"misled-{client_kind}"

    async def story(world: Environment) -> None:
        await world.client.topic("orders").add(1)
        runner: Any = world.client.plain.engine.runner
        heard = runner._topology._sentinels
        heard.master = heard.master.replace(str(port_of(master)), str(port_of(replica)))
        asked: Command[int] = Command((b"SADD", f"tarry:{name}:seen".encode(), b"1"), int)

        async def mastered() -> bool:
            answers = runner.send_batch([asked])
            [answer] = await answers if world.client_kind == "async" else answers
            return not isinstance(answer, tarry.TarryError)

        assert not await mastered()
        await world.until(mastered)

    asyncio.run(Environment(client_kind, made.url, name).run_story(story))
