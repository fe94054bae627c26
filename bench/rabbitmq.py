"""RabbitMQ of Debian's package, run by its script in a folder of its own, on free ports of loopback, stopped by its pid."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

LOOPBACK = "127.0.0.1"
BROKEN = re.compile(r"\[(?:warning|error)\].* closing AMQP connection")
SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""The package's own; the one in /usr/sbin becomes the user rabbitmq and writes to the system's folders."""
READY_S = 120


class RabbitMQ:
    """One node, empty, with the user ``guest``, and an Erlang port mapper of its own."""

    def __init__(self, folder: Path, ports: list[int]) -> None:
        """Takes three ports: for AMQP, for Erlang's distribution, for the port mapper."""
        self._folder = folder
        self.port, distribution, mapper = ports
        self.url = f"amqp://guest:guest@{LOOPBACK}:{self.port}//"
        self._started: list[subprocess.Popen[bytes]] = []
        (folder / "rabbitmq.conf").write_text("loopback_users.guest = true\n", encoding="utf-8")
        (folder / "enabled_plugins").write_text("[].\n", encoding="utf-8")
        self._environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(folder),  # Erlang's cookie
            "ERL_EPMD_ADDRESS": LOOPBACK,
            "ERL_EPMD_PORT": str(mapper),
            "RABBITMQ_NODENAME": f"tarry-{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": LOOPBACK,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
        }

    def start(self) -> None:
        mapper = shutil.which("epmd")
        assert mapper is not None
        self._run(mapper)
        node = self._run(str(SCRIPT))
        by = time.monotonic() + READY_S
        while not self._answers():
            assert node.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < by, "RabbitMQ did not start"
            time.sleep(0.05)

    def _run(self, program: str) -> subprocess.Popen[bytes]:
        with (self._folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [program], env=self._environment, cwd=self._folder, stdout=log, stderr=log, start_new_session=True
            )
        self._started.append(process)
        return process

    def _answers(self) -> bool:
        from amqp import Connection
        from amqp.exceptions import AMQPError

        try:
            with Connection(f"{LOOPBACK}:{self.port}", connect_timeout=2):
                return True
        except (OSError, AMQPError):
            return False

    def count_messages(self, prefix: str) -> int:
        """The messages in the queues whose names begin so: ready, and delivered but not acknowledged."""
        words = [
            str(SCRIPT.with_name("rabbitmqctl")),
            "--quiet",
            "--no-table-headers",
            "list_queues",
            "name",
            "messages",
        ]
        found = subprocess.run(
            words, env=self._environment, cwd=self._folder, capture_output=True, check=True, text=True, timeout=READY_S
        )
        queues = [line.split("\t") for line in found.stdout.splitlines() if line.startswith(prefix)]
        return sum(int(messages) for _, messages in queues)

    def keep_log(self, path: Path) -> int:
        """Writes the broker's log to a file; how many connections it says broke, those of killed clients included."""
        text = "".join(one.read_text(errors="replace") for one in sorted((self._folder / "logs").glob("*.log")))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return len(BROKEN.findall(text))

    def stop(self) -> None:
        for process in reversed(self._started):  # each leads a group: Erlang has helpers
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._started.clear()


def missing() -> str:
    """The name of the missing package; empty if none is missing."""
    if not SCRIPT.exists() or shutil.which("epmd") is None:
        return "rabbitmq-server (apt install rabbitmq-server)"
    return ""
