"""The keeper of one embedded server: a small process between the server and those who use it.

    users ──(shared flock on users.lock)──┐
                                          ▼
    join ──ring──▶ bell ──────────▶  keeper (holds keeper.lock)  ──parent──▶  server (holds server.lock)
                                          │ one open line: closed = the server died
                                          ▼
             all left ─▶ linger a minute ─▶ nobody came ─▶ SHUTDOWN, under an exclusive lock on users.lock

It waits in one ``select`` and polls nothing: a thread sleeps in ``flock`` until the last user has left, each user who
comes rings the bell, a server that dies closes its line.

Rules: the standard library only (it runs as ``python -I -S supervisor.py``, without any package); one keeper a folder
(keeper.lock); one server a folder (server.lock is inherited by the server process and so lives exactly as long); a
server that is found running is adopted, never doubled; a server that dies is started again, with a bound.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING or __name__ != "__main__":
    from tarry.connections.embedded import folder_files, resp
else:  # run by its path, without packages: what it needs lies beside it
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - no pathlib in the keeper
    import folder_files
    import resp

START_S = 10.0
STOP_S = 10.0

#: a server that lived this long was well; deaths before it count
STABLE_AFTER_S = 30.0
MOST_CRASHES = 6
MOST_PAUSE_S = 5.0


class CannotStart(Exception):
    """The server cannot be had; the text says why."""


class SupervisorArgs(NamedTuple):
    """What the keeper is told on its command line. The folder is its working directory."""

    binary: str
    options: list[str]
    socket: str
    linger_s: float


class Supervisor:
    """What the keeper knows: the folder's server, the line to it, and how often it has died."""

    def __init__(self, args: SupervisorArgs) -> None:
        self.args = args
        self.folder_id = os.open(".", os.O_RDONLY)
        self.socket = args.socket
        self.started = False
        self.pid = 0
        self.crashes = 0
        self.started_at = 0.0
        self.users = folder_files.open_lock(folder_files.USERS)
        self.stopping = False
        self.news, self._notify = os.pipe()
        signal.signal(signal.SIGTERM, self.request_stop)
        self.wakeup_pipe = folder_files.open_wakeup_pipe()
        self.connection = self.ensure_server()

    def run(self) -> None:
        """Until the server is not needed any more."""
        self.watch_users()
        alarm: float | None = None
        while True:
            left = None if alarm is None else max(0.0, alarm - time.monotonic())
            ready, _, _ = select.select([self.connection.fileno(), self.news, self.wakeup_pipe], [], [], left)
            if self.connection.fileno() in ready and self.connection.is_closed():
                self.connection = self.restart_server()
            if self.stopping:
                return
            if self.news in ready:
                os.read(self.news, 1)
                # nobody can come to a folder that was deleted
                alarm = time.monotonic() + (self.args.linger_s if self.folder_exists() else 0.0)
            if self.wakeup_pipe in ready:
                os.read(self.wakeup_pipe, 65_536)
                self.restore_socket()
                if alarm is not None:
                    alarm = None
                    self.watch_users()
            if alarm is not None and time.monotonic() >= alarm:
                alarm = None
                if folder_files.try_lock(self.users):
                    return
                self.watch_users()

    def watch_users(self) -> None:
        """Learn when the last user has left, however: the system lets go of a dead process's lock."""
        threading.Thread(target=self._wait_until_all_left, daemon=True).start()

    def _wait_until_all_left(self) -> None:
        folder_files.wait_for_exclusive(self.users)
        os.write(self._notify, b".")

    def request_stop(self, *_: object) -> None:
        """Somebody wants us to end, or the machine shuts down. Noted here, done between two steps, never inside one."""
        self.stopping = True
        os.write(self._notify, b".")

    def folder_exists(self) -> bool:
        """Whether the folder has not been deleted meanwhile."""
        return os.fstat(self.folder_id).st_nlink > 0

    # ---- the server

    def ensure_server(self) -> resp.RespConnection:
        """An open line to the folder's server: the one that runs, or else a new one."""
        lock = folder_files.open_lock(folder_files.SERVER)
        try:
            for _ in resp.backoff_delays(START_S):
                if folder_files.try_lock(lock):
                    self.socket = self.args.socket
                    self.start_server(lock)
                    self.started = True
                    break
                if self.adopt_running_server():
                    break
            else:
                raise CannotStart(
                    f"a server (process {folder_files.read_owner(folder_files.SERVER)}) has this folder, but does not answer at "
                    f"{folder_files.read_address() or 'any address'}. It may be frozen, or run in another container"
                )
        finally:
            os.close(lock)  # the server has its own copy, which keeps the lock
        line = resp.RespConnection.connect(self.socket)
        self.pid = int(resp.read_info(line)["process_id"])
        self.started_at = time.monotonic()
        return line

    def adopt_running_server(self) -> bool:
        """Whether a server that was started by an earlier keeper answers."""
        address = folder_files.read_address()
        if address is None or resp.read_state(address) == "dead":
            return False
        self.socket = address
        return True

    def start_server(self, lock: int) -> None:
        home = os.path.dirname(self.socket)  # noqa: PTH120 - no pathlib in the keeper
        _reap_child()
        with contextlib.suppress(OSError):
            os.mkdir(home, 0o700)  # noqa: PTH102 - no pathlib in the keeper
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket)  # noqa: PTH108 - left by a killed server: the lock says that nobody listens
        folder_files.write_address(self.socket)
        os.set_inheritable(lock, True)
        command = [self.args.binary, *self.args.options, "--unixsocket", self.socket]
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        out = [(os.POSIX_SPAWN_OPEN, 1, folder_files.LOG, flags, 0o600), (os.POSIX_SPAWN_DUP2, 1, 2)]
        try:
            pid = os.posix_spawn(command[0], command, os.environ, file_actions=out, setsigdef=[signal.SIGTERM])
        except OSError as error:
            raise CannotStart(f"{command[0]} cannot be started: {error}") from error
        folder_files.write_owner(lock, pid)
        self.wait_until_ready(pid)

    def wait_until_ready(self, pid: int) -> None:
        """Until the new server answers. One that reads much data says so, and has the time it needs."""
        while True:
            for _ in resp.backoff_delays(START_S):
                state = resp.read_state(self.socket)
                if state == "ready":
                    return
                if os.waitpid(pid, os.WNOHANG)[0]:
                    raise CannotStart(
                        f"it ended while it started. Its log ({folder_files.LOG}) says:\n{resp.last_lines(folder_files.LOG)}"
                    )
                if state == "loading":
                    break
            else:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise CannotStart(
                    f"it did not answer within {START_S:.0f} s. Its log ({folder_files.LOG}) says:\n{resp.last_lines(folder_files.LOG)}"
                )
            time.sleep(0.05)

    def restart_server(self) -> resp.RespConnection:
        """The server died though it was wanted: start it again, more slowly each time, and not for ever."""
        self.connection.close()
        if time.monotonic() - self.started_at > STABLE_AFTER_S:
            self.crashes = 0
        while True:
            self.crashes += 1
            try:
                return self.ensure_server()
            except (CannotStart, OSError) as trouble:
                if self.stopping or self.crashes >= MOST_CRASHES or not self.folder_exists():
                    raise CannotStart(str(trouble)) from trouble
            time.sleep(min(0.1 * 2**self.crashes, MOST_PAUSE_S))

    def restore_socket(self) -> None:
        """A cleaner of old files, or a log-out, took the socket away: only a restart brings it back."""
        if not os.path.exists(self.socket):  # noqa: PTH110 - no pathlib in the keeper
            with contextlib.suppress(OSError):
                self.connection.send("SHUTDOWN")

    def stop_server(self) -> None:
        """Let it write its last data and end. A server that does not is left for the next keeper to adopt."""
        with contextlib.suppress(OSError):
            self.connection.send("SHUTDOWN")
        if self._server_exited():
            _reap_child()

    def _server_exited(self) -> bool:
        lock = folder_files.open_lock(folder_files.SERVER)
        try:
            return any(folder_files.try_lock(lock) for _ in resp.backoff_delays(STOP_S))
        finally:
            os.close(lock)


def _reap_child() -> None:
    """Take note of a server of ours that has ended, or is just about to: its lock is free already."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, 0)


def _report(**fields: object) -> None:
    """One line of JSON to the process that waits for us, which may have gone."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(fields).encode() + b"\n")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def main() -> None:
    if os.fork():
        os._exit(0)  # the keeper is nobody's child: who needed the server first may end without leaving a zombie
    os.umask(0o077)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    lock = folder_files.open_lock(folder_files.KEEPER)
    if not any(folder_files.try_lock(lock) for _ in resp.backoff_delays(1.0)):
        _report(taken=True)
        return
    folder_files.write_owner(lock, os.getpid())
    try:
        keeper = Supervisor(SupervisorArgs(**json.loads(sys.argv[1])))
    except (CannotStart, OSError) as trouble:
        _report(unfit=str(trouble))
        return
    _report(keeper=os.getpid(), server=keeper.pid, started=keeper.started)
    try:
        keeper.run()
    finally:
        keeper.stop_server()


if __name__ == "__main__":
    main()
