"""Several processes run the tests that one has collected: each is a fork of it.

    -n 4     four processes; without it the first one runs all tests

All tests of a file run in one process, for its fixtures. A process that is free takes the next file, in the order in which they were
collected. What its tests report goes to the first process, which tells the other plugins. A process that ends in the middle of a test
fails that test, and another one goes on with the rest of the file.

pytest-xdist starts Python for each, which imports and collects everything again: 5 s of processor time for each of ten processes.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import sys
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import pytest

from quick_exit import end

TOGETHER = ("frameworks/test_celery", "frameworks/test_django", "dashboard/test_browser")
"""Files that begin so stay in one process: each more would start a RabbitMQ, import Django or start a Chromium of its own."""
NUMBER = "TESTS_PROCESS"
"""The environment variable with the number of the process."""
COLLECTED_AFTER = (10_000, 10, 10)
"""The garbage collector looks after so many new objects, not after 700: a test makes few cycles, and to look for them was a twelfth of what it
costs. What is left is looked through at the end of a process."""
ENDS_IN_S = 60.0
"""A process that is interrupted takes its fixtures down; after that it is killed."""

said_at_last = pytest.StashKey[IO[bytes]]()
"""A file for what a process says when it ends in the middle of a test: standard error, or what the first process reads."""


class Hooks:
    """What other plugins may add."""

    @pytest.hookspec(firstresult=True)
    def pytest_process_ends(self) -> object:
        """In a process that has run its last test: what it tells the first one."""

    @pytest.hookspec
    def pytest_process_ended(self, told: object) -> None:
        """In the first process: what another one told at its end."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(Hooks)


def pytest_addoption(parser: pytest.Parser) -> None:
    words = ("-n", "--numprocesses")  # small letters are pytest's own; pytest-xdist takes this one in the same way
    parser.getgroup("terminal reporting")._addoption(*words, type=int, default=0, help="run tests in several processes")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    options = session.config.option
    stopped = session.testsfailed and not options.continue_on_collection_errors
    if not options.numprocesses or options.collectonly or stopped or not session.items:
        return None
    Several(session).run(options.numprocesses)
    return True


def _file_of(item: pytest.Item) -> str:
    file = item.nodeid.partition("::")[0]
    return next((place for place in TOGETHER if file.removeprefix("tests/").startswith(place)), file)


class Running(NamedTuple):
    """A process, as the first one knows it."""

    pid: int
    said: Path


class Several:
    """In the first process."""

    def __init__(self, session: pytest.Session) -> None:
        self.session, self.items, self.hook = session, session.items, session.config.hook
        files: defaultdict[str, list[int]] = defaultdict(list)
        for number, item in enumerate(self.items):
            files[_file_of(item)].append(number)
        self.files = list(files.values())
        self.folder: Path = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        self.selector = selectors.DefaultSelector()
        self.at: dict[int, int] = {}
        self.ended: set[int] = set()
        self.to_run = set(range(len(self.items)))
        self.started = 0
        self.taken, every = os.pipe()
        os.write(every, b"".join(number.to_bytes(4, "big") for number in range(len(self.files))))
        os.close(every)

    def run(self, many: int) -> None:
        """Until all tests have run, or one says that no more shall."""
        try:
            for _ in range(min(many, len(self.files))):
                self._start([])
            while self.selector.get_map():
                for key, _ in self.selector.select():
                    self._hear(key.fileobj, key.data)  # type: ignore[arg-type]
                if self.session.shouldfail:
                    raise self.session.Failed(self.session.shouldfail)
                if self.session.shouldstop:
                    raise self.session.Interrupted(self.session.shouldstop)
        finally:
            self._end()
        if self.to_run:
            names = " ".join(self.items[number].nodeid for number in sorted(self.to_run))
            raise RuntimeError(f"no process has run {names}")

    def _start(self, first: list[int]) -> None:
        """One more process, which begins with these tests."""
        here, there = Pipe(duplex=False)
        number, self.started = self.started, self.started + 1
        said = self.folder / f"said-{number}"
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            self._live(number, said, there, first)
        there.close()
        self.selector.register(here, selectors.EVENT_READ, Running(pid, said))

    def _live(self, number: int, said: Path, line: Connection, first: list[int]) -> NoReturn:
        """The life of a process that has just been started."""
        code = 1
        try:
            for key in self.selector.get_map().values():
                key.fileobj.close()  # type: ignore[union-attr]
            gc.set_threshold(*COLLECTED_AFTER)
            _become(self.session.config, number, self.folder, said)
            _run(self.session, line, self._numbers(first))
            code = 0
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            with suppress(Exception):
                self.session._setupstate.teardown_exact(None)
        except BaseException:  # noqa: BLE001  # the first process raises it
            with suppress(OSError):  # the first process is gone
                line.send(traceback.format_exc())
        finally:
            end(code)

    def _numbers(self, first: list[int]) -> Iterator[list[int]]:
        """Of the tests that this process runs, file by file."""
        if first:
            yield first
        while taken := os.read(self.taken, 4):
            yield self.files[int.from_bytes(taken, "big")]

    def _hear(self, line: Connection, running: Running) -> None:
        try:
            told = line.recv()
        except (EOFError, ConnectionResetError):
            self._forget(line, running)
            return
        match told:
            case int():
                self.at[running.pid] = told
                item = self.items[told]
                self.hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            case list():
                for data in told:
                    self._pass_on(data)
                if (number := self.at.get(running.pid)) in self.to_run:
                    self.to_run.remove(number)
                    item = self.items[number]
                    self.hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
            case str():
                raise RuntimeError(told)
            case (end,):
                self.ended.add(running.pid)
                if end is not None:
                    self.hook.pytest_process_ended(told=end)

    def _pass_on(self, data: dict[str, Any]) -> None:
        if "warning_message" in data:
            self.hook.pytest_warning_recorded.call_historic(kwargs=data)
            return
        report = self.hook.pytest_report_from_serializable(config=self.session.config, data=data)
        self.hook.pytest_runtest_logreport(report=report)

    def _forget(self, line: Connection, running: Running) -> None:
        """It has ended; if it had not said so, its test has failed, and another process runs the rest of the file."""
        self.selector.unregister(line)
        line.close()
        _, status = os.waitpid(running.pid, 0)
        if running.pid in self.ended:
            return
        how = f"ended with {os.waitstatus_to_exitcode(status)}"
        if (number := self.at.get(running.pid)) is None:
            raise RuntimeError(f"a process {how} before it ran a test")
        item = self.items[number]
        said = running.said.read_text("utf-8", "replace") if running.said.exists() else ""
        words = f"the process {how}: it crashed while running {item.nodeid}\n{said}"
        self.hook.pytest_runtest_logreport(
            report=pytest.TestReport(item.nodeid, item.location, {}, "failed", words, "call")
        )
        self.to_run.discard(number)
        (file,) = (file for file in self.files if number in file)
        self._start([one for one in file if one > number and one in self.to_run])

    def _end(self) -> None:
        """What still runs is interrupted."""
        os.close(self.taken)
        left = [key.data.pid for key in self.selector.get_map().values()]
        for pid in left:
            os.kill(pid, signal.SIGINT)
        ends = time.monotonic() + ENDS_IN_S
        for pid in left:
            while os.waitpid(pid, os.WNOHANG) == (0, 0):
                if time.monotonic() > ends:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(0.01)
        self.selector.close()


def _become(config: pytest.Config, number: int, folder: Path, said: Path) -> None:
    """One of several, which shows nothing and has files of its own."""
    os.environ[NUMBER] = str(number)
    if said_at_last in config.stash:
        with said.open("wb") as file:
            os.dup2(file.fileno(), config.stash[said_at_last].fileno())
    factory = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._exit_stack.pop_all()  # what it removes is the first process's
    factory._basetemp = folder / f"process-{number}"
    factory._basetemp.mkdir(mode=0o700)
    manager = config.pluginmanager
    manager.unregister(name="terminalreporter")
    if capture := manager.getplugin("capturemanager"):  # the file that it captures in is the first process's
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture()


class Teller:
    """Keeps what a test says for the first process, until the test is over."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.kept: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed or not isinstance(self.item, End):
            self.kept.append(self.config.hook.pytest_report_to_serializable(config=self.config, report=report))

    def pytest_warning_recorded(
        self,
        warning_message: warnings.WarningMessage,
        when: str,
        nodeid: str,
        location: tuple[str, int, str] | None,
    ) -> None:
        said, category = str(warning_message.message), warning_message.category
        told = warnings.WarningMessage(said, category, warning_message.filename, warning_message.lineno)
        self.kept.append({"warning_message": told, "when": when, "nodeid": nodeid, "location": location})

    def run(self, item: pytest.Item, following: pytest.Item | pytest.Session | None) -> list[dict[str, Any]]:
        """Runs it, and answers what it says; the fixtures that what follows needs stay."""
        self.item, self.kept = item, []
        self.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return self.kept


class End(pytest.Item):
    """The last of a process, with which the fixtures of the session are taken down, as a test takes down its own."""

    def runtest(self) -> None:
        gc.collect()  # what nobody has closed is told now


def _run(session: pytest.Session, line: Connection, files: Iterable[list[int]]) -> None:
    items, config = session.items, session.config
    config.pluginmanager.register(teller := Teller(config))
    for number, following in (pair for file in files for pair in zip(file, [*file[1:], None], strict=True)):
        line.send(number)
        # which file is next is not known before this test is over: the session's own fixtures stay
        line.send(teller.run(items[number], session if following is None else items[following]))
        if session.shouldfail or session.shouldstop:
            break
    line.send(teller.run(End.from_parent(session, name=f"end of process {os.environ[NUMBER]}"), None))
    line.send((config.hook.pytest_process_ends(),))
