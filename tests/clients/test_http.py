"""Clients of a service: the same verbs as those of a server, in the same words."""

from __future__ import annotations

import inspect
import re
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import tarry
from tarry import BadInput, NotAcquired, NotAllowed, ServerUnfit, StaleReceipt, TopicFull, Unavailable
from tarry.clients.http.requests import ServiceAddress, error_of
from tarry.clients.http.verbs.schedule_requests import HTTPScheduleVerbs
from tarry.clients.http.verbs.topic_requests import HTTPTopicVerbs
from tarry.clients.http.verbs.unsupported import NOT_SUPPORTED
from tarry.clients.redisson.http_queues import HTTPBlockingQueueVerbs, HTTPDelayedQueueVerbs
from tarry.clients.schedule_verbs import ScheduleVerbs
from tarry.verbs.jobs.topic import TopicVerbs
from tarry.verbs.redisson.delayed.queue_verbs import BlockingQueueVerbs, DelayedQueueVerbs
from walked import cases

ELSEWHERE = {
    "pop",
    "post",
    "fail",
    "fail_many",
    "give_back",
    "pause_at_least",
    "add_with",
    "add_many_with",
    "on_behalf_of",
    "cancelled",
    "due_soon",
    "ends",
    "delete_exactly",
    "pop_by_id",
    "ask_absent",
    "set_headers",
    "release_absent",
    *(
        "is_known",
        "is_held",
        "count_due_between",
        "count_ready_of_priority",
        "cursor_after",
        "check_filter",
    ),
    *("first_due", "preview", "transfer_all"),
}
"""What only the engine of a server, and programs beside it, use."""


def verbs(kind: type) -> set[str]:
    return {name for name, member in vars(kind).items() if inspect.isfunction(member) and not name.startswith("_")}


PAIRS = [
    (TopicVerbs, HTTPTopicVerbs),
    (DelayedQueueVerbs, HTTPDelayedQueueVerbs),
    (BlockingQueueVerbs, HTTPBlockingQueueVerbs),
    (ScheduleVerbs, HTTPScheduleVerbs),
]


@cases(
    ("scripts", "requests", "name"),
    [(one, other, name) for one, other in PAIRS for name in sorted(verbs(one) - ELSEWHERE)],
)
def test_a_verb_has_the_same_options_over_http(scripts: type, requests: type, name: str) -> None:
    def options(kind: type) -> list[tuple[str, Any, Any]]:
        found = inspect.signature(getattr(kind, name)).parameters.values()
        return [(one.name, one.kind, one.default) for one in found]

    assert options(scripts) == options(requests)


def public(kind: type) -> dict[str, Any]:
    return {name: member for name, member in inspect.getmembers(kind) if not name.startswith("_")}


@cases("client", [tarry.HTTPClient, tarry.AsyncHTTPClient])
@cases("name", sorted(public(tarry.Client)))
def test_an_http_client_has_all_methods_of_a_client(client: type, name: str) -> None:
    one, other = public(tarry.Client if client is tarry.HTTPClient else tarry.AsyncClient)[name], public(client)[name]
    if callable(one):
        assert inspect.signature(one) == inspect.signature(other)
        assert inspect.iscoroutinefunction(one) == inspect.iscoroutinefunction(other)


class OwnCodec:
    """A codec without a name."""

    def encode(self, value: Any) -> bytes:
        return str(value).encode()

    def decode(self, raw: bytes) -> Any:
        return raw.decode()


def _acquire(client: tarry.HTTPClient) -> Any:
    with client.lock("stock"):
        pass


REFUSALS: dict[str, Any] = {
    "ends": lambda client: next(iter(client.topic("orders").ends())),
    "keep_moving": lambda client: client.keep_moving("DelayMessage"),
    "lock.acquire": _acquire,
    "map_cache": lambda client: client.map_cache("prices").put("tea", 3),
    "guarded_queue.guard": lambda client: client.guarded_queue("reminders", guard=client.lock("stock")),
    "migrate": lambda client: client.migrate("orders", tarry.HTTPClient("http://127.0.0.1:2").topic("orders")),
    "migrate_queue": lambda client: client.migrate_queue(tarry.HTTPClient("http://h").delayed_queue("a"), "orders"),
}


@pytest.mark.parametrize("what", sorted(NOT_SUPPORTED))
def test_unsupported_calls_over_http_are_refused_with_the_listed_message(what: str) -> None:
    with tarry.HTTPClient("http://127.0.0.1:1", patience=0) as client, pytest.raises(ServerUnfit) as refused:
        REFUSALS[what](client)
    assert str(refused.value) == NOT_SUPPORTED[what]


@pytest.mark.parametrize(
    "act",
    [
        lambda cache: cache.as_dict()["tea"],
        lambda cache: cache.get("tea"),
        lambda cache: cache.compute_if_absent("tea", lambda _: 1),
        lambda cache: cache.listen(print),
        lambda cache: cache.evict(),
        lambda cache: cache.contains_key("tea"),
    ],
)
def test_a_map_is_read_only_over_http(act: Any) -> None:
    with tarry.HTTPClient("http://127.0.0.1:1", patience=0) as client, pytest.raises(ServerUnfit, match="is looked at"):
        act(client.map_cache("prices"))


@pytest.mark.parametrize("kind", [tarry.HTTPClient, tarry.AsyncHTTPClient])
def test_every_handle_has_a_readable_repr_with_its_address(kind: Any) -> None:
    client = kind("http://user:secret@there:1", namespace="shop")
    handles = [
        client, client.topic("orders"), client.schedules, client.lock("stock"), client.guarded_queue("reminders"),
        client.delayed_queue("DelayMessage"), client.blocking_queue("DelayMessage"), client.map_cache("prices"),
    ]  # fmt: skip
    for handle in handles:
        assert "http://there:1" in repr(handle)
        assert "secret" not in repr(handle)


def test_a_missing_extra_is_reported_with_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with tarry.HTTPClient("http://127.0.0.1:1") as client, pytest.raises(ServerUnfit, match=r"tarry\[http\]"):
        client.topics()


def test_no_lock_is_held_over_http() -> None:
    with tarry.HTTPClient("http://127.0.0.1:1", patience=0) as client:
        lock = client.lock("stock")
        assert not lock.held()
        with pytest.raises(NotAcquired):
            lock.release()


def test_handles_of_a_service_are_refused_by_a_server_client() -> None:
    with tarry.HTTPClient("http://127.0.0.1:1") as far, tarry.Client("redis://127.0.0.1:1") as near:
        with pytest.raises(BadInput, match="is of a service"):
            near.migrate("orders", far.topic("orders"))
        with pytest.raises(BadInput, match="is of a service"):
            near.migrate_queue(far.delayed_queue("DelayMessage"), "orders")
        with pytest.raises(ServerUnfit, match="a service moves"):
            far.migrate("orders", near.topic("orders"))
        with pytest.raises(BadInput, match="itself"):
            far.migrate("orders", far.topic("orders"))
        with pytest.raises(BadInput, match="a codec that has a name"):
            far.migrate_queue(far.delayed_queue("DelayMessage", codec=OwnCodec()), "orders")
        with pytest.raises(BadInput, match="by its name"):
            far.migrate_queue(far.delayed_queue("DelayMessage"), far.topic("orders", type=OwnCodec()))


@pytest.mark.parametrize("url", ["redis://localhost", "localhost:7070", "http://", "http://[", "http://host:port"])
def test_an_invalid_service_url_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match="a service is at"):
        tarry.HTTPClient(url)


def test_the_redacted_service_url_has_no_password() -> None:
    place = ServiceAddress.find("http://user:secret@host:1/base/", None, "tarry_x_y")
    assert place.redacted == "http://host:1/base"


def test_a_problem_becomes_the_matching_exception() -> None:
    found = error_of(409, {"code": "stale_receipt", "detail": "Job 7 was finished.", "id": "7", "reason": "gone"})
    assert isinstance(found, StaleReceipt)
    assert (found.id, found.reason, found.reasons) == ("7", "gone", {"7": "gone"})
    full = error_of(429, {"code": "topic_full", "detail": "Full.", "topic": "orders", "done": 3})
    assert isinstance(full, TopicFull)
    assert (full.topic, full.done) == ("orders", 3)
    assert isinstance(error_of(403, {"code": "not_allowed", "detail": "no"}), NotAllowed)
    assert isinstance(error_of(413, {}), BadInput)
    assert isinstance(error_of(500, {"code": "internal"}), Unavailable)


def test_an_unreachable_service_raises_unavailable_after_patience() -> None:
    with (
        tarry.HTTPClient("http://127.0.0.1:1", patience=0.1) as client,
        pytest.raises(Unavailable, match="safe to repeat"),
    ):
        client.topics()


class Lossy:
    """Between a client and a service: lets a request through, and loses the answer to every other connection."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.lost = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return
            number += 1
            with line, socket.create_connection(("127.0.0.1", self._to)) as service:
                service.sendall(_whole(line))
                answer = _whole(service)
                if number % 2:
                    self.lost += 1
                else:
                    line.sendall(answer)

    def close(self) -> None:
        """No more connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)


def _whole(line: socket.socket) -> bytes:
    """One message: its head, and as much as that says."""
    said = b""
    while b"\r\n\r\n" not in said:
        said += line.recv(65536)
    head, _, body = said.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    while len(body) < (int(length[1]) if length else 0):
        body += line.recv(65536)
    return head + b"\r\n\r\n" + body


@pytest.fixture
def lossy(running_service: Any) -> Iterator[Lossy]:
    made = Lossy(running_service.port)
    yield made
    made.close()


def test_a_repeated_request_is_not_done_twice(lossy: Lossy, running_service: Any, valkey_url: str) -> None:
    """Each verb is sent twice here: the service is told, and its scripts know."""
    running_service.call(running_service.app.clients.put, "lossy", tarry.AsyncClient(valkey_url, namespace="lossy"))
    try:
        with tarry.HTTPClient(f"http://127.0.0.1:{lossy.port}", namespace="lossy") as client:
            topic = client.topic("orders")
            assert topic.add({"order": 7}, id="7").is_new
            assert len(topic.add_many(["a", "b"])) == 2
            with tarry.HTTPClient(running_service.url, namespace="lossy") as direct:
                job = direct.topic("orders").pop()
            assert job is not None
            topic.finish(job)
            stats = topic.stats()
        assert (stats.added, stats.finished, stats.refused) == (3, 1, 0)
        assert stats.repeated >= 2
        assert lossy.lost >= 3
    finally:
        running_service.run(running_service.app.clients.drop("lossy"))


def test_a_repeated_offer_or_push_is_stored_once(lossy: Lossy, running_service: Any) -> None:
    """Each request arrives twice here: the service makes the marks of its key, and the second finds the first."""
    with (
        tarry.HTTPClient(f"http://127.0.0.1:{lossy.port}") as client,
        tarry.HTTPClient(running_service.url) as direct,
    ):
        client.delayed_queue("lossy", codec="string").offer("tea", "1h")
        client.delayed_queue("lossy", codec="string").offer_many(["milk", "milk"], "1h")
        assert direct.delayed_queue("lossy", codec="string").read_all() == ["tea", "milk", "milk"]
        client.guarded_queue("lossy").push([("tea", "1h"), ("tea", "2h")])
        assert direct.guarded_queue("lossy").size() == 2
        client.schedules.put("lossy", "tidy", every="1h")
        assert client.schedules.delete("lossy", "tidy") in (True, False), "deleted twice, the second finds nothing"
        assert direct.schedules.get("lossy", "tidy") is None
    assert lossy.lost >= 5
