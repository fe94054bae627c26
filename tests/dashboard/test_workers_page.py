"""Asking a worker to be quiet or to stop: from the page of workers, over HTTP and from the command line, by admins only."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import tarry
from dashboard.conftest import Service, Site, expect
from tarry.verbs import tokens
from tarry.verbs.workers import WorkerReport, report_worker
from until import LONGEST_S, until
from warm import WarmTarry

pytestmark = pytest.mark.slow
OURS = {"sec-fetch-site": "same-origin"}


@pytest.fixture
def working(client: tarry.Client) -> Iterator[str]:
    """The name of a worker that runs in a thread until it is asked to stop."""
    worker = tarry.Worker(client=client)

    @worker.on("orders")
    async def close(job: tarry.AsyncJob[Any]) -> None: ...

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=lambda: loop.run_until_complete(worker.run(signals=False)))
    thread.start()
    until(lambda: bool(client.workers()), "it reports")
    yield client.workers()[0].name
    if thread.is_alive():
        loop.call_soon_threadsafe(worker.stop)
    thread.join()
    loop.close()


def test_a_worker_is_quiet_and_stops(site: Site, page: Any, client: tarry.Client, working: str) -> None:
    page.goto(site.at + "/workers")
    page.get_by_role("button", name="Quiet").click()
    expect(page.locator(".said")).to_have_text(
        f"{working} is asked to be quiet. It gets the request with its next report."
    )
    expect(page.locator(".worker h2 .chip")).to_have_text("quiet")
    client.topic("orders").add(1)
    page.goto(site.at + "/topic?topic=orders")
    expect(page.locator("#who ~ table .chip")).to_have_text("quiet")
    page.goto(site.at + "/workers")
    page.get_by_role("button", name="Resume").click()
    until(lambda: client.topic("orders").stats().finished == 1, "it works again")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#ask h1")).to_have_text(f"Ask {working} to stop?")
    page.get_by_role("button", name="Ask it to stop").click()
    expect(page.locator("h1")).to_have_text("No workers are running")


def test_a_worker_that_is_gone_and_an_unknown_mode_are_told(site: Site, client: tarry.Client) -> None:
    client.engine.run(report_worker(client.namespace, b"ada", None, WorkerReport("ada", 7, "1", 5, 1, False, (), ())))
    with httpx.Client(base_url=site.at, headers=OURS, timeout=LONGEST_S, follow_redirects=True) as http:
        ask = {"action": "worker-mode", "mode": "quiet", "back": "/workers"}
        assert "gone is gone; nothing was done." in http.post("/act", data={**ask, "worker": "gone"}).text
        assert http.post("/act", data={**ask, "worker": "ada", "mode": "dance"}).status_code == 400


def test_only_admins_may_ask_a_worker(service: Service, client: tarry.Client, namespace: str, working: str) -> None:
    made = {scope: tokens.create_token(os.urandom, [scope]) for scope in ("view", "produce", "consume", "admin")}
    for _, id, record in made.values():
        client.engine.run(tokens.store_token(namespace, id, record))
    service.start()
    for scope in ("view", "produce", "consume"):
        text = made[scope][0]
        with tarry.HTTPClient(service.at, token=text) as http, pytest.raises(tarry.NotAllowed):
            http.set_worker_mode(working, "stop")
        with httpx.Client(base_url=service.at, timeout=LONGEST_S, headers=OURS) as browser:
            browser.post("/sign-in", data={"token": text})
            assert "worker-mode" not in browser.get("/workers").text
            data = {"action": "worker-mode", "worker": working, "mode": "stop", "sure": "1"}
            browser.post("/act", data=data)
    assert client.workers()[0].asked == ""
    with tarry.HTTPClient(service.at, token=made["admin"][0]) as http:
        assert http.set_worker_mode(working, "quiet") is True
        assert http.set_worker_mode("gone:7:abc", "quiet") is False
        with pytest.raises(tarry.BadInput, match="dance"):
            http.set_worker_mode(working, "dance")  # type: ignore[arg-type]
        assert http.workers()[0].asked == "quiet"


def test_the_command_line_asks_a_worker(
    valkey_url: str, namespace: str, client: tarry.Client, working: str, tarry_command: WarmTarry, tmp_path: Path
) -> None:
    def run(*words: str) -> Any:
        return tarry_command.run([*words, "--url", valkey_url, "--namespace", namespace], None, {}, tmp_path)

    assert working in run("workers").stdout
    done = run("worker-mode", working, "quiet", "--json")
    assert json.loads(done.stdout) == {"worker": working, "mode": "quiet", "alive": True}
    until(lambda: client.workers()[0].mode == "quiet", "it has learned of it")
    assert "quiet" in run("workers").stdout
    done = run("worker-mode", "gone:7:abc", "stop")
    assert (done.returncode, done.stdout) == (1, "no live worker is gone:7:abc\n")
