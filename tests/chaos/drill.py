"""A drill: what `doctor`, `/metrics` and the log say when something breaks, and when. ``make drill``; some five minutes.

    master ◀── replica       the service       worker worker worker       a producer
       └── both on one small disk, under three Sentinels

Everything is real, listens on loopback at free ports, and is of the drill's own: it ends with it. Each moment of ``MOMENTS`` breaks
something and repairs it when all three sources have said something, or after a minute. The last page is a table. The drill fails if one
of the three said nothing, or if a job is lost that is not older than the last backup.

Needs the right to mount a file system in a namespace of its own (``unshare --mount``): the disk that is filled is one of 96 MB.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
INSIDE = "DRILL_INSIDE"
TOPIC, WORKERS = "drill", 3
DISK = "96m"
SAID_S, DRAINED_S = 60, 120
"""So long something may say nothing; so long the last jobs may take."""
CALM_LOOKS, CALM_S, BEFORE_LOSS_S = 3, 8, 4
LATE_S = 1.0
EVERY_S = 0.05
AOF = ("--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--repl-diskless-sync-delay", "0")
LOUD = re.compile(r'"level":"(warning|error)"|^\W*(\d\S* )?(WARNING|ERROR) |[✗!] |does not answer|refuses for now')
SOURCES = ("doctor", "metrics", "log")


@dataclass
class Moment:
    """What broke, what was said of it (after so many seconds), and the jobs that were added meanwhile."""

    name: str
    began: float = 0.0
    ended: float = 0.0
    said: dict[str, tuple[float, str]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)


class Jobs:
    """Adds jobs one by one, and remembers when each was acknowledged and is due."""

    def __init__(self, url: str, notes: Path) -> None:
        self.notes, self.url = notes, url
        self.due: dict[str, float] = {}
        self.added: dict[str, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._add)

    def __enter__(self) -> Jobs:
        self._thread.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self.end()

    def end(self) -> None:
        """No more jobs."""
        self._ended.set()
        self._thread.join()

    def _add(self) -> None:
        import tarry

        with tarry.Client(self.url) as client:
            topic = client.topic(TOPIC)
            number = 0
            while not self._ended.wait(EVERY_S):
                number += 1
                delay = number % 20 / 10
                with suppress(tarry.errors.TarryError):
                    topic.add({}, id=str(number), delay=delay)
                    self.added[str(number)] = time.time()
                    self.due[str(number)] = time.time() + delay

    def handled(self) -> dict[str, list[float]]:
        """When the workers handled each."""
        found: dict[str, list[float]] = {}
        for line in self.notes.read_text(encoding="utf-8").splitlines():
            job, _, at = line.partition(" ")
            found.setdefault(job, []).append(float(at))
        return found

    def all_handled(self) -> bool:
        """Those that are acknowledged."""
        return self.added.keys() <= self.handled().keys()


class Watch:
    """Asks the three sources all the time, and keeps what they say that they did not say in the calm."""

    def __init__(self, service: str, url: str, logs: list[Path]) -> None:
        self.service, self.url, self.logs = service, url, logs
        self.moment: Moment | None = None
        self.calm = True
        self.looks: Counter[str] = Counter()
        self.usual: set[tuple[str, str]] = set()
        self.read = dict.fromkeys(logs, 0)
        self._ended = threading.Event()
        looks = (self._metrics, self._doctor, self._log)
        self._threads = [threading.Thread(target=self._look, args=(look,)) for look in looks]

    def __enter__(self) -> Watch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _look(self, look: Callable[[], Iterator[str]]) -> None:
        source = look.__name__.strip("_")
        while not self._ended.wait(0.5):
            began, moment = time.time(), self.moment
            for text in look():
                if self.calm:
                    self.usual.add((source, text))
                elif (
                    moment and (source, text) not in self.usual and source not in moment.said and began >= moment.began
                ):
                    moment.said[source] = (time.time() - moment.began, text)
            self.looks[source] += 1

    def _metrics(self) -> Iterator[str]:
        try:
            with urllib.request.urlopen(f"{self.service}/metrics", timeout=10) as answer:
                lines = answer.read().decode().splitlines()
        except (OSError, urllib.error.HTTPError) as fault:
            yield f"no answer: {fault}"
            return
        pings: dict[str, float] = {}
        for line in lines:
            name, _, value = line.rpartition(" ")
            if name.startswith("tarry_condition{") and float(value) == 2:
                yield name
            elif line == "tarry_server_up 0.0" or name.startswith(
                ("tarry_background_restarts_total{", "tarry_worker_restarts{")
            ):
                yield line
            elif name.startswith("tarry_server_round_trip_seconds_"):
                pings[name.removeprefix("tarry_server_round_trip_seconds_")] = float(value)
        if slow := pings["count"] - pings['bucket{le="1.0"}']:
            yield f"tarry_server_round_trip_seconds: {slow:g} took more than a second"

    def _doctor(self) -> Iterator[str]:
        words = [sys.executable, "-m", "tarry", "doctor", "--json", "--url", self.url]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            answer: dict[str, Any] = json.loads(line)
            yield from (f"{note}" for node in answer.get("nodes", ()) for note in node["notes"])
            yield from (one["kind"] for one in answer.get("conditions", ()) if one["level"] == "bad")
        if done.returncode not in {0, 1}:
            yield f"exits with {done.returncode}: {done.stderr.strip()[:200]}"

    def _log(self) -> Iterator[str]:
        for log in self.logs:
            with log.open(encoding="utf-8", errors="replace") as file:
                file.seek(self.read[log])
                for line in file:
                    if LOUD.search(line):
                        yield f"{log.stem}: {line.strip()[:160]}"
                self.read[log] = file.tell()


@dataclass
class Drill:
    """What is there, and what is broken in it."""

    folder: Path
    group: Any
    notes: Path
    url: str
    port: int
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)

    def start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        """A `tarry …` of its own group, with its log."""
        log = self.folder.parent / f"{name}.log"
        if log not in self.logs:
            self.logs.append(log)
        env = {**os.environ, "TARRY_URL": self.url, "DRILL_NOTES": str(self.notes), "PYTHONPATH": self.path()}
        with log.open("ab") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "tarry", *words], stdout=said, stderr=said, env=env, process_group=0
            )
        self.running.append(process)
        return process

    def path(self) -> str:
        """Where the worker's module is, and tarry."""
        return os.pathsep.join([str(HERE.parents[2] / "src"), str(HERE.parent)])

    def start_workers(self) -> None:
        """Three."""
        self.workers = [
            self.start(f"worker-{number}", "worker", "drill_app:worker", "--log", "json")
            for number in range(1, WORKERS + 1)
        ]

    def kill_workers(self) -> Callable[[], None]:
        """All at once."""
        for one in self.workers:
            os.killpg(one.pid, signal.SIGKILL)
            one.wait()
        return self.start_workers

    def kill_master(self) -> Callable[[], None]:
        """The Sentinels fail over; it comes back as a replica."""
        old = self.group.master()
        old.kill()
        return old.restart

    def restore(self) -> Callable[[], None]:
        """Both servers are lost, with their disks; the last backup is some seconds old."""
        master = self.group.master()
        other = next(one for one in self.group.data if one is not master)
        backup = self.folder.parent / "backup"
        shutil.copytree(master.folder / "appendonlydir", backup)
        time.sleep(BEFORE_LOSS_S)
        for one in (master, other):
            one.kill()
            shutil.rmtree(one.folder / "appendonlydir")

        def back() -> None:
            shutil.copytree(backup, master.folder / "appendonlydir")
            master.restart()
            master.ask("REPLICAOF", "NO", "ONE")
            other.restart()
            other.ask("REPLICAOF", "127.0.0.1", str(master.address[1]))

        return back

    def fill_disk(self) -> Callable[[], None]:
        """The append-only files of both servers cannot grow."""
        ballast = self.folder / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(b"\0" * (1 << 16))
        with suppress(OSError), (self.folder / "last").open("wb", buffering=0) as file:
            while True:
                file.write(b"\0" * 512)

        def room() -> None:
            ballast.unlink()
            (self.folder / "last").unlink(missing_ok=True)

        return room

    def end(self) -> None:
        """All that it started."""
        for one in self.running:
            if one.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(one.pid, signal.SIGKILL)
                one.wait()


MOMENTS: dict[str, Callable[[Drill], Callable[[], None]]] = {
    "all workers killed": Drill.kill_workers,
    "the master killed, fail-over": Drill.kill_master,
    "both servers lost, the last backup restored": Drill.restore,
    "the disk full": Drill.fill_disk,
}


@contextmanager
def a_drill(folder: Path) -> Iterator[Drill]:
    """Servers, service and workers, on a disk of their own."""
    import server_groups
    import servers
    from tarry.connections.embedded.server_process import launch

    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "drill", str(disk)], check=True)
    with ExitStack() as stack:
        stack.callback(subprocess.run, ["umount", "-l", str(disk)], check=False)
        binary = servers.valkey_binary()
        one, other, port = servers.free_ports(3)
        data = []
        for name, at, more in (("one", one, ()), ("other", other, ("--replicaof", f"127.0.0.1 {one}"))):
            (disk / name).mkdir()
            data.append(launch(disk / name, binary=binary, port=at, options=(*AOF, *more)))
            stack.callback(data[-1].kill)
        watchers = [
            stack.enter_context(server_groups._watcher(binary, at, one, server_groups.PLAIN))
            for at in servers.free_ports(3)
        ]
        group = server_groups.Sentinels(data, watchers)
        group.until_replicated()
        notes = folder / "notes"
        notes.touch()
        drill = Drill(disk, group, notes, group.url, port)
        stack.callback(drill.end)
        drill.start("service", "serve", "--port", str(port), "--without-tokens")
        drill.start_workers()
        yield drill


def until(is_so: Callable[[], bool], most_s: float) -> bool:
    """Whether it was, within so many seconds."""
    by = time.monotonic() + most_s
    while not is_so():
        if time.monotonic() > by:
            return False
        time.sleep(0.1)
    return True


def ready(port: int) -> bool:
    """Whether the service is."""
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
        return bool(answer.status == 200)
    return False


def run(folder: Path, names: list[str]) -> int:
    """All moments, one after the other, and the table."""
    moments = [Moment("calm", time.time())]
    with a_drill(folder) as drill:
        if not until(lambda: ready(drill.port), SAID_S):
            print((folder / "service.log").read_text(), "the service did not start", sep="\n")
            return 2
        with (
            Jobs(drill.url, drill.notes) as jobs,
            Watch(f"http://127.0.0.1:{drill.port}", drill.url, drill.logs) as watch,
        ):
            until(lambda: bool(jobs.handled()) and min(watch.looks[source] for source in SOURCES) >= CALM_LOOKS, SAID_S)
            for name in names:
                watch.calm = False
                moment = Moment(name, time.time())
                moments[-1].ended = moment.began
                moments.append(moment)
                repair = MOMENTS[name](drill)
                watch.moment = moment
                until(lambda moment=moment: len(moment.said) == len(SOURCES), SAID_S)
                print(
                    f"{name}: {', '.join(f'{source} after {at:.1f} s' for source, (at, _) in moment.said.items())}",
                    flush=True,
                )
                repair()
                before = len(jobs.added)
                until(lambda before=before: len(jobs.added) > before + 40, SAID_S)
                watch.moment = None
                time.sleep(CALM_S)
            moments[-1].ended = time.time()
            jobs.end()
            until(jobs.all_handled, DRAINED_S)
            count(moments, jobs)
    print(table(moments))
    silent = [(one.name, source) for one in moments[1:] for source in SOURCES if source not in one.said]
    for name, source in silent:
        print(f"{name}: {source} said nothing within {SAID_S} s")
    lost = [one.name for one in moments if one.counts["lost"] and "lost" not in one.name]
    for name in lost:
        print(f"{name}: jobs were lost")
    return int(bool(silent or lost))


def count(moments: list[Moment], jobs: Jobs) -> None:
    """Each job belongs to the moment in which it was acknowledged; what was handled twice to that of the second time."""
    handled = jobs.handled()
    for job, at in jobs.added.items():
        mine = next(one for one in reversed(moments) if at >= one.began or one is moments[0])
        mine.counts["jobs"] += 1
        times = handled.get(job, [])
        mine.counts["lost"] += not times
        mine.counts["late"] += bool(times) and times[0] > jobs.due[job] + LATE_S
        for again in times[1:]:
            next(one for one in reversed(moments) if again >= one.began or one is moments[0]).counts["repeated"] += 1


def table(moments: list[Moment]) -> str:
    """The last page."""
    rows = [
        "",
        "| moment | seconds | doctor | /metrics | log | jobs | lost | repeated | late |",
        "|---|--:|---|---|---|--:|--:|--:|--:|",
    ]
    for one in moments:
        said = [
            f"{one.said[source][0]:.1f} s: {one.said[source][1]}" if source in one.said else "–" for source in SOURCES
        ]
        numbers = [str(one.counts[name]) for name in ("jobs", "lost", "repeated", "late")]
        rows.append(
            f"| {one.name} | {one.ended - one.began:.0f} | {' | '.join(text.replace('|', '/') for text in said)} | {' | '.join(numbers)} |"
        )
    return "\n".join(rows)


def main(words: list[str]) -> int:
    """In a mount namespace of its own, which ends with it."""
    names = [name for name in MOMENTS if not words or any(word in name for word in words)]
    if not names:
        print(f"no such moment; there are {', '.join(MOMENTS)}")
        return 2
    if not os.environ.get(INSIDE):
        own = [] if os.geteuid() == 0 else ["--map-root-user"]
        command = ["unshare", "--mount", *own, sys.executable, str(HERE), *words]
        return subprocess.run(command, env={**os.environ, INSIDE: "1"}, check=False).returncode
    import servers

    with servers.short_folder() as folder:
        return run(folder, names)


if __name__ == "__main__":
    sys.path[:1] = [str(HERE.parents[1]), str(HERE.parents[2]), str(HERE.parents[2] / "src")]
    sys.exit(main(sys.argv[1:]))
