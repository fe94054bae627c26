"""The supervisor of one embedded server: a small process, the server's parent.

    users ──(shared flock on users.lock)──┐
                                          ▼
    join ──write──▶ bell ───▶  supervisor (supervisor.lock)  ──parent──▶  server (server.lock)
                                          │ one open connection: closed = the server died
                                          ▼
             all left ─▶ linger a minute ─▶ no new user ─▶ SHUTDOWN, under an exclusive lock on users.lock

The supervisor waits in one ``select``, without polling: a thread sleeps in ``flock`` until the last user has left, each new user
writes to the pipe ``bell``, and a server that dies closes its connection.

Rules: the standard library only (it runs as ``python -I -S supervisor.py``, without any package); one supervisor per folder
(supervisor.lock); one server per folder (the server process inherits server.lock, which is locked exactly while it lives); a
running server is adopted, never started twice; a server that dies is restarted, a limited number of times.
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
    from tarry.connections.embedded import folder_files, plain_client
else:  # run by its path, without packages: its imports are beside it
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - no pathlib in the supervisor
    import folder_files
    import plain_client

START_S = 10.0
STOP_S = 10.0

#: after this time a server counts as stable, and earlier crashes are forgotten
STABLE_AFTER_S = 30.0
MOST_CRASHES = 6
MOST_PAUSE_S = 5.0


class CannotStart(Exception):
    """The server cannot be started; the text says why."""


class SupervisorArgs(NamedTuple):
    """The supervisor's arguments, as JSON on its command line. The folder is its working directory."""

    binary: str
    options: list[str]
    socket: str
    linger_s: float


class Supervisor:
    """The state of the supervisor: the folder's server, the connection to it, and how often it has crashed."""

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
        """Runs until the server is not needed any more."""
        self.watch_users()
        stop_at: float | None = None
        while True:
            left = None if stop_at is None else max(0.0, stop_at - time.monotonic())
            ready, _, _ = select.select([self.connection.fileno(), self.news, self.wakeup_pipe], [], [], left)
            if self.connection.fileno() in ready and self.connection.is_closed():
                self.connection = self.restart_server()
            if self.stopping:
                return
            if self.news in ready:
                os.read(self.news, 1)
                # a deleted folder gets no new users
                stop_at = time.monotonic() + (self.args.linger_s if self.folder_exists() else 0.0)
            if self.wakeup_pipe in ready:
                os.read(self.wakeup_pipe, 65_536)
                self.restore_socket()
                if stop_at is not None:
                    stop_at = None
                    self.watch_users()
            if stop_at is not None and time.monotonic() >= stop_at:
                stop_at = None
                if folder_files.try_lock(self.users):
                    return
                self.watch_users()

    def watch_users(self) -> None:
        """Starts the thread that waits until the last user has left or died: the system releases a dead process's lock."""
        threading.Thread(target=self._wait_until_all_left, daemon=True).start()

    def _wait_until_all_left(self) -> None:
        try:
            folder_files.wait_for_exclusive(self.users)
        finally:  # also when it cannot be waited for: then ``run`` tries the lock after the linger, and starts the thread again
            os.write(self._notify, b".")

    def request_stop(self, *_: object) -> None:
        """Handles SIGTERM. The request is only noted here; ``run`` stops between two steps."""
        self.stopping = True
        os.write(self._notify, b".")

    def folder_exists(self) -> bool:
        """Whether the folder still exists."""
        return os.fstat(self.folder_id).st_nlink > 0

    # ---- the server

    def ensure_server(self) -> plain_client.RespConnection:
        """A connection to the folder's server, which is started if it does not run."""
        lock = folder_files.open_lock(folder_files.SERVER)
        try:
            for _ in plain_client.backoff_delays(START_S):
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
            os.close(lock)  # the server has inherited it, and keeps the lock
        connection = plain_client.RespConnection.connect(self.socket)
        self.pid = plain_client.read_process_id(connection)
        self.started_at = time.monotonic()
        return connection

    def adopt_running_server(self) -> bool:
        """Whether the server of an earlier supervisor answers."""
        address = folder_files.read_address()
        if address is None or plain_client.read_state(address) == "dead":
            return False
        self.socket = address
        return True

    def start_server(self, lock: int) -> None:
        home = os.path.dirname(self.socket)  # noqa: PTH120 - no pathlib in the supervisor
        _reap_child()
        with contextlib.suppress(OSError):
            os.mkdir(home, 0o700)  # noqa: PTH102 - no pathlib in the supervisor
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket)  # noqa: PTH108 - left by a killed server: the lock says that none listens
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
        """Waits until the new server answers. While it is loading its data there is no timeout."""
        while True:
            for _ in plain_client.backoff_delays(START_S):
                state = plain_client.read_state(self.socket)
                if state == "ready":
                    return
                if os.waitpid(pid, os.WNOHANG)[0]:
                    raise CannotStart(
                        f"it ended during its start. Its log ({folder_files.LOG}) says:\n{plain_client.last_lines(folder_files.LOG)}"
                    )
                if state == "loading":
                    break
            else:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise CannotStart(
                    f"it did not answer within {START_S:.0f} s. Its log ({folder_files.LOG}) says:\n{plain_client.last_lines(folder_files.LOG)}"
                )
            time.sleep(0.05)

    def restart_server(self) -> plain_client.RespConnection:
        """Starts a server that died again, with a growing delay, up to MOST_CRASHES times."""
        self.connection.close()
        if time.monotonic() - self.started_at > STABLE_AFTER_S:
            self.crashes = 0
        while True:
            self.crashes += 1
            try:
                return self.ensure_server()
            except (CannotStart, OSError) as error:
                if self.stopping or self.crashes >= MOST_CRASHES or not self.folder_exists():
                    raise CannotStart(str(error)) from error
            time.sleep(min(0.1 * 2**self.crashes, MOST_PAUSE_S))

    def restore_socket(self) -> None:
        """Restarts the server if its socket was deleted, by a cleaner of unused files or at a log-out."""
        if not os.path.exists(self.socket):  # noqa: PTH110 - no pathlib in the supervisor
            with contextlib.suppress(OSError):
                self.connection.send("SHUTDOWN")

    def stop_server(self) -> None:
        """Stops the server with SHUTDOWN. If it does not stop, the next supervisor will adopt it."""
        with contextlib.suppress(OSError):
            self.connection.send("SHUTDOWN")
        if self._server_exited():
            _reap_child()

    def _server_exited(self) -> bool:
        lock = folder_files.open_lock(folder_files.SERVER)
        try:
            return any(folder_files.try_lock(lock) for _ in plain_client.backoff_delays(STOP_S))
        finally:
            os.close(lock)


def _reap_child() -> None:
    """Reaps a server that has ended or is about to: its lock is free already."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, 0)


def _report(**fields: object) -> None:
    """Writes one line of JSON to the process that started the supervisor, which may be gone."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(fields).encode() + b"\n")
    devnull = os.open(os.devnull, os.O_RDWR)
    os.dup2(devnull, 1)
    os.close(devnull)


def main() -> None:
    if os.fork():
        os._exit(0)  # daemonized: the process that started it may end without leaving a zombie
    os.umask(0o077)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    lock = folder_files.open_lock(folder_files.SUPERVISOR)
    if not any(folder_files.try_lock(lock) for _ in plain_client.backoff_delays(1.0)):
        _report(taken=True)
        return
    folder_files.write_owner(lock, os.getpid())
    try:
        supervisor = Supervisor(SupervisorArgs(**json.loads(sys.argv[1])))
    except (CannotStart, OSError) as error:
        _report(unfit=str(error))
        return
    _report(supervisor=os.getpid(), server=supervisor.pid, started=supervisor.started)
    try:
        supervisor.run()
    finally:
        supervisor.stop_server()


if __name__ == "__main__":
    main()
