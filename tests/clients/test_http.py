"""Clients of a service: the same verbs as those of a server, in the same words."""

from __future__ import annotations

import inspect
import re
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import tarry
from tarry import BadInput, NotAllowed, StaleReceipt, Unavailable
from tarry.clients.http.asking import Place, error_of
from tarry.clients.http.verbs import HTTPVerbs
from tarry.verbs.jobs.routing import RoutedVerbs

ELSEWHERE = {"pop", "post", "fail", "give_back", "put", "put_many", "like"}
"""What only the engine of a server, and programs beside it, use."""
NOT_OVER_HTTP = {"delayed_queue", "blocking_queue", "keep_moving", "move_to_topic", "migrate"}


def verbs(kind: type) -> set[str]:
    return {name for name, member in vars(kind).items() if inspect.isfunction(member) and not name.startswith("_")}


@pytest.mark.parametrize("name", sorted(verbs(RoutedVerbs) - ELSEWHERE))
def test_a_verb_says_requests_with_the_options_it_has_as_scripts(name: str) -> None:
    one, other = inspect.signature(getattr(RoutedVerbs, name)), inspect.signature(getattr(HTTPVerbs, name))
    assert one.parameters == other.parameters


@pytest.mark.parametrize("name", ["topics", "workers", "pop", "close"])
def test_a_client_of_a_service_has_the_verbs_of_a_client(name: str) -> None:
    one, other = getattr(tarry.Client, name), getattr(tarry.HTTPClient, name)
    assert inspect.signature(one) == inspect.signature(other)


@pytest.mark.parametrize("url", ["redis://localhost", "localhost:7070", "http://", "http://[", "http://host:port"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match="a service is at"):
        tarry.HTTPClient(url)


def test_what_is_logged_carries_no_password() -> None:
    place = Place.find("http://user:secret@host:1/base/", None, "tarry_x_y")
    assert place.shown == "http://host:1/base"


def test_a_problem_is_the_error_it_was() -> None:
    found = error_of(409, {"code": "stale_receipt", "detail": "Job 7 was finished.", "id": "7", "reason": "gone"})
    assert isinstance(found, StaleReceipt)
    assert (found.id, found.reason, found.ids) == ("7", "gone", ("7",))
    assert isinstance(error_of(403, {"code": "not_allowed", "detail": "no"}), NotAllowed)
    assert isinstance(error_of(413, {}), BadInput)
    assert isinstance(error_of(500, {"code": "internal"}), Unavailable)


def test_a_service_that_does_not_answer_is_said_after_the_patience() -> None:
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
def lossy(served: Any) -> Iterator[Lossy]:
    made = Lossy(served.port)
    yield made
    made.close()


def test_what_was_done_and_its_answer_lost_is_not_done_twice(lossy: Lossy, served: Any, valkey_url: str) -> None:
    """Each verb is sent twice here: the service is told, and its scripts know."""
    served.call(served.door.clients.put, "lossy", tarry.AsyncClient(valkey_url, namespace="lossy"))
    try:
        with tarry.HTTPClient(f"http://127.0.0.1:{lossy.port}", namespace="lossy") as client:
            topic = client.topic("orders")
            assert topic.add({"order": 7}, id="7").created
            assert len(topic.add_many(["a", "b"])) == 2
            with tarry.HTTPClient(served.url, namespace="lossy") as direct:
                job = direct.topic("orders").pop()
            assert job is not None
            topic.finish(job)
            stats = topic.stats()
        assert (stats.added, stats.finished, stats.stale) == (3, 1, 0)
        assert stats.repeated >= 2
        assert lossy.lost >= 3
    finally:
        served.run(served.door.clients.drop("lossy"))
