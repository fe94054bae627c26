"""A temporary refusal of the server is ``Unavailable``, with advice: real servers, on a really full disk too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis.exceptions as driver

import tarry
from faults.disks import Disk, full_disks
from faults.wait_until import until
from tarry.connections.embedded.server_process import ServerProcess
from tarry.connections.faults import NotNow, TryLater, fault_of
from until import LONGEST_S
from walked import cases

REFUSALS = {
    "LOADING Redis is loading the dataset in memory": "it still loads its data; wait until it has",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.": "end it with SCRIPT KILL",
    "MISCONF Errors writing to the AOF file: No space left on device": "free space there, and look into its log",
    "ERR Error running script (call to f_1): @user_script:3: @user_script: 3: -MISCONF Redis is configured to save": "free space",
    "NOREPLICAS Not enough good replicas to write.": "bring them back, or lower that",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.": "bring the master back",
    "CLUSTERDOWN The cluster is down": "bring back the nodes that are missing",
    "TRYAGAIN Multiple keys request during rehashing of slot": "wait until it has moved",
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)": "another master is known",
    "ERR max number of clients reached": "raise maxclients",
    "READONLY You can't write against a read only replica.": "wait until the fail-over is over",
}


@cases("said", REFUSALS)
def test_temporary_refusals_are_explained_with_advice(said: str) -> None:
    fault = fault_of(driver.ResponseError(said))
    assert isinstance(fault, TryLater)
    assert REFUSALS[said] in str(fault)


@pytest.mark.parametrize("kind", [driver.BusyLoadingError, driver.ClusterDownError, driver.MasterDownError])
def test_temporary_refusals_are_known_by_the_drivers_error_class(kind: type[Exception]) -> None:
    assert isinstance(fault_of(kind("words of the server")), NotNow)


@pytest.fixture
def disk() -> Iterator[Disk]:
    with full_disks() as made:
        yield made


def test_a_full_disk_is_named_and_a_patient_call_succeeds_once_there_is_room(
    disk: Disk, kind: str, make_client: Any, threads: ThreadPoolExecutor
) -> None:
    hurried, patient = make_client(kind, disk.server.url, patience=0.2), make_client(kind, disk.server.url, patience=60)
    patient.call(patient.topic("a"), "add", "before")
    disk.fill()
    with pytest.raises(
        tarry.Unavailable, match=r"refused for 0\.\d s: it cannot write to its disk.*free space.*MISCONF"
    ):
        hurried.call(hurried.topic("a"), "add", "tea", id="tea")
    add = threads.submit(patient.call, patient.topic("a"), "add", "cake", id="cake")
    before = scripts(disk.server)
    until(lambda: scripts(disk.server) > before + 2)  # it was refused, and asks again
    assert not add.done()
    disk.free()
    assert add.result(LONGEST_S).is_new
    assert patient.call(patient.topic("a"), "stats").ready == 2


@pytest.mark.slow
def test_a_loop_around_a_waiting_pop_does_not_spin_on_a_full_disk(disk: Disk, kind: str, make_client: Any) -> None:
    any_client = make_client(kind, disk.server.url, patience=0.3)
    any_client.call(any_client.topic("a"), "stats")
    disk.fill()
    before = scripts(disk.server)
    for _ in range(5):
        with pytest.raises(tarry.Unavailable):
            any_client.call(any_client.topic("a"), "pop", wait=5)
    assert scripts(disk.server) - before < 5 * 10  # pauses of 20 ms, 40, 80, 160: half as long at times


def scripts(server: ServerProcess) -> int:
    """How many it was asked to run."""
    said = server.ask("INFO", "commandstats")
    assert isinstance(said, bytes)
    return sum(int(calls) for calls in re.findall(r"cmdstat_eval\w*:calls=(\d+)", said.decode()))
