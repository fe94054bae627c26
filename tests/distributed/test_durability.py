"""An add that is answered only when a replica, or the disk, has it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

import servers
import tarry
from server_groups import ask_fields, port_of, until
from tarry.connections.embedded.server_process import ServerProcess
from tarry.core.requests import Batch, CannotConfirm
from tarry.programs.cli import REFUSED, exit_code
from tarry.verbs.jobs import add, durability
from tarry.verbs.jobs.durability import confirmation_for, with_durability
from tarry.verbs.jobs.options import JobOptions


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """A master and its replica."""
    binary, ports = servers.valkey_binary(), servers.free_ports(2)
    with servers.server(binary, port=ports[0], options=("--repl-diskless-sync-delay", "0")) as master:
        follow = ("--replicaof", f"127.0.0.1 {ports[0]}")
        with servers.server(binary, port=ports[1], options=follow) as replica:
            until("a replica", lambda: "state=online" in ask_fields(master, "INFO", "replication").get("slave0", ""))
            yield master, replica


def url_of(running: ServerProcess) -> str:
    return f"redis://127.0.0.1:{port_of(running)}/0"


@pytest.mark.slow
def test_a_replicated_add_is_on_the_replica_when_it_returns(pair: Any) -> None:
    master, replica = pair
    with tarry.Client(url_of(master), namespace="one") as client:
        topic = client.topic("orders")
        for n in range(20):
            topic.add(n, delay="1h", durability="replicated")
            assert replica.ask("HLEN", topic.verbs.keys.jobs.decode()) == n + 1
        topic.add_many(range(2500), delay="1h", durability=1)
        assert replica.ask("HLEN", topic.verbs.keys.jobs.decode()) == 2520


@pytest.mark.slow
def test_many_async_adds_are_confirmed_together(pair: Any) -> None:
    master, replica = pair

    async def story() -> tarry.Stats:
        async with tarry.AsyncClient(url_of(master), namespace="many") as client:
            topic = client.topic("orders")
            adds = [topic.add(n, delay="1h", durability="replicated") for n in range(500)]
            await asyncio.gather(
                *adds, topic.add("plain", delay="1h"), topic.add_many(["a", "b", "c"], delay="1h", durability=1)
            )
            assert replica.ask("HLEN", topic.verbs.keys.jobs.decode()) in (503, 504)
            return await topic.stats()

    before = waits(master)
    assert asyncio.run(story()).delayed == 504
    assert waits(master) - before < 20, "those that leave together are confirmed together"


def test_partitions_of_one_server_are_confirmed_together(pair: Any, kind: str, make_client: Any) -> None:
    master, replica = pair
    any_client = make_client(kind, url_of(master), imaginary=False, namespace=f"parts-{kind}")
    topic = any_client.client.topic("orders", partitions=8)
    any_client.call(topic, "add_many", ["warm"], durability=1)
    before = waits(master)
    any_client.call(topic, "add_many", range(200), delay="1h", durability=1)
    assert waits(master) == before + 1
    parts = any_client.call(any_client.client.engine, "run", topic.verbs.partitions())
    assert sum(replica.ask("HLEN", part.keys.jobs.decode()) for part in parts) == 201


def waits(server: ServerProcess) -> int:
    row = ask_fields(server, "INFO", "commandstats").get("cmdstat_wait", "calls=0,")
    return int(row.partition(",")[0].removeprefix("calls="))


@pytest.mark.parametrize("durability", ["replicated", "fsynced"])
def test_a_demoted_master_raises_unavailable_not_server_unfit(
    pair: Any, durability: Any, kind: str, make_client: Any
) -> None:
    """It is asked for nothing that only a master confirms, but where the master is."""
    _, replica = pair
    any_client = make_client(kind, url_of(replica), imaginary=False, patience=0.05)
    call = with_durability(add.add_job(any_client.topic("orders").verbs.context, "tea"), durability)
    with pytest.raises(tarry.Unavailable, match="it is a replica, which takes no writes"):
        any_client.call(any_client.client.engine.runner, "perform", call)


@pytest.mark.slow
def test_too_few_replicas_raise_unconfirmed_and_keep_the_job(pair: Any) -> None:
    master, _ = pair

    async def awaited(client: tarry.AsyncClient) -> None:
        async with client:
            await client.topic("orders").add("jam", durability=2)

    with tarry.Client(url_of(master), namespace="few") as client:
        with pytest.raises(tarry.Unconfirmed, match="1 of 2 replicas"):
            client.topic("orders").add("tea", durability=2)
        with pytest.raises(tarry.Unconfirmed, match="1 of 2 replicas"):
            asyncio.run(awaited(tarry.AsyncClient(url_of(master), namespace="few")))
        assert client.topic("orders").stats().ready == 2


def test_many_that_are_added_once_are_confirmed_too(valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durability, "WITHIN_MS", 20)  # no replica comes, however long it waits
    confirmation_for.cache_clear()
    with tarry.Client(valkey_url, namespace="once") as client:
        topic = client.topic("orders")
        topic.configure(keep_finished="1d")
        with pytest.raises(tarry.Unconfirmed, match="0 of 1 replicas"):
            topic.add_many([tarry.NewJob("tea", id="7")], if_exists="once", durability=1)
    confirmation_for.cache_clear()


@pytest.mark.parametrize("many", [False, True], ids=["add", "add_many"])
def test_a_loop_that_repeats_what_was_unavailable_adds_no_job_twice(
    valkey_url: str, kind: str, make_client: Any, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Unavailable` is safe to repeat, and `Unconfirmed` is not."""
    monkeypatch.setattr(durability, "WITHIN_MS", 20)  # no replica comes, however long it waits
    confirmation_for.cache_clear()
    any_client = make_client(kind, valkey_url, namespace=f"loop-{kind}-{many}")
    topic = any_client.topic("orders")
    verb, given, added = ("add_many", range(3), 3) if many else ("add", "tea", 1)

    def loop() -> None:
        for _ in range(3):
            with suppress(tarry.Unavailable, ConnectionError):
                any_client.call(topic, verb, given, durability="replicated")

    with pytest.raises(tarry.Unconfirmed, match="Do not add it again") as told:
        loop()
    confirmation_for.cache_clear()
    assert exit_code(told.value) == REFUSED
    assert not isinstance(told.value, ConnectionError)
    assert told.value.done == 0
    assert any_client.call(topic, "stats").added == added


@servers.ON_BOTH
def test_an_fsynced_add_is_on_disk_when_it_returns(own_server: Callable[..., ServerProcess]) -> None:
    running = own_server(appendonly="yes", appendfsync="everysec")
    with tarry.Client(running.url) as client:
        client.topic("orders").add("tea", delay="1h", durability="fsynced")
        running.kill()
        running.restart()
        assert client.topic("orders").stats().delayed == 1


@servers.ON_BOTH
def test_a_server_without_an_aof_refuses_an_fsynced_add(
    own_server: Callable[..., ServerProcess], kind: str, make_client: Any
) -> None:
    running = own_server()
    any_client = make_client(kind, running.url, imaginary=False)
    topic = any_client.topic("orders")
    for verb, given in (("add", "tea"), ("add_many", ["milk", "jam"])):
        with pytest.raises(tarry.ServerUnfit, match=r"^Nothing was added: .*`appendonly yes`.*WAITAOF"):
            any_client.call(topic, verb, given, durability="fsynced")
    assert any_client.call(topic, "stats").added == 0
    running.ask("CONFIG", "SET", "appendonly", "yes")
    any_client.call(topic, "add", "tea", durability="fsynced")  # as soon as it can


def test_a_refusal_after_the_add_raises_unconfirmed(
    own_server: Callable[..., ServerProcess], kind: str, make_client: Any
) -> None:
    running = own_server(appendonly="yes")
    any_client = make_client(kind, running.url, imaginary=False)
    topic = any_client.topic("orders")
    any_client.call(topic, "add", "tea", durability="fsynced")
    running.ask("CONFIG", "SET", "appendonly", "no")
    with pytest.raises(tarry.Unconfirmed, match=r"Added, but this server cannot confirm it: .*WAITAOF"):
        any_client.call(topic, "add", "milk", durability="fsynced")
    with pytest.raises(tarry.ServerUnfit, match="Nothing was added"):
        any_client.call(topic, "add", "jam", durability="fsynced")
    assert any_client.call(topic, "stats").added == 2


@pytest.mark.parametrize(("durability", "lacks"), [("fsynced", "waitaof"), (1, "wait")])
def test_a_user_without_wait_permission_adds_nothing(
    own_server: Callable[..., ServerProcess], kind: str, make_client: Any, durability: Any, lacks: str
) -> None:
    running = own_server(appendonly="yes")
    rules = ["on", ">secret", "~*", "&*", "+@all", f"-{lacks}"]
    running.ask("ACL", "SETUSER", "shop", *rules)
    any_client = make_client(kind, running.url.replace("unix://", "unix://shop:secret@"), imaginary=False)
    topic = any_client.topic("orders")
    with pytest.raises(tarry.ServerUnfit, match=rf"^Nothing was added: .*`\+{lacks}`.*'{lacks}'"):
        any_client.call(topic, "add", "tea", durability=durability)
    assert any_client.call(topic, "stats").added == 0


@pytest.mark.otherserver
@pytest.mark.parametrize("place", ["redis6_url", "redis7_url"])
def test_a_server_without_waitaof_gets_no_job(
    request: pytest.FixtureRequest, place: str, kind: str, make_client: Any
) -> None:
    any_client = make_client(kind, request.getfixturevalue(place), imaginary=False, namespace=f"older-{kind}")
    topic = any_client.topic("orders")
    with pytest.raises(tarry.ServerUnfit, match=r"^Nothing was added: .*needs Valkey or Redis 7\.2"):
        any_client.call(topic, "add", "tea", durability="fsynced")
    assert any_client.call(topic, "stats").added == 0


def test_an_add_that_only_one_server_confirmed_raises_added_in_part(
    own_server: Callable[..., ServerProcess],
) -> None:
    running = own_server(appendonly="yes")
    with tarry.Client(running.url) as client:
        topic = client.topic("orders", partitions=8)
        topic.stats()

        def first_then_never(step: Any) -> Any:
            if not isinstance(step, Batch):
                return client.engine.runner.perform_step(step)
            first, *rest = step.requests
            return [client.engine.runner.perform(first), *[CannotConfirm("it cannot.") for _ in rest]]  # another node's

        flow: Any = topic.verbs.add_many(range(50), JobOptions(durability="fsynced"), atomic=False)
        with pytest.raises(tarry.Unconfirmed, match="Added in part: it cannot") as refused:
            client.engine.runner.run(flow, first_then_never)
        assert topic.stats().added == refused.value.done > 0


@pytest.mark.parametrize("patience", [0, pytest.param(10, marks=pytest.mark.slow)])
def test_an_aborted_confirmation_is_repeated_and_adds_nothing_twice(
    own_server: Callable[..., ServerProcess],
    kind: str,
    make_client: Any,
    patience: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a server does to all waiting connections when it becomes a replica."""
    monkeypatch.setattr(durability, "WITHIN_MS", 60_000)  # no confirmation ends by itself
    confirmation_for.cache_clear()
    running = own_server()
    any_client = make_client(kind, running.url, imaginary=False, patience=patience)
    topic = any_client.topic("orders")

    any_client.call(topic, "add_many", ["milk"])  # and the server knows the script

    def waits() -> bytes:
        found = running.ask("CLIENT", "LIST")
        assert isinstance(found, bytes)
        return next((line.split()[0][3:] for line in found.splitlines() if b" cmd=wait " in line), b"")

    def end_wait(how: str) -> None:
        until(how, lambda: waits() != b"" and running.ask("CLIENT", "UNBLOCK", waits().decode(), how) == 1)

    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(any_client.call, topic, "add", "tea", id="tea", durability=7)
        end_wait("ERROR")
        if patience:  # it asks again
            end_wait("TIMEOUT")
        with pytest.raises(
            tarry.Unconfirmed, match="Added, but 0 of 7" if patience else "Added, but it was not confirmed"
        ):
            answer.result()
    assert any_client.call(topic, "stats").added == 2
    confirmation_for.cache_clear()


@pytest.mark.parametrize("wrong", ["sure", 0, -1, True, 1.5, 101, "2"])
def test_an_invalid_durability_is_refused(valkey_url: str, wrong: Any) -> None:
    with tarry.Client(valkey_url, namespace="refused") as client, pytest.raises(tarry.BadInput, match="durability"):
        client.topic("orders").add("tea", durability=wrong)
    with pytest.raises(tarry.BadInput):
        confirmation_for(wrong)
