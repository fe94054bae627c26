"""``tarry doctor``: the servers and the topics, looked at for real."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import redis

import tarry
from server_groups import ask_fields, sentinels
from servers import free_ports
from tarry.connections.embedded.server_process import ServerProcess
from tarry.core.requests import Command
from tarry.values.keys import topic_keys, topics_key
from tarry.verbs.jobs import settings
from tarry.verbs.jobs import topic_migration as migration
from tarry.verbs.jobs.partitions import partition_of_id
from tarry.verbs.schedules import schedule_migration as planning
from until import until

Cli = Callable[..., subprocess.CompletedProcess[str]]
Answers = Callable[..., list[Any]]

LOSES = 1
"""The servers of the tests have no persistence."""


def test_doctor_fails_only_on_a_server_that_may_lose_jobs(own_server: Callable[..., ServerProcess], cli: Cli) -> None:
    url = own_server("--save", "", appendonly="yes", port=True).url
    with tarry.Client(url, namespace="kept") as client:
        client.topic("orders").add("x" * 100_000)
    done = cli("doctor", "--max-mb", "0", "--max-jobs", "1", url=url)
    assert (done.returncode, "no persistence" in done.stdout) == (0, False)
    with redis.Redis.from_url(url) as raw:
        raw.config_set("appendonly", "no")
    done = cli("doctor", url=url)
    assert (done.returncode, "a restart loses every job" in done.stdout) == (1, True)
    with redis.Redis.from_url(url) as raw:
        raw.config_set("save", "3600 1")
    done = cli("doctor", url=url)
    assert (done.returncode, "after a crash the jobs since the last one are lost" in done.stdout) == (0, True)


def test_doctor_checks_every_topic_and_finds_unlisted_ones(
    client: tarry.Client, answers: Answers, cli: Cli, namespace: str
) -> None:
    from tarry.values.keys import topics_key

    orders = client.topic("orders")
    orders.add_many([tarry.NewJob(n, id=str(n)) for n in range(10)])
    client.topic("测试").add("x")
    client.engine.run(Command((b"DEL", topics_key(namespace)), int))
    of_others = topic_keys(namespace[::-1], "theirs").jobs
    client.engine.run(Command((b"HSET", of_others, b"1", b""), int))
    server, *topics = answers("doctor", "--dry-run", code=LOSES)
    client.engine.run(Command((b"DEL", of_others), int))
    assert server["missing"] == ["orders", "测试"]
    assert client.topics() == []
    assert [(topic["topic"], topic["ok"], topic["notes"]) for topic in topics] == [
        ("orders", True, []), ("测试", True, [])
    ]  # fmt: skip
    answers("doctor", code=LOSES)
    assert client.topics() == ["orders", "测试"]
    orders.bury(orders.pop(), reason="no")  # type: ignore[arg-type]
    client.engine.run(Command((b"HDEL", topic_keys(namespace, "orders").jobs, b"5"), int))
    done = cli("doctor")
    assert done.returncode == 1
    assert "1 job died in the last ten minutes; tarry list orders --state dead" in done.stdout
    assert "5: due, but there is no job" in done.stdout


def test_doctor_tells_of_jobs_that_nobody_waits_for(client: tarry.Client, answers: Answers) -> None:
    orders = client.topic("orders")
    orders.add_many(["tea", "milk"], at=orders.stats().now - timedelta(hours=1))
    [found] = answers("doctor", code=LOSES)[1:]
    assert found["notes"] == ["no consumer takes its 2 ready jobs", "2 jobs are overdue, the first by 1 h"]
    assert [(one["kind"], one["level"], one["count"]) for one in found["conditions"]] == [
        ("no_consumer", "bad", 2),
        ("late", "bad", 2),
    ]


def test_doctor_tells_what_explains_a_topic_beside_what_is_wrong_with_it(client: tarry.Client, cli: Cli) -> None:
    client.topic("orders").add("tea", delay="1h")
    client.topic("orders").pause()
    assert (
        "orders  all well; no consumer takes its jobs; 1 waits, due in 59 m 59 s; paused until it is resumed"
        in re.sub(r"59 m \d+ s|1 h", "59 m 59 s", cli("doctor").stdout)
    )


def test_doctor_says_that_all_is_well_only_where_no_job_is_dead(client: tarry.Client, cli: Cli) -> None:
    orders = client.topic("orders")
    orders.add("tea")
    job = orders.pop()
    assert job is not None
    orders.bury(job)
    assert "all well" not in cli("doctor").stdout
    orders.delete(job.id)
    assert "orders  all well\n" in cli("doctor").stdout


def test_doctor_knows_partitions_and_warns_of_large_ones(client: tarry.Client, cli: Cli, namespace: str) -> None:
    assert cli("add", "parted", "1", "--id", "7", "--partitions", "2").returncode == 0
    assert client.topic("parted").get("7") is not None
    client.topic("plain").add_many(["x" * 100_000] * 3, delay="1h")
    client.engine.run(Command((b"DEL", topics_key(namespace)), int))
    done = cli("doctor")
    assert "parted  was not in the list" in done.stderr
    assert "parted  all well" in done.stdout
    assert cli("add", "parted", "1", "--partitions", "4").returncode == 2
    done = cli("doctor", "--max-mb", "0", "--max-jobs", "2")
    assert "plain  it has 3 jobs in 0 MB: moving it between nodes" in done.stdout
    client.topic("parted").add_many([tarry.NewJob(1, id=f"{n}") for n in range(8, 30)])
    sizes = Counter(partition_of_id(f"{n}", 2) for n in range(7, 30))
    done = cli("doctor", "--max-jobs", f"{max(sizes.values()) - 1}")
    assert done.returncode == LOSES
    [large] = [number for number, size in sizes.items() if size == max(sizes.values())]
    assert f"parted  partition {large} has {sizes[large]} jobs in 0 MB: moving it between nodes" in done.stdout
    assert done.stdout.count("moving it between nodes") == 1


def test_doctor_finds_inconsistent_partitions(client: tarry.Client, cli: Cli, namespace: str) -> None:
    topic = client.topic("parted", partitions=4)
    topic.add_many(range(30), delay="1h")
    topic.configure(concurrency=8)
    assert "parted  all well" in cli("doctor").stdout
    [first, *_] = client.engine.run(topic.verbs.partitions())
    client.engine.run(settings.configure(first.keys, settings.SettingsChange(rate=9), first.share))
    assert "different settings, because a configure was interrupted" in cli("doctor").stdout
    assert "run `tarry configure parted`" in cli("doctor").stdout
    assert "rate 9/1s" in cli("configure", "parted").stdout
    assert "parted  all well" in cli("doctor").stdout
    plain = topic_keys(namespace, "parted")
    client.engine.run(Command((b"DEL", plain.meta, plain.jobs), int))
    done = cli("doctor")
    assert done.returncode == 1
    assert "there are jobs in partition 3, but the number of partitions is not stored" in done.stdout
    assert cli("stats", "parted").returncode == 0
    with tarry.Client(client.engine.config.address.url, namespace=namespace) as other:
        assert other.topic("parted", partitions=4).stats().delayed == 30


def test_doctor_describes_the_server(cli: Cli, answers: Answers, client: tarry.Client) -> None:
    client.topic("orders").add(1)
    server, _ = answers("doctor", code=LOSES)
    [node] = server["nodes"]
    assert node["version"].startswith("Valkey ")
    assert (node["policy"], node["max_memory"]) == ("noeviction", None)
    assert node["answer_ms"] > 0
    assert node["memory"] > 0
    assert abs(node["clock_ms"]) < 60_000, "the same machine"
    assert "answers in " in cli("doctor").stdout


def test_doctor_warns_of_settings_that_may_lose_jobs(
    own_server: Callable[..., ServerProcess], answers: Answers
) -> None:
    url = own_server("--save", "", appendonly="no", maxmemory_policy="volatile-lru", port=True).url
    with redis.Redis.from_url(url) as raw:
        raw.set("ballast", b"x" * (30 << 20))
    with redis.Redis.from_url(url) as raw:  # the other connection held a copy
        most = raw.info("memory")["used_memory"] * 21 // 20
        raw.config_set("maxmemory", most)
    [server] = answers("doctor", url=url, code=LOSES)
    [node] = server["nodes"]
    assert (node["policy"], node["persistence"], node["max_memory"]) == ("volatile-lru", "no persistence", most)
    told = " ".join(node["notes"])
    assert "maxmemory-policy is volatile-lru" in told
    assert "no persistence" in told
    assert "of its maxmemory are used" in told


def test_doctor_reports_a_wrong_clock(client: tarry.Client, valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    from tarry.connections import health, resp
    from tarry.connections.blocking import Server
    from tarry.programs.cli import nodes

    now = time.time
    monkeypatch.setattr(health.time, "time", lambda: now() - 7200)
    seen = resp.ask(Server(valkey_url), health.NodeReader(cluster=False).read())
    assert seen.clock_ms == pytest.approx(7_200_000, abs=60_000)
    assert "ahead of this machine's; due times are by its clock" in nodes.as_text(seen)


@pytest.mark.otherserver
def test_doctor_checks_every_node_of_a_cluster(
    cluster_nodes: list[tuple[str, int]], answers: Answers, namespace: str
) -> None:
    url = "redis+cluster://" + ",".join(f"{host}:{port}" for host, port in cluster_nodes)
    names = [f"topic {n}" for n in range(12)]  # on three nodes, as good as certainly on each
    with tarry.Client(url, namespace=namespace) as client:
        for name in names:
            client.topic(name).add(1)
        client.engine.run(Command((b"DEL", topics_key(namespace)), int))
        server, *topics = answers("doctor", url=url, code=LOSES)
        assert server["missing"] == sorted(names)
        assert sorted(node["node"] for node in server["nodes"]) == sorted(
            f"{host}:{port}" for host, port in cluster_nodes
        )
        assert all(node["version"].startswith("Valkey ") and node["answer_ms"] > 0 for node in server["nodes"])
        assert [topic["topic"] for topic in topics] == sorted(names)
        assert client.topics() == sorted(names)


@pytest.mark.otherserver
@pytest.mark.slow
def test_doctor_warns_of_a_master_that_writes_without_replicas(answers: Answers) -> None:
    def notes(url: str = "", code: int = LOSES) -> str:
        [server] = answers("doctor", url=url or own.url, code=code)
        return " ".join(server["nodes"][0]["notes"])

    with sentinels(replicas=2) as own:
        master = own.master()
        for one in own.data:
            one.ask("CONFIG", "SET", "appendonly", "yes")
        assert "it has no min-replicas-to-write" in notes()
        assert "set it to 2 " in notes()
        master.ask("CONFIG", "SET", "min-replicas-to-write", "1")
        assert "its min-replicas-to-write is 1, and it has 2 replicas" in notes()
        assert "its min-replicas-max-lag is 10" in notes()
        master.ask("CONFIG", "SET", "min-replicas-to-write", "2")
        master.ask("CONFIG", "SET", "min-replicas-max-lag", "2")
        assert "min-replicas" not in notes(code=0)
        for one in own.data:
            one.ask("ACL", "SETUSER", "blind", "on", ">secret", "~*", "&*", "+@all", "-config")
        assert "can only be read with +config|get" in notes(own.url.replace("://", "://blind:secret@"), code=0)
        assert "no replica follows it" not in notes(code=0)
        for one in own.data:
            if one is not master:
                one.kill()
        until(lambda: ask_fields(master, "INFO", "replication")["connected_slaves"] == "0", "they are gone")
        assert "no replica follows it" in notes(code=0)


@pytest.mark.otherserver
@pytest.mark.parametrize(
    "words", ["stats", "workers", "top", "histogram orders", "list orders", "check orders", "purge orders --dry-run"]
)
def test_every_view_works_on_a_cluster(
    cluster_nodes: list[tuple[str, int]], answers: Answers, namespace: str, words: str
) -> None:
    url = "redis+cluster://" + ",".join(f"{host}:{port}" for host, port in cluster_nodes)
    with tarry.Client(url, namespace=namespace) as client:
        client.topic("orders").add(1)
        client.topic("mail").add(1)
    assert len(answers(*words.split(), url=url)) == {"stats": 2, "workers": 0, "top": 2}.get(words, 1)


@pytest.mark.parametrize("url", ["redis://127.0.0.1:{}", "redis+cluster://127.0.0.1:{}"])
def test_doctor_without_a_server_exits_with_3(cli: Cli, url: str) -> None:
    [port] = free_ports(1)
    done = cli("doctor", "--patience", "0.1", url=url.format(port))
    assert done.returncode == 3
    assert "[unavailable]" in done.stderr


def test_doctor_reports_jobs_of_an_interrupted_migration(
    client: tarry.Client, answers: Answers, cli: Cli, namespace: str
) -> None:
    topic = client.topic("moving")
    topic.add("dead", id="dead")
    topic.bury(topic.pop(), reason="no")  # type: ignore[arg-type]
    topic.add_many([tarry.NewJob(n, id=str(n)) for n in range(30)], delay="1h")
    client.topic("zoo").add("after it", delay="1h")
    client.schedules.put("moving", "hourly", "tea", every="1h")
    client.engine.run(migration.depart(topic_keys(namespace, "moving"), b"word"))
    client.engine.run(planning.depart(topic_keys(namespace, "moving"), b"0", b"word"))
    client.engine.run(Command((b"SET", topic_keys(namespace, "broken").due, b"no zset"), bytes))
    client.engine.register_topic("broken")
    words = "30 jobs and 1 schedule are on their way to another topic"
    done = cli("doctor")
    assert (done.returncode, f"moving  {words}" in done.stdout, "zoo  all well" in done.stdout) == (1, True, True)
    assert "broken  A key has another type" in done.stdout
    assert words in cli("check", "moving").stdout
    assert words in cli("stats", "moving").stderr
    assert topic.stats().damaged == 0, "what moves is not damaged"
    told = answers("check", "moving", "zoo")
    assert [(one["leaving"], one["schedules_leaving"]) for one in told] == [(30, 1), (0, 0)]
    trial = cli("migrate", "moving", "--to", "there", "--dry-run")
    assert "31 jobs would move, and 1 schedule" in trial.stdout
    assert words in trial.stderr
    gone = cli("--patience", "100ms", "migrate", "moving", "--to-url", f"redis://127.0.0.1:{free_ports(1)[0]}")
    assert "moving  interrupted, 0 jobs moved; nothing is lost: run the same command again to continue" in gone.stderr
    assert "31 jobs moved" in cli("migrate", "moving", "--to", "there").stdout
    assert "their way" not in cli("check", "moving").stdout
