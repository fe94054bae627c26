"""The processes of a run: started, killed, frozen, stopped; each is ended by its pid.

The journal of what was done to them is written here, too: the checker reads it as ``faults``.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warm import WarmProcess, WarmTarry

from .history import clock, first_moment
from .reaper import began, children

TESTS = Path(__file__).resolve().parents[1]
SOURCE = str(TESTS.parent / "src")
"""What runs, wherever the package of the environment is from."""
CLIENTS = TESTS / "chaos" / "clients.py"
STOP_S = 15.0
DIES = "dies_s"
"""A worker that is told so kills itself so many seconds after its first job has begun."""
START_S = 120.0
"""A starved machine needs so long to start twenty processes; until then one may end because no server answers."""
"""A program that is started while no server answers may say so and end."""


class Journal:
    """What was done, line by line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("a", buffering=1)

    def note(self, what: str, **said: Any) -> None:
        self._file.write(json.dumps({"what": what, **said}) + "\n")


class Keeper:
    """Kills what is left and removes the folders if this process dies without a word; see reaper.py."""

    def __init__(self) -> None:
        words = [sys.executable, "-I", str(Path(__file__).with_name("reaper.py"))]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, text=True, start_new_session=True)

    def keep(self, pid: int) -> None:
        self._say(f"{pid} {began(pid)}")

    def remove(self, folder: Path) -> None:
        self._say(f"folder {folder}")

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@dataclass
class ProcessSpec:
    """What a process is: its role, and the words that it is started with."""

    role: str
    told: dict[str, Any]
    older: bool = False

    @property
    def gives(self) -> bool:
        return self.role in ("producer", "manager", "pusher")


def undying(spec: ProcessSpec) -> ProcessSpec:
    """The same, when it is started again."""
    return ProcessSpec(spec.role, {k: v for k, v in spec.told.items() if k != DIES}, spec.older)


class Processes:
    """All processes that use tarry in a run."""

    def __init__(
        self,
        folder: Path,
        journal: Journal,
        keeper: Keeper,
        seed: str,
        env: dict[str, str],
        warm: WarmTarry | None = None,
    ) -> None:
        """``warm``: what is of this version starts from it, within milliseconds."""
        self.folder, self.journal, self.keeper, self.seed = folder, journal, keeper, seed
        self.env, self.warm = env, warm
        self.numbers = 0
        self.alive: dict[int, tuple[ProcessSpec, subprocess.Popen[bytes] | WarmProcess]] = {}
        self.gone: list[str] = []
        """Processes that ended by themselves, each with the end of its output."""
        self._losing: list[tuple[ProcessSpec, float]] = []
        self._began: dict[int, float] = {}

    def start(self, spec: ProcessSpec) -> int:
        self.numbers += 1
        env = {**os.environ, **self.env, **spec.told.get("env", {})}
        paths = [str(TESTS), spec.told["place"] if spec.older else SOURCE]
        env["PYTHONPATH"] = os.pathsep.join(paths)
        told = {k: v for k, v in spec.told.items() if k not in ("env", "place")}
        told |= {"role": spec.role, "number": self.numbers, "seed": self.seed, "folder": str(self.folder)}
        if spec.role == "worker":
            env["CHAOS_WORKER"] = json.dumps(told)
            words = ["worker", "chaos.worker_app:worker", "--processes", str(told.get("processes", 1))]
            words += ["--log-level", "error"]
        elif spec.role == "service":
            words = ["serve", "--port", str(told["port"]), "--url", told["url"], "--namespace", "chaos"]
            words += ["--no-dashboard"]
        else:
            words = [str(CLIENTS), json.dumps(told)]
        process: subprocess.Popen[bytes] | WarmProcess
        with (self.folder / f"{self.numbers}-{spec.role}.log").open("ab") as log:
            if self.warm is not None and not spec.older and "LD_PRELOAD" not in env:
                process = self.warm.start(words, log, env, Path("/"))
            else:
                command = [sys.executable, *([] if words[0] == str(CLIENTS) else ["-m", "tarry"]), *words]
                process = subprocess.Popen(command, env=env, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.keeper.keep(process.pid)
        self.alive[process.pid] = spec, process
        self._began[process.pid] = time.monotonic()
        return process.pid

    def pids(self, *roles: str) -> list[int]:
        return [pid for pid, (spec, _) in self.alive.items() if spec.role in roles]

    def spec(self, pid: int) -> ProcessSpec:
        return self.alive[pid][0]

    def look_after(self) -> None:
        """Starts a process again that ended by itself, and notes it."""
        for pid, (spec, process) in list(self.alive.items()):
            if process.poll() is not None:
                del self.alive[pid]
                if DIES in spec.told:
                    self._has_died(pid, spec)
                    continue
                self.journal.note("ended", who=pid, at=clock(), how="by itself")
                words = self._end_of_log(spec)
                if not (time.monotonic() - self._began[pid] < START_S and "[unavailable]" in words):
                    self.gone.append(f"{spec.role} ended with {process.returncode}: {words}")
                self.start(spec)
        for spec, at in list(self._losing):
            if time.monotonic() >= at:
                self._losing.remove((spec, at))
                self.start(spec)

    def _has_died(self, pid: int, spec: ProcessSpec) -> None:
        """It has killed itself, so long after its first job had begun."""
        path = self.folder / f"{pid}.history"
        at = first_moment(path) + int(spec.told[DIES] * 1e6) if path.exists() else clock()
        self.journal.note("ended", who=pid, at=at, how="killed", role=spec.role, name="killed by its first job")
        self.start(undying(spec))

    def _end_of_log(self, spec: ProcessSpec) -> str:
        logs = sorted(self.folder.glob(f"*-{spec.role}.log"), key=lambda path: path.stat().st_mtime)
        return logs[-1].read_text(errors="replace")[-600:] if logs else ""

    def kill(self, pid: int, again_s: float) -> None:
        """kill -9; a process of the same role is started after a while."""
        spec, process = self.alive.pop(pid)
        own = children(pid) if spec.role == "worker" else []
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
        for one in (pid, *own):
            self.journal.note("ended", who=one, at=clock(), how="killed", role=spec.role, name="process killed")
        self._losing.append((spec, time.monotonic() + again_s))

    def kill_at_once(self, pids: Sequence[int], again_s: Sequence[float], name: str) -> None:
        """kill -9 to all of them and their children at the same moment; each is started again after its time."""
        all_own = [children(pid) for pid in pids]
        for one in (*pids, *(child for own in all_own for child in own)):
            with suppress(OSError):
                os.kill(one, signal.SIGKILL)
        for pid, own, again in zip(pids, all_own, again_s, strict=True):
            spec, process = self.alive.pop(pid)
            process.wait()
            for one in (pid, *own):
                self.journal.note("ended", who=one, at=clock(), how="killed", role=spec.role, name=name)
            self._losing.append((undying(spec), time.monotonic() + again))

    def dying(self) -> list[int]:
        """Those that end themselves, and have not yet."""
        return [pid for pid, (spec, _) in self.alive.items() if DIES in spec.told]

    def kill_child(self, pid: int, dice: random.Random) -> None:
        """One of a worker's processes; its parent replaces it."""
        own = children(pid)
        if own:
            child = dice.choice(own)
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
            self.journal.note("ended", who=child, at=clock(), how="killed")

    def signal(self, pid: int, number: int) -> None:
        for one in (pid, *(children(pid) if self.spec(pid).role == "worker" else ())):
            with suppress(OSError):
                os.kill(one, number)

    def end(self, *pids: int, within_s: float = STOP_S) -> None:
        """SIGTERM to all, and kill -9 to those that have not ended in time."""
        ending = []
        for pid in pids:
            spec, process = self.alive.pop(pid)
            own = children(pid) if spec.role == "worker" else []
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
            ending.append((pid, own, spec, process))
        until = time.monotonic() + within_s
        for pid, own, spec, process in ending:
            try:
                process.wait(max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                self.journal.note("slow to stop", who=pid, role=spec.role, at=clock())
            for one in (pid, *own):
                self.journal.note("ended", who=one, at=clock(), how="stopped")

    def close(self) -> None:
        """Whatever still lives is killed."""
        for pid, (spec, process) in self.alive.items():
            for one in children(pid) if spec.role == "worker" else ():
                with suppress(OSError):
                    os.kill(one, signal.SIGKILL)
            with suppress(OSError):
                process.kill()
        for _, process in self.alive.values():
            process.wait()
        self.alive.clear()
        self._losing.clear()

    def forget_last(self) -> None:
        """The process that was killed last is not started again."""
        self._losing.pop()
