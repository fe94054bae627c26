"""Users of an embedded server as processes of their own, and the holders of a folder's locks.

    User(…, folder)   a process that joins and then waits:  .report (what it saw)  .leave()  .kill()
    in_use(folder)    somebody holds users.lock
    supervisor_pid, server_pid, ended, clean_up

Rules: waits end with an event (a lock that becomes free), and have a bound only in case of a fault.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tarry.connections.embedded import folder_files, plain_client
from warm import WarmTarry

BOUND_S = 30.0

PROGRAM = Path(__file__).with_name("user_process.py")


class User:
    """A process that has joined ``folder`` and stays until it is told to leave, or killed."""

    def __init__(
        self, tarry: WarmTarry, folder: Path, *, linger_s: float = 60.0, then: str = "stay", wait: bool = True
    ) -> None:
        self._stack = ExitStack()
        talk = tarry.talk_to(PROGRAM, str(folder), str(linger_s), then)
        self.process, self._given, self._told = self._stack.enter_context(talk)
        self._report: dict[str, Any] = {}
        if wait:
            assert self.report

    @property
    def report(self) -> dict[str, Any]:
        """What the user saw: url, started, pid."""
        if not self._report:
            self._report = json.loads(self._told.readline())
        return self._report

    def leave(self) -> None:
        self._given.close()
        self.process.wait(BOUND_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(BOUND_S)
        self._stack.close()

    def __enter__(self) -> User:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def held(lock: Path) -> bool:
    """Whether a living process holds this lock."""
    if not lock.exists():
        return False
    file = folder_files.open_lock(str(lock))
    try:
        return not folder_files.try_lock(file)
    finally:
        os.close(file)


def in_use(folder: Path) -> bool:
    return held(folder / folder_files.USERS)


def supervisor_pid(folder: Path) -> int:
    assert held(folder / folder_files.SUPERVISOR)
    return int(folder_files.read_owner(str(folder / folder_files.SUPERVISOR)))


def server_pid(folder: Path) -> int:
    with plain_client.RespConnection.connect(address(folder)) as line:
        return plain_client.read_process_id(line)


def address(folder: Path) -> str:
    found = folder_files.read_address(str(folder / folder_files.ADDRESS))
    assert found is not None
    return found


def until_free(lock: Path) -> None:
    """Wait for the end of the process that holds this lock."""
    assert any(not held(lock) for _ in plain_client.backoff_delays(BOUND_S)), f"{lock} is still held"


def until_ready(folder: Path) -> None:
    assert any(plain_client.read_state(address(folder)) == "ready" for _ in plain_client.backoff_delays(BOUND_S)), (
        "the server did not come back"
    )


def until_ended(folder: Path) -> None:
    """Wait until server and supervisor have gone, by themselves."""
    until_free(folder / folder_files.SERVER)
    until_free(folder / folder_files.SUPERVISOR)


def kill(pid: int, lock: Path) -> None:
    """``kill -9``, and wait until the system has taken note."""
    before = folder_files.read_owner(str(lock))
    os.kill(pid, signal.SIGKILL)  # read first: the supervisor may start the next one before this line ends
    assert any(
        not held(lock) or folder_files.read_owner(str(lock)) != before for _ in plain_client.backoff_delays(BOUND_S)
    )


def clean_up(folder: Path) -> None:
    """End what a failed or an unfinished test left running on this folder, and nothing else."""
    for name, sign in ((folder_files.SUPERVISOR, signal.SIGTERM), (folder_files.SERVER, signal.SIGKILL)):
        lock = folder / name
        if held(lock):
            with contextlib.suppress(ProcessLookupError, ValueError):
                pid = int(folder_files.read_owner(str(lock)))
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, sign)
            until_free(lock)
