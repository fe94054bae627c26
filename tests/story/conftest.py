"""A story is a coroutine function; its face performs it. Each has a namespace, and an imaginary clock, of its own.

The whole story runs on the blocking client and on the awaited one.
"""

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


SLOW = pytest.mark.slow


@pytest.fixture(params=["sync", "async", *(pytest.param(kind, marks=SLOW) for kind in ("http", "async http"))])
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
