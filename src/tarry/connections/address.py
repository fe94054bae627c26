"""Addresses: which server a URL means, and how the driver is told to reach it.

    redis://  rediss://  unix://        a server of yours (valkey:// and valkeys:// mean the same)
    redis+cluster://host:port,…         a Cluster, by some of its nodes
    redis+sentinel://host:port,…/name   the master that Sentinels call by that name
    embedded://  embedded:///path       the embedded server of this user, or of a folder
    nothing                             TARRY_URL, else embedded:// (TARRY_EMBEDDED=no refuses it)

``?views=replica`` behind a Cluster or Sentinels: what only shows reads from replicas (tarry.connections.replicas).

The driver's own traps are closed here: no hidden repeats, RESP2, keepalive (docs/decisions/0004-dependencies.md).
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from tarry.errors import BadInput, ServerUnfit

ANSWER_TIMEOUT_S = 5.0
"""How long one answer may take before the connection counts as lost; ``?socket_timeout=`` in the URL says otherwise."""

_SCHEMES = {"valkey": "redis", "valkeys": "rediss"}
_UNREADABLE_URL = (
    "it cannot be read; a port is a number, and signs like # @ / ? in a password are written %23 %40 %2F %3F."
)
_KNOWN_SCHEMES = "redis://, rediss://, unix://, redis+cluster://, redis+sentinel:// or embedded://"
_MULTI_SERVER_URL = re.compile(r"(redis|rediss|valkey|valkeys)\+(cluster|sentinel)")
SENTINEL_PORT = 26379
SENTINEL_PREFIX = "sentinel_"
"""Options in the URL that begin with it are for the Sentinels, not for their master: ``?sentinel_password=…``."""
_CLASSES = {"rediss": redis.SSLConnection, "valkeys": redis.SSLConnection, "unix": redis.UnixDomainSocketConnection}


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server is. ``shown`` is safe to log: it carries no password."""

    kind: Literal["server", "cluster", "sentinel", "embedded"]
    url: str = field(repr=False)
    redacted: str
    folder: Path | None = None
    is_default: bool = False
    read_from: bool = field(default=False, compare=False)
    """Whether views may read from replicas."""

    @property
    def full_url(self) -> str | None:
        """The URL that means the same to another client; ``None`` where nobody gave one."""
        if self.kind == "embedded":
            return None if self.is_default else f"embedded://{self.folder or ''}"
        if self.kind == "server":
            return self.url
        scheme, _, rest = self.url.partition("://")
        views = f"{'&' if '?' in rest else '?'}views=replica" if self.read_from else ""
        return f"{scheme}+{self.kind}://{rest}{views}"


def find_address(url: str | None, environment: Mapping[str, str]) -> Address:
    """The address that a client means; ``BadInput`` or ``ServerUnfit`` in words."""
    given = url or environment.get("TARRY_URL") or ""
    if not given:
        refuse_embedded(environment, "No URL is given")
        return Address("embedded", "", "the embedded server", is_default=True)
    if not isinstance(given, str):
        raise BadInput(f"url: {type(given).__name__} is no URL; it begins with {_KNOWN_SCHEMES}.")
    scheme, separator, rest = given.partition("://")
    if not separator:
        raise BadInput(f"url: {_redacted(given)!r} has no scheme; it begins with {_KNOWN_SCHEMES}.")
    if scheme == "embedded":
        refuse_embedded(environment, "The URL names the embedded server")
        return Address("embedded", "", "the embedded server", _folder(rest))
    rest, views = _split_read_option(rest)
    _refuse_unknown_options(rest, scheme)
    if several := _MULTI_SERVER_URL.fullmatch(scheme):
        scheme = _SCHEMES.get(several[1], several[1])
        _refuse_no_host(rest, several[2])
        if several[2] == "cluster":
            return Address("cluster", f"{scheme}://{rest}", _redacted(given), read_from=views)
        return Address("sentinel", f"{scheme}://{_with_master_name(rest)}", _redacted(given), read_from=views)
    if views:
        raise BadInput("url: views=replica is for redis+cluster:// and redis+sentinel://, which know their replicas.")
    scheme = _SCHEMES.get(scheme, scheme)
    if scheme not in ("redis", "rediss", "unix"):
        raise BadInput(f"url: the scheme {scheme!r} is unknown; it is one of {_KNOWN_SCHEMES}.")
    if scheme != "unix":
        _refuse_names_for_databases(rest)
    elif not rest.partition("?")[0].rpartition("@")[2].strip("/"):
        raise BadInput("url: it names no socket: unix:///run/valkey.sock.")
    return Address("server", f"{scheme}://{rest}", _redacted(given))


def refuse_embedded(environment: Mapping[str, str], why: str) -> None:
    if environment.get("TARRY_EMBEDDED", "").lower() in ("no", "0", "false", "off"):
        raise ServerUnfit(f"{why}, and TARRY_EMBEDDED=no refuses it; set TARRY_URL to a server.")


def _split_read_option(rest: str) -> tuple[str, bool]:
    """The URL without our own option, and what it says. The others are the driver's."""
    plain, mark, options = rest.partition("?")
    words = options.split("&") if mark else []
    said = [word for word in words if word.startswith("views=")]
    if any(word != "views=replica" for word in said):
        raise BadInput(f"url: {said[0]} is unknown; it is views=replica, or nothing.")
    others = "&".join(word for word in words if word not in said)
    return (f"{plain}?{others}" if others else plain) if said else rest, bool(said)


def _refuse_unknown_options(rest: str, scheme: str) -> None:
    """What the driver has no argument for it would refuse at the first call, and in Python's words."""
    options = rest.partition("?")[2]
    known = _arguments_of(_CLASSES.get(scheme.partition("+")[0], redis.Connection))
    theirs = SENTINEL_PREFIX if scheme.endswith("+sentinel") else ""
    for name, _ in parse_qsl(options):
        if name.removeprefix(theirs) in known:
            continue
        if "@" in options:  # perhaps a piece of a password
            raise BadInput(f"url: {_UNREADABLE_URL}")
        if name.startswith("ssl_"):
            raise BadInput(f"url: {name} is for rediss://, which speaks TLS.")
        raise BadInput(
            f"url: {name} is unknown; behind the ? stand views=replica and the driver's own, such as socket_timeout=5."
        )


@cache
def _arguments_of(kind: type) -> frozenset[str]:
    """What may stand in a URL: the arguments of the driver's connections, and what it takes for itself."""
    return frozenset({"db", "max_connections"}).union(
        *(inspect.signature(vars(one).get("__init__", kind)).parameters for one in kind.__mro__[:-1])
    ) - {"self", "kwargs"}


def _folder(rest: str) -> Path | None:
    """A relative folder would be another one in each working directory."""
    if not rest:
        return None
    folder = Path(rest).expanduser()
    if not folder.is_absolute():
        raise BadInput(f"url: embedded://{rest} is relative; name a whole path: embedded:///{rest}.")
    return folder


def _with_master_name(rest: str) -> str:
    name = rest.partition("?")[0].rpartition("@")[2].partition("/")[2].partition("/")[0]
    if not name:
        raise BadInput(
            "url: behind the Sentinels stands the name of their master: redis+sentinel://host:26379/mymaster."
        )
    return rest


def _refuse_no_host(rest: str, kind: str) -> None:
    """The driver's own, which is this machine, may well be another server."""
    hosts = rest.partition("?")[0].rpartition("@")[2].partition("/")[0].split(",")
    if not all(host.rpartition(":")[0] if ":" in host else host for host in hosts):
        like = "redis+cluster://host:6379" if kind == "cluster" else "redis+sentinel://host:26379/mymaster"
        raise BadInput(f"url: it names no host, or leaves one out: {like}, or several with commas between them.")


def _refuse_names_for_databases(rest: str) -> None:
    """The driver takes database 0 for a name that it cannot read."""
    database = rest.partition("?")[0].rpartition("@")[2].partition("/")[2].strip("/")
    if database and not database.isdigit():
        raise BadInput("url: behind the host stands a database by its number, such as /0.")


def _redacted(url: str) -> str:
    """The URL without user, password and options. What cannot be told apart for certain is left out."""
    scheme, separator, rest = url.partition("://") if "://" in url else ("", "", url)
    plain, _, options = rest.partition("?")
    return scheme + separator + ("…" if "@" in options else plain.rpartition("@")[2])


def connection_class(
    url: str, *, awaited: bool, max_answer_s: float = math.inf, with_name: bool = True
) -> tuple[Any, dict[str, Any], float]:
    """The driver's connection class, its arguments for a URL, and how long an answer may take. ``named``: the server is told
    whose connections they are, which a Sentinel's user need not be allowed to say."""
    pool_class = redis.asyncio.ConnectionPool if awaited else redis.ConnectionPool
    try:
        pool: Any = pool_class.from_url(url)
    except (ValueError, TypeError) as fault:  # its words may hold a piece of the password
        why = str(fault) if str(fault).startswith("Invalid value for") else _UNREADABLE_URL
        raise BadInput(f"url: {why}") from None
    arguments = dict(pool.connection_kwargs)
    answer_s = min(float(arguments.get("socket_timeout") or ANSWER_TIMEOUT_S), max_answer_s)
    arguments.update(
        protocol=2, decode_responses=False, health_check_interval=0, client_name="tarry" if with_name else None
    )
    arguments["retry"] = AsyncRetry(NoBackoff(), 0) if awaited else Retry(NoBackoff(), 0)
    arguments["retry_on_error"] = []
    arguments["retry_on_timeout"] = False
    arguments["socket_connect_timeout"] = min(float(arguments.get("socket_connect_timeout") or answer_s), max_answer_s)
    arguments["socket_timeout"] = None if awaited else answer_s
    if "path" not in arguments:
        arguments["socket_keepalive"] = True
    return pool.connection_class, arguments, answer_s
