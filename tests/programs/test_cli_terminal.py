"""The command line in a terminal: questions, drawings, keys; and none of them in a pipe."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tarry
from programs.terminal import Cli, Terminal
from tarry.verbs.workers import WorkerReport, WorkerTopic, report_worker
from until import until
from warm import WarmTarry


@pytest.fixture
def place(valkey_url: str, namespace: str, tarry_command: WarmTarry) -> dict[str, str]:
    path = os.pathsep.join((str(tarry_command.command.parent), os.environ["PATH"]))
    return {"TARRY_URL": valkey_url, "TARRY_NAMESPACE": namespace, "PATH": path}


@pytest.fixture
def orders(client: tarry.Client) -> tarry.Topic[object]:
    topic = client.topic("orders")
    topic.add_many([1, 2, 3], delay="1h")
    topic.add(4)
    return topic


@pytest.mark.parametrize(
    ("words", "question", "left"),
    [
        ("purge orders", "Delete 4 jobs of orders?", 0),
        ("purge orders --state delayed", "Delete 3 delayed jobs of orders?", 1),
        ("purge orders --limit 2", "Delete 2 jobs of orders?", 2),
        ("purge orders --state ready", "Delete 1 ready job of orders?", 3),
    ],
)
def test_deleting_many_jobs_asks_for_confirmation(
    orders: tarry.Topic[object], place: dict[str, str], words: str, question: str, left: int
) -> None:
    with Terminal(*words.split(), place=place) as terminal:
        terminal.read_until(lambda seen: f"{question} [y/N]" in seen)
        terminal.type("n\n")
        assert terminal.end() == 1
    assert terminal.shown.endswith("nothing was deleted\n")
    assert count(orders) == 4
    with Terminal(*words.split(), place=place) as terminal:
        terminal.read_until(lambda seen: question in seen)
        terminal.type("y\n")
        assert terminal.end() == 0
    assert count(orders) == left


def test_ctrl_c_at_a_question_is_a_no(orders: tarry.Topic[object], place: dict[str, str]) -> None:
    with Terminal("purge", "orders", place=place) as terminal:
        terminal.read_until(lambda seen: "[y/N]" in seen)
        assert terminal.interrupt() == 130
    assert terminal.shown.endswith("interrupted\n")
    assert "Traceback" not in terminal.shown
    assert count(orders) == 4


@pytest.mark.parametrize("words", ["purge orders", "purge orders --state delayed", "purge orders --limit 1 --json"])
def test_without_a_terminal_deleting_needs_yes(orders: tarry.Topic[object], cli: Cli, words: str) -> None:
    done = cli(*words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert "--yes: it deletes jobs, and there is no terminal to ask; give --yes, or --dry-run" in done.stderr
    assert cli(*words.split(), "--dry-run").returncode == 0
    assert count(orders) == 4
    assert cli(*words.split(), "--yes").returncode == 0
    assert count(orders) < 4


def test_one_job_is_deleted_without_confirmation(orders: tarry.Topic[object], cli: Cli) -> None:
    orders.add(5, id="five")
    assert cli("delete", "orders", "five").returncode == 0


def count(topic: tarry.Topic[object]) -> int:
    now = topic.stats()
    return now.delayed + now.ready + now.reserved + now.dead


def test_list_is_a_table_on_a_terminal_and_plain_lines_in_a_pipe(
    client: tarry.Client, place: dict[str, str], cli: Cli
) -> None:
    shop = client.topic("shop")
    shop.add({"task": "close_order", "args": {"order": 7}}, id="task-7", delay="30m")
    shop.add({"text": "\x1b[2J" + "x" * 500}, id="long", delay="2d")
    shop.add({"task": "charge", "args": {}}, id="dead-1", max_attempts=1)
    job = shop.pop()
    assert job is not None
    error = "Traceback (most recent call last):\n  …\nConnectionError: refused\n"  # as a worker writes it
    client.engine.run(shop.verbs.fail(job, None, f"attempts exhausted\n{error}", True))
    with Terminal("list", "shop", place=place, size=(30, 150)) as terminal:
        assert terminal.end() == 0
    header, *lines = terminal.shown.splitlines()
    assert header.split() == ["ID", "STATE", "WHEN", "ATTEMPTS", "TASK", "ERROR", "BODY"]
    by_id = {line.split()[0]: line for line in lines}
    due = shop.get("task-7").due.astimezone()  # type: ignore[union-attr]
    assert re.search(rf"delayed  in (30 m|29 m \d+ s), ({due:%H:%M:%S}|{due:%Y-%m-%d %H:%M})", by_id["task-7"])
    assert "close_order" in by_id["task-7"]
    assert '{"order":7}' in by_id["task-7"]
    assert "ConnectionError: refused (attempts exhausted)" in by_id["dead-1"]
    assert " s ago, " in by_id["dead-1"]
    assert "charge" in by_id["dead-1"]
    assert "…" in by_id["long"]
    assert all(len(line) <= 150 for line in lines)
    assert "\x1b[31m" in terminal.raw, "the dead are red"
    assert "\x1b[2J" not in terminal.raw
    with Terminal("list", "shop", place=place, size=(30, 70)) as terminal:
        assert terminal.end() == 0
    header, *lines = terminal.shown.splitlines()
    assert header.split() == ["ID", "STATE", "WHEN", "ATTEMPTS", "TASK"]
    assert all(len(line.rstrip()) <= 70 for line in lines)
    assert len(lines) == 2 * 3
    at = next(n for n, line in enumerate(lines) if line.startswith("dead-1"))
    assert lines[at + 1].split("  ") == ["", "ConnectionError: refused (attempts exhausted)", "{}"], (
        "in a line of their own"
    )
    piped = cli("list", "shop").stdout.splitlines()
    assert [line.split()[:2] for line in piped] == [["task-7", "delayed"], ["long", "delayed"], ["dead-1", "dead"]]
    assert piped[-1].endswith("attempts 1  attempts exhausted  ConnectionError: refused")
    assert json.loads(cli("list", "shop", "--state", "dead", "--json").stdout)["error"] == error
    with Terminal("list", "shop", "--json", place=place) as terminal:
        assert terminal.end() == 0
    assert terminal.raw.startswith('{"id":')


def test_dead_is_a_table_on_a_terminal(client: tarry.Client, place: dict[str, str], cli: Cli) -> None:
    shop = client.topic("shop")
    for n in range(3):
        shop.add({"task": "charge", "args": {"order": n}}, max_attempts=1)
        job = shop.pop()
        assert job is not None
        error = f"ConnectionError: 503 from the bank for order {n}, which is \x1b[2J a long message about it\n"
        error += f'Traceback (most recent call last):\n  File "/srv/billing.py", line {n}, in charge\n    pay()\n'
        client.engine.run(shop.verbs.fail(job, None, f"attempts exhausted\n{error}", True))
    with Terminal("dead", "shop", place=place, size=(30, 150)) as terminal:
        assert terminal.end() == 0
    header, line = terminal.shown.splitlines()
    assert header.split() == ["GROUP", "JOBS", "LAST", "TASK", "ERROR", "AT"]
    assert re.match(r"\w{12}\s+3  \d+ s ago, \d\d:\d\d:\d\d  charge  ConnectionError: … from the bank", line), line
    assert "billing.py, charge" in line
    assert "\x1b[2J" not in terminal.raw
    with Terminal("dead", "shop", place=place, size=(30, 60)) as terminal:
        assert terminal.end() == 0
    header, first, second = terminal.shown.splitlines()
    assert header.split() == ["GROUP", "JOBS", "LAST", "TASK"]
    assert second.startswith("  ConnectionError: … from the bank"), "in a line of its own"
    assert all(len(line.rstrip()) <= 60 for line in (header, first, second))
    [piped] = cli("dead", "shop").stdout.splitlines()
    assert "  3 jobs  last 2" in piped


def test_top_shows_the_names_of_workers_whole(client: tarry.Client, orders: object, place: dict[str, str]) -> None:
    name = "build-host-7:1428:k3x9QmYt2a"
    topics = [WorkerTopic("orders", ("close",), 100, 20)]
    report = WorkerReport("build-host-7", 1428, "1", 100, 20, False, topics, [])
    client.engine.run(report_worker(client.namespace, name.encode(), None, report))
    with Terminal("top", place=place, size=(20, 44)) as terminal:
        terminal.read_until(lambda seen: f"\n{name}  " in seen)
        terminal.type("q")
        assert terminal.end() == 0


def test_the_table_of_finished_jobs_says_when_they_finished(client: tarry.Client, place: dict[str, str]) -> None:
    shop = client.topic("shop")
    shop.configure(keep_finished="1d")
    shop.add({"order": 7}, id="order-7")
    job = shop.pop()
    assert job is not None
    shop.finish(job, result={"paid": True})
    with Terminal("list", "shop", "--state", "finished", place=place, size=(30, 150)) as terminal:
        assert terminal.end() == 0
    [_, line] = terminal.shown.splitlines()
    assert re.match(r'order-7 +finished +\d+ s ago, \d\d:\d\d:\d\d +1 +\{"order":7\}', line), line


def test_no_color_disables_colours(orders: tarry.Topic[object], place: dict[str, str]) -> None:
    with Terminal("list", "orders", place={**place, "NO_COLOR": "1"}) as terminal:
        assert terminal.end() == 0
    assert "\x1b[33m" not in terminal.raw
    assert terminal.shown.splitlines()[0].split() == ["ID", "STATE", "WHEN", "ATTEMPTS", "BODY"]


def test_an_empty_list_says_so_on_a_terminal(orders: tarry.Topic[object], place: dict[str, str], cli: Cli) -> None:
    with Terminal("list", "orders", "--state", "dead", place=place) as terminal:
        assert terminal.end() == 0
    assert terminal.shown == "there are no such jobs\n"
    piped = cli("list", "orders", "--state", "dead")
    assert piped.stdout + piped.stderr == ""


def test_help_has_every_command_in_one_section(cli: Cli) -> None:
    import typer.main

    from tarry.programs.cli.app import app
    from tarry.programs.cli.commands import OF_EXTRAS, SECTIONS

    commands = {name for name, one in typer.main.get_command(app).commands.items() if not one.hidden}  # type: ignore[attr-defined]
    named = " ".join(SECTIONS.values()).split()
    assert sorted(named) == sorted(commands | OF_EXTRAS.keys())
    said = cli("--help").stdout
    places = [said.index(f"\n{title}:\n") for title in SECTIONS]
    assert places == sorted(places)
    assert all(f"\n  {name} " in said for name in named)


ALONE = """
import os, sys
from tarry.programs.cli.commands import MODULES, app, load_commands
for module, names in MODULES.items():
    if not os.fork():
        load_commands(["--url", "stats", names.split()[-1], "--help"])
        found = {one.name for one in (*app.registered_commands, *app.registered_groups)}
        os._exit(not set(names.split()) <= found or "tarry.programs.cli.app" in sys.modules)
print([os.waitstatus_to_exitcode(os.wait()[1]) for _ in MODULES])
"""


def test_each_command_is_imported_alone() -> None:
    """The module that ``commands.MODULES`` names has it."""
    from tarry.programs.cli.commands import MODULES

    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{[0] * len(MODULES)}\n", "")


def test_a_json_log_is_json_from_the_first_byte(place: dict[str, str], cli: Cli) -> None:
    done = cli("worker", "no_such_module:worker", "--log", "json")
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    said = json.loads(line)
    assert (said["level"], said["code"]) == ("error", "bad_input")
    assert "no_such_module" in said["message"]


def test_logs_have_one_format_also_where_an_application_has_set_up_another(python_command: Path) -> None:
    program = (
        "import logging; logging.basicConfig(format='own %(message)s')\n"
        "from tarry.worker.log_setup import configure_logging; configure_logging('json', 'info')\n"
        "logging.getLogger('shop').warning('tea is out')"
    )
    [line] = subprocess.run([python_command, "-c", program], check=True, capture_output=True).stderr.splitlines()
    assert json.loads(line)["message"] == "tea is out"


@pytest.fixture
def eight(client: tarry.Client) -> list[str]:
    """Eight topics; the last by name is late, and the seventh was late before it."""
    names = [f"topic-{n}" for n in range(8)]
    for n, name in enumerate(names):
        client.topic(name).add(1, delay=f"{10 - n}h")
    client.topic(names[6]).add(1)
    until(lambda: client.topic(names[6]).stats().ready == 1)
    client.topic(names[7]).add(1)
    return names


FRAME = "q quit"
"""The end of the first line of a frame."""


def test_top_shows_late_topics_first_in_the_window_it_has(eight: list[str], place: dict[str, str]) -> None:
    with Terminal("top", place=place, size=(14, 160)) as terminal:
        seen = terminal.read_until(lambda seen: "not shown: " in seen)
        assert "8 topics, worst first" in seen
        places = [seen.index(name) for name in ("topic-6", "topic-7", "topic-5")]
        assert places == sorted(places)
        assert "not shown: 5 topics" in seen
        assert "topic-0" not in seen
        [bars] = [line for line in seen.splitlines() if "▶" in line][:1]
        assert len(bars) > 120, "a wide window has a longer time line"
        terminal.type("q")
        assert terminal.end() == 0


def test_the_keys_of_top(eight: list[str], place: dict[str, str]) -> None:
    with Terminal("top", place=place, size=(60, 100)) as terminal:
        terminal.read_until(lambda seen: FRAME in seen and "topic-0" in seen)
        for sort in ("most jobs first", "most dead first", "by name", "worst first"):
            terminal.type("s")
            terminal.read_until(lambda seen, sort=sort: f"8 topics, {sort}" in seen)  # type: ignore[misc]
        terminal.type("?")
        assert "filter topics by a part of their name" in terminal.read_until(lambda seen: "Ctrl-C" in seen)
        terminal.type("x")
        terminal.read_until(lambda seen: FRAME in seen)
        terminal.type("/")
        terminal.type("ic-3")
        terminal.read_until(lambda seen: "1 of 8 topics, worst first   filter: ic-3_" in seen)
        terminal.type("\n")
        terminal.read_until(lambda seen: "filter: ic-3 " in seen)
        terminal.type("\x1b")
        terminal.read_until(
            lambda seen: "8 topics, worst first  " in seen and "filter" not in seen.rpartition(FRAME)[0][-90:]
        )
        terminal.type("j")
        terminal.type("\x1b[B")
        terminal.type("\n")
        seen = terminal.read_until(lambda seen: "1 of 8 topics" in seen and "▶" in seen.rpartition("1 of 8 topics")[2])
        assert "topic-7" in seen.rpartition("1 of 8 topics")[2]
        terminal.type("q")
        assert terminal.end() == 0


def test_top_names_what_is_due_in_a_narrow_window(
    client: tarry.Client, eight: list[str], place: dict[str, str]
) -> None:
    topics = [WorkerTopic("topic-7", ("close",), 100, 20)]
    report = WorkerReport("ada", 4711, "1", 100, 20, False, topics, [])
    client.engine.run(report_worker(client.namespace, b"ada", None, report))
    with Terminal("top", place=place, size=(20, 44)) as terminal:
        seen = terminal.read_until(lambda seen: "not shown" in seen)
        assert "1m 0" in seen
        assert "1d 1" in seen
        assert "later 0" in seen
        assert all(len(line) <= 44 for line in seen.splitlines())
        assert "? help" in seen.lstrip().splitlines()[0]
        assert re.search(r"not shown: \d topics(?!.*…)", seen), "the hint is short, not cut"
        terminal.type("?")
        help = terminal.read_until(lambda seen: "Ctrl-C" in seen and "quit" in seen.rpartition("Ctrl-C")[2])
        continued = next(line for line in help.rpartition("sort: ")[2].splitlines()[1:] if line.strip())
        assert continued.startswith(" " * 16), "a long explanation continues in its column"
        terminal.type("q")
        terminal.read_until(lambda seen: "? help" in seen)
        terminal.type("q")
        assert terminal.end() == 0
