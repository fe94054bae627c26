"""One run of one family: its servers, its processes, its plan; then calm, the last look, the checker's verdict."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import servers
import tarry
from upgrade.older import NoHistory, unpacked
from warm import warm_tarry

from . import environment, history, plan, worker_faults
from .checker import Verdict, check
from .environment import NAMESPACE, Environment, Missing
from .families import Family
from .faults import Faults
from .judge import Rules
from .processes import START_S, Journal, Keeper, Processes, ProcessSpec

DRAIN_S = 60.0
"""Jobs that are due and do not become fewer for so long are stuck."""
LEAST = 200
TTR_S = 3.0
WARM_S = 1.0


class Run:
    """What faults are given."""

    def __init__(
        self, family: Family, seed: str, seconds: float, folder: Path, most_events: int, rate: float, few: bool
    ) -> None:
        self.family, self.seed, self.seconds, self.folder = family, seed, seconds, folder
        self.most_events, self.rate = most_events, rate * family.rate
        self.keeper = Keeper()
        self.keeper.remove(folder)
        self.journal = Journal(folder / "faults.jsonl")
        self.environment: Environment
        self.processes: Processes
        self.watch: worker_faults.Watch
        self.few = few
        self.pace: dict[str, Any] = {"wait": 0.25} if few else {}
        """Few jobs come then, and each look costs."""
        self.done = Counter[str]()
        self.master, self.in_fault = 0, False
        self.odd: list[tuple[str, str]] = []

    def rest(self, seconds: float) -> None:
        """Time goes by, and a process that ended by itself is started again."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))
            self.processes.look_after()
            self.watch_for_switches()

    def watch_for_switches(self) -> None:
        """A starved machine may make Sentinels switch when nobody asked for it: that excuses what a switch excuses."""
        if self.environment.sentinels is None:
            return
        master = environment.masters_port(self)
        if self.master and master not in (0, self.master) and not self.in_fault:
            now = history.clock()
            self.journal.note(
                "undone",
                since=now - 4 * environment.SECOND,
                until=now + environment.SWITCHED_US,
                name="replication lag",
            )
            self.journal.note(
                "broken",
                since=now - 4 * environment.SECOND,
                until=now + environment.AFTER_US,
                name="a switch of its own",
            )
        self.master = master or self.master

    def written(self) -> int:
        """About how many events there are."""
        return sum(path.stat().st_size for path in self.folder.glob("*.history")) // 35

    # ── the four acts ────────────────────────────────────────────────────────────────────────────────────────────────

    def run(self) -> Verdict:
        self._run()
        return self._verdict()

    def _run(self) -> None:
        with ExitStack() as stack:
            if self.family.name == "packets-lost":
                environment.prepare_packet_loss()
            self.environment = stack.enter_context(self.family.make_environment())
            for node in self.environment.nodes:
                self.keeper.keep(node.pid)
                self.keeper.remove(node.folder)
            for proxy in filter(None, (self.environment.proxy, *self.environment.worker_proxies)):
                self.keeper.keep(proxy.pid)
            warm = stack.enter_context(warm_tarry(self.folder))
            self.processes = Processes(self.folder, self.journal, self.keeper, self.seed, self.environment.env, warm)
            stack.callback(self.processes.close)
            if self.family.workload == "workers":
                self.watch = worker_faults.Watch(self.journal, self.environment.nodes[0])
                stack.callback(self.watch.close)
            self._start_processes()
            self._disturb()
            self._calm()
            self._look_last()

    def _start_processes(self) -> None:
        for spec in process_specs(self):
            self.processes.start(spec)
        clients = set(self.processes.pids("producer", "consumer", "manager", "pusher", "poller"))
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            at_work = {int(path.stem) for path in self.folder.glob("*.history") if path.stat().st_size}
            if self.processes.alive.keys() & clients <= at_work:
                break
            self.rest(0.1)
        self.rest(WARM_S)

    def _disturb(self) -> None:
        began = time.monotonic()
        steps = iter(plan.steps(self.family, self.seed))
        while True:
            took = time.monotonic() - began
            enough = self.written() >= self.most_events
            if took >= self.seconds and (enough or took >= 2 * self.seconds):
                return
            step = next(steps, None)
            if step is None:
                self.rest(0.5)
                continue
            self.rest(min(step.after_s, max(self.seconds * 2 - took, 0)))
            self.done[step.fault.__name__] += 1
            self.journal.note("step", at=history.clock(), name=step.fault.__name__, number=step.number)
            self.in_fault = True
            step.fault(self, random.Random(step.dice))
            self.in_fault = False

    def _calm(self) -> None:
        """No more faults and no more adds; consumers finish whatever is due."""
        self.rest(1.5)
        (self.folder / "calm").touch()
        self.processes.end(*self.processes.pids("producer", "manager", "pusher"))
        if self.family.workload == "migrating":
            self._migrate_the_rest()
        soon, due, least, until = 1, 0, history.FOREVER, 0.0
        while soon and (soon < least or time.monotonic() < until):
            if soon < least:
                least, until = soon, time.monotonic() + DRAIN_S
            self.rest(0.3)
            soon, due = environment.unsettled(self.environment)
        if due:
            self.odd.append(("stuck", f"{due} due, and for {DRAIN_S:.0f} s without faults they did not become fewer"))
        self.processes.end(*self.processes.pids("consumer", "worker", "poller", "locker"))
        self.processes.end(*self.processes.pids("service"))
        self.odd += [("client", words) for words in self.processes.gone]

    def _migrate_the_rest(self) -> None:
        for _ in range(30):
            process = environment.start_migration(self)
            process.wait()
            said = (self.folder / "migrate.log").read_text(errors="replace")[-300:].splitlines()[-2:]
            if process.returncode == 0 and any(" 0 jobs moved" in line for line in said):
                return
            self.rest(0.5)

    def _look_last(self) -> None:
        environment.note_elections(self)
        book = history.History(str(self.folder))
        self.odd += [("damaged", words) for words in environment.inventory(self.environment, book)]
        book.close()
        for url in filter(None, (self.environment.url, self.environment.other_url)):
            with tarry.Client(url, namespace=NAMESPACE) as client:
                for name in client.topics():
                    topic = client.topic(name)
                    found = topic.check()
                    if not found.ok:
                        self.odd.append(("damaged", f"{name}: {found}"))
                    topic.purge()
                if self.family.workload == "guarded":
                    client.guarded_queue("guarded").clear()
        self.odd += [("key left", key) for key in environment.keys_left(self.environment)]

    def _verdict(self) -> Verdict:
        faults = Faults.read(self.journal.path)
        verdict = check(self.folder, faults, Rules(server_clock=self.family.server_clock, **self.family.limits_of_keys))
        for name, words in self.odd:
            verdict.tally.breach(name, [], words)
        verdict.tally.counts.update({f"done: {name}": n for name, n in self.done.items()})
        for path in self.folder.glob("*.log"):
            for line in path.read_text(errors="replace").splitlines():
                word = line.partition(" ")[2].partition(":")[0]
                if word.isidentifier() and word[0].isupper():
                    verdict.tally.counts[f"told: {word}"] += 1
        return verdict


# ── the processes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def process_specs(run: Run) -> list[ProcessSpec]:
    family, now = run.family, run.environment
    common: dict[str, Any] = {
        "url": now.url, "topics": list(family.topics), "ttr": TTR_S, **family.options, **run.pace,
    }  # fmt: skip
    if family.partitions:
        common["partitions"] = family.partitions
    if family.workload in SPECS_OF:
        return SPECS_OF[family.workload](run, common)
    port = servers.free_ports(1)[0]
    http = {**common, "url": f"http://127.0.0.1:{port}", "http": True}
    rate = run.rate
    made = [
        ProcessSpec("service", {"url": now.url, "port": port}),
        ProcessSpec("worker", {**common, "processes": 2}),
        ProcessSpec("producer", {**common, "client_kind": "sync", "batch": 300, "rate": 1100 * rate}),
        ProcessSpec("producer", {**common, "client_kind": "async", "batch": 500, "rate": 1100 * rate, "uvloop": True}),
        ProcessSpec("producer", {**common, "client_kind": "sync", "rate": 150 * rate}),
        ProcessSpec("producer", {**common, "client_kind": "async", "rate": 200 * rate, "tasks": 8}),
        ProcessSpec("producer", {**http, "client_kind": "sync", "batch": 200, "rate": 300 * rate}),
        ProcessSpec("producer", {**http, "client_kind": "async", "rate": 60 * rate, "tasks": 3}),
        ProcessSpec("manager", {**common, "client_kind": "sync", "batch": 40}),
        ProcessSpec("manager", {**common, "client_kind": "async", "uvloop": True}),
    ]
    consumers: list[dict[str, Any]] = [
        {**common, "client_kind": "sync", "batch": 500},
        {**common, "client_kind": "async", "batch": 500, "uvloop": True},
        {**common, "client_kind": "async", "batch": 300},
        {**common, "client_kind": "sync"},
        {**common, "client_kind": "async", "tasks": 8},
        {**http, "client_kind": "sync", "batch": 200},
        {**http, "client_kind": "async", "tasks": 3},
    ]
    made += [ProcessSpec("consumer", told) for told in consumers]
    if run.few:  # of each kind, one by one and in batches, blocking and awaited, one
        made = [made[number] for number in (0, 1, 2, 5, 6, 9, 11, 13, 14)]
    if family.workload == "migrating":
        there = {**common, "url": now.other_url, "topics": ["new"], "partitions": 4}
        made += [
            ProcessSpec("consumer", {**there, "client_kind": client_kind, "batch": 300})
            for client_kind in ("sync", "async")
        ]
        made += [ProcessSpec("worker", {**there, "processes": 1})]
    if family.workload == "mixed":
        try:
            place = str(unpacked())
        except NoHistory as fault:
            raise Missing(str(fault).removeprefix("needs ")) from None
        for number, spec in enumerate(made):
            spec.told["place"] = place
            spec.older = number % 2 == 1
    if family.clients_off:
        if not environment.LIBFAKETIME.exists():
            raise Missing("libfaketime (apt install libfaketime)")
        for number, spec in enumerate(made):
            off = (0, family.clients_off, 0, -family.clients_off)[number % 4]
            if off:
                spec.told["env"] = {
                    "LD_PRELOAD": str(environment.LIBFAKETIME), "FAKETIME": f"{off:+}", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                    "CHAOS_SKEW_US": str(off * environment.SECOND),
                }  # fmt: skip
    return made


def guarded(run: Run, common: dict[str, Any]) -> list[ProcessSpec]:
    told = {**common, "topics": [], "zookeeper": run.environment.zookeeper.hosts}
    client_kinds = ("sync", "async")
    return [
        *[
            ProcessSpec("pusher", {**told, "client_kind": client_kind, "batch": 400, "rate": 2200 * run.rate})
            for client_kind in client_kinds
        ],
        *[ProcessSpec("poller", {**told, "client_kind": client_kind, "batch": 500}) for client_kind in client_kinds],
        *[
            ProcessSpec("locker", {**told, "client_kind": client_kind})
            for client_kind in (*client_kinds, *client_kinds)
        ],
    ]


WORKER_TTR_S = 30.0
"""Long: when a job is handed out again, its time to run is no reason."""


def workers(run: Run, common: dict[str, Any]) -> list[ProcessSpec]:
    """Several workers, of which some have few long jobs only; and producers and consumers."""
    lines = [proxy.url for proxy in run.environment.worker_proxies] or [run.environment.url] * worker_faults.WORKERS
    told = {**common, "topics": [*run.family.topics, "held"], "worker_ttr": WORKER_TTR_S}
    quiet = {"only": ["held"], "slots": 4}
    kinds: list[dict[str, Any]] = [{}, {}, {"processes": 2}, quiet, quiet]
    return [
        *[ProcessSpec("worker", {**told, **kind, "url": url}) for kind, url in zip(kinds, lines, strict=True)],
        ProcessSpec("producer", {**common, "client_kind": "async", "batch": 300, "rate": 1300 * run.rate}),
        ProcessSpec("producer", {**common, "client_kind": "sync", "rate": 200 * run.rate}),
        ProcessSpec("producer", {**common, "topics": ["held"], "client_kind": "sync", "rate": 25, "no_far": True}),
        ProcessSpec("manager", {**common, "client_kind": "async", "uvloop": True}),
        ProcessSpec("consumer", {**common, "client_kind": "sync", "batch": 300}),
        ProcessSpec("consumer", {**common, "client_kind": "async", "batch": 300, "uvloop": True}),
    ]


SPECS_OF = {"guarded": guarded, "workers": workers}


# ── a run from outside ───────────────────────────────────────────────────────────────────────────────────────────────


def one(
    family: Family,
    seed: str,
    seconds: float,
    most_events: int = 0,
    rate: float = 1.0,
    few: bool = False,
    keep: Path | None = None,
) -> dict[str, Any]:
    """Plays a family and answers its result; what is missing here is said in ``skipped``."""
    folder = Path(tempfile.mkdtemp(prefix="tarry-chaos-", dir="/tmp"))
    began = time.monotonic()
    found: dict[str, Any] = {"family": family.name, "seed": seed}
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        run = Run(family, seed, seconds, folder, most_events, rate, few)
        stack.callback(run.keeper.close)
        try:
            verdict = run.run()
        except Missing as lacking:
            return {**found, "skipped": f"needs {lacking}"}
        except BaseException as fault:
            if type(fault).__name__ == "Skipped":
                return {**found, "skipped": str(fault)}
            raise
        found |= verdict.as_json() | {"seconds": round(time.monotonic() - began, 1), "excerpt": verdict.excerpt()}
        if keep is not None and verdict.tally.breaches:
            shutil.copytree(folder, keep, ignore=shutil.ignore_patterns("older", "warm"), dirs_exist_ok=True)
        if verdict.acknowledged < LEAST:
            found["crashed"] = f"only {verdict.acknowledged} adds were acknowledged: nothing was tested"
        return found
