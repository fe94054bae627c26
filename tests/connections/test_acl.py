"""The users that `tarry doctor --acl` and docs/how-to/secure-the-server.md name, under every story; and the error for one that lacks
something."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import tarry
from conformance.environment import Environment, perform
from conformance.test_stories import TABLE
from connections.roles import PAGE, rules, written
from server_groups import BigCluster
from tarry.clients.blocking.wait_connections import WaitConnections
from tarry.connections import connection_limit
from tarry.connections.embedded import plain_client
from tarry.connections.embedded.server_process import ServerProcess
from tarry.errors import NotKept
from tarry.verbs import acl
from tarry.worker import discovery
from until import LONGEST_S, until

PLACES = [
    "valkey",
    pytest.param("redis6", marks=pytest.mark.otherserver),
    pytest.param("redis7", marks=pytest.mark.otherserver),
    pytest.param("redis8", marks=pytest.mark.otherserver),
    pytest.param("cluster of valkey", marks=pytest.mark.otherserver),
]
TOLD = PLACES[:1] + PLACES[2:]
"""Redis 6.2 cannot be asked what a user may."""
LATER = {"redis7", "redis8"}
"""Of the versions between, and of the newest Redis, ``make test-long`` hears every story: what a user may is asked of all in the same words."""
HEARS = "&tarry:* +client|tracking +ssubscribe +sunsubscribe".split()
"""What the page names for waiting in very many slots."""
OF_CONSUMERS = ["topics", "partitions", "limits", "schedules"]
_numbers = itertools.count()


@contextmanager
def user(place: str, request: pytest.FixtureRequest, name: str, *rules: str) -> Iterator[str]:
    """The URL of a user who has just these rules."""
    asking: list[Callable[..., plain_client.Reply]]
    if place.startswith("cluster"):
        six = request.getfixturevalue("constellation")(place)
        assert isinstance(six, BigCluster)
        asking, url = [node.ask for node in six.nodes], six.url.replace("://", f"://{name}:secret@")
    else:
        found = request.getfixturevalue(f"{place}_url").removeprefix("unix://")
        asking, url = [lambda *words: plain_client.call_once(found, *words)], f"unix://{name}:secret@{found}"
    for ask in asking:
        assert ask("ACL", "SETUSER", name, "reset", *rules) == b"OK"
    try:
        yield url
    finally:
        for ask in asking:
            ask("ACL", "DELUSER", name)


def test_the_page_contains_the_acl_rules() -> None:
    page = PAGE.read_text()
    assert page == written(page), "python tests/connections/roles.py writes them again"
    for role in acl.ROLES:
        assert f"user {acl.line(role, 'shop')}" in page.splitlines()


@pytest.mark.parametrize("role", acl.ROLES)
def test_no_acl_rule_allows_server_wide_commands(role: acl.Role) -> None:
    """Passwords; the names of everybody's keys; other users."""
    for (
        word
    ) in "config scan keys acl client|tracking client|list client|kill monitor debug module migrate randomkey".split():
        assert not [name for name in acl.commands(role) if name.partition("|")[0] == word or name == word]


def version_of(place: str) -> tuple[int, ...]:
    return (6, 2) if place == "redis6" else ()


def later(places: list[Any]) -> list[Any]:
    """The same, those of ``LATER`` in the long run."""
    found = []
    for place in places:
        kind, marks = (place, []) if isinstance(place, str) else (place.values[0], place.marks)
        found.append(pytest.param(kind, marks=[*marks, *([pytest.mark.long] if kind in LATER else [])]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("feature", TABLE)
@pytest.mark.parametrize("place", later(TOLD))
def test_the_user_for_all_of_tarry_can_use_every_feature(
    place: str, feature: str, request: pytest.FixtureRequest
) -> None:
    name = f"shop-{next(_numbers)}"
    besides = (
        [f"+{command}" for command in sorted(acl.NATIVE)] if feature == "native maps" and place != "redis7" else []
    )
    with user(place, request, name, *rules("all", name), *besides) as url:
        perform(Environment("sync", url, name).run_story(TABLE[feature][0]))


@pytest.mark.parametrize("feature", OF_CONSUMERS)
@pytest.mark.parametrize("place", later(PLACES))
def test_a_consumer_user_can_use_every_consumer_feature(
    place: str, feature: str, request: pytest.FixtureRequest
) -> None:
    name = f"consumer-{next(_numbers)}"
    with user(place, request, name, *rules("consumer", name, version=version_of(place))) as url:
        perform(Environment("async", url, name).run_story(TABLE[feature][0]))


@pytest.mark.otherserver
def test_a_consumer_user_waits_on_tracking_connections_in_a_cluster(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in (connection_limit.BLOCKED_LIMIT, connection_limit.UNLIMITED):
        monkeypatch.setattr(one, "maximum", 0)
    with (
        user("cluster of valkey", request, "hearer", *rules("consumer", "default"), *HEARS) as url,
        tarry.Client(url) as client,
    ):
        names = ["heard-a", "heard-b", "heard-c"]
        client.topic(names[1]).add("tea", delay="200ms")
        job = client.pop(*names, wait=30)
        assert job is not None
        client.topic(job.topic).finish(job)
        lookouts = client.engine.shared_part(WaitConnections)._tracking.values()
        assert lookouts
        assert all(lookout._loop.state._cluster for lookout in lookouts)


async def waiting_for_very_many(world: Environment) -> None:
    """On a Cluster most of them are waited for by a lookout a node."""
    names = [f"topic {number}" for number in range(24)]
    waiting = world.begin(lambda: world.client.pop(*names, wait=30))
    other = world.another()
    await other.topic(names[-1]).add("tea", delay="200ms")
    job = await waiting
    assert job.body == "tea"
    await other.topic(names[-1]).finish(job)


@pytest.mark.otherserver
@pytest.mark.parametrize("client_kind", ["sync", "async"])
def test_a_consumer_user_waits_for_very_many_topics(request: pytest.FixtureRequest, client_kind: str) -> None:
    name = f"consumer-{next(_numbers)}"
    with user("cluster of valkey", request, name, *rules("consumer", name), *HEARS) as url:
        perform(Environment(client_kind, url, name).run_story(waiting_for_very_many))


async def producing(world: Environment) -> None:
    for partitions in (None, 3):
        topic = world.topic(f"made {partitions}", partitions=partitions)
        await topic.add({"order": 7}, id="7", delay="1h")
        await topic.add_many([tarry.NewJob(number, id=f"n{number}") for number in range(5)], delay="2h")
        assert not (await topic.add(1, id="7", if_exists="keep")).is_new
        assert (await topic.add(2, id="7", delay="1h", if_exists="replace")).is_new
        assert (await topic.get("7")).body == 2
        assert (await topic.stats()).delayed == len(await topic.list()) == 6
        assert sum((await topic.histogram(span="4h", buckets=4)).counts) == 6
        assert await topic.throughput() == ()
        assert (await topic.dead_groups()).dead == 0
        assert await topic.reschedule("7", delay="3h") == "delayed"
        assert await topic.delete_many(["7", "n1"]) == ["delayed"] * 2
    await world.client.schedules.put("made None", "often", every="1h")
    assert [one.id for one in await world.client.schedules.list()] == ["often"]
    assert await world.client.schedules.delete("made None", "often")


@pytest.mark.parametrize("place", PLACES)
def test_a_producer_user_can_produce(place: str, request: pytest.FixtureRequest) -> None:
    name = f"producer-{next(_numbers)}"
    with user(place, request, name, *rules("producer", name, version=version_of(place))) as url:
        perform(Environment("sync", url, name).run_story(producing))


@pytest.mark.parametrize("place", PLACES)
def test_a_producer_user_adds_a_job_once_that_a_consumer_finished(place: str, request: pytest.FixtureRequest) -> None:
    name, version = f"once-{next(_numbers)}", version_of(place)
    with (
        user(place, request, name, *rules("consumer", name, version=version)) as url,
        user(place, request, f"{name}-adds", *rules("producer", name, version=version)) as adding,
        tarry.Client(url, namespace=name) as consumer,
        tarry.Client(adding, namespace=name) as producer,
    ):
        with pytest.raises(NotKept):
            producer.topic("t").add("tea", id="7", if_exists="once")
        consumer.topic("t").configure(keep_finished="1d")
        assert producer.topic("t").add("tea", id="7", if_exists="once").is_new
        assert not producer.topic("t").add("tea", id="7", if_exists="once").is_new
        job = consumer.topic("t").pop(wait=LONGEST_S)
        assert job is not None
        job.finish(result="drunk")
        assert producer.topic("t").add("tea", id="7", if_exists="once").state == "finished"


@pytest.mark.parametrize("place", PLACES)
def test_a_consumer_hears_of_the_new_topics_of_a_producer(
    place: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the message alone: the list is looked at when the subscription begins, and then never."""
    monkeypatch.setattr(discovery, "LOOK_EVERY_S", 1e6)
    name, version, seen = f"patterns-{next(_numbers)}", version_of(place), list[str]()

    async def story(url: str, producer: tarry.Client) -> None:
        worker = tarry.Worker(url=url, namespace=name)

        @worker.on("notify-*")
        async def notify(job: tarry.AsyncJob[Any]) -> None:
            seen.append(job.topic)

        async with worker:
            for number in range(3):
                await asyncio.to_thread(producer.topic(f"notify-{number}").add, "x")
                await asyncio.to_thread(until, lambda: f"notify-{number}" in seen)  # noqa: B023  # it is awaited here

    with (
        user(place, request, name, *rules("consumer", name, version=version)) as url,
        user(place, request, f"{name}-adds", *rules("producer", name, version=version)) as adding,
        tarry.Client(adding, namespace=name) as producer,
    ):
        asyncio.run(story(url, producer))


@pytest.mark.parametrize("client_kind", ["sync", "async"])
@pytest.mark.parametrize("place", TOLD)
def test_a_missing_command_is_named_before_anything_is_written(
    place: str, client_kind: str, request: pytest.FixtureRequest
) -> None:
    name = f"lacks-{next(_numbers)}"
    for missing in ("hset", "zadd", "time", "sadd", "eval", "evalsha"):
        with user(place, request, name, *rules("producer", name), f"-{missing}") as url:

            async def adds(world: Environment) -> None:
                with pytest.raises(tarry.ServerUnfit, match=f"(?i){missing}"):  # noqa: B023  # it is performed here
                    await world.topic("orders").add(1)

            perform(Environment(client_kind, url, name).run_story(adds))
    with user(place, request, name, *rules("all", name)) as url, tarry.Client(url, namespace=name) as client:
        assert not client.topic("orders").list().jobs
        assert client.topic("orders").check().ok


@pytest.mark.parametrize("client_kind", ["sync", "async"])
def test_a_forbidden_key_is_named_in_the_error(client_kind: str, request: pytest.FixtureRequest) -> None:
    name = f"stranger-{next(_numbers)}"
    narrow = [f"~tarry:{{{name}/mine*", f"~tarry:{name}:*"]
    line = [word for word in rules("producer", name) if not word.startswith("~")]
    with user("valkey", request, name, *line, *narrow) as url:

        async def adds(world: Environment) -> None:
            await world.topic("mine").add(1)
            with pytest.raises(tarry.ServerUnfit, match=rf"permissions to access .*tarry:{{{name}/theirs}}:\w+$"):
                await world.topic("theirs").add(1)

        perform(Environment(client_kind, url, name).run_story(adds))


def test_permission_checks_never_crash_the_server(own_server: Callable[..., ServerProcess]) -> None:
    """A server answers what a user may not do, and stands: an incomplete question would be the end of it."""
    running = own_server(port=True)
    host, port = running.address
    for rule in ("~*", "~other:*", "~tarry:*", "%R~tarry:*", "resetkeys"):
        assert (
            running.ask("ACL", "SETUSER", "odd", "reset", "on", ">secret", rule, "-@all", "+eval", "+evalsha") == b"OK"
        )
        with tarry.Client(f"redis://odd:secret@{host}:{port}") as client, pytest.raises(tarry.ServerUnfit):
            client.topic("orders").add(1)
        assert running.alive


@pytest.mark.otherserver
@pytest.mark.parametrize("hears", ["", "+subscribe &+try-failover &+switch-master"])
def test_sentinels_may_have_users_of_their_own(request: pytest.FixtureRequest, hears: str) -> None:
    sentinel_group = request.getfixturevalue("constellation")("sentinels of valkey")
    name = f"shop-s{len(hears)}"
    line = rules("all", name)
    told = "-@all +sentinel|masters +auth +hello".split()
    try:
        for server in sentinel_group.data:
            assert server.ask("ACL", "SETUSER", "shop-s", "reset", *line) == b"OK"
        for watcher in sentinel_group.watchers:
            assert watcher.ask("ACL", "SETUSER", "looker", "reset", "on", ">seen", *told, *hears.split()) == b"OK"
        url = (
            sentinel_group.url.replace("://", "://shop-s:secret@") + "?sentinel_username=looker&sentinel_password=seen"
        )

        async def story() -> Any:
            async with tarry.AsyncClient(url, namespace=name) as client:
                await client.topic("orders").add("tea")
                return await client.pop("orders", wait=30)

        with tarry.Client(url, namespace=name) as client:
            assert client.topics() == []
            subscribed = f" sub={2 if hears else 0} "
            for watcher in sentinel_group.watchers:  # two of three are enough for a verb

                def listens(watcher: Any = watcher) -> bool:
                    rows = watcher.ask("CLIENT", "LIST").decode().splitlines()
                    return [subscribed in row for row in rows if "user=looker" in row] == [True]

                until(listens, f"a connection with{subscribed}")
        assert asyncio.run(story()).body == "tea"
    finally:
        for server in (*sentinel_group.data, *sentinel_group.watchers):
            server.ask("ACL", "DELUSER", "shop-s")
            server.ask("ACL", "DELUSER", "looker")
