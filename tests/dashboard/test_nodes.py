"""The server's page, and what else says how the server is, on a Cluster: every node is asked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import httpx
import pytest

import servers
import tarry
from dashboard.conftest import Site
from service.running_service import serve
from tarry.connections.health import assess_node
from tarry.programs.dashboard.pages.server_page import NodeHealth, ServersHealth
from until import LONGEST_S


def test_a_slow_answer_says_whose_it_is_and_what_to_do() -> None:
    node = assess_node({"aof_enabled": "1"}, "", "", cluster=False, answer_ms=44, clock_ms=None)
    [note] = [note for note in node.notes if "44 ms" in note]
    seen = ServersHealth({"a:1": NodeHealth(node, "master", timedelta(), None, "1", "1", "1", timedelta())}).notes
    assert f"The server: {note}" in seen
    assert note.startswith(
        "it took 44 ms to answer this machine: it is busy, or the network is slow; SLOWLOG GET names"
    )


@pytest.mark.otherserver
def test_every_cluster_node_is_shown_with_its_warnings(
    cluster_nodes: list[tuple[str, int]], site_of: Callable[..., Site]
) -> None:
    places = [f"{host}:{port}" for host, port in cluster_nodes]
    site = site_of("redis+cluster://" + ",".join(places))
    with httpx.Client(base_url=site.at, timeout=LONGEST_S) as http:
        page = http.get("/server").text
        assert "The 3 nodes work, with warnings." in page  # they have no persistence
        assert all(f"<h2>{place}</h2>" in page for place in places)
        assert f"{', '.join(sorted(places))}: it has no persistence" in page
        assert ", 3 nodes, " in http.get("/").text


@pytest.mark.otherserver
def test_a_service_is_not_ready_when_one_node_does_not_answer(namespace: str) -> None:
    with servers.cluster() as nodes:
        url = "redis+cluster://" + ",".join(f"{host}:{port}" for host, port in servers.cluster_addresses(nodes))
        with serve(lambda name: tarry.AsyncClient(url, namespace=name, patience="300ms")) as running:
            assert httpx.get(f"{running.url}/readyz").status_code == 200
            nodes[2].kill()  # it has neither the key that a PING used to go by, nor the topic that a script looked at
            assert httpx.get(f"{running.url}/readyz", timeout=LONGEST_S).status_code == 503
