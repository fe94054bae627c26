"""The line of time in a terminal: what it draws, and that it goes on until Ctrl-C."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from contextlib import suppress
from datetime import timedelta
from io import StringIO

from rich.console import Console, RenderableType

import tarry
from programs.terminal import Answers, Cli
from tarry.clients.testing import Clock, TestClient
from tarry.programs.cli import timeline
from warm import WarmTarry


def test_top_draws_the_timeline(client: tarry.Client, cli: Cli, answers: Answers) -> None:
    orders = client.topic("orders")
    for delay in ("0", "30s", "30m", "10h", "40d"):
        orders.add(1, delay=delay)
    picture = cli("top", "--once").stdout
    assert "orders" in picture
    assert "delayed 4" in picture
    for words in ("next minute 1", "next hour 1", "next day 1", "later 1"):
        assert words in picture
    [seen] = answers("top", "orders")
    assert seen["time_line"]["later"] == 1
    assert [sum(stretch["counts"]) for stretch in seen["time_line"]["stretches"]] == [1, 1, 1, 1]
    assert cli("top", "--once", url=cli_url(client)).returncode == 0


def test_histogram_counts_jobs_by_due_time(client: tarry.Client, cli: Cli, answers: Answers) -> None:
    orders = client.topic("orders")
    orders.add_many([1, 2, 3, 4], delay="15m")
    for delay in ("25m", "26m", "2h"):
        orders.add(1, delay=delay)
    said = cli("histogram", "orders", "--span", "30m", "--buckets", "3").stdout.splitlines()
    assert said == [
        "orders  6 due within 30m from 0s on  before 0  after 1",
        "     0s  0",
        f"    10m  {'█' * 50} 4",
        f"    20m  {'█' * 25} 2",
    ]
    [found] = answers("histogram", "orders", "--past", "1h", "--span", "2h", "--buckets", "2")
    assert (found["topic"], found["counts"], found["width_ms"], found["after"]) == ("orders", [0, 6], 3_600_000, 1)
    moment = (orders.stats().now + timedelta(minutes=90)).isoformat()
    [later] = answers("histogram", "orders", "--start", moment, "--buckets", "1")
    assert (later["before"], later["counts"]) == (6, [1])
    client.topic("quiet").configure(ttr="1m")
    assert cli("histogram", "quiet", "--buckets", "1").stdout.splitlines()[1] == "    0s  0"


def test_throughput_counts_what_happened_in_each_minute(client: tarry.Client, cli: Cli, answers: Answers) -> None:
    orders = client.topic("orders")
    orders.add_many([1, 2, 3])
    orders.finish_many(orders.pop_many(2))
    head, names, *lines = cli("throughput", "orders", "--span", "10m").stdout.splitlines()
    assert head == "orders  in the last 10m  added 3  finished 2  failed 0  died 0"
    assert names == "    minute  added  finished  failed  died"
    assert sum(int(line.split()[1]) for line in lines) == 3
    assert {len(line) for line in lines} == {len(names)}
    [found] = answers("throughput", "orders")
    assert (found["topic"], sum(minute["finished"] for minute in found["minutes"])) == ("orders", 2)
    client.topic("quiet").configure(ttr="1m")
    assert cli("throughput", "quiet").stdout.splitlines() == [
        "quiet  in the last 1h  added 0  finished 0  failed 0  died 0"
    ]


def test_top_shows_rates_and_recent_lateness(valkey_url: str, namespace: str) -> None:
    clock = Clock()
    with TestClient(valkey_url, clock, namespace=namespace) as client:
        orders = client.topic("orders")
        orders.add_many([1, 2])
        clock.advance("2h")
        orders.pop_many(2)
        before = timeline.view_topics(client, [])
        assert "late 2h" in drawn(timeline.frame(before, {}, []))
        clock.advance("2s")
        orders.add(3)
        orders.pop()
        picture = drawn(timeline.frame(timeline.view_topics(client, []), before, []))
        assert "added 0.5/s  popped 0.5/s" in picture
        assert "late 2h" not in picture


def test_top_wraps_lines_in_a_narrow_terminal(valkey_url: str, namespace: str) -> None:
    clock = Clock()
    with TestClient(valkey_url, clock, namespace=namespace) as client:
        orders = client.topic("orders of the shop in the high street")
        orders.add_many([1, 2], delay="1h")
        clock.advance("2h")
        orders.pop_many(2)
        seen = timeline.view_topics(client, [])
        [wide, *_] = drawn(timeline.frame(seen, {}, [])).splitlines()
        lines = drawn(timeline.frame(seen, {}, []), width=60).splitlines()
        assert all(len(line) <= 60 for line in lines)
        assert lines[:2] == [
            "orders of the shop in the high street  delayed 0  ready 0",
            "    reserved 2  dead 0  late 1h 11s, p99 1h 11s",
        ]
        assert wide == f"{lines[0]}  {lines[1].strip()}"
        assert len(lines) == 5  # the bars, what they are called, and the rule


def test_top_tells_conditions_the_worst_topic_first(client: tarry.Client, cli: Cli, answers: Answers) -> None:
    fine, died = client.topic("a-fine"), client.topic("died")
    fine.add(1, delay="1h")
    died.add_many(range(12))
    died.bury_many(died.pop_many(12), reason="no")
    picture = cli("top", "--once").stdout
    assert picture.index("12 jobs died in the last ten minutes.") < picture.index("a-fine")
    found = {seen["topic"]: [(one["kind"], one["level"]) for one in seen["conditions"]] for seen in answers("top")}
    assert found == {"a-fine": [("no_consumer", "calm")], "died": [("died", "bad")]}


def test_top_tells_what_jobs_wait_for_in_place_of_a_lateness(valkey_url: str, namespace: str) -> None:
    clock = Clock()
    with TestClient(valkey_url, clock, namespace=namespace) as client:
        orders = client.topic("orders")
        orders.configure(rate="1/1h", burst=1)
        orders.add_many([1, 2])
        clock.advance("1h")
        orders.finish(orders.pop())  # type: ignore[arg-type]
        clock.advance("30m")
        picture = drawn(timeline.frame(timeline.view_topics(client, []), {}, []))
    assert (
        "1 job is held back by the rate limit, the first for 1 h 30 m; the next can be handed out in 30 m." in picture
    )
    assert "late 0" not in picture.splitlines()[0]
    assert "p99" not in picture


def drawn(picture: RenderableType, width: int = 200) -> str:
    console = Console(file=StringIO(), width=width)
    console.print(picture)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_top_runs_in_a_terminal_until_ctrl_c(
    client: tarry.Client, valkey_url: str, namespace: str, tarry_command: WarmTarry
) -> None:
    client.topic("orders").add(1)
    screen, terminal = pty.openpty()
    words = [tarry_command.command, "--url", valkey_url, "--namespace", namespace, "top"]
    here = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "30"}
    with subprocess.Popen(words, stdin=terminal, stdout=terminal, stderr=terminal, env=here) as top:
        os.close(terminal)
        seen = b""
        while seen.count(b"orders") < 2:  # a second frame
            seen += os.read(screen, 65536)
        top.send_signal(signal.SIGINT)
        with suppress(OSError):  # the terminal is gone with it
            while os.read(screen, 65536):
                pass
        assert top.wait() == 0
    os.close(screen)


def cli_url(client: tarry.Client) -> str:
    return client.engine.runner._topology.address.url
