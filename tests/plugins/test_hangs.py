"""A test that hangs is ended, with the stacks of all threads and tasks, and the run goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

HERE = str(Path(__file__).parents[1])
HANGS = """
    import asyncio, threading
    import pytest
    import uvloop

    def test_a_lock():
        lock = threading.Lock()
        with lock:
            lock.acquire()

    def test_what_catches_everything():
        while True:
            try:
                threading.Event().wait()
            except Exception:
                pass

    def test_what_waits_again():
        try:
            threading.Event().wait()
        finally:
            threading.Event().wait()

    async def wait_for_nothing():
        await asyncio.Event().wait()

    async def wait_for_both():
        async with asyncio.TaskGroup() as group:
            group.create_task(wait_for_nothing(), name="the one that waits")

    def test_tasks():
        asyncio.run(wait_for_both())

    def test_tasks_of_uvloop():
        uvloop.run(wait_for_both())

    @pytest.fixture
    def never_over():
        yield
        threading.Event().wait()

    def test_a_fixture(never_over):
        pass

    def test_a_thread():
        ends = threading.Event()
        thread = threading.Thread(target=ends.wait, name="the thread that waits")
        thread.start()
        try:
            thread.join()
        finally:
            ends.set()

    @pytest.mark.hangs_after(1000)
    def test_the_next():
        pass
"""
BLOCKED = """
    import signal, threading
    from pathlib import Path
    import pytest

    def test_where_no_signal_comes_through():
        with Path("times").open("a") as times:
            times.write("once ")
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        threading.Event().wait()

    @pytest.mark.hangs_after(1000)
    def test_the_next():
        pass
"""


@pytest.fixture
def run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, run_pytest: Callable[..., pytest.RunResult]
) -> Callable[..., pytest.RunResult]:
    monkeypatch.setenv("PYTHONPATH", HERE)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def with_page(page: str, *words: str, stuck_after: float) -> pytest.RunResult:
        pytester.makepyfile(page)
        pytester.makeini(f"[pytest]\nhangs_after = 1\nstuck_after = {stuck_after}\n")
        return run_pytest("-p", "plugin_hangs", *words)

    return with_page


def test_what_hangs_fails_with_all_stacks(run: Callable[..., pytest.RunResult]) -> None:
    ran = run(HANGS, stuck_after=1000)
    ran.assert_outcomes(failed=6, passed=2, errors=1)
    said = ran.stdout.str()
    assert said.count("hangs: not over after 1 s") >= 7
    assert said.count("in wait_for_nothing") >= 2
    assert "task the one that waits of <uvloop.Loop" in said
    assert "thread the thread that waits:" in said
    assert ", and now it waits here" in said


def test_a_process_that_no_signal_reaches_is_ended_and_replaced(
    run: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    ran = run(BLOCKED, "-p", "plugin_processes", "-n", "1", stuck_after=0.2)
    ran.assert_outcomes(failed=1, passed=1)
    ran.stdout.fnmatch_lines(
        ["*crashed while running*test_where_no_signal_comes_through*", "*in test_where_no_signal*"]
    )
    assert (pytester.path / "times").read_text() == "once "
