"""TLS to every node of a Cluster, to Sentinels and to their master; Redis 7.0, for the wheel's Valkey has none."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

import server_groups
import servers
import tarry
from conformance.environment import Environment, perform
from conformance.test_stories import TABLE
from connections.roles import rules
from server_groups import BigCluster, Sentinels, Tls

pytestmark = [pytest.mark.otherserver, pytest.mark.slow]
_numbers = itertools.count()
Made = BigCluster | Sentinels


@pytest.fixture(scope="module", params=["cluster", "sentinels"])
def secure(request: pytest.FixtureRequest) -> Iterator[Made]:
    with servers.short_folder() as folder:
        start: Any = server_groups.big_cluster if request.param == "cluster" else server_groups.sentinels
        with start(servers.redis7_binary(folder), transport=Tls(folder)) as made:
            yield made


def spoken(made: Made, scheme: str) -> str:
    """The same URL, by another name of its scheme."""
    return made.url.replace("rediss+", scheme + "+")


@pytest.mark.parametrize(
    ("feature", "client_kind"),
    [
        ("topics", "sync"),
        ("topics", "async"),
        ("delayed queues", "sync"),
        ("map caches", "async"),
        ("locks", "sync"),
        pytest.param("guarded queues", "async", marks=pytest.mark.long),  # on the connections of the others
    ],
)
def test_features_work_over_tls(secure: Made, feature: str, client_kind: str) -> None:
    url = spoken(secure, "valkeys") if client_kind == "async" else secure.url
    perform(Environment(client_kind, url, f"tls-{next(_numbers)}").run_story(TABLE[feature][0]))


def test_an_acl_user_connects_over_tls(secure: Made) -> None:
    data = secure.nodes if isinstance(secure, BigCluster) else secure.data
    for server in data:
        assert server.ask("ACL", "SETUSER", "shop-tls", "reset", *rules("all", "shop-tls")) == b"OK"
    url = secure.url.replace("://", "://shop-tls:secret@")
    perform(Environment("sync", url, "shop-tls").run_story(TABLE["locks"][0]))
    with (
        tarry.Client(url.replace("secret", "wrong")) as client,
        pytest.raises(tarry.ServerUnfit, match="user or password"),
    ):
        client.topics()


@pytest.mark.parametrize("client_kind", ["sync", "async"])
def test_an_untrusted_certificate_is_refused_at_once(secure: Made, client_kind: str) -> None:
    url = secure.url.partition("?")[0]

    async def story(world: Environment) -> None:
        with pytest.raises(tarry.ServerUnfit, match="ssl_ca_certs"):
            await world.client.topics()

    asyncio.run(Environment(client_kind, url, "tls-unknown", patience="60s").run_story(story))


def test_a_plain_connection_to_tls_servers_raises_an_error(secure: Made) -> None:
    url = secure.url.partition("?")[0].replace("rediss+", "redis+")
    with tarry.Client(url, patience="300ms") as client, pytest.raises(tarry.TarryError):
        client.topics()
