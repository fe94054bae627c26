"""Shared queues on the command line: offered, seen, counted, moved, and taken over into a topic."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

import tarry
from tarry.verbs.redisson.delayed.queue_context import keys_of
from tarry.verbs.redisson.elements import Element, Format, pack, unpack
from until import LONGEST_S
from warm import WarmTarry

Cli = Callable[..., subprocess.CompletedProcess[str]]
Answers = Callable[..., list[Any]]


@pytest.fixture
def queue(namespace: str) -> str:
    """Java knows no namespaces: a name of the test's own."""
    return f"queue-{namespace}"


def test_offered_values_are_listed_by_due_time(answers: Answers, client: tarry.Client, queue: str) -> None:
    [due] = answers("delayed-queue", "offer", queue, '{"order": 7}', "--delay", "2h", "--codec", "json")
    answers("delayed-queue", "offer", queue, '"b"', "8", "--delay", "1h", "--codec", "json")
    seen = answers("delayed-queue", "list", queue, "--codec", "json")
    assert sorted(json.dumps(one["value"]) for one in seen[:2]) == ['"b"', "8"]
    assert seen[2] == {"due": due["due"], "value": {"order": 7}}
    assert len(answers("delayed-queue", "list", queue, "--codec", "json", "--limit", "2")) == 2
    [size] = answers("delayed-queue", "stats", queue)
    assert (size["waiting"], size["overdue"], size["ready"], size["poison"]) == (3, 0, 0, 0)
    assert client.delayed_queue(queue, codec="json").contains({"order": 7})


@pytest.mark.parametrize(
    ("codec", "value", "payload"),
    [
        ("string", '"tea"', b"tea"),
        ("kryo5", '"tea"', b"\x03te\xe1"),
        ("long", "7", b"7"),
    ],
)
def test_a_json_value_is_encoded_by_the_codec(
    answers: Answers, client: tarry.Client, queue: str, codec: str, value: str, payload: bytes
) -> None:
    answers("delayed-queue", "offer", queue, value, "--codec", codec, "--format", "dLc0", "--delay", "1h")
    assert client.delayed_queue(queue, codec="bytes").read_all() == [payload]


def test_an_offer_uses_the_given_format(answers: Answers, queue: str, valkey_url: str) -> None:
    answers("delayed-queue", "offer", queue, "tea", "--raw", "--codec", "string", "--format", "dLc0", "--delay", "1h")
    with redis.Redis.from_url(valkey_url) as server:
        found = unpack(server.lindex(keys_of(queue).order, 0))
    assert isinstance(found, Element)
    assert (found.format, found.payload) == (Format.OLD, b"tea")


def test_an_offer_needs_a_format_and_the_format_can_be_changed(
    answers: Answers, cli: Cli, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TARRY_REDISSON")
    offer = ("delayed-queue", "offer", queue, '"tea"', "--delay", "1h", "--codec", "string")
    done = cli(*offer)
    assert done.returncode == 2
    for word in ("--format: ", "--format dLc0 or Bc0Lc0", "tarry", "3.21.1", "TARRY_REDISSON"):
        assert word in done.stderr
    assert answers("delayed-queue", "format", queue) == [{"queue": queue, "format": None}]
    answers(*offer, "--format", "3.16.8")
    answers(*offer)
    assert answers("delayed-queue", "format", queue) == [{"queue": queue, "format": "dLc0"}]
    done = cli(*offer, "--format", "Bc0Lc0")
    assert done.returncode == 2
    assert f"tarry delayed-queue format {queue}" in done.stderr
    assert answers("delayed-queue", "format", queue, "4.7.0") == [{"queue": queue, "format": "Bc0Lc0"}]
    answers(*offer, "--format", "Bc0Lc0")
    assert answers("delayed-queue", "stats", queue)[0]["format"] == "Bc0Lc0"
    assert answers("delayed-queue", "format", queue, "--forget") == [{"queue": queue, "format": None}]
    assert cli("delayed-queue", "format", queue, "dLc0", "--forget").returncode == 2
    assert cli("delayed-queue", "format", queue, "old").returncode == 2


def test_listing_remembers_the_format(answers: Answers, client: tarry.Client, queue: str, valkey_url: str) -> None:
    with redis.Redis.from_url(valkey_url) as java:
        java.zadd(keys_of(queue).timeouts, {pack(b"theirs", b"12345678", Format.OLD): 4e12})
        assert len(answers("delayed-queue", "list", queue, "--codec", "string")) == 1
        java.delete(keys_of(queue).timeouts)
    assert client.delayed_queue(queue).stats().format == "dLc0"


def test_move_delivers_due_elements(answers: Answers, client: tarry.Client, queue: str) -> None:
    answers("delayed-queue", "offer", queue, '"a"', '"b"', "--codec", "string")
    assert answers("delayed-queue", "move", queue) == [{"queue": queue, "moved": 2, "poison": 0}]
    assert client.blocking_queue(queue, codec="string").size() == 2


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_move_keep_runs_until_a_signal(
    client: tarry.Client, queue: str, valkey_url: str, told: signal.Signals, tarry_command: WarmTarry
) -> None:
    words = [tarry_command.command, "delayed-queue", "move", queue, "--keep-moving", "--url", valkey_url]
    quiet = {**os.environ, "TARRY_LOG": "ERROR"}
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=quiet) as mover:
        try:
            assert mover.stderr is not None
            assert "Ctrl-C" in mover.stderr.readline()
            client.delayed_queue(queue, codec="string").offer("tea", "20ms")
            with redis.Redis.from_url(valkey_url) as java:
                assert java.blpop(queue, 30) == (queue.encode(), b"tea")
            mover.send_signal(told)
            assert mover.wait(LONGEST_S) == 0
        finally:
            mover.kill()
    assert client.delayed_queue(queue).stats().movers == 0


def test_migrate_moves_all_elements(answers: Answers, client: tarry.Client, queue: str) -> None:
    due = client.delayed_queue(queue, codec="string").offer("tea", "1h")
    client.delayed_queue(queue, codec="bytes").offer(b"\xff", "1h")  # no text, and bytes are none for JSON
    said = {"queue": queue, "topic": "orders", "moved": 2, "poison": 0}
    words = ("delayed-queue", "migrate", queue, "orders", "--codec", "string")
    assert answers(*words, "--dry-run") == [{**said, "dry_run": True}]
    assert client.topic("orders").stats().delayed == 0
    assert answers(*words) == [{**said, "dry_run": False}]
    assert answers(*words) == [{**said, "moved": 0, "dry_run": False}]
    jobs = {
        json.dumps(job.body) if isinstance(job.body, str) else "bytes": job.due for job in client.topic("orders").list()
    }
    assert jobs['"tea"'] == due


def test_poison_elements_are_listed_with_their_reason(answers: Answers, client: tarry.Client, queue: str) -> None:
    client.blocking_queue(queue, codec="bytes").put(b"tea")
    assert client.blocking_queue(queue, codec="long").poll() is None
    [aside] = answers("delayed-queue", "list", queue, "--poison")
    assert aside["raw_base64"] == "dGVh"
    assert aside["reason"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("offer", "q", "{", "--codec", "json"), "JSON"),
        (("offer", "q", '"x"', "--codec", "cobol"), "codec"),
        (("offer", "q", '"x"', "--codec", "long"), "VALUE"),
        (("offer", "q", '"x"', "--format", "Zc0"), "format"),
        (("offer", "q", '"x"', "--delay", "-1"), "delay"),
    ],
)
def test_invalid_values_are_refused_with_a_message(cli: Cli, words: tuple[str, ...], why: str) -> None:
    done = cli("delayed-queue", *words)
    assert done.returncode == 2
    assert why in done.stderr


@pytest.mark.parametrize("by_option", [True, False], ids=["--redisson", "TARRY_REDISSON"])
def test_one_word_tells_codec_and_format(
    cli: Cli, queue: str, valkey_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch, by_option: bool
) -> None:
    monkeypatch.delenv("TARRY_REDISSON")
    calls = (("delayed-queue", "offer", queue, '"tea"'), ("map-cache", "put", f"map-{queue}", "tea", "3"))
    for words in calls:
        done = cli(*words)
        assert done.returncode == 2
        assert "--redisson: it is not known which Redisson shares" in done.stderr
        assert ": --redisson 3.15.1 (its version in Java; " in done.stderr
    if not by_option:
        monkeypatch.setenv("TARRY_REDISSON", "3.15.1")
    for words in calls:
        done = cli(*words, *(("--redisson", "3.15.1") if by_option else ()))
        assert done.returncode == 0, done.stderr
    with tarry.Client(valkey_url, namespace=namespace, redisson="3.15.1") as java:
        assert java.delayed_queue(queue).stats().format == "dLc0"
        assert java.blocking_queue(queue).poll(wait=5) == "tea"
        assert java.map_cache(f"map-{queue}", policy=None).get("tea") == 3


APP = """
import os, signal, tarry

worker = tarry.Worker()

@worker.on_queue("QUEUE")
def handle(value: str) -> None:
    print("taken", value, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
"""


def test_a_worker_takes_the_word(
    queue: str,
    valkey_url: str,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tarry_command: WarmTarry,
) -> None:
    monkeypatch.delenv("TARRY_REDISSON")
    (tmp_path / "letters.py").write_text(APP.replace("QUEUE", queue))
    place = ("--url", valkey_url, "--namespace", namespace)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [tarry_command.command, *place, "worker", "letters:worker", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = run()
    assert done.returncode == 2
    assert "it is not known which Redisson shares the queue" in done.stderr
    with tarry.Client(valkey_url, redisson="3.15.1") as java:
        java.blocking_queue(queue).put("tea")
    done = run("--redisson", "3.15.1")
    assert (done.returncode, "taken tea" in done.stdout) == (0, True), done.stderr
