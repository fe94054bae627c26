"""The embedded server of a folder: the one server that all processes of a user with this folder share.

    user ──┐  users.lock, shared        folder/ (per user; ``embedded:///path`` names another)
    user ──┼──────────────▶ supervisor ──▶ server ──▶ its append-only file and server.log there
    user ──┘  bell             │                      its socket elsewhere, on a short path
                               └── stops it a minute after the last user has left

    join_server(folder) ─▶ SharedServer(url, folder, started) ─▶ close()

Rules: the first user starts the server, the others find it; a crashed user does no harm, because the system releases
its lock; the server stops a minute after the last user has left. A SharedServer made before ``os.fork`` belongs to both processes.
Everything here blocks; after ``START_TIMEOUT_S`` at most, an error says what is wrong.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import stat
import subprocess
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from urllib.parse import quote

from tarry.connections.embedded import folder_files, plain_client, socket_path, supervisor
from tarry.connections.embedded.server_process import IMAGINARY_CLOCK, find_binary
from tarry.errors import BadInput, ServerUnfit, Unavailable

LINGER_S = 60.0
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH
START_TIMEOUT_S = 30.0

PRIVATE_OPTIONS = ("--port", "0", "--daemonize", "no", "--unixsocketperm", "700", "--maxmemory-policy", "noeviction")
#: at most a second of writes is lost, and only if the machine itself fails
DURABLE_OPTIONS = ("--appendonly", "yes", "--appendfsync", "everysec", "--save", "")
#: for tests: imaginary time is allowed, and nothing is saved (the save point is never reached)
TEST_OPTIONS = ("--appendonly", "no", "--save", "31536000 1000000000", "--rename-command", "ECHO", IMAGINARY_CLOCK)


class SharedServer:
    """A user of the embedded server of ``folder``: while it is open, the server runs. A context manager."""

    def __init__(self, folder: Path, *, linger_s: float, options: Sequence[str]) -> None:
        self.folder = _checked_folder(folder)
        self._linger_s = linger_s
        self._options = options
        #: whether this call started the server
        self.started = False
        self._address = ""
        self._user_lock: int | None = _register_user(self.folder)
        try:
            self.ensure_running()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """The server's URL: ``unix:///…``."""
        return "unix://" + quote(self._address)

    def ensure_running(self) -> str:
        """Makes sure that the server runs, after a lost connection; returns its URL.

        The supervisor restarts a server that died; this is for the case that both are gone. One thread at a time.
        Raises ``ServerUnfit`` or ``Unavailable`` with the reason.
        """
        if self._user_lock is None:
            raise BadInput("This use of the embedded server was closed. Join it again.")
        if not _is_file(self._user_lock, self.folder / folder_files.USERS):  # the folder was deleted: start again
            self.close()
            self.folder = _checked_folder(self.folder)
            self._user_lock = _register_user(self.folder)
        self._address, self.started = _ensure_server(self.folder, self._linger_s, self._options)
        return self.url

    def close(self) -> None:
        """Leaves the server. May be called twice; a forked process leaves for itself only."""
        lock, self._user_lock = self._user_lock, None
        if lock is not None:
            os.close(lock)  # not LOCK_UN, which would also unlock it for forked processes

    def __enter__(self) -> SharedServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def join_server(
    folder: Path | None = None, *, linger_s: float = LINGER_S, options: Sequence[str] = DURABLE_OPTIONS
) -> SharedServer:
    """Joins the embedded server of ``folder`` (by default: the one of this user), and starts it if it does not run.

    ``linger_s`` is how long a server that this call starts runs on after its last user has left; ``options`` are that
    server's own.
    Raises ``BadInput`` (the folder cannot be used), ``ServerUnfit`` (no server can be started: the message says what
    to do) or ``Unavailable`` (it runs, but does not answer).
    """
    if sys.platform == "win32":
        raise ServerUnfit("There is no embedded server on Windows: set TARRY_URL to a Redis or Valkey server.")
    return SharedServer(_default_folder() if folder is None else folder, linger_s=linger_s, options=options)


def running_url(folder: Path | None = None) -> str | None:
    """The URL of the embedded server of ``folder``, if it runs. Does not start it, and does not count as a user."""
    folder = _default_folder() if folder is None else folder
    address = None if sys.platform == "win32" or not _is_usable(folder) else _address_of(folder)
    return "unix://" + quote(address) if address is not None and plain_client.read_state(address) == "ready" else None


def _is_usable(folder: Path) -> bool:
    try:
        return _fault_of(folder) is None
    except (OSError, ValueError):  # there is none
        return False


def _default_folder() -> Path:
    from platformdirs import user_data_path

    return user_data_path("tarry") / "embedded"


# ---- the folder


def _checked_folder(folder: Path) -> Path:
    """The folder's real path; it is created if need be. Refuses one that is not this user's alone, or that has files of something else."""
    try:
        folder = Path(folder).expanduser().resolve()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fault = _fault_of(folder)
    except (OSError, ValueError) as error:
        raise BadInput(
            f"The embedded server cannot keep its data in {str(folder)!r}: {error}. Choose another folder."
        ) from error
    if fault is not None:
        raise BadInput(fault)
    return folder


def _fault_of(folder: Path) -> str | None:
    """Why a folder cannot be an embedded server's; ``None`` if it can.

    Who may write to it may give the clients another server, or another's data. Foreign files are a sign that the folder is another
    program's, such as /etc: the server must not mix its data into that. A folder that has been an embedded server's stays one.
    """
    about, me = folder.stat(), os.geteuid()
    if about.st_uid != me:
        return (
            f"The folder {folder} belongs to user {about.st_uid}, and an embedded server is for one user only "
            f"(you are {me}). Choose a folder of your own, or set TARRY_URL to share a server."
        )
    if about.st_mode & _WRITABLE:
        return _writable_fault(folder, about.st_mode)
    entries = list(folder.iterdir())
    foreign = [entry.name for entry in entries if not folder_files.IS_OWN(entry.name)]
    if foreign and folder_files.USERS not in {entry.name for entry in entries}:
        return (
            f"The folder {folder} has files that are not an embedded server's, such as {min(foreign)!r}. "
            f"Choose an empty folder, such as {folder / 'tarry'}."
        )
    for entry in entries:
        with contextlib.suppress(FileNotFoundError):  # a temporary file of the server
            about = entry.lstat()
            if about.st_uid != me:
                return (
                    f"The file {entry} belongs to user {about.st_uid}, and an embedded server is for one user only (you are {me}). "
                    f"Remove it, or choose an empty folder."
                )
            if stat.S_ISLNK(about.st_mode):
                return f"{entry} is a link, and an embedded server follows none: it could write elsewhere. Remove it, or choose an empty folder."
            if folder_files.IS_OWN(entry.name) and not folder_files.is_regular(entry.name, about.st_mode):
                return f"{entry} is a pipe, a device, a socket or a folder where an embedded server has a file. Remove it, or choose an empty folder."
            if about.st_mode & _WRITABLE:
                return _writable_fault(entry, about.st_mode)
    return None


def _writable_fault(path: Path, mode: int) -> str:
    writer = "Everybody" if mode & stat.S_IWOTH else "Its group"
    return f"{writer} may write to {path}. An embedded server's data is for one user only: `chmod go-w {path}`, or choose another folder."


def _lock_file(path: Path) -> int:
    try:
        return folder_files.open_lock(str(path))
    except OSError as error:
        raise BadInput(
            f"The embedded server cannot use {path}: {error}. Make it writable, or choose another folder."
        ) from error


def _is_file(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except OSError:
        return False


def _register_user(folder: Path) -> int:
    """Locks ``users.lock`` as a user of the folder. Waits while a supervisor is just stopping its server."""
    lock = _lock_file(folder / folder_files.USERS)
    try:
        for _ in plain_client.backoff_delays(START_TIMEOUT_S):
            if folder_files.try_lock(lock, shared=True):
                return lock
    except OSError as error:
        os.close(lock)
        raise ServerUnfit(f"Files in {folder} cannot be locked ({error}). Choose a folder on a local disk.") from error
    os.close(lock)
    raise Unavailable(
        f"The embedded server of {folder} has been stopping for {START_TIMEOUT_S:.0f} s. Try again later."
    )


# ---- the server


def _ensure_server(folder: Path, linger_s: float, options: Sequence[str]) -> tuple[str, bool]:
    """The socket of the folder's server, and whether it was started here."""
    started = False
    state = "dead"
    for _ in plain_client.backoff_delays(START_TIMEOUT_S):
        if not _wake_supervisor(folder):
            with _may_start(folder) as mine:
                if mine and not _wake_supervisor(folder):
                    started = _start_supervisor(folder, linger_s, options)
        if address := _address_of(folder):
            state = plain_client.read_state(address)
            if state == "ready":
                return address, started
    if state == "loading":
        raise Unavailable(f"The embedded server is still reading its data from {folder}. Try again later.")
    raise Unavailable(
        f"The embedded server of {folder} (process {folder_files.read_owner(str(folder / folder_files.SERVER))}) does not answer. "
        f"It may be frozen, or run in another container; see {folder / folder_files.LOG}."
    )


def _wake_supervisor(folder: Path) -> bool:
    """Tells the supervisor that there is a new user; ``False`` if there is no supervisor."""
    try:
        return folder_files.write_wakeup(str(folder / folder_files.BELL))
    except OSError as error:
        raise BadInput(f"The embedded server's folder cannot be used: {error}.") from error


def _address_of(folder: Path) -> str | None:
    address = folder_files.read_address(str(folder / folder_files.ADDRESS))
    if address is None:
        return None
    try:
        socket_path.check_private(Path(address).parent)
    except OSError:
        return None
    return address


#: files to close in a forked child, or it would hold their locks
_closed_in_child: set[int] = set()


def _close_in_child() -> None:
    while _closed_in_child:
        os.close(_closed_in_child.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


@contextlib.contextmanager
def _may_start(folder: Path) -> Generator[bool]:
    """Whether this process may start a supervisor; of several processes at once only one may."""
    lock = _lock_file(folder / folder_files.START)
    _closed_in_child.add(lock)
    try:
        yield folder_files.try_lock(lock)
    finally:
        if lock in _closed_in_child:
            _closed_in_child.discard(lock)
            os.close(lock)


def _start_supervisor(folder: Path, linger_s: float, options: Sequence[str]) -> bool:
    """Starts a supervisor, which starts the server. ``True`` if the server is new, ``False`` if it was running."""
    args = supervisor.SupervisorArgs(
        str(find_binary()), [*PRIVATE_OPTIONS, *options], str(socket_path.socket_for(folder)), linger_s
    )
    command = [_interpreter(), "-I", "-S", supervisor.__file__, json.dumps(args._asdict())]
    log = os.open(folder / folder_files.LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        with subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        ) as process:
            assert process.stdout is not None
            reported = bool(select.select([process.stdout], [], [], START_TIMEOUT_S)[0])
            report = process.stdout.readline() if reported else b""
    except OSError as error:
        raise ServerUnfit(f"Cannot start the embedded server's supervisor ({command[0]}: {error}).") from error
    finally:
        os.close(log)
    if not reported:
        return False  # the server is still reading its data
    return _parse_report(folder, report)


def _parse_report(folder: Path, report: bytes) -> bool:
    fields = (
        json.loads(report)
        if report
        else {"unfit": f"its supervisor ended:\n{plain_client.last_lines(str(folder / folder_files.LOG))}"}
    )
    if "unfit" in fields:
        raise ServerUnfit(f"The embedded server of {folder} cannot be started: {fields['unfit']}")
    return bool(fields.get("started", False))


def _interpreter() -> str:
    """The Python interpreter for the supervisor: this one, unless Python is embedded in another program."""
    if Path(sys.executable or "").name.lower().startswith(("python", "pypy")) and not getattr(sys, "frozen", False):
        return sys.executable
    if found := shutil.which("python3"):
        return found
    raise ServerUnfit("The embedded server's supervisor needs a python3 on the PATH. Install one, or set TARRY_URL.")
