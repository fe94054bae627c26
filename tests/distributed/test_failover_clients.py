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
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import tarry
from distributed.test_failover import ids_at, is_demoted
from faults.any_client import KINDS, AnyClient
from server_groups import MASTER, Sentinels, port_of, sentinels
from tarry.connections.embedded.server_process import ServerProcess
from until import LONGEST_S, until
from warm import WarmTarry

pytestmark = [pytest.mark.otherserver, pytest.mark.slow]
HERE = Path(__file__).parent
BOTH = pytest.mark.parametrize("kind", KINDS)


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


def test_processes_that_are_stopped_or_forked_add_to_the_new_master(
    sentinel_group: Sentinels, tarry_command: WarmTarry
) -> None:
    """The connection of one that was stopped during the fail-over is open, and the old master would take what it sends; one that
    has forked is notified as its parent is."""
    with ExitStack() as stack:
        started = {
            (kind, *fork): stack.enter_context(
                tarry_command.talk_to(HERE / "add_process.py", kind, sentinel_group.url, *fork)
            )
            for kind in KINDS
            for fork in ([], ["fork"])
        }
        for which, (_, _, stdout) in started.items():
            assert stdout.readline().strip() in ids_at(sentinel_group.master()), which
        stopped = [program for which, (program, _, _) in started.items() if "fork" not in which]
        for program in stopped:
            program.send_signal(signal.SIGSTOP)
        with sentinel_group.switching() as switch:
            pass
        for program in stopped:
            program.send_signal(signal.SIGCONT)
        for which, (_, stdin, stdout) in started.items():
            print(file=stdin, flush=True)
            assert stdout.readline().strip() in ids_at(sentinel_group.master()), which
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


def test_a_server_with_the_replica_role_gets_no_job(sentinel_group: Sentinels) -> None:
    """Somebody has made it one by hand, and the Sentinels still name it."""
    master, replica = sentinel_group.data
    # on a busy machine the Sentinels take a second
    clients = [AnyClient(kind, sentinel_group.url, None, patience=3) for kind in KINDS]
    for one in sentinel_group.watchers:  # they would turn it back
        one.ask("SENTINEL", "SET", MASTER, "down-after-milliseconds", "600000")
    master.ask("REPLICAOF", "127.0.0.1", str(port_of(replica)))
    try:
        for any_client in clients:
            with pytest.raises(tarry.Unavailable, match="it is a replica; waiting for its master"):
                any_client.call(any_client.topic("orders"), "add", "tea")
            assert not ids_at(master)
    finally:
        for any_client in clients:
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
