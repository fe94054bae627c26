"""Locks on Redis when something breaks: killed, frozen, cut off, restarted. Real servers, real processes."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from faults.proxy import CUTS, DONE, SILENT, UNSENT, Proxy
from locks.conftest import redis_client
from locks.holder_process import HolderProcess
from locks.lock_nodes import lock_channel, lock_key
from locks.lock_users import LockUsers
from tarry.connections import clock, sentinels
from tarry.connections.embedded.server_process import ServerProcess
from tarry.errors import LockLost, Unavailable
from until import LONGEST_S, until


@pytest.mark.slow
def test_a_killed_holders_lock_is_free_when_its_lease_ends(
    start_holder: Callable[..., HolderProcess], lock_users: LockUsers, valkey_url: str, name: str
) -> None:
    holder = start_holder("redis", valkey_url, name, "0.5")
    holder.signal(signal.SIGKILL)
    grant = lock_users.user().call(lock_users.client().lock(name).acquire, wait=10)
    assert grant.token > holder.token


@pytest.mark.slow
def test_a_frozen_holder_has_lost_the_lock_when_it_resumes(
    start_holder: Callable[..., HolderProcess], lock_users: LockUsers, valkey_url: str, name: str
) -> None:
    holder = start_holder("redis", valkey_url, name, "0.4")
    holder.signal(signal.SIGSTOP)
    user = lock_users.user()
    grant = user.call(lock_users.client().lock(name).acquire, wait=10)
    assert grant.token > holder.token
    holder.signal(signal.SIGCONT)
    assert holder.read_line() == "lost True"
    assert holder.say("check") == "lock_lost"
    assert holder.say("release") == "lock_lost"
    user.call(grant.check)
    user.call(grant.release)


@pytest.mark.parametrize("cut", CUTS)
def test_an_acquire_is_repeated_after_a_cut_connection(
    lock_users: LockUsers, server: Any, proxy: Proxy, name: str, cut: str
) -> None:
    user, client = lock_users.user(), lock_users.client(proxy.url())
    user.call(client.lock("before " + name).state)
    proxy.arm(cut, at=b"30000")
    grant = user.call(client.lock(name).acquire)
    assert proxy.struck == 1
    assert list(server.hgetall(lock_key(name)).values()) == [b"1"]
    user.call(grant.check)
    user.call(grant.release)
    assert not server.exists(lock_key(name))


@pytest.mark.parametrize("cut", CUTS)
def test_a_release_is_repeated_after_a_cut_connection(
    lock_users: LockUsers, server: Any, proxy: Proxy, name: str, cut: str
) -> None:
    user, client = lock_users.user(), lock_users.client(proxy.url())
    grant = user.call(client.lock(name).acquire)
    user.call(client.lock(name).acquire)
    proxy.arm(cut, cut)
    user.call(client.lock(name).release)
    user.call(grant.check)
    user.call(grant.release)
    assert proxy.struck == 2
    assert not server.exists(lock_key(name))


@pytest.mark.parametrize("cut", DONE)
def test_an_acquire_with_a_lost_answer_leaves_no_lock_behind(
    lock_users: LockUsers, server: Any, proxy: Proxy, name: str, cut: str
) -> None:
    """The acquire is given up; what it left on the server is removed, though its own lease is 30 s."""
    waits_s = 1 if cut in SILENT else LONGEST_S  # for an answer
    user, client = lock_users.user(), lock_users.client(proxy.url(socket_timeout=waits_s), patience=0.01)

    def is_connected() -> bool:
        with suppress(Unavailable):  # a busy machine may not answer in a second
            user.call(client.lock("before " + name).acquire, wait=0)
            return True
        return False

    until(is_connected)
    proxy.arm(cut, UNSENT, at=b"30000")
    with pytest.raises(Unavailable):
        user.call(client.lock(name).acquire)
    assert lock_users.user().call(lock_users.client().lock(name).acquire, wait=10) is not None


@pytest.mark.slow
def test_a_failed_release_is_completed_later(lock_users: LockUsers, server: Any, proxy: Proxy, name: str) -> None:
    user, client = lock_users.user(), lock_users.client(proxy.url(), patience=0.01)
    grant = user.call(client.lock(name).acquire)
    proxy.refusing = True
    proxy.cut_all()
    with pytest.raises(Unavailable):
        user.call(grant.release)
    assert grant.remaining == timedelta(0), "who gave it back has it no more, whatever the server knows"
    assert server.exists(lock_key(name))
    proxy.refusing = False
    assert lock_users.user().call(lock_users.client().lock(name).acquire, wait=10) is not None


def test_a_connection_cut_while_waiting_is_reopened(proxy: Proxy, lock_users: LockUsers, name: str) -> None:
    first, second = lock_users.user(), lock_users.user()
    grant = first.call(lock_users.client().lock(name).acquire)
    waiting = second.begin(lock_users.client(proxy.url()).lock(name).acquire)
    until(lambda: proxy.met >= 2)  # the second line listens
    proxy.cut_all()
    until(lambda: proxy.met >= 3)
    first.call(grant.release)
    assert waiting.result(9).token > grant.token  # not by a look around, which comes after ten seconds


@pytest.mark.slow
def test_a_disconnected_holder_keeps_the_lock_during_its_lease(lock_users: LockUsers, proxy: Proxy, name: str) -> None:
    user = lock_users.user()
    client = lock_users.client(proxy.url(), patience=1)
    grant = user.call(client.lock(name).acquire)
    proxy.cut_all()
    user.call(grant.check)
    proxy.refusing = True
    proxy.cut_all()
    with pytest.raises(Unavailable):
        user.call(grant.check)
    assert not grant.lost.is_set()
    proxy.refusing = False
    user.call(grant.release)


def test_the_watchdog_renews_all_locks_in_one_pipeline(
    lock_users: LockUsers, server: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for client_kind in ("blocking", "awaited"):
        monkeypatch.setattr(f"tarry.clients.{client_kind}.lock_watchdog.RENEWED_EVERY_S", 0.1)
        monkeypatch.setattr(f"tarry.clients.{client_kind}.lock_watchdog.LONGEST_SLEEP_S", 0.1)
    user, client = lock_users.user(), lock_users.client()
    grants = [user.call(client.lock(f"{name} {i}").acquire) for i in range(20)]
    for i in range(20):
        server.pexpire(lock_key(f"{name} {i}"), 5000)
    until(lambda: min(server.pttl(lock_key(f"{name} {i}")) for i in range(20)) > 20_000)
    server.delete(lock_key(f"{name} 7"))
    assert user.call(grants[7].lost.wait, 10)
    assert [grant.lost.is_set() for grant in grants].count(True) == 1


def test_a_watchdog_without_answers_reports_the_loss_in_time(
    lock_users: LockUsers, proxy: Proxy, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tarry.verbs.locks.redis_backend.WATCHDOG_MS", 400)
    user, client = lock_users.user(), lock_users.client(proxy.url(socket_timeout=0.2), patience=0.01)
    grant = None
    while grant is None:  # a busy machine may not answer in 0.2 s
        with suppress(Unavailable):
            grant = user.call(client.lock(name).acquire)
    proxy.refusing = True
    proxy.cut_all()
    assert user.call(grant.lost.wait, 5)
    proxy.refusing = False
    with pytest.raises(LockLost):
        user.call(grant.check)


@pytest.mark.parametrize("client_kind", ["sync", "async"])
def test_a_server_restart_without_data_is_noticed(
    own_server: Callable[..., ServerProcess], name: str, client_kind: str
) -> None:
    server = own_server()
    lock_users = LockUsers(client_kind, redis_client(server.url))
    try:
        user, other, client = lock_users.user(), lock_users.user(), lock_users.client()
        grant = user.call(client.lock(name).acquire)
        waiting = other.begin(lock_users.client().lock(name).acquire, wait=20)
        until(lambda: user.call(client.lock(name).state).waiting)
        server.kill()  # nothing is saved
        server.restart()
        assert waiting.result(9).token > grant.token  # who waits is told that it may have missed a word
        other.call(waiting.result().release)
        with pytest.raises(LockLost):
            user.call(grant.check)
        assert user.call(client.lock(name).acquire).token > grant.token
    finally:
        lock_users.close()


@pytest.mark.slow
@pytest.mark.parametrize("waiters", [60, pytest.param(200, marks=pytest.mark.long)])
def test_many_waiters_each_get_the_lock_once(
    lock_users: LockUsers, server: Any, name: str, monkeypatch: pytest.MonkeyPatch, waiters: int
) -> None:
    monkeypatch.setattr("tarry.verbs.locks.redis_backend.WATCHDOG_MS", 600_000)
    for client_kind in ("blocking", "awaited"):  # a renewal would be counted, too
        monkeypatch.setattr(f"tarry.clients.{client_kind}.lock_watchdog.RENEWED_EVERY_S", 300.0)
    clients = [lock_users.client() for _ in range(4)]
    first = lock_users.user()
    grant = first.call(clients[0].lock(name).acquire)
    hands = [lock_users.user() for _ in range(waiters)]
    served: list[int] = []

    def work(lock: Any) -> None:
        with lock as held:
            served.append(held.token)

    async def work_async(lock: Any) -> None:
        async with lock as held:
            served.append(held.token)

    chosen = work if lock_users.client_kind == "sync" else work_async
    waiting = [user.begin(chosen, clients[i % 4].lock(name)) for i, user in enumerate(hands)]
    channel = lock_channel(name)
    until(
        lambda: server.pubsub_numsub(channel)[0][1] == 4
    )  # three wait; the holder's own are behind him, who listens too
    until(lambda: calls(server) == (time.sleep(0.1) or calls(server)))  # and has asked once since
    before = calls(server)
    time.sleep(0.3)
    assert calls(server) == before  # who waits asks nothing
    first.call(grant.release)
    for done in waiting:
        done.result(LONGEST_S)
    assert len(served) == waiters
    assert served == sorted(set(served))
    assert served[0] > grant.token
    each = (calls(server) - before) / waiters
    assert each < 8, each  # 2 for its own, and one of each process that waits at a release


def calls(server: Any) -> int:
    found = server.info("commandstats")
    return sum(found.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("evalsha", "eval", "subscribe"))


def test_a_forked_child_does_not_hold_its_parents_lock(valkey_url: str, name: str, python_command: Path) -> None:
    code = f"""
import os, tarry
client = tarry.Client({valkey_url!r})
lock = client.lock({name!r})
with lock as grant:
    if os.fork() == 0:
        told = [lock.held(), lock.acquire(wait=0)]
        for verb in (grant.check, grant.release):
            try: verb()
            except tarry.LockLost as fault: told.append(fault.code)
        print(told, flush=True)
        os._exit(0)
    os.wait()
    grant.check()
print("released", flush=True)
"""
    words = [python_command, "-c", code]
    told = subprocess.run(words, check=False, capture_output=True, text=True, timeout=LONGEST_S)
    assert told.stdout.splitlines() == ["[False, None, 'lock_lost', 'lock_lost']", "released"], told.stderr


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="the system has no clock that goes on during suspend")
@pytest.mark.parametrize("client_kind", ["sync", "async"])
def test_a_lease_ends_while_the_machine_is_suspended(
    valkey_url: str, name: str, client_kind: str, python_command: Path
) -> None:
    """During suspend ``CLOCK_BOOTTIME`` goes on, ``CLOCK_MONOTONIC`` does not."""
    code = f"""
import asyncio, inspect, time, tarry
clock_gettime, suspended_s = time.clock_gettime, 0
time.clock_gettime = lambda clock: clock_gettime(clock) + (suspended_s if clock == time.CLOCK_BOOTTIME else 0)

async def main():
    global suspended_s
    async def call(verb, *given, **named):
        answer = verb(*given, **named)
        return await answer if inspect.isawaitable(answer) else answer
    client = tarry.{"Client" if client_kind == "sync" else "AsyncClient"}({valkey_url!r})
    grant = await call(client.lock({name!r}).acquire, lease=60)
    print(grant.lost.is_set())
    suspended_s = 61
    print(grant.lost.is_set(), grant.remaining, await call(grant.lost.wait))
    try: await call(grant.check)
    except tarry.LockLost as fault: print(fault.code)
    await call(client.close)

asyncio.run(main())
"""
    words = [python_command, "-c", code]
    told = subprocess.run(words, check=False, capture_output=True, text=True, timeout=LONGEST_S)
    assert told.stdout.splitlines() == ["False", "True 0:00:00 True", "lock_lost"], told.stderr


def test_leases_and_sentinels_have_one_clock(lock_users: LockUsers, name: str) -> None:
    lock = lock_users.client().lock(name)
    assert lock_users.user().call(lambda: lock._locks().table.now) is sentinels.now is clock.now


@pytest.mark.otherserver
@pytest.mark.parametrize("client_kind", ["sync", "async"])
def test_locks_work_on_a_cluster(cluster_nodes: list[tuple[str, int]], name: str, client_kind: str) -> None:
    url = "redis+cluster://" + ",".join(f"{host}:{port}" for host, port in cluster_nodes)
    lock_users = LockUsers(client_kind, redis_client(url))
    try:
        first, second = lock_users.user(), lock_users.user()
        one, other = lock_users.client(), lock_users.client()
        for i in range(6):
            grant = first.call(one.lock(f"{name} {i}").acquire)
            waiting = second.begin(other.lock(f"{name} {i}").acquire, wait=9)
            time.sleep(0.05)
            first.call(grant.release)
            assert waiting.result(9).token > grant.token
            second.call(waiting.result().release)
    finally:
        lock_users.close()
