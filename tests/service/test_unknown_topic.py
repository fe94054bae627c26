"""A topic in which nothing ever was: 404 where it would be shown or emptied; nothing else minds, and no client of the library."""

from __future__ import annotations

from typing import Any

import pytest

from service.any_client import AnyClient
from service.running_service import Api

SHOWS_OR_EMPTIES = (
    ("GET", "stats", None),
    ("GET", "histogram", None),
    ("GET", "throughput", None),
    ("GET", "jobs", None),
    ("GET", "dead-groups", None),
    ("POST", "purge", {}),
    ("POST", "purge", {"state": "dead"}),
)


@pytest.mark.parametrize(("method", "path", "said"), SHOWS_OR_EMPTIES)
def test_it_is_unknown(api: Api, method: str, path: str, said: Any) -> None:
    assert api.refused(method, f"/v1/topics/typo/{path}", said) == (404, "unknown_topic")
    api.post("/v1/topics/typo/jobs", {"body": 1, "id": "7"}, status=201)
    assert api(method, f"/v1/topics/typo/{path}", said).status_code == 200
    assert api("DELETE", "/v1/topics/typo/jobs/7").status_code in (200, 404)
    assert api(method, f"/v1/topics/typo/{path}", said).status_code == 200, "a topic that ran empty stays known"


def test_what_makes_or_configures_a_topic_never_minds(api: Api) -> None:
    api.post("/v1/topics/one/pop", {}, status=204)
    assert api.get("/v1/topics/two/settings")["max_attempts"] == 20
    assert api("POST", "/v1/topics/three/pause", {}).status_code == 200
    assert api.get("/v1/topics/three/stats")["delayed"] == 0


def test_to_a_client_of_the_library_it_is_empty(any_client: AnyClient, name: str) -> None:
    topic = any_client.far.topic(name)
    assert any_client.call(topic.stats).added == any_client.near.topic(name).stats().added == 0
    assert len(any_client.call(topic.list)) == 0
    assert any_client.call(topic.purge) == 0
