"""Cancelling a running job over HTTP: the same note on the server as by a client of it."""

from __future__ import annotations

import tarry
from service.any_client import AnyClient
from tarry.clients.config import server_verbs


def test_a_run_is_cancelled_over_http(any_client: AnyClient, name: str) -> None:
    topic, far = any_client.near.topic(name), any_client.far.topic(name)
    topic.add_many([tarry.NewJob("x", id=id) for id in "ab"])
    job, other = topic.pop_many(2)
    assert any_client.call(far.delete, job.id, running=True) == "reserved"
    assert any_client.call(far.delete_many, [other.id]) == ["reserved"]
    verbs = server_verbs(topic)
    assert [any_client.near.engine.run(verbs.cancelled(one)) for one in (job, other)] == [[True], [False]]
