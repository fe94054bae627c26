"""A URL's options for TLS: the values that each takes, and why a file that one of them names cannot be used.

    ssl_ca_certs  ssl_ca_path  ssl_ca_data    who may have signed the server's certificate; else the system's authorities
    ssl_certfile  ssl_keyfile  ssl_password   the certificate of this client, for a server that asks for one
    ssl_cert_reqs  ssl_check_hostname  …      how strict the check is

Values are checked when the client is made, files when a connection fails: they may be replaced while a program runs.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from traceback import walk_tb
from typing import Any

from tarry.errors import ServerUnfit

PREFIX = "ssl_"
ALERT_WITHIN_S = 1.0
_YES_OR_NO = frozenset("1 true yes t y 0 false no f n".split())
"""Values that the driver reads as they are meant: ``off`` it takes for yes."""
_VERSIONS = {"771": "TLS 1.2", "772": "TLS 1.3"}
_MEANT = {
    "verify": "ssl_cert_reqs=none, which checks no certificate",
    "check": "ssl_check_hostname=no, which accepts a certificate for another host name",
    "insecure": "ssl_cert_reqs=none, which checks no certificate",
    "ca": "ssl_ca_certs=, the file with the CA's certificate",
    "root": "ssl_ca_certs=, the file with the CA's certificate",
    "key": "ssl_keyfile=, the file with this client's key",
    "cert": "ssl_certfile=, the file with this client's certificate",
}
"""By a part of an unknown option's name, in the order in which they are tried: what is probably meant."""


def known_options(unknown: str, known: Iterable[str]) -> str:
    """Names what to write for an option that does not exist."""
    meant = next((option for part, option in _MEANT.items() if part in unknown.removeprefix(PREFIX)), None)
    return (
        f"write {meant}" if meant else f"there are {', '.join(sorted(one for one in known if one.startswith(PREFIX)))}"
    )


def problem_of(option: str, value: str, given: Iterable[str]) -> str | None:
    """Why the driver would refuse a value at the first call, or take it for another one; ``given`` are the names of all options."""
    if option == "ssl_cert_reqs" and value not in ("required", "optional", "none"):
        return f"is required, or none, which checks no certificate; not {value!r}"
    if option == "ssl_check_hostname" and value.lower() not in _YES_OR_NO:
        return f"is yes or no, not {value!r}"
    if option == "ssl_min_version" and value not in _VERSIONS:
        return f"is {' or '.join(f'{number} ({version})' for number, version in _VERSIONS.items())}, not {value!r}"
    if option == "ssl_keyfile" and not any(name.endswith("ssl_certfile") for name in given):
        return "goes with ssl_certfile=, the certificate of this client"
    if option == "ssl_ciphers":
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers(value)
        except ssl.SSLError:
            return f"has no cipher that OpenSSL knows: {value!r}"
    if option in ("ssl_include_verify_flags", "ssl_exclude_verify_flags"):
        flags = [flag.strip() for flag in value.strip("[]").split(",")]
        if unknown := [flag for flag in flags if flag not in ssl.VerifyFlags.__members__]:
            return f"has {unknown[0]!r}; there are {', '.join(ssl.VerifyFlags.__members__)}"
    return None


def refused_files(arguments: Mapping[str, Any]) -> ServerUnfit | None:
    """Why the driver cannot use a file that its arguments name; ``None`` if it can."""
    for name in ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile"):
        path = arguments.get(name)
        try:
            if name == "ssl_ca_path" and path:
                next(Path(path).iterdir(), None)
            elif path:
                Path(path).open("rb").close()
        except OSError as fault:
            return ServerUnfit(
                f"The URL's {name}: {path} cannot be read: {fault.strerror}. Correct the path, or the file's rights."
            )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if authorities := arguments.get("ssl_ca_certs"):
        try:
            context.load_verify_locations(authorities)
        except ssl.SSLError:
            return ServerUnfit(
                f"The URL's ssl_ca_certs: {authorities} has no certificate that can be read; it must be in PEM."
            )
    if certificate := arguments.get("ssl_certfile"):
        key = arguments.get("ssl_keyfile")
        try:
            context.load_cert_chain(certificate, key, arguments.get("ssl_password") or "")
        except ssl.SSLError as fault:
            if fault.reason == "KEY_VALUES_MISMATCH":
                return ServerUnfit(
                    f"The URL's ssl_keyfile: {key or certificate} is not the key of the certificate in {certificate}."
                )
            return ServerUnfit(
                f"The URL's ssl_certfile: {certificate} and its key ({key or 'in the same file'}) cannot be read; both must be in PEM, "
                "and ssl_keyfile= names another file; ssl_password= opens a key with a password."
            )
    return None


def alert_of(arguments: Mapping[str, Any]) -> OSError | None:
    """Why a server ends a connection after the handshake: with TLS 1.3 only then it looks at the client's certificate. Its answer is
    lost when it arrives together with a request, so nothing is sent here. Blocks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the driver has checked it
    host = arguments.get("host", "localhost")
    try:
        if certificate := arguments.get("ssl_certfile"):
            context.load_cert_chain(certificate, arguments.get("ssl_keyfile"), arguments.get("ssl_password") or "")
        with (
            socket.create_connection((host, arguments.get("port", 6379)), ALERT_WITHIN_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            secured.recv(1)
    except TimeoutError:
        return None
    except OSError as fault:
        close_socket(fault)
        return fault
    return None


def close_socket(error: BaseException | None) -> None:
    """Closes the socket of a connection that was reset before its handshake with TLS began: Python's ``SSLSocket`` has taken it by
    then, and leaves it open."""
    if error is not None:
        for frame, _ in walk_tb(error.__traceback__):
            made = frame.f_locals.get("self")
            if isinstance(made, socket.socket):
                made.close()
