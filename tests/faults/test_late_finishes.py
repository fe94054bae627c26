"""A late finish whose connection breaks before it arrives is refused like any other late finish."""

from __future__ import annotations

from typing import Any

import pytest

import tarry
from faults.proxy import CUTS, UNSENT, Proxy
from tarry.clients.testing import Clock, TestClient
from tarry.verbs.jobs.settle import FINISH


@pytest.mark.parametrize("cut", ["", *CUTS])
@pytest.mark.parametrize("by", ["finished", "deleted", "added anew"])
def test_a_late_finish_raises_stale_receipt(
    by: str, cut: str, kind: str, make_client: Any, proxy: Proxy, direct: TestClient, clock: Clock, name: str
) -> None:
    """Promise: Receipts; Stale."""
    any_client, topic = make_client(kind, proxy.url()), direct.topic(name)
    topic.add("tea", id="a")
    clock.advance("1ms")
    job = any_client.call(any_client.topic(name), "pop", ttr="10s")
    clock.advance("11s")
    another = topic.pop()
    if by == "finished":
        topic.finish(another)
    else:
        topic.delete("a")
    if by == "added anew":
        clock.advance("1ms")
        topic.add("cake", id="a")
    proxy.arm(*[cut] * bool(cut), at=FINISH.script.sha)
    with pytest.raises(tarry.StaleReceipt):
        any_client.call(any_client.topic(name), "finish", job)
    assert topic.stats().ready == (by == "added anew")


@pytest.mark.parametrize("cut", [cut for cut in CUTS if cut != UNSENT])
def test_a_finish_in_time_succeeds_even_if_its_answer_was_lost(
    cut: str, kind: str, make_client: Any, proxy: Proxy, direct: TestClient, clock: Clock, name: str
) -> None:
    any_client, topic = make_client(kind, proxy.url()), direct.topic(name)
    topic.add("tea", id="a")
    clock.advance("1ms")
    topic.pop(ttr="10s")
    clock.advance("11s")
    job = any_client.call(any_client.topic(name), "pop")
    proxy.arm(cut, cut, at=FINISH.script.sha)
    any_client.call(any_client.topic(name), "finish", job)
    assert topic.stats().finished == 1
