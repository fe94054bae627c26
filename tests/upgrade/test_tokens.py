"""Tokens while two versions are at work, under the users of today: made, used and revoked by either."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from connections.roles import rules
from service.running_service import serve
from tarry.clients.awaited.client import AsyncClient
from tarry.connections.embedded import plain_client
from tarry.programs.service.settings import ServiceSettings
from until import until
from upgrade.conftest import VersionProcess

pytestmark = pytest.mark.slow
FUNCTIONS = """
import os
from tarry.verbs.tokens import create_token, delete_token, list_tokens, store_token
"""
CREATES = """
text, made, record = create_token(os.urandom, ["consume"], "by one of two")
real.engine.run(store_token(real.namespace, made, record))
"""
LISTS = "[(one.id, one.record.note) for one in real.engine.run(list_tokens(real.namespace))[1]]"


@pytest.fixture
def url(valkey_url: str, namespace: str) -> Iterator[str]:
    """Of the user that the page says, in this namespace."""
    path = valkey_url.removeprefix("unix://")
    assert plain_client.call_once(path, "ACL", "SETUSER", namespace, "reset", *rules("all", namespace)) == b"OK"
    yield f"unix://{namespace}:secret@{path}"
    plain_client.call_once(path, "ACL", "DELUSER", namespace)


@pytest.fixture
def two(
    url: str, version_processes: dict[str, VersionProcess], namespace: str, versions: tuple[str, str]
) -> tuple[VersionProcess, VersionProcess]:
    one, other = (version_processes[version] for version in versions)
    for hand in (one, other):
        hand(f"begin({namespace!r}, {url!r})")
    return one, other


def test_either_version_creates_uses_and_revokes_tokens(
    two: tuple[VersionProcess, VersionProcess], url: str, namespace: str
) -> None:
    one, other = two
    one(FUNCTIONS)
    other(FUNCTIONS)
    one(CREATES)
    text, made = one("[text, made]")
    assert one(LISTS) == other(LISTS) == [[made, "by one of two"]]
    settings = ServiceSettings(namespaces=(namespace,), tokens=True)
    with serve(lambda name: AsyncClient(url, namespace=name), settings) as running:

        def status() -> Any:
            return httpx.get(f"{running.url}/v1/topics", headers={"authorization": f"Bearer {text}"}).status_code

        until(lambda: status() == 200)
        assert other(f"real.engine.run(delete_token(real.namespace, {json.dumps(made)}))") is True
        until(lambda: status() == 401)
    assert one(LISTS) == other(LISTS) == []


def test_the_older_version_works_under_the_current_acl_users(two: tuple[VersionProcess, VersionProcess]) -> None:
    one, other = two
    one("real.topic('orders').add('tea', id='7')")
    assert other("real.topic('orders').pop(wait=10).finish()") is None
    assert one("real.topics()") == other("real.topics()") == ["orders"]
