"""The command line, as processes: what it answers, in words and as JSON, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

import tarry
from servers import free_ports
from tarry.clients.testing import Clock, TestClient
from tarry.programs.cli import time_line

Cli = Callable[..., subprocess.CompletedProcess[str]]
Answers = Callable[..., list[Any]]


def test_the_story_of_a_job(answers: Answers, cli: Cli) -> None:
    [added] = answers("add", "orders", '{"order": 7}', "--id", "7", "--header", "trace=abc", "--delay", "1h")
    assert added == {"id": "7", "created": True, "state": "delayed", "due": added["due"]}
    assert answers("pop", "orders") == []
    assert answers("reschedule", "orders", "7", "--delay", "0") == [{"id": "7", "was": "delayed"}]
    [job] = answers("pop", "empty", "orders", "--wait", "5s", "--ttr", "10m")
    assert (job["topic"], job["id"], job["body"], job["attempt"]) == ("orders", "7", {"order": 7}, 1)
    assert (job["headers"], job["ttr_ms"]) == ({"trace": "abc"}, 600_000)
    assert job["lateness_ms"] >= 0
    receipt = str(job["receipt"])
    assert answers("touch", "orders", "7", receipt, "--ttr", "20m") == [{"id": "7", "done": "touched"}]
    assert answers("release", "orders", "7", receipt, "--uncounted") == [{"id": "7", "done": "released"}]
    [again] = answers("pop", "orders")
    assert again["attempt"] == 1
    assert cli("finish", "orders", "7", receipt).returncode == 1
    assert answers("finish", "orders", "7", str(again["receipt"])) == [{"id": "7", "done": "finished"}]
    assert answers("get", "orders", "7") == [None]
    [stats] = answers("stats", "orders")
    assert (stats["added"], stats["finished"], stats["stale"]) == (1, 1, 1)


def test_a_dead_job_is_seen_and_kicked(answers: Answers) -> None:
    answers("add", "orders", "1", "--id", "7")
    [job] = answers("pop", "orders")
    answers("bury", "orders", "7", str(job["receipt"]), "--reason", "no such customer")
    [seen] = answers("list", "orders", "--state", "dead")
    assert (seen["id"], seen["state"], seen["reason"], seen["attempts"]) == ("7", "dead", "no such customer", 1)
    assert answers("kick", "orders", "7", "8") == [{"id": "7", "was": "dead"}, {"id": "8", "was": None}]
    assert answers("delete", "orders", "7") == [{"id": "7", "was": "ready"}]


def test_many_jobs_come_from_a_file_or_stdin(answers: Answers, tmp_path: Path) -> None:
    lines = [{"body": 1, "id": "a"}, {"body": [2], "delay": "1h"}, {"body": None, "at": "2100-01-01T00:00:00Z"}]
    text = "\n".join(map(json.dumps, lines))
    added = answers("add", "orders", "--file", "-", stdin=text)
    assert [job["state"] for job in added] == ["ready", "delayed", "delayed"]
    assert added[2]["due"] == "2100-01-01T00:00:00.000000Z"
    file = tmp_path / "words"
    file.write_text("plain\ntext\n")
    assert len(answers("add", "words", "--file", str(file), "--raw")) == 2
    assert [job["body"] for job in answers("pop", "words", "-n", "9")] == ["plain", "text"]


def test_bytes_are_shown_in_base64(client: tarry.Client, answers: Answers) -> None:
    client.topic("orders").add(b"\x00\xff")
    [job] = answers("pop", "orders")
    assert job["body_base64"] == "AP8="
    assert "body" not in job


def test_a_schedule_is_put_shown_paused_and_deleted(answers: Answers, cli: Cli) -> None:
    [made] = answers("schedule", "put", "orders", "tidy", '{"what": "attic"}', "--every", "5m", "--missed", "all")
    assert (made["id"], made["body"], made["every_ms"], made["missed"]) == ("tidy", {"what": "attic"}, 300_000, "all")
    assert answers("schedule", "show", "orders", "tidy") == [made]
    answers("schedule", "put", "orders", "report", "--cron", "0 9 * * 1-5", "--tz", "Europe/Berlin")
    assert [one["id"] for one in answers("schedule", "list")] == ["tidy", "report"]
    assert answers("schedule", "pause", "orders", "tidy") == [{"topic": "orders", "id": "tidy", "done": "paused"}]
    assert "tidy  every 5m  paused  fired 0" in cli("schedule", "list", "orders").stdout
    answers("schedule", "resume", "orders", "tidy")
    answers("schedule", "delete", "orders", "tidy")
    gone = cli("schedule", "show", "orders", "tidy")
    assert (gone.returncode, gone.stderr) == (1, "orders has no schedule tidy\n")
    assert cli("schedule", "put", "orders", "x", "--cron", "bad").returncode == 2


def test_a_topic_is_limited_and_let_go(answers: Answers, cli: Cli) -> None:
    none = {"topic": "orders", "rate": None, "burst": None, "concurrency": None, "max_lateness_ms": None}
    assert answers("limit", "orders") == [none]
    [limits] = answers("limit", "orders", "--rate", "100/1m", "--burst", "5", "--concurrency", "2")
    assert limits == {**none, "rate": "100/1m", "burst": 5, "concurrency": 2}
    [limits] = answers("limit", "orders", "--max-lateness", "10m", "--burst", "none", "--rate", "1/1h")
    assert limits == {**none, "rate": "1/1h", "burst": 1, "concurrency": 2, "max_lateness_ms": 600_000}
    answers("add", "orders", "1")
    assert answers("pop", "orders") == []
    [stats] = answers("stats", "orders")
    assert stats["limited"]["why"] == "rate"
    assert "held back by its rate" in cli("stats", "orders").stdout
    assert cli("limit", "orders").stdout == "orders  rate 1/1h  burst 1  concurrency 2  max lateness 600000\n"
    assert answers("limit", "orders", "--rate", "none", "--concurrency", "none", "--max-lateness", "none") == [none]
    assert cli("limit", "orders", "--concurrency", "many").returncode == 2


def test_a_topic_is_paused_and_goes_on(answers: Answers) -> None:
    answers("add", "orders", "1")
    [paused] = answers("pause", "orders", "--for", "1h")
    assert paused["paused_until"].endswith("Z")
    assert answers("pop", "orders") == []
    answers("resume", "orders")
    assert len(answers("pop", "orders")) == 1


def test_purge_says_first_what_it_would_do(answers: Answers) -> None:
    answers("add", "orders", "1")
    answers("add", "orders", "2", "--delay", "1h")
    assert answers("purge", "orders", "--state", "delayed", "--dry-run") == [{"topic": "orders", "would_purge": 1}]
    assert answers("purge", "orders", "--dry-run") == [{"topic": "orders", "would_purge": 2}]
    assert answers("purge", "orders") == [{"topic": "orders", "purged": 2}]
    [checked] = answers("check", "orders")
    assert checked["ok"]


def test_long_lists_are_followed_to_their_end(client: tarry.Client, answers: Answers, cli: Cli) -> None:
    client.topic("orders").add_many(range(1500), delay="1h")
    assert len(answers("list", "orders", "--limit", "2000")) == 1500
    some = cli("list", "orders", "--limit", "10")
    assert len(some.stdout.splitlines()) == 10
    assert "there are more" in some.stderr


def test_words_are_for_people(cli: Cli) -> None:
    assert cli("stats").stderr == "there is no topic yet\n"
    assert cli("add", "orders", '"x"', "--id", "7").stdout.startswith("7  ready, due 2")
    assert cli("add", "orders", '"x"', "--id", "7", "--if-exists", "keep").stdout.startswith("7  was there already")
    assert "state          ready" in cli("get", "orders", "7").stdout
    assert cli("pop", "orders").stdout.rstrip().endswith('"x"')
    assert cli("stats").stdout.startswith("orders  delayed 0  ready 0  reserved 1  dead 0")
    assert cli("delete", "orders", "7", "8").stdout == "7  deleted, was reserved\n8  unknown\n"
    assert cli("pop", "orders").stderr == "nothing is due in orders\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("add orders {", 2, "bad_input"),
        ("add orders", 2, "bad_input"),
        ("add orders 1 --delay soon", 2, "bad_input"),
        ("add orders 1 --at 2100-01-01", 2, "bad_input"),
        ("add orders 1 --at later", 2, "bad_input"),
        ("add orders 1 --max-attempts many", 2, "bad_input"),
        ("add orders 1 --header x", 2, "bad_input"),
        ("add orders 1 --if-exists perhaps", 2, "bad_input"),
        ("add orders --file /nowhere", 2, "bad_input"),
        ("add {} 1", 2, "bad_input"),
        ("list orders --state blue", 2, "bad_input"),
        ("finish orders 7 1", 1, "stale_receipt"),
        ("stats --url ftp://x", 2, "bad_input"),
    ],
)
def test_a_refusal_is_one_line_with_a_code(cli: Cli, words: str, code: int, said: str) -> None:
    done = cli(*words.split())
    assert done.returncode == code
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert line.endswith(f"[{said}]")


@pytest.mark.parametrize("words", ["frob", "add", "pop", "finish orders 7 receipt", "stats --frob"])
def test_wrong_words_end_with_two_and_a_hint(cli: Cli, words: str) -> None:
    done = cli(*words.split())
    assert done.returncode == 2
    assert "-h" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_taken_id_ends_with_one(cli: Cli) -> None:
    assert cli("add", "orders", "1", "--id", "7").returncode == 0
    done = cli("add", "orders", "1", "--id", "7")
    assert done.returncode == 1
    assert "[job_exists]" in done.stderr


def test_bad_lines_of_a_file_are_named(cli: Cli) -> None:
    for line in (
        '{"id": "7"}',
        '{"body": 1, "id": 7}',
        "7",
        "{",
        '{"body": 1, "colour": 2}',
        '{"body": 1, "at": "2100-01-01"}',
    ):
        done = cli("add", "orders", "--file", "-", stdin=f'{{"body": 1}}\n{line}\n')
        assert done.returncode == 2
        assert "line 2" in done.stderr
    assert cli("stats", "orders").stdout.startswith("orders  delayed 0  ready 0"), "nothing was written"


def test_no_server_ends_with_three(cli: Cli, tmp_path: Path) -> None:
    binary_free = {**os.environ, "TARRY_EMBEDDED": "no"}
    del binary_free["PATH"]
    binary_free.pop("TARRY_URL", None)
    done = subprocess.run(
        [sys.executable, "-m", "tarry", "stats"], env=binary_free, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "[server_unfit]" in done.stderr


def test_a_closed_pipe_is_silent(client: tarry.Client, valkey_url: str, namespace: str) -> None:
    client.topic("orders").add_many(range(5000), delay="1h")
    words = [sys.executable, "-m", "tarry", "--url", valkey_url, "--namespace", namespace, "list", "orders"]
    with subprocess.Popen([*words, "--limit", "5000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as listing:
        assert listing.stdout is not None
        assert listing.stderr is not None
        listing.stdout.readline()
        listing.stdout.close()
        assert b"Traceback" not in listing.stderr.read()
        assert listing.wait() == 0


def test_a_pipe_that_nobody_reads_is_silent(valkey_url: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    words = [sys.executable, "-m", "tarry", "--url", valkey_url, "stats", "orders"]
    here = {**os.environ, "TARRY_LOG": "ERROR"}
    done = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, check=False, env=here)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_options_may_stand_before_the_verb(cli: Cli, namespace: str) -> None:
    cli("add", "orders", "1")
    assert json.loads(cli("--json", "stats", "orders").stdout)["ready"] == 1
    assert json.loads(cli("--namespace", "other", "--json", "stats", "orders").stdout)["ready"] == 0


def test_top_draws_the_line_of_time(client: tarry.Client, cli: Cli, answers: Answers) -> None:
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


def test_top_tells_rates_and_how_late_the_last_ones_were(valkey_url: str, namespace: str) -> None:
    clock = Clock()
    with TestClient(valkey_url, clock, namespace=namespace) as client:
        orders = client.topic("orders")
        orders.add_many([1, 2])
        clock.advance("2h")
        orders.pop_many(2)
        before = time_line.look(client, [])
        assert "late 2h" in drawn(time_line.frame(before, {}, []))
        clock.advance("2s")
        orders.add(3)
        orders.pop()
        picture = drawn(time_line.frame(time_line.look(client, []), before, []))
        assert "added 0.5/s  popped 0.5/s" in picture
        assert "late 2h" not in picture


def drawn(picture: RenderableType) -> str:
    console = Console(file=StringIO(), width=200)
    console.print(picture)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_top_goes_on_in_a_terminal_until_ctrl_c(client: tarry.Client, valkey_url: str, namespace: str) -> None:
    client.topic("orders").add(1)
    screen, terminal = pty.openpty()
    words = [sys.executable, "-m", "tarry", "--url", valkey_url, "--namespace", namespace, "top"]
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


def test_that_there_is_an_embedded_server_is_said_once(tmp_path: Path) -> None:
    """By the call that started it."""
    away = {name: value for name, value in os.environ.items() if name != "TARRY_URL"}
    here = {**away, "XDG_DATA_HOME": str(tmp_path / "data"), "XDG_RUNTIME_DIR": str(tmp_path)}
    said = [
        subprocess.run(
            [sys.executable, "-m", "tarry", "stats", "x"], env=here, capture_output=True, text=True, check=True
        ).stderr
        for _ in range(2)
    ]
    assert "No URL was given" in said[0]
    assert said[1] == ""


def test_the_version_is_said(cli: Cli) -> None:
    assert cli("--version").stdout == f"tarry {tarry.__version__}\n"


def test_a_list_of_the_dead_says_why(client: tarry.Client, cli: Cli) -> None:
    topic = client.topic("orders")
    topic.add("tea", id="7")
    job = topic.pop()
    assert job is not None
    topic.bury(job, "no such order")
    assert cli("list", "orders", "--state", "dead").stdout.rstrip().endswith("attempts 1  no such order")


def test_a_wrong_port_is_told_at_once_and_given_up_soon(cli: Cli) -> None:
    [port] = free_ports(1)
    here = {name: value for name, value in os.environ.items() if name != "TARRY_LOG"}
    words = [sys.executable, "-m", "tarry", "--url", f"redis://127.0.0.1:{port}", "stats"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, env=here, text=True) as calling:
        assert calling.stderr is not None
        told = calling.stderr.readline()
        calling.kill()
    assert f"127.0.0.1:{port} does not answer" in told
    assert "Trying again for 3 s. (--patience)" in told
    done = subprocess.run([*words, "--patience", "100ms"], capture_output=True, text=True, env=here, check=False)
    assert done.returncode == 3
    trying, ended = done.stderr.splitlines()
    assert "Trying again for 0.1 s" in trying
    assert "[unavailable]" in ended
    assert cli("stats", "--patience", "for ever").returncode == 2
