"""Requests to a service as values, and the meaning of its answers."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypedDict, TypeVar
from urllib.parse import quote, unquote, urlencode, urlsplit

import msgspec
from msgspec.structs import replace

from tarry import errors
from tarry.core.requests import AnyRequest
from tarry.errors import BadInput, ServerUnfit, TarryError, Unavailable, UnknownTopic
from tarry.values import names, variables
from tarry.wire.endpoint import Endpoint

T = TypeVar("T")
S = TypeVar("S")
URL = "http://127.0.0.1:7070"
RETRY_STATUSES = frozenset({429, 502, 503, 504})
"""Ask again: the service drains, is not there, or has no server at the moment; or this client asked too much."""
PROXY_AUTH_STATUS = 407
PROXY_AUTH_NEEDED = (
    "A proxy between here and the service wants a user and password; HTTP_PROXY, HTTPS_PROXY or ALL_PROXY holds them, as "
    "http://user:password@host:port."
)
RAISED_CODES = (errors.ServerUnfit.code, errors.TopicFull.code)
"""Raised, and not repeated: a server that would be as unfit, and a topic that stays full until others take its jobs."""
UNKNOWN_TOPIC_HEADER = b"tarry-unknown-topic"
"""The header of a client to which an unknown topic is an empty one."""
REPLAY_HEADER = b"tarry-repeated"
"""The header of a request that may have been carried out already."""
TOKEN = re.compile(r"[!-~]+")
"""The characters that a header can carry."""
NOT_HTTP = "the connection ended, or what answers there does not speak HTTP"
MISSING_EXTRA = "Service clients need more than the library: pip install 'tarry[http]'."


class HTTPRequest(AnyRequest[T], eq=False):
    """One request. ``decode`` reads the body of a good answer (empty for 204)."""

    method: str
    path: str
    decode: Callable[[bytes], T]
    body: Any = None
    query: Mapping[str, str] | None = None
    key: str | None = None
    """The ``Idempotency-Key`` of an add."""
    wait: float = 0
    """Seconds that the service is asked to wait."""
    first: HTTPRequest[Any] | None = None
    """A request that must be sent before, once in the life of a client."""
    absent: tuple[str, Any] = ("", None)
    """The code of a problem that says no more than that it is not there, or is otherwise, and what is answered then."""
    unknown_is_empty: bool = False
    """An unknown topic is to be answered as an empty one."""

    def then(self, convert: Callable[[T], S]) -> HTTPRequest[S]:
        """The same request, with its answer converted."""
        decode = self.decode
        return replace(self, decode=lambda raw: convert(decode(raw)))  # type: ignore[arg-type]  # replace keeps T


def request_to(
    endpoint: Endpoint[T], *names: str, body: Any = None, known: tuple[Any, ...] = (), **options: Any
) -> HTTPRequest[T]:
    """A request to an endpoint. ``names``: those of its path; ``body``: its body; ``known``: what its answer is read with."""
    decode, unknown = endpoint.decoder(*known), UnknownTopic.code in endpoint.problem_codes
    return HTTPRequest(endpoint.method, endpoint.path_of(names), decode, body, unknown_is_empty=unknown, **options)


HTTPFlow = Generator[HTTPRequest[Any], Any, T]
"""A flow of requests."""


def ask(request: HTTPRequest[T]) -> HTTPFlow[T]:
    """Performs one request inside a flow, with its type."""
    answer: T = yield request
    return answer


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """The service's URL, the namespace and the token. Raises ``BadInput``."""

    url: str = field(repr=False)
    namespace: str | None
    token: str | None = field(repr=False)

    @classmethod
    def find(cls, url: str | None, namespace: str | None, token: str | None) -> ServiceAddress:
        variables.warn_of_unknown(os.environ)
        if namespace is not None:
            names.check_namespace(namespace)
        given = _checked_text(url, "url", "TARRY_SERVICE_URL") or URL
        try:
            parts = urlsplit(given)
            fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
            fits = fits and not (parts.query or parts.fragment or " " in given) and given.isprintable()
        except ValueError:
            fits = False
        if not fits:
            scheme, colon, _ = given.partition("://")
            shown = f"{scheme!r}…" if colon else "it begins with no scheme"
            raise BadInput(f"url: {shown}: a service is at http://host:port or https://host:port.")
        secret = _checked_text(token, "token", "TARRY_TOKEN")
        if secret and not TOKEN.fullmatch(secret):
            raise BadInput("token: it holds what no token has (blanks, line ends or letters beyond ASCII).")
        return cls(given.rstrip("/"), namespace, secret or None)

    @property
    def redacted(self) -> str:
        """Safe to log."""
        return urlsplit(self.url)._replace(netloc=urlsplit(self.url).netloc.rpartition("@")[2]).geturl()

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of every request. A user and password in the URL open a proxy that stands before the service."""
        parts = urlsplit(self.url)
        user, _, password = parts.netloc.rpartition("@")[0].partition(":")
        found = [(b"user-agent", b"tarry"), (b"accept", b"application/json")]
        if user or password:
            plain = f"{unquote(user)}:{unquote(password)}".encode()
            found.append((b"authorization", b"Basic " + b64encode(plain)))
        elif self.token is not None:
            found.append((b"authorization", f"Bearer {self.token}".encode()))
        return found

    def url_of(self, request: HTTPRequest[Any]) -> str:
        """The URL of a request."""
        query = dict(request.query or {})
        if self.namespace is not None:
            query["namespace"] = self.namespace
        return self.url + request.path + (f"?{urlencode(query, quote_via=quote)}" if query else "")


def own_headers(request: HTTPRequest[Any], content: bytes, *, repeated: bool) -> list[tuple[bytes, bytes]]:
    """The headers of one request, whose body is ``content``."""
    found: list[tuple[bytes, bytes]] = []
    if request.unknown_is_empty:
        found.append((UNKNOWN_TOPIC_HEADER, b"empty"))
    if request.key is not None:
        found.append((b"idempotency-key", request.key.encode()))
    if repeated:
        found.append((REPLAY_HEADER, b"1"))
    if request.body is not None:
        found.append((b"content-type", b"application/json"))
    if request.method != "GET":
        found.append((b"content-length", b"%d" % len(content)))
    return found


def _checked_text(given: object, what: str, variable: str) -> str:
    """Without the line end that it had in its file. Raises ``BadInput``, and shows nothing of it."""
    found = given or os.environ.get(variable) or ""
    if not isinstance(found, str):
        raise BadInput(f"{what}: {type(found).__name__} is not text; a {what} is a str.")
    return found.strip()


class RetryLater(Exception):  # never seen by users
    """The service asks to be asked again."""


class ProblemFields(TypedDict, total=False):
    """A service's error: see tarry/programs/serving/problems.py."""

    code: str
    detail: str
    topic: str
    id: str
    state: str
    done: int
    reason: str
    attempt: int | None
    reasons: dict[str, str]
    step: str
    lateness_ms: float


def answer_of(address: ServiceAddress, request: HTTPRequest[T], status: int, body: bytes) -> T:
    """Decodes an answer. Raises ``RetryLater``, the service's error, or an error if the answer is not a service's."""
    if 200 <= status < 300:
        try:
            return request.decode(body)
        except TarryError:
            raise
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as fault:
            raise not_a_service(address, f"its answer to {request.method} {request.path} cannot be read") from fault
    if status == PROXY_AUTH_STATUS:
        raise ServerUnfit(PROXY_AUTH_NEEDED)
    problem = _problem(body)
    code, instead = request.absent
    if code and code_of(problem) == code:
        return instead  # type: ignore[no-any-return]  # it is one
    if status in RETRY_STATUSES and code_of(problem) not in RAISED_CODES:
        raise RetryLater(problem.get("detail") or f"HTTP status {status}")
    if not problem.get("code") and (status < 400 or status in (404, 405)):
        raise not_a_service(address, f"it answers {request.method} {request.path} with HTTP status {status}")
    raise error_of(status, problem)


def not_a_service(address: ServiceAddress, what: str) -> ServerUnfit:
    """The error for an answer that is not a service's: a proxy's, a page, another program's."""
    return ServerUnfit(
        f"The program at {address.redacted} is no tarry service: {what}. Give the URL of a `tarry serve`."
    )


def invalid_address(address: ServiceAddress, fault: Exception) -> BadInput:
    """There can be no such address."""
    return BadInput(f"url: nothing can be sent to {address.redacted}: {fault}")


def code_of(problem: Mapping[str, Any]) -> str:
    """The code of a problem."""
    return str(problem.get("code"))


def error_of(status: int, problem: Mapping[str, Any]) -> TarryError:
    """Returns the error of a problem, with its fields."""
    detail = str(problem.get("detail") or f"The service answered with HTTP status {status}.")
    kind = _KINDS.get(code_of(problem), errors.NotAllowed if status in (401, 403) else None)
    if kind is None:
        return BadInput(detail) if 400 <= status < 500 else Unavailable(detail)
    found = kind(detail)
    for name in ("topic", "id", "state", "done", "reason", "attempt", "step"):
        if name in problem and hasattr(found, name):
            setattr(found, name, problem[name])
    if isinstance(found, errors.FallenBehind) and "lateness_ms" in problem:
        found.lateness = timedelta(milliseconds=problem["lateness_ms"])
    if isinstance(found, errors.StaleReceipt):
        found.reasons = problem.get("reasons") or {found.id: found.reason}
    return found


def unavailable_error(address: ServiceAddress, elapsed: float, fault: BaseException, proxy: str = "") -> Unavailable:
    """Returns the error of a request when patience is over. HTTP's own errors may quote headers, so they are not shown.
    ``proxy``: the proxy on the way, and its part in the fault."""
    quotes = type(fault).__name__.endswith("ProtocolError")
    text = NOT_HTTP if quotes else str(fault).rstrip(".") or type(fault).__name__
    text = f"{proxy}: {text}" if proxy else text
    error = Unavailable(
        f"The service at {address.redacted} did not answer within {elapsed:.1f} s: {text}. The call is safe to repeat."
    )
    error.__cause__ = None if quotes else fault
    return error


_KINDS: dict[str, type[TarryError]] = {
    kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TarryError)
}


_decode = msgspec.json.Decoder(ProblemFields).decode


def _problem(body: bytes) -> Mapping[str, Any]:
    """Nothing, where it is none."""
    try:
        return _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
