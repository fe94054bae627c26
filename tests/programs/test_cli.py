"""The command line, as processes: its text output, and its JSON."""

from __future__ import annotations

import gc
import importlib
import json
import os
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

import tarry
from programs.terminal import Answers, Cli
from warm import WarmTarry


def test_a_job_goes_through_its_life_on_the_command_line(answers: Answers, cli: Cli) -> None:
    [added] = answers("add", "orders", '{"order": 7}', "--id", "7", "--header", "trace=abc", "--delay", "1h")
    assert added == {"id": "7", "is_new": True, "state": "delayed", "due": added["due"]}
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
    assert answers("get", "orders", "7", code=1) == [None]
    [stats] = answers("stats", "orders")
    assert (stats["added"], stats["finished"], stats["refused"]) == (1, 1, 1)


@pytest.mark.parametrize("by", ["cli", "job"])
def test_a_release_without_a_delay_backs_off_by_its_attempt(answers: Answers, client: tarry.Client, by: str) -> None:
    orders, clock = client.topic("orders"), client.topic("clock")
    orders.add(1, id="7")
    for _ in range(4):
        job = orders.pop()
        assert job is not None
        answers("release", "orders", "7", str(job.receipt), "--delay", "0")
    job = orders.pop()
    assert job is not None
    before = clock.add(1).due
    if by == "job":
        job.release()
    else:
        assert answers("release", "orders", "7", str(job.receipt)) == [{"id": "7", "done": "released"}]
    after, info = clock.add(1).due, orders.get("7")
    assert info is not None
    assert info.due is not None
    assert (info.state, info.attempts) == ("delayed", 5)
    assert before + 0.8 * timedelta(seconds=16) <= info.due <= after + 1.2 * timedelta(seconds=16)


@pytest.mark.parametrize(("flags", "attempts"), [((), 1), (("--uncounted",), 0)])
def test_release_and_release_holder_count_alike(
    answers: Answers, client: tarry.Client, flags: tuple[str, ...], attempts: int
) -> None:
    orders = client.topic("orders")
    for id in ("released", "of the holder"):
        orders.add(1, id=id)
        job = orders.pop()
        info = orders.get(id)
        assert job is not None
        assert info is not None
        if id == "released":
            answers("release", "orders", id, str(job.receipt), "--delay", "1h", *flags)
        else:
            answers("release-holder", "orders", str(info.holder), *flags)
    assert [info.attempts for info in orders.get_many(["released", "of the holder"]) if info] == [attempts] * 2


def test_a_job_is_put_off_no_longer_than_latest_and_updated(answers: Answers) -> None:
    event = ("add", "orders", "--id", "7", "--if-exists", "replace", "--delay", "1h")
    [first], [second] = answers(*event, "1", "--latest", "2h"), answers(*event, "2", "--latest", "1h")
    assert second["due"] < answers(*event, "3")[0]["due"]
    assert first["is_new"]
    assert second["is_new"]
    [updated] = answers("add", "orders", "4", "--id", "7", "--if-exists", "update")
    assert not updated["is_new"]
    assert answers("get", "orders", "7")[0]["body"] == 4


def test_a_job_is_added_once(answers: Answers, cli: Cli) -> None:
    answers("configure", "orders", "--keep-finished", "1d")
    event = ("add", "orders", "1", "--id", "7", "--if-exists", "once")
    assert answers(*event)[0]["is_new"]
    [job] = answers("pop", "orders")
    answers("finish", "orders", "7", str(job["receipt"]))
    [again] = answers(*event)
    assert (again["is_new"], again["state"], again["due"]) == (
        False,
        "finished",
        answers("get", "orders", "7")[0]["kept_until"],
    )
    assert cli(*event).stdout.startswith("7  was there already, finished, kept until 2")
    lines = '{"body": 1, "id": "7"}\n{"body": 2, "id": "8"}\n'
    many = answers("add", "orders", "--file", "-", "--if-exists", "once", stdin=lines)
    assert [one["is_new"] for one in many] == [False, True]


def test_a_dead_job_is_listed_and_kicked(answers: Answers) -> None:
    answers("add", "orders", "1", "--id", "7")
    [job] = answers("pop", "orders")
    answers("bury", "orders", "7", str(job["receipt"]), "--reason", "no such customer")
    [seen] = answers("list", "orders", "--state", "dead")
    assert (seen["id"], seen["state"], seen["reason"], seen["attempts"]) == ("7", "dead", "no such customer", 1)
    assert answers("kick", "orders", "7", "8", code=1) == [{"id": "7", "was": "dead"}, {"id": "8", "was": None}]
    assert answers("delete", "orders", "7") == [{"id": "7", "was": "ready"}]


def test_many_jobs_are_read_from_a_file_or_stdin(answers: Answers, tmp_path: Path) -> None:
    lines = [{"body": 1, "id": "a"}, {"body": [2], "delay": "1h"}, {"body": None, "at": "2100-01-01T00:00:00Z"}]
    text = "\n".join(map(json.dumps, lines))
    added = answers("add", "orders", "--file", "-", stdin=text)
    assert [job["state"] for job in added] == ["ready", "delayed", "delayed"]
    assert added[2]["due"] == "2100-01-01T00:00:00Z"
    file = tmp_path / "words"
    file.write_text("plain\ntext\n")
    assert len(answers("add", "words", "--file", str(file), "--raw")) == 2
    assert [job["body"] for job in answers("pop", "words", "--limit", "9")] == ["plain", "text"]


def test_max_lateness_applies_to_a_job_and_to_the_lines_of_a_file(client: tarry.Client, answers: Answers) -> None:
    answers("add", "orders", "1", "--id", "one", "--max-lateness", "1ms")
    lines = '{"body": 1, "id": "own", "max_lateness": "2h"}\n{"body": 2, "id": "shared"}\n'
    answers("add", "orders", "--file", "-", "--max-lateness", "1h", stdin=lines)
    jobs = client.topic("orders").get_many(["one", "own", "shared"])
    assert [job and job.head.max_lateness_us for job in jobs] == [1000, 7_200_000_000, 3_600_000_000]


def test_a_priority_applies_to_a_job_and_to_the_lines_of_a_file(client: tarry.Client, answers: Answers) -> None:
    answers("add", "orders", "1", "--id", "one")
    answers("add", "orders", "1", "--id", "urgent", "--priority", "3")
    lines = '{"body": 1, "id": "own", "priority": 2}\n{"body": 2, "id": "shared"}\n{"body": 3, "id": "none", "priority": 0}\n'
    answers("add", "orders", "--file", "-", "--priority", "1", stdin=lines)
    [urgent, one] = answers("get", "orders", "urgent", "one")
    assert (urgent["priority"], "priority" in one) == (3, False)
    popped = answers("pop", "orders", "--limit", "9")
    assert [job["id"] for job in popped] == ["urgent", "own", "shared", "one", "none"]
    assert [job.get("priority") for job in popped] == [3, 2, 1, None, None]
    [schedule] = answers("schedule", "put", "orders", "daily", "--every", "1d", "--priority", "2")
    assert schedule["priority"] == 2
    assert client.schedules.get("orders", "daily").head.priority == 2


def test_a_key_is_shown_and_paused(client: tarry.Client, answers: Answers, cli: Cli) -> None:
    lines = '{"body": 1, "id": "own", "key": "c8"}\n{"body": 2, "id": "shared"}\n'
    answers("add", "orders", "--file", "-", "--key", "c7", stdin=lines)
    answers("add", "orders", "3", "--id", "none")
    assert [job.get("key") for job in answers("get", "orders", "own", "shared", "none")] == ["c8", "c7", None]
    shown = cli("list", "orders").stdout.splitlines()
    assert [line.partition("attempts 0")[2] for line in shown] == ["  key c8", "  key c7", ""]
    assert cli("pause", "orders", "--key", "c7").stdout == "orders  key c7  paused until it is resumed\n"
    assert [job.get("key") for job in answers("pop", "orders", "--limit", "9")] == ["c8", None]
    assert answers("resume", "orders", "--key", "c7") == [{"topic": "orders", "key": "c7", "paused_until": None}]
    assert "late  key c7  2\n" in cli("pop", "orders").stdout


def test_the_busiest_keys_are_listed_counted_and_purged(client: tarry.Client, answers: Answers, cli: Cli) -> None:
    orders = client.topic("orders")
    orders.configure(key_concurrency=1)
    assert cli("keys", "orders").stderr == (
        "no job of orders that waits or runs has a key; give one with `tarry add … --key`\n"
    )
    orders.add_many(range(3), key="c7")
    orders.add_many(range(2), key="c8", delay="1h")
    orders.add(1, key="c8")
    orders.add(1, key="c9")
    assert orders.pop().key == "c7"  # type: ignore[union-attr]
    c7 = "orders  key c7  delayed 0  ready 2  reserved 1  1 of 1 are running"
    c8 = "orders  key c8  delayed 2  ready 1  reserved 0"
    assert cli("keys", "orders", "--limit", "2").stdout.splitlines() == [c7, c8]
    assert cli("stats", "orders", "--key", "c7").stdout == c7 + "\n"
    assert "  2 held back by their keys" in cli("stats", "orders").stdout
    [shown] = answers("stats", "orders", "--key", "c7")
    assert (shown["key"], shown["held_back"], shown["limited"]["reason"]) == ("c7", 2, "concurrency")
    assert [one["key"] for one in answers("keys", "orders")] == ["c7", "c8", "c9"]
    client.topic("orders").pause(key="c8")
    assert cli("stats", "orders", "--key", "c8").stdout == c8 + "  paused until it is resumed\n"
    assert cli("purge", "orders", "--key", "c8", "--dry-run").stdout == "orders  key c8  3 jobs would be deleted\n"
    assert answers("purge", "orders", "--key", "c8", "--state", "delayed", "--yes")[0]["purged"] == 2
    assert cli("purge", "orders", "--key", "c7", "--yes").stdout == "orders  key c7  3 jobs deleted\n"
    assert [one["key"] for one in answers("keys", "orders")] == ["c8", "c9"]
    for option in ("--limit", "1"), ("--running",):
        refused = cli("purge", "orders", "--key", "c7", "--yes", *option)
        assert "leave out --limit and --running" in refused.stderr


def test_bytes_are_shown_in_base64(client: tarry.Client, answers: Answers) -> None:
    client.topic("orders").add(b"\x00\xff")
    [job] = answers("pop", "orders")
    assert job["body_base64"] == "AP8="
    assert "body" not in job


def test_a_schedule_is_put_shown_paused_and_deleted(answers: Answers, cli: Cli) -> None:
    [made] = answers("schedule", "put", "orders", "tidy", '{"what": "attic"}', "--every", "5m", "--missed", "all")
    assert (made["id"], made["body"], made["every_ms"], made["missed"]) == ("tidy", {"what": "attic"}, 300_000, "all")
    assert answers("schedule", "get", "orders", "tidy") == [made]
    assert not {"last", "version", "declared"} & made.keys(), "what does not apply is left out"
    options = ("--ttr", "30s", "--max-attempts", "3", "--header", "k=v")
    [report] = answers(
        "schedule", "put", "orders", "report", "--cron", "0 9 * * 1-5", "--tz", "Europe/Berlin", *options
    )
    assert (report["ttr_ms"], report["max_attempts"], report["headers"]) == (30_000, 3, {"k": "v"})
    assert [one["id"] for one in answers("schedule", "list")] == ["tidy", "report"]
    assert answers("schedule", "pause", "orders", "tidy") == [{"topic": "orders", "id": "tidy", "done": "paused"}]
    assert "tidy  every 5m  paused  fired 0" in cli("schedule", "list", "orders").stdout
    answers("schedule", "resume", "orders", "tidy")
    answers("schedule", "delete", "orders", "tidy")
    gone = cli("schedule", "get", "orders", "tidy")
    assert (gone.returncode, gone.stderr) == (1, "orders has no schedule tidy\n")
    assert cli("schedule", "put", "orders", "x", "--cron", "bad").returncode == 2


def test_a_schedule_that_waits_for_room_says_so(client: tarry.Client, cli: Cli) -> None:
    orders = client.topic("orders")
    orders.configure(max_pending=1)
    orders.add("in the way", delay="1h")
    cli("schedule", "put", "orders", "tidy", "--every", "1h", "--first", "2026-01-01T08:00:00Z")
    assert orders.pop() is None
    for command in (("list",), ("get", "orders", "tidy")):
        assert "next 2026-01-01T08:00:00Z  fired 0  waits: its topic is full" in cli("schedule", *command).stdout
    orders.configure(max_pending=2)
    assert "waits" not in cli("schedule", "list").stdout


def test_limits_of_a_topic_are_set_and_removed(answers: Answers, cli: Cli) -> None:
    [none] = answers("configure", "orders")
    [limits] = answers("configure", "orders", "--rate", "100/1m", "--burst", "5", "--concurrency", "2")
    assert limits == {**none, "rate": "100/1m", "burst": 5, "concurrency": 2}
    [limits] = answers("configure", "orders", "--max-lateness", "10m", "--burst", "none", "--rate", "1/1h")
    assert limits == {**none, "rate": "1/1h", "burst": 1, "concurrency": 2, "max_lateness_ms": 600_000}
    answers("add", "orders", "1")
    assert answers("pop", "orders") == []
    [stats] = answers("stats", "orders")
    assert stats["limited"]["reason"] == "rate"
    assert "held back by its rate" in cli("stats", "orders").stdout
    assert cli("configure", "orders").stdout.endswith("  rate 1/1h  burst 1  concurrency 2  max lateness 10m\n")
    assert answers("configure", "orders", "--rate", "none", "--concurrency", "none", "--max-lateness", "none") == [none]
    assert cli("configure", "orders", "--concurrency", "many").returncode == 2


def test_configure_sets_all_options_of_a_topic(client: tarry.Client, answers: Answers, cli: Cli) -> None:
    limits = dict.fromkeys(
        "rate burst concurrency max_lateness_ms max_pending max_pending_bytes key_concurrency key_rate".split()
    )
    usual = {
        "topic": "orders",
        "ttr_ms": 60_000,
        "max_attempts": 20,
        "keep_dead_ms": 2_592_000_000,
        "keep_finished_ms": None,
        **limits,
        "fair": False,
        "retry_holds_key": False,
    }
    assert answers("configure", "orders") == [usual]
    words = "--ttr 30s --max-attempts 3 --keep-dead 1d --rate 100/1m --burst 5 --concurrency 2 --max-lateness 10m"
    words += " --max-pending 9 --max-pending-bytes 1000 --key-concurrency 3 --key-rate 5/s"
    [now] = answers("configure", "orders", *words.split())
    assert now == {
        **usual, "ttr_ms": 30_000, "max_attempts": 3, "keep_dead_ms": 86_400_000,
        "rate": "100/1m", "burst": 5, "concurrency": 2, "max_lateness_ms": 600_000, "max_pending": 9, "max_pending_bytes": 1000,
        "key_concurrency": 3, "key_rate": "5/1s",
    }  # fmt: skip
    assert client.topic("orders").configure().max_attempts == 3
    nothing = [word for word in words.split() if word.startswith("--") for word in (word, "none")]
    assert answers("configure", "orders", *nothing) == [{**usual, "max_attempts": None, "keep_dead_ms": None}]
    said = "orders  ttr 1m  max attempts none  keep dead forever  no limits\n"
    assert cli("configure", "orders").stdout == said
    assert cli("configure", "orders", "--max-attempts", "many").returncode == 2


def test_a_topic_is_paused_and_resumed(answers: Answers) -> None:
    answers("add", "orders", "1")
    [paused] = answers("pause", "orders", "--duration", "1h")
    assert paused["paused_until"].endswith("Z")
    assert answers("pop", "orders") == []
    answers("resume", "orders")
    assert len(answers("pop", "orders")) == 1


def test_topics_are_listed_a_name_a_line(answers: Answers, cli: Cli) -> None:
    nothing = cli("topics")
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (0, "", "")
    for name in ("shop/late", "orders"):
        answers("add", name, "1")
    assert cli("topics").stdout == "orders\nshop/late\n"
    assert answers("topics") == [{"topic": "orders"}, {"topic": "shop/late"}]


def test_purge_dry_run_counts_the_jobs(answers: Answers) -> None:
    answers("add", "orders", "1")
    answers("add", "orders", "2", "--delay", "1h")
    assert answers("purge", "orders", "--state", "delayed", "--dry-run") == [{"topic": "orders", "would_purge": 1}]
    assert answers("purge", "orders", "--dry-run") == [{"topic": "orders", "would_purge": 2}]
    assert answers("purge", "orders", "--yes") == [{"topic": "orders", "purged": 2}]
    [checked] = answers("check", "orders")
    assert checked["ok"]


def test_long_lists_are_read_to_their_end(client: tarry.Client, answers: Answers, cli: Cli) -> None:
    client.topic("orders").add_many(range(1500), delay="1h")
    assert len(answers("list", "orders", "--limit", "2000")) == 1500
    some = cli("list", "orders", "--limit", "10")
    assert len(some.stdout.splitlines()) == 10
    assert some.stderr == "10 of 1,500 jobs; --limit 1500 shows all\n"


def test_a_list_says_how_many_there_are(client: tarry.Client, cli: Cli) -> None:
    orders = client.topic("orders")
    now = orders.stats().now
    hours = [now + timedelta(hours=n) for n in range(10)]
    orders.add_many([tarry.NewJob({"n": n}, at=at) for n, at in enumerate(hours)])
    late = orders.add("late", at=now - timedelta(hours=1))
    assert late.state == "ready"

    def note(*words: str) -> str:
        return cli("list", "orders", "--limit", "1", *words).stderr.strip()

    def at(n: int) -> str:
        return (hours[n] - timedelta(minutes=30)).isoformat()

    assert note() == "1 of 11 jobs; --limit 11 shows all"
    assert note("--limit", "11") == note("--state", "delayed", "--limit", "9") == ""
    assert note("--state", "delayed") == "1 of 9 jobs; --limit 9 shows all"
    assert note("--due-after", at(2)) == "1 of 8 jobs; --limit 8 shows all"
    assert note("--due-before", at(3)) == "1 of 4 jobs; --limit 4 shows all"
    assert note("--due-after", at(2), "--due-before", at(5)) == "1 of 3 jobs; --limit 3 shows all"
    assert note("--due-before", at(3), "--state", "delayed") == "1 of 2 jobs; --limit 2 shows all"
    assert note("--due-before", at(3), "--state", "ready") == "1 of 2 jobs; --limit 2 shows all"
    assert note("--text", '"n"') == "1 found among the first 2; a higher --limit looks for more"
    assert note("--text", "late", "--limit", "20") == ""


def test_a_rate_is_given_as_in_python(answers: Answers, cli: Cli) -> None:
    assert answers("configure", "orders", "--rate", "5")[0]["rate"] == "5/1s"
    assert answers("configure", "orders", "--rate", "100/1m")[0]["rate"] == "100/1m"
    for rate in ("5/x", "5/", "x"):
        assert f"--rate: '{rate}'; write" in cli("configure", "orders", "--rate", rate).stderr


def test_plain_output_is_readable(cli: Cli) -> None:
    assert cli("stats").stderr == "there is no topic yet\n"
    assert cli("add", "orders", '"x"', "--id", "7").stdout.startswith("7  ready, due 2")
    assert cli("add", "orders", '"x"', "--id", "7", "--if-exists", "keep").stdout.startswith("7  was there already")
    refused = cli("add", "orders", '"x"', "--id", "7", "--if-exists", "once")
    assert "`tarry configure orders --keep-finished 1d`" in refused.stderr
    assert "state          ready" in cli("get", "orders", "7").stdout
    assert cli("pop", "orders").stdout.rstrip().endswith('"x"')
    assert cli("stats").stdout.startswith("orders  delayed 0  ready 0  reserved 1  dead 0")
    assert cli("delete", "orders", "7", "8").stdout == "7  deleted, was reserved\n8  unknown\n"
    assert cli("pop", "orders").stderr == "nothing is due in orders\n"


def test_options_may_stand_before_the_verb(cli: Cli, namespace: str) -> None:
    cli("add", "orders", "1")
    assert json.loads(cli("--json", "stats", "orders").stdout)["ready"] == 1
    assert cli("--namespace", f"{namespace}-2", "add", "orders", "1", "--delay", "1h").returncode == 0
    assert json.loads(cli("--namespace", f"{namespace}-2", "--json", "stats", "orders").stdout)["ready"] == 0


def test_the_embedded_server_is_announced_once(tmp_path: Path, tarry_command: WarmTarry) -> None:
    """By the call that started it."""
    away = {name: value for name, value in os.environ.items() if name != "TARRY_URL"}
    here = {**away, "XDG_DATA_HOME": str(tmp_path / "data"), "XDG_RUNTIME_DIR": str(tmp_path)}
    said = [
        subprocess.run([tarry_command.command, "stats"], env=here, capture_output=True, text=True, check=True).stderr
        for _ in range(2)
    ]
    assert "No URL was given" in said[0]
    assert said[1] == "there is no topic yet\n"


def test_version_prints_the_version(cli: Cli) -> None:
    assert cli("--version").stdout == f"tarry {tarry.__version__}\n"


def test_a_list_of_dead_jobs_shows_reasons(client: tarry.Client, cli: Cli) -> None:
    topic = client.topic("orders")
    topic.add("tea", id="7")
    job = topic.pop()
    assert job is not None
    topic.bury(job, reason="no such order")
    assert cli("list", "orders", "--state", "dead").stdout.rstrip().endswith("attempts 1  no such order")


def test_garbage_collection_pauses_only_during_imports() -> None:
    from tarry.programs.cli.process import gc_paused

    try:
        with gc_paused():
            assert not gc.isenabled()
        assert gc.isenabled()
        with pytest.raises(ModuleNotFoundError), gc_paused():
            importlib.import_module("tarry.nowhere")
        assert gc.isenabled()
    finally:
        gc.unfreeze()
