"""How a call of the command line ends: refused, without a server, into a pipe that nobody reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tarry
from programs.terminal import Cli
from servers import free_ports


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


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("add orders {", 2, "bad_input"),
        ("finish orders 7 1", 1, "stale_receipt"),
        ("stats typo", 1, "unknown_topic"),
        ("stats --url ftp://x", 2, "bad_input"),
        ("stats --patience 10ms --url redis://127.0.0.1:{port}", 3, "unavailable"),
        ("frob", 2, "bad_input"),
        ("add", 2, "bad_input"),
        ("finish orders 7 receipt", 2, "bad_input"),
        ("stats --frob", 2, "bad_input"),
        ("list orders --limit 0", 2, "bad_input"),
        ("cancel orders 7", 2, "bad_input"),
        ("worker nowhere:app", 2, "bad_input"),
    ],
)
def test_with_json_every_message_is_json(cli: Cli, words: str, code: int, said: str) -> None:
    for call in (f"{words} --json", f"--json {words}"):
        done = cli(*call.replace("{port}", str(free_ports(1)[0])).split())
        assert (done.returncode, done.stdout) == (code, "")
        messages = [json.loads(line) for line in done.stderr.splitlines()]
        assert all(one["message"] and one["level"] for one in messages)
        assert messages[-1]["code"] == said
        assert messages[-1]["level"] == "error"


def test_json_after_two_dashes_is_a_body(cli: Cli) -> None:
    done = cli("add", "orders", "--", "--json")
    assert (done.returncode, done.stderr.startswith("error: BODY: ")) == (2, True)


def test_a_wrong_variable_is_named_and_not_an_option(cli: Cli, valkey_url: str) -> None:
    assert cli("topics", url="nonsense").stderr.startswith("error: TARRY_URL: 'nonsense' has no scheme;")
    here = {**os.environ, "TARRY_NAMESPACE": "a/b", "TARRY_URL": valkey_url}
    words = [sys.executable, "-m", "tarry", "topics"]
    done = subprocess.run(words, capture_output=True, text=True, env=here, check=False)
    assert (done.returncode, done.stderr.startswith("error: TARRY_NAMESPACE: 'a/b' contains")) == (2, True)


def test_with_json_notes_and_warnings_are_json(cli: Cli, client: tarry.Client, valkey_url: str) -> None:
    client.topic("orders").add_many([1, 2])
    for words in ("pop nothing", "list orders --limit 1", "workers"):
        [line] = cli(*words.split(), "--json").stderr.splitlines()
        assert json.loads(line)["level"] == "info"
    here = {name: value for name, value in os.environ.items() if name != "TARRY_LOG"}
    words = [sys.executable, "-m", "tarry", "--url", valkey_url, "stats", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, env=here, check=False)
    warned = [json.loads(line) for line in done.stderr.splitlines()]
    assert any("it has no persistence" in one["message"] and one["level"] == "warning" for one in warned)


INTERRUPTED_AT = """
import os, signal, sys
def interrupt(event, arguments):
    if event == "import" and arguments[0] == {module!r}:
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(interrupt)
sys.argv = ["tarry", *{words!r}]
from tarry.programs.cli import main
main()
"""


@pytest.mark.parametrize("module", ["tarry.programs.cli.commands", "typer", "typer.core", "redis", "msgspec"])
def test_ctrl_c_is_one_line_whatever_is_being_imported(valkey_url: str, module: str) -> None:
    """Most of a short call is imports: Ctrl-C after 0.4 s meets one of them."""
    words = ["--url", valkey_url, "list", "orders"]
    code = INTERRUPTED_AT.format(module=module, words=words)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_a_file_may_begin_with_a_byte_order_mark(client: tarry.Client, cli: Cli, tmp_path: Path) -> None:
    lines = tmp_path / "jobs.jsonl"
    lines.write_text('{"body": 1, "id": "one"}\r\n{"body": 2, "id": "two"}\r\n', encoding="utf-8-sig")
    assert cli("add", "orders", "--file", str(lines)).returncode == 0
    assert cli("add", "orders", "--file", "-", stdin='\ufeff{"body": 3, "id": "three"}').returncode == 0
    assert sorted(job.id for job in client.topic("orders").list()) == ["one", "three", "two"]
    lines.write_text('{"body": 1}', encoding="utf-16")
    done = cli("add", "orders", "--file", str(lines))
    assert (done.returncode, "is UTF-16, as PowerShell's > writes it; save it as UTF-8" in done.stderr) == (2, True)


@pytest.mark.parametrize("words", ["frob", "add", "pop", "finish orders 7 receipt", "stats --frob"])
def test_wrong_usage_exits_with_2_and_a_hint(cli: Cli, words: str) -> None:
    done = cli(*words.split())
    assert done.returncode == 2
    assert "-h" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_existing_id_exits_with_1(cli: Cli) -> None:
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
    assert "[unknown_topic]" in cli("stats", "orders").stderr, "nothing was written"


def test_a_missing_server_exits_with_3(cli: Cli, tmp_path: Path) -> None:
    binary_free = {**os.environ, "TARRY_EMBEDDED": "no"}
    del binary_free["PATH"]
    binary_free.pop("TARRY_URL", None)
    done = subprocess.run(
        [sys.executable, "-m", "tarry", "stats"], env=binary_free, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "[server_unfit]" in done.stderr


def test_a_pipe_closed_early_causes_no_error(client: tarry.Client, valkey_url: str, namespace: str) -> None:
    client.topic("orders").add_many(range(5000), delay="1h")
    words = [sys.executable, "-m", "tarry", "--url", valkey_url, "--namespace", namespace, "list", "orders"]
    with subprocess.Popen([*words, "--limit", "5000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as listing:
        assert listing.stdout is not None
        assert listing.stderr is not None
        listing.stdout.readline()
        listing.stdout.close()
        assert b"Traceback" not in listing.stderr.read()
        assert listing.wait() == 0


def test_a_pipe_without_a_reader_causes_no_error(client: tarry.Client, valkey_url: str, namespace: str) -> None:
    client.topic("orders").add(1, delay="1h")
    reading, writing = os.pipe()
    os.close(reading)
    words = [sys.executable, "-m", "tarry", "--url", valkey_url, "--namespace", namespace, "stats", "orders"]
    here = {**os.environ, "TARRY_LOG": "ERROR"}
    done = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, check=False, env=here)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_wrong_port_is_reported_at_once_and_fails_soon(cli: Cli) -> None:
    [port] = free_ports(1)
    here = {name: value for name, value in os.environ.items() if name != "TARRY_LOG"}
    words = [sys.executable, "-m", "tarry", "--url", f"redis://127.0.0.1:{port}", "stats"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, env=here, text=True) as calling:
        assert calling.stderr is not None
        told = calling.stderr.readline()
        calling.kill()
    assert f"127.0.0.1:{port} does not answer" in told
    assert "Trying again for 3 s. (--patience)" in told
    done = subprocess.run([*words, "--patience", "1s"], capture_output=True, text=True, env=here, check=False)
    assert done.returncode == 3
    trying, ended = done.stderr.splitlines()
    assert "Trying again for 1 s" in trying
    assert "[unavailable]" in ended
    assert cli("stats", "--patience", "forever").returncode == 2
