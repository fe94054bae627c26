"""The plugin in whole runs of pytest: a user's tests, in a folder of their own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from subprocess import DEVNULL

import pytest

from tarry.connections.embedded import plain_client
from until import until

pytestmark = pytest.mark.slow

SHOP = """
import tarry

worker = tarry.Worker("shop")
orders = {}

@worker.task
async def close(order: int) -> None:
    if orders[order] == "open":
        orders[order] = "closed"

def place(order: int) -> None:
    orders[order] = "open"
    close.options(delay="30m").add(order)
"""
SYNC = """
import shop

def test_an_unpaid_order_is_closed_after_30_minutes(tarry_clock):
    tarry_clock.attach(shop.worker)
    shop.place(7)
    tarry_clock.advance("29m 59s")
    assert shop.orders[7] == "open"
    tarry_clock.advance("1s")
    assert shop.orders[7] == "closed"

def test_another_has_a_namespace_of_its_own(tarry_client):
    assert tarry_client.topics() == []
"""
ASYNC = """
import pytest, shop

pytestmark = pytest.mark.{runner}

@pytest.fixture
def anyio_backend():
    return "asyncio"

async def test_an_unpaid_order_is_closed_after_30_minutes(tarry_async_clock, tarry_async_client):
    tarry_async_clock.attach(shop.worker)
    shop.orders[7] = "open"
    await shop.close.options(delay="30m").add_async(7)
    await tarry_async_clock.advance("29m 59s")
    assert shop.orders[7] == "open"
    await tarry_async_clock.advance("1s")
    assert shop.orders[7] == "closed"

async def test_another_has_a_namespace_of_its_own(tarry_async_client):
    await tarry_async_client.topic("n").add("x", delay="1h")
    assert await tarry_async_client.topics() == ["n"]
    assert await tarry_async_client.topic("n").pop(wait="1h") is not None

async def test_a_client_is_closed_with_its_loop(tarry_async_client):
    assert await tarry_async_client.topics() == []
"""
ALONE = """
import asyncio

def test_a_loop_of_its_own(tarry_async_client):
    async def play():
        await tarry_async_client.topic("n").add("x", delay="1h")
        return await tarry_async_client.topic("n").pop(wait="1h")

    for _ in range(2):
        assert asyncio.run(play()) is not None
"""
OTHERS = ("-p", "no:schemathesis", "-p", "no:hypothesispytest", "-p", "no:django")
"""Installed here for tests of other things; they take a second to begin."""
# what an unclosed connection says when it is thrown away is an error
STRICT = ("-W", "error", *OTHERS)
Run = Callable[..., pytest.RunResult]


@pytest.fixture
def shop(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(shop=SHOP)
    return pytester


@pytest.mark.parametrize(
    ("text", "words", "passed"),
    [
        (SYNC, ("-p", "no:anyio", "-p", "no:asyncio"), 2),
        (ALONE, ("-p", "no:anyio", "-p", "no:asyncio"), 1),
        (ASYNC.format(runner="asyncio"), ("-p", "no:anyio"), 3),
        (ASYNC.format(runner="anyio"), ("-p", "no:asyncio"), 3),
    ],
    ids=["sync", "asyncio.run", "pytest-asyncio", "anyio"],
)
def test_user_tests_pass_with_and_without_async_plugins(
    shop: pytest.Pytester, run_pytest: Run, text: str, words: tuple[str, ...], passed: int
) -> None:
    shop.makepyfile(test_shop=text)
    if "no:asyncio" not in words:
        words += ("-o", "asyncio_default_fixture_loop_scope=function")
    run_pytest(*STRICT, *words).assert_outcomes(passed=passed)


SHARED = """
import shop

def test_it_is_in_nobody_elses_place(tarry_clock, tarry_client, tarry_async_client, tarry_url):
    tarry_clock.attach(shop.worker)
    shop.place(7)
    tarry_clock.advance("30m")
    assert shop.orders[7] == "closed"
    assert tarry_url != "redis://nowhere.invalid"
    for client in (tarry_client, tarry_async_client, shop.worker.client, shop.worker.async_client):
        assert client.engine.config.address.full_url == tarry_url
        assert client.namespace.startswith("test-")
"""


def test_the_variables_of_the_server_are_not_taken(
    shop: pytest.Pytester, run_pytest: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARRY_URL", "redis://nowhere.invalid")
    monkeypatch.setenv("TARRY_NAMESPACE", "shop")
    shop.makepyfile(test_shop=SHARED)
    run_pytest(*STRICT, "-p", "no:asyncio").assert_outcomes(passed=1)


def test_a_failing_test_leaves_nothing_for_the_next(shop: pytest.Pytester, run_pytest: Run) -> None:
    shop.makepyfile(test_shop=SYNC.replace('"closed"', '"paid"'))
    done = run_pytest(*STRICT, "-p", "no:asyncio")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["*assert 'closed' == 'paid'*"])
    assert "Captured" not in done.stdout.str(), "nothing of tarry's own in a failed test's log"


def test_an_unused_plugin_imports_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import sys

        def test_it():
            ours = {name for name in sys.modules if name.partition(".")[0] in ("tarry", "redis", "msgspec")}
            assert ours == {"tarry", "tarry.programs", "tarry.programs.testing", "tarry.programs.testing.plugin"}
    """)
    done = pytester.runpytest_subprocess(*STRICT, "-p", "no:asyncio")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["plugins:*tarry*"])


PAUSED = """
import time
from pathlib import Path

def test_it(tarry_url):
    Path("url").write_text(tarry_url)
    {rest}
"""


@pytest.mark.parametrize("end", ["by itself", "killed"])
def test_the_server_ends_with_the_session(pytester: pytest.Pytester, python_command: Path, end: str) -> None:
    pytester.makepyfile(PAUSED.format(rest="time.sleep(36_000)" if end == "killed" else ""))
    words = [python_command, "-m", "pytest", *OTHERS, "-p", "no:asyncio"]
    process = pytester.popen(words, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL)
    url = pytester.path / "url"
    until(lambda: url.exists() and url.read_text(), "the server's address")
    address = url.read_text().removeprefix("unix://")
    if end == "killed":
        assert plain_client.read_state(address) == "ready"
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
    until(lambda: not Path(address).exists() or plain_client.read_state(address) == "dead", "the server's end")
