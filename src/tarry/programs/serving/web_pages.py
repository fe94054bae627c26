"""Web pages of others: which Host and which Origin a service answers that needs no token.

A page of any origin can make a browser send requests to this machine, and to the network that it is in. Its own host name can
resolve to an address there (DNS rebinding), and then the browser takes the service for a part of the page's own site. So names are
answered only if the user gave them. An address as Host proves that the browser was told that address, so addresses are answered.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection

from tarry.errors import BadInput

LOOPBACK_NAME = "localhost"
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[\w.-]+)(:\d{0,5})?", re.ASCII | re.IGNORECASE)
_NAME = re.compile(r"[\w-]+(\.[\w-]+)*\.?", re.ASCII)
_ORIGIN = re.compile(r"https?://(\[[0-9a-f:.]+\]|[\w-]+(\.[\w-]+)*)(:\d{1,5})?", re.ASCII)


def is_known_host(host: str, names: Collection[str]) -> bool:
    """Whether a Host header has an address, or one of these names in lower case."""
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = found[1].lower()
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return name in names
    return True


def knows_tls(scheme: str | None, forwarded: str) -> bool:
    """Whether the browser speaks TLS, to this process or, by ``X-Forwarded-Proto``, to a proxy before it. A page of another origin cannot
    send that header without being permitted to."""
    return scheme == "https" or forwarded.partition(",")[0].strip().lower() == "https"


def is_own_origin(origin: str, scheme: str, host: str) -> bool:
    """Whether an Origin has this scheme, and the host and port of a Host header."""
    port = ":443" if scheme == "https" else ":80"
    return origin.lower().removesuffix(port) == f"{scheme}://{host.lower().removesuffix(port)}"


def checked_hosts(given: Collection[str]) -> tuple[str, ...]:
    """Host names in lower case, each once. Raises ``BadInput``."""
    for name in given:
        if not _NAME.fullmatch(name):
            raise BadInput(f"allow_host: {name!r}; write a name such as jobs.example, without a scheme or a port.")
    return tuple(dict.fromkeys(name.lower() for name in given))


def checked_origins(given: Collection[str]) -> tuple[str, ...]:
    """Origins as browsers send them, each once. Raises ``BadInput``."""
    found = tuple(dict.fromkeys(origin.lower().removesuffix("/") for origin in given))
    for origin in found:
        if not _ORIGIN.fullmatch(origin):
            raise BadInput(
                f"allow_origin: {origin!r}; write an origin such as https://app.example, with its port if it has one."
            )
    return found
