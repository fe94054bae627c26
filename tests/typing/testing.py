# pyright: strict, reportUnknownMemberType=true, reportUnknownVariableType=true, reportUnknownArgumentType=true
"""What type checkers must know about the fixtures of the pytest plugin. Checked by mypy and basedpyright, never run."""

from __future__ import annotations

from datetime import datetime
from typing import Any, assert_type

import tarry
from tarry.testing import TestAsyncClient, TestAsyncClock, TestClient, TestClock

worker = tarry.Worker()


def test_sync(tarry_clock: TestClock, tarry_client: TestClient, tarry_url: str) -> None:
    tarry_clock.attach(worker, tarry.Worker())
    assert_type(tarry_clock.advance("30m"), None)
    assert_type(tarry_clock.now, datetime)
    assert_type(tarry_client.topic("n").pop(), tarry.Job[Any] | None)
    plain: tarry.Client = tarry_client
    with worker.using(plain) as same, worker.using(tarry_url, namespace="n"):
        assert_type(same, tarry.Worker)


async def test_async(tarry_async_clock: TestAsyncClock, tarry_async_client: TestAsyncClient) -> None:
    tarry_async_clock.attach(worker)
    assert_type(await tarry_async_clock.advance(1800), None)
    assert_type(await tarry_async_client.topic("n").pop(), tarry.AsyncJob[Any] | None)
    with worker.using(tarry_async_client) as same:
        assert_type(same.async_client, tarry.AsyncClient)
    assert_type(await worker.run_until_idle(), int)
    assert_type(await worker.close(), None)


def refused(tarry_clock: TestClock) -> None:
    """Each of these is a mistake that a type checker finds."""
    tarry_clock.attach(tarry.Registry())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    tarry_clock.advance()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
