"""Join the embedded server of a folder: the one server that all processes of a user with this folder share.

    user ──┐  users.lock, shared        folder/ (per user; ``embedded:///path`` names another)
    user ──┼──────────────▶ keeper ──▶ server ──▶ its append-only file and server.log there
    user ──┘  bell             │                  its socket elsewhere, on a short path
                               └── ends it a minute after the last user has left

    join(folder) ─▶ Share(url, folder, started) ─▶ close()

Rules: the first starts the server, the others find it; a user who crashes harms nobody, because the system lets go of
his lock; a minute after the last has left the server ends. A Share made before ``os.fork`` is held by both processes.
Everything here blocks; nothing here takes longer than ``PATIENCE_S`` before it says what is wrong.
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

from tarry.errors import BadInput, ServerUnfit, Unavailable
from tarry.links.embedded import keeper, marks, runtime, wire
from tarry.links.embedded.launch import IMAGINARY_CLOCK, find_binary

LINGER_S = 60.0
PATIENCE_S = 30.0

PRIVATE = ("--port", "0", "--daemonize", "no", "--unixsocketperm", "700", "--maxmemory-policy", "noeviction")
#: it loses at most a second, and only when the machine itself fails
DURABLE = ("--appendonly", "yes", "--appendfsync", "everysec", "--save", "")
#: for tests: imaginary time is allowed, nothing is worth writing down (a point at which it would is never reached)
FOR_TESTS = ("--appendonly", "no", "--save", "31536000 1000000000", "--rename-command", "ECHO", IMAGINARY_CLOCK)


class Share:
    """A part in the embedded server of ``folder``: while it is open, the server runs. A context manager."""

    def __init__(self, folder: Path, *, linger_s: float, options: Sequence[str]) -> None:
        self.folder = _usable(folder)
        self._linger_s = linger_s
        self._options = options
        #: whether this call started the server, and did not find it running
        self.started = False
        self._address = ""
        self._lock: int | None = _come(self.folder)
        try:
            self.revive()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """Where the server is, for a client: ``unix:///…``."""
        return "unix://" + quote(self._address)

    def revive(self) -> str:
        """Make sure that the server runs, and say where: for a client that lost it. Usually it need not do anything.

        The keeper starts a server that died by itself; this is for the case that both are gone. One thread at a time.
        Raises ``ServerUnfit`` or ``Unavailable`` with the reason.
        """
        if self._lock is None:
            raise BadInput("This share of the embedded server was closed. Join again.")
        if not _is_file(self._lock, self.folder / marks.USERS):  # somebody deleted the folder: begin anew
            self.close()
            self.folder = _usable(self.folder)
            self._lock = _come(self.folder)
        self._address, self.started = _have_server(self.folder, self._linger_s, self._options)
        return self.url

    def close(self) -> None:
        """Leave. Twice is once; a forked process leaves for itself only."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)  # not LOCK_UN: that would also unlock it for the processes it was forked to

    def __enter__(self) -> Share:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def join(folder: Path | None = None, *, linger_s: float = LINGER_S, options: Sequence[str] = DURABLE) -> Share:
    """Join the embedded server of ``folder`` (by default: the one of this user), and start it if nobody has.

    ``linger_s`` is how long a server that this call starts stays after its last user has left; ``options`` are that
    server's own.
    Raises ``BadInput`` (the folder cannot be used), ``ServerUnfit`` (no server can be started: the message says what
    to do) or ``Unavailable`` (it is there but does not answer).
    """
    if sys.platform == "win32":
        raise ServerUnfit("There is no embedded server on Windows: set TARRY_URL to a Redis or Valkey server.")
    return Share(_usual() if folder is None else folder, linger_s=linger_s, options=options)


def running(folder: Path | None = None) -> str | None:
    """Where the embedded server of ``folder`` is, if it runs. Starts none, and is no user of it."""
    address = None if sys.platform == "win32" else _address(_usual() if folder is None else folder)
    return "unix://" + quote(address) if address is not None and wire.state(address) == "ready" else None


def _usual() -> Path:
    from platformdirs import user_data_path

    return user_data_path("tarry") / "embedded"


# ---- the folder


def _usable(folder: Path) -> Path:
    """The folder by its real name, made if need be, ours, and writable."""
    try:
        folder = Path(folder).expanduser().resolve()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
    except (OSError, ValueError) as error:
        raise BadInput(
            f"The embedded server cannot keep its data in {str(folder)!r}: {error}. Name another."
        ) from error
    if about.st_uid != os.geteuid():
        raise BadInput(
            f"The folder {folder} belongs to user {about.st_uid}, and an embedded server is for one user only "
            f"(you are {os.geteuid()}). Name a folder of your own, or set TARRY_URL to share a server."
        )
    if about.st_mode & stat.S_IWOTH:
        raise BadInput(f"Everybody may write to {folder}. Name a folder for the embedded server that is yours alone.")
    return folder


def _lock_file(path: Path) -> int:
    try:
        return marks.open_lock(str(path))
    except OSError as error:
        raise BadInput(f"The embedded server cannot use {path}: {error}. Make it writable, or name another.") from error


def _is_file(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except OSError:
        return False


def _come(folder: Path) -> int:
    """Be a user of the folder. Waits while a keeper is just stopping its server."""
    lock = _lock_file(folder / marks.USERS)
    try:
        for _ in wire.pauses(PATIENCE_S):
            if marks.try_lock(lock, shared=True):
                return lock
    except OSError as error:
        os.close(lock)
        raise ServerUnfit(f"Files in {folder} cannot be locked ({error}). Name a folder on a local disk.") from error
    os.close(lock)
    raise Unavailable(f"The embedded server of {folder} has been stopping for {PATIENCE_S:.0f} s. Try again later.")


# ---- the server


def _have_server(folder: Path, linger_s: float, options: Sequence[str]) -> tuple[str, bool]:
    """Where the folder's server listens, and whether it was started here."""
    started = False
    state = "dead"
    for _ in wire.pauses(PATIENCE_S):
        if not _ring(folder):
            with _turn_to_start(folder) as mine:
                if mine and not _ring(folder):
                    started = _start_keeper(folder, linger_s, options)
        if address := _address(folder):
            state = wire.state(address)
            if state == "ready":
                return address, started
    if state == "loading":
        raise Unavailable(f"The embedded server still reads its data from {folder}. Try again in a while.")
    raise Unavailable(
        f"The embedded server of {folder} (process {marks.signed(str(folder / marks.SERVER))}) does not answer. "
        f"It may be frozen, or run in another container; {folder / marks.LOG} may say more."
    )


def _ring(folder: Path) -> bool:
    """Tell the keeper that somebody has come; False when there is no keeper."""
    try:
        return marks.ring(str(folder / marks.BELL))
    except OSError as error:
        raise BadInput(f"The embedded server's folder cannot be used: {error}.") from error


def _address(folder: Path) -> str | None:
    address = marks.read_address(str(folder / marks.ADDRESS))
    if address is None:
        return None
    try:
        runtime.verify(Path(address).parent)
    except OSError:
        return None
    return address


#: files that must not stay open in a forked child, or it would hold a lock that nobody knows of
_not_for_children: set[int] = set()


def _close_in_child() -> None:
    while _not_for_children:
        os.close(_not_for_children.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


@contextlib.contextmanager
def _turn_to_start(folder: Path) -> Generator[bool]:
    """Whether it is our turn to start a keeper; of ten processes that come at once it is one's."""
    lock = _lock_file(folder / marks.START)
    _not_for_children.add(lock)
    try:
        yield marks.try_lock(lock)
    finally:
        if lock in _not_for_children:
            _not_for_children.discard(lock)
            os.close(lock)


def _start_keeper(folder: Path, linger_s: float, options: Sequence[str]) -> bool:
    """Start a keeper, and through it the server. True when the server is new, False when it was found running."""
    order = keeper.Order(str(find_binary()), [*PRIVATE, *options], str(runtime.socket_for(folder)), linger_s)
    command = [_python(), "-I", "-S", keeper.__file__, json.dumps(order._asdict())]
    log = os.open(folder / marks.LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
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
            heard = bool(select.select([process.stdout], [], [], PATIENCE_S)[0])
            answer = process.stdout.readline() if heard else b""
    except OSError as error:
        raise ServerUnfit(f"The embedded server's keeper cannot be started ({command[0]}: {error}).") from error
    finally:
        os.close(log)
    if not heard:
        return False  # still reading its data; whoever waits will hear it
    return _understand(folder, answer)


def _understand(folder: Path, answer: bytes) -> bool:
    words = json.loads(answer) if answer else {"unfit": f"its keeper ended:\n{wire.tail(str(folder / marks.LOG))}"}
    if "unfit" in words:
        raise ServerUnfit(f"The embedded server of {folder} cannot be started: {words['unfit']}")
    return bool(words.get("started", False))


def _python() -> str:
    """An interpreter for the keeper: this one, unless Python is embedded in some other program."""
    if Path(sys.executable or "").name.lower().startswith(("python", "pypy")) and not getattr(sys, "frozen", False):
        return sys.executable
    if found := shutil.which("python3"):
        return found
    raise ServerUnfit("The embedded server needs a python3 on the PATH to watch over it. Or set TARRY_URL.")
