"""Users of an embedded server as processes of their own, and the holders of a folder's locks.

    User(folder)      a process that joins and then waits:  .report (what it saw)  .leave()  .kill()
    in_use(folder)    somebody holds users.lock
    supervisor_pid, server_pid, ended, clean_up

Rules: waits end with an event (a lock that becomes free), and have a bound only in case of a fault.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tarry.connections.embedded import folder_files, plain_client

BOUND_S = 30.0

SCRIPT = """
import json, os, random, sys, time
from pathlib import Path
from tarry.connections.embedded.shared_server import join_server
folder, linger_s, then = sys.argv[1:]
if then == "come and go":
    from tarry.connections.embedded import folder_files, plain_client
    for _ in range(15):
        time.sleep(random.uniform(0, 0.03))  # the other one and the supervisor are to be met at every stage
        with join_server(Path(folder), linger_s=float(linger_s)):
            plain_client.call_once(folder_files.read_address(folder + "/" + folder_files.ADDRESS), "INCR", "visits")
share = join_server(Path(folder), linger_s=float(linger_s))
told = {"url": share.url, "started": share.started, "pid": os.getpid()}
if then == "fork":
    child = os.fork()
    if child:
        print(json.dumps(told | {"child": child}), flush=True)
        os._exit(0)
    sys.stdin.read()
    os._exit(0)
if then == "child leaves":
    child = os.fork()
    if not child:
        share.close()
        os._exit(0)
    os.waitpid(child, 0)
print(json.dumps(told), flush=True)
sys.stdin.read()
share.close()
"""


class User:
    """A process that has joined ``folder`` and stays until it is told to leave, or killed."""

    def __init__(self, folder: Path, *, linger_s: float = 60.0, then: str = "stay", wait: bool = True) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(folder), str(linger_s), then],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self._report: dict[str, Any] = {}
        if wait:
            assert self.report

    @property
    def report(self) -> dict[str, Any]:
        """What the user saw: url, started, pid."""
        if not self._report:
            assert self.process.stdout is not None
            self._report = json.loads(self.process.stdout.readline())
        return self._report

    def leave(self) -> None:
        self._close_pipes()
        self.process.wait(BOUND_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(BOUND_S)
        self._close_pipes()

    def _close_pipes(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

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
