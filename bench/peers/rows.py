"""The measurements. Each takes a peer's turn and answers its lines; the lines say how they are shown.

A peer that cannot do what a row asks for raises ``PeerFailed``; a value with a note gets a footnote.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.harness import Effort
from bench.peers.processes import PeerFailed, Session
from bench.peers.readings import Found
from bench.peers.turns import DAY_S, Producer, Run, Turn

LATE_DELAYS_S = (1.0, 1.5)
TAIL_S = 15.0
"""So long after the last due time, late jobs are waited for."""
START_WAIT_S = 60.0
PENDING = 1000
DEPTH_JOBS = 300
QUIET_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured, and how long at most."""

    rounds: int
    add: int
    add_s: float
    many: int
    burst: int
    fill_s: float
    """A burst that takes longer to add is made smaller."""
    drain_s: float
    late_s: float
    memory: int
    memory_s: float
    idle_s: float
    depths: tuple[int, ...]
    depth_s: float
    recover_s: float
    starts: int


SIZES: dict[Effort, Sizes] = {
    "full": Sizes(
        rounds=5,
        add=5000,
        add_s=10,
        many=50_000,
        burst=10_000,
        fill_s=90,
        drain_s=90,
        late_s=20,
        memory=100_000,
        memory_s=200,
        idle_s=20,
        depths=(1000, 10_000, 100_000, 1_000_000),
        depth_s=300,
        recover_s=400,
        starts=7,
    ),
    "quick": Sizes(
        rounds=2,
        add=1000,
        add_s=2,
        many=20_000,
        burst=10_000,
        fill_s=15,
        drain_s=12,
        late_s=5,
        memory=100_000,
        memory_s=10,
        idle_s=8,
        depths=(1000, 100_000),
        depth_s=8,
        recover_s=75,
        starts=3,
    ),
    "tiny": Sizes(
        rounds=1,
        add=10,
        add_s=2,
        many=100,
        burst=50,
        fill_s=20,
        drain_s=20,
        late_s=0.5,
        memory=200,
        memory_s=10,
        idle_s=0.5,
        depths=(1000,),
        depth_s=10,
        recover_s=30,
        starts=1,
    ),
}


@dataclass(frozen=True, slots=True)
class Line:
    """A column of a row's table."""

    title: str
    unit: str
    better: Literal["more", "less"]
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A measurement, its lines, and whether all peers take part at once (those that mostly wait)."""

    title: str
    told: str
    """What is measured, for the page."""
    measure: Callable[[Turn, Sizes], dict[str, Found]]
    lines: dict[str, Line]
    together: bool = False
    once: bool = False
    """One round is enough: it takes long, or does not depend on the machine's load."""


def add(turn: Turn, sizes: Sizes) -> dict[str, Found]:
    producer, found = turn.producer(), dict[str, Found]()
    producer.add(20)
    for line, do, count in (("one", "add", sizes.add), ("tasks", "tasks", sizes.add * 3), ("many", "many", sizes.many)):
        turn.server.flush()
        before = turn.server.session.cpu_s()
        added = producer.perform(do, count, sizes.add_s, due_in=DAY_S)
        if not added.jobs:
            found[line] = Found(None, {}, "has no call for many jobs with a delay")
            continue
        server_cpu = turn.server.session.cpu_s() - before
        costs = {"client µs": added.cpu_s / added.jobs * 1e6, "server µs": server_cpu / added.jobs * 1e6}
        found[line] = Found(added.per_second, costs)
    return found


def burst(turn: Turn, sizes: Sizes) -> dict[str, Found]:
    producer = turn.producer()
    worker = turn.ready_worker(producer)
    count, due_in = fitting(producer, sizes)
    sessions = (worker, producer.session, turn.server.session)
    before, cpu = turn.count(), [session.cpu_s() for session in sessions]
    due = time.time() + due_in
    first = producer.begin("burst", count, due_in, due_in=due_in)
    producer.answer(due_in + sizes.fill_s)
    if time.time() > due:
        raise PeerFailed(f"adding {count:,} jobs took longer than the {due_in:.0f} s that it was given")
    turn.pause(max(0.0, due - time.time()))
    turn.wait_for(before + count, sizes.drain_s)
    used = [session.cpu_s() - was for session, was in zip(sessions, cpu, strict=True)]
    runs = first_runs(turn, first)
    if not runs:
        raise PeerFailed(f"no job ran within {sizes.drain_s:.0f} s")
    due, begun, ended = runs[0].due, min(run.at for run in runs), max(run.at for run in runs)
    costs: dict[str, float] = dict(
        zip(("worker µs", "client µs", "server µs"), (one / len(runs) * 1e6 for one in used), strict=True)
    )
    begun_ms = (begun - due) * 1000
    notes: list[str] = []
    if count < sizes.burst:
        notes.append(f"a burst of only {count:,}, because more might take longer than {sizes.fill_s:.0f} s to add")
    if len(runs) < count:
        notes.append(f"{len(runs):,} of {count:,} ran within {sizes.drain_s:.0f} s")
    if begun_ms < -1:
        notes.append(f"the first ran {-begun_ms:.0f} ms too early")
    note = "; ".join(notes)
    wall = max(ended - due, 1e-6)
    return {
        "burst": Found(len(runs) / wall, costs, note),
        "burst_cpu": Found(sum(costs.values()), {}, note),
    }


def lateness(turn: Turn, sizes: Sizes) -> dict[str, Found]:
    found: dict[str, Found] = {}
    producer = turn.producer()
    turn.ready_worker(producer)
    for rate in (50, 500):
        try:
            runs, note = paced(turn, producer, rate, sizes.late_s)
            found |= percentiles(f"late_{rate}", runs, note)
        except PeerFailed as reason:
            found |= {f"late_{rate}_{percentile}": Found(None, {}, str(reason)) for percentile in ("p50", "p99")}
    return found


def busy(turn: Turn, sizes: Sizes) -> dict[str, Found]:
    """Jobs come at 50 a second while a burst drains; those that are due in the seconds after it count."""
    producer, other = turn.producer(), turn.producer()
    turn.ready_worker(producer)
    count, due_in = fitting(producer, sizes)
    due_in += 2
    due = time.time() + due_in
    producer.begin("burst", count, due_in, due_in=due_in)
    producer.answer(due_in + sizes.fill_s)
    if (left := due - LATE_DELAYS_S[1] - time.time()) < 0:
        raise PeerFailed(f"adding {count:,} jobs took longer than it was given")
    turn.pause(left)
    other.skip(10_000_000)
    runs, note = paced(turn, other, 50, sizes.late_s + 1, sizes.drain_s)
    if count < sizes.burst:
        note = "; ".join(filter(None, (f"a burst of {count:,}", note)))
    return percentiles("late_busy", [run for run in runs if run.due >= due], note)


def recovery(turn: Turn, sizes: Sizes) -> dict[str, Found]:
    """A worker that holds a job is killed with -9, all its processes at once; another one is there."""
    producer = turn.producer()
    victim = turn.worker(1)
    producer.add(1, due_in=0, word="hold")
    turn.wait_for(1, START_WAIT_S, victim)
    wait_until_quiet(turn.worker(1))
    killed = time.time()
    victim.kill()
    if not turn.wait_for(2, sizes.recover_s):
        raise PeerFailed(f"not run again within {sizes.recover_s:.0f} s")
    return {"recovery": Found(turn.runs()[1].at - killed)}


def memory(turn: Turn, sizes: Sizes) -> dict[str, Found]:
    """Waiting jobs in the server, without a worker."""
    producer = turn.producer()
    producer.fill(10, 5)
    before = turn.server.memory()
    added = producer.fill(sizes.memory, sizes.memory_s)
    time.sleep(1)
    note = "" if added.jobs == sizes.memory else f"{added.jobs:,} jobs, as many as it added in {sizes.memory_s:.0f} s"
    return {"memory": Found((turn.server.memory() - before) / added.jobs, {}, note)}


def idle(turn: Turn, sizes: Sizes) -> dict[str, Found]:
    """A worker waits, and so do a thousand jobs for tomorrow."""
    producer = turn.producer()
    worker = turn.ready_worker(producer)
    producer.fill(PENDING, 30)
    wait_until_quiet(worker)
    server = turn.server
    before, began = (server.commands(), server.session.cpu_s(), worker.cpu_s()), time.monotonic()
    turn.pause(sizes.idle_s)
    after, passed = (server.commands(), server.session.cpu_s(), worker.cpu_s()), time.monotonic() - began
    commands, server_s, worker_s = ((new - old) / passed for new, old in zip(after, before, strict=True))
    return {
        "idle_commands": Found(max(0.0, commands - 1 / passed)),  # without the question itself
        "idle_cpu": Found(
            (server_s + worker_s) * 1000, {"worker ms/s": worker_s * 1000, "server ms/s": server_s * 1000}
        ),
    }


def depth(turn: Turn, sizes: Sizes) -> dict[str, Found]:
    """Jobs that are due at once are added one by one and run, while more and more others wait for tomorrow."""
    found: dict[str, Found] = {}
    producer = turn.producer()
    worker = turn.ready_worker(producer)
    sessions, pending = (producer.session, worker, turn.server.session), 0
    for target in sizes.depths:
        line, note = f"depth_{target}", ""
        pending += producer.fill(target - pending, sizes.depth_s).jobs
        if pending < target:
            note = f"{pending:,} of {target:,} waited, as many as it added in {sizes.depth_s:.0f} s"
        wait_until_quiet(worker)
        before, cpu = turn.count(), [session.cpu_s() for session in sessions]
        began = time.monotonic()
        jobs = producer.add(DEPTH_JOBS, due_in=0, within_s=sizes.depth_s).jobs
        if not turn.wait_for(before + jobs, sizes.drain_s):
            jobs = turn.count() - before
            note = "; ".join(filter(None, (note, f"{jobs} of {DEPTH_JOBS} ran within {sizes.drain_s:.0f} s")))
        wall = time.monotonic() - began
        if not jobs:
            found[line] = Found(None, {}, note)
            continue
        used = sum(session.cpu_s() - was for session, was in zip(sessions, cpu, strict=True))
        found[line] = Found(used / jobs * 1e6, {"jobs/s": jobs / wall}, note)
    return found


def start(turn: Turn, sizes: Sizes) -> dict[str, Found]:
    """A job is due; a worker is started; both times include the interpreter's own start."""
    imports = statistics.median(turn.import_s() for _ in range(sizes.starts))
    producer = turn.producer()
    producer.add(1, due_in=0)
    began = time.time()
    worker = turn.worker()
    turn.wait_for(1, START_WAIT_S, worker)
    return {"import": Found(imports * 1000), "start": Found(turn.runs()[0].at - began, {"cpu s": worker.cpu_s()})}


def fitting(producer: Producer, sizes: Sizes) -> tuple[int, float]:
    """How many of the jobs of a burst a peer can add in the time for that, and how long to give it: whole seconds."""
    producer.fill(50, 5)
    a_job_s = 3 / producer.fill(200, 5).per_second
    count = min(sizes.burst, int((sizes.fill_s - 3) / a_job_s))
    return count, float(round(3.5 + count * a_job_s))


def first_runs(turn: Turn, first: int) -> list[Run]:
    """The first run of each job from a number on."""
    found: dict[int, Run] = {}
    for run in turn.runs():
        if run.number >= first:
            found.setdefault(run.number, run)
    return list(found.values())


def paced(turn: Turn, producer: Producer, rate: int, seconds: float, tail_s: float = TAIL_S) -> tuple[list[Run], str]:
    """Jobs at a pace, each with a delay of 1 to 1.5 s; those that ran, and what is to be said of the others."""
    count = int(rate * seconds)
    first = producer.begin("paced", count, seconds, rate=rate, delays_s=LATE_DELAYS_S, behind_s=2.0)
    added = producer.answer(seconds + START_WAIT_S)["jobs"]
    if added < count:
        raise PeerFailed(f"its producer does not keep up with {rate} jobs/s")
    by = time.monotonic() + tail_s
    while len(runs := [run for run in first_runs(turn, first) if run.number < first + count]) < count:
        if time.monotonic() > by:
            break
        turn.pause(0.1)
    if not runs:
        raise PeerFailed(f"no job ran within {tail_s:.0f} s")
    return runs, "" if len(
        runs
    ) == count else f"{len(runs)} of {count} jobs ran within {tail_s:.0f} s; the others do not count"


def percentiles(line: str, runs: Sequence[Run], note: str) -> dict[str, Found]:
    late = sorted(run.lateness_ms for run in runs)
    if not late:
        raise PeerFailed(note or "no job ran in time")
    if late[0] < -1:
        note = "; ".join(filter(None, (f"the earliest ran {-late[0]:.0f} ms too early", note)))
    return {
        f"{line}_p50": Found(statistics.median(late), {}, note),
        f"{line}_p99": Found(late[min(len(late) - 1, len(late) * 99 // 100)], {"max ms": late[-1]}, note),
    }


def wait_until_quiet(session: Session) -> None:
    """Until it has started: it uses less than a tenth of a core for a second."""
    by = time.monotonic() + QUIET_S
    time.sleep(1)
    while time.monotonic() < by:
        before = session.cpu_s()
        time.sleep(1)
        if session.cpu_s() - before < 0.1:
            return


ROWS = {
    "add": Row(
        "Adding",
        "Jobs with a body of 200 bytes, due tomorrow, are added one by one, from 64 asyncio tasks (64 threads if the client is blocking), "
        "and in bulk, 1,000 per call. The columns in µs have the processor time per job, in the client and in the server.",
        add,
        {
            "one": Line("one by one", "jobs/s", "more", ("client µs", "server µs")),
            "tasks": Line("from 64 tasks", "jobs/s", "more", ("client µs", "server µs")),
            "many": Line("in bulk", "jobs/s", "more", ("client µs", "server µs")),
        },
    ),
    "burst": Row(
        "A burst",
        "10,000 jobs are due at one moment, and a worker, set up as its documentation advises, waits for them. The rate is the number of "
        "jobs divided by the time from that moment until the last one runs. The processor time is for adding, waiting and running together.",
        burst,
        {
            "burst": Line("10,000 due at once", "jobs/s", "more", ("client µs", "worker µs", "server µs")),
            "burst_cpu": Line("processor time of a job", "µs", "less"),
        },
    ),
    "lateness": Row(
        "Lateness",
        "Jobs are added at a steady rate, each with a delay between 1 and 1.5 s. Lateness is the time at which a job runs minus its due time, "
        "by the clock of the machine on which everything runs. Redisson's scripts round due times down to milliseconds, so a job may run up to "
        "1 ms early.",
        lateness,
        {
            f"late_{rate}_{percentile}": Line(f"{percentile} at {rate} jobs/s", "ms", "less")
            for rate in (50, 500)
            for percentile in ("p50", "p99")
        },
        once=True,
    ),
    "busy": Row(
        "Lateness while a burst drains",
        "10,000 jobs are due at one moment, and 50 other jobs a second come into the same queue. The table has the lateness of these other "
        "jobs; only those that are due in the seconds after that moment count.",
        busy,
        {
            f"late_busy_{percentile}": Line(f"{percentile} while a burst drains", "ms", "less")
            for percentile in ("p50", "p99")
        },
        once=True,
    ),
    "recovery": Row(
        "Recovery",
        "A worker that holds a job is killed by `kill -9` of all its processes, while another worker waits. The table has the time "
        "until the other worker runs the job.",
        recovery,
        {"recovery": Line("a worker killed with -9", "s", "less")},
        together=True,
        once=True,
    ),
    "memory": Row(
        "Memory",
        "100,000 jobs with a body of 200 bytes wait, and no worker runs. The table has the server's memory per job, for beanstalkd the "
        "resident memory of its process.",
        memory,
        {"memory": Line("a waiting job", "bytes", "less")},
        once=True,
    ),
    "idle": Row(
        "Idle",
        "A worker waits, and a thousand jobs are due tomorrow. The table has the commands that the server executes, those inside "
        "scripts included, and the processor time of worker and server.",
        idle,
        {
            "idle_commands": Line("commands", "a second", "less"),
            "idle_cpu": Line("processor time", "ms/s", "less", ("worker ms/s", "server ms/s")),
        },
        together=True,
        once=True,
    ),
    "depth": Row(
        "Cost with many waiting jobs",
        "Many jobs are due tomorrow, as many as the column says. Meanwhile, jobs that are due at once are added one by one, and a "
        "waiting worker runs them. The times are the processor time per job, from its add to its end, in client, worker and server "
        "together. They include what an idle worker uses between two jobs.",
        depth,
        {
            f"depth_{count}": Line(f"{count:,} waiting", "µs", "less", ("jobs/s",))
            for count in sorted({count for sizes in SIZES.values() for count in sizes.depths})
        },
        once=True,
    ),
    "start": Row(
        "Start",
        "*Import* is the time of an interpreter that starts and imports the package. The other time is from a worker's start until it runs a "
        "job that was waiting.",
        start,
        {
            "import": Line("import", "ms", "less"),
            "start": Line("worker's start to its first job", "s", "less", ("cpu s",)),
        },
    ),
}
