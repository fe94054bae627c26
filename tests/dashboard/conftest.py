"""A dashboard behind a real HTTP server, and a real browser to look at it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
import uvicorn

import servers
import tarry
from tarry.programs.dashboard import Dashboard, dashboard_app
from until import LONGEST_S, until
from warm import WarmProcess, WarmTarry


class Site:
    """A running dashboard; ``stop`` and ``start`` are a restart of the service."""

    def __init__(
        self, url: str, namespace: str, options: dict[str, Any], root: str, patience_s: float = LONGEST_S
    ) -> None:
        self._url, self._namespace, self._options, self._root = url, namespace, options, root
        self._patience_s = patience_s
        self._kept = socket.socket()  # its port, also while it is stopped: bound, and nobody listens
        self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._kept.bind(("127.0.0.1", 0))
        self.port: int = self._kept.getsockname()[1]
        self.at = f"http://127.0.0.1:{self.port}{root}"
        self.dashboard: Dashboard
        self._loop: asyncio.AbstractEventLoop
        self._server: uvicorn.Server
        self._thread: threading.Thread

    def start(self) -> Site:
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)), daemon=True)
        self._thread.start()
        assert ready.wait(LONGEST_S)
        return self

    async def _serve(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        async with tarry.AsyncClient(self._url, namespace=self._namespace, patience=self._patience_s) as client:
            self.dashboard = Dashboard(client, **self._options)
            app: Any = self.dashboard
            if self._root:
                from starlette.applications import Starlette
                from starlette.routing import Mount

                app = Starlette(routes=[Mount(self._root, self.dashboard)])
            listener = socket.create_server(("127.0.0.1", self.port), reuse_port=True)
            with listener:
                config = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
                self._server = uvicorn.Server(config)
                ready.set()
                await self._server.serve([listener])
            await self.dashboard.close()

    def sample(self) -> None:
        """The sampler looks now."""
        asyncio.run_coroutine_threadsafe(self.dashboard.sampler.sample(), self._loop).result(LONGEST_S)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self.dashboard.closing.set)
        self._server.should_exit = True
        self._thread.join(LONGEST_S)
        assert not self._thread.is_alive()

    def close(self) -> None:
        """For good."""
        self.stop()
        self._kept.close()


class Service:
    """``tarry serve`` as a process, always at the same port."""

    def __init__(self, url: str, namespace: str, warm: WarmTarry, folder: Path) -> None:
        self.port = servers.free_ports(1)[0]
        self.at = f"http://127.0.0.1:{self.port}"
        self._words = ["serve", "--port", str(self.port), "--url", url, "--namespace", namespace]
        self._warm = warm
        self._log = folder / "log"
        self.process: WarmProcess
        self._started = False

    def start(self, *words: str) -> None:
        """Until it says that it listens."""
        with self._log.open("wb") as out:
            self.process = self._warm.start([*self._words, *words], out, {}, self._log.parent)
        self._started = True
        until(lambda: "drains it" in self._log.read_text() or self.process.poll() is not None, "the service")
        assert self.process.poll() is None, self._log.read_text()

    def stop(self) -> None:
        if self._started:
            self.process.terminate()
            self.process.wait(LONGEST_S)


@pytest.fixture
def service(valkey_url: str, namespace: str, tarry_command: WarmTarry, tmp_path: Path) -> Iterator[Service]:
    """Not started yet."""
    service = Service(valkey_url, namespace, tarry_command, tmp_path)
    yield service
    service.stop()


@pytest.fixture
def client(valkey_url: str, namespace: str) -> Iterator[tarry.Client]:
    with tarry.Client(valkey_url, namespace=namespace) as client:
        yield client
    with redis.Redis.from_url(valkey_url) as raw:
        raw.flushdb()  # pages of the next test list what is in no namespace: queues, maps, locks


@pytest.fixture
def site_of(namespace: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Site]]:
    """Start a dashboard: ``site_of(url, allow="admin", root="/mounted")``.

    It waits for its server as long as it takes: the machine may be slow. With ``shows_lost`` it answers 503 after 3 s, as it does for users.
    """
    with ExitStack() as stack:

        def start(url: str, *, root: str = "", shows_lost: bool = False, **options: Any) -> Site:
            if not shows_lost:
                monkeypatch.setattr(dashboard_app, "ANSWER_TIMEOUT_S", LONGEST_S)
            site = Site(url, namespace, options, root, 1 if shows_lost else LONGEST_S).start()
            stack.callback(site.close)
            return site

        yield start


@pytest.fixture
def site(valkey_url: str, site_of: Callable[..., Site]) -> Site:
    """One in which everybody may act."""
    return site_of(valkey_url, allow="admin")


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page in which nothing may go wrong: an error in its console, or one that nobody caught, fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.wrong = []
    page.on("console", lambda line: page.wrong.append(line.text) if line.type in ("error", "warning") else None)
    page.on("pageerror", lambda fault: page.wrong.append(str(fault)))
    yield page
    wrong = list(page.wrong)
    context.close()
    assert not wrong


BY_SCREEN = ["color-contrast", "scrollable-region-focusable"]
"""The rules of axe whose answer may be another one on another screen, with the same page."""


def serious_faults(page: Any, rules: list[str] | None = None) -> list[tuple[str, str]]:
    """What keeps people from using the page, by axe's rules, or by some: the rule, and the first element that breaks it."""
    from axe_playwright_python.sync_playwright import Axe

    axe = Axe()
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe.axe_script)
    chosen = {"resultTypes": ["violations"]} | ({"runOnly": rules} if rules else {})
    found = page.evaluate("(chosen) => axe.run(chosen).then((told) => told.violations)", chosen)
    return [
        (fault["id"], fault["nodes"][0]["html"][:200]) for fault in found if fault["impact"] in ("serious", "critical")
    ]


def expect(page: Any) -> Any:
    from playwright.sync_api import expect

    return expect(page)
