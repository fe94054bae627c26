"""Nothing new is called ``.`` or ``..``, which URLs take for folders; what has such a name is reached as ever."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tarry
from service.any_client import AnyClient
from service.running_service import Api, RunningService
from service.test_connections import asked
from tarry.values import names
from warm import WarmTarry

DOTS = [".", ".."]
OPTIONS = {"body": 1, "delay": "1h"}


@contextmanager
def an_older_version(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As 0.1.0, which took them."""
    with monkeypatch.context() as patch:
        patch.setattr(names, "DOTS", ())
        yield


@pytest.fixture
def client(valkey_url: str, namespace: str) -> Iterator[tarry.Client]:
    with tarry.Client(valkey_url, namespace=namespace) as made:
        yield made
        for topic in made.topics():
            made.topic(topic).purge()


@pytest.fixture
def any_client(
    any_client: AnyClient, running_service: RunningService, valkey_url: str, real: Api
) -> Iterator[AnyClient]:
    """In a namespace where nobody has put anything into a topic of such a name."""
    made = AnyClient(any_client.kind, running_service, valkey_url, namespace=real.namespace)
    yield made
    made.close()


def raw(api: Api, method: str, path: str, body: bytes = b"") -> Any:
    """A request whose path nobody resolves."""
    sign = "&" if "?" in path else "?"
    head = f"{method} {path}{sign}namespace={api.namespace} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    return asked(api.url, f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)


@pytest.mark.parametrize("name", DOTS)
def test_the_library_creates_no_names_of_dots(client: tarry.Client, valkey_url: str, name: str) -> None:
    orders, there = client.topic("orders"), client.topic(name)
    for refused in (
        lambda: orders.add(1, id=name),
        lambda: orders.add_many([tarry.NewJob(1, id=name)]),
        lambda: there.add(1),
        lambda: there.add_many([1]),
        lambda: there.configure(ttr=5),
        lambda: client.topic(name, partitions=4).add(1),
        lambda: client.schedules.put("orders", name, every="1d"),
        lambda: client.schedules.put(name, "daily", every="1d"),
        lambda: client.guarded_queue(name).push({"a": 1}),
        lambda: client.migrate("orders", there),
        lambda: client.move_to_topic(client.delayed_queue("elsewhere"), name),
        lambda: tarry.Client(valkey_url, namespace=name).topic("orders").add(1),
        lambda: tarry.Client(valkey_url, namespace=name).guarded_queue("q").push({"a": 1}),
    ):
        with pytest.raises(tarry.BadInput, match="folder"):
            refused()
    assert client.topics() == []
    assert client.topic("orders", partitions=2).add(1).created


@pytest.mark.parametrize("name", DOTS)
def test_an_http_client_creates_no_names_of_dots(any_client: AnyClient, name: str) -> None:
    for refused in (
        lambda: any_client.call(any_client.far.topic("orders").add, 1, id=name),
        lambda: any_client.call(any_client.far.topic(name).add, 1),
        lambda: any_client.call(any_client.far.topic(name).add_many, [1]),
        lambda: any_client.call(any_client.far.schedules.put, "orders", name, every="1d"),
        lambda: any_client.call(any_client.far.guarded_queue(name).push, {"a": 1}),
    ):
        with pytest.raises(tarry.BadInput, match="folder"):
            refused()


@pytest.mark.parametrize("name", ["%2E", "%2e%2E", "..", "."])
def test_the_api_creates_no_names_of_dots(real: Api, name: str) -> None:
    plain = name.lower().replace("%2e", ".").encode()
    for method, path, body in (
        ("POST", f"/v1/topics/{name}/jobs", b'{"body": 1}'),
        ("POST", f"/v1/topics/{name}/many/add", b'{"jobs": [{"body": 1}]}'),
        ("POST", "/v1/topics/orders/jobs", b'{"body": 1, "id": "%s"}' % plain),
        ("POST", "/v1/topics/orders/many/add", b'{"jobs": [{"body": 1, "id": "%s"}]}' % plain),
        ("PUT", f"/v1/topics/orders/schedules/{name}", b'{"every": "1d"}'),
        ("PUT", f"/v1/topics/{name}/schedules/daily", b'{"every": "1d"}'),
        ("PUT", f"/v1/topics/{name}/partitions", b'{"number": 4}'),
        ("PATCH", f"/v1/topics/{name}/defaults", b'{"ttr": "1m"}'),
        ("POST", "/v1/topics/orders/pop", b'{"holder": "%s"}' % plain),
        ("POST", "/v1/topics/orders/migrate", b'{"to": "%s"}' % plain),
        ("POST", f"/v1/guarded/{name}/push", b'{"items": [{"body": 1, "delay": 1}]}'),
    ):
        answer = raw(real, method, path, body)
        assert (answer.status, answer.code) == (400, "bad_input"), (method, path)
    query = {"namespace": real.namespace, "id": ".."}
    text = real("POST", "/v1/topics/orders/jobs", content=b"x", params=query, headers={"content-type": "text/plain"})
    assert text.status_code == 400
    assert real.get("/v1/topics")["topics"] == []


def test_shared_structures_may_have_names_of_dots(client: tarry.Client) -> None:
    queue = client.delayed_queue("..", codec="string")
    queue.offer("tea", "1h")
    assert queue.remove("tea")
    with client.map_cache("..", codec="string") as prices:
        prices.put("a", "b")
        assert prices.remove("a") == "b"
    with client.lock(".."):
        pass


@pytest.fixture
def left(client: tarry.Client, valkey_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch) -> tarry.Client:
    with an_older_version(monkeypatch), tarry.Client(valkey_url, namespace=namespace) as older:
        for topic in ("orders", ".."):
            for id in ("..", ".", "7"):
                older.topic(topic).add(id, id=id)
            older.schedules.put(topic, "..", every="1d")
        older.guarded_queue("..").push({"tea": 0})
    return client


def test_the_library_reads_and_deletes_existing_names_of_dots(left: tarry.Client) -> None:
    for topic in (left.topic("orders"), left.topic("..")):
        assert sorted(job.id for job in topic.list()) == [".", "..", "7"]
        first = topic.pop()
        assert first is not None
        assert first.id == ".."
        first.bury("why")
        assert topic.kick("..") == "dead"
        assert [job.id for job in topic.pop_many(2)] == [".", "7"] or topic.stats().reserved == 2
        assert topic.delete("..") is not None
        assert topic.get(".").state == "reserved"  # type: ignore[union-attr]
        topic.purge()
        assert left.schedules.pause(topic, "..")
        assert left.schedules.delete(topic, "..")
    assert [item.value for item in left.guarded_queue("..").poll()] == ["tea"]
    assert left.topic("..").configure().max_attempts
    left.topic("..").pause()
    left.topic("..").resume()


@pytest.mark.parametrize("dots", ["..", "%2E%2E", "%2e."])
def test_the_api_reads_and_deletes_existing_names_of_dots(real: Api, left: tarry.Client, dots: str) -> None:
    for topic in ("orders", dots):
        place = f"/v1/topics/{topic}"
        assert raw(real, "GET", f"{place}/jobs").status == 200
        assert raw(real, "GET", f"{place}/jobs/{dots}").status == 200
        assert raw(real, "GET", f"{place}/jobs/{dots}/body").body == b'".."'
        assert b'"id":".."' in raw(real, "POST", f"{place}/pop").body
        assert raw(real, "DELETE", f"{place}/jobs/{dots}").status == 200
        assert raw(real, "POST", f"{place}/schedules/{dots}/pause").status == 204
        assert raw(real, "DELETE", f"{place}/schedules/{dots}").status == 204
        stats = raw(real, "GET", f"{place}/stats")
        assert b'"paused_until":null' in stats.body
    assert b"tea" in raw(real, "POST", f"/v1/guarded/{dots}/poll").body


def test_names_of_dots_can_be_given_in_a_request_body(real: Api, left: tarry.Client) -> None:
    """As ``fetch`` cannot, which resolves it."""
    found = real.post("/v1/topics/orders/many/get", {"ids": ["..", "."]})["jobs"]
    assert [job["id"] for job in found] == ["..", "."]
    assert real.post("/v1/topics/orders/many/delete", {"ids": ["..", "."]}) == {"was": ["ready", "ready"]}
    popped = real.post("/v1/pop", {"topics": [".."], "n": 10})["jobs"]
    assert [job["id"] for job in popped] == ["..", ".", "7"]


@pytest.mark.slow
def test_the_command_line_reads_and_deletes_existing_names_of_dots(
    left: tarry.Client, valkey_url: str, namespace: str, tmp_path: Path, tarry_command: WarmTarry
) -> None:
    environment = {"TARRY_URL": valkey_url, "TARRY_NAMESPACE": namespace}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return tarry_command.run(words, None, environment, tmp_path)

    for topic in ("orders", ".."):
        assert run("list", topic).stdout.count("ready") == 3
        assert run("get", topic, "..").returncode == 0
        assert run("delete", topic, "..").stdout == "..  deleted, was ready\n"
        assert "folder" in run("add", topic, "1", "--id", "..").stderr
    assert "folder" in run("add", "..", "1").stderr
    assert "folder" in run("--namespace", "..", "token", "create", "--scope", "view").stderr
    assert run("check", "..").returncode == 0
