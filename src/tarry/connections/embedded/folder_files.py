"""The files in an embedded server's folder beside its data.

    users.lock       locked, shared, by every process that uses the server
    start.lock       locked while a supervisor is being started
    supervisor.lock  locked by the supervisor; contains its process id
    server.lock      locked by the server's process; contains its process id
    bell             a pipe that wakes the supervisor: a user has joined
    address          the path of the server's socket

Rules: the standard library only, because the supervisor imports this file too; a lock is the system's flock on the file,
never its contents; a lock file is never deleted, since its inode is the lock.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat

USERS, START, SUPERVISOR, SERVER = "users.lock", "start.lock", "supervisor.lock", "server.lock"
BELL, ADDRESS, LOG, DATA = "bell", "address", "server.log", "appendonlydir"
#: whether a file is one of these, or of the server's data
IS_OWN = re.compile(
    r"(users|start|supervisor|server)\.lock|bell|address(\.new)?|server\.log"
    r"|appendonlydir|appendonly\.aof|dump\.rdb|nodes\.conf|temp-[\w.-]+\.(rdb|aof)"
).fullmatch


def open_lock(path: str) -> int:
    """Opens a file to lock. It is closed on exec, and never deleted: its inode is the lock. Raises ``OSError`` for anything but a
    regular file of this user."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    about = os.fstat(file)
    if stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid():
        return file
    os.close(file)
    raise OSError(errno.EINVAL, "it is not a regular file of this user; remove it", path)


def is_regular(name: str, mode: int) -> bool:
    """Whether one of these files is what it should be: a pipe, a folder, or a regular file. Others would block who opens them."""
    if name == BELL and stat.S_ISFIFO(mode):
        return True
    return stat.S_ISDIR(mode) if name == DATA else stat.S_ISREG(mode)


def try_lock(file: int, *, shared: bool = False) -> bool:
    """Locks the file if no other process has; returns whether it did."""
    import fcntl  # here: Windows has none, and must be able to import the module that refuses it

    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for_exclusive(file: int) -> None:
    """Waits until no process holds the lock; does not keep it."""
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX)
    fcntl.flock(file, fcntl.LOCK_UN)


def write_owner(lock: int, pid: int) -> None:
    """Writes the holder's process id into a lock, for people and messages. Only the lock itself counts, so a full disk is no reason to
    stop the server that was just started."""
    with contextlib.suppress(OSError):
        os.ftruncate(lock, 0)
        os.pwrite(lock, b"%d\n" % pid, 0)


def read_owner(path: str) -> str:
    """The process id of the lock's last holder."""
    with contextlib.suppress(OSError), open(path, "rb") as file:  # noqa: PTH123 - no pathlib in the supervisor
        return file.read(20).decode(errors="replace").strip() or "unknown"
    return "unknown"


def read_address(file: str = ADDRESS) -> str | None:
    """The path of the server's socket, which may be dead; ``None`` if the file is missing or damaged."""
    try:
        with open(file, "rb") as record:  # noqa: PTH123 - no pathlib in the supervisor
            address = os.fsdecode(record.read(4096))
    except OSError:
        return None
    return address if address.startswith("/") and "\0" not in address else None


def write_address(socket: str) -> None:
    draft = ADDRESS + ".new"
    with open(draft, "wb") as file:  # noqa: PTH123 - no pathlib in the supervisor
        file.write(os.fsencode(socket))
    os.replace(draft, ADDRESS)  # noqa: PTH105 - no pathlib in the supervisor


def open_wakeup_pipe() -> int:
    """Opens the pipe by which users wake the supervisor. It is opened for reading and writing, so that it never ends."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISFIFO(os.lstat(BELL).st_mode):
            os.unlink(BELL)  # noqa: PTH108 - no pathlib in the supervisor
    with contextlib.suppress(FileExistsError):
        os.mkfifo(BELL, 0o600)
    return os.open(BELL, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def write_wakeup(path: str) -> bool:
    """Wakes the supervisor; ``False`` if there is none."""
    try:
        pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in {errno.ENXIO, errno.ENOENT, errno.EISDIR}:
            return False
        raise
    try:
        if not stat.S_ISFIFO(os.fstat(pipe).st_mode):
            return False
        with contextlib.suppress(BlockingIOError):  # full: it will wake anyway
            os.write(pipe, b".")
    except BrokenPipeError:
        return False
    finally:
        os.close(pipe)
    return True
