"""Locks over HTTP: looked at, listed, taken away; and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import tarry
from service.running_service import Api, RunningService, serve
from tarry.clients.awaited.client import AsyncClient
from tarry.programs.service.settings import ServiceSettings


@pytest.fixture
def default(running_service: RunningService) -> Iterator[Api]:
    made = Api(running_service.url, "default")
    yield made
    made.http.close()


@pytest.fixture
def client(valkey_url: str) -> Iterator[tarry.Client]:
    with tarry.Client(valkey_url) as made:
        yield made


def everything(api: Api, **query: Any) -> dict[str, Any]:
    """All pages."""
    found: dict[str, Any] = {}
    page = api.get("/v1/locks", **query)
    while True:
        found |= {one["lock"]: one for one in page["locks"]}
        if "cursor" not in page:
            return found
        page = api.get("/v1/locks", cursor=page["cursor"], **query)


def test_a_lock_is_shown_listed_and_force_released(default: Api, client: tarry.Client, namespace: str) -> None:
    name = f"lock-{namespace}"
    path = f"/v1/locks/{name}"
    assert default.get(path)["held"] is False
    grant = client.lock(name, lease="1m").acquire(wait=0)
    assert grant is not None
    shown = default.get(path)
    assert (shown["lock"], shown["held"], shown["depth"], shown["token"]) == (name, True, 1, grant.token)
    assert 0 < shown["remaining_ms"] <= 60_000
    assert everything(default)[name]["holder"] == shown["holder"]
    assert default.post(path + "/force-release") == {"lock": name, "released": True, "holder": shown["holder"]}
    assert default.post(path + "/force-release") == {"lock": name, "released": False, "holder": None}
    with pytest.raises(tarry.LockLost):
        grant.check()
    assert name not in everything(default)
    assert everything(default, all="true")[name]["held"] is False


def test_a_name_may_have_a_slash_and_braces(default: Api, client: tarry.Client, namespace: str) -> None:
    name = f"{{shop}}/{namespace}"
    with client.lock(name, wait=0, shared=True):
        assert default.get(f"/v1/locks/%7Bshop%7D%2F{namespace}", shared="true")["held"]


def test_keys_of_other_types_are_neither_shown_nor_deleted(default: Api, client: tarry.Client, namespace: str) -> None:
    cache = client.map_cache(f"prices-{namespace}", codec="string", policy=None)
    queue = client.blocking_queue(f"names-{namespace}", codec="string")
    cache.put("tea", "green")
    queue.put("ann")
    shared = {"shared": "true"}
    for name in (cache.name, queue.name):
        assert default.refused("GET", f"/v1/locks/{name}", params=shared) == (400, "bad_input")
        assert default.refused("POST", f"/v1/locks/{name}/force-release", params=shared) == (400, "bad_input")
        with pytest.raises(tarry.BadInput, match="is no lock"):
            client.lock(name, shared=True).force_release()
    assert (cache.get("tea"), queue.poll()) == ("green", "ann")


def test_keys_of_a_topic_are_refused_as_locks(default: Api, client: tarry.Client, namespace: str) -> None:
    topic = client.topic(f"t-{namespace}")
    topic.add(1)
    inside = f"tarry:%7Bdefault%2Ft-{namespace}%7D:jobs"
    assert default.refused("POST", f"/v1/locks/{inside}/force-release", params={"shared": "true"}) == (400, "bad_input")
    assert topic.stats().ready == 1


def test_shared_locks_have_no_namespace(api: Api) -> None:
    for method, path in (("GET", "/v1/locks"), ("GET", "/v1/locks/x"), ("POST", "/v1/locks/x/force-release")):
        assert api.refused(method, path, params={"namespace": api.namespace, "shared": "true"})[0] == 403


def test_a_lock_is_seen_in_its_namespace_only(
    api: Api, default: Api, client: tarry.Client, valkey_url: str, namespace: str
) -> None:
    name = f"lock-{namespace}"
    with tarry.Client(valkey_url, namespace=namespace) as mine, mine.lock(name, wait=0):
        assert api.get(f"/v1/locks/{name}")["held"]
        assert list(everything(api)) == [name]
        assert not default.get(f"/v1/locks/{name}")["held"]
        assert not default.get(f"/v1/locks/{name}", shared="true")["held"]
        assert name not in everything(default)
        assert not default.post(f"/v1/locks/{name}/force-release")["released"]
    with client.lock(name, wait=0, shared=True) as grant:
        assert everything(default, shared="true")[name]["token"] == grant.token
        assert name not in everything(default, all="true")
        assert not default.post(f"/v1/locks/{name}/force-release")["released"]
        grant.check()


@pytest.mark.parametrize("cursor", ["", "x", "1", "0-99999999999999999999", "-1-0", "0-0-0"])
def test_an_invalid_cursor_is_refused(default: Api, cursor: str) -> None:
    answer = default("GET", "/v1/locks", params={"namespace": "default", "cursor": cursor})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")


def test_a_cursor_beyond_the_last_server_ends_the_listing(default: Api) -> None:
    assert default.get("/v1/locks", cursor="9-0") == {"locks": []}


@pytest.mark.otherserver
def test_locks_are_listed_across_all_cluster_nodes(cluster_nodes: list[tuple[str, int]]) -> None:
    url = "redis+cluster://" + ",".join(f"{host}:{port}" for host, port in cluster_nodes)
    with serve(lambda name: AsyncClient(url, namespace=name)) as running, tarry.Client(url) as client:
        names = {f"walked-{n}" for n in range(20)}
        grants = [client.lock(name, lease="1m").acquire(wait=0) for name in names]
        api = Api(running.url, "default")
        assert names <= set(everything(api))
        for grant in grants:
            assert grant is not None
            grant.release()
        assert not names & set(everything(api))
        api.http.close()


def test_metrics_cover_the_configured_locks(valkey_url: str, client: tarry.Client, namespace: str) -> None:
    name, other = f"lock-{namespace}", f"map-{namespace}"
    client.map_cache(other, codec="string", policy=None).put("tea", "green")
    settings = ServiceSettings(locks=(name,), shared_locks=(name, other))
    with serve(lambda running_service: AsyncClient(valkey_url, namespace=running_service), settings) as running:
        with client.lock(name, wait=0):
            held = httpx.get(f"{running.url}/metrics").text
        free = httpx.get(f"{running.url}/metrics").text
    assert f'tarry_lock_held{{lock="{name}",shared="false"}} 1.0' in held
    assert f'tarry_lock_held{{lock="{name}",shared="true"}} 0.0' in held
    assert f'tarry_lock_held{{lock="{name}",shared="false"}} 0.0' in free
    assert f'tarry_lock_waiting{{lock="{name}",shared="false"}} 0.0' in held
    assert f'lock="{other}"' not in held, "it is none"
