"""What moto's own tests need to run with another server: a clean namespace for each, the account, and the list of exclusions.

A test that is excluded must fail: one that passes by now is reported, and its line has to go. pytest loads this in moto's environment, so
nothing of tarry is imported here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

ACCOUNT = "123456789012"


def exclusions() -> dict[str, str]:
    """The names of tests, with their parameters or of all of them, and why each is excluded."""
    found, reason = dict[str, str](), ""
    for line in Path(os.environ["MOTO_EXCLUSIONS"]).read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            reason = line[3:]
        elif line and not line.startswith("#"):
            found[line] = reason
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    excluded = exclusions()
    unused = set(excluded)
    for item in items:
        name = item.nodeid.rpartition("/")[2].partition("::")[2]
        for line in {name, name.partition("[")[0]} & excluded.keys():
            unused.discard(line)
            item.add_marker(pytest.mark.xfail(reason=excluded[line], strict=True))
    if unused:
        raise pytest.UsageError(f"no such tests: {', '.join(sorted(unused))}")


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> str | None:
    """The suite asks STS for the account; here it is the namespace."""
    if fixturedef.argname != "account_id":
        return None
    fixturedef.cached_result = (ACCOUNT, fixturedef.cache_key(request), None)
    return ACCOUNT


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    """A test begins without queues, as after moto's own reset."""
    session = boto3.session.Session(region_name="us-east-1")
    client = session.client("sqs", endpoint_url=os.environ["TEST_SERVER_MODE_ENDPOINT"])
    for url in client.list_queues().get("QueueUrls", []):
        client.delete_queue(QueueUrl=url)
    yield
    client.close()
