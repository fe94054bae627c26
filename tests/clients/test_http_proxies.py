"""Proxies that the environment names for ``HTTPClient``: what cannot be one, one that is not there, one that refuses."""

from __future__ import annotations

import asyncio
import inspect
import socket
import threading
import traceback
from base64 import b64encode
from typing import Any

import pytest

import tarry
from clients.test_not_a_service import stranger
from tarry import BadInput, ServerUnfit, Unavailable
from tarry.clients.http.requests import ServiceAddress

KINDS = [tarry.HTTPClient, tarry.AsyncHTTPClient]
SERVICE = "http://tarry.test:7070"
SECRET = "geheim"
LONG_S = 120
"""No answer takes so long: whatever asks again does not end in time."""
UNREADABLE = [
    ("HTTP_PROXY", f"http://me:{SECRET}@proxy:port"),
    ("http_proxy", f"ftp://me:{SECRET}@proxy"),
    ("HTTPS_PROXY", f"http://me:{SECRET}@[::1"),
    ("ALL_PROXY", f"me:{SECRET}@proxy:port"),
    ("NO_PROXY", "localhost,proxy:port"),
]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Without any proxy at first."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


def error_of(kind: Any, url: str = SERVICE, patience: float = 0.2) -> tarry.TarryError:
    """What a verb says; neither that nor what is printed of where it comes from tells a secret."""

    async def story() -> None:
        client = kind(url, patience=patience)
        try:
            answer = client.topics()
            if inspect.isawaitable(answer):
                await answer
        finally:
            if inspect.isawaitable(closed := client.close()):
                await closed

    with pytest.raises(tarry.TarryError) as found:
        asyncio.run(story())
    assert SECRET not in "".join(traceback.format_exception(found.value))
    return found.value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("variable", "value"), UNREADABLE)
def test_an_invalid_proxy_is_reported_with_its_variable(
    environment: pytest.MonkeyPatch, kind: Any, variable: str, value: str
) -> None:
    environment.setenv(variable, value)
    error = error_of(kind)
    assert isinstance(error, BadInput)
    assert str(error).startswith(f"{variable}: it ")


@pytest.mark.parametrize("kind", KINDS)
def test_a_socks_proxy_is_refused_with_advice(environment: pytest.MonkeyPatch, kind: Any) -> None:
    environment.setenv("ALL_PROXY", f"socks5://me:{SECRET}@proxy:1080")
    error = error_of(kind)
    assert isinstance(error, ServerUnfit)
    assert str(error).startswith("ALL_PROXY names a SOCKS proxy")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_unreachable_proxy_is_named_instead_of_the_service(
    environment: pytest.MonkeyPatch, kind: Any, scheme: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        gone = f"127.0.0.1:{one.getsockname()[1]}"
    environment.setenv("ALL_PROXY", f"http://me:{SECRET}@{gone}")
    error = error_of(kind, f"{scheme}://tarry.test:7070")
    assert isinstance(error, Unavailable)
    assert f"the proxy at {gone} (ALL_PROXY) cannot be reached" in str(error)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_requires_a_password_is_reported_at_once(
    environment: pytest.MonkeyPatch, kind: Any, scheme: str
) -> None:
    with stranger(407, b"") as proxy:
        environment.setenv("ALL_PROXY", proxy)
        error = error_of(kind, f"{scheme}://tarry.test:7070", patience=LONG_S)
    assert isinstance(error, ServerUnfit)
    assert "wants a user and password" in str(error)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_proxy_that_refuses_and_then_hangs_is_reported_as_refusing(
    environment: pytest.MonkeyPatch, kind: Any
) -> None:
    """The last try has hardly any time: that it timed out says less than the refusal before."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse_once() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")

        thread = threading.Thread(target=refuse_once)
        thread.start()
        proxy = f"127.0.0.1:{listener.getsockname()[1]}"
        environment.setenv("ALL_PROXY", f"http://{proxy}")
        error = error_of(kind, "https://tarry.test:7070", patience=2)
        thread.join()
    assert isinstance(error, Unavailable)
    assert f"the proxy at {proxy} (ALL_PROXY) refused: 403 Forbidden" in str(error)


@pytest.mark.parametrize("kind", KINDS)
def test_an_unreachable_service_is_not_blamed_on_a_proxy(environment: pytest.MonkeyPatch, kind: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        gone = f"127.0.0.1:{one.getsockname()[1]}"
    environment.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    environment.setenv("NO_PROXY", "127.0.0.1")
    error = error_of(kind, f"http://{gone}")
    assert isinstance(error, Unavailable)
    assert "proxy" not in str(error)


def test_a_user_and_password_in_the_url_are_for_a_proxy_before_the_service() -> None:
    """As httpx does it with a client's own requests; without them the token opens the service."""
    own = dict(ServiceAddress.find(f"http://me:{SECRET}%40@tarry.test:7070", None, "tarry_a_b").headers)
    assert own[b"authorization"] == b"Basic " + b64encode(f"me:{SECRET}@".encode())
    assert dict(ServiceAddress.find(SERVICE, None, "tarry_a_b").headers)[b"authorization"] == b"Bearer tarry_a_b"
