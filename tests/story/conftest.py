"""A story is a coroutine function; its face performs it. Each has a namespace, and an imaginary clock, of its own."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from story import faces
from tarry.clients.testing import Clock

Snapshot = Callable[[], dict[bytes, Any]]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    story = pyfuncitem.obj
    if not inspect.iscoroutinefunction(story):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(story).parameters}
    pyfuncitem.funcargs["face"].perform(story(**given))
    return True


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> str:
    """Short, and nobody else's: keys of one test never meet those of another."""
    return hashlib.sha1(request.node.nodeid.encode(), usedforsecurity=False).hexdigest()[:12]


OVER_HTTP = (
    "test_article_001",
    "test_bodies",
    "test_looking",
    "test_replays",
    "test_ruling",
    "test_schedules",
    "test_settling",
)
"""What crosses a service and comes back as something else: bodies, moments, receipts, refusals, rulings, repeated requests. The
rest of the story is told by scripts and verbs, which are the same behind a service; that it has every verb is in
tests/conformance/test_programs.py and tests/clients/test_http.py."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The whole story on the blocking client and on the awaited one; over HTTP what is special there, the article by both."""
    if "face" not in metafunc.fixturenames or hasattr(metafunc.module, "face"):
        return
    file = metafunc.module.__name__.rpartition(".")[2]
    over = ["http"] * (file in OVER_HTTP) + ["async http"] * (file == "test_article_001")
    slow = [pytest.param(kind, marks=pytest.mark.slow) for kind in over]
    metafunc.parametrize("face", ["sync", "async", *slow], indirect=True)


@pytest.fixture
def face(request: pytest.FixtureRequest, valkey_url: str, clock: Clock, namespace: str) -> Iterator[faces.Face]:
    if "http" in request.param:
        with faces.over_http(request.param, request.getfixturevalue("served"), valkey_url, clock, namespace) as made:
            yield made
            faces.end(made)
    else:
        made = faces.imaginary(request.param, valkey_url, clock, namespace)
        yield made
        faces.end(made)


@pytest.fixture
def topic(face: faces.Face) -> Any:
    """The topic of a test; its name is the one of article 001."""
    return face.topic("测试")


@pytest.fixture
def written(valkey_url: str, namespace: str) -> Iterator[Snapshot]:
    """Everything that lies on the server in this test's namespace, byte for byte."""
    server = redis.Redis.from_url(valkey_url)

    def read() -> dict[bytes, Any]:
        return {key: server.dump(key) for key in sorted(server.keys(f"*{namespace}*"))}

    yield read
    server.close()
