"""The keeper of one embedded server: a small process between the server and those who use it.

    users ──(shared flock on users.lock)──┐
                                          ▼
    join ──ring──▶ bell ──────────▶  keeper (holds keeper.lock)  ──parent──▶  server (holds server.lock)
                                          │ one open line: closed = the server died
                                          ▼
             all left ─▶ linger a minute ─▶ nobody came ─▶ SHUTDOWN, under an exclusive lock on users.lock

It waits in one ``select`` and polls nothing: a thread sleeps in ``flock`` until the last user has left, each user who
comes rings the bell, a server that dies closes its line.

Rules: the standard library only (it runs as ``python -I -S keeper.py``, without any package); one keeper a folder
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
    from tarry.links.embedded import marks, wire
else:  # run by its path, without packages: what it needs lies beside it
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - no pathlib in the keeper
    import marks
    import wire

START_S = 10.0
STOP_S = 10.0

#: a server that lived this long was well; deaths before it count
WELL_S = 30.0
MOST_DEATHS = 6
MOST_PAUSE_S = 5.0


class Unfit(Exception):
    """The server cannot be had; the text says why."""


class Order(NamedTuple):
    """What the keeper is told on its command line. The folder is its working directory."""

    binary: str
    options: list[str]
    socket: str
    linger_s: float


class Keeper:
    """What the keeper knows: the folder's server, the line to it, and how often it has died."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.here = os.open(".", os.O_RDONLY)
        self.socket = order.socket
        self.started = False
        self.pid = 0
        self.deaths = 0
        self.born = 0.0
        self.users = marks.open_lock(marks.USERS)
        self.leaving = False
        self.news, self._tell = os.pipe()
        signal.signal(signal.SIGTERM, self.leave)
        self.bell = marks.hang_bell()
        self.line = self.have_server()

    def keep(self) -> None:
        """Until the server is not needed any more."""
        self.watch_users()
        alarm: float | None = None
        while True:
            left = None if alarm is None else max(0.0, alarm - time.monotonic())
            ready, _, _ = select.select([self.line.fileno(), self.news, self.bell], [], [], left)
            if self.line.fileno() in ready and self.line.gone():
                self.line = self.revive()
            if self.leaving:
                return
            if self.news in ready:
                os.read(self.news, 1)
                # nobody can come to a folder that was deleted
                alarm = time.monotonic() + (self.order.linger_s if self.still_there() else 0.0)
            if self.bell in ready:
                os.read(self.bell, 65_536)
                self.mind_the_socket()
                if alarm is not None:
                    alarm = None
                    self.watch_users()
            if alarm is not None and time.monotonic() >= alarm:
                alarm = None
                if marks.try_lock(self.users):
                    return
                self.watch_users()

    def watch_users(self) -> None:
        """Learn when the last user has left, however: the system lets go of a dead process's lock."""
        threading.Thread(target=self._until_all_left, daemon=True).start()

    def _until_all_left(self) -> None:
        marks.wait_until_alone(self.users)
        os.write(self._tell, b".")

    def leave(self, *_: object) -> None:
        """Somebody wants us to end, or the machine shuts down. Noted here, done between two steps, never inside one."""
        self.leaving = True
        os.write(self._tell, b".")

    def still_there(self) -> bool:
        """Whether the folder has not been deleted meanwhile."""
        return os.fstat(self.here).st_nlink > 0

    # ---- the server

    def have_server(self) -> wire.Line:
        """An open line to the folder's server: the one that runs, or else a new one."""
        lock = marks.open_lock(marks.SERVER)
        try:
            for _ in wire.pauses(START_S):
                if marks.try_lock(lock):
                    self.socket = self.order.socket
                    self.start_server(lock)
                    self.started = True
                    break
                if self.adopt():
                    break
            else:
                raise Unfit(
                    f"a server (process {marks.signed(marks.SERVER)}) has this folder, but does not answer at "
                    f"{marks.read_address() or 'any address'}. It may be frozen, or run in another container"
                )
        finally:
            os.close(lock)  # the server has its own copy, which keeps the lock
        line = wire.Line.to(self.socket)
        self.pid = int(wire.info(line)["process_id"])
        self.born = time.monotonic()
        return line

    def adopt(self) -> bool:
        """Whether a server that was started by an earlier keeper answers."""
        address = marks.read_address()
        if address is None or wire.state(address) == "dead":
            return False
        self.socket = address
        return True

    def start_server(self, lock: int) -> None:
        home = os.path.dirname(self.socket)  # noqa: PTH120 - no pathlib in the keeper
        _reap()
        with contextlib.suppress(OSError):
            os.mkdir(home, 0o700)  # noqa: PTH102 - no pathlib in the keeper
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket)  # noqa: PTH108 - left by a killed server: the lock says that nobody listens
        marks.write_address(self.socket)
        os.set_inheritable(lock, True)
        command = [self.order.binary, *self.order.options, "--unixsocket", self.socket]
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        out = [(os.POSIX_SPAWN_OPEN, 1, marks.LOG, flags, 0o600), (os.POSIX_SPAWN_DUP2, 1, 2)]
        try:
            pid = os.posix_spawn(command[0], command, os.environ, file_actions=out, setsigdef=[signal.SIGTERM])
        except OSError as error:
            raise Unfit(f"{command[0]} cannot be started: {error}") from error
        marks.sign(lock, pid)
        self.wait_for(pid)

    def wait_for(self, pid: int) -> None:
        """Until the new server answers. One that reads much data says so, and has the time it needs."""
        while True:
            for _ in wire.pauses(START_S):
                state = wire.state(self.socket)
                if state == "ready":
                    return
                if os.waitpid(pid, os.WNOHANG)[0]:
                    raise Unfit(f"it ended while it started. Its log ({marks.LOG}) says:\n{wire.tail(marks.LOG)}")
                if state == "loading":
                    break
            else:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise Unfit(
                    f"it did not answer within {START_S:.0f} s. Its log ({marks.LOG}) says:\n{wire.tail(marks.LOG)}"
                )
            time.sleep(0.05)

    def revive(self) -> wire.Line:
        """The server died though it was wanted: start it again, more slowly each time, and not for ever."""
        self.line.close()
        if time.monotonic() - self.born > WELL_S:
            self.deaths = 0
        while True:
            self.deaths += 1
            try:
                return self.have_server()
            except (Unfit, OSError) as trouble:
                if self.leaving or self.deaths >= MOST_DEATHS or not self.still_there():
                    raise Unfit(str(trouble)) from trouble
            time.sleep(min(0.1 * 2**self.deaths, MOST_PAUSE_S))

    def mind_the_socket(self) -> None:
        """A cleaner of old files, or a log-out, took the socket away: only a restart brings it back."""
        if not os.path.exists(self.socket):  # noqa: PTH110 - no pathlib in the keeper
            with contextlib.suppress(OSError):
                self.line.send("SHUTDOWN")

    def stop_server(self) -> None:
        """Let it write its last data and end. A server that does not is left for the next keeper to adopt."""
        with contextlib.suppress(OSError):
            self.line.send("SHUTDOWN")
        if self._server_ended():
            _reap()

    def _server_ended(self) -> bool:
        lock = marks.open_lock(marks.SERVER)
        try:
            return any(marks.try_lock(lock) for _ in wire.pauses(STOP_S))
        finally:
            os.close(lock)


def _reap() -> None:
    """Take note of a server of ours that has ended, or is just about to: its lock is free already."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, 0)


def _report(**words: object) -> None:
    """One line of JSON to the process that waits for us, which may have gone."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(words).encode() + b"\n")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def main() -> None:
    if os.fork():
        os._exit(0)  # the keeper is nobody's child: who needed the server first may end without leaving a zombie
    os.umask(0o077)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    lock = marks.open_lock(marks.KEEPER)
    if not any(marks.try_lock(lock) for _ in wire.pauses(1.0)):
        _report(taken=True)
        return
    marks.sign(lock, os.getpid())
    try:
        keeper = Keeper(Order(**json.loads(sys.argv[1])))
    except (Unfit, OSError) as trouble:
        _report(unfit=str(trouble))
        return
    _report(keeper=os.getpid(), server=keeper.pid, started=keeper.started)
    try:
        keeper.keep()
    finally:
        keeper.stop_server()


if __name__ == "__main__":
    main()
