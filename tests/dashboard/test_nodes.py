"""The server's page, and what else says how the server is, on a Cluster: every node is asked."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

import servers
import tarry
from dashboard.conftest import Site
from service.running_service import serve
from until import LONGEST_S

pytestmark = pytest.mark.otherserver


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


def test_a_service_is_not_ready_when_one_node_does_not_answer(namespace: str) -> None:
    with servers.cluster() as nodes:
        url = "redis+cluster://" + ",".join(f"{host}:{port}" for host, port in servers.cluster_addresses(nodes))
        with serve(lambda name: tarry.AsyncClient(url, namespace=name, patience="300ms")) as running:
            assert httpx.get(f"{running.url}/readyz").status_code == 200
            nodes[2].kill()  # it has neither the key that a PING used to go by, nor the topic that a script looked at
            assert httpx.get(f"{running.url}/readyz", timeout=LONGEST_S).status_code == 503
