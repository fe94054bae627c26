"""A job with damaged headers, and one of which only half a head is left, over HTTP, on the command line, at a worker: the others
are handed out, shown and finished as ever."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tarry
from service.any_client import AnyClient
from service.running_dashboard import serve_dashboard
from service.running_service import Api
from tarry.core.requests import Command
from tarry.programs.service.settings import ServiceSettings
from warm import WarmTarry

HEAD = 8
HAS_NONCE, HAS_HEADERS, HAS_TTR, HAS_ATTEMPTS, FURTHER, HAS_MAX_LATENESS = 8, 16, 32, 64, 128, 1
"""Flags of a record; the last is a further one (verbs/jobs/records.py)."""


def damage(client: Any, topic: str, id: str, made: Any) -> Any:
    """Writes another record in the place of a job's."""
    key = client.topic(topic).verbs.keys.jobs
    read: Command[bytes] = Command((b"HGET", key, id.encode()), bytes)
    value = client.engine.run(read)
    return client.engine.run(Command((b"HSET", key, id.encode(), made(value)), int))


def no_headers(value: bytes) -> bytes:
    flags, at = value[HEAD - 1], HEAD
    assert flags & HAS_HEADERS
    at += 6 * bool(flags & HAS_NONCE)
    has_lateness = bool(flags & FURTHER and value[at] & HAS_MAX_LATENESS)
    at += 2 * bool(flags & FURTHER) + 4 * bool(flags & HAS_TTR) + 4 * bool(flags & HAS_ATTEMPTS) + 8 * has_lateness
    size = value[at] + 256 * value[at + 1]
    return value[: at + 2] + b"\xfe" * size + value[at + 2 + size :]


def half(value: bytes) -> bytes:
    return value[: HEAD // 2]


@pytest.fixture
def client(valkey_url: str, namespace: str) -> Iterator[tarry.Client]:
    """Five jobs: the second has no headers that can be read, the fourth nothing."""
    with tarry.Client(valkey_url, namespace=namespace) as made:
        orders = made.topic("orders")
        orders.add_many([tarry.NewJob(n, id=n, headers={"trace": n}) for n in "abcde"])
        damage(made, "orders", "b", no_headers)
        damage(made, "orders", "d", half)
        yield made
        orders.purge()


def by_id(jobs: list[Any]) -> dict[str, Any]:
    return {job["id"]: job for job in jobs}


def test_pages_and_batches_include_damaged_jobs(real: Api, client: tarry.Client) -> None:
    page = by_id(real.get("/v1/topics/orders/jobs")["jobs"])
    many = by_id(real.post("/v1/topics/orders/many/get", {"ids": list("abcde")})["jobs"])
    popped = by_id(real.post("/v1/topics/orders/many/pop", {"limit": 10})["jobs"])
    dead = by_id(real.get("/v1/topics/orders/jobs", state="dead")["jobs"])
    assert sorted(page) == sorted(many) == list("abcde")
    assert sorted(popped) == list("abce")
    assert sorted(dead) == ["d"]
    for found in (page, many, popped):
        for id in "ace":
            assert (found[id]["body"], found[id]["headers"]) == (id, {"trace": id})
            assert "unreadable" not in found[id]
        assert found["b"]["body"] == "b"
        assert "headers" not in found["b"]
        assert found["b"]["unreadable"].startswith("headers: they are damaged")
    for one in (page["d"], dead["d"]):
        assert one["unreadable"].startswith("job: it is damaged")
        assert "body" not in one
    held = [{"id": job["id"], "receipt": job["receipt"]} for job in popped.values()]
    real.post("/v1/topics/orders/many/finish", {"jobs": held}, 204)
    assert real("DELETE", "/v1/topics/orders/jobs/d").json() == {"was": "dead"}


def test_check_names_damaged_jobs(real: Api, client: tarry.Client) -> None:
    faults = real.get("/v1/topics/orders/check")["faults"]
    assert sorted(faults) == ["b: headers that cannot be read", "d: no readable head"]
    assert sorted(client.topic("orders").check().faults) == sorted(faults)


def test_an_http_client_reads_the_readable_parts(any_client: AnyClient, name: str) -> None:
    orders = any_client.near.topic(name)
    orders.add_many([tarry.NewJob(n, id=n, headers={"trace": n}) for n in "abc"])
    damage(any_client.near, name, "b", no_headers)
    far = any_client.far.topic(name)
    for jobs in (any_client.call(far.get_many, list("abc")), any_client.call(far.pop_many, 10)):
        assert [job.body for job in jobs] == ["a", "b", "c"]
        assert jobs[2].headers == {"trace": "c"}
        with pytest.raises(tarry.BodyError, match="damaged"):
            _ = jobs[1].headers
        assert jobs[1].created is not None
    any_client.call(far.finish_many, jobs)


def test_a_schedule_with_damaged_headers_is_listed(any_client: AnyClient, name: str) -> None:
    any_client.near.schedules.put(name, "daily", "tea", every="1d", headers={"trace": "x" * 20})
    keys = any_client.near.topic(name).verbs.keys
    plans = keys.due.removesuffix(b"due") + b"plans"
    value = any_client.near.engine.run(Command((b"HGET", plans, b"daily"), bytes))
    any_client.near.engine.run(Command((b"HSET", plans, b"daily", value.replace(b"x" * 20, b"\xff" * 20)), int))
    (one,) = any_client.call(any_client.far.schedules.list, name)
    assert one.body == "tea"
    with pytest.raises(tarry.BodyError):
        _ = one.headers
    any_client.near.schedules.delete(name, "daily")


def test_an_invalid_content_type_is_not_sent(real: Api, client: tarry.Client) -> None:
    notes = client.topic("notes", type=bytes)
    for n, media in enumerate(["text/测试", "text/plain\r\nx: y", "text/plain\x00", " text/plain", "", "\x7f", "a\nb"]):
        notes.add(b"tea", id=str(n), headers={"content-type": media})
        answer = real("GET", f"/v1/topics/notes/jobs/{n}/body")
        assert (answer.status_code, answer.content) == (200, b"tea"), media
        assert answer.headers["content-type"] == "application/octet-stream"
        assert "x" not in answer.headers
    for n, media in enumerate(["text/plain; charset=utf-8", "a/b", "text/x; t=é"], 20):
        notes.add(b"tea", id=str(n), headers={"content-type": media})
        answer = real("GET", f"/v1/topics/notes/jobs/{n}/body")
        assert answer.headers["content-type"].encode("latin-1") == media.encode("latin-1")
    damage(client, "notes", "20", no_headers)
    assert real("GET", "/v1/topics/notes/jobs/20/body").content == b"tea"
    assert real.refused("GET", "/v1/topics/orders/jobs/d/body") == (422, "body_error")
    notes.purge()


@pytest.mark.slow
def test_the_command_line_shows_damaged_jobs_and_doctor_names_them(
    client: tarry.Client, valkey_url: str, namespace: str, tmp_path: Path, tarry_command: WarmTarry
) -> None:
    environment = {"TARRY_URL": valkey_url, "TARRY_NAMESPACE": namespace}

    def run(*words: str, code: int = 0) -> str:
        done = tarry_command.run(words, None, environment, tmp_path)
        assert "Traceback" not in done.stderr
        assert done.returncode == code, (words, done.stderr)
        return done.stdout

    assert run("list", "orders").count("ready") == 5
    rows = [json.loads(line) for line in run("list", "orders", "--json").splitlines()]
    assert sorted(row["id"] for row in rows) == list("abcde")
    for id in "abcde":
        assert id in run("get", "orders", id)
        assert json.loads(run("get", "orders", id, "--json"))["id"] == id
    for command in ("check", "doctor"):
        said = run(command, *(["orders"] if command == "check" else []), code=1)
        assert "b: headers that cannot be read" in said
        assert "d: no readable head" in said
    popped = [json.loads(line)["id"] for line in run("pop", "orders", "--limit", "10", "--json").splitlines()]
    assert sorted(popped) == list("abce")
    assert run("delete", "orders", "b").startswith("b  deleted")


def test_a_worker_processes_all_readable_jobs(client: tarry.Client, valkey_url: str, namespace: str) -> None:
    worker, seen = tarry.Worker(client=tarry.AsyncClient(valkey_url, namespace=namespace)), list[str]()

    @worker.on("orders")
    async def handle(body: str) -> None:
        seen.append(body)

    assert asyncio.run(worker.run_until_idle()) == 0
    assert sorted(seen) == list("abce")
    assert [job.id for job in client.topic("orders").list()] == ["d"]


def test_the_dashboard_shows_damaged_jobs(valkey_url: str, client: tarry.Client, namespace: str) -> None:
    settings = ServiceSettings(namespaces=(namespace,), tokens=False)
    with serve_dashboard(valkey_url, settings) as running, Api(running.url, namespace).http as http:
        place = f"/ns/{namespace}"
        page = http.get(f"{place}/jobs?topic=orders", params={"topic": "orders"})
        assert page.status_code == 200
        assert all(f"id={id}" in page.text for id in "abcde")
        for id in "abcde":
            assert http.get(f"{place}/job", params={"topic": "orders", "id": id}).status_code == 200
