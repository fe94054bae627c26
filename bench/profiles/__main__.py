"""``python -m bench.profiles [--write docs/evidence/performance.md]``: counts, prints the tables, puts them into a page."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path

import hiredis
import redis

import tarry
from bench import table
from bench.harness import BODY, private_server
from bench.profiles.callgrind import CountedProcess, Counts, count_run, run
from bench.profiles.child import Child
from bench.profiles.client import MANY
from bench.profiles.processes import How, TracedProcess, counted_server, python, wait_until
from bench.rows.service import ADD, JOBS, TOPIC
from tarry.connections.embedded import plain_client
from tarry.connections.fitness import parse_info

BEGIN, END = "<!-- profile: tables -->", "<!-- profile: end -->"
OPERATIONS = {
    "empty_script": ("an empty script, by redis-py", 200, 1),
    "add_for_tomorrow": ("`add`, due tomorrow", 200, 1),
    "add": ("`add`, due at once", 400, 1),
    "pop": ("`pop`", 400, 1),
    "touch": ("`touch`", 200, 1),
    "release": ("`release` for a retry tomorrow", 200, 1),
    "finish": ("`finish`", 200, 1),
    "add_many": (f"`add_many` of {MANY}, per job", 10, MANY),
    "pop_many": (f"`pop_many` of {MANY}, per job", 10, MANY),
    "touch_many": (f"`touch_many` of {MANY}, per job", 5, MANY),
    "release_many": (f"`release_many` of {MANY}, per job", 5, MANY),
    "finish_many": (f"`finish_many` of {MANY}, per job", 5, MANY),
}
"""The name of each, how often it is done, and for how many jobs at once. What is popped, is released or finished."""
WARM_UP = ("empty_script", "add", "pop", "touch", "finish", "add", "pop", "release", "add_for_tomorrow")
WARM_UP += ("add_many", "pop_many", "touch_many", "finish_many", "add_many", "pop_many", "release_many")
ONE_BY_ONE = ("empty_script", "add_for_tomorrow", "add", "pop", "finish")
TIMED = 20_000
BURST, AHEAD_S = 2000, 15
REQUESTS = 200
SCRIPT, INTO_LUA, FROM_LUA, NESTED, COMMAND = "evalShaCommand", "lua_pcall", "VM_CallArgv", "call'2", "Command"
"""Functions of Valkey 9, from the outside to the inside; callgrind calls a function that runs within itself ``'2``."""
PARSED, PERSISTED = "parseInputBuffer", "feedAppendOnlyFile"
LIBRARIES = {
    "hiredis": "hiredis: packs commands, reads replies",
    "_core": "msgspec: bodies",
    "loop": "uvloop",
    "libc": "C library: memory, formatting",
    "libpython": "Python: interpreter and objects",
    "python3": "Python: interpreter and objects",
}
OTHERS = "others"
Profile = dict[str, "Counts | Counter[str]"]
"""By operation."""


def profile_client(client: Child, process: Child) -> Profile:
    """Lets the client do each operation, and counts in the process, which is the client itself or its server."""
    assert isinstance(process, CountedProcess | TracedProcess)
    client.read_line()
    for name in WARM_UP:
        client.do(name, 5)
    return {name: process.measure(partial(client.do, name, times)) for name, (_, times, _) in OPERATIONS.items()}


def clients(how: How) -> Profile:
    with private_server() as server, python(how, "bench.profiles.client", server.url) as client:
        return profile_client(client, client)


def servers() -> Profile:
    with counted_server() as (url, server), python("plain", "bench.profiles.client", url) as client:
        return profile_client(client, server)


def processor_times() -> list[str]:
    """A table of processor time; nothing is counted, so the processes run at full speed."""
    rows = []
    with private_server() as server, python("plain", "bench.profiles.client", server.url) as client:
        assert isinstance(server.address, str)
        client.read_line()
        with plain_client.RespConnection.connect(server.address) as line:

            def do(name: str, times: int) -> list[float]:
                used = client.do(name, times).split()[1:]
                info = parse_info(line.call("INFO", "cpu"))
                return [*map(float, used), float(info["used_cpu_user"]), float(info["used_cpu_sys"])]

            for name in ONE_BY_ONE:
                before = do(name, 20)
                after = do(name, TIMED)
                used = [(now - then) / TIMED * 1e6 for now, then in zip(after, before, strict=True)]
                rows.append([OPERATIONS[name][0], *[f"{us:.1f}" for us in used], f"{sum(used):.1f}"])
    headings = ["µs of processor time", "client", "kernel, for the client", "server", "kernel, for the server", "all"]
    return as_table(headings, rows)


def starts() -> list[str]:
    """A table of whole processes, from the start to the exit."""
    with private_server() as server:
        with tarry.Client(server.url) as client:
            client.topic("orders").add(BODY)
        command = ["-m", "tarry", "--url", server.url]
        processes = {
            "Python alone": ["-c", "pass"],
            "`import tarry`": ["-c", "import tarry"],
            "`import redis`": ["-c", "import redis"],
            "`import typer`": ["-c", "import typer"],
            "a blocking client that adds a job": [
                "-c",
                f"import tarry\nwith tarry.Client({server.url!r}) as client: client.topic('orders').add(1)",
            ],
            "`tarry --version`": ["-m", "tarry", "--version"],
            "`tarry --help`": ["-m", "tarry", "--help"],
            "`tarry add --help`": ["-m", "tarry", "add", "--help"],
            "`tarry add orders 1`": [*command, "add", "orders", "1"],
            "`tarry list orders`": [*command, "list", "orders"],
            "`tarry stats`": [*command, "stats"],
        }
        rows = []
        for name, words in processes.items():
            run([sys.executable, *words])  # which writes the bytecode of what is imported
            rows.append([name, f"{count_run([sys.executable, *words]) / 1_000_000:,.0f}"])
    return as_table(["a process", "millions of instructions"], rows)


def worker(how: How) -> Counts | Counter[str]:
    """A burst of jobs that fall due at one moment."""
    with private_server() as server, python(how, "bench.profiles.worker", server.url) as process:
        assert isinstance(process, CountedProcess | TracedProcess)
        with tarry.Client(server.url) as client:
            topic = client.topic("orders")
            jobs = topic.verbs.context.keys.jobs.decode()
            assert isinstance(server.address, str)
            with plain_client.RespConnection.connect(server.address) as line:
                topic.add_many([BODY] * MANY)
                wait_until(lambda: line.call("HLEN", jobs) == 0)
                due = datetime.now(timezone.utc) + timedelta(seconds=AHEAD_S)
                topic.add_many([BODY] * BURST, at=due)
                assert datetime.now(timezone.utc) < due, "adding took longer than the delay"
                return process.measure(lambda: wait_until(lambda: line.call("HLEN", jobs) == 0))


def service(how: How) -> Profile:
    """Requests one after the other over one connection."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ("tarry", "serve", "--port", str(port), "--drain", "0s", "--url")
    with private_server() as server, python(how, *words, server.url) as process, ExitStack() as stack:
        assert isinstance(process, CountedProcess | TracedProcess)
        wait_until(lambda: _listens(port))
        line = stack.enter_context(closing(http.client.HTTPConnection("127.0.0.1", port)))

        def ask(path: str, body: bytes) -> bytes:
            line.request("POST", path, body, {"Content-Type": "application/json"})
            return line.getresponse().read()

        def add() -> None:
            ask(JOBS, ADD)

        def pop_and_finish() -> None:
            job = json.loads(ask(f"{TOPIC}/pop", b"{}"))
            ask(f"{JOBS}/{job['id']}/finish", b'{"receipt":%d}' % job["receipt"])

        found: Profile = {}
        with tarry.Client(server.url) as client:
            client.topic("orders").add_many([BODY] * (REQUESTS + 5))
        for name, operation in (("add", add), ("pop and finish", pop_and_finish)):
            _repeat(operation, 5)
            found[name] = process.measure(partial(_repeat, operation, REQUESTS))
        return found


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def _repeat(operation: Callable[[], None], times: int) -> None:
    for _ in range(times):
        operation()


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def as_table(headings: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (headings, ["---"] * len(headings), *rows)]


def thousands(number: float) -> str:
    return f"{number / 1000:,.1f}"


def overview(client: Profile, server: Profile) -> list[str]:
    rows = []
    for name, (words, times, jobs) in OPERATIONS.items():
        used, spent = client[name], server[name]
        assert isinstance(used, Counts)
        assert isinstance(spent, Counts)
        share = times * jobs
        rows.append(
            [
                words,
                thousands(used.total / share),
                thousands(spent.total / share),
                f"{spent.calls[FROM_LUA] / times:.0f}",
            ]
        )
    return as_table(["operation", "client", "server", "commands in the script, all jobs together"], rows)


def inside(counts: Counts) -> int:
    """The instructions of the commands that a script calls."""
    return sum(
        cost for (caller, called), cost in counts.by_call.items() if caller == NESTED and called.endswith(COMMAND)
    )


PARTS: dict[str, Callable[[Counts], int]] = {
    "reading and parsing the command": lambda counts: counts.of(PARSED),
    "keys and arguments into Lua, the answer out": lambda counts: counts.of(SCRIPT) - counts.of(INTO_LUA),
    "Lua, and values into commands and back": lambda counts: counts.of(INTO_LUA) - counts.of(FROM_LUA),
    "around each command: look-up, permissions, reply": lambda counts: counts.of(FROM_LUA) - inside(counts),
    "the commands themselves": inside,
    "append-only file": lambda counts: counts.of(PERSISTED),
}


def server_parts(server: Profile, names: tuple[str, ...]) -> list[str]:
    rows = []
    for part, of in PARTS.items():
        rows.append([part, *[thousands(of(_counts(server[name])) / OPERATIONS[name][1]) for name in names]])
    left = [
        (_counts(server[name]).total - sum(of(_counts(server[name])) for of in PARTS.values())) / OPERATIONS[name][1]
        for name in names
    ]
    rows.append(["the rest: events, sockets, the reply", *map(thousands, left)])
    return as_table(["server", *[OPERATIONS[name][0] for name in names]], rows)


def _counts(found: Counts | Counter[str]) -> Counts:
    assert isinstance(found, Counts)
    return found


def by_library(columns: dict[str, tuple[Counts | Counter[str], int]]) -> list[str]:
    """The instructions of processes by library; each column has the counts, and of how many they are."""
    shares: dict[str, list[float]] = {}
    for at, (found, number) in enumerate(columns.values()):
        for library, cost in _counts(found).by_library.items():
            word = next((words for part, words in LIBRARIES.items() if library.startswith(part)), OTHERS)
            shares.setdefault(word, [0.0] * len(columns))[at] += cost / number
    ordered = sorted(shares.items(), key=lambda item: -sum(item[1]))
    sums = [sum(values[at] for values in shares.values()) for at in range(len(columns))]
    rows = [[word, *map(thousands, values)] for word, values in ordered]
    return as_table(["thousands of instructions", *columns], [*rows, ["**all**", *map(thousands, sums)]])


def by_layer(columns: dict[str, tuple[Counts | Counter[str], int]]) -> list[str]:
    """The bytecodes of processes by layer."""
    layers = Counter[str]()
    for found, number in columns.values():
        assert isinstance(found, Counter)
        layers.update({layer: count / number for layer, count in found.items()})  # type: ignore[misc]
    rows = [
        [layer, *[f"{found[layer] / number:,.0f}" for found, number in columns.values()]]  # type: ignore[index]
        for layer, _ in layers.most_common()
    ]
    return as_table(["bytecodes", *columns], rows)


@contextmanager
def step(what: str) -> Iterator[None]:
    print(f"{what} …", file=sys.stderr, flush=True)
    yield


def tables() -> str:
    with step("processor time"):
        times = processor_times()
    with step("the server"):
        server = servers()
    with step("a client"):
        client, layers = clients("instructions"), clients("bytecodes")
    with step("a worker"):
        burst, burst_layers = worker("instructions"), worker("bytecodes")
    with step("the service"):
        requests, request_layers = service("instructions"), service("bytecodes")

    with step("starts"):
        started = starts()

    def columns(
        of_client: Profile, job: Counts | Counter[str], of_service: Profile
    ) -> dict[str, tuple[Counts | Counter[str], int]]:
        some = {OPERATIONS[name][0]: (of_client[name], OPERATIONS[name][1]) for name in ONE_BY_ONE}
        asked = {f"service: {name}": (found, REQUESTS) for name, found in of_service.items()}
        return {**some, "worker, per job": (job, BURST), **asked}

    versions = {
        "Python": platform.python_version(),
        "redis-py": redis.__version__,
        "hiredis": hiredis.__version__,
        "Valkey": server_version(),
        "processor": processor(),
        "processors": str(os.cpu_count()),
    }
    about = ", ".join(f"{name} {value}" for name, value in versions.items())
    lines = [
        f"Counted on {datetime.now(timezone.utc):%Y-%m-%d} at commit {commit()} with {about}.",
        "",
        "**Instructions** for one operation in the blocking client and in the server, in thousands:",
        "",
        *overview(client, server),
        "",
        "**Processor time**, the only table that a busy machine changes:",
        "",
        *times,
        "",
        "**The server**, thousands of instructions for one operation:",
        "",
        *server_parts(server, ONE_BY_ONE),
        "",
        "**Clients, a worker, the service**, by library:",
        "",
        *by_library(columns(client, burst, requests)),
        "",
        "**The same by layer**, in bytecodes of the interpreter:",
        "",
        *by_layer(columns(layers, burst_layers, request_layers)),
        "",
        "**Starts**, from the first instruction to the exit:",
        "",
        *started,
    ]
    return "\n".join(lines)


def server_version() -> str:
    with private_server() as server:
        assert isinstance(server.address, str)
        with plain_client.RespConnection.connect(server.address) as line:
            info = parse_info(line.call("INFO", "server"))
        return str(info.get("valkey_version", info["redis_version"]))


def commit() -> str:
    """The commit of this tree; with ``+`` if files were changed since."""
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--exclude=*"], capture_output=True, text=True, check=True
    )
    return told.stdout.strip()


def processor() -> str:
    """The processor's model. Instruction counts depend on it little: the C library has variants."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return platform.machine()
    names = [line.partition(": ")[2] for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser("python -m bench.profiles", description=__doc__)
    parser.add_argument("--write", type=Path, metavar="PAGE", help="replace the tables in a Markdown page")
    given = parser.parse_args()
    found = tables()
    print(found)
    if given.write:
        table.write(given.write, BEGIN, END, found)


if __name__ == "__main__":
    main()
