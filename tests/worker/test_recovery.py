"""What a worker held that was killed with -9, parent and all, is handed out again at once, not after its TTR of hours."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import servers
import tarry
from tarry.values.keys import holder_channel
from until import until
from warm import WarmTarry
from worker.killed_workers import Scene, channel_of, hold_in, kill_all_of

pytestmark = pytest.mark.slow


@pytest.fixture
def scene(valkey_url: str, namespace: str, tmp_path: Path, tarry_command: WarmTarry) -> Iterator[Scene]:
    made = Scene(valkey_url, namespace, tmp_path, tarry_command)
    yield made
    made.close()


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
    until(lambda: int(first[2]) not in [info.pid for info in scene.client.workers()], "it is not listed any more")
    until(lambda: "is gone; 1 of its jobs released" in scene.log(other), "it says so")


def test_a_worker_that_is_killed_in_a_batch_repeats_that_batch_at_most(scene: Scene) -> None:
    """Promise: When a worker is killed."""
    victim = scene.start_known()
    topic = scene.client.topic("many")
    topic.add_many([tarry.NewJob("stuck" if n == 45 else "", id=str(n)) for n in range(100)])
    until(lambda: ["45", "1", str(victim.pid)] in scene.journal(), "its batch runs")
    kill_all_of(scene, victim)
    victim.wait()
    closed = {id for [id] in scene.journal("closed")}
    scene.start()
    until(lambda: len(scene.journal("closed")) >= 100, "all are closed")
    again = [id for id, attempt, _ in scene.journal() if attempt == "2"]
    assert "45" in again
    assert len(again) <= 10
    assert not closed & {*again}, "those that were done stay done"
    assert sorted(int(id) for [id] in scene.journal("closed")) == [*range(100)]
    until(lambda: topic.stats().finished == 100, "all are finished")
    assert topic.check().ok


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
