"""Addresses: which server a URL means, and the driver's connection class and arguments for it.

    redis://  rediss://  unix://        a server of yours (valkey:// and valkeys:// mean the same)
    redis+cluster://host:port,…         a Cluster, by some of its nodes
    redis+sentinel://host:port,…/name   the master that Sentinels call by that name
    embedded://  embedded:///path       the embedded server of this user, or of a folder
    nothing                             TARRY_URL, else embedded:// (TARRY_EMBEDDED=no refuses it)

``?views=replica``, for a Cluster or Sentinels: calls that only read ask replicas (tarry.connections.replicas).

The driver's retries are turned off here, and RESP2 and keepalive on (docs/decisions/0004-dependencies.md).
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
import redis.asyncio.connection
import redis.connection
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from tarry.errors import BadInput, ServerUnfit

ANSWER_TIMEOUT_S = 5.0
"""Seconds to wait for one answer before the connection counts as lost; ``?socket_timeout=`` in the URL sets another number."""
ASK_TIMEOUT_S = 2.0
"""The timeout of a request to one Sentinel, or to one node of a Cluster, for the servers."""

_SCHEMES = {"valkey": "redis", "valkeys": "rediss"}
_UNREADABLE_URL = "it cannot be parsed; a port is a number, and # @ / ? in a password are written %23 %40 %2F %3F."
_KNOWN_SCHEMES = "redis://, rediss://, unix://, redis+cluster://, redis+sentinel:// or embedded://"
_MULTI_SERVER_URL = re.compile(r"(redis|rediss|valkey|valkeys)\+(cluster|sentinel)")
SENTINEL_PORT = 26379
SENTINEL_PREFIX = "sentinel_"
"""Options of the URL with this prefix are for the Sentinels, not for their master: ``?sentinel_password=…``."""
_CLASSES = {"rediss": "SSLConnection", "valkeys": "SSLConnection", "unix": "UnixDomainSocketConnection"}


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server is. ``redacted`` is safe to log: it has no password."""

    kind: Literal["server", "cluster", "sentinel", "embedded"]
    url: str = field(repr=False)
    redacted: str
    folder: Path | None = None
    is_default: bool = False
    read_from: bool = field(default=False, compare=False)
    """Whether views may read from replicas."""

    @property
    def running_url(self) -> str | None:
        """The URL of a server that runs already: ``None`` where the embedded one would have to be started."""
        if self.kind != "embedded":
            return self.full_url
        from tarry.connections.embedded.shared_server import running_url

        return running_url(self.folder)

    @property
    def full_url(self) -> str | None:
        """The complete URL, for another client; ``None`` if none was given."""
        if self.kind == "embedded":
            return None if self.is_default else f"embedded://{self.folder or ''}"
        if self.kind == "server":
            return self.url
        scheme, _, rest = self.url.partition("://")
        views = f"{'&' if '?' in rest else '?'}views=replica" if self.read_from else ""
        return f"{scheme}+{self.kind}://{rest}{views}"


def find_address(url: str | None, environment: Mapping[str, str]) -> Address:
    """The address for a client's ``url``, or for the environment. Raises ``BadInput`` or ``ServerUnfit``."""
    given = url or environment.get("TARRY_URL") or ""
    try:
        return _parse(given, environment)
    except BadInput as fault:
        if not url:
            fault.args = (re.sub("^url:", "TARRY_URL:", str(fault)),)
        raise


def _parse(given: str, environment: Mapping[str, str]) -> Address:
    if not given:
        refuse_embedded(environment, "No URL is given")
        return Address("embedded", "", "the embedded server", is_default=True)
    if not isinstance(given, str):
        raise BadInput(f"url: {type(given).__name__} is not a URL; it begins with {_KNOWN_SCHEMES}.")
    scheme, separator, rest = given.partition("://")
    if not separator:
        raise BadInput(f"url: {_redacted(given)!r} has no scheme; it begins with {_KNOWN_SCHEMES}.")
    if scheme == "embedded":
        refuse_embedded(environment, "The URL names the embedded server")
        return Address("embedded", "", "the embedded server", _folder(rest))
    rest, read_from = _split_read_option(rest)
    _refuse_options(rest, scheme)
    if multi := _MULTI_SERVER_URL.fullmatch(scheme):
        scheme = _SCHEMES.get(multi[1], multi[1])
        _refuse_no_host(rest, multi[2])
        if multi[2] == "cluster":
            return Address("cluster", f"{scheme}://{rest}", _redacted(given), read_from=read_from)
        return Address("sentinel", f"{scheme}://{_with_master_name(rest)}", _redacted(given), read_from=read_from)
    if read_from:
        raise BadInput("url: views=replica is for redis+cluster:// and redis+sentinel://, which know their replicas.")
    scheme = _SCHEMES.get(scheme, scheme)
    if scheme not in ("redis", "rediss", "unix"):
        raise BadInput(f"url: the scheme {scheme!r} is unknown; it is one of {_KNOWN_SCHEMES}.")
    if scheme != "unix":
        _refuse_names_for_databases(rest)
    elif not rest.partition("?")[0].rpartition("@")[2].strip("/"):
        raise BadInput("url: it names no socket: unix:///run/valkey.sock.")
    return Address("server", f"{scheme}://{rest}", _redacted(given))


NO, YES = ("no", "0", "false", "off"), ("", "yes", "1", "true", "on")


def refuse_embedded(environment: Mapping[str, str], why: str) -> None:
    word = environment.get("TARRY_EMBEDDED", "").lower()
    if word not in (*NO, *YES):
        raise BadInput(f"TARRY_EMBEDDED: {word!r}; it is yes or no.")
    if word in NO:
        raise ServerUnfit(f"{why}, and TARRY_EMBEDDED=no refuses it; set TARRY_URL to a server.")


def _split_read_option(rest: str) -> tuple[str, bool]:
    """The URL without the option ``views=``, and whether it was there. The other options are the driver's."""
    plain, mark, query = rest.partition("?")
    options = query.split("&") if mark else []
    own = [option for option in options if option.startswith("views=")]
    if any(option != "views=replica" for option in own):
        raise BadInput(f"url: {own[0]} is unknown; write views=replica, or leave it out.")
    others = "&".join(option for option in options if option not in own)
    return (f"{plain}?{others}" if others else plain) if own else rest, bool(own)


def _refuse_options(rest: str, scheme: str) -> None:
    """Refuses options that the driver has no argument for, or reads in another way, because it would say so at the first call, or never."""
    query = rest.partition("?")[2]
    given = dict(parse_qsl(query, keep_blank_values=True))
    known = _arguments_of(_CLASSES.get(scheme.partition("+")[0], "Connection"))
    prefix = SENTINEL_PREFIX if scheme.endswith("+sentinel") else ""
    for name, value in given.items():
        if problem := _problem_of(name, value, name.removeprefix(prefix), known, given):
            raise BadInput(f"url: {_UNREADABLE_URL if '@' in query else problem}")  # perhaps a part of a password


def _problem_of(name: str, value: str, option: str, known: frozenset[str], given: Mapping[str, str]) -> str | None:
    """Why an option is refused; ``option`` is its name in the driver."""
    from tarry.connections import tls  # a URL without options does not need it

    if option not in known:
        if not option.startswith(tls.PREFIX):
            advice = "the options after the ? are views=replica and redis-py's, such as socket_timeout=5"
            return f"{name} is unknown; {advice}." if value else None  # without one it may be a part of a password
        if not any(one.startswith(tls.PREFIX) for one in known):
            return f"{name} is for rediss://, which uses TLS."
        return f"{name} is unknown; {tls.known_options(option, known)}."
    if not value:
        return f"{name} is empty; give it a value, or leave it out."
    problem = tls.problem_of(option, value, given)
    return problem and f"{name} {problem}."


@cache
def _arguments_of(name: str) -> frozenset[str]:
    """The options that a URL may have: the arguments of the driver's pool, and of both its connection classes of this name."""
    return frozenset({"db", "max_connections"}).union(
        _arguments_of_class(getattr(redis.connection, name))
        & _arguments_of_class(getattr(redis.asyncio.connection, name))
    )


def _arguments_of_class(connection: type) -> frozenset[str]:
    return frozenset().union(
        *(inspect.signature(vars(base).get("__init__", connection)).parameters for base in connection.__mro__[:-1])
    ) - {"self", "kwargs"}


def _folder(rest: str) -> Path | None:
    """The folder of an embedded server. A relative one is refused, because it would depend on the working directory."""
    if not rest:
        return None
    folder = Path(rest).expanduser()
    if not folder.is_absolute():
        raise BadInput(f"url: embedded://{rest} is relative; give an absolute path: embedded:///{rest}.")
    return folder


def _with_master_name(rest: str) -> str:
    name = rest.partition("?")[0].rpartition("@")[2].partition("/")[2].partition("/")[0]
    if not name:
        raise BadInput("url: the master's name is missing after the Sentinels: redis+sentinel://host:26379/mymaster.")
    return rest


def _refuse_no_host(rest: str, kind: str) -> None:
    """Refuses a URL without a host: the driver's default, localhost, may well be another server."""
    hosts = rest.partition("?")[0].rpartition("@")[2].partition("/")[0].split(",")
    if not all(host.rpartition(":")[0] if ":" in host else host for host in hosts):
        example = "redis+cluster://host:6379" if kind == "cluster" else "redis+sentinel://host:26379/mymaster"
        raise BadInput(f"url: a host is missing: {example}, or several hosts with commas between them.")


def _refuse_names_for_databases(rest: str) -> None:
    """Refuses a database that is not a number: the driver would use database 0."""
    database = rest.partition("?")[0].rpartition("@")[2].partition("/")[2].strip("/")
    if database and not database.isdigit():
        raise BadInput("url: the database after the host is a number, such as /0.")


def _redacted(url: str) -> str:
    """The URL without user, password and options; without all that may be part of a password."""
    scheme, separator, rest = url.partition("://") if "://" in url else ("", "", url)
    plain, _, options = rest.partition("?")
    return scheme + separator + ("…" if "@" in options else plain.rpartition("@")[2])


def connection_class(
    url: str, *, awaited: bool, max_answer_s: float = math.inf, with_name: bool = True
) -> tuple[Any, dict[str, Any], float]:
    """The driver's connection class, its arguments for a URL, and the seconds to wait for an answer. ``with_name``: set the
    connections' name with CLIENT SETNAME, which a Sentinel's user need not be allowed to do."""
    driver: Any = redis.asyncio.connection if awaited else redis.connection
    try:
        arguments = dict[str, Any](driver.parse_url(url))  # a pool, which nothing here needs, imports more
    except (ValueError, TypeError) as fault:  # its message may contain a part of the password
        why = str(fault) if str(fault).startswith("Invalid value for") else _UNREADABLE_URL
        raise BadInput(f"url: {why}") from None
    driver_class = arguments.pop("connection_class", driver.Connection)
    arguments.pop("max_connections", None)  # of a pool
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
    if "ssl_certfile" in arguments:
        arguments.setdefault("ssl_password", "")  # OpenSSL would ask the terminal for one
    if "driver_info" in _arguments_of("Connection") and arguments.keys().isdisjoint(("lib_name", "lib_version")):
        arguments.setdefault("driver_info", _driver_info())
    return driver_class, arguments, answer_s


@cache
def _driver_info() -> Any:
    """The driver that a connection names to the server. redis-py itself reads its version from a file for each connection, in 0.8 ms."""
    from redis.driver_info import DriverInfo

    return DriverInfo(lib_version=redis.__version__)
