"""Which server has a slot: all of them on one server, by the map of slots on a Cluster, the master of the moment with
Sentinel.

The map and the master's name are found by redis-py; requests go by a plain connection to the node they name
(docs/decisions/0004-dependencies.md). Everything here blocks; the awaiting client calls it in a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.connection import parse_url
from redis.crc import key_slot
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel

from tarry.errors import BadInput, ServerUnfit
from tarry.links.address import ANSWER_S, FOR_SENTINELS, SENTINEL_PORT, Address
from tarry.links.embedded.share import Share, join
from tarry.links.faults import Later, Lost, refuse_untrusted

DEFAULT_PORT = 6379
SLOTS = 16384
LOOK_S = 2.0
"""How long one Sentinel, or one node, may take to say where the others are; then the next is asked."""

slot_of = lru_cache(maxsize=4096)(key_slot)
"""A topic's calls all name the same key: its slot is found once."""

REFUSED_BY_SENTINELS = (
    "The Sentinels refused the user or password; ?sentinel_username= and ?sentinel_password= in the URL are theirs."
)


class Topology:
    """The servers behind an address. Made at the first verb."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._share: Share | None = None
        self._nodes: list[str] = []
        self._master = ""

    def open(self) -> None:
        """Finds the servers, or starts the embedded one. Raises a ``Fault`` while there is nobody to ask."""
        if self.address.kind == "embedded":
            self._share = join(self.address.folder)
        else:
            self.refresh()

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
        if self._nodes:
            return self._nodes[slot_of(key)]
        return self._master or self.address.url

    def urls(self) -> dict[str, str]:
        """All servers: each as it may be shown, and its URL."""
        if not self._nodes:
            return {self.shown: self.url_of(b"")}
        return {urlsplit(url).netloc.rpartition("@")[2]: url for url in dict.fromkeys(self._nodes)}

    def group_of(self, key: bytes) -> int:
        """Keys of one group can be waited for by one connection: all of them, or those of one slot."""
        return slot_of(key) if self.address.kind == "cluster" else 0

    def refresh(self) -> None:
        """After a lost connection or a moved slot: look again, or start the embedded server again."""
        if self._share is not None:
            self._share.revive()
        elif self.address.kind == "cluster":
            self._nodes = _slots(self.address.url)
        elif self.address.kind == "sentinel":
            self._master = _master(self.address.url)

    def close(self) -> None:
        if self._share is not None:
            self._share.close()


def _hosts(parts: SplitResult, port: int) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for host in parts.netloc.rpartition("@")[2].split(","):
        try:
            place = urlsplit(f"//{host}")
            found.append((place.hostname or "localhost", place.port or port))
        except ValueError:
            raise BadInput(f"url: {host!r} is no host and port.") from None
    return found


def _options(parts: SplitResult) -> dict[str, Any]:
    """What the URL says of user, password and TLS, as the driver's arguments."""
    one = parts.netloc.partition(",")[0] if "@" in parts.netloc.partition(",")[0] else "localhost"
    try:
        options = dict(parse_url(parts._replace(netloc=one, path="").geturl()))  # type: ignore[no-untyped-call]
    except ValueError:
        raise BadInput("url: its options cannot be read.") from None
    options["ssl"] = options.pop("connection_class", None) is not None
    for own in ("host", "port", "db"):
        options.pop(own, None)
    limit = min(float(options.get("socket_timeout") or ANSWER_S), LOOK_S)
    return options | {"socket_timeout": limit, "socket_connect_timeout": limit, "protocol": 2}


def _slots(url: str) -> list[str]:
    """For each slot the URL of its master."""
    return [nodes[0] for nodes in slots(url)]


def slots(url: str) -> list[tuple[str, ...]]:
    """For each slot the URLs of its master and of its replicas."""
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    nodes: list[Any] = [ClusterNode(host, port) for host, port in _hosts(parts, DEFAULT_PORT)]  # type: ignore[no-untyped-call]
    try:
        cluster = RedisCluster(startup_nodes=nodes, dynamic_startup_nodes=False, **_options(parts))
    except Exception as fault:
        causes = (fault, fault.__cause__, fault.__context__)
        if any(isinstance(cause, (AuthenticationError, NoPermissionError)) for cause in causes):
            raise ServerUnfit(f"The Cluster at {hosts} refused the user or password; correct the URL.") from fault
        refuse_untrusted(fault)
        raise Lost(f"no node of the Cluster answered ({type(fault).__name__}: {fault})") from fault
    try:
        cache = cluster.nodes_manager.slots_cache
        if len(cache) < SLOTS:
            raise Later(f"the Cluster serves {len(cache)} of {SLOTS} slots; repair it")
        known = {
            node.name: parts._replace(netloc=f"{user}{at}{_host(node.host)}:{node.port}").geturl()
            for node in cluster.nodes_manager.nodes_cache.values()
        }
        return [tuple(known[node.name] for node in cache[slot]) for slot in range(SLOTS)]
    finally:
        cluster.close()


def _master(url: str) -> str:
    """The URL of the server that the Sentinels call the master of that name."""
    return by_sentinels(url, lambda sentinels, name: [sentinels.discover_master(name)])[0]


def by_sentinels(url: str, ask: Callable[[Any, str], list[tuple[str, int]]]) -> list[str]:
    """The URLs of the servers that are asked for, of the name in the URL."""
    parts = urlsplit(url)
    name, _, database = parts.path.strip("/").partition("/")
    given = parse_qsl(parts.query, keep_blank_values=True)
    query = urlencode([(key, value) for key, value in given if not key.startswith(FOR_SENTINELS)])
    theirs = {key.removeprefix(FOR_SENTINELS): value for key, value in given if key.startswith(FOR_SENTINELS)}
    options = _options(parts._replace(query=query))
    for own in ("username", "password"):  # those in the URL are the master's
        options.pop(own, None)
    options |= theirs | {"retry": Retry(NoBackoff(), 0)}
    made: Any = Sentinel
    sentinels = made(_hosts(parts, SENTINEL_PORT), sentinel_kwargs=options)
    try:
        found = ask(sentinels, name)
    except MasterNotFoundError as fault:
        if "AuthenticationError" in str(fault):  # the driver takes it for a Sentinel that does not answer
            raise ServerUnfit(REFUSED_BY_SENTINELS) from fault
        for sentinel in (
            sentinels.sentinels if options["ssl"] else ()
        ):  # nor does it say what is wrong with a certificate
            refuse_untrusted(_fault_of(sentinel))
        raise Lost(f"no Sentinel names a master {name!r} that answers") from fault
    except Exception as fault:
        refuse_untrusted(fault)
        raise Lost(f"no Sentinel answered ({type(fault).__name__}: {fault})") from fault
    finally:
        for sentinel in sentinels.sentinels:
            with suppress(Exception):
                sentinel.close()
    user, at, _ = parts.netloc.rpartition("@")
    path = f"/{database}" if database else ""
    places = [f"{user}{at}{_host(host)}:{port}" for host, port in found]
    return [parts._replace(netloc=place, path=path, query=query).geturl() for place in places]


def _fault_of(sentinel: Any) -> BaseException:
    """Why it does not answer."""
    try:
        sentinel.ping()
    except RedisError as fault:
        return fault
    return Exception("it does")


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
