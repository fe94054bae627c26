"""What a driver's error means, in five kinds.

Lost        no answer: the connection broke, or the time was up. The call may or may not have been done.
Later       the server refuses for now: loading, a replica after a fail-over, a full disk. Nothing was done.
Elsewhere   a Cluster has moved the slot, or it is a replica. Nothing was done.
NoScript    the server does not know the script yet. Nothing was done.
Refused     the server will not do it, and says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import redis.exceptions as driver

from tarry.core.requests import WrongType, refusal_error
from tarry.errors import ServerUnfit, TarryError, Unavailable


class Fault(Exception):
    """An error that a runner handles; users never see one."""


class ConnectionLost(Fault):
    pass


class ConfirmationLost(ConnectionLost):
    """What was asked is done, and its confirmation was not heard."""


class TryLater(Fault):
    pass


class NotNow(TryLater):
    """It says so itself, and here are the words for it."""


class WrongNode(TryLater):
    pass


class IsReplica(WrongNode):
    """It takes no writes: its master is elsewhere."""


class NoScript(Fault):
    pass


class UnknownMaster(TryLater):
    """A Sentinel watches others than the one that it was asked for."""

    def __init__(self, wanted: str, watched: Iterable[str]) -> None:
        self.wanted, self.watched = wanted, frozenset(watched)
        super().__init__(f"no Sentinel that answers watches a master {wanted!r}, but {', '.join(sorted(self.watched))}")


class ServerRefused(Fault):
    def __init__(self, error: TarryError) -> None:
        super().__init__(str(error))
        self.error = error


class WrongServerKind(ServerRefused):
    """It is of another kind than the URL says."""


class NotPermitted(ServerUnfit):
    """The server's ACL forbids it."""


class NoDatabase(ServerRefused):
    """It has not the database that the URL names."""


CONNECTION_ERRORS = (Fault, driver.RedisError, OSError, EOFError)
"""What talking to a server may raise. Anything else is not the server's: a signal's handler, a defect."""
CLOSED = (RuntimeError,)
"""What uvloop raises besides, when something is sent by a connection that has broken since."""

_WRONG_NODE_WORDS = ("MOVED ", "ASK ")
_WRONG_NODE_ERRORS = (driver.MovedError, driver.AskError)
_NOT_NOW = {
    "LOADING": "it still loads its data; wait until it has",
    "BUSY ": "a script keeps it busy; wait for the script, or end it with SCRIPT KILL",
    "MISCONF": "it cannot write to its disk, and takes no writes until it can; make room there, and look into its log",
    "NOREPLICAS": "too few replicas follow it for its min-replicas-to-write; bring them back, or lower that",
    "MASTERDOWN": "it is a replica whose master is gone; bring the master back",
    "CLUSTERDOWN": "its Cluster is down; bring back the nodes that are missing",
    "TRYAGAIN": "the slot is on its way to another node; wait until it has arrived",
    "UNBLOCKED": "it has become a replica; wait until another master is known",
    "max number of clients": "it has as many connections as it may; close some, or raise its maxclients",
}
"""What a server says that will not do it now, and what to do: by its first words, in the order in which they are looked for."""
_NOT_NOW_BY_CLASS = {  # the driver has taken the first word away
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
CERTIFICATE_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
ONE_DATABASE = "A Cluster has one database, or with Valkey 9 as many as its `cluster-databases` says; leave its number out of the URL"
_WRONG_KIND_TEXTS = {
    "cluster support disabled": "What answers at this URL is no Cluster; use redis://host:port",
    "unknown command .CLUSTER": "What answers at this URL is no Cluster",
    "unknown command .SENTINEL": "What answers at this URL is no Sentinel; use redis://host:port",
}
_KNOWN_REFUSALS = {
    "WRONGTYPE": "A key has another kind than it should: the name is something else's, choose another; or a newer version of tarry "
    "keeps the topic, upgrade this process",
    r'got "\x15"': "What answers at this URL speaks TLS; write rediss for redis in the URL",
    "WRONG_VERSION_NUMBER": "What answers at this URL speaks no TLS; write redis for rediss in the URL",
    "Protocol error": "What answers at this URL is no Redis or Valkey; correct the URL",
    "not allowed in cluster mode": ONE_DATABASE,
    CERTIFICATE_UNTRUSTED: "The server's certificate cannot be trusted; name its CA with ?ssl_ca_certs=",
}
_NO_WAIT_ON_REPLICA = "cannot be used with replica instances"


def fault_of(error: BaseException, what: str = "the call", *, database: int = 0) -> Fault:
    """The kind of a driver's error; ``database`` is the one that the URL names."""
    if isinstance(error, Fault):
        return error
    if type(error) is driver.ConnectionError and isinstance(error.__cause__, driver.ResponseError):
        error = error.__cause__  # said while connecting, wrapped by the awaiting driver
    text = str(error)
    if wrapped := _ERROR_IN_SCRIPT.search(text):  # Redis 6.2 wraps what a command inside a script said
        text = wrapped[1]
    if isinstance(error, driver.ReadOnlyError) or text.startswith("READONLY") or _NO_WAIT_ON_REPLICA in text:
        return IsReplica("it is a replica now, which takes no writes; wait until the fail-over is over")
    if isinstance(error, _WRONG_NODE_ERRORS) or text.startswith(_WRONG_NODE_WORDS):
        return WrongNode(_SLOT.sub(r"the slot \1 is at \2 now", text))
    if isinstance(error, driver.NoScriptError) or text.startswith("NOSCRIPT"):
        return NoScript(text)
    if (later := _not_now(error, text)) is not None:
        return later
    if (no := _wrong_server_kind(text, database) or _refusal_text(error, text)) is not None:
        return no if isinstance(no, ServerRefused) else ServerRefused(no)
    if isinstance(error, (driver.ConnectionError, driver.TimeoutError, OSError, EOFError, *CLOSED)):
        return ConnectionLost(text or type(error).__name__)
    return ServerRefused(refusal_error(text) or ServerUnfit(f"The server failed at {what}: {text}"))


def with_tls_hint(fault: Fault, url: str) -> Fault:
    """The same fault of a server that was never met, with what may be wrong: one side waits for TLS, and the other for none."""
    text = str(fault)
    if (
        isinstance(fault, ConnectionLost)
        and url.startswith("rediss")
        and re.search("(?i)timeout|no answer|in time", text)
    ):
        return ConnectionLost(f"{text}; if that port speaks no TLS, write redis for rediss in the URL")
    if (
        isinstance(fault, ConnectionLost)
        and url.startswith("redis:")
        and re.search("reset by peer|closed by server", text)
    ):
        return ConnectionLost(f"{text}; if that port speaks TLS, write rediss for redis in the URL")
    return fault


def _not_now(error: BaseException, text: str) -> NotNow | None:
    """What a server says that will do it later, in words; its own, as far as the first full stop, are in brackets."""
    said = next((word for kind, word in _NOT_NOW_BY_CLASS.items() if isinstance(error, kind)), "")
    spoken = text if text.startswith(said) else f"{said} {text}"
    for first, words in _NOT_NOW.items():
        if spoken.startswith((first, f"ERR {first}")):
            return NotNow(f"{words} ({spoken.partition('. ')[0].strip().rstrip('.')})")
    return None


def _wrong_server_kind(text: str, database: int) -> ServerRefused | None:
    """What is said by a server that is no such one as the URL means."""
    for said, words in _WRONG_KIND_TEXTS.items():
        if re.search(said, text):
            return WrongServerKind(ServerUnfit(f"{words}: {text.strip()}"))
    if "DB index is out of range" not in text:
        return None
    return NoDatabase(
        ServerUnfit(
            f"The server has no database {database}, which the URL names; most have /0 to /15, a node of a Cluster has one. Name "
            "another, or leave it out, or raise the server's `databases`."
        )
    )


def _refusal_text(error: BaseException, text: str) -> TarryError | None:
    """What a server says that will not do it, now or later, in words."""
    if isinstance(error, driver.OutOfMemoryError) or text.startswith("OOM"):
        return Unavailable(
            "The server's memory is full (maxmemory), nothing was written. Give it more, or finish and delete jobs: "
            "those still work."
        )
    if isinstance(error, driver.AuthenticationError) or text.startswith(("NOAUTH", "WRONGPASS")):
        return ServerUnfit(WRONG_LOGIN)
    if isinstance(error, driver.NoPermissionError) or text.startswith("NOPERM"):
        return NotPermitted(
            f"The server's ACL forbids something that tarry needs: {text.rstrip('.')}. The rules that each role needs are in "
            "docs/how-to/secure-the-server.md."
        )
    for said, words in _KNOWN_REFUSALS.items():
        if said in text:
            return (WrongType if said == "WRONGTYPE" else ServerUnfit)(f"{words}: {text}")
    return None
