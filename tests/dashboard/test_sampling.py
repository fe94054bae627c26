"""The samples of the dashboard go on after any error."""

from __future__ import annotations

import asyncio

import pytest

import tarry
from tarry.connections.background import failures
from tarry.programs.dashboard.sampler import Sampler
from until import LONGEST_S


@pytest.mark.anyio
async def test_the_topics_are_sampled_again_after_any_error(
    valkey_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults, sampled = [TypeError("a bug")], asyncio.Event()
    sample = Sampler.sample

    async def failing_once(sampler: Sampler) -> None:
        if faults:
            raise faults.pop()
        await sample(sampler)
        sampled.set()

    monkeypatch.setattr(Sampler, "sample", failing_once)
    async with asyncio.timeout(LONGEST_S), tarry.AsyncClient(valkey_url, namespace=namespace) as client:
        await client.topic("orders").add("x")
        sampler = Sampler(client)
        sampler.start()
        await sampled.wait()
        await sampler.stop()
    assert list(sampler._histories) == ["orders"]
    assert failures.counts == {"tarry sampler": 1}
