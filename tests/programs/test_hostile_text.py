"""Text of producers and workers controls no terminal and no log: one hostile string in every field, at every command that shows it."""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer.main

import servers
import tarry
from programs.terminal import Terminal
from tarry.core.requests import Command
from tarry.programs.cli.commands import app, load_commands
from tarry.values.keys import tokens_key
from tarry.values.printable import JsonFormatter, TextFormatter, indented, one_line
from tarry.verbs.workers import ReportedJob, WorkerReport, WorkerTopic, report_worker
from until import LONGEST_S, until
from warm import WarmTarry

NAME = "t\u202e\u200bname"
"""What names and ids may contain."""
EVIL = "\x1b]0;OWNED\x07\x1b[31mred\x1b[2J\u202e\u200b\u009b31m\x9d\x07\r\nforged\x08\x7f\u2028\nforged"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
load_commands(["--help"])
CALL_IN_ONE_PROCESS = Path(__file__).parent / "cli_calls.py"

JAVA = ("--codec", "json")
CALLS: dict[str, tuple[str, ...]] = {
    "add": (NAME, "1", "--id", NAME + "2"),
    "pop": (NAME,),
    "finish": (NAME, NAME, "7"),
    "touch": (NAME, NAME, "7"),
    "release": (NAME, NAME, "7"),
    "bury": (NAME, NAME, "7"),
    "delete": (NAME, NAME + "none"),
    "kick": (NAME, NAME + "none"),
    "reschedule": (NAME, NAME + "none", "--delay", "1h"),
    "release-holder": (NAME, EVIL, "--dry-run"),
    "get": (NAME, "dead", "task", EVIL),
    "result": (NAME, "done"),
    "list": (NAME,),
    "dead": (NAME,),
    "topics": (),
    "stats": (),
    "keys": (NAME,),
    "purge": (NAME, "--dry-run"),
    "pause": (NAME + "3",),
    "configure": (NAME,),
    "resume": (NAME + "3",),
    "check": (NAME,),
    "doctor": (),
    "workers": (),
    "worker-mode": (EVIL, "quiet"),
    "histogram": (NAME,),
    "throughput": (NAME,),
    "top": ("--once",),
    "migrate": (NAME, "--to", NAME + "4", "--dry-run"),
    "schedule put": (NAME, NAME, '"x"', "--every", "1h"),
    "schedule list": (),
    "schedule get": (NAME, NAME),
    "schedule pause": (NAME, NAME),
    "schedule resume": (NAME, NAME),
    "schedule delete": (NAME, NAME + "none"),
    "delayed-queue offer": (NAME, EVIL, "--raw", "--format", "tarry", "--delay", "1h", *JAVA),
    "delayed-queue list": (NAME, *JAVA),
    "delayed-queue stats": (NAME,),
    "delayed-queue format": (NAME,),
    "delayed-queue move": (NAME, *JAVA),
    "delayed-queue migrate": (NAME, NAME, "--dry-run", *JAVA),
    "map-cache put": (NAME, EVIL, EVIL, "--raw", *JAVA),
    "map-cache get": (NAME, EVIL, *JAVA),
    "map-cache list": (NAME, *JAVA),
    "map-cache stats": (NAME,),
    "map-cache evict": (NAME,),
    "map-cache delete": (NAME, EVIL, *JAVA),
    "map-cache clear": (NAME,),
    "lock list": (),
    "lock get": (NAME,),
    "lock force-release": (NAME,),
    "guarded-queue push": (NAME, EVIL, "--raw"),
    "guarded-queue stats": (NAME,),
    "guarded-queue poll": (NAME,),
    "guarded-queue clear": (NAME,),
    "token create": ("--scope", "view", "--note", EVIL),
    "token list": (),
    "token revoke": ("none",),
}
LONG_LIVED = {"worker", "serve", "celery-relay", "demo", "demo-worker"}
"""They write a log, by the formatter below, or show jobs of their own."""


def names(group: Any, before: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        yield from names(command, f"{before}{name} ") if hasattr(command, "commands") else [before + name]


def test_every_command_is_called_below() -> None:
    assert set(names(typer.main.get_command(app))) == {*CALLS, *LONG_LIVED}


@pytest.fixture
def filled(client: tarry.Client) -> tarry.Topic[Any]:
    topic: tarry.Topic[Any] = client.topic(NAME)
    topic.configure(keep_finished="1d")
    topic.add({"x": EVIL}, id="done")
    job = topic.pop()
    assert job is not None
    topic.finish(job, result=EVIL)
    for id in ("dead", "dead2"):
        topic.add(EVIL, id=id, max_attempts=1)
        dying = topic.pop()
        assert dying is not None
        client.engine.run(topic.verbs.fail(dying, None, f"{EVIL}\nTraceback:\n{EVIL}", True))
    for id in ("buried", "released"):
        topic.add({"x": EVIL}, id=id)
        held = topic.pop()
        assert held is not None
        _ = topic.bury(held, reason=EVIL) if id == "buried" else topic.release(held, delay="1h", reason=EVIL)
    publish = {"exchange": EVIL, "routing_key": EVIL, "headers": {"id": EVIL, "task": EVIL}, "body": EVIL}
    topic.add({"task": EVIL, "id": EVIL, "publish": publish, "declare": [EVIL]}, id="celery", delay="1h")
    topic.add({"task": EVIL, "args": {EVIL: EVIL}}, id="task", headers={"h": EVIL}, delay="1h")
    topic.add({"x": EVIL}, id=NAME)
    client.schedules.put(NAME, NAME, {"x": EVIL}, every="1h")
    report = WorkerReport(
        EVIL, 1, EVIL, 9, 1, False, [WorkerTopic(EVIL, (EVIL,), 9, 1, unknown=(EVIL,))], [ReportedJob(EVIL, EVIL, 1, 0)],
        restarts={EVIL: 3},
    )  # fmt: skip
    client.engine.run(report_worker(client.namespace, EVIL.encode(), None, report))
    return topic


def assert_harmless(text: str) -> None:
    shown = COLOUR.sub("", text.replace("\r\n", "\n"))
    assert not [c for c in shown if c != "\n" and not c.isprintable()], repr(shown)
    assert not [line for line in shown.split("\n") if line.startswith("forged")], repr(shown)


def test_no_command_writes_hostile_text_as_it_is(
    filled: tarry.Topic[Any],
    client: tarry.Client,
    valkey_url: str,
    namespace: str,
    tarry_command: WarmTarry,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a terminal each is a process; what it writes to a file or a pipe is asked for in one process."""
    path = os.pathsep.join((str(tarry_command.command.parent), os.environ["PATH"]))
    place = {"TARRY_URL": valkey_url, "TARRY_NAMESPACE": namespace, "TARRY_LOG": "ERROR"}
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    with (
        tarry_command.talk_to(CALL_IN_ONE_PROCESS) as (_, given, told),
        suppress(tarry.LockLost),  # by force-release
        client.lock(NAME, lease=600),
    ):

        def call(*words: str) -> tuple[str, str]:
            print(json.dumps(shlex.join(words)), file=given)
            _, out, errors = json.loads(told.readline())
            return out, errors

        for command, words in CALLS.items():
            out, errors = call(*command.split(), *words)
            assert_harmless(out + errors)
            assert "Traceback (most" not in errors, errors
            with Terminal(*command.split(), *words, place={**place, "PATH": path}) as terminal:
                terminal.end()
            assert_harmless(terminal.raw)
            assert_harmless(call(*command.split(), *words, "--json")[0])


@pytest.mark.parametrize("words", [("purge", NAME), ("dead", NAME, "--delete")])
def test_a_question_is_harmless(
    words: tuple[str, ...], filled: tarry.Topic[Any], valkey_url: str, namespace: str, tarry_command: WarmTarry
) -> None:
    path = os.pathsep.join((str(tarry_command.command.parent), os.environ["PATH"]))
    place = {"TARRY_URL": valkey_url, "TARRY_NAMESPACE": namespace, "PATH": path}
    if words[0] == "dead":
        words = (*words[:2], "--group", filled.dead_groups().groups[0].id, *words[2:])
    with Terminal(*words, place=place) as terminal:
        terminal.read_until(lambda shown: "[y/N]" in shown)
        terminal.type("n\n")
        terminal.end()
    assert_harmless(terminal.raw)
    assert "nothing was deleted" in terminal.shown
    assert filled.stats().dead


APP = """
import tarry
worker = tarry.Worker()

@worker.on({topic!r}, max_attempts=1)
def fail(job):
    raise ValueError(job.body["x"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("format", ["text", "json"])
def test_the_log_of_a_worker_is_harmless(
    format: str, client: tarry.Client, valkey_url: str, namespace: str, tarry_command: WarmTarry, tmp_path: Path
) -> None:
    """Its failures have the text of producers in their errors and ids."""
    topic: tarry.Topic[Any] = client.topic(NAME)
    topic.add({"x": EVIL}, id=NAME)
    (tmp_path / "hostile.py").write_text(APP.format(topic=NAME))
    place = {"TARRY_URL": valkey_url, "TARRY_NAMESPACE": namespace, "PYTHONPATH": str(tmp_path)}
    log = tmp_path / "log"
    with log.open("wb") as out:
        words = ["worker", "hostile:worker", "--log", format, "--log-level", "debug"]
        process = tarry_command.start(words, out, place, tmp_path)
    until(lambda: topic.stats().dead == 1 or process.poll() is not None, "the job is dead")
    process.terminate()
    process.wait(LONGEST_S)
    assert_log(log.read_text(), format)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["text", "json"])
def test_the_log_of_a_service_is_harmless(
    format: str, client: tarry.Client, valkey_url: str, namespace: str, tarry_command: WarmTarry, tmp_path: Path
) -> None:
    """Its audit log has what forms say, its warnings what the server stores."""
    client.topic(NAME).add({"x": EVIL}, id=NAME)
    client.engine.run(Command((b"HSET", tokens_key(namespace), EVIL.encode(), b"x"), int))
    log, port = tmp_path / "log", servers.free_ports(1)[0]
    with log.open("wb") as out:
        words = ["serve", "--port", str(port), "--url", valkey_url, "--namespace", namespace]
        process = tarry_command.start([*words, *(["--json"] if format == "json" else [])], out, {}, tmp_path)
    until(lambda: "drains it" in log.read_text() or process.poll() is not None, "the service")
    ours = {"sec-fetch-site": "same-origin"}
    for action in ("delete", "kick", EVIL):
        data = {"action": action, "topic": NAME, "id": [NAME, EVIL], "reason": EVIL, "name": EVIL, "state": EVIL}
        httpx.post(f"http://127.0.0.1:{port}/act", data={**data, "sure": "1"}, headers=ours)
    httpx.get(f"http://127.0.0.1:{port}/v1/topics")
    process.terminate()
    process.wait(LONGEST_S)
    said = log.read_text()
    assert_harmless(said)
    lines = [line for line in said.splitlines() if "OWNED" in line]
    assert_log("\n".join(lines), format)


def assert_log(text: str, format: str) -> None:
    assert "OWNED" in text, text
    assert_harmless(text)
    if format == "json":
        for line in text.splitlines():
            assert isinstance(json.loads(line), dict), line


@pytest.mark.parametrize("text", [EVIL, "a\ud800b", "\udcff" + EVIL, "\x00", '"\\'])
def test_a_log_in_json_stays_json_whatever_is_in_a_field(text: str) -> None:
    try:
        raise ValueError(text)
    except ValueError:
        record = logging.LogRecord("tarry", logging.ERROR, "", 0, "job %s", (text,), sys.exc_info())
    record.tarry = {"id": text, text: [text, {text: object()}], "n": float("nan")}
    line = JsonFormatter().format(record)
    assert_harmless(line)
    assert "\n" not in line
    found = json.loads(line)
    assert (found["message"], found["id"]) == (f"job {text}", text)


def test_a_text_log_has_one_line_for_a_record_and_indents_a_traceback() -> None:
    try:
        raise ValueError(EVIL)
    except ValueError:
        record = logging.LogRecord("tarry", logging.ERROR, "", 0, "job %s", (EVIL,), sys.exc_info())
    text = TextFormatter().format(record)
    assert_harmless(text)
    first, *more = text.split("\n")
    assert first.endswith(r"forged\x08\x7f\u2028\nforged")
    assert all(line.startswith("    ") for line in more)


def test_escaped_text_stays_as_it_is() -> None:
    assert one_line(one_line(EVIL)) == one_line(EVIL)
    assert indented("a\nb") == "a\n    b"
    assert one_line('"\U000e0001\u202e"', as_json=True) == r'"\udb40\udc01\u202e"'
