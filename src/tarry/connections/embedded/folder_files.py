"""What lies in an embedded server's folder beside its data, and how it is read and written.

    users.lock     held, shared, by everybody who uses the server
    start.lock     held while a keeper is being started
    keeper.lock    held by the keeper; its process id is written in it
    server.lock    held by the server's process itself; the same
    bell           a pipe that the keeper reads: "somebody has come"
    address        the path of the server's socket

Rules: the standard library only, because the keeper reads this file too; a lock is what the system says about the file
(flock), never what is written in it; a lock file is never deleted, since its inode is the lock.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

USERS, START, KEEPER, SERVER = "users.lock", "start.lock", "keeper.lock", "server.lock"
BELL, ADDRESS, LOG = "bell", "address", "server.log"


def open_lock(path: str) -> int:
    """A file to lock. It is closed when another program is started, and never deleted: its inode is the lock."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def try_lock(file: int, *, shared: bool = False) -> bool:
    """Lock if nobody is in the way."""
    import fcntl  # here, because Windows has none, and must be able to import what refuses it in words

    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for_exclusive(file: int) -> None:
    """Sleep until nobody holds the lock; nothing is held afterwards."""
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX)
    fcntl.flock(file, fcntl.LOCK_UN)


def write_owner(lock: int, pid: int) -> None:
    """Write into a lock who holds it: for people, and for messages. Only the lock itself is to be believed."""
    os.ftruncate(lock, 0)
    os.pwrite(lock, b"%d\n" % pid, 0)


def read_owner(path: str) -> str:
    """Who held this lock last."""
    with contextlib.suppress(OSError), open(path, "rb") as file:  # noqa: PTH123 - no pathlib in the keeper
        return file.read(20).decode(errors="replace").strip() or "unknown"
    return "unknown"


def read_address(file: str = ADDRESS) -> str | None:
    """Where the folder's server listens, or listened; None when nothing sensible is written there."""
    try:
        with open(file, "rb") as record:  # noqa: PTH123 - no pathlib in the keeper
            address = os.fsdecode(record.read(4096))
    except OSError:
        return None
    return address if address.startswith("/") and "\0" not in address else None


def write_address(socket: str) -> None:
    draft = ADDRESS + ".new"
    with open(draft, "wb") as file:  # noqa: PTH123 - no pathlib in the keeper
        file.write(os.fsencode(socket))
    os.replace(draft, ADDRESS)  # noqa: PTH105 - no pathlib in the keeper


def open_wakeup_pipe() -> int:
    """The pipe by which a user says that he has come. Opened for both directions it never ends."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISFIFO(os.lstat(BELL).st_mode):
            os.unlink(BELL)  # noqa: PTH108 - no pathlib in the keeper
    with contextlib.suppress(FileExistsError):
        os.mkfifo(BELL, 0o600)
    return os.open(BELL, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def write_wakeup(path: str) -> bool:
    """Ring the bell; False when there is nobody to hear it."""
    try:
        pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in {errno.ENXIO, errno.ENOENT, errno.EISDIR}:
            return False
        raise
    try:
        if not stat.S_ISFIFO(os.fstat(pipe).st_mode):
            return False
        with contextlib.suppress(BlockingIOError):  # full: it has been rung often enough
            os.write(pipe, b".")
    except BrokenPipeError:
        return False
    finally:
        os.close(pipe)
    return True
