"""``tarry worker`` processes that are killed, and what others see of it; with the fixtures' servers, or a Cluster's."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import redis

import tarry
from tarry.values.keys import HolderKeys, holder_channel, holder_keys
from until import until
from warm import WarmProcess, WarmTarry
from warm_children import without_nursery

HERE = Path(__file__).parent
LOOKS = 12
"""After so many looks at a holder that is missed it would have been absent for long."""


class Scene:
    """A server, its client, and the ``tarry worker`` processes of a test."""

    def __init__(self, url: str, namespace: str, folder: Path, command: WarmTarry, node_url: str = "") -> None:
        """``node_url``: of the server with the keys of workers, where ``url`` is a Cluster's or names Sentinels."""
        self.url, self.namespace, self._folder, self._command = url, namespace, folder, command
        self.client = tarry.Client(url, namespace=namespace)
        self.raw: Any = redis.Redis.from_url((node_url or url).partition("?")[0])
        self.processes: list[WarmProcess] = []

    def start(self, *words: str, **environment: str) -> WarmProcess:
        number = len(self.processes)
        place = {"TARRY_URL": self.url, "TARRY_NAMESPACE": self.namespace, "TTR": "10h", "GRACE": "50ms"}
        place["DIARY"] = str(self._folder / f"journal-{number}")
        with (self._folder / f"log-{number}").open("wb") as out:
            self.processes.append(
                self._command.start(["worker", "worker_app:worker", *words], out, place | environment, HERE)
            )
        return self.processes[-1]

    def start_known(self, *words: str, processes: int = 1, **environment: str) -> WarmProcess:
        """Starts one, and waits until others can see whether it lives."""
        before = self.raw.hlen(self.keys.holders)
        started = self.start(*words, **environment)
        until(lambda: self.raw.hlen(self.keys.holders) >= before + processes, "it is known")
        return started

    @property
    def keys(self) -> HolderKeys:
        return holder_keys(self.namespace)

    def log(self, process: WarmProcess) -> str:
        return (self._folder / f"log-{self.processes.index(process)}").read_text()

    def journal(self, word: str = "taken") -> list[list[str]]:
        """id, attempt and process of what was taken, or the ids of what was closed."""
        lines = [line for path in sorted(self._folder.glob("journal-*")) for line in path.read_text().splitlines()]
        return [line.split()[1:] for line in lines if line.startswith(word)]

    def hold(self, body: str = "stuck", topic: str = "orders") -> None:
        """Adds a job whose handler does not end, and waits until one has it, and has said so."""
        before = len(self.journal())
        self.client.topic(topic).add(body)
        until(lambda: len(self.journal()) > before, "taken")
        until(lambda: self.raw.zcard(self.keys.busy), "it said that it holds a job")

    def until_looked(self, times: int = LOOKS) -> None:
        """Waits until the observers have looked so often."""
        wanted = self.looks() + times
        until(lambda: self.looks() >= wanted, "observers look")

    def looks(self) -> int:
        return int(self.raw.info("commandstats").get("cmdstat_pubsub|numsub", {"calls": 0})["calls"])

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
                process.send_signal(signal.SIGINT)
                process.wait()
        self.client.close()
        self.raw.close()

    def subscribers(self) -> list[int]:
        """How many there are of the channel of each holder."""
        channels = [holder_channel(self.namespace, holder) for holder in self.raw.hkeys(self.keys.holders)]
        return [number for _, number in self.raw.pubsub_numsub(*channels)] if channels else []


def kill_all_of(scene: Scene, process: WarmProcess, processes: int = 1) -> None:
    """The process, and its children, at the same moment."""
    children = without_nursery(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
    assert processes == 1 or len(children) == processes
    for pid in [process.pid, *children]:
        os.kill(pid, signal.SIGKILL)


def blocked(scene: Scene) -> list[str]:
    """The connections that are blocked."""
    return [row["id"] for row in scene.raw.client_list() if "b" in row["flags"]]


def hold_in(scene: Scene, worker: WarmProcess) -> None:
    """Adds jobs until this worker has one, and has said so."""
    while scene.journal()[-1:] == [] or int(scene.journal()[-1][2]) != worker.pid:
        scene.hold()
    until(lambda: channel_of(scene, worker), "it said that it holds a job")


def channel_of(scene: Scene, worker: WarmProcess) -> bytes:
    """The channel of a worker that has said that it holds jobs; else nothing."""
    names = [name for name in scene.raw.zrange(scene.keys.busy, 0, -1) if int(name.split(b":")[1]) == worker.pid]
    return holder_channel(scene.namespace, names[0]) if names else b""
