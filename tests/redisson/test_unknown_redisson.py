"""Java's codec is never guessed: while nobody says which Redisson shares a queue or map, nothing is written and nothing taken out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

import tarry
from service.running_service import RunningService, serve
from tarry.errors import BadInput
from tarry.verbs.redisson.codecs import CODECS
from tarry.verbs.redisson.values import Opaque

UNKNOWN = r"^redisson: it is not known which Redisson shares the {} .*, and its codec is never guessed. Give one of:\n"
THREE_LINES = r'  redisson="3\.15\.1" .*;\n  (codec|backend)="\w+".*\n  (codec|backend)="\w+".*$'
FAR = pytest.mark.parametrize("far", [False, True], ids=["server", "service"])


@pytest.fixture(autouse=True)
def nobody_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TARRY_REDISSON")


@pytest.fixture
def service(valkey_url: str) -> Iterator[RunningService]:
    with serve(lambda namespace: tarry.AsyncClient(valkey_url, namespace=namespace)) as running:
        yield running


@pytest.fixture
def clients(valkey_url: str, service: RunningService) -> Iterator[dict[bool, Any]]:
    with tarry.Client(valkey_url) as near, tarry.HTTPClient(service.url) as far:
        yield {False: near, True: far}


def refused(kind: str, act: Callable[[], Any]) -> None:
    with pytest.raises(BadInput, match=UNKNOWN.format(kind) + THREE_LINES):
        act()


@FAR
def test_nothing_is_written_to_a_queue_of_unknown_redisson(clients: Any, name: str, far: bool) -> None:
    delayed, ready = clients[far].delayed_queue(name), clients[far].blocking_queue(name)
    refused("queue", lambda: delayed.offer("tea", 1))
    refused("queue", lambda: delayed.offer_many(["tea"], 1))
    refused("queue", lambda: ready.put("tea"))
    assert (delayed.size(), ready.size()) == (0, 0)


@FAR
def test_nothing_is_taken_out_of_a_queue_of_unknown_redisson(clients: Any, name: str, far: bool) -> None:
    said = {"redisson": "3.15.1"}
    clients[far].delayed_queue(name, **said).offer("later", 60)
    clients[far].blocking_queue(name, **said).put("tea")
    delayed, ready = clients[far].delayed_queue(name), clients[far].blocking_queue(name)
    for take in (delayed.poll, ready.poll, ready.take, lambda: ready.poll(wait=1), lambda: ready.subscribe(print)):
        refused("queue", take)
    refused("queue", lambda: clients[far].migrate_queue(delayed, "orders"))
    assert (delayed.size(), ready.size(), ready.poison()) == (1, 1, [])
    assert isinstance(delayed.peek(), Opaque), "a look shows the bytes"
    assert clients[far].blocking_queue(name, **said).poll() == "tea"


def test_nothing_is_written_to_a_map_of_unknown_redisson(clients: Any, name: str) -> None:
    cache = clients[False].map_cache(name, policy=None)
    refused("map", lambda: cache.put("tea", 3))
    refused("map", lambda: clients[False].map_cache(name, backend="redisson-native").put("tea", 3))
    clients[False].map_cache(name, redisson="3.15.1", policy=None).put("tea", 3)
    refused("map", lambda: cache.get("tea"))
    assert cache.size() == 1


def test_a_native_map_and_an_own_codec_need_no_word(clients: Any, name: str) -> None:
    class Own:
        def encode(self, value: str) -> bytes:
            return value.upper().encode()

        def decode(self, raw: bytes) -> str:
            return raw.decode().lower()

    native = clients[False].map_cache(name, backend="native", policy=None).verbs.context
    assert native.codec is native.key_codec is CODECS["kryo5"]
    ready = clients[False].blocking_queue(name, codec=Own())
    ready.put("tea")
    assert ready.poll() == "tea"
    cache = clients[False].map_cache(f"map-{name}", codec=Own(), policy=None)
    cache.put("a", "b")
    assert cache.get("a") == "b"


def test_an_awaited_client_refuses_too(valkey_url: str, name: str) -> None:
    asyncio.run(_refused_awaited(valkey_url, name))


async def _refused_awaited(valkey_url: str, name: str) -> None:
    async with tarry.AsyncClient(valkey_url) as client:
        for act in (client.delayed_queue(name).offer("tea", 1), client.blocking_queue(name).take()):
            with pytest.raises(BadInput, match=UNKNOWN.format("queue") + THREE_LINES):
                await act


def test_a_worker_starts_only_if_its_queues_have_a_codec(valkey_url: str, namespace: str, name: str) -> None:
    def worked(**said: Any) -> list[str]:
        worker, seen = tarry.Worker(client=tarry.Client(valkey_url, namespace=namespace)), list[str]()

        @worker.on_queue(name, **said)
        async def handle(value: str) -> None:
            seen.append(value)

        asyncio.run(worker.run_until_idle())
        return seen

    with tarry.Client(valkey_url, redisson="3.15.1") as java:
        java.blocking_queue(name).put("tea")
        refused("queue", worked)
        assert java.blocking_queue(name).size() == 1
    assert worked(redisson="3.15.1") == ["tea"]
    with pytest.raises(BadInput, match=r"3\.21\.0"):
        worked(redisson="3.21")


def test_a_request_names_the_redisson_or_is_refused(clients: Any, service: RunningService, name: str) -> None:
    def post(verb: str, **body: Any) -> httpx.Response:
        return httpx.post(f"{service.url}/v1/delayed-queues/{name}/{verb}", json=body)

    for verb in ("offer", "put"):
        answer = post(verb, values=["tea"])
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_input"), answer.text
        assert 'redisson="3.15.1"' in answer.json()["detail"]
    assert post("take").status_code == 400
    assert post("offer", values=["tea"], redisson="3.21").status_code == 400
    assert post("offer", values=["tea"], redisson="3.15.1").status_code == 200
    assert clients[False].delayed_queue(name).stats().format == "dLc0"
    assert post("take", redisson="3.15.1", wait="5s").json() == {"values": ["tea"]}
