"""``TARRY_NAMESPACE``: the namespace of everything that is given none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from celery import Celery

import tarry
import tarry.celery
from tarry.celery.delayed_messages import waiting_tasks
from until import until
from warm import WarmTarry


def of_client() -> str:
    with tarry.Client() as client:
        return client.namespace


def of_awaited_client() -> str:
    return tarry.AsyncClient().namespace


def of_workers_clients() -> str:
    worker = tarry.Worker()
    assert worker.async_client.namespace == worker.client.namespace
    return worker.client.namespace


def of_worker_on_another_server() -> str:
    with tarry.Worker().using("redis://localhost") as worker:
        return worker.client.namespace


def of_celery() -> str:
    app = Celery("shop")
    tarry.celery.install(app, relay=False)
    return waiting_tasks(app).async_client().namespace


EVERYTHING = [of_client, of_awaited_client, of_workers_clients, of_worker_on_another_server, of_celery]


@pytest.mark.parametrize("of", EVERYTHING)
@pytest.mark.parametrize(("variable", "namespace"), [("shop", "shop"), ("", "default"), (None, "default")])
def test_without_a_namespace_it_is_that_of_the_variable(
    monkeypatch: pytest.MonkeyPatch, of: Callable[[], str], variable: str | None, namespace: str
) -> None:
    monkeypatch.setenv("TARRY_URL", "redis://localhost")
    monkeypatch.delenv("TARRY_NAMESPACE", raising=False)
    if variable is not None:
        monkeypatch.setenv("TARRY_NAMESPACE", variable)
    assert of() == namespace


@pytest.mark.parametrize("of", EVERYTHING)
def test_an_impossible_one_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch, of: Callable[[], str]) -> None:
    monkeypatch.setenv("TARRY_URL", "redis://localhost")
    monkeypatch.setenv("TARRY_NAMESPACE", "shop/orders")
    with pytest.raises(tarry.BadInput, match=r"^TARRY_NAMESPACE: 'shop/orders' contains a '/'"):
        of()


def test_a_given_one_wins(monkeypatch: pytest.MonkeyPatch, valkey_url: str) -> None:
    monkeypatch.setenv("TARRY_NAMESPACE", "elsewhere")
    with tarry.Client(valkey_url, namespace="mine") as client:
        assert client.namespace == client.engine.config.namespace == "mine"
        with tarry.Worker().using(client) as worker:
            assert worker.async_client.namespace == "mine"


APP = """
import tarry

worker = tarry.Worker(namespace={namespace!r})

@worker.on("orders")
async def close(body: int) -> None: ...
"""


def test_a_worker_by_the_command_line_stays_where_its_code_adds(
    tmp_path: Path, tarry_command: WarmTarry, valkey_url: str, namespace: str
) -> None:
    (tmp_path / "app.py").write_text(APP.format(namespace=namespace))
    place = {"TARRY_URL": valkey_url, "TARRY_NAMESPACE": "elsewhere"}
    with tarry.Client(valkey_url, namespace=namespace) as client, (tmp_path / "log").open("wb") as log:
        topic = client.topic("orders")
        topic.add(7)
        process = tarry_command.start(["worker", "app:worker"], log, place, tmp_path)
        try:
            until(lambda: topic.stats().finished == 1 or process.poll() is not None, "the job's end")
        finally:
            process.terminate()
            process.wait()
    assert f"namespace {namespace}" in (tmp_path / "log").read_text()
