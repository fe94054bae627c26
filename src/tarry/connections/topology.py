"""Which server has a slot: all of them on one server, by the map of slots on a Cluster, the master of the moment with
Sentinel.

Nodes and Sentinels are asked for the map and the master's name one after the other, each in its share of the time that
there is; the last share is for what is asked of the server that they name. Of a Cluster the nodes are asked that the URL
names, and then those that are known from the last map. Everything here blocks; the awaiting client calls it in a thread.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit
from weakref import WeakValueDictionary

from redis.crc import key_slot

from tarry.connections.address import SENTINEL_PORT, SENTINEL_PREFIX, Address
from tarry.connections.blocking import Alive, Drops, Server, raise_faults
from tarry.connections.embedded.shared_server import SharedServer, join_server
from tarry.connections.faults import (
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
from tarry.connections.sentinels import ASK_TIMEOUT_S, MasterReport, Sentinels, now
from tarry.core.patience import FIRST_DELAY_S
from tarry.errors import BadInput, ServerUnfit, TarryError

T = TypeVar("T")
DEFAULT_PORT = 6379
SLOTS = 16384
slot_of = lru_cache(maxsize=4096)(key_slot)
"""A topic's calls all name the same key: its slot is found once."""

REFUSED_BY_SENTINELS = (
    "The Sentinels refused the user or password; ?sentinel_username= and ?sentinel_password= in the URL are theirs."
)


class Topology:
    """The servers behind an address. Made at the first verb."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._embedded: SharedServer | None = None
        self._nodes: list[str] = []
        self._slot_urls: list[str] = []
        self._sentinels: Sentinels | None = None
        self._servers: Alive[Drops] = Alive()

    def open(self, within_s: float) -> None:
        """Finds the servers within a time, or starts the embedded one. Raises a ``Fault`` while there is nobody to ask."""
        if self.address.kind == "embedded":
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
        return self._master or self.address.url

    @property
    def _master(self) -> str:
        return "" if self._sentinels is None else self._sentinels.master

    def redacted_url(self, url: str) -> str:
        """One of the servers, as it may be shown."""
        return urlsplit(url).netloc.rpartition("@")[2] if self._nodes or self._master else self.redacted

    def urls(self) -> dict[str, str]:
        """All servers: each as it may be shown, and its URL."""
        if not self._nodes:
            return {self.redacted: self.url_of(b"")}
        return {self.redacted_url(url): url for url in dict.fromkeys(self._nodes)}

    def group_of(self, key: bytes) -> int:
        """Keys of one group can be waited for by one connection: all of them, or those of one slot."""
        return slot_of(key) if self.address.kind == "cluster" else 0

    def refresh(self, within_s: float) -> None:
        """After a lost connection or a moved slot: look again, or start the embedded server again."""
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
    def sure(self) -> bool:
        """Whether verbs may use the connections that there are: it was heard a moment ago who is master."""
        sentinels = self._sentinels
        return sentinels is None or now() < sentinels.sure_until

    def make_sure(self, within_s: float) -> None:
        """Hears it, in this process, if there is anybody to say it; blocks for a time at most. Raises a ``Fault`` while the
        master changes."""
        if self._sentinels is not None:
            self._sentinels.join(self)
            if not self.sure:
                with suppress(Fault, TarryError):  # connections that there are stay in use; no new one is made
                    self._sentinels.ask_all(within_s)
                self._sentinels.settle(within_s)

    @property
    def guard(self) -> Topology | None:
        """Who is asked about every connection to a server."""
        return None if self._sentinels is None else self

    def watch(self, server: Drops) -> None:
        """From now on the server drops its connections as soon as it is no longer the master."""
        self._servers.add(server)

    def confirm(self, url: str, within_s: float) -> None:
        """Before a connection is made: raises a ``Fault`` unless the Sentinels say that this is the master. Blocks."""
        assert self._sentinels is not None
        self._sentinels.join(self)
        self._sentinels.ask_all(min(within_s, ASK_TIMEOUT_S + FIRST_DELAY_S))
        self.keep(url)

    def keep(self, url: str) -> None:
        """Raises a ``Fault`` when another has been named meanwhile."""
        if self._master != url:
            raise WrongNode(f"the Sentinels name {self.redacted_url(self._master)} as the master now")

    def switched(self) -> None:
        """Another is the master: nobody has a connection to the old one any more."""
        for server in self._servers.all():
            if server.url != self._master:
                server.drop_all()


_watched: WeakValueDictionary[str, Sentinels] = WeakValueDictionary()
_watching = threading.Lock()


def _sentinels_of(url: str) -> Sentinels:
    """Those that a URL names, once in a process."""
    with _watching:
        found = _watched.get(url)
        if found is None:
            urls, name, master = _told_by(url)
            found = _watched[url] = Sentinels(
                name, urls, lambda rows: _master_request(rows, name, master), _judged_of_sentinels
            )
        return found


def _begin_anew() -> None:
    """In a forked process."""
    global _watching
    _watching = threading.Lock()
    for sentinels in list(_watched.values()):
        sentinels.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def _judged_of_sentinels(faults: Sequence[Fault]) -> Exception:
    found = _judged(faults)
    return ServerUnfit(REFUSED_BY_SENTINELS) if str(found) == WRONG_LOGIN else found


def read_slots(url: str, within_s: float, known: Sequence[str] = ()) -> list[tuple[str, ...]]:
    """For each slot of a Cluster the URLs of its master and of its replicas, as one of those says that the URL names; or one
    of those that were ``known``, when none of them does."""
    parts = urlsplit(url)
    seeds = [_url_at(parts, *place) for place in _hosts(parts, DEFAULT_PORT)]
    random.shuffle(seeds)  # or all clients would ask the first
    asked = dict.fromkeys([*seeds, *random.sample(known, len(known))])

    def read(rows: Any, seed: str) -> list[tuple[str, ...]]:
        itself = urlsplit(seed).hostname or ""
        found: list[tuple[str, ...]] = [()] * SLOTS
        for first, last, *nodes in rows:
            urls = tuple(_url_at(parts, _check_host(host) or itself, port) for host, port, *_ in nodes)
            found[first : last + 1] = [urls] * (last + 1 - first)
        served = sum(map(bool, found))
        if served < SLOTS:
            raise TryLater(f"the Cluster serves {served} of {SLOTS} slots; repair it")
        return found

    return _first_answer(list(asked), (b"CLUSTER", b"SLOTS"), read, within_s)


def all_nodes(slot_urls: Iterable[tuple[str, ...]]) -> list[str]:
    """Every node once."""
    return [url for nodes in dict.fromkeys(slot_urls) for url in nodes]


Place = tuple[str, int]
Rows = list[dict[str, str]]


def _told_by(url: str) -> tuple[list[str], str, Callable[[Place], str]]:
    """The URLs of the Sentinels, the name of their master, and the URL of a server that they tell of."""
    parts = urlsplit(url)
    name, _, database = parts.path.strip("/").partition("/")
    given = parse_qsl(parts.query, keep_blank_values=True)
    plain = [(key, value) for key, value in given if not key.startswith(SENTINEL_PREFIX)]
    theirs = [(key.removeprefix(SENTINEL_PREFIX), value) for key, value in given if key.startswith(SENTINEL_PREFIX)]
    place = parts._replace(netloc=parts.netloc.rpartition("@")[2], path="", query=urlencode(dict(plain + theirs)))
    master = parts._replace(path=f"/{database}" if database else "", query=urlencode(plain))
    return [_url_at(place, *one) for one in _hosts(parts, SENTINEL_PORT)], name, lambda there: _url_at(master, *there)


def replicas_request(url: str, within_s: float) -> list[str]:
    """The URLs of the replicas that follow the master of the name in the URL, as one of the Sentinels says."""
    urls, name, replica = _told_by(url)

    def read(rows: Any, _: str) -> list[str]:
        found = [replica(place) for _, place in _healthy_rows(_parse_rows(rows), "slave")]
        if not found:
            raise TryLater("no Sentinel names a replica that answers")
        return found

    return _first_answer(urls, (b"SENTINEL", b"SLAVES", name.encode()), read, within_s, named=False)


def _master_request(rows: Any, name: str, url: Callable[[Place], str]) -> MasterReport:
    """What a Sentinel says of the master of the name."""
    found = {row["name"]: row for row in _parse_rows(rows)}
    if found and name not in found:
        raise UnknownMaster(name, found)
    if not found:  # as when it has just begun
        raise TryLater(f"no Sentinel names a master {name!r} that answers")
    row = found[name]
    up = bool(_healthy_rows([row], "master"))
    switching = "failover_in_progress" in row["flags"]
    return MasterReport(url((row["ip"], int(row["port"]))), int(row["config-epoch"]), up, switching)


def _healthy_rows(rows: Rows, role: str) -> list[tuple[str, Place]]:
    flags = [set(row["flags"].split(",")) for row in rows]
    return [
        (row["name"], (row["ip"], int(row["port"])))
        for row, said in zip(rows, flags, strict=True)
        if role in said and not said & {"s_down", "o_down"}
    ]


def _parse_rows(rows: Any) -> Rows:
    """What a Sentinel says of servers: names and values in turn, for each of them."""
    pairs = [row.items() if isinstance(row, dict) else zip(row[::2], row[1::2], strict=True) for row in rows]
    return [{_check_host(key): _check_host(value) for key, value in one} for one in pairs]


def _first_answer(
    urls: Sequence[str],
    words: tuple[bytes, ...],
    read: Callable[[Any, str], T],
    within_s: float,
    *,
    named: bool = True,
) -> T:
    """What the first of several servers answers that can. Raises ``ServerUnfit`` if one refused, else a ``Fault``. That one is of
    another kind is believed if nobody who answers says otherwise; that a master's name is wrong, if all answer and say so."""
    until = time.monotonic() + within_s
    faults: list[Fault] = []
    for at, url in enumerate(urls):
        share = max((until - time.monotonic()) / (len(urls) - at + 1), FIRST_DELAY_S)
        server = Server(url, min(share, ASK_TIMEOUT_S), with_name=named)
        try:
            return read(raise_faults(server.exchange([words]))[0], url)
        except Fault as fault:
            faults.append(fault)
        finally:
            server.close()
    raise _judged(faults)


def _judged(faults: Sequence[Fault]) -> Exception:
    """What it means that nobody could say where the servers are."""
    spoken = [fault for fault in faults if not isinstance(fault, ConnectionLost)]
    kin = [fault for fault in spoken if not isinstance(fault, WrongServerKind)] or spoken
    if any(isinstance(fault, NoDatabase) for fault in kin):  # Sentinels are asked without one
        return ServerUnfit(f"{ONE_DATABASE}.")
    if refused := [fault.error for fault in kin if isinstance(fault, ServerRefused)]:
        return refused[0]
    others = [fault for fault in faults if isinstance(fault, UnknownMaster)]
    if others and len(others) == len(faults):
        watched = ", ".join(sorted(frozenset().union(*[fault.watched for fault in others])))
        return ServerUnfit(f"The Sentinels watch no master {others[0].wanted!r}, but {watched}. Correct the URL.")
    if kin:
        return kin[0]
    return ConnectionLost(f"none of {len(faults)} that were asked where the servers are answered: {faults[-1]}")


def _hosts(parts: SplitResult, port: int) -> list[Place]:
    found: list[Place] = []
    for host in parts.netloc.rpartition("@")[2].split(","):
        try:
            place = urlsplit(f"//{host}")
            found.append((place.hostname or "", place.port or port))
        except ValueError:
            raise BadInput(f"url: {host!r} is no host and port.") from None
    return found


def _url_at(parts: SplitResult, host: str, port: int) -> str:
    """The URL of one server, with the user and the options of all."""
    user, at, _ = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user}{at}{f'[{host}]' if ':' in host else host}:{port}").geturl()


def _check_host(word: bytes | None) -> str:
    return (word or b"").decode("utf-8", "replace")
