"""A worker whose connections end, or whose server is away, keeps its jobs while it lives; one that dies then loses them at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from faults.proxy import UNSENT, Proxy
from tarry.connections.embedded.server_process import ServerProcess
from tarry.verbs import acl
from tarry.verbs.liveness import WITHDRAW
from until import until
from warm import WarmTarry
from worker.killed_workers import Scene, blocked, channel_of, hold_in, kill_all_of

pytestmark = pytest.mark.slow


@pytest.fixture
def own_scene(
    own_server: Callable[..., ServerProcess], namespace: str, tmp_path: Path, tarry_command: WarmTarry
) -> Iterator[tuple[Scene, ServerProcess]]:
    running = own_server(appendonly="yes", appendfsync="always")
    made = Scene(running.url, namespace, tmp_path, tarry_command)
    yield made, running
    made.close()


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


def test_a_job_that_waits_for_a_worker_and_kills_it_is_given_on(
    own_scene: tuple[Scene, ServerProcess], tmp_path: Path
) -> None:
    """A worker takes no job before others can see whether it lives, though it must subscribe a few times. Here it waits for that without
    the bound of 2 s, in which a busy machine may not subscribe four times; the next test has the bound."""
    scene, running = own_scene
    scene.client.topic("orders").add("poison", id="7")
    proxy = Proxy(tmp_path, running.address)
    try:
        proxy.arm(UNSENT, UNSENT, UNSENT, at=b"SUBSCRIBE")
        victim = scene.start(TARRY_URL=proxy.url(), START_S="inf")
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
