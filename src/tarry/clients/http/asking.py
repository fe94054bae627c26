"""Requests as values: what a verb wants from a service, said without doing it; and what the answers mean."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import msgspec

from tarry import errors
from tarry.errors import BadInput, TarryError, Unavailable
from tarry.words import names

T = TypeVar("T")
URL = "http://127.0.0.1:7070"
ANSWER_S = 10.0
"""How long one answer may take, beside what was to be waited."""
AGAIN_STATUSES = frozenset({429, 502, 503, 504})
"""Ask again: the service drains, is not there, or has no server at the moment; or this client asked too much."""
REPEATED = "Tarry-Repeated"
"""The header that says: this may have been done already."""
MISSING = "Service clients need more than the library: pip install 'tarry[http]'."


@dataclass(slots=True)
class Ask(Generic[T]):
    """One request. ``decode`` reads the body of a good answer (empty for 204)."""

    method: str
    path: str
    decode: Callable[[bytes], T]
    said: Any = None
    query: Mapping[str, str] | None = None
    key: str | None = None
    """The ``Idempotency-Key`` of an add."""
    wait: float = 0
    """Seconds that the service is asked to wait."""


Asking = Generator[Ask[Any], Any, T]
"""A flow of requests."""


def ask(request: Ask[T]) -> Asking[T]:
    """Performs one request inside a flow, with its type."""
    answer: T = yield request
    return answer


@dataclass(frozen=True, slots=True)
class Place:
    """Where the service is, and who asks. Raises ``BadInput`` in words."""

    url: str
    namespace: str | None
    token: str | None

    @classmethod
    def find(cls, url: str | None, namespace: str | None, token: str | None) -> Place:
        if namespace is not None:
            names.namespace(namespace)
        given = url or os.environ.get("TARRY_SERVICE_URL") or URL
        try:
            parts = urlsplit(given)
            fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            fits = False
        if not fits:
            raise BadInput(
                f"url: {given.partition('://')[0]!r}…: a service is at http://host:port or https://host:port."
            )
        return cls(given.rstrip("/"), namespace, token or os.environ.get("TARRY_TOKEN") or None)

    @property
    def shown(self) -> str:
        """Safe to log."""
        return urlsplit(self.url)._replace(netloc=urlsplit(self.url).netloc.rpartition("@")[2]).geturl()

    def arguments(self, request: Ask[Any], *, repeated: bool) -> dict[str, Any]:
        """A request in the words of httpx."""
        headers = {"accept": "application/json"}
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        if request.key is not None:
            headers["idempotency-key"] = request.key
        if repeated:
            headers[REPEATED] = "1"
        query = dict(request.query or {})
        if self.namespace is not None:
            query["namespace"] = self.namespace
        content = None
        if request.said is not None:
            headers["content-type"] = "application/json"
            content = msgspec.json.encode(request.said)
        return {
            "method": request.method,
            "url": self.url + request.path,
            "params": query,
            "headers": headers,
            "content": content,
            "timeout": ANSWER_S + request.wait,
        }


class Later(Exception):  # never seen by users
    """The service asks to be asked again."""


def answer_of(request: Ask[T], status: int, body: bytes) -> T:
    """What an answer means. Raises ``Later``, or the error that the service told of."""
    if 200 <= status < 300:
        return request.decode(body)
    problem = _problem(body)
    if status in AGAIN_STATUSES:
        raise Later(problem.get("detail") or f"HTTP status {status}")
    raise error_of(status, problem)


def error_of(status: int, problem: Mapping[str, Any]) -> TarryError:
    """The error that a problem stands for, with what it carried."""
    detail = str(problem.get("detail") or f"The service answered with HTTP status {status}.")
    kind = _KINDS.get(str(problem.get("code")), errors.NotAllowed if status in (401, 403) else None)
    if kind is None:
        return BadInput(detail) if 400 <= status < 500 else Unavailable(detail)
    found = kind(detail)
    for name in ("id", "state", "done", "reason", "attempt"):
        if name in problem and hasattr(found, name):
            setattr(found, name, problem[name])
    if isinstance(found, errors.StaleReceipt):
        found.ids = tuple(problem.get("ids") or (found.id,))
    return found


def given_up(place: Place, spent: float, why: BaseException) -> Unavailable:
    """What the user is told when there is no more patience."""
    words = str(why).rstrip(".") or type(why).__name__
    return Unavailable(
        f"The service at {place.shown} did not answer within {spent:.1f} s: {words}. The call is safe to repeat."
    )


_KINDS: dict[str, type[TarryError]] = {
    kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TarryError)
}


def _problem(body: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
