"""An add over HTTP calls few functions: those of tarry and the built-in ones that they call, counted in the service's loop."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

import tarry
from clients.costs import CallCounter
from service.running_service import RunningService, serve
from service.test_connections import JOBS, connect_to
from service.test_protocol import head_of

MOST = 125
"""Half of them are the awaited client's add (``tests/clients/costs.py``). Later versions of Python make fewer."""
ROUNDS = 8


@pytest.fixture
def service(valkey_url: str) -> Iterator[RunningService]:
    with serve(lambda name: tarry.AsyncClient(valkey_url, namespace=name)) as running:
        yield running


def test_an_add_calls_few_functions(service: RunningService) -> None:
    body = b'{"body": {"order": 7}, "delay": 3600}'
    head = f"POST {JOBS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    counted = list[int]()
    with connect_to(service.url) as line:
        for _ in range(ROUNDS):  # the first ones connect, load scripts, and register the topic
            counter = CallCounter()
            service.call(sys.setprofile, counter)
            line.sendall(head.encode() + body)
            said = head_of(line)
            while not said.endswith(b"}"):
                said += line.recv(65536)
            service.call(sys.setprofile, None)
            assert said.startswith(b"HTTP/1.1 201 ")
            counted.append(counter.calls)
    assert min(counted) <= MOST
    assert min(counted) > 0
