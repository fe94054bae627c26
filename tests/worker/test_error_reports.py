"""A dead job in the log and in Sentry: its exception with the traceback, its topic, id and attempt."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from textwrap import dedent
from typing import Any

import pytest

import tarry
from tarry.values import printable
from tarry.values.printable import TextFormatter

Again = tarry.BackOff(first="1ms", jitter=0)


@pytest.fixture(params=["async", "plain", "in middleware"])
def failing(request: pytest.FixtureRequest, valkey_url: str, namespace: str, client: tarry.Client) -> tarry.Worker:
    """A worker whose one job fails twice, and is dead then."""
    worker = tarry.Worker(url=valkey_url, namespace=namespace)

    async def charge(job: tarry.AsyncJob[Any]) -> None:
        raise ConnectionError("card refused")

    def charge_in_thread(job: tarry.Job[Any]) -> None:
        raise ConnectionError("card refused")

    if request.param == "in middleware":

        @worker.around
        async def layer(job: Any, handle: Any) -> Any:
            return await handle(job)

    worker.on("n", max_attempts=2, retry=Again)(charge_in_thread if request.param == "plain" else charge)
    client.topic("n").add("x", id="7")
    return worker


def work_until_dead(worker: tarry.Worker, client: tarry.Client) -> None:
    while not client.topic("n").stats().dead:
        asyncio.run(worker.run_until_idle())


@pytest.fixture
def sentry() -> Iterator[list[dict[str, Any]]]:
    """The events that Sentry's own client would send."""
    sdk = pytest.importorskip("sentry_sdk")
    events: list[dict[str, Any]] = []

    class Transport(sdk.transport.Transport):  # type: ignore[misc, name-defined, unused-ignore]
        def capture_envelope(self, envelope: Any) -> None:
            event = envelope.get_event()
            if event is not None:
                events.append(event)

    # the other integrations read what is installed, and the release is git's: most of a second
    logs = [pytest.importorskip("sentry_sdk.integrations.logging").LoggingIntegration()]
    only = {"default_integrations": False, "auto_enabling_integrations": False, "release": "1"}
    sdk.init(dsn="http://key@localhost/1", transport=Transport, integrations=logs, **only)
    yield events
    sdk.init(**only)


def test_sentry_gets_the_exception_of_a_dead_job_once(
    failing: tarry.Worker, client: tarry.Client, sentry: list[dict[str, Any]]
) -> None:
    work_until_dead(failing, client)
    [event] = sentry
    [exception] = event["exception"]["values"][-1:]
    assert event["level"] == "error"
    assert event["extra"]["tarry"].items() >= {"topic": "n", "id": "7", "attempt": 2, "dead": True}.items()
    raised = next(one for one in event["exception"]["values"] if one["type"] == "ConnectionError")
    assert raised["value"] == "card refused"
    assert raised["stacktrace"]["frames"][-1]["function"].startswith("charge")
    assert exception["type"] == "ConnectionError"


def test_the_log_line_of_a_dead_job_has_its_traceback(
    failing: tarry.Worker, client: tarry.Client, caplog: pytest.LogCaptureFixture
) -> None:
    work_until_dead(failing, client)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [
        "✗ n/7 attempt 2 is dead: ConnectionError: card refused"
    ]
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    text = TextFormatter().format(record)
    line = json.loads(printable.JsonFormatter().format(record))
    for traceback in (dedent(text.partition("\n")[2]), line["exception"]):
        assert traceback.startswith("Traceback (most recent call last):")
        assert 'raise ConnectionError("card refused")' in traceback
        assert traceback.endswith("ConnectionError: card refused")
    assert (line["topic"], line["id"], line["attempt"], line["dead"]) == ("n", "7", 2, True)
