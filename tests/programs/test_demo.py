"""The demo, as a process: its figures are compared with what they must be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tarry
from tarry.programs.demo import screen, story, summary
from tarry.programs.demo.work_log import LogLine, LogReader
from until import until
from warm import WarmTarry

pytestmark = pytest.mark.slow

Cli = Callable[..., subprocess.CompletedProcess[str]]


def all_went_well(done: subprocess.CompletedProcess[str], count: int) -> dict[str, Any]:
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["ok"]
    assert (found["lost"], found["early"], found["closed_after_paid"], found["check"]) == (0, 0, 0, [])
    assert found["orders"] == count
    assert found["closed"] + found["paid_in_time"] >= count - found["paid_too_late"]
    assert found["killed_holding"] >= 1
    assert found["redelivered"] >= found["killed_holding"] - found["paid_too_late"]
    return found


def test_a_small_demo_loses_no_job(cli: Cli, client: tarry.Client) -> None:
    before = client.engine.run(_keys())
    all_went_well(cli("demo", "--json", "--jobs", "60", "--seconds", "2"), 60)
    assert client.engine.run(_keys()) <= before, "it leaves nothing behind"


@pytest.mark.long
def test_the_whole_demo_loses_no_job(cli: Cli) -> None:
    found = all_went_well(cli("demo", "--json"), 1000)
    assert found["paid_in_time"] > 30, "the fewer, the busier the machine"


def test_the_demo_prints_a_summary_and_imports_nothing_from_the_current_folder(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its workers start as a user's do, beside a module that is not theirs."""
    monkeypatch.setenv("COLD_CHILDREN", "yes")
    (tmp_path / "json.py").write_text("raise ImportError('foreign code')")
    monkeypatch.chdir(tmp_path)
    done = cli("demo", "--jobs", "20", "--seconds", "1")
    assert done.returncode == 0, done.stderr
    assert "none lost, none early" in done.stdout
    assert "lateness p50 / p99 / max" in done.stdout


def test_without_a_terminal_no_line_of_the_demo_is_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    found = summarize(*closing("a", 1_000_000, 2_900_000), *closing("b", 2_000_000, 2_000_000))
    screen.print_summary(found)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line != line.rstrip()] == []
    assert lines[-1].startswith("✓ 2 orders, none lost, none early")
    assert lines[-2].endswith("killed: the other worker notices within a second")
    assert lines[-2].strip().startswith("the latest were due just after")


@pytest.mark.parametrize("count", ["0", "1001"])
def test_the_number_of_jobs_is_limited_to_a_thousand(cli: Cli, count: str) -> None:
    done = cli("demo", "--jobs", count)
    assert done.returncode == 2
    assert "there are 1 to 1000 orders" in done.stderr


def test_the_demo_data_look_like_traffic() -> None:
    all_of_them = story.read_orders()
    assert len({order.id for order in all_of_them}) == 1000
    assert all(0 <= order.due_s <= 10 for order in all_of_them)
    assert all(order.paid_s < order.due_s for order in all_of_them if order.paid_s is not None)
    busiest = max(sum(second <= order.due_s < second + 0.25 for order in all_of_them) for second in range(10))
    assert busiest > 3 * 1000 / 40, "there are bursts"


def summarize(*lines: LogLine, paid: dict[str, Any] | None = None) -> summary.Summary:
    dues = {"a": 1_000_000, "b": 2_000_000}
    return summary.summary(dues, paid or {}, [lines], killed_holding=0, took_s=1, check=())


def closing(order: str, due_us: int, handed_us: int, attempt: int = 1) -> list[LogLine]:
    return [LogLine(what, order, attempt, due_us, handed_us) for what in ("taken", "closed")]


def test_the_verdict_counts_a_lost_order() -> None:
    found = summarize(*closing("a", 1_000_000, 1_000_500))
    assert (found.lost, found.ok, found.lateness_max_ms) == (1, False, 0.5)


def test_the_verdict_counts_an_early_order() -> None:
    on_time = closing("b", 2_000_000, 2_000_000)
    assert summarize(*closing("a", 1_000_000, 999_999), *on_time).early == 1
    assert summarize(*closing("a", 900_000, 950_000), *on_time).early == 1, (
        "what the worker was told is not what was asked"
    )


def test_the_verdict_counts_an_order_closed_after_payment() -> None:
    found = summarize(*closing("a", 1_000_000, 1_000_000), paid={"a": "delayed", "b": "ready"})
    assert (found.closed_after_paid, found.lost, found.paid_in_time) == (1, 0, 2)


def test_an_order_that_was_closed_twice_is_counted_and_is_no_fault() -> None:
    again = closing("b", 2_000_000, 2_000_000, attempt=2)
    found = summarize(*closing("a", 1_000_000, 1_000_000), *closing("b", 2_000_000, 2_000_000), *again)
    assert (found.closed_twice, found.redelivered, found.closed, found.ok) == (1, 1, 2, True)


def test_a_payment_while_the_order_is_being_closed_is_late_but_no_fault() -> None:
    found = summarize(*closing("a", 1_000_000, 1_000_000), paid={"a": "reserved", "b": "delayed"})
    assert (found.ok, found.paid_too_late, found.closed) == (True, 1, 1)


def _keys() -> Any:
    """All that the server has. Others' answers, kept for seconds, may go meanwhile."""
    from tarry.core.requests import Command

    return Command((b"EVAL", b"return redis.call('KEYS', '*')", b"0"), set)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_ending_the_demo_ends_its_workers(
    valkey_url: str, tmp_path: Path, end: signal.Signals, tarry_command: WarmTarry
) -> None:
    with Path(os.devnull).open("wb") as nowhere:
        words = ["--url", valkey_url, "demo", "--seconds", "3600"]
        demo = tarry_command.start(words, nowhere, {"TMPDIR": str(tmp_path)}, tmp_path.parent)
    try:
        until(lambda: len(diaries(tmp_path)) == 2 and all(map(ready, diaries(tmp_path))), "both at work")
        demo.send_signal(end)
        code = demo.wait()
    finally:
        demo.kill()  # or it would go on for an hour, and so would the test
    if end == signal.SIGTERM:
        assert code == 130
        assert list(tmp_path.iterdir()) == [], "it has waited for them, and cleaned up"
    else:
        until(lambda: all(map(left, diaries(tmp_path))), "their end")


def diaries(folder: Path) -> list[LogReader]:
    return [LogReader(path).read_new() for path in folder.glob("*/worker-*.jsonl")]


def ready(diary: LogReader) -> bool:
    return any(line.what == "ready" for line in diary.lines)


def left(diary: LogReader) -> bool:
    return diary.lines[-1].what == "left"
