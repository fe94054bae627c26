"""Which server has a key: the only server, a Cluster's master of its slot, or the current master behind Sentinels.

A Cluster's nodes are asked for the map of slots one after the other, each with a share of the time that is left; the last share is
for the request itself. The URL's nodes come first, then those of the last map. Everything here blocks; the awaited client
calls it in a thread.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit
from weakref import WeakValueDictionary

from redis.crc import key_slot

from tarry.connections.address import ASK_TIMEOUT_S, SENTINEL_PORT, SENTINEL_PREFIX, Address
from tarry.connections.blocking import Server
from tarry.connections.faults import (
    NEEDLESS_LOGIN,
    NO_LOGIN,
    ONE_DATABASE,
    WRONG_LOGIN,
    ConnectionLost,
    Fault,
    NoDatabase,
    ServerRefused,
    TryLater,
    UnknownMaster,
    WrongNode,
    WrongServerKind,
    with_tls_hint,
)
from tarry.connections.fitness import DroppableServer, LiveObjects
from tarry.connections.resp import raise_faults
from tarry.core.patience import FIRST_DELAY_S
from tarry.errors import BadInput, ServerUnfit, TarryError

if TYPE_CHECKING:
    from tarry.connections.embedded.shared_server import SharedServer
    from tarry.connections.sentinels import MasterReport, Sentinels

T = TypeVar("T")
DEFAULT_PORT = 6379
SLOTS = 16384
slot_of = lru_cache(maxsize=4096)(key_slot)
"""Cached: all calls of a topic have the same first key."""

_LOGIN_OF_SENTINELS = {
    WRONG_LOGIN: "The Sentinels refused the user or password; give theirs as ?sentinel_username= and ?sentinel_password= in the URL.",
    NO_LOGIN: "The Sentinels want a password; give theirs as ?sentinel_password= in the URL.",
    NEEDLESS_LOGIN: "The Sentinels have no password; take ?sentinel_password= out of the URL.",
}
"""The errors of a login at the Sentinels, whose options have other names, by those of a server."""


class Topology:
    """The servers of an address. Made at the first verb."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._embedded: SharedServer | None = None
        self._nodes: list[str] = []
        self._slot_urls: list[str] = []
        self._sentinels: Sentinels | None = None
        self._servers: LiveObjects[DroppableServer] = LiveObjects()

    def open(self, within_s: float) -> None:
        """Finds the servers within a time, or starts the embedded one. Raises a ``Fault`` if no server answers."""
        if self.address.kind == "embedded":
            from tarry.connections.embedded.shared_server import join_server

            self._embedded = join_server(self.address.folder)
        else:
            self.refresh(within_s)

    @property
    def started_server(self) -> bool:
        """Whether this process started the embedded server just now."""
        return self._embedded is not None and self._embedded.started

    @property
    def redacted(self) -> str:
        return f"{self._embedded.folder} (embedded)" if self._embedded is not None else self.address.redacted

    def url_of(self, key: bytes) -> str:
        """The URL of the server that has the key."""
        if self._embedded is not None:
            return self._embedded.url
        if self._nodes:
            return self._nodes[slot_of(key)]
        return self.address.url if self._sentinels is None else self._sentinels.master or self.address.url

    @property
    def _master(self) -> str:
        return "" if self._sentinels is None else self._sentinels.master

    def redacted_url(self, url: str) -> str:
        """The name of one of the servers, without password."""
        return urlsplit(url).netloc.rpartition("@")[2] if self._nodes or self._master else self.redacted

    def urls(self) -> dict[str, str]:
        """All servers: the URL by the name without password."""
        if not self._nodes:
            return {self.redacted: self.url_of(b"")}
        return {self.redacted_url(url): url for url in dict.fromkeys(self._nodes)}

    def group_of(self, key: bytes) -> int:
        """The group of a key; one connection can wait for all keys of a group: a slot of a Cluster, else all keys."""
        return slot_of(key) if self.address.kind == "cluster" else 0

    def refresh(self, within_s: float) -> None:
        """After a lost connection or a moved slot: finds the servers again, or restarts the embedded server."""
        if self._embedded is not None:
            self._embedded.ensure_running()
            return
        try:
            if self.address.kind == "cluster":
                found = read_slots(self.address.url, within_s, self._slot_urls)
                self._nodes = [nodes[0] for nodes in found]
                self._slot_urls = all_nodes(found)
            elif self.address.kind == "sentinel":
                self._sentinels = self._sentinels or _sentinels_of(self.address.url)
                self._sentinels.join(self)
                self._sentinels.ask_all(within_s)
        except ConnectionLost as fault:
            if self._nodes or self._master:
                raise
            raise with_tls_hint(fault, self.address.url) from fault

    def close(self) -> None:
        if self._embedded is not None:
            self._embedded.close()
        if self._sentinels is not None:
            self._sentinels.leave(self)

    # ── behind Sentinels: who is still the master ────────────────────────────────────────────────────────────────────

    @property
    def master_known(self) -> bool:
        """Whether verbs may use existing connections: the Sentinels confirmed the master a moment ago."""
        return self._sentinels is None or self._sentinels.master_known

    def ensure_master_known(self, within_s: float) -> None:
        """Asks the Sentinels for the master, if that is not sure; blocks for a time at most. Raises a ``Fault`` during a
        fail-over."""
        if self._sentinels is not None:
            self._sentinels.join(self)
            if not self.master_known:
                with suppress(Fault, TarryError):  # existing connections stay in use; no new one is made
                    self._sentinels.ask_all(within_s)
                self._sentinels.wait_for_failover(within_s)

    @property
    def master_check(self) -> Topology | None:
        """Confirms every new connection to a server, behind Sentinels."""
        return None if self._sentinels is None else self

    def register(self, server: DroppableServer) -> None:
        """Drops the server's connections as soon as it is no longer the master."""
        self._servers.add(server)

    def confirm_master(self, url: str, within_s: float) -> None:
        """Before a connection is made: asks the Sentinels. Raises a ``Fault`` unless this server is the master. Blocks."""
        assert self._sentinels is not None
        self._sentinels.join(self)
        try:
            self._sentinels.ask_all(min(within_s, ASK_TIMEOUT_S + FIRST_DELAY_S))
        except TarryError as refusal:  # what keeps a connection up tries again after any Fault
            raise ServerRefused(refusal) from refusal
        self.refuse_if_replaced(url)

    def refuse_if_replaced(self, url: str) -> None:
        """When a connection is made: raises a ``Fault`` if there is another master meanwhile."""
        if self._master != url:
            raise WrongNode(f"the Sentinels name {self.redacted_url(self._master)} as the master now")

    def master_changed(self) -> None:
        """Drops all connections to servers that are not the master."""
        for server in self._servers.all():
            if server.url != self._master:
                server.drop_all()


_sentinels_by_url: WeakValueDictionary[str, Sentinels] = WeakValueDictionary()
_sentinels_lock = threading.Lock()


def _sentinels_of(url: str) -> Sentinels:
    """The Sentinels of a URL, once in a process."""
    from tarry.connections.sentinels import Sentinels  # most servers have none

    with _sentinels_lock:
        sentinels = _sentinels_by_url.get(url)
        if sentinels is None:
            urls, name, master_url = _parse_sentinel_url(url)
            sentinels = _sentinels_by_url[url] = Sentinels(
                name, urls, lambda rows: _parse_master(rows, name, master_url), _sentinels_error
            )
        return sentinels


def _reset_after_fork() -> None:
    """In a forked process."""
    global _sentinels_lock
    _sentinels_lock = threading.Lock()
    for sentinels in list(_sentinels_by_url.values()):
        sentinels.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def _sentinels_error(faults: Sequence[Fault]) -> Exception:
    error = _error_of_all(faults)
    return ServerUnfit(_LOGIN_OF_SENTINELS[str(error)]) if str(error) in _LOGIN_OF_SENTINELS else error


def read_slots(url: str, within_s: float, known: Sequence[str] = ()) -> list[tuple[str, ...]]:
    """For each slot of a Cluster, the URLs of its master and its replicas. Asks the nodes of the URL, then those in ``known``,
    until one answers."""
    parts = urlsplit(url)
    seeds = [_url_at(parts, *place) for place in _hosts(parts, DEFAULT_PORT)]
    random.shuffle(seeds)  # or all clients would ask the first
    nodes_to_ask = dict.fromkeys([*seeds, *random.sample(known, len(known))])

    def read(rows: Any, seed: str) -> list[tuple[str, ...]]:
        own_host = urlsplit(seed).hostname or ""
        slots: list[tuple[str, ...]] = [()] * SLOTS
        for first, last, *nodes in rows:
            urls = tuple(_url_at(parts, _decode(host) or own_host, port) for host, port, *_ in nodes)
            slots[first : last + 1] = [urls] * (last + 1 - first)
        served = sum(map(bool, slots))
        if served < SLOTS:
            raise TryLater(f"the Cluster serves {served} of {SLOTS} slots; repair it")
        return slots

    return _first_answer(list(nodes_to_ask), (b"CLUSTER", b"SLOTS"), read, within_s)


def all_nodes(slot_urls: Iterable[tuple[str, ...]]) -> list[str]:
    """The URLs of all nodes, each once."""
    return [url for nodes in dict.fromkeys(slot_urls) for url in nodes]


Place = tuple[str, int]
Rows = list[dict[str, str]]


def _parse_sentinel_url(url: str) -> tuple[list[str], str, Callable[[Place], str]]:
    """The URLs of the Sentinels, the name of their master, and a function from a server's place to its URL."""
    parts = urlsplit(url)
    name, _, database = parts.path.strip("/").partition("/")
    options = parse_qsl(parts.query, keep_blank_values=True)
    plain = [(key, value) for key, value in options if not key.startswith(SENTINEL_PREFIX)]
    own = [(key.removeprefix(SENTINEL_PREFIX), value) for key, value in options if key.startswith(SENTINEL_PREFIX)]
    sentinel = parts._replace(netloc=parts.netloc.rpartition("@")[2], path="", query=urlencode(dict(plain + own)))
    server = parts._replace(path=f"/{database}" if database else "", query=urlencode(plain))
    urls = [_url_at(sentinel, *place) for place in _hosts(parts, SENTINEL_PORT)]
    return urls, name, lambda place: _url_at(server, *place)


def read_replicas(url: str, within_s: float) -> list[str]:
    """The URLs of the replicas of the URL's master; asks the Sentinels until one answers."""
    urls, name, url_of = _parse_sentinel_url(url)

    def read(rows: Any, _: str) -> list[str]:
        replicas = [url_of(place) for _, place in _healthy_rows(_parse_rows(rows), "slave")]
        if not replicas:
            raise TryLater("no Sentinel names a replica that answers")
        return replicas

    return _first_answer(urls, (b"SENTINEL", b"SLAVES", name.encode()), read, within_s, with_name=False)


def _parse_master(rows: Any, name: str, url_of: Callable[[Place], str]) -> MasterReport:
    """The report of the master with this name, from the reply to SENTINEL MASTERS."""
    from tarry.connections.sentinels import MasterReport

    masters = {row["name"]: row for row in _parse_rows(rows)}
    if masters and name not in masters:
        raise UnknownMaster(name, masters)
    if not masters:  # the Sentinel has just started
        raise TryLater(f"no Sentinel names a master {name!r} that answers")
    row = masters[name]
    up = bool(_healthy_rows([row], "master"))
    switching = "failover_in_progress" in row["flags"]
    return MasterReport(url_of((row["ip"], int(row["port"]))), int(row["config-epoch"]), up, switching)


def _healthy_rows(rows: Rows, role: str) -> list[tuple[str, Place]]:
    flags = [set(row["flags"].split(",")) for row in rows]
    return [
        (row["name"], (row["ip"], int(row["port"])))
        for row, row_flags in zip(rows, flags, strict=True)
        if role in row_flags and not row_flags & {"s_down", "o_down"}
    ]


def _parse_rows(rows: Any) -> Rows:
    """A Sentinel's reply about servers: fields and values in turn, for each of them."""
    pairs = [row.items() if isinstance(row, dict) else zip(row[::2], row[1::2], strict=True) for row in rows]
    return [{_decode(key): _decode(value) for key, value in row} for row in pairs]


def _first_answer(
    urls: Sequence[str],
    command: tuple[bytes, ...],
    read: Callable[[Any, str], T],
    within_s: float,
    *,
    with_name: bool = True,
) -> T:
    """The first answer of several servers, which are asked one after the other. Raises ``ServerUnfit`` or a ``Fault`` if none of
    them has one."""
    until = time.monotonic() + within_s
    faults: list[Fault] = []
    for index, url in enumerate(urls):
        share = max((until - time.monotonic()) / (len(urls) - index + 1), FIRST_DELAY_S)
        server = Server(url, min(share, ASK_TIMEOUT_S), with_name=with_name)
        try:
            return read(raise_faults(server.exchange([command]))[0], url)
        except Fault as fault:
            faults.append(fault)
        finally:
            server.close()
    raise _error_of_all(faults)


def _error_of_all(faults: Sequence[Fault]) -> Exception:
    """The error to raise when all that were asked for the servers have failed: a refusal first. That a server is of another kind
    counts only if no other answered; that a master's name is unknown, only if all answer so."""
    replies = [fault for fault in faults if not isinstance(fault, ConnectionLost)]
    relevant = [fault for fault in replies if not isinstance(fault, WrongServerKind)] or replies
    if any(isinstance(fault, NoDatabase) for fault in relevant):  # Sentinels are asked without one
        return ServerUnfit(f"{ONE_DATABASE}.")
    if refused := [fault.error for fault in relevant if isinstance(fault, ServerRefused)]:
        return refused[0]
    unknown = [fault for fault in faults if isinstance(fault, UnknownMaster)]
    if unknown and len(unknown) == len(faults):
        watched = ", ".join(sorted(frozenset().union(*[fault.watched for fault in unknown])))
        return ServerUnfit(f"The Sentinels watch no master {unknown[0].wanted!r}, but {watched}. Correct the URL.")
    if relevant:
        return relevant[0]
    return ConnectionLost(f"none of {len(faults)} servers that were asked answered: {faults[-1]}")


def _hosts(parts: SplitResult, port: int) -> list[Place]:
    places: list[Place] = []
    for host in parts.netloc.rpartition("@")[2].split(","):
        try:
            place = urlsplit(f"//{host}")
            places.append((place.hostname or "", place.port or port))
        except ValueError:
            raise BadInput(f"url: {host!r} is not a host and port.") from None
    return places


def _url_at(parts: SplitResult, host: str, port: int) -> str:
    """The URL of one server, with the user and the options of ``parts``."""
    user, at, _ = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user}{at}{f'[{host}]' if ':' in host else host}:{port}").geturl()


def _decode(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")
