"""What a worker held that was killed with -9, parent and all, is handed out again at once, not after its TTR of hours."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import servers
from faults.proxy import UNSENT, Proxy
from tarry.connections.embedded.server_process import ServerProcess
from tarry.values.keys import holder_channel
from tarry.verbs import acl
from tarry.verbs.liveness import WITHDRAW
from until import until
from warm import WarmProcess, WarmTarry
from worker.killed_workers import Scene, kill_all_of

pytestmark = pytest.mark.slow


@pytest.fixture
def scene(valkey_url: str, namespace: str, tmp_path: Path, tarry_command: WarmTarry) -> Iterator[Scene]:
    made = Scene(valkey_url, namespace, tmp_path, tarry_command)
    yield made
    made.close()


@pytest.fixture
def own_scene(
    own_server: Callable[..., ServerProcess], namespace: str, tmp_path: Path, tarry_command: WarmTarry
) -> Iterator[tuple[Scene, ServerProcess]]:
    running = own_server(appendonly="yes", appendfsync="always")
    made = Scene(running.url, namespace, tmp_path, tarry_command)
    yield made, running
    made.close()


def blocked(scene: Scene) -> list[str]:
    """The connections that are blocked."""
    return [row["id"] for row in scene.raw.client_list() if "b" in row["flags"]]


def hold_in(scene: Scene, worker: WarmProcess) -> None:
    """Adds jobs until this worker has one, and has said so."""
    while scene.journal()[-1:] == [] or int(scene.journal()[-1][2]) != worker.pid:
        scene.hold()
    until(lambda: channel_of(scene, worker), "it said that it holds a job")


def channel_of(scene: Scene, worker: WarmProcess) -> bytes:
    """The channel of a worker that has said that it holds jobs; else nothing."""
    names = [name for name in scene.raw.zrange(scene.keys.busy, 0, -1) if int(name.split(b":")[1]) == worker.pid]
    return holder_channel(scene.namespace, names[0]) if names else b""


@pytest.mark.parametrize("topic", ["orders", "plain"])
@pytest.mark.parametrize("processes", [1, 3])
def test_the_jobs_of_a_killed_worker_go_to_another_one(scene: Scene, topic: str, processes: int) -> None:
    """Promise: When a worker is killed; No process is special."""
    victim = scene.start_known("--processes", str(processes), processes=processes)
    scene.hold(topic=topic)
    other = scene.start_known()
    kill_all_of(scene, victim, processes)
    until(lambda: len(scene.journal()) == 2, "taken by the other one")
    first, second = scene.journal()
    assert (first[:2], second[:2]) == ([first[0], "1"], [first[0], "2"]), "the attempt counts: a job may have killed it"
    assert int(second[2]) == other.pid
    assert scene.client.topic(topic).check().ok
    until(lambda: [info.pid for info in scene.client.workers()] == [other.pid], "it is not listed any more")
    until(lambda: "is gone; 1 of its jobs released" in scene.log(other), "it says so")


def test_a_worker_that_starts_afterwards_gets_them(scene: Scene) -> None:
    victim = scene.start_known()
    scene.hold()
    kill_all_of(scene, victim)
    victim.wait()
    scene.start()
    until(lambda: len(scene.journal()) == 2, "taken by one that did not see it alive")


def test_a_job_that_kills_one_worker_after_the_other_is_given_on(scene: Scene) -> None:
    """Its handler ends the process with its first statement: what the worker says before must be on its way."""
    for _ in range(3):
        scene.start_known()
    scene.client.topic("orders").add("poison", id="7")
    until(lambda: scene.journal("closed") == [["7"]], "closed in the third attempt")
    assert sorted(attempt for _, attempt, _ in scene.journal()) == ["1", "2", "3"]


def test_a_frozen_worker_keeps_its_jobs(scene: Scene) -> None:
    """Its connection is there: only its TTR takes them from it.

    Promise: When a worker is killed.
    """
    scene.start_known()
    frozen = scene.start_known()
    while scene.journal()[-1:] == [] or int(scene.journal()[-1][2]) != frozen.pid:
        scene.hold("slow")
    frozen.send_signal(signal.SIGSTOP)
    taken = len(scene.journal())
    scene.until_looked()
    assert len(scene.journal()) == taken
    frozen.send_signal(signal.SIGCONT)
    until(lambda: len(scene.journal("closed")) == taken, "closed")
    assert {attempt for _, attempt, _ in scene.journal()} == {"1"}


def test_a_worker_that_stands_still_while_its_subscription_ends_keeps_its_jobs(scene: Scene) -> None:
    """As one whose handler holds the interpreter's lock: it can neither subscribe again nor say anything, but its connections are open."""
    scene.start_known()
    frozen = scene.start_known()
    hold_in(scene, frozen)
    taken, channel = len(scene.journal()), channel_of(scene, frozen)
    frozen.send_signal(signal.SIGSTOP)
    scene.raw.client_kill_filter(_type="pubsub")
    until(lambda: not channel_of(scene, frozen), "it was asked, and the server gave the token to its connection")
    frozen.send_signal(signal.SIGCONT)
    until(lambda: scene.raw.pubsub_numsub(channel)[0][1], "subscribed again")
    until(lambda: channel_of(scene, frozen), "it said so")
    scene.until_looked()
    assert len(scene.journal()) == taken


@pytest.mark.parametrize("ends_all", [False, True], ids=["its subscription", "all that wait"])
def test_a_worker_whose_connections_end_without_its_notice_keeps_its_jobs(
    own_scene: tuple[Scene, ServerProcess], tmp_path: Path, ends_all: bool
) -> None:
    """Its handler runs for long, so it neither pops nor finishes nor renews: only what it asks by itself shows that it lives."""
    scene, running = own_scene
    proxy = Proxy(tmp_path, running.address)
    try:
        scene.start_known()
        half = scene.start_known(TARRY_URL=proxy.url())
        hold_in(scene, half)
        taken, channel = len(scene.journal()), channel_of(scene, half)
        proxy.half_open = True
        for _ in range(3):
            for client in blocked(scene) if ends_all else ():
                scene.raw.client_kill_filter(_id=client)
            scene.raw.client_kill_filter(_type="pubsub")
            until(lambda: scene.raw.pubsub_numsub(channel)[0][1], "it was asked, and has subscribed again")
        scene.until_looked()
        assert len(scene.journal()) == taken
    finally:
        proxy.close()


def test_a_worker_can_soon_be_asked_again_when_the_connection_for_it_has_ended(
    own_scene: tuple[Scene, ServerProcess],
) -> None:
    """Else it would be overtaken if its subscription ended next, without its notice."""
    scene, _ = own_scene
    scene.start_known()
    scene.hold()
    scene.start_known()
    until(lambda: len(blocked(scene)) == 4, "both wait for jobs, and for the question")
    looks = 0
    for _ in range(3):
        before, known = scene.looks(), set(blocked(scene))
        for client in known:
            scene.raw.client_kill_filter(_id=client)
        until(lambda known=known: len(set(blocked(scene)) - known) == 4, "they wait again")  # type: ignore[misc]
        looks += scene.looks() - before
    assert looks <= 12, "each time after less than 5 s, in which others look 7 times"


def test_jobs_come_back_when_the_observers_die_with_their_worker(scene: Scene) -> None:
    """Nobody is told: one that stands by sees it."""
    started = [scene.start_known() for _ in range(5)]
    scene.hold()
    until(lambda: scene.raw.zcard(scene.keys.observers) == 2, "two look")
    named = scene.raw.zrange(scene.keys.observers, 0, -1) + scene.raw.zrange(scene.keys.busy, 0, -1)
    pids = {int(name.split(b":")[1]) for name in named}
    dead = [one for one in started if one.pid in pids]
    assert len(dead) == 3
    for one in dead:
        one.send_signal(signal.SIGKILL)
    until(lambda: len(scene.journal()) == 2, "taken by one of the others")


def test_jobs_come_back_when_all_workers_die_and_another_one_starts(scene: Scene) -> None:
    started = [scene.start_known() for _ in range(3)]
    scene.hold()
    until(lambda: scene.raw.zcard(scene.keys.observers) == 2, "two look")
    for one in started:
        one.send_signal(signal.SIGKILL)
    for one in started:
        one.wait()
    scene.start()
    until(lambda: len(scene.journal()) == 2, "taken by the new one")


def test_a_job_that_waits_for_a_worker_and_kills_it_is_given_on(
    own_scene: tuple[Scene, ServerProcess], tmp_path: Path
) -> None:
    """A worker takes no job before others can see whether it lives, though it must subscribe a few times."""
    scene, running = own_scene
    scene.client.topic("orders").add("poison", id="7")
    proxy = Proxy(tmp_path, running.address)
    try:
        proxy.arm(UNSENT, UNSENT, UNSENT, at=b"SUBSCRIBE")
        victim = scene.start(TARRY_URL=proxy.url())
        until(lambda: victim.poll() is not None, "killed")
        assert (proxy.struck, len(scene.journal())) == (3, 1)
        scene.start()
        scene.start()
        until(lambda: scene.journal("closed") == [["7"]], "closed in the third attempt")
    finally:
        proxy.close()


def test_a_worker_that_may_not_subscribe_starts_all_the_same(
    own_scene: tuple[Scene, ServerProcess], tmp_path: Path
) -> None:
    scene, running = own_scene
    proxy = Proxy(tmp_path, running.address)
    try:
        proxy.arm(*[UNSENT] * 1000, at=b"SUBSCRIBE")
        scene.start(TARRY_URL=proxy.url())
        scene.client.topic("orders").add("quick")
        until(lambda: scene.journal("closed"), "closed")
    finally:
        proxy.close()


def test_a_worker_that_loses_its_subscription_again_and_again_keeps_its_jobs(scene: Scene) -> None:
    scene.start_known()
    scene.start_known()
    scene.hold()
    channel = holder_channel(scene.namespace, scene.raw.zrange(scene.keys.busy, 0, 0)[0])
    for _ in range(10):
        for row in scene.raw.client_list("pubsub"):
            if row["db"] != "":
                scene.raw.client_kill_filter(_id=row["id"])
        until(lambda: scene.raw.pubsub_numsub(channel)[0][1], "subscribed again")
    scene.until_looked()
    assert len(scene.journal()) == 1


def test_after_a_restart_of_the_server_all_keep_their_jobs(own_scene: tuple[Scene, ServerProcess]) -> None:
    scene, running = own_scene
    started = [scene.start_known() for _ in range(2)]
    scene.hold()
    scene.hold("stuck", "plain")
    running.kill()
    running.restart()
    until(lambda: len(scene.raw.pubsub_channels("*:holder:*")) == 2, "subscribed again")
    scene.until_looked()
    assert [attempt for _, attempt, _ in scene.journal()] == ["1", "1"]
    kill_all_of(scene, started[0])
    held = sum(int(pid) == started[0].pid for _, _, pid in scene.journal())
    until(lambda: len(scene.journal()) == 2 + held, "those of a dead one are released all the same")


def test_a_worker_that_can_neither_subscribe_nor_say_so_takes_no_new_jobs(
    own_scene: tuple[Scene, ServerProcess], tmp_path: Path
) -> None:
    """The connection by which it takes jobs works, so it would take some that others release as those of a dead one."""
    scene, running = own_scene
    proxy = Proxy(tmp_path, running.address)
    try:
        cut_off = scene.start_known(TARRY_URL=proxy.url())
        scene.hold()
        proxy.arm(UNSENT, at=WITHDRAW.sha)
        proxy.refusing = True
        running.ask("CLIENT", "KILL", "TYPE", "pubsub")
        until(lambda: "cut off: no new jobs" in scene.log(cut_off), "it takes no new ones")
        until(lambda: len(blocked(scene)) == 1, "it waits for none, only for the question whether it lives")
        assert proxy.struck == 1
        proxy.refusing = False
        until(lambda: "taking jobs again" in scene.log(cut_off), "it takes new ones")
        scene.hold()
        assert [attempt for _, attempt, _ in scene.journal()] == ["1", "1"]
    finally:
        proxy.close()


def test_a_worker_that_cannot_subscribe_asks_not_to_be_missed_and_goes_on(
    own_scene: tuple[Scene, ServerProcess], tmp_path: Path
) -> None:
    scene, running = own_scene
    proxy = Proxy(tmp_path, running.address)
    try:
        scene.start_known(TARRY_URL=proxy.url())
        scene.hold()
        proxy.refusing = True
        running.ask("CLIENT", "KILL", "TYPE", "pubsub")
        until(lambda: not scene.raw.exists(*scene.keys), "it is not known any more")
        scene.client.topic("orders").add("quick")
        until(lambda: scene.journal("closed"), "it goes on")
        proxy.refusing = False
        until(lambda: scene.raw.zcard(scene.keys.busy), "it is known again")
        assert {attempt for _, attempt, _ in scene.journal()} == {"1"}
    finally:
        proxy.close()


def test_a_worker_that_takes_no_jobs_logs_the_outage_all_the_same(own_scene: tuple[Scene, ServerProcess]) -> None:
    scene, running = own_scene
    worker = scene.start_known()
    running.kill()
    until(lambda: "Waiting for it" in scene.log(worker), "it says that the server is away")
    running.restart()
    until(lambda: "The server answers again" in scene.log(worker), "and when it is back")
    scene.client.topic("orders").add("quick")
    until(lambda: scene.journal("closed"), "closed")


def test_it_can_be_switched_off(scene: Scene) -> None:
    scene.start(RELEASE="")
    scene.client.topic("orders").add("stuck")
    until(scene.journal, "taken")
    assert scene.raw.exists(*scene.keys) == 0
    assert scene.raw.pubsub_channels(f"*{scene.namespace}*") == []


def test_a_stopped_worker_is_forgotten(scene: Scene) -> None:
    stopped = scene.start_known()
    stopped.terminate()
    stopped.wait()
    assert scene.raw.exists(*scene.keys) == 0


def test_an_older_acl_line_forbids_it_and_nothing_else(own_scene: tuple[Scene, ServerProcess]) -> None:
    scene, running = own_scene
    words = acl.line("consumer", scene.namespace).split()
    older = [word for word in words if not re.search(r"^&|subscribe|publish|pubsub|hrandfield", word)]
    running.ask("ACL", "SETUSER", *older)
    worker = scene.start(TARRY_URL=running.url.replace("unix://", "unix://consumer:secret@"))
    scene.client.topic("orders").add("quick")
    until(lambda: scene.journal("closed"), "closed")
    until(lambda: "come back after their TTR, not at once" in scene.log(worker), "it says so")
    assert scene.raw.exists(*scene.keys) == 0


@pytest.mark.otherserver
@pytest.mark.parametrize("kind", ["redis6", "redis7", "redis8"])
def test_every_server_counts_subscribers(kind: str, namespace: str, tmp_path: Path, tarry_command: WarmTarry) -> None:
    with ExitStack() as stack:
        binary = servers.binary_of(kind, stack.enter_context(servers.short_folder()))
        running = stack.enter_context(servers.server(binary))
        scene = Scene(running.url, namespace, tmp_path, tarry_command)
        stack.callback(scene.close)
        victim = scene.start_known()
        scene.hold()
        scene.start_known()
        kill_all_of(scene, victim)
        until(lambda: len(scene.journal()) == 2, "taken by the other one")
