"""A story is a coroutine function; its client performs it. Each has a namespace, and an imaginary clock, of its own.

Run:  ``.venv/bin/python -m pytest tests/story``; ``-k "not async"`` for the blocking client alone.
Give: ``async def test_…(adapter, topic, clock)``: it awaits the verbs of ``topic``, also where the client blocks, and moves time with
      ``clock.advance("10m")``. adapters.py says what else an adapter can do.
Get:  it runs on the awaited and on the blocking client, on the latter mostly in ``make test-long``; in a file of OVER_HTTP also as a client of
      a service. ``written()`` is all that lies on the server in its namespace, byte for byte. In the end the topic's own ``check``
      finds nothing.
Add:  a client is a class of adapters.py and a name in ``pytest_generate_tests``. A file whose values come back from a service as
      something else is named in OVER_HTTP. Every verb is once in test_adapters.py, and repeated in test_replays.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from story import adapters
from tarry.clients.testing import Clock

Snapshot = Callable[[], dict[bytes, Any]]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    return adapters.perform_story(pyfuncitem, "adapter")


OVER_HTTP = (
    "test_youzans_queue",
    "test_bodies",
    "test_views",
    "test_replays",
    "test_topic_settings",
    "test_schedules",
    "test_settling",
    "test_retrying",
    "test_failed_attempts",
    "test_results",
    "test_dead_groups",
    "test_priorities",
    "test_steps",
)
"""What crosses a service and comes back as something else: bodies, moments, receipts, refusals, rulings, repeated requests. The
rest of the story is told by scripts and verbs, which are the same behind a service; that it has every verb is in
tests/conformance/test_programs.py and tests/clients/test_http.py."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The whole story on the blocking client and on the awaited one; over HTTP what is special there, the article by both: on the blocking
    ones in ``make test-long`` (the ``conftest.py`` of all tests)."""
    if "adapter" not in metafunc.fixturenames or hasattr(metafunc.module, "adapter"):
        return
    file = metafunc.module.__name__.rpartition(".")[2]
    article = file == "test_youzans_queue"
    later = (
        article or file == "test_priorities"
    )  # which one comes first is the scripts'; the number is sent in test_programs.py, too
    over = [pytest.param("http", marks=pytest.mark.long if later else pytest.mark.slow)] * (file in OVER_HTTP)
    over += [pytest.param("async http", marks=pytest.mark.slow)] * article
    metafunc.parametrize("adapter", ["sync", "async", *over], indirect=True)


@pytest.fixture
def adapter(
    request: pytest.FixtureRequest, valkey_url: str, clock: Clock, namespace: str
) -> Iterator[adapters.Adapter]:
    if "http" in request.param:
        with adapters.over_http(
            request.param, request.getfixturevalue("running_service"), valkey_url, clock, namespace
        ) as made:
            yield made
            adapters.end(made)
    else:
        made = adapters.imaginary(request.param, valkey_url, clock, namespace)
        yield made
        adapters.end(made)


@pytest.fixture
def topic(adapter: adapters.Adapter) -> Any:
    """The topic of a test; its name is that of the example for Youzan's delay queue."""
    return adapter.topic("测试")


@pytest.fixture
def written(valkey_url: str, namespace: str) -> Iterator[Snapshot]:
    """Everything that lies on the server in this test's namespace, byte for byte."""
    server = redis.Redis.from_url(valkey_url)

    def read() -> dict[bytes, Any]:
        return {key: server.dump(key) for key in sorted(server.keys(f"*{namespace}*"))}

    yield read
    server.close()
