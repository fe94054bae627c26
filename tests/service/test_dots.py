"""Nothing of tarry's is called ``.`` or ``..``, which URLs take for folders; Java's names are Java's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tarry
from service.any_client import AnyClient
from service.running_service import Api, RunningService
from service.test_connections import asked
from warm import WarmTarry

DOTS = [".", ".."]


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
def test_the_library_refuses_names_of_dots(client: tarry.Client, valkey_url: str, name: str) -> None:
    orders = client.topic("orders")
    for refused in (
        lambda: orders.add(1, id=name),
        lambda: orders.add_many([tarry.NewJob(1, id=name)]),
        lambda: client.topic(name),
        lambda: client.topic(name, partitions=4),
        lambda: client.schedules.put("orders", name, every="1d"),
        lambda: client.schedules.put(name, "daily", every="1d"),
        lambda: orders.get(name),
        lambda: orders.delete(name),
        lambda: orders.release_holder(name),
        lambda: client.schedules.pause("orders", name),
        lambda: client.guarded_queue(name),
        lambda: client.lock(name),
        lambda: client.migrate_queue(client.delayed_queue("elsewhere"), name),
        lambda: tarry.Client(valkey_url, namespace=name),
    ):
        with pytest.raises(tarry.BadInput, match="folder"):
            refused()
    assert client.topics() == []
    assert client.topic("orders", partitions=2).add(1).is_new


@pytest.mark.parametrize("name", DOTS)
def test_an_http_client_refuses_names_of_dots(any_client: AnyClient, name: str) -> None:
    for refused in (
        lambda: any_client.call(any_client.far.topic("orders").add, 1, id=name),
        lambda: any_client.call(any_client.far.topic(name).add, 1),
        lambda: any_client.call(any_client.far.topic(name).add_many, [1]),
        lambda: any_client.call(any_client.far.topic(name).pop),
        lambda: any_client.call(any_client.far.topic("orders").get, name),
        lambda: any_client.call(any_client.far.schedules.delete, "orders", name),
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
        ("PATCH", f"/v1/topics/{name}/settings", b'{"ttr": "1m"}'),
        ("POST", "/v1/topics/orders/pop", b'{"holder": "%s"}' % plain),
        ("POST", "/v1/topics/orders/migrate", b'{"to": "%s"}' % plain),
        ("POST", f"/v1/guarded-queues/{name}/push", b'{"items": [{"body": 1, "delay": 1}]}'),
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
    with client.lock("..", shared=True):
        pass
    queue = client.guarded_queue("..", layout="java")
    queue.push({"tea": 0})
    item = queue.poll()
    assert item is not None
    assert item.value == "tea"


@pytest.mark.parametrize("dots", ["..", "%2E%2E", "%2e."])
def test_the_api_refuses_names_of_dots_in_every_path(real: Api, dots: str) -> None:
    orders, there = "/v1/topics/orders", f"/v1/topics/{dots}"
    for method, path in (
        ("GET", f"{there}/jobs"),
        ("GET", f"{there}/stats"),
        ("POST", f"{there}/pop"),
        ("POST", f"{there}/pause"),
        ("GET", f"{orders}/jobs/{dots}"),
        ("DELETE", f"{orders}/jobs/{dots}"),
        ("POST", f"{orders}/schedules/{dots}/pause"),
        ("DELETE", f"{orders}/schedules/{dots}"),
        ("POST", f"/v1/guarded-queues/{dots}/poll"),
        ("GET", f"/v1/locks/{dots}"),
    ):
        answer = raw(real, method, path)
        assert (answer.status, answer.code) == (400, "bad_input"), (method, path)


@pytest.mark.slow
def test_the_command_line_refuses_names_of_dots(
    valkey_url: str, namespace: str, tmp_path: Path, tarry_command: WarmTarry
) -> None:
    environment = {"TARRY_URL": valkey_url, "TARRY_NAMESPACE": namespace}
    for line in (
        "add orders 1 --id ..",
        "add .. 1",
        "list ..",
        "get orders ..",
        "delete orders ..",
        "check ..",
        "--namespace .. token create --scope view",
    ):
        done = tarry_command.run(line.split(), None, environment, tmp_path)
        assert (done.returncode, "folder" in done.stderr) == (2, True), (line, done)
