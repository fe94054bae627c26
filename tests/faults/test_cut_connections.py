"""Every verb on a connection that breaks before, in the middle of, or after its answer: the promises hold.

add                          the same answer, and the job is there exactly once, under every if_exists
finish release bury touch    success
pop                          what a lost answer handed out comes back after its TTR; what was never sent is handed out
reads, and verbs by id       asked again
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import pytest
import redis

from faults.proxy import CUTS, DONE, SILENT, Proxy
from faults.scenarios import PATIENT, QUIET_S, VERBS, Scenario
from faults.scenarios_by_id import stats
from faults.scenarios_of_jobs import add_with_an_id, finish, pop
from tarry import Unavailable, verbs
from tarry.clients.testing import Clock, TestClient
from tarry.connections.embedded.server_process import ServerProcess
from tarry.core.scripts import Script
from tarry.verbs.namespaces import NamespaceVerbs

# ── on which lines ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module", autouse=True)
def scripts(running: ServerProcess) -> None:
    """The server knows all scripts: else the answer that is lost may say that it does not know one, and nothing was done."""
    with redis.Redis.from_url(running.url) as server:
        for module in walk_packages(verbs.__path__, f"{verbs.__name__}."):
            for script in vars(import_module(module.name)).values():
                if isinstance(script, Script):
                    server.script_load(script.source)


def perform(story: Callable[[Scenario], Iterator[None]], scenario: Scenario, proxy: Proxy) -> None:
    scenario.perform("stats")  # the connection is open
    steps = story(scenario)
    next(steps)
    struck = proxy.struck
    proxy.arm(scenario.cut)
    assert next(steps, "over") == "over"
    assert proxy.struck == struck + 1, scenario.cut
    assert scenario.at.check().ok


@pytest.mark.slow
@pytest.mark.parametrize("story", VERBS.values(), ids=VERBS.keys())
def test_a_verb_survives_a_cut_connection(
    story: Any, kind: str, make_client: Any, proxy: Proxy, direct: TestClient, clock: Clock, name: str
) -> None:
    """Promise: Retries without duplicates."""
    any_client = make_client(kind, proxy.url(), patience=PATIENT)
    for cut in CUTS:
        topic = f"{name} {cut}"
        perform(story, Scenario(any_client, any_client.topic(topic), direct.topic(topic), clock, cut), proxy)


@pytest.mark.slow
@pytest.mark.parametrize("cut", SILENT)
@pytest.mark.parametrize("story", [add_with_an_id, pop, finish, stats], ids=lambda story: story.__name__)
def test_a_verb_survives_a_silent_connection(
    story: Any, cut: str, kind: str, make_client: Any, proxy: Proxy, direct: TestClient, clock: Clock, name: str
) -> None:
    any_client = make_client(kind, proxy.url(socket_timeout=QUIET_S), patience=PATIENT)
    perform(story, Scenario(any_client, any_client.topic(name), direct.topic(name), clock, cut), proxy)


@pytest.mark.parametrize("cut", CUTS)
def test_the_very_first_request_may_be_cut_too(cut: str, kind: str, make_client: Any, proxy: Proxy, name: str) -> None:
    any_client = make_client(kind, proxy.url(), patience=PATIENT)
    proxy.arm(cut, cut, at=b"INFO")
    any_client.call(any_client.topic(name), "add", "tea")
    assert any_client.call(any_client.topic(name), "pop").body == "tea"
    assert proxy.struck == 2


def test_a_verb_survives_repeated_cuts(
    kind: str, make_client: Any, proxy: Proxy, direct: TestClient, clock: Clock, name: str
) -> None:
    any_client = make_client(kind, proxy.url(), patience=PATIENT)
    topic = any_client.topic(name)
    proxy.arm("lost", "torn", "unsent", "lost")
    added = any_client.call(topic, "add", "tea", id="a")
    assert (added.is_new, proxy.struck, direct.topic(name).stats().ready) == (True, 4, 1)


@pytest.mark.parametrize("cut", CUTS)
def test_no_number_is_given_twice(cut: str, kind: str, make_client: Any, proxy: Proxy, name: str) -> None:
    any_client = make_client(kind, proxy.url(), patience=PATIENT)
    engine = any_client.topic(name).engine
    first = any_client.call(engine, "run", NamespaceVerbs(name).reserve_numbers(1000))
    proxy.arm(cut, at=b"INCRBY")
    second = any_client.call(engine, "run", NamespaceVerbs(name).reserve_numbers(1000))
    assert second == first + (2000 if cut in DONE else 1000), "the numbers of a lost reply are skipped"


# ── when patience ends ───────────────────────────────────────────────────────────────────────────────────────────────


def test_unavailable_is_raised_when_patience_ends(kind: str, make_client: Any, proxy: Proxy, name: str) -> None:
    any_client = make_client(kind, proxy.url(), patience=0.15)
    topic = any_client.topic(name)
    any_client.call(topic, "stats")
    proxy.refusing = True
    proxy.cut_all()
    with pytest.raises(Unavailable, match=r"did not answer within 0\.\d s: .*safe to repeat") as told:
        any_client.call(topic, "add", "tea")
    assert told.value.__cause__ is not None
    assert isinstance(told.value, ConnectionError)
    proxy.refusing = False
    assert any_client.call(topic, "add", "tea").is_new


def test_a_waiting_pop_raises_unavailable_when_patience_ends(
    kind: str, make_client: Any, proxy: Proxy, name: str
) -> None:
    any_client = make_client(kind, proxy.url(), imaginary=False, patience=0.15)
    topic = any_client.topic(name)
    any_client.call(topic, "stats")
    proxy.refusing = True
    proxy.cut_all()
    with pytest.raises(Unavailable):
        any_client.call(topic, "pop", wait=None)


def test_calls_to_a_silent_server_fail_when_patience_ends(kind: str, make_client: Any, proxy: Proxy, name: str) -> None:
    for slower in (1, 10):  # on a busy machine a try may take all of the patience
        any_client = make_client(kind, proxy.url(socket_timeout=0.1 * slower), patience=0.4 * slower)
        topic = any_client.topic(name)
        any_client.call(topic, "stats")
        before = proxy.struck
        proxy.arm(*["ignored"] * 9)
        with pytest.raises(Unavailable):
            any_client.call(topic, "add", "tea")
        tries = proxy.struck - before
        assert tries <= 4
        if tries >= 2:
            break
        proxy.disarm()
    assert tries >= 2


def test_add_many_reports_how_many_are_certainly_added(
    kind: str, make_client: Any, proxy: Proxy, direct: TestClient, name: str
) -> None:
    any_client = make_client(kind, proxy.url(), patience=0.15)
    topic = any_client.topic(name)
    any_client.call(topic, "add_many", ["warm"])
    direct.topic(name).purge()
    proxy.arm("unsent", at=b"job 1500")
    proxy.arm(*["unsent"] * 50, at=b"job 1500")
    with pytest.raises(Unavailable) as told:
        any_client.call(topic, "add_many", [f"job {i}" for i in range(2500)])
    assert told.value.done == 1000 == direct.topic(name).stats().ready


def test_only_missing_answers_of_a_torn_pipeline_are_requested_again(
    proxy: Proxy, make_client: Any, direct: TestClient, name: str
) -> None:
    """Of a pipeline, only the commands whose answers are missing are asked again: a popped job is in hand."""
    import asyncio

    any_client = make_client("async", proxy.url(), patience=PATIENT)
    topic = any_client.topic(name)
    direct.topic(name).add_many(["x" * 10, "y" * 300_000])

    async def story() -> tuple[Any, Any]:
        await topic.stats()
        proxy.arm("torn")
        return await asyncio.gather(topic.pop(), topic.pop(ttr="2m"))  # of one TTR they would be one command

    first, second = any_client.loop.run(story())
    assert first.body == "x" * 10
    assert second is None or second.attempt == 1
