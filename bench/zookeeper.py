"""ZooKeeper of Debian's package, run with java in a folder of its own, on a free port, stopped by its pid."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import closing
from pathlib import Path

LOOPBACK = "127.0.0.1"
JAR = Path("/usr/share/java/zookeeper.jar")
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx128m")
TICK_MS = 200
"""Sessions may time out after two ticks: 0.4 s."""
READY_S = 600


class ZooKeeper:
    """One server; it keeps its data over restarts."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self.port = port
        self.hosts = f"{LOOPBACK}:{port}"
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "zoo.cfg").write_text(
            f"tickTime={TICK_MS}\ndataDir={folder}/data\nclientPortAddress={LOOPBACK}\nclientPort={port}\n"
            "admin.enableServer=false\nforceSync=no\nmaxSessionTimeout=60000\nmaxClientCnxns=0\n"
            "4lw.commands.whitelist=*\n",
            encoding="utf-8",
        )

    def start(self) -> None:
        java = shutil.which("java")
        assert java is not None
        words = [java, *QUICK_START, "-cp", f"{self._folder}:{JAR}", MAIN, str(self._folder / "zoo.cfg")]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log)
        by = time.monotonic() + READY_S
        while b"Mode:" not in self.ask("srvr"):  # `ruok` is answered before sessions are
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < by, "ZooKeeper did not start"
            time.sleep(0.02)

    def ask(self, word: str) -> bytes:
        """Sends a four-letter command."""
        try:
            with closing(socket.create_connection((LOOPBACK, self.port), 2)) as line:
                line.sendall(word.encode())
                found = b""
                while piece := line.recv(1 << 16):
                    found += piece
                return found
        except OSError:
            return b""

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()


def missing() -> str:
    """The name of the missing package; empty if none is missing."""
    if not JAR.exists() or shutil.which("java") is None:
        return "zookeeper (apt install zookeeper)"
    try:
        import kazoo as _  # noqa: F401
    except ImportError:
        return "kazoo (pip install 'tarry[zookeeper]')"
    return ""


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with closing(socket.socket()) as listener:
        listener.bind((LOOPBACK, 0))
        port: int = listener.getsockname()[1]
        return port
