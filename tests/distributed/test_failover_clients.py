"""What a client does while Sentinels fail over: it asks for the master, drops every connection to the former one, and ends its threads.

The old master takes part on purpose: it calls itself a master, and takes whatever it is given, until it is demoted some ten
seconds after the switch.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tarry
from distributed.test_failover import BOTH, ids_at, is_demoted
from faults.any_client import AnyClient
from server_groups import MASTER, Sentinels, port_of, sentinels
from tarry.connections.embedded.server_process import ServerProcess
from until import LONGEST_S, until
from warm import WarmTarry

pytestmark = [pytest.mark.otherserver, pytest.mark.slow]
HERE = Path(__file__).parent


@pytest.fixture
def sentinel_group() -> Iterator[Sentinels]:
    with sentinels() as made:
        yield made


@pytest.fixture(scope="module")
def calm_group() -> Iterator[Sentinels]:
    """For tests after which it is as before: it does not fail over because the machine is busy."""
    with sentinels() as made:
        for one in made.watchers:
            one.ask("SENTINEL", "SET", MASTER, "down-after-milliseconds", "600000")
        yield made


@BOTH
def test_a_process_stopped_during_a_failover_checks_the_master_first(
    sentinel_group: Sentinels, tarry_command: WarmTarry, kind: str
) -> None:
    """Its connection is open, and the old master would take what it sends."""
    with tarry_command.talk_to(HERE / "add_process.py", kind, sentinel_group.url) as (program, stdin, stdout):
        assert stdout.readline().strip() in ids_at(sentinel_group.master())
        program.send_signal(signal.SIGSTOP)
        with sentinel_group.switching() as switch:
            pass
        program.send_signal(signal.SIGCONT)
        print(file=stdin, flush=True)
        assert stdout.readline().strip() in ids_at(sentinel_group.master())
        assert not is_demoted(switch.old)


@BOTH
def test_a_forked_process_is_notified_of_a_failover_too(
    sentinel_group: Sentinels, tarry_command: WarmTarry, kind: str
) -> None:
    with tarry_command.talk_to(HERE / "add_process.py", kind, sentinel_group.url, "fork") as (_, stdin, stdout):
        assert stdout.readline().strip() in ids_at(sentinel_group.master())
        with sentinel_group.switching() as switch:
            pass
        print(file=stdin, flush=True)
        assert stdout.readline().strip() in ids_at(sentinel_group.master())
        assert not is_demoted(switch.old)


@BOTH
def test_without_sentinels_connections_stay_in_use_and_none_is_opened(calm_group: Sentinels, kind: str) -> None:
    any_client = AnyClient(kind, calm_group.url, None, patience=2)
    topic = any_client.topic("orders")
    until(lambda: is_added(any_client, topic))
    master = calm_group.master()
    for one in calm_group.watchers:
        one.freeze()
    try:
        any_client.call(topic, "add", "meanwhile")
        master.ask("CLIENT", "KILL", "TYPE", "normal")
        with pytest.raises(tarry.Unavailable, match="did not answer"):
            any_client.call(topic, "add", "lost")
    finally:
        for one in calm_group.watchers:
            one.resume()
        until(lambda: is_added(any_client, topic))
        any_client.close()


def is_added(any_client: AnyClient, topic: Any) -> bool:
    try:
        any_client.call(topic, "add", "after")
    except tarry.Unavailable:
        return False
    return True


@BOTH
def test_a_server_with_the_replica_role_gets_no_job(sentinel_group: Sentinels, kind: str) -> None:
    """Somebody has made it one by hand, and the Sentinels still name it."""
    master, replica = sentinel_group.data
    any_client = AnyClient(kind, sentinel_group.url, None, patience=3)  # on a busy machine the Sentinels take a second
    for one in sentinel_group.watchers:  # they would turn it back
        one.ask("SENTINEL", "SET", MASTER, "down-after-milliseconds", "600000")
    master.ask("REPLICAOF", "127.0.0.1", str(port_of(replica)))
    try:
        with pytest.raises(tarry.Unavailable, match="it is a replica; waiting for its master"):
            any_client.call(any_client.topic("orders"), "add", "tea")
        assert not ids_at(master)
    finally:
        any_client.close()


@BOTH
def test_a_closed_client_leaves_no_thread(calm_group: Sentinels, kind: str) -> None:
    before = subscriber_threads()
    any_client = AnyClient(kind, calm_group.url, None)
    any_client.call(any_client.topic("orders"), "add", "tea")
    assert len(subscriber_threads() - before) == 3
    any_client.close()
    until(lambda: subscriber_threads() <= before)


def subscriber_threads() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name == "tarry-sentinel"}


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_client_moves_between_event_loops_across_a_failover(sentinel_group: Sentinels) -> None:
    client = tarry.AsyncClient(sentinel_group.url)

    async def add() -> str:
        return (await client.topic("orders").add("tea")).id

    async def end() -> str:
        async with client:
            return await add()

    assert asyncio.run(add()) in ids_at(sentinel_group.master())
    with sentinel_group.switching() as switch:
        pass
    assert asyncio.run(add()) in ids_at(sentinel_group.master())
    assert asyncio.run(end()) in ids_at(sentinel_group.master())
    assert not is_demoted(switch.old)
    gc.collect()  # of the loops that ended with their connections open


@BOTH
def test_every_connection_to_the_old_master_is_dropped(
    sentinel_group: Sentinels, tarry_command: WarmTarry, kind: str
) -> None:
    """Clients that wait for jobs and for elements, that listen, and that are idle; long before the old master is demoted."""
    with tarry_command.talk_to(HERE / "connected_process.py", kind, sentinel_group.url) as (program, stdin, stdout):
        assert stdout.readline() == "ready\n"
        until(
            lambda: {"blpop", "subscribe", "llen"} <= last_words(sentinel_group.master())
        )  # they wait, listen and are idle
        assert len(last_words(sentinel_group.master())) > 3
        with sentinel_group.switching() as switch:
            pass
        until(lambda: not last_words(switch.old))
        assert not is_demoted(switch.old)
        with tarry.Client(sentinel_group.url) as client:
            until(lambda: "subscribe" in last_words(sentinel_group.master()))
            for topic in ("blocked", "heard"):
                client.topic(topic).add("tea")
            client.blocking_queue("elements").put("milk")
            client.map_cache("things").put("cup", 1)
        said = {stdout.readline() for _ in range(4)}
        assert said == {"blocked tea\n", "heard tea\n", "taken milk\n", "told cup\n"}
        stdin.close()
        assert program.wait(LONGEST_S) == 0


def last_words(server: ServerProcess) -> set[str]:
    """The last command of each of its clients that is tarry's."""
    try:
        rows = server.ask("CLIENT", "LIST")
    except OSError:  # it drops its clients in that very moment
        return {"?"}
    assert isinstance(rows, bytes)
    fields = [dict(word.partition("=")[::2] for word in row.split()) for row in rows.decode().splitlines()]
    return {row["cmd"] for row in fields if row.get("name") == "tarry"}
