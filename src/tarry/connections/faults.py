"""Faults: the driver's errors, by what they mean for the request.

ConnectionLost   no answer: the connection broke, or a timeout. The call may or may not have been done.
TryLater         the server refuses for now: loading, a replica after a fail-over, a full disk. Nothing was done.
  WrongNode      a Cluster has moved the slot, or the server is a replica. Nothing was done.
NoScript         the server does not know the script yet. Nothing was done.
NotJudged        the small script of a call cannot judge it. Nothing was done.
WantsKeys        the topic has jobs with a key, and the call must have their keys. Nothing was done.
ServerRefused    the server refuses for good; the error says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import redis.exceptions as driver

from tarry.core.requests import WrongType, refusal_error
from tarry.errors import ServerUnfit, TarryError, Unavailable


class Fault(Exception):
    """An error that a runner handles; users never see one."""


class ConnectionLost(Fault):
    pass


class ConfirmationLost(ConnectionLost):
    """The call was done, but its confirmation did not arrive."""


class TryLater(Fault):
    pass


class NotNow(TryLater):
    """The server itself refuses for now; the message explains its reply."""


class WrongNode(TryLater):
    pass


class IsReplica(WrongNode):
    """The server is a replica, which takes no writes."""


class NoScript(Fault):
    pass


class NotJudged(Fault):
    pass


class WantsKeys(Fault):
    pass


class UnknownMaster(TryLater):
    """A Sentinel knows no master of this name, but others."""

    def __init__(self, wanted: str, watched: Iterable[str]) -> None:
        self.wanted, self.watched = wanted, frozenset(watched)
        super().__init__(f"no Sentinel that answers watches a master {wanted!r}, but {', '.join(sorted(self.watched))}")


class ServerRefused(Fault):
    def __init__(self, error: TarryError) -> None:
        super().__init__(str(error))
        self.error = error


class WrongServerKind(ServerRefused):
    """The server is of another kind than the URL says."""


class NotPermitted(ServerUnfit):
    """The server's ACL forbids it."""


class NoDatabase(ServerRefused):
    """The server does not have the database that the URL names."""


CONNECTION_ERRORS = (Fault, driver.RedisError, OSError, EOFError)
"""Exceptions of a connection. Any other has another cause: a signal handler, a bug."""
REFUSED = driver.ResponseError
"""The driver's error for a reply that is an error."""
CLOSED = (RuntimeError,)
"""The error of uvloop when something is sent on a broken connection."""

_WRONG_NODE_WORDS = ("MOVED ", "ASK ")
_WRONG_NODE_ERRORS = (driver.MovedError, driver.AskError)
_NOT_NOW = {
    "LOADING": "it still loads its data; wait until it has",
    "BUSY ": "a script keeps it busy; wait for the script, or end it with SCRIPT KILL",
    "MISCONF": "it cannot write to its disk, and takes no writes until it can; free space there, and look into its log",
    "NOREPLICAS": "it has fewer replicas than its min-replicas-to-write; bring them back, or lower that",
    "MASTERDOWN": "it is a replica whose master is gone; bring the master back",
    "CLUSTERDOWN": "its Cluster is down; bring back the nodes that are missing",
    "TRYAGAIN": "the slot is moving to another node; wait until it has moved",
    "UNBLOCKED": "it has become a replica; wait until another master is known",
    "max number of clients": "it has reached its maxclients; close some connections, or raise maxclients",
}
"""The advice for a server's refusal for now, by its first words, in the order in which they are tried."""
_NOT_NOW_BY_CLASS = {  # the driver has removed the first word
    driver.BusyLoadingError: "LOADING",
    driver.MasterDownError: "MASTERDOWN",
    driver.ClusterDownError: "CLUSTERDOWN",
    driver.TryAgainError: "TRYAGAIN",
}
_SLOT = re.compile(r"(?:MOVED |ASK )?(\d+) (\S*:\d+)")
_ERROR_IN_SCRIPT = re.compile(
    r"-((?:OOM|READONLY|LOADING|MASTERDOWN|NOREPLICAS|CLUSTERDOWN|MISCONF|BUSY|TRYAGAIN|NOPERM) .*)", re.S
)
WRONG_LOGIN = "The server refused the user or password; correct the URL."
NO_LOGIN = (
    "The server wants a password, and the URL has none; write redis://:PASSWORD@host, or redis://USER:PASSWORD@host, with @ / ? # in a "
    "password as %40 %2F %3F %23."
)
NEEDLESS_LOGIN = (
    "The URL has a password and no user, and the server's default user has no password or is switched off; write "
    "redis://USER:PASSWORD@host, or take the password out of the URL."
)
CERTIFICATE_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
ONE_DATABASE = "A Cluster has one database, or with Valkey 9 as many as its `cluster-databases` says; leave its number out of the URL"
_WRONG_KIND_TEXTS = {
    "cluster support disabled": "The server at this URL is not part of a Cluster; use redis://host:port",
    "unknown command .CLUSTER": "The server at this URL is not part of a Cluster",
    "unknown command .SENTINEL": "The server at this URL is not a Sentinel; use redis://host:port",
}
_OTHER_HOST = (
    "The server's certificate is for another host name; write in the URL the name that is in the certificate, or "
    "?ssl_check_hostname=no if any server of its CA will do"
)
_WANTS_CERTIFICATE = (
    "The server wants a certificate of this client; name its files with ?ssl_certfile= and ?ssl_keyfile="
)
_KNOWN_REFUSALS = {
    "WRONGTYPE": "A key has another type than expected: another program uses the name, choose another one; or a newer version of "
    "tarry wrote the topic, upgrade this process",
    r'got "\x15"': "The server at this URL uses TLS; write rediss for redis in the URL",
    "WRONG_VERSION_NUMBER": "The server at this URL does not use TLS; write redis for rediss in the URL",
    "Protocol error": "The server at this URL is not Redis or Valkey; correct the URL",
    "not allowed in cluster mode": ONE_DATABASE,
    "Hostname mismatch, certificate is not valid": _OTHER_HOST,
    "IP address mismatch, certificate is not valid": _OTHER_HOST,
    "certificate has expired": "The server's certificate has expired; renew it",
    "certificate is not yet valid": "The server's certificate is not valid yet; correct this machine's clock",
    CERTIFICATE_UNTRUSTED: "The server's certificate cannot be trusted; name the file of its CA with ?ssl_ca_certs=",
    "ALERT_CERTIFICATE_REQUIRED": _WANTS_CERTIFICATE,
    "ALERT_HANDSHAKE_FAILURE": "The server refused the handshake of TLS. If it wants a certificate of this client, name its files with "
    "?ssl_certfile= and ?ssl_keyfile=",
    "ALERT_PROTOCOL_VERSION": "The server speaks no version of TLS that this machine allows; allow TLS 1.2 or 1.3 there",
    "UNSUPPORTED_PROTOCOL": "The server speaks no version of TLS that this machine allows; allow TLS 1.2 or 1.3 there",
    **dict.fromkeys(
        ("ALERT_UNKNOWN_CA", "ALERT_BAD_CERTIFICATE", "ALERT_CERTIFICATE_EXPIRED", "ALERT_CERTIFICATE_UNKNOWN"),
        "The server does not accept the certificate of this client; ?ssl_certfile= names one that the server's CA has signed",
    ),
}
_CUT_OFF = re.compile("reset by peer|closed by server|EOF occurred|Broken pipe")
_NO_WAIT_ON_REPLICA = "cannot be used with replica instances"


def with_tls_reason(fault: Fault, url: str, arguments: Mapping[str, Any]) -> Fault:
    """The fault of a connection that could not be made with these arguments of the driver; if it was TLS, the reason. Blocks then."""
    if not url.startswith("rediss") or not (isinstance(fault, ConnectionLost) or CERTIFICATE_UNTRUSTED in str(fault)):
        return fault
    from tarry.connections import tls  # only a failed connection with TLS needs it

    if (refused := tls.refused_files(arguments)) is not None:
        return ServerRefused(refused)
    alert = tls.alert_of(arguments) if _CUT_OFF.search(str(fault)) else None
    return fault if alert is None else fault_of(alert)


def fault_of(error: BaseException, what: str = "the call", *, database: int = 0) -> Fault:
    """The ``Fault`` for a driver's error; ``database`` is the URL's."""
    if isinstance(error, Fault):
        return error
    if type(error) is driver.ConnectionError and isinstance(error.__cause__, driver.ResponseError):
        error = error.__cause__  # raised while connecting, and wrapped by redis.asyncio
    text = str(error)
    if wrapped := _ERROR_IN_SCRIPT.search(text):  # Redis 6.2 wraps the error of a command inside a script
        text = wrapped[1]
    if isinstance(error, driver.ReadOnlyError) or text.startswith("READONLY") or _NO_WAIT_ON_REPLICA in text:
        return IsReplica("it is a replica now, which takes no writes; wait until the fail-over is over")
    if isinstance(error, _WRONG_NODE_ERRORS) or text.startswith(_WRONG_NODE_WORDS):
        return WrongNode(_SLOT.sub(r"the slot \1 is at \2 now", text))
    if isinstance(error, driver.NoScriptError) or text.startswith("NOSCRIPT"):
        return NoScript(text)
    if text.startswith("KEYED"):
        return WantsKeys(text)
    if (later := _not_now(error, text)) is not None:
        return later
    if (refusal := _wrong_server_kind(text, database) or _known_refusal(error, text)) is not None:
        return refusal if isinstance(refusal, ServerRefused) else ServerRefused(refusal)
    if isinstance(error, (driver.ConnectionError, driver.TimeoutError, OSError, EOFError, *CLOSED)):
        return ConnectionLost(text or type(error).__name__)
    return ServerRefused(refusal_error(text) or ServerUnfit(f"The server failed at {what}: {text}"))


def lost_by(error: BaseException, work: str) -> Fault:
    """The fault of a connection that a thread or a task of its own reads. It must go on after any error: one that is not the
    connection's, a bug of the driver or of tarry, is noted as a failure of the work, and means no more than that the connection is lost."""
    if isinstance(error, (*CONNECTION_ERRORS, *CLOSED, UnicodeError)):
        return fault_of(error)
    from tarry.connections.background import failures

    failures.note(work, error)
    return ConnectionLost(f"{type(error).__name__}: {error}")


def with_tls_hint(fault: Fault, url: str) -> Fault:
    """The fault of a first connection, with a hint if only one side may be using TLS."""
    text = str(fault)
    if (
        isinstance(fault, ConnectionLost)
        and url.startswith("rediss")
        and re.search("(?i)timeout|no answer|in time", text)
    ):
        return ConnectionLost(f"{text}; if that port does not use TLS, write redis for rediss in the URL")
    if (
        isinstance(fault, ConnectionLost)
        and url.startswith("redis:")
        and re.search("reset by peer|closed by server", text)
    ):
        return ConnectionLost(f"{text}; if that port uses TLS, write rediss for redis in the URL")
    return fault


def _not_now(error: BaseException, text: str) -> NotNow | None:
    """The fault of a refusal for now: what to do, and the first sentence of the server's message in brackets."""
    code = next((code for kind, code in _NOT_NOW_BY_CLASS.items() if isinstance(error, kind)), "")
    message = text if text.startswith(code) else f"{code} {text}"
    for prefix, advice in _NOT_NOW.items():
        if message.startswith((prefix, f"ERR {prefix}")):
            return NotNow(f"{advice} ({message.partition('. ')[0].strip().rstrip('.')})")
    return None


def _wrong_server_kind(text: str, database: int) -> ServerRefused | None:
    """The fault of a server of another kind than the URL says, or without its database."""
    for pattern, advice in _WRONG_KIND_TEXTS.items():
        if re.search(pattern, text):
            return WrongServerKind(ServerUnfit(f"{advice}: {text.strip()}"))
    if "DB index is out of range" not in text:
        return None
    return NoDatabase(
        ServerUnfit(
            f"The server has no database {database}, which the URL names; most have /0 to /15, a node of a Cluster has one. Use "
            "another, or leave it out, or raise the server's `databases`."
        )
    )


MEMORY_FULL = "The server's memory is full"
"""The beginning of the error's message."""


def _known_refusal(error: BaseException, text: str) -> TarryError | None:
    """The error of a refusal for good, if it is a known one."""
    if isinstance(error, driver.OutOfMemoryError) or text.startswith("OOM"):
        return Unavailable(
            f"{MEMORY_FULL} (maxmemory), nothing was written. Raise maxmemory, or finish and delete jobs, which still works."
        )
    if text.startswith(("NOAUTH", "Authentication required", "HELLO must be called with the client already auth")):
        return ServerUnfit(NO_LOGIN)
    if "called without any password configured" in text:
        return ServerUnfit(NEEDLESS_LOGIN)
    if isinstance(error, driver.AuthenticationError) or text.startswith("WRONGPASS"):
        return ServerUnfit(WRONG_LOGIN)
    if isinstance(error, driver.NoPermissionError) or text.startswith("NOPERM"):
        return NotPermitted(
            f"The server's ACL forbids something that tarry needs: {text.rstrip('.')}. The rules that each role needs are in "
            "docs/how-to/secure-the-server.md."
        )
    for fragment, advice in _KNOWN_REFUSALS.items():
        if fragment in text:
            return (WrongType if fragment == "WRONGTYPE" else ServerUnfit)(f"{advice}: {text}")
    return None
