"""An unknown topic: the command line names it in its error."""

from __future__ import annotations

import pytest

import tarry
from programs.terminal import Answers, Cli
from tarry.verbs import namespaces

SHOWS_OR_EMPTIES = (
    ("stats", "typo"),
    ("list", "typo"),
    ("histogram", "typo"),
    ("throughput", "typo"),
    ("check", "typo"),
    ("top", "typo", "--once"),
    ("purge", "typo", "--yes"),
    ("purge", "typo", "--dry-run"),
    ("kick", "typo", "--all"),
    ("reschedule", "typo", "--state", "delayed", "--delay", "0"),
)


@pytest.mark.parametrize("words", SHOWS_OR_EMPTIES, ids=" ".join)
def test_a_topic_that_was_never_used_is_unknown(client: tarry.Client, cli: Cli, words: tuple[str, ...]) -> None:
    client.engine.run(namespaces.register_topic(client.namespace, "typo"))  # a hint, and no proof
    done = cli(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: unknown topic typo: nothing was ever added to it, and nothing is configured for it. [unknown_topic]\n"
    )


@pytest.mark.parametrize("command", ["delete", "kick", "reschedule --delay 1h", "kick --dry-run"])
def test_an_unknown_id_exits_with_1_after_the_others(
    client: tarry.Client, cli: Cli, answers: Answers, command: str
) -> None:
    """As `get` does: a script that names an id is told that nothing was done."""
    orders = client.topic("orders")

    def prepare(id: str, priority: int) -> None:
        orders.add(1, id=id, priority=priority, delay="1h" if command.startswith("reschedule") else 0)
        if "kick" in command:
            [job] = orders.pop_many(1)
            orders.bury(job)

    prepare("there", 0)
    verb, *options = command.split()
    done = cli(verb, "orders", "typo", "there", *options)
    note = "an unknown job was finished or deleted, or never added; `tarry list orders` shows those that there are."
    assert (done.returncode, done.stderr) == (1, f"{note}\n")
    first, second = done.stdout.splitlines()
    assert first == "typo  unknown"
    assert second.startswith("there  ")
    prepare("again", 1)
    assert cli(verb, "orders", "again", *options).returncode == 0
    assert cli(verb, "nowhere", "typo", *options).returncode == 1


@pytest.mark.parametrize("options", [[], ["--dry-run"], ["--json"]])
def test_a_job_that_does_not_wait_cannot_be_rescheduled(client: tarry.Client, cli: Cli, options: list[str]) -> None:
    """Nothing is changed, and a script that names the id is told, with what to do instead."""
    orders = client.topic("orders")
    orders.add(1, id="dead")
    [job] = orders.pop_many(1)
    orders.bury(job)
    orders.add(2, id="running")
    orders.pop()
    orders.add(3, id="waiting", delay="1h")
    done = cli("reschedule", "orders", "dead", "running", "waiting", "--delay", "5m", *options)
    assert (done.returncode, len(done.stdout.splitlines())) == (1, 3)
    running, dead = done.stderr.splitlines()
    assert "tarry kick orders ID` makes one ready" in dead
    assert "tarry release orders ID RECEIPT --delay DURATION` puts one back" in running
    states = [job and job.state for job in orders.get_many(["dead", "running", "waiting"])]
    assert states == ["dead", "reserved", "delayed"]


@pytest.mark.parametrize("options", [[], ["--dry-run"], ["--json"]])
def test_a_job_that_is_not_dead_cannot_be_kicked(client: tarry.Client, cli: Cli, options: list[str]) -> None:
    """Nothing is changed, and a script that names the id is told, with what to do instead."""
    orders = client.topic("orders")
    orders.add(1, id="running")
    orders.pop()
    orders.add(2, id="ready")
    orders.add(3, id="waiting", delay="1h")
    orders.add(4, id="dead", priority=1)
    [job] = orders.pop_many(1)
    orders.bury(job)
    done = cli("kick", "orders", "waiting", "ready", "running", "dead", *options)
    assert (done.returncode, len(done.stdout.splitlines())) == (1, 4)
    waiting, ready, running = done.stderr.splitlines()
    assert "tarry reschedule orders ID --delay 0` makes one due now" in waiting
    assert "the next pop hands them out" in ready
    assert "tarry release orders ID RECEIPT --delay 0` puts one back" in running
    if not options:
        assert done.stdout.splitlines()[0] == "waiting  delayed, unchanged"
        assert done.stdout.splitlines()[-1] == "dead  was dead"
    states = [job and job.state for job in orders.get_many(["waiting", "ready", "running", "dead"])]
    assert states == ["delayed", "ready", "reserved", "dead" if "--dry-run" in options else "ready"]


def test_jobs_that_a_command_finds_by_itself_may_be_gone_when_it_comes_to_them(client: tarry.Client, cli: Cli) -> None:
    client.topic("orders").add(1)
    assert cli("kick", "orders", "--all").returncode == 0
    assert cli("reschedule", "orders", "--state", "delayed", "--delay", "0").returncode == 0


def test_an_emptied_topic_stays_known(client: tarry.Client, cli: Cli) -> None:
    client.topic("orders").add(1)
    job = client.topic("orders").pop()
    assert job is not None
    job.finish()
    client.topic("deleted").add(1, id="1")
    client.topic("deleted").delete("1")
    client.topic("purged").add(1)
    client.topic("purged").purge()
    client.engine.run(namespaces.register_topic(client.namespace, "other"))
    for topic in ("orders", "deleted", "purged"):
        for words in (("stats", topic), ("list", topic), ("purge", topic, "--yes")):
            assert cli(*words).returncode == 0


def test_a_configured_scheduled_paused_or_partitioned_topic_is_known(client: tarry.Client, cli: Cli) -> None:
    client.topic("configured").configure(ttr="1m")
    client.topic("paused").pause()
    client.schedules.put("scheduled", "tidy", 1, every="1h")
    client.topic("divided", partitions=3).stats()
    for topic in ("configured", "paused", "scheduled", "divided"):
        assert cli("stats", topic).returncode == 0, topic


def test_commands_that_may_create_a_topic_accept_an_unknown_one(cli: Cli, answers: Answers) -> None:
    assert answers("pop", "one") == []
    assert cli("configure", "two").returncode == 0
    assert cli("configure", "three", "--rate", "none").returncode == 0
    assert (
        cli("pause", "four").stderr == "four is new: nothing was ever added to it, and nothing is configured for it\n"
    )
    assert cli("pause", "four").stderr == "", "it is configured now"
    assert cli("workers", "six").returncode == 0
    assert cli("stats").stderr == "there is no topic yet\n"
