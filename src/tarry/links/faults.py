"""What a driver's error means, in five kinds.

Lost        no answer: the connection broke, or the time was up. The call may or may not have been done.
Later       the server refuses for now: loading, a replica after a fail-over, a slow script. Nothing was done.
Elsewhere   a Cluster has moved the slot, or it is a replica. Nothing was done.
NoScript    the server does not know the script yet. Nothing was done.
Refused     the server will not do it, and says why.
"""

from __future__ import annotations

import re

import redis.exceptions as driver

from tarry.errors import ServerUnfit, TarryError, Unavailable
from tarry.idea.calls import WrongKind, refusal


class Fault(Exception):
    """An error that a runner handles; users never see one."""


class Lost(Fault):
    pass


class Unheard(Lost):
    """What was asked is done, and its confirmation was not heard."""


class Later(Fault):
    pass


class Elsewhere(Later):
    pass


class Replica(Elsewhere):
    """It takes no writes: its master is elsewhere."""


class NoScript(Fault):
    pass


class Refused(Fault):
    def __init__(self, error: TarryError) -> None:
        super().__init__(str(error))
        self.error = error


TROUBLES = (Fault, driver.RedisError, OSError, EOFError)
"""What talking to a server may raise. Anything else is not the server's: a signal's handler, a defect."""

_ELSEWHERE_WORDS = ("MOVED ", "ASK ")
_ELSEWHERE = (driver.MovedError, driver.AskError)
_LATER = (
    driver.BusyLoadingError,
    driver.MasterDownError,
    driver.ClusterDownError,
    driver.TryAgainError,
)
_IN_SCRIPT = re.compile(r"-((?:OOM|READONLY|LOADING|MASTERDOWN|NOREPLICAS|CLUSTERDOWN|NOPERM) .*)", re.S)
WRONG_USER = "The server refused the user or password; correct the URL."
UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
_KNOWN_NOES = {
    "WRONGTYPE": "A key has another kind than it should: the name is something else's, choose another; or a newer version of tarry "
    "keeps the topic, upgrade this process",
    "Protocol error": "What answers at this URL is no Redis or Valkey; correct the URL",
    "cluster support disabled": "What answers at this URL is no Cluster; use redis://host:port",
    UNTRUSTED: "The server's certificate cannot be trusted; name its CA with ?ssl_ca_certs=",
}
_NO_WAIT_HERE = "cannot be used with replica instances"
_LATER_WORDS = ("BUSY ", "LOADING", "MASTERDOWN", "NOREPLICAS", "TRYAGAIN", "CLUSTERDOWN", "UNBLOCKED")


def meaning(error: BaseException, what: str = "the call", *, database: int = 0) -> Fault:
    """The kind of a driver's error; ``database`` is the one that the URL names."""
    if isinstance(error, Fault):
        return error
    if type(error) is driver.ConnectionError and isinstance(error.__cause__, driver.ResponseError):
        error = error.__cause__  # said while connecting, wrapped by the awaiting driver
    text = str(error)
    if wrapped := _IN_SCRIPT.search(text):  # Redis 6.2 wraps what a command inside a script said
        text = wrapped[1]
    if isinstance(error, driver.ReadOnlyError) or text.startswith("READONLY") or _NO_WAIT_HERE in text:
        return Replica(text)
    if isinstance(error, _ELSEWHERE) or text.startswith(_ELSEWHERE_WORDS):
        return Elsewhere(text)
    if isinstance(error, driver.NoScriptError) or text.startswith("NOSCRIPT"):
        return NoScript(text)
    if isinstance(error, _LATER) or text.startswith(_LATER_WORDS):
        return Later(text)
    if (no := _no(error, text)) is not None:
        return Refused(no)
    if "DB index is out of range" in text:
        return Refused(
            ServerUnfit(
                f"The server has no database {database}, which the URL names; most have /0 to /15. Name another, or leave it "
                "out, or raise the server's `databases`."
            )
        )
    if isinstance(error, (driver.ConnectionError, driver.TimeoutError, OSError, EOFError)):
        return Lost(text or type(error).__name__)
    return Refused(refusal(text) or ServerUnfit(f"The server failed at {what}: {text}"))


def _no(error: BaseException, text: str) -> TarryError | None:
    """What a server says that will not do it, now or later, in words."""
    if isinstance(error, driver.OutOfMemoryError) or text.startswith("OOM"):
        return Unavailable(
            "The server's memory is full (maxmemory), nothing was written. Give it more, or finish and delete jobs: "
            "those still work."
        )
    if isinstance(error, driver.AuthenticationError) or text.startswith(("NOAUTH", "WRONGPASS")):
        return ServerUnfit(WRONG_USER)
    if isinstance(error, driver.NoPermissionError) or text.startswith("NOPERM"):
        return ServerUnfit(
            f"The server's ACL forbids something that tarry needs: {text.rstrip('.')}. The rules that each role needs are in "
            "docs/how-to/secure-the-server.md."
        )
    for said, words in _KNOWN_NOES.items():
        if said in text:
            return (WrongKind if said == "WRONGTYPE" else ServerUnfit)(f"{words}: {text}")
    return None
