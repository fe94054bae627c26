"""A service in this process, in a thread and an event loop of its own, behind a real socket.

The clients that it works with are made by the test: with an imaginary clock, for one namespace after the other.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tarry.clients.awaited.client import AsyncClient
from tarry.programs.service import http_server
from tarry.programs.service.app import ServiceApp
from tarry.programs.service.settings import ServiceSettings
from tarry.programs.serving import authorization
from tarry.programs.serving.listener import open_listener
from tarry.programs.serving.mounts import Mount
from until import LONGEST_S


class RunningService:
    """A service that runs."""

    def __init__(self, app: ServiceApp, loop: asyncio.AbstractEventLoop, port: int) -> None:
        self.app = app
        self.loop = loop
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Performs something in the service's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(LONGEST_S)

    def call(self, act: Callable[..., Any], *given: Any) -> Any:
        async def acting() -> Any:
            return act(*given)

        return self.run(acting())

    def stop_looking(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No look for held requests reads the tokens again; call it before the request. The first one may still be under way when it is
        held."""

        async def nothing(**_: object) -> None:
            """The table of tokens stays as a request has read it."""

        monkeypatch.setattr(self.app.authorizer, "_look", nothing)
        monkeypatch.setattr(authorization, "HELD_CHECK_S", LONGEST_S)

    @contextmanager
    def instead(self, namespace: str, client: AsyncClient) -> Iterator[None]:
        """Another client for a namespace, for as long as the block lasts."""
        before = self.app.clients[namespace]
        self.call(self.app.clients.put, namespace, client)
        try:
            yield
        finally:
            self.run(self.app.clients.drop(namespace))
            self.call(self.app.clients.put, namespace, before)


@contextmanager
def serve(
    opened: Callable[[str], AsyncClient],
    settings: ServiceSettings | None = None,
    mounts: Sequence[Mount] = (),
    tls: http_server.TlsFiles | None = None,
) -> Iterator[RunningService]:
    """A service, for as long as the block lasts."""
    started: list[RunningService] = []
    ready, stopped = threading.Event(), threading.Event()
    failed: list[BaseException] = []

    async def live() -> None:
        app = ServiceApp(settings or ServiceSettings(), opened, mounts)
        with open_listener("127.0.0.1", 0) as listener:
            server = http_server.make_server(app, tls=tls, files=app.files)
            running = asyncio.ensure_future(server.serve([listener]))
            started.append(RunningService(app, asyncio.get_running_loop(), listener.getsockname()[1]))
            ready.set()
            await asyncio.to_thread(stopped.wait)
            app.drain()
            server.should_exit = True
            await running
        await app.close()

    def thread() -> None:
        try:
            asyncio.run(live())
        except BaseException as fault:
            failed.append(fault)
            raise
        finally:
            ready.set()

    worker = threading.Thread(target=thread, daemon=True)
    worker.start()
    ready.wait(LONGEST_S)
    try:
        yield started[0]
    finally:
        stopped.set()
        worker.join(LONGEST_S)
        assert not worker.is_alive()
        assert not failed, failed


class Api:
    """Speaks to a service about one namespace."""

    def __init__(self, url: str, namespace: str, **headers: str) -> None:
        self.url = url
        self.namespace = namespace
        self.http = httpx.Client(base_url=url, timeout=LONGEST_S, params={"namespace": namespace}, headers=headers)

    def __call__(self, method: str, path: str, said: Any = None, **options: Any) -> httpx.Response:
        if said is not None:
            options["json"] = said
        return self.http.request(method, path, **options)

    def get(self, path: str, **query: Any) -> Any:
        answer = self("GET", path, params={"namespace": self.namespace, **query})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, said: Any = None, status: int = 200) -> Any:
        answer = self("POST", path, said)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    def refused(self, method: str, path: str, said: Any = None, **options: Any) -> tuple[int, str]:
        """Status and code of a refusal, whose form is checked."""
        answer = self(method, path, said, **options)
        problem = answer.json()
        assert answer.headers["content-type"] == "application/problem+json"
        assert (problem["status"], problem["type"]) == (answer.status_code, f"/problems/{problem['code']}")
        assert problem["title"]
        assert problem["detail"]
        return answer.status_code, problem["code"]
