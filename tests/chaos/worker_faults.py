"""What is done to worker processes: lines that are half open, observers that are killed, kills at a start, a clock that is set.

The journal has, besides what environment.py writes:

    known      a worker process is known to the server: from here on it can look for others
    frozen     it was suspended in this span
    half-open  connections of these kinds ended without its notice (`end`), or nothing passed on them (`hold`)
    turns      the moments at which a thread woke that sleeps for 0.1 s and asks the server, again and again: on a busy machine they
               are farther apart
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis

from .environment import NAMESPACE, Proxy, healed, line_to
from .history import clock
from .processes import DIES
from .proxy import BLOCKED, COMMANDS, SUBSCRIBED
from .reaper import children

if TYPE_CHECKING:
    from .processes import Journal
    from .run import Run

HOLDERS, OBSERVERS = f"tarry:{{{NAMESPACE}}}:holders", f"tarry:{{{NAMESPACE}}}:observers"
TURN_S = 0.1
START_S, FAR_S = 60.0, 1e9
WORKERS = 5
EVERY_KIND = (SUBSCRIBED, BLOCKED, COMMANDS)


def process_of(holder: bytes) -> int:
    """A holder is called HOST:PROCESS:WORD, a child HOST:PARENT.NUMBER:WORD:START. 0: it is gone."""
    parent, _, number = holder.split(b":")[1].partition(b".")
    if not number:
        return int(parent)
    return next((child for child in children(int(parent)) if holder in environment_of(child)), 0)


def environment_of(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""


class Watch:
    """A thread that writes down when each worker became known, and how fast this machine was."""

    def __init__(self, journal: Journal, node: Any) -> None:
        self._journal, self._node = journal, node
        self.known: set[int] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with line_to(self._node) as line:
            names, turns = set[bytes](), list[int]()
            while not self._over.wait(TURN_S):
                with suppress(redis.RedisError):  # the server stands still
                    for name in set(line.hkeys(HOLDERS)) - names:
                        names.add(name)
                        self.known.add(process_of(name))
                        self._journal.note("known", who=process_of(name), at=clock())
                turns.append(clock())
            self._journal.note("turns", moments=turns)


def workers_of(run: Run) -> list[int]:
    return sorted(run.processes.pids("worker"))


def until_known(run: Run) -> None:
    """Waits until all workers are known: what is done to them would be done to processes that only start."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        unknown = [pid for pid in workers_of(run) if run.watch.known.isdisjoint((pid, *children(pid)))]
        if len(workers_of(run)) == WORKERS and not unknown:
            return
        run.rest(0.1)


def observers_of(run: Run) -> list[int]:
    """The workers that look for others now: themselves, or their children."""
    found: set[int] = set()
    with suppress(redis.RedisError), line_to(run.environment.nodes[0]) as line:
        found = {process_of(name) for name in line.zrange(OBSERVERS, 0, -1)}
    return [pid for pid in workers_of(run) if found & {pid, *children(pid)}]


def kill(run: Run, pids: Sequence[int], again_s: Sequence[float], name: str) -> None:
    """All of them at once; each is started again after its time."""
    run.processes.kill_at_once(pids, again_s, name)


def freeze(run: Run, pids: Sequence[int], seconds: float) -> None:
    since = clock()
    for pid in pids:
        run.processes.signal(pid, signal.SIGSTOP)
    run.rest(seconds)
    for pid in pids:
        run.processes.signal(pid, signal.SIGCONT)
    for pid in pids:
        for one in (pid, *children(pid)):
            run.journal.note("frozen", who=one, since=since, until=clock())


def ended(run: Run, name: str, since: int) -> None:
    """The jobs of the killed are back before the next fault."""
    run.rest(2.5)
    healed(run, name, since, 0)


# ── observers ────────────────────────────────────────────────────────────────────────────────────────────────────────


def one_worker_killed(run: Run, dice: random.Random) -> None:
    until_known(run)
    since, looking = clock(), observers_of(run)
    others = [pid for pid in workers_of(run) if pid not in looking] or workers_of(run)
    kill(run, [dice.choice(others)], [dice.uniform(0.1, 3)], "one worker killed, no observer")
    ended(run, "worker killed", since)


def one_observer_killed(run: Run, dice: random.Random) -> None:
    until_known(run)
    since = clock()
    kill(run, [dice.choice(observers_of(run) or workers_of(run))], [dice.uniform(0.1, 3)], "one observer killed")
    ended(run, "observer killed", since)


def observers_killed(run: Run, dice: random.Random) -> None:
    until_known(run)
    since, victims = clock(), observers_of(run)
    others = [pid for pid in workers_of(run) if pid not in victims]
    if len(others) > 1 and dice.random() < 0.5:
        victims.append(dice.choice(others))
    kill(run, victims, [dice.uniform(0.1, 4) for _ in victims], "both observers killed")
    ended(run, "observers killed", since)


def most_workers_killed(run: Run, dice: random.Random) -> None:
    until_known(run)
    since, left = clock(), workers_of(run)
    victims = dice.sample(left, max(len(left) - dice.randrange(1, 3), 1))
    kill(run, victims, [dice.uniform(2, 4) for _ in victims], "most workers killed")
    ended(run, "most workers killed", since)


def all_workers_killed(run: Run, dice: random.Random) -> None:
    """A host goes, and its workers are started again."""
    until_known(run)
    since, victims = clock(), workers_of(run)
    kill(run, victims, [dice.uniform(0, 0.5) for _ in victims], "all workers killed, new ones started")
    run.rest(1)
    ended(run, "all workers killed", since)


def observers_frozen(run: Run, dice: random.Random) -> None:
    """Those who look stand still while another one is killed."""
    until_known(run)
    since, frozen = clock(), observers_of(run)
    if others := [pid for pid in workers_of(run) if pid not in frozen]:
        for pid in frozen:
            run.processes.signal(pid, signal.SIGSTOP)
        run.rest(dice.uniform(0, 0.5))
        kill(run, [dice.choice(others)], [dice.uniform(0.1, 3)], "a worker killed, the observers frozen")
    freeze(run, frozen, dice.choice((0.5, 1.0, 2.0, 5.0)))
    healed(run, "observers frozen", since)


# ── starts ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def killed_at_the_start(run: Run, dice: random.Random) -> None:
    """Workers are killed, started again, and killed with their first jobs."""
    since = clock()
    alone = [pid for pid in workers_of(run) if not children(pid)]
    for pid in dice.sample(alone, dice.randrange(1, len(alone) + 1)):
        _start_dying(run, pid, dice)
    until = time.monotonic() + START_S
    while run.processes.dying() and time.monotonic() < until:
        run.rest(0.1)
    ended(run, "killed at the start", since)


def _start_dying(run: Run, pid: int, dice: random.Random) -> None:
    spec = run.processes.spec(pid)
    kill(run, [pid], [FAR_S], "killed before a start")
    run.processes.forget_last()
    run.processes.start(type(spec)(spec.role, spec.told | {DIES: dice.choice((0, 0, 0.03, 0.1, 0.3, 1.0))}))


def killed_before_the_start(run: Run, dice: random.Random) -> None:
    """Workers are killed at any moment of their start: while they import, connect, subscribe, are called."""
    since = clock()
    for pid in dice.sample(workers_of(run), dice.randrange(1, 4)):
        old = set(workers_of(run))
        kill(run, [pid], [0], "killed before a start")
        run.rest(dice.uniform(0.3, 2.0))
        for new in set(workers_of(run)) - old:
            kill(run, [new], [0], "killed while it started")
    ended(run, "killed while it started", since)


def one_newcomer(run: Run, dice: random.Random) -> None:
    """All are killed, and one is started, which nobody calls to look."""
    until_known(run)
    since, victims = clock(), workers_of(run)
    kill(run, victims, [0.0, *(dice.uniform(4, 6) for _ in victims[1:])], "all workers killed, one newcomer")
    run.rest(5)
    ended(run, "one newcomer", since)


# ── lines ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def lines_half_open(run: Run, dice: random.Random) -> None:
    """Some connections of some workers end without their notice, or nothing passes on them. Meanwhile a worker may be killed."""
    until_known(run)
    since = clock()
    chosen = dice.sample(workers_of(run), dice.randrange(1, len(workers_of(run)) + 1))
    struck = {
        pid: (dice.sample(EVERY_KIND, dice.randrange(1, 4)), dice.choice(("end", "end", "hold"))) for pid in chosen
    }
    processes = {pid: (pid, *children(pid)) for pid in chosen}
    for pid, (kinds, way) in struck.items():
        _proxy_of(run, pid).do(f"{way} {','.join(kinds)}")
    run.rest(dice.uniform(0.5, 3))
    for pid, (kinds, way) in struck.items():  # one kind after the other: nobody notices the first
        if COMMANDS not in kinds and dice.random() < 0.5:
            kinds += [kind for kind in (SUBSCRIBED, BLOCKED) if kind not in kinds]
            _proxy_of(run, pid).do(f"{way} {','.join(kinds)}")
    run.rest(dice.uniform(0, 1))
    if dice.random() < 0.4:
        kill(run, [dice.choice(workers_of(run))], [dice.uniform(0.1, 2)], "a worker killed beside half-open lines")
    run.rest(dice.choice((0.0, 0.0, 4.0, 10.0, 26.0)))
    for proxy in run.environment.worker_proxies:
        proxy.do("tell")
    for pid, (kinds, way) in struck.items():
        for one in processes[pid]:
            run.journal.note("half-open", who=one, since=since, until=clock(), way=way, kinds=kinds)
    healed(run, "half-open lines", since)


def _proxy_of(run: Run, pid: int) -> Proxy:
    url = run.processes.spec(pid).told["url"]
    return next(proxy for proxy in run.environment.worker_proxies if proxy.url == url)


# ── the clock ────────────────────────────────────────────────────────────────────────────────────────────────────────


def clock_stepped_while_killed(run: Run, dice: random.Random) -> None:
    """The server's clock is set back or forth, seconds before a worker is killed, at once, or before it is found; and corrected."""
    until_known(run)
    file, since = run.environment.clock_file, clock()
    assert file is not None
    step, before_s = dice.choice((-300, -300, -60, -10, -2, 2, 10, 60, 300)), dice.choice((2.0, 6.0, 0.0, -0.5, -1.0))
    if before_s < 0:
        _kill_some(run, dice, step)
        run.rest(-before_s)
    stepped = clock()
    file.write_text(f"{step:+}\n")
    if before_s >= 0:
        run.rest(before_s)
        _kill_some(run, dice, step)
    run.rest(dice.uniform(2.5, 6))
    if dice.random() < 0.3:
        _kill_some(run, dice, step)
    file.write_text("+0\n")
    run.journal.note("stepped", at=stepped, until=clock(), by=step)
    healed(run, "clock stepped, a worker killed", since)


def _kill_some(run: Run, dice: random.Random, step: int) -> None:
    victims = dice.sample(workers_of(run), dice.randrange(1, 3))
    kill(run, victims, [dice.uniform(0.1, 3) for _ in victims], f"clock set {'back' if step < 0 else 'forth'}")
