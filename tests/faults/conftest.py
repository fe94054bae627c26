"""Fixtures of the fault tests: a topic, a connection that can be cut, and a second one that cannot.

Run:  ``.venv/bin/python -m pytest tests/faults``; ``-k finish`` for one verb.
Give: a test takes ``make_client(kind, proxy.url())`` for a client of either kind (any_client.py), and arms the line before a verb:
      ``proxy.arm(LOST)`` (proxy.py lists the faults). For processes and servers that stop: ``server``, ``running``.
Get:  ``direct`` looks from the side, by the same imaginary clock, over a line that never breaks; ``at`` is the topic by real time.
      ``proxy.struck`` counts the commands that met their fault.
Add:  a verb is a generator with ``@verb`` in scenarios_of_jobs.py (with a receipt) or scenarios_by_id.py. What stands before its
      ``yield`` goes over a sound line, the first script after it meets the fault, and what follows checks what came of it.
      It runs with each fault and each kind of client: test_cut_connections.py.
      A fault of the line is a constant of proxy.py, in CUTS or SILENT, in DONE if the server does what it was asked, and a branch of
      ``Proxy._carry``.
      A cancellation is tried at every suspension by ``cancelled_at`` (cancellation.py); the watch with killed and frozen consumers
      is simulation.py: its faults are methods of ``WatchSimulation``, and ``RandomMoves`` draws them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

import servers
import tarry
from faults.any_client import KINDS, AnyClient
from faults.proxy import Proxy
from tarry.clients.testing import Clock, TestClient
from tarry.connections import connection_limit
from tarry.connections.embedded.server_process import ServerProcess
from tarry.connections.tracking import TrackingLoop
from tarry.core.watch import Watch


@pytest.fixture(scope="package")
def running() -> Iterator[ServerProcess]:
    """A Valkey of these tests alone."""
    with servers.server(servers.valkey_binary()) as server:
        yield server


@pytest.fixture
def proxy(running: ServerProcess) -> Iterator[Proxy]:
    """The proxy whose connections break."""
    with servers.short_folder() as folder:
        proxy = Proxy(folder, running.address)
        yield proxy
        proxy.close()


@pytest.fixture
def direct(running: ServerProcess, clock: Clock) -> Iterator[TestClient]:
    """A client by the same clock whose connection never breaks: it prepares, and looks at what came of it."""
    with TestClient(running.url, clock) as client:
        yield client


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make_client(clock: Clock) -> Iterator[Callable[..., AnyClient]]:
    """Make clients of either kind; they are closed when the test is over."""
    with ExitStack() as stack:

        def make(kind: str, url: str, *, imaginary: bool = True, **options: Any) -> AnyClient:
            any_client = AnyClient(kind, url, clock if imaginary else None, **options)
            stack.callback(any_client.close)
            return any_client

        yield make


@pytest.fixture
def client(running: ServerProcess) -> Iterator[tarry.Client]:
    with tarry.Client(running.url) as client:
        yield client


@pytest.fixture
def at(running: ServerProcess, name: str) -> Iterator[Any]:
    """The topic from the side."""
    with tarry.Client(running.url) as client:
        yield client.topic(name)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(120) as pool:
        yield pool


@pytest.fixture
def server(own_server: Callable[..., ServerProcess]) -> ServerProcess:
    """One that keeps what it has over a restart."""
    return own_server("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[bytes | None]:
    """No connection may block, and nothing is found by looking around. Answers the tokens that called somebody."""
    seen: list[bytes | None] = []
    told = Watch.token_received

    def note(watch: Watch, key: bytes | None) -> None:
        seen.append(key)
        told(watch, key)

    monkeypatch.setattr(Watch, "token_received", note)
    monkeypatch.setattr(connection_limit.UNLIMITED, "maximum", 0)
    monkeypatch.setattr(TrackingLoop, "recheck_s", 1000.0)
    monkeypatch.setattr(TrackingLoop, "linger_s", 0.05)
    return seen
