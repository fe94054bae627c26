"""A URL for TLS that cannot work: the error says what is wrong and what to write, and does not promise that it may get better."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
import trustme
from cryptography.hazmat.primitives import serialization
from packaging.version import Version

import servers
import tarry
from tarry.connections.embedded.server_process import TEST_OPTIONS, ServerProcess

BOTH = pytest.mark.parametrize("open_client", [tarry.Client, tarry.AsyncClient])


class Certificates:
    """Files of two authorities: the servers' one, and a strange one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        known, strange = trustme.CA(), trustme.CA()
        known.cert_pem.write_to_path(folder / "ca.pem")
        strange.cert_pem.write_to_path(folder / "strange-ca.pem")
        now = datetime.now(UTC)
        for name, issued in {
            "server": known.issue_cert("localhost"),
            "expired": known.issue_cert("localhost", not_after=now - timedelta(days=1)),
            "client": known.issue_cert("client.invalid"),
            "strange": strange.issue_cert("client.invalid"),
        }.items():
            issued.private_key_and_cert_chain_pem.write_to_path(folder / f"{name}.pem")
        key = serialization.load_pem_private_key((folder / "client.pem").read_bytes(), None)
        how = serialization.BestAvailableEncryption(b"word")
        kind = serialization.PrivateFormat.TraditionalOpenSSL
        (folder / "locked.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, kind, how))
        (folder / "text.pem").write_text("no certificate")

    @contextmanager
    def server(self, certificate: str = "server", *options: str) -> Iterator[int]:
        """Redis 7.0 that speaks TLS only, by its port."""
        with servers.short_folder() as folder:
            (port,) = servers.free_ports(1)
            words = [
                str(servers.redis7_binary(folder)),
                "--port",
                "0",
                "--unixsocket",
                str(folder / "s"),
                *TEST_OPTIONS,
            ]
            words += ["--tls-port", str(port), "--bind", "127.0.0.1", "--tls-ca-cert-file", str(self.folder / "ca.pem")]
            own = str(self.folder / f"{certificate}.pem")
            words += ["--tls-cert-file", own, "--tls-key-file", own, *(options or ("--tls-auth-clients", "no"))]
            running = ServerProcess(folder, words, str(folder / "s"))
            try:
                yield port
            finally:
                running.kill()


@pytest.fixture(scope="module")
def certificates() -> Iterator[Certificates]:
    with servers.short_folder() as folder:
        yield Certificates(folder)


@pytest.fixture(scope="module")
def port(certificates: Certificates) -> Iterator[int]:
    with certificates.server() as port:
        yield port


def error_of(open_client: Any, url: str) -> str:
    """What the first verb says."""

    async def awaited() -> None:
        async with tarry.AsyncClient(url) as client:
            await client.topics()

    def blocking() -> None:
        with tarry.Client(url) as client:
            client.topics()

    with pytest.raises(tarry.ServerUnfit) as told:
        asyncio.run(awaited()) if open_client is tarry.AsyncClient else blocking()
    assert "safe to repeat" not in str(told.value)
    return str(told.value)


# ── options, when the client is made ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("ssl_verify=0", "ssl_verify is unknown; write ssl_cert_reqs=none"),
        ("ssl_check=no", "ssl_check is unknown; write ssl_check_hostname=no"),
        ("ssl_cafile=/x", "ssl_cafile is unknown; write ssl_ca_certs="),
        ("ssl_cert=/x", "ssl_cert is unknown; write ssl_certfile="),
        ("ssl_colour=red", "ssl_colour is unknown; there are ssl_ca_certs, "),
        ("ssl_validate_ocsp=yes", "ssl_validate_ocsp is unknown"),  # only the driver's blocking half has it
        ("ssl_ca_certs=", "ssl_ca_certs is empty; give it a value, or leave it out"),
        ("ssl_cert_reqs=CERT_NONE", "ssl_cert_reqs is required, or none.*not 'CERT_NONE'"),
        ("ssl_check_hostname=off", "ssl_check_hostname is yes or no, not 'off'"),  # the driver would take it for yes
        ("ssl_min_version=TLSv1.2", r"ssl_min_version is 771 \(TLS 1.2\) or 772 \(TLS 1.3\), not 'TLSv1.2'"),
        ("ssl_min_version=5", "ssl_min_version is 771"),
        ("ssl_ciphers=red", "ssl_ciphers has no cipher that OpenSSL knows: 'red'"),
        pytest.param(
            "ssl_include_verify_flags=[VERIFY_RED]",
            "has 'VERIFY_RED'; there are VERIFY_DEFAULT, ",
            marks=pytest.mark.skipif(Version(redis.__version__) < Version("7"), reason="needs a newer redis-py"),
        ),
        ("ssl_keyfile=/x", "ssl_keyfile goes with ssl_certfile="),
    ],
)
@pytest.mark.parametrize("form", ["rediss://h?{}", "valkeys+cluster://h?{}", "rediss+sentinel://h/m?{}"])
def test_an_option_that_cannot_work_is_refused_when_the_client_is_made(form: str, options: str, words: str) -> None:
    with pytest.raises(tarry.BadInput, match=words):
        tarry.Client(form.format(options))


def test_the_options_of_sentinels_are_checked_too() -> None:
    with pytest.raises(tarry.BadInput, match="sentinel_ssl_verify is unknown; write ssl_cert_reqs=none"):
        tarry.Client("rediss+sentinel://h/m?sentinel_ssl_verify=0")
    with pytest.raises(tarry.BadInput, match="sentinel_ssl_cert_reqs is required, or none"):
        tarry.Client("rediss+sentinel://h/m?sentinel_ssl_cert_reqs=maybe")


def test_a_part_of_a_password_is_not_shown() -> None:
    with pytest.raises(tarry.BadInput, match="written %23") as told:
        tarry.Client("rediss://me:a?ssl_ca_certs=geheim&ssl_cert_reqs=geheim@h")
    assert "geheim" not in str(told.value)


# ── files, when it connects ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.otherserver
@BOTH
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("ssl_ca_certs=/none.pem", "ssl_ca_certs: /none.pem cannot be read: No such file or directory"),
        ("ssl_ca_certs={}", "ssl_ca_certs: {} cannot be read: Is a directory"),
        ("ssl_ca_path=/none", "ssl_ca_path: /none cannot be read: No such file or directory"),
        (
            "ssl_ca_certs={}/text.pem",
            "ssl_ca_certs: {}/text.pem has no certificate that can be read; it must be in PEM",
        ),
        ("ssl_certfile=/none.pem", "ssl_certfile: /none.pem cannot be read"),
        ("ssl_certfile={}/text.pem", "ssl_certfile: {}/text.pem and its key (in the same file) cannot be read"),
        ("ssl_certfile={}/client.pem&ssl_keyfile={}/strange.pem", "ssl_keyfile: {}/strange.pem is not the key of"),
        ("ssl_certfile={}/client.pem&ssl_keyfile={}/locked.pem", "ssl_password= opens a key with a password"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    open_client: Any, options: str, words: str, port: int, certificates: Certificates
) -> None:
    place = str(certificates.folder)
    if "ssl_ca" not in options:
        options += "&ssl_ca_certs={}/ca.pem"
    text = error_of(open_client, f"rediss://localhost:{port}?{options.replace('{}', place)}")
    assert words.replace("{}", place) in text


@pytest.mark.otherserver
def test_a_file_that_appears_is_used(port: int, certificates: Certificates, tmp_path: Path) -> None:
    """A secret that is mounted late: the same client goes on."""
    with tarry.Client(f"rediss://localhost:{port}?ssl_ca_certs={tmp_path}/ca.pem") as client:
        with pytest.raises(tarry.ServerUnfit, match="No such file"):
            client.topics()
        (tmp_path / "ca.pem").write_bytes((certificates.folder / "ca.pem").read_bytes())
        assert client.topics() == []


# ── certificates ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.otherserver
@BOTH
def test_a_certificate_of_another_host_or_authority_is_explained(
    open_client: Any, port: int, certificates: Certificates
) -> None:
    place = certificates.folder
    by_ip = error_of(open_client, f"rediss://127.0.0.1:{port}?ssl_ca_certs={place}/ca.pem")
    assert "for another host name; write in the URL the name that is in the certificate" in by_ip
    assert "ssl_ca_certs" not in by_ip, "it was given, and is right"
    strange = error_of(open_client, f"rediss://localhost:{port}?ssl_ca_certs={place}/strange-ca.pem")
    assert "cannot be trusted; name the file of its CA with ?ssl_ca_certs=" in strange


@pytest.mark.otherserver
@pytest.mark.parametrize("options", ["ssl_ca_certs={}/ca.pem&ssl_check_hostname=no", "ssl_cert_reqs=none"])
def test_what_the_errors_recommend_works(port: int, certificates: Certificates, options: str) -> None:
    with tarry.Client(f"rediss://127.0.0.1:{port}?{options.format(certificates.folder)}") as client:
        assert client.topics() == []


@pytest.mark.otherserver
@BOTH
def test_an_expired_certificate_is_explained(open_client: Any, certificates: Certificates) -> None:
    with certificates.server("expired") as port:
        text = error_of(open_client, f"rediss://localhost:{port}?ssl_ca_certs={certificates.folder}/ca.pem")
    assert text.startswith("The server's certificate has expired; renew it")


@pytest.fixture(scope="module")
def strict_ports(certificates: Certificates) -> Iterator[dict[str, int]]:
    """Servers that want a certificate of each client, as is the default, by their version of TLS."""
    with ExitStack() as stack:
        yield {
            version: stack.enter_context(certificates.server("server", "--tls-protocols", version))
            for version in ("TLSv1.2", "TLSv1.3")
        }


@pytest.mark.otherserver
@BOTH
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_missing_certificate_of_the_client_is_explained(
    open_client: Any, version: str, strict_ports: dict[str, int], certificates: Certificates
) -> None:
    place = certificates.folder
    url = f"rediss://localhost:{strict_ports[version]}?ssl_ca_certs={place}/ca.pem"
    assert "name its files with ?ssl_certfile= and ?ssl_keyfile=" in error_of(open_client, url)
    strange = error_of(open_client, f"{url}&ssl_certfile={place}/strange.pem")
    assert "does not accept the certificate of this client; ?ssl_certfile= names one that the server's CA" in strange
    with tarry.Client(f"{url}&ssl_certfile={place}/client.pem") as client:
        assert client.topics() == []
    with tarry.Client(
        f"{url}&ssl_certfile={place}/client.pem&ssl_keyfile={place}/locked.pem&ssl_password=word"
    ) as client:
        assert client.topics() == []


@pytest.mark.otherserver
@BOTH
def test_a_server_with_an_old_tls_is_explained(open_client: Any, certificates: Certificates) -> None:
    with certificates.server("server", "--tls-auth-clients", "no", "--tls-protocols", "TLSv1.1") as port:
        text = error_of(open_client, f"rediss://localhost:{port}?ssl_ca_certs={certificates.folder}/ca.pem")
    assert "speaks no version of TLS that this machine allows" in text


def test_a_connection_that_is_cut_off_without_a_reason_may_get_better(certificates: Certificates) -> None:
    """A server that stops just now: no alert says why."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.folder / "server.pem")

    def cut_off() -> None:
        while True:
            try:
                plain, _ = door.accept()
            except OSError:
                return
            with plain, context.wrap_socket(plain, server_side=True) as secured:
                secured.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as door:
        thread = threading.Thread(target=cut_off)
        thread.start()
        url = f"rediss://localhost:{door.getsockname()[1]}?ssl_ca_certs={certificates.folder}/ca.pem"
        with tarry.Client(url, patience=0.1) as client, pytest.raises(tarry.Unavailable, match="safe to repeat"):
            client.topics()
        door.shutdown(socket.SHUT_RDWR)
        thread.join()
