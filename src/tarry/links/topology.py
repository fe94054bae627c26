"""Which server has a slot: all of them on one server, by the map of slots on a Cluster.

The map is redis-py's; requests go by a plain connection to the slot's node (docs/decisions/0004-dependencies.md).
Everything here blocks; the awaiting client calls it in a thread.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from redis.cluster import ClusterNode, RedisCluster
from redis.crc import key_slot

from tarry.errors import ServerUnfit, Unavailable
from tarry.links.address import Address
from tarry.links.embedded.share import Share, join

DEFAULT_PORT = 6379


class Topology:
    """The servers behind an address. Made at the first verb."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._share: Share | None = None
        self._nodes: list[str] = []

    def open(self) -> None:
        """Finds the servers, or starts the embedded one."""
        if self.address.kind == "embedded":
            self._share = join(self.address.folder)
        elif self.address.kind == "cluster":
            self._nodes = _slots(self.address.url)

    @property
    def started(self) -> bool:
        """Whether this process started the embedded server just now."""
        return self._share is not None and self._share.started

    @property
    def shown(self) -> str:
        return f"{self._share.folder} (embedded)" if self._share is not None else self.address.shown

    def url_of(self, key: bytes) -> str:
        """The URL of the server that has the key."""
        if self._share is not None:
            return self._share.url
        return self._nodes[key_slot(key)] if self._nodes else self.address.url

    def group_of(self, key: bytes) -> int:
        """Keys of one group can be waited for by one connection: all of them, or those of one slot."""
        return key_slot(key) if self._nodes else 0

    def refresh(self) -> None:
        """After a lost connection or a moved slot: look again, or start the embedded server again."""
        if self._share is not None:
            self._share.revive()
        elif self.address.kind == "cluster":
            self._nodes = _slots(self.address.url)

    def close(self) -> None:
        if self._share is not None:
            self._share.close()


def _slots(url: str) -> list[str]:
    """For each slot the URL of its master."""
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    nodes: list[Any] = []
    for host in hosts.split(","):
        place = urlsplit(f"//{host}")
        nodes.append(ClusterNode(place.hostname, place.port or DEFAULT_PORT))  # type: ignore[no-untyped-call]
    try:
        cluster = RedisCluster(
            startup_nodes=nodes,
            username=parts.username,
            password=parts.password,
            ssl=parts.scheme == "rediss",
            protocol=2,
            dynamic_startup_nodes=False,
        )
    except Exception as fault:
        raise Unavailable(f"No node of the Cluster at {hosts} answered: {fault}.") from fault
    try:
        cache = cluster.nodes_manager.slots_cache
        if len(cache) < 16384:
            raise ServerUnfit(f"The Cluster at {hosts} serves {len(cache)} of 16384 slots; repair it first.")
        return [
            parts._replace(netloc=f"{user}{at}{cache[slot][0].host}:{cache[slot][0].port}").geturl()
            for slot in range(16384)
        ]
    finally:
        cluster.close()
