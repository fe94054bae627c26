"""The proxies of the environment: checks them, and finds the one on the way to a URL.

Their URLs may hold a password: nothing of them is shown but the variable, the host and the port.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies

from tarry.clients.http.requests import PROXY_AUTH_NEEDED, PROXY_AUTH_STATUS
from tarry.errors import BadInput, ServerUnfit

if TYPE_CHECKING:
    import ssl

    import httpx

C = TypeVar("C")
KINDS = ("http", "https", "all")


def open_client(kind: Callable[..., C], limits: httpx.Limits) -> C:
    """A client of the library. Raises ``BadInput`` or ``ServerUnfit`` if the environment names an invalid proxy."""
    import httpx

    try:
        authorities = _authorities(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        return kind(limits=limits, verify=authorities)
    except ImportError:
        names = [_variable(one) for one, url in _from_environment().items() if url.startswith("socks")]
        raise ServerUnfit(
            f"{', '.join(names)} names a SOCKS proxy, which needs more than the library: pip install 'httpx[socks]'."
        ) from None
    except (httpx.InvalidURL, ValueError):
        for one, url in _from_environment().items():
            try:
                httpx.Proxy(url)
            except (httpx.InvalidURL, ValueError):
                raise BadInput(
                    f"{_variable(one)}: it is no proxy's URL; a proxy is at http://host:port or http://user:password@host:port."
                ) from None
        if not getproxies().get("no"):
            raise
        raise BadInput(
            f"{_variable('no')}: it cannot be read; names and addresses of hosts stand there, with commas between them."
        ) from None


@cache
def _authorities(file: str | None, folder: str | None) -> ssl.SSLContext:  # noqa: ARG001  # httpx reads both from the environment
    """Returns the certificate authorities that TLS trusts. All clients share them: reading them takes 25 ms."""
    import httpx

    return httpx.create_ssl_context()


def transport_for(http: Any, url: Any) -> Any:
    """The transport that an httpx client has chosen for a URL. httpx's own ``send`` takes half of a client's processor time for
    redirects, cookies and hooks, which no service has."""
    return http._transport_for_url(url)  # noqa: SLF001  # httpx has no public name for it


def proxy_fault(http: Any, url: str, fault: Exception) -> str:
    """Returns a sentence about the proxy on the way to a URL, and its part in a fault; empty without a proxy."""
    import httpx

    if transport_for(http, httpx.URL(url)) is http._transport:  # noqa: SLF001  # the one without a proxy
        return ""
    kind = next((one for one in (urlsplit(url).scheme, "all") if one in _from_environment()), "")
    place = urlsplit(_from_environment().get(kind, "")).netloc.rpartition("@")[2]
    proxy = f"the proxy at {place} ({_variable(kind)})" if kind else "the proxy"
    if isinstance(fault, httpx.ProxyError):
        return f"{proxy} refused"
    if isinstance(fault, (httpx.ConnectError, httpx.ConnectTimeout)) and "SSL" not in str(fault):
        return f"{proxy} cannot be reached"
    return f"{proxy} is in between" if isinstance(fault, httpx.TransportError) else ""


def clearest_fault(before: Exception | None, fault: Exception) -> Exception:
    """Chooses one of two successive faults to report: a later try has less time, so its timeout says less than the first fault.
    Raises ``ServerUnfit`` where a proxy wants a user and password: the next try would be refused as well."""
    import httpx

    if isinstance(fault, httpx.ProxyError) and str(fault).startswith(f"{PROXY_AUTH_STATUS} "):
        raise ServerUnfit(PROXY_AUTH_NEEDED) from None
    return before if before is not None and isinstance(fault, httpx.TimeoutException) else fault


def _from_environment() -> dict[str, str]:
    """Returns the proxies of the environment, or of the system, by the scheme of the URLs that use them."""
    given = {kind: getproxies().get(kind) or "" for kind in KINDS}
    return {kind: url if "://" in url else f"http://{url}" for kind, url in given.items() if url}


def _variable(kind: str) -> str:
    """Returns the variable's name as it is written in the environment."""
    return f"{kind}_proxy" if os.environ.get(f"{kind}_proxy") else f"{kind.upper()}_PROXY"
