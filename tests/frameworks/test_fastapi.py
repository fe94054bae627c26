"""examples/fastapi_shop.py, in FastAPI's test client and under uvicorn: the listener starts and stops with the application."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import httpx
import pytest
from starlette.testclient import TestClient  # FastAPI's own is this one; each process of a run imports what stands here

import tarry
from tarry.testing import TestClock
from until import until

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.slow


@pytest.fixture
def shop() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fastapi_shop", EXAMPLES / "fastapi_shop.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def client(tarry_url: str, request: pytest.FixtureRequest) -> Iterator[tarry.Client]:
    with tarry.Client(tarry_url, namespace=str(abs(hash(request.node.nodeid)))) as client:
        yield client


def state(http: TestClient | httpx.Client, number: int) -> str:
    return str(http.get(f"/orders/{number}").json()["state"])


def test_a_worker_runs_with_the_fastapi_application(
    shop: ModuleType, client: tarry.Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Two requests of the Spring Boot controller on Redisson: what was sent last is due first."""
    caplog.set_level(logging.INFO, "uvicorn.error")
    with shop.worker.using(client):
        for _ in range(2):  # it may be started again
            caplog.clear()
            shop.orders.clear()
            with TestClient(shop.app) as http:
                assert http.post("/orders/7", params={"delay": "2s"}).status_code == 200
                assert http.post("/orders/8", params={"delay": "20ms"}).status_code == 200
                assert state(http, 7) == "open"
                until(lambda http=http: state(http, 7) == "closed", "order 7 is closed")  # type: ignore[misc]
                assert len(client.workers()) == 1
            assert caplog.messages == ["order 8 is closed", "order 7 is closed"]
            assert client.workers() == []
    client.topic("shop").add(shop.close.body(9))
    assert client.topic("shop").stats().ready == 1, "nobody listens any more"


def test_a_fastapi_worker_runs_in_imaginary_time(shop: ModuleType, tarry_clock: TestClock) -> None:
    tarry_clock.attach(shop.worker)
    with TestClient(shop.app) as http:
        for number in (7, 8):
            http.post(f"/orders/{number}")
        http.post("/orders/8/payment")
        tarry_clock.advance("29m 59s")
        assert (state(http, 7), state(http, 8)) == ("open", "paid")
        tarry_clock.advance("1s")
        assert (state(http, 7), state(http, 8)) == ("closed", "paid")
    assert tarry_clock.client.topic("shop").stats().deleted == 1


def test_bad_input_becomes_a_422_response(shop: ModuleType, tarry_clock: TestClock) -> None:
    tarry_clock.attach(shop.worker)
    with TestClient(shop.app) as http:
        answer = http.post("/orders/7", params={"delay": "soon"})
        assert (answer.status_code, "soon" in answer.json()["error"]) == (422, True)
        assert state(http, 7) == "unknown"


def test_sigterm_to_uvicorn_stops_the_worker_too(
    client: tarry.Client, tarry_url: str, tmp_path: Path, python_command: Path
) -> None:
    words = [python_command, "-m", "uvicorn", "stopping:app", "--uds", str(tmp_path / "http")]
    (tmp_path / "stopping.py").write_text(
        "import asyncio\n"
        "from fastapi_shop import app, worker\n"
        "from tarry.worker.worker import override\n"
        f"override(worker, namespace={client.namespace!r})\n"
        "@worker.task\n"
        "async def slow():\n"
        "    await asyncio.sleep(0.1)\n"
    )
    place = {"TARRY_URL": tarry_url, "PYTHONPATH": f"{tmp_path}{os.pathsep}{EXAMPLES}"}
    process = subprocess.Popen(words, cwd=tmp_path, env={**os.environ, **place}, stderr=subprocess.PIPE, text=True)
    try:
        topic = client.topic("shop")
        topic.add({"task": "slow", "args": {}})
        until(lambda: topic.stats().reserved or process.poll() is not None, "it listens")
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate()
        stats = topic.stats()
        assert (stats.finished, stats.released) == (1, 0), said
        assert "Application shutdown complete" in said
        assert client.workers() == []
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
