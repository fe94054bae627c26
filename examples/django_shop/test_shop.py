"""The shop's tests, by pytest-django: imaginary time for the jobs, Django's own client for the rest.

$ DJANGO_SETTINGS_MODULE=shop.settings python -m pytest
"""

from __future__ import annotations

import asyncio

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections
from shop.models import Order

from tarry.django import async_client, worker
from tarry.django import client as jobs

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(tmp_path_factory):
    """A file: SQLite's databases in memory are never closed."""
    connections["default"].settings_dict["TEST"]["NAME"] = str(tmp_path_factory.mktemp("db") / "test")


def state(client, order):
    return client.get(f"/orders/{order}/").json()["state"]


def test_an_unpaid_order_is_closed_after_30_minutes(client, tarry_clock):
    tarry_clock.attach(worker)
    unpaid, paid = [client.post("/orders/").json()["order"] for _ in range(2)]
    client.post(f"/orders/{paid}/payment/")
    tarry_clock.advance("29m 59s")
    assert (state(client, unpaid), state(client, paid)) == ("open", "paid")
    tarry_clock.advance("1s")
    assert (state(client, unpaid), state(client, paid)) == ("closed", "paid")


def test_an_order_that_was_rolled_back_has_no_job(client, tarry_clock, monkeypatch):
    tarry_clock.attach(worker)
    monkeypatch.setattr("shop.views.JsonResponse", lambda data: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        client.post("/orders/")
    assert Order.objects.count() == 0
    assert jobs().topics() == []


def test_async_handlers_use_the_database_too(tarry_clock):
    from shop.jobs import remind

    tarry_clock.attach(worker)
    order = Order.objects.create()
    remind.options(delay="1h").add(order.pk)
    assert asyncio.run(async_client().topics()) == ["shop"]
    tarry_clock.advance("1h")
    order.refresh_from_db()
    assert order.state == "reminded"


def test_each_job_has_a_connection_of_its_own_and_leaves_none(tarry_clock):
    seen = []

    @worker.task(topic="one", concurrency=1)
    def look() -> None:
        seen.append(connection.connection is None)
        Order.objects.count()
        seen.append(connection.connection is None)

    tarry_clock.attach(worker)
    for _ in range(2):
        look.add()
    tarry_clock.advance(0)
    assert seen == [True, False] * 2


def test_the_command_runs_until_it_is_told_to_stop(tarry_url, capsys):
    @worker.task
    async def halt() -> None:
        worker.stop()

    with worker.using(tarry_url, namespace="command"):
        halt.add()
        call_command("tarry_worker", topics="shop", concurrency=3)
        assert jobs().topic("shop").stats().finished == 1
        with pytest.raises(CommandError, match="no handler for 'letters'") as refused:
            call_command("tarry_worker", topics="letters")
        assert refused.value.returncode == 2
    assert "namespace command" in capsys.readouterr().err
