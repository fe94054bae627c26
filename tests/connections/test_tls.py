"""TLS and passwords: a certificate that is trusted, one that is not, and signs in passwords."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import struct
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import trustme

import servers
import tarry
from tarry.connections import blocking, connection_limit
from tarry.connections.awaited import Server
from tarry.connections.embedded.server_process import TEST_OPTIONS, ServerProcess
from tarry.connections.faults import ConnectionLost, ServerRefused
from until import until

pytestmark = pytest.mark.otherserver
PASSWORD = "p@ss:w/o#r?d%"  # every sign that means something in a URL


@dataclass
class Secure:
    port: int
    authority: Path
    running: ServerProcess

    def url(self, password: str = PASSWORD) -> str:
        return f"rediss://:{quote(password, safe='')}@localhost:{self.port}/0?ssl_ca_certs={self.authority}"


@pytest.fixture(scope="module")
def secure() -> Iterator[Secure]:
    """Redis 7.0 that speaks TLS only; the wheel's Valkey has none."""
    with servers.short_folder() as folder:
        authority, port = trustme.CA(), servers.free_ports(1)[0]
        authority.cert_pem.write_to_path(folder / "ca.pem")
        authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(folder / "s.pem")
        words = [str(servers.redis7_binary(folder)), "--port", "0", "--unixsocket", str(folder / "s"), *TEST_OPTIONS]
        words += ["--tls-port", str(port), "--bind", "127.0.0.1", "--tls-auth-clients", "no"]
        words += ["--tls-cert-file", "s.pem", "--tls-key-file", "s.pem", "--tls-ca-cert-file", "ca.pem"]
        running = ServerProcess(folder, words, str(folder / "s"))
        try:
            running.ask("CONFIG", "SET", "requirepass", PASSWORD)
            yield Secure(port, folder / "ca.pem", running)
        finally:
            running.stop()


@pytest.mark.parametrize("most", [connection_limit.MOST_BLOCKED, 0])
def test_jobs_are_added_and_popped_over_tls(most: int, secure: Secure, monkeypatch: pytest.MonkeyPatch) -> None:
    for one in (connection_limit.BLOCKED_LIMIT, connection_limit.UNLIMITED):
        monkeypatch.setattr(one, "maximum", most)
    with tarry.Client(secure.url()) as client:
        client.topic("letters").add("tea", delay=0.05)
        job = client.pop("letters", wait=5)
        assert job is not None
        assert job.body == "tea"

    async def awaited() -> object:
        async with tarry.AsyncClient(secure.url()) as client:
            await client.topic("letters").add("jam", delay=0.05)
            job = await client.pop("letters", wait=5)
            return job and job.body

    assert asyncio.run(awaited()) == "jam"


def test_a_closed_tls_connection_is_released_before_its_event_loop_ends(secure: Secure) -> None:
    """Though the server, frozen here, does not answer the farewell that TLS says."""

    async def story() -> None:
        server = Server(secure.url())
        await server.exchange([(b"PING",)])
        secure.running.freeze()
        server.close()

    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            asyncio.run(story())
            gc.collect()
    finally:
        secure.running.resume()
    assert not [str(one.message) for one in told if one.category is ResourceWarning]


def test_a_refused_tls_connection_is_released_before_its_event_loop_ends(tmp_path: Path) -> None:
    """Though the server does not answer the farewell that TLS says."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)

    asked = threading.Event()

    def refuse() -> None:
        line, _ = door.accept()
        with context.wrap_socket(line, server_side=True) as secured:
            secured.recv(1000)
            secured.sendall(b"-WRONGPASS no\r\n")
            asked.wait()

    async def story() -> None:
        port = door.getsockname()[1]
        server = Server(f"rediss://:word@localhost:{port}/0?ssl_ca_certs={tmp_path / 'authority.pem'}")
        with pytest.raises(ServerRefused):
            await server.connect()

    with socket.create_server(("127.0.0.1", 0)) as door:
        refusing = threading.Thread(target=refuse, daemon=True)
        refusing.start()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            asyncio.run(story())
            gc.collect()
        asked.set()
        refusing.join()
    assert not [str(one.message) for one in told if one.category is ResourceWarning]


def test_a_tls_connection_that_is_reset_before_its_handshake_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    wrap = ssl.SSLContext.wrap_socket

    def is_reset(line: socket.socket) -> bool:
        try:
            line.getpeername()
        except OSError:
            return True
        return False

    def wrap_when_reset(self: ssl.SSLContext, line: socket.socket, *args: Any, **options: Any) -> ssl.SSLSocket:
        with door.accept()[0] as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # it ends with a reset
        until(lambda: is_reset(line), "it is reset")
        return wrap(self, line, *args, **options)

    monkeypatch.setattr(ssl.SSLContext, "wrap_socket", wrap_when_reset)
    with socket.create_server(("127.0.0.1", 0)) as door, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        server = blocking.Server(f"rediss://127.0.0.1:{door.getsockname()[1]}")
        with pytest.raises(ConnectionLost, match="reset"):
            server.connect()
        gc.collect()
    assert not [str(one.message) for one in told if one.category is ResourceWarning]


def test_an_untrusted_certificate_is_refused_with_a_message(secure: Secure) -> None:
    url = secure.url().partition("?")[0]
    with tarry.Client(url) as client, pytest.raises(tarry.ServerUnfit, match="ssl_ca_certs"):
        client.topics()


def test_a_plain_connection_to_a_tls_port_raises_an_error_with_advice(secure: Secure) -> None:
    url = f"redis://localhost:{secure.port}"
    words = "write rediss for redis"  # what the server answers, that, or that it cuts the line, is a matter of luck
    with tarry.Client(url, patience=0.1) as client, pytest.raises(tarry.TarryError, match=words):
        client.topics()

    async def awaited() -> None:
        async with tarry.AsyncClient(url, patience=0.1) as client:
            await client.topics()

    with pytest.raises(tarry.TarryError, match=words):
        asyncio.run(awaited())


def test_a_wrong_password_is_refused_with_a_message(secure: Secure) -> None:
    with tarry.Client(secure.url("wrong")) as client, pytest.raises(tarry.ServerUnfit, match="password") as told:
        client.topics()
    assert "wrong" not in str(told.value).replace("refused the user", "")
