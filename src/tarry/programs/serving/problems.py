"""Problem details (RFC 9457): errors for programs.

    {"type": "/problems/stale_receipt", "title": "…", "status": 409, "detail": "Job 7 was …", "code": "stale_receipt", …}

``code`` is the code of the error in ``tarry.errors``, or of an ``HTTPError`` below; the error's attributes are further fields.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Mapping
from typing import ClassVar

import msgspec

from tarry import errors
from tarry.wire.types import ms

logger = logging.getLogger("tarry.service")
MEDIA = b"application/problem+json"
TRUNCATED = "Input data was truncated"
ENDS_EARLY = "its JSON is empty, ends too early, or has half of a surrogate pair at the end of a text"
"""The text for people of the decoder's ``TRUNCATED``."""
SOON_S = 1
"""When to retry, for ``Retry-After``."""
NO_SCAN = (
    "Locks are found by SCAN, which shows the names of all keys of the server, so the user of a role may not do it. Ask for a "
    "lock by its name, or ask as the server's administrator."
)


class HTTPError(Exception):
    """An error of the service only. Each has a status and a code; its docstring is the default message."""

    code: ClassVar[str]
    status: ClassVar[int]
    headers: dict[bytes, bytes]

    def __init__(self, message: str = "", **headers: str) -> None:
        super().__init__(message or inspect.getdoc(self))
        self.headers = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}


class UnknownRoute(HTTPError):
    """There is no such path. See /openapi.json for those that there are."""

    code, status = "unknown_route", 404


class UnservedRoute(UnknownRoute):
    """The path is one that this service has only if it is started otherwise."""


class UnknownJob(HTTPError):
    """No job has this id in this topic: it was finished or deleted, or never added."""

    code, status = "unknown_job", 404


class UnknownCursor(HTTPError):
    """No page ends here: give the cursor that a page answered, to the same question."""

    code, status = "unknown_cursor", 404


class UnknownSchedule(HTTPError):
    """No schedule has this id in this topic: it was deleted, or never put."""

    code, status = "unknown_schedule", 404


class WrongMethod(HTTPError):
    """The path has other methods, which the detail and the header Allow name."""

    code, status = "wrong_method", 405

    def __init__(self, allow: str) -> None:
        super().__init__(f"The path has no such method; it has {allow}.", allow=allow)


class TooLarge(HTTPError):
    """The request's body is larger than this service takes."""

    code, status = "too_large", 413


class TooSlow(HTTPError):
    """The request came too slowly. Its line and headers have 10 s, all of it 30 s; a body may take longer while 4 KiB a second come."""

    code, status = "too_slow", 408

    def __init__(self) -> None:
        super().__init__(connection="close")


class LongHead(HTTPError):
    """The request's line and headers are longer than 64 KiB. Put into the body what is long."""

    code, status = "long_head", 431


class UnknownVersion(HTTPError):
    """The request is of another version of HTTP; this service speaks HTTP/1.1."""

    code, status = "unknown_version", 505


class UnknownTransferCoding(HTTPError):
    """The body is coded for its way (Transfer-Encoding) otherwise than `chunked`. Send it as it is, or chunked."""

    code, status = "unknown_transfer_coding", 501


class WrongMedia(HTTPError):
    """The body is of a kind that cannot be meant here. Send application/json, or bytes with a type of their own."""

    code, status = "wrong_media", 415


class WrongCoding(HTTPError):
    """The body is compressed, or coded otherwise (Content-Encoding), which this service does not understand. Send it as it is."""

    code, status = "wrong_coding", 415

    def __init__(self) -> None:
        super().__init__(accept_encoding="identity")


class KeyReused(HTTPError):
    """This Idempotency-Key was used for another request, whose job exists. Use a new key for each request."""

    code, status = "key_reused", 422


class NoToken(HTTPError):
    """A token is needed: Authorization: Bearer tarry_…, made by `tarry token create`."""

    code, status = "not_allowed", 401


class Forbidden(HTTPError):
    """This token may not do this: it has another scope or another namespace."""

    code, status = "not_allowed", 403


class TooMany(HTTPError):
    """More calls or jobs a second than this token may. Wait as long as Retry-After says."""

    code, status = "too_many", 429


class Draining(HTTPError):
    """This service is about to end and takes no more. Ask again: another one, or this one's successor, will answer."""

    code, status = "draining", 503

    def __init__(self) -> None:
        super().__init__(retry_after=str(SOON_S))


class TooManyConnections(HTTPError):
    """This service has as many connections as it may have files. Close those that you do not use, and ask again."""

    code, status = "too_many_connections", 503

    def __init__(self) -> None:
        super().__init__(retry_after=str(SOON_S), connection="close")


class InternalError(HTTPError):
    """The service failed; its log says why, under this request's time."""

    code, status = "internal", 500


STATUS_OF: dict[type[errors.TarryError], int] = {
    errors.BadInput: 400,
    errors.JobExists: 409,
    errors.TopicFull: 429,
    errors.StaleReceipt: 409,
    errors.StepNotKept: 422,
    errors.NotKept: 409,
    errors.UnknownTopic: 404,
    errors.BodyError: 422,
    errors.Unavailable: 503,
    errors.Unconfirmed: 409,
    errors.ServerUnfit: 503,
    errors.NotAcquired: 409,
    errors.FallenBehind: 409,
}
CARRIED_FIELDS = ("topic", "id", "state", "done", "reason", "attempt", "reasons", "step")
"""Attributes of errors that become fields of the problem."""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem: why the request failed."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    topic: str = ""
    id: str = ""
    state: str = ""
    done: int = 0
    reason: str = ""
    attempt: int | None = None
    reasons: Mapping[str, str] = {}
    step: str = ""
    lateness_ms: float = 0


def problem_of(fault: Exception) -> tuple[Problem, list[tuple[bytes, bytes]]]:
    """The problem of an exception, and the headers of its response."""
    headers: list[tuple[bytes, bytes]] = []
    if isinstance(fault, (msgspec.MsgspecError, UnicodeDecodeError)):
        fault = errors.BadInput(f"request: {ENDS_EARLY if str(fault) == TRUNCATED else fault}.")
    elif isinstance(fault, RecursionError):
        fault = errors.BadInput("request: it is nested too deeply.")
    if isinstance(fault, errors.TarryError):
        status, code = status_of(type(fault)), fault.code
        carried = {name: value for name in CARRIED_FIELDS if (value := getattr(fault, name, None))}
        if isinstance(fault, errors.FallenBehind) and fault.lateness is not None:
            carried["lateness_ms"] = ms(fault.lateness)
        if isinstance(fault, (errors.Unavailable, errors.TopicFull)):
            headers = [(b"retry-after", b"%d" % SOON_S)]
        payload = str(fault)
    else:
        if not isinstance(fault, HTTPError):
            logger.error("A request failed.", exc_info=fault)
            fault = InternalError()
        status, code, carried, payload = fault.status, fault.code, {}, str(fault)
        headers = list(fault.headers.items())
        if isinstance(fault, NoToken):
            headers.append((b"www-authenticate", b'Bearer realm="tarry"'))
    return Problem(f"/problems/{code}", title_of(code), status, " ".join(payload.split()), code, **carried), headers


def status_of(kind: type[errors.TarryError]) -> int:
    return next((STATUS_OF[base] for base in kind.__mro__ if base in STATUS_OF), 500)


def all_codes() -> Iterator[tuple[str, int, str]]:
    """Every code, its status and its default message."""
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, errors.TarryError) and value in STATUS_OF:
            yield value.code, STATUS_OF[value], inspect.getdoc(value) or ""
    for kind in HTTPError.__subclasses__():
        yield kind.code, kind.status, inspect.getdoc(kind) or ""


def title_of(code: str) -> str:
    """A code for people: ``Stale receipt``."""
    return code.replace("_", " ").capitalize()
