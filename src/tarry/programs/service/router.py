"""Routes, and how a path is matched. A module of routes has a ``RouteTable`` and is named in ``route_list.py``:

    table = RouteTable("locks")

    @table.route("GET", "/v1/locks/{name}", scopes=ANY_SCOPE, gives=lock_answers.LOCK, example=Example(answer=LockState(…)))
    async def look(request: ServiceRequest) -> LockState:
        "Who holds a lock, and for how long."                 (the docstring goes into OpenAPI and the reference page)
        return await request.client.lock(request.path["name"]).state()

A handler returns what its schema makes a model of, ``None`` (204), or one of ``responses.py``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args, get_type_hints
from urllib.parse import unquote

import msgspec

from tarry.clients.http.wire.schemas import Schema
from tarry.errors import BadInput
from tarry.programs.service import integers

if TYPE_CHECKING:
    from tarry.programs.service.problems import Problem

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

FLOAT_FOR_INTEGER = "got `float`"
Handler = Callable[[Any], Awaitable[Any]]
"""Of a ``ServiceRequest``."""
Decode = Callable[[bytes], Any]
_PATH_NAME = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Example:
    """An example of a request and its answer, for the documents."""

    request: Any = None
    answer: Any = None
    path: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Route:
    """One route."""

    tag: str
    method: str
    path: str
    handler: Handler
    scopes: frozenset[Scope]
    """The token must have one of these scopes."""
    body_model: Any = None
    """The model of the JSON body."""
    reads_body: bool = False
    """The handler reads the body itself, for it may not be JSON."""
    forms: bool = False
    """The body may also be a form."""
    query_model: Any = None
    """The model of the query."""
    gives: Any = None
    """The ``Schema`` of the answer, its model, or its type where it is no JSON; ``None``: 204."""
    or_null: bool = False
    """The answer may be ``null``."""
    media: str = "application/json"
    status: int = 200
    other_statuses: Mapping[int, str] = field(default_factory=dict)
    """Other statuses of success, and their descriptions."""
    problem_codes: tuple[str, ...] = ()
    """Codes of its problems, besides those of every route."""
    example: Example = field(default_factory=Example)
    jobs: Callable[[Any], int] | None = None
    """How many jobs a request adds or pops, by its payload; for the token's limit. Without it: none."""
    while_draining: bool = False
    any_method: bool = False
    """It answers any method; the documents show ``method``."""
    problem_answer: Callable[[Problem], Any] | None = None
    """Turns a problem into an answer with the route's status, for clients that know no other status."""
    new_names: tuple[str, ...] = ()
    """The parameters of its path that may name something new, and so may be neither ``.`` nor ``..``."""
    answers_head: bool = True
    """If it is a GET it also answers HEAD, because it changes nothing."""
    namespaced: bool = True
    """It is about one namespace, given by the query or by the token."""
    namespace: str = ""
    """It is about this namespace, whatever the request says."""
    decode: Decode = field(default=lambda _: None, repr=False)
    decode_query: Callable[[Mapping[str, str]], Any] = field(default=lambda _: None, repr=False)
    name: str = field(init=False)
    """The name of the operation in OpenAPI and in metrics."""
    path_names: tuple[str, ...] = field(init=False)
    """The parameters of the path."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.tag}_{self.handler.__name__}")
        object.__setattr__(self, "path_names", tuple(_PATH_NAME.findall(self.path)))

    @property
    def answer_model(self) -> Any:
        return self.gives.model if isinstance(self.gives, Schema) else self.gives

    def dump(self, answer: Any) -> msgspec.Struct:
        """The model of an answer: what the schema makes of a value of the library."""
        return answer if isinstance(answer, msgspec.Struct) else self.gives.dump(answer)

    @property
    def summary(self) -> str:
        return " ".join((inspect.getdoc(self.handler) or "").split())


class RouteTable:
    """The routes of one module."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.routes: list[Route] = []

    def route(
        self, method: str, path: str, *, scopes: frozenset[Scope], **options: Any
    ) -> Callable[[Handler], Handler]:
        """Decorates a handler. ``options`` are further fields of ``Route``."""

        def register(handler: Handler) -> Handler:
            body_model, query_model = options.get("body_model"), options.get("query_model")
            decoders: dict[str, Any] = {}
            if body_model is not None:
                decoders["decode"] = partial(_decode_json, msgspec.json.Decoder(body_model).decode, body_model)
            if query_model is not None:
                decoders["decode_query"] = partial(_decode_query, query_model, _text_fields(query_model))
            self.routes.append(Route(self.tag, method, path, handler, scopes, **options, **decoders))
            return handler

        return register


def _text_fields(model: Any) -> frozenset[str]:
    """The fields that may be any text."""
    hints = get_type_hints(model)  # without Annotated
    return frozenset(name for name, kind in hints.items() if str in (kind, *get_args(kind)))


def _decode_query(model: Any, texts: frozenset[str], query: Mapping[str, str]) -> Any:
    for name, text in query.items():
        if name not in texts and text.lower() == "null":  # msgspec would take it for None
            raise BadInput(f"query: {name} is null; leave it out.")
    return msgspec.convert(query, type=model, strict=False)


def _decode_json(decode: Decode, model: Any, raw: bytes) -> Any:
    try:
        return decode(raw)
    except msgspec.ValidationError as fault:
        if FLOAT_FOR_INTEGER not in str(fault):
            raise
        return decode(integers.normalize_integers(raw, model))  # 7.0 is an integer in JSON Schema


def one_job(_: Any) -> int:
    """For ``jobs=``: the request is about one job."""
    return 1


def count_n(payload: Any) -> int:
    """For ``jobs=``: the payload's ``n``."""
    return int(payload.n)


def count_items(field: str) -> Callable[[Any], int]:
    """For ``jobs=``: the length of a list in the payload."""
    return lambda payload: len(getattr(payload, field))


class PathNode:
    """A node of the tree: one segment of a path."""

    __slots__ = ("fixed", "parameter", "routes")

    def __init__(self) -> None:
        self.fixed: dict[str, PathNode] = {}
        self.parameter: PathNode | None = None
        self.routes: dict[str, Route] = {}


class PathTree:
    """Finds routes by the segments of a path, each decoded on its own: a topic may contain a slash (as %2F)."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = PathNode()
        for route in routes:
            node = self._root
            for part in route.path.split("/")[1:]:
                if part.startswith("{"):
                    node.parameter = node.parameter or PathNode()
                    node = node.parameter
                else:
                    node = node.fixed.setdefault(part, PathNode())
            if route.method in node.routes:
                raise AssertionError(f"two routes for {route.method} {route.path}")
            node.routes[route.method] = route

    def find(self, raw_path: str) -> tuple[dict[str, Route], list[str]] | None:
        """The routes of a path by method, and the values of its parameters; ``None`` if no route has the path."""
        node, found = self._root, list[str]()
        for part in raw_path.split("/")[1:]:
            child = node.fixed.get(part)
            if child is None:
                child = node.parameter
                if child is None or not part:
                    return None
                found.append(unquote_segment(part))
            node = child
        return (node.routes, found) if node.routes else None


def unquote_segment(part: str) -> str:
    """Decodes a segment of a path. Raises ``BadInput`` if it is not UTF-8."""
    if "%" not in part:
        return part
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise BadInput(f"path: {part!r} is not UTF-8, percent-encoded.") from None
