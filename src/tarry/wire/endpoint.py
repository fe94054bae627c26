"""The endpoints of the API: method, path, models, scopes and example of each, once for the service, its clients and the documents.

STATS = Endpoint("GET", "/v1/topics/{topic}/stats", scopes=ANY_SCOPE, returns=topic_answers.STATS, example=Example(…))

@table.handles(endpoints.STATS)                   the service: the handler
request_to(STATS, topic)                          a client: the request, which reads its answer
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

from tarry.wire.schemas import Schema

T = TypeVar("T")
Scope = Literal["view", "produce", "consume", "admin"]
PRODUCE: frozenset[Scope] = frozenset({"produce", "admin"})
CONSUME: frozenset[Scope] = frozenset({"consume", "admin"})
VIEW: frozenset[Scope] = frozenset({"view", "consume", "admin"})
"""May list jobs with their bodies, as the dashboard does."""
ADMIN: frozenset[Scope] = frozenset({"admin"})
ANY_SCOPE: frozenset[Scope] = frozenset({"view", "produce", "consume", "admin"})
"""Any token."""
NO_TOKEN: frozenset[Scope] = frozenset()
"""No token needed."""
_PATH_NAME = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Example:
    """An example of a request and its answer, for the documents."""

    request: Any = None
    answer: Any = None
    path: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Endpoint(Generic[T]):
    """A method and a path, what a request takes, and what its answer gives."""

    method: str
    path: str
    scopes: frozenset[Scope] = field(kw_only=True)
    """The token must have one of these scopes."""
    returns: Schema[T] | type[T] = field(kw_only=True)
    """The schema of the answer (``NOTHING``: 204), its model, or its type where it is no JSON."""
    body_model: Any = field(default=None, kw_only=True)
    """The model of the JSON body."""
    reads_body: bool = field(default=False, kw_only=True)
    """The handler reads the body itself, for it may not be JSON."""
    forms: bool = field(default=False, kw_only=True)
    """The body may also be a form."""
    query_model: Any = field(default=None, kw_only=True)
    """The model of the query."""
    or_null: bool = field(default=False, kw_only=True)
    """The answer may be ``null``."""
    media: str = field(default="application/json", kw_only=True)
    status: int = field(default=200, kw_only=True)
    other_statuses: Mapping[int, str] = field(default_factory=dict, kw_only=True)
    """Other statuses of success, and their descriptions."""
    problem_codes: tuple[str, ...] = field(default=(), kw_only=True)
    """Codes of its problems, besides those of every endpoint."""
    example: Example = field(default_factory=Example, kw_only=True)
    jobs: Callable[[Any], int] | None = field(default=None, kw_only=True)
    """How many jobs a request adds or pops, by its payload; for the token's limit. Without it: none."""
    while_draining: bool = field(default=False, kw_only=True)
    namespaced: bool = field(default=True, kw_only=True)
    """Whether it is about one namespace, given by the query or by the token."""
    path_names: tuple[str, ...] = field(init=False)
    """The parameters of the path."""
    _template: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path_names", tuple(_PATH_NAME.findall(self.path)))
        object.__setattr__(self, "_template", _PATH_NAME.sub("%s", self.path))

    def path_of(self, names: tuple[str, ...]) -> str:
        """The path with these names, each percent-encoded."""
        return self._template % tuple(map(_segment, names))

    def decoder(self, *known: Any) -> Callable[[bytes], T]:
        """Reads an answer; ``known``: what its schema needs besides."""
        assert isinstance(self.returns, Schema), "it returns no JSON"
        return self.returns.decoder(*known) if known else self.returns.decode


def _segment(name: str) -> str:
    """A name as a part of a path. One of dots alone would mean the path above: they are encoded, too."""
    return quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")


def one_job(_: Any) -> int:
    """For ``jobs=``: the request is about one job."""
    return 1


def limit_of(payload: Any) -> int:
    """For ``jobs=``: the payload's ``limit``."""
    return int(payload.limit)


def count_items(field: str) -> Callable[[Any], int]:
    """For ``jobs=``: the length of a list in the payload."""
    return lambda payload: len(getattr(payload, field))
